"""What logs need from outside: a disk, a thread for what may block, and timers.

Work that blocks (syncing, creating and removing files, checkpoints) is handed to `background`; everything else, and
all state, stays where requests are handled.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from kafkawire.reference_broker.storage.disk.disk import Disk
from kafkawire.reference_broker.work.timers import Timers
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.log_limit import LogLimit
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode

__all__ = ["Background", "Each", "LogServices", "at_once", "call", "one_by_one", "storage_error"]

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


@dataclass(slots=True)
class LogServices:
    """What logs need from outside.

    Attributes:
        disk: where the files are.
        background: see `Background`.
        timers: for what is due later.
        clock: returns the time in milliseconds, for `lines` and for what is tried again.
        lines: what clients bring about is written by it, with repetitions held back.
    """

    disk: Disk
    background: Background = at_once
    timers: Timers = field(default_factory=Timers)
    clock: Callable[[], int] = lambda: 0
    lines: LogLimit = field(default_factory=lambda: LogLimit(logger))


def storage_error(error: Exception) -> BrokerError:
    """Return what clients are told of a disk that has failed."""
    return BrokerError(ErrorCode.KAFKA_STORAGE_ERROR, str(error))
