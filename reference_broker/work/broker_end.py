"""The exception that ends the broker, wherever it is raised.

A handler may raise anything, including `SystemExit` and `asyncio.CancelledError`: its client gets an error, and other
clients are not affected. Code that catches all exceptions lets a `BrokerEnd` through.
"""

from __future__ import annotations

__all__ = ["BrokerEnd"]


class BrokerEnd(BaseException):
    """The broker must stop; in simulations, because of a power cut."""
