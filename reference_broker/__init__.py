"""A broker that keeps Kafka's own files."""
