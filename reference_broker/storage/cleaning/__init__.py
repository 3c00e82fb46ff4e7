"""Removal and compaction of old records."""
