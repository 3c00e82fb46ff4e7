"""Blocking work: how it is handed to another thread, and how its end is reported where requests are handled."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable

__all__ = ["Background", "Each", "at_once", "call", "one_by_one"]

logger = logging.getLogger("kafkawire.broker")

#: Runs blocking work: the first function runs elsewhere; the second runs where requests are handled, with the error or
#: None.
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
    """Call back; a callback that fails takes no other with it, nor what it is told of."""
    try:
        callback(*arguments)
    except Exception:
        logger.exception("a callback of a log failed")


#: Runs pieces of blocking work that have nothing to do with each other, and returns when all are done.
Each = Callable[[Iterable[Callable[[], None]]], None]


def one_by_one(works: Iterable[Callable[[], None]]) -> None:
    """Run pieces of work one after the other."""
    for work in works:
        work()
