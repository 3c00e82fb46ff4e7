"""The parts shared by all clients, besides `routing/` and `groups/`: options, security, arguments, telemetry, hints.

`core.py` connects a client's machines with the driver that runs them.
"""
