"""Interfaces for blocking work: hand it to another thread, and report its end where requests are handled."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable

__all__ = ["Background", "Each", "at_once", "call", "one_by_one"]

logger = logging.getLogger("kafkawire.broker")

#: Runs blocking work: the first function runs elsewhere; the second runs where requests are handled, and gets the error
#: or None.
Background = Callable[[Callable[[], None], Callable[[Exception | None], None]], None]


def at_once(work: Callable[[], None], done: Callable[[Exception | None], None]) -> None:
    """Run blocking work in place."""
    try:
        work()
    except OSError as error:
        done(error)
    else:
        done(None)


def call(callback: Callable[..., object], *arguments: object) -> None:
    """Run a callback; if it fails, neither other callbacks nor the work that it belongs to are stopped."""
    try:
        callback(*arguments)
    except Exception:
        logger.exception("a callback of a log failed")


#: Runs independent pieces of blocking work, and returns when all of them are done.
Each = Callable[[Iterable[Callable[[], None]]], None]


def one_by_one(works: Iterable[Callable[[], None]]) -> None:
    """Run pieces of work one after another."""
    for work in works:
        work()
