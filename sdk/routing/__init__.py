"""How requests find their broker: the cluster's metadata, connections, calls and when they are repeated.

Clients need this, and so do brokers that talk to brokers. All of it is state machines without I/O; the driver in
`transport/driver.py` runs them.
"""
