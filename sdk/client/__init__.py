"""What all clients share: metadata, routing, retries, group membership.

Metadata, backoff and the group member are state machines without I/O; `cluster.py` and `offsets.py` still await.
"""
