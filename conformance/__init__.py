"""Compare a codec or a broker with Apache Kafka."""
