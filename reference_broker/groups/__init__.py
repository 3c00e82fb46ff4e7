"""The coordinator of classic groups and the store of committed offsets."""
