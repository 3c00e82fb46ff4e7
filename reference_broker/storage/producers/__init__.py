"""The producers known to a log, for detecting duplicates and tracking transactions."""
