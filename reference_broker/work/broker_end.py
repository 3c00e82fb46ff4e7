"""The exception that ends the broker, wherever it is raised.

The code of a handler may raise anything, `SystemExit` and `asyncio.CancelledError` included: its client gets an error,
and other clients are not affected. Code that catches all exceptions lets a `BrokerEnd` pass.
"""

from __future__ import annotations

__all__ = ["BrokerEnd"]


class BrokerEnd(BaseException):
    """The broker must stop: in simulations, because of a power cut."""
