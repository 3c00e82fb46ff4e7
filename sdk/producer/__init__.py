"""The producer, which sends records."""
