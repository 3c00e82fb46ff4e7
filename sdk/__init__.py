"""The SDK: codecs, records, connections, producer, consumer, admin and Spark decoders."""
