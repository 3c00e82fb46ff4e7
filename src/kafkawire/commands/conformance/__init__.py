"""`kafkawire conformance`: compare codecs and brokers with Apache Kafka."""
