"""What all clients share: metadata, routing, retries, group membership.

All of it is state machines without I/O; `core.py` joins them with the driver that runs them.
"""
