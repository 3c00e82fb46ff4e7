"""The client side: codecs, records, connection, producer, consumer and admin."""
