"""Connections over TCP and in memory: the only part of the SDK that touches sockets."""
