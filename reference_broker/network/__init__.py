"""Networking: listeners, connections, their shared memory, the clock and the threads."""
