"""The parts that all clients share, besides `routing/` and `groups/`: options, security, arguments, telemetry, hints.

`core.py` connects a client's machines with the driver that runs them.
"""
