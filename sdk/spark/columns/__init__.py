"""Functions to decode columns of raw record batches, requests, responses and internal records in any DataFrame."""
