"""Decode record batches in Spark."""
