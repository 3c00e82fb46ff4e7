"""Request routing: the cluster's metadata, connections, calls and their retries.

Clients use this package, as do brokers that talk to other brokers. It consists of state machines without I/O, which the
driver in `transport/driver.py` runs.
"""
