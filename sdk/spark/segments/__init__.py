"""The data source `kafka_segments`, for folders of log segments from a broker, its backup or its tiered storage."""
