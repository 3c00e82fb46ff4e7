"""Streams groups (KIP-1071) in the group coordinator."""
