"""What ends the broker, wherever it is raised.

The code of a handler may raise anything, `SystemExit` and `asyncio.CancelledError` included: its client gets an error,
and the others notice nothing. Code that catches all that lets a `BrokerEnd` pass.
"""

from __future__ import annotations

__all__ = ["BrokerEnd"]


class BrokerEnd(BaseException):
    """Nothing of the broker may go on: in simulations, because the power is gone."""
