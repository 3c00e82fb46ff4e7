"""The replicas of a broker: high watermarks, leadership and fetch sessions."""
