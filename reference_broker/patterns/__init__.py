"""Expressions that choose topics by name, as Kafka's brokers match them."""
