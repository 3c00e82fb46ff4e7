"""The reference broker: serves Kafka's protocol from Kafka's own files."""
