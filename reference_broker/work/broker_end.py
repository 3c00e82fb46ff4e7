"""An exception that stops the broker, no matter where it is raised.

A handler may raise any other exception, even `SystemExit` or `asyncio.CancelledError`; its client then gets an error,
and other clients are not affected. Code that catches all exceptions must not catch a `BrokerEnd`.
"""

from __future__ import annotations

__all__ = ["BrokerEnd"]


class BrokerEnd(BaseException):
    """The broker must stop. Simulations raise this for a power cut."""
