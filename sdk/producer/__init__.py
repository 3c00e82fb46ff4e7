"""The producer: sends records."""
