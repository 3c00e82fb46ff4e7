"""Interfaces for blocking work, which runs on another thread and reports completion on the request thread."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable

__all__ = ["Background", "Each", "at_once", "call", "one_by_one"]

logger = logging.getLogger("kafkawire.broker")

#: Runs blocking work. The first function runs on another thread; the second runs on the request thread afterwards, and
#: gets the error or None.
Background = Callable[[Callable[[], None], Callable[[Exception | None], None]], None]


def at_once(work: Callable[[], None], done: Callable[[Exception | None], None]) -> None:
    """Run blocking work immediately, on the calling thread."""
    try:
        work()
    except OSError as error:
        done(error)
    else:
        done(None)


def call(callback: Callable[..., object], *arguments: object) -> None:
    """Run a callback; if it fails, log the error, so other callbacks and the surrounding work continue."""
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
