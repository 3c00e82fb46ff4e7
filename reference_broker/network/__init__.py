"""Networking: listeners, connections and their shared memory, the clock, and threads."""
