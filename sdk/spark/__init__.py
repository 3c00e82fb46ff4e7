"""Spark: decode columns of raw record batches."""
