"""`kafkawire conformance`: codecs and brokers beside Apache Kafka."""
