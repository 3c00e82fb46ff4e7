"""The data source `kafka_segments`: folders of log segments from a broker, its backup or its tiered storage."""
