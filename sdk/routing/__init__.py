"""Routing of requests to brokers: the cluster's metadata, connections, calls and their retries.

Clients need this, and so do brokers that talk to brokers. It consists of state machines without I/O, run by the driver
in `transport/driver.py`.
"""
