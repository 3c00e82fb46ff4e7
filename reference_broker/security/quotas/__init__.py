"""Quotas: how fast clients may produce, fetch, use the broker's time, change topics and connect."""
