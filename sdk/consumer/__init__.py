"""Read records."""
