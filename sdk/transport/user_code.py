"""What the application's own code may raise where a client calls it: callbacks, hooks, listeners.

A client goes on after it, so callers of such code catch `BaseException` and pass it to `contained`. Not every error is
an `Exception`: `CancelledError` of a future that somebody else has cancelled is none, nor is what `pytest.fail` raises.
"""

from __future__ import annotations

import asyncio
from typing import NoReturn

from kafkawire.sdk.errors import LocalProtocolError
from kafkawire.sdk.protocol.values import quoted
from kafkawire.sdk.transport import waiting

__all__ = ["as_exception", "contained"]


def contained(error: BaseException) -> Exception:
    """Return what the application's code raised, as an error that can be handed on.

    `KeyboardInterrupt` and `SystemExit` end the program nevertheless: the event loop raises them as soon as what runs
    now is over, and the state of the client is whole again. On an I/O thread they end nothing, as Python has it for
    every thread but the main one.

    Raises:
        KeyboardInterrupt, SystemExit: no event loop runs here: the application itself is waiting for this call.
    """
    if isinstance(error, KeyboardInterrupt | SystemExit):
        loop = asyncio._get_running_loop()
        if loop is None:
            raise error
        if loop not in waiting.io_loops:
            loop.call_soon(_raise, error)
    return as_exception(error)


def as_exception(error: BaseException) -> Exception:
    """Return an error itself if it is an `Exception`, or one that it is the cause of."""
    if isinstance(error, Exception):
        return error
    failure = LocalProtocolError(f"{quoted(error, 200)} was raised")
    failure.__cause__ = error
    return failure


def _raise(error: BaseException) -> NoReturn:
    raise error
