"""The Spark data source that fetches from brokers."""
