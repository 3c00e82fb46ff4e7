"""The reference broker, which serves Kafka's protocol from Kafka's own files."""
