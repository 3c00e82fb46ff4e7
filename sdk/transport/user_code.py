"""Errors raised by application code that a client calls: callbacks, hooks, listeners.

A client continues after such an error, so code that calls the application catches `BaseException` and passes it to
`contained`. Not every error is an `Exception`: the `CancelledError` of a future cancelled elsewhere is not one, nor is
the error that `pytest.fail` raises.
"""

from __future__ import annotations

import asyncio
from typing import NoReturn

from kafkawire.sdk.errors import LocalProtocolError
from kafkawire.sdk.protocol.values import quoted
from kafkawire.sdk.transport import waiting

__all__ = ["as_exception", "contained"]


def contained(error: BaseException) -> Exception:
    """Return an error from application code in a form that can be passed on.

    `KeyboardInterrupt` and `SystemExit` still end the program: the event loop raises them as soon as the current
    callback has returned and the client's state is consistent again. On an I/O thread, they end nothing, as on any
    Python thread other than the main one.

    Raises:
        KeyboardInterrupt, SystemExit: no event loop is running here, so the application itself is waiting for this
            call.
    """
    if isinstance(error, KeyboardInterrupt | SystemExit):
        loop = asyncio._get_running_loop()
        if loop is None:
            raise error
        if loop not in waiting.io_loops:
            loop.call_soon(_raise, error)
    return as_exception(error)


def as_exception(error: BaseException) -> Exception:
    """Return the error if it is an `Exception`, otherwise an exception with the error as its cause."""
    if isinstance(error, Exception):
        return error
    failure = LocalProtocolError(f"{quoted(error, 200)} was raised")
    failure.__cause__ = error
    return failure


def _raise(error: BaseException) -> NoReturn:
    raise error
