"""What all clients share beside `routing/` and `groups/`: options, security, arguments, metrics for the cluster, hints.

`core.py` joins a client's machines with the driver that runs them.
"""
