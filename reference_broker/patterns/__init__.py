"""Regular expressions for topic names, with the semantics of Kafka's brokers."""
