"""The data source `kafka_segments`: folders of log segments, of a broker, its backup or its tiered storage."""
