"""The producers known to a log, which it needs to detect duplicates and track transactions."""
