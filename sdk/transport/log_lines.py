"""Keep an application's log handlers from ending a client or blocking an I/O thread.

Names that other programs choose, such as client ids, cannot forge log lines, because unprintable characters are
escaped.

If a handler raises, its `handleError` reports that; errors of filters are reported as handlers do by default.

`logging` locks each handler while it writes, is flushed or is closed, and locks everything while `dictConfig` runs. A
thread that waits for a client may hold such a lock: a log handler that sends to Kafka starts a producer when it is
created, and closes it at the end of the program. If the I/O thread waited for the same lock to write a line, both would
wait forever. Therefore the I/O thread waits only briefly, and then leaves the line to another thread, for which nothing
waits.
"""

from __future__ import annotations

import logging
from _thread import get_ident
from collections import deque
from collections.abc import Iterator
from queue import SimpleQueue
from threading import RLock, Thread
from typing import Any, Final

from kafkawire.sdk.transport.user_code import contained

__all__ = ["LATE_LINES_MAX", "LOGGERS", "PATIENCE_SECONDS", "begin_io_thread", "end_io_thread", "guard_loggers"]

#: The loggers of the clients and the broker. Spark's workers use the Spark loggers, and kazoo uses the kazoo logger.
LOGGERS: Final = (
    "kafkawire.broker",
    "kafkawire.broker.authorizer",
    "kafkawire.broker.requests",
    "kafkawire.client",
    "kafkawire.consumer",
    "kafkawire.group",
    "kafkawire.producer",
    "kafkawire.registry",
    "kafkawire.security",
)

#: How long an I/O thread waits for a handler's lock: long enough for other threads to write their lines, but short
#: compared with a heartbeat interval.
PATIENCE_SECONDS: Final = 0.1

#: The maximum number of lines waiting for their handlers; further lines are dropped. Lines about outages are limited to
#: one per subject in ten seconds, so this number suffices for more than an hour.
LATE_LINES_MAX: Final = 1_000

_RLOCK: Final = type(RLock())

#: Reports errors in filters the way handlers report their own errors.
_REPORTER: Final = logging.NullHandler()

_io_threads: set[int] = set()


def guard_loggers() -> None:
    """Make the loggers behave as described in this module; call this before a client or a broker starts."""
    for name in LOGGERS:
        logger = logging.getLogger(name)
        if not isinstance(logger, _Guarded):
            logger.__class__ = _guarded(type(logger))


def begin_io_thread() -> None:
    """Treat the calling thread as an I/O thread until `end_io_thread`."""
    _io_threads.add(get_ident())


def end_io_thread() -> None:
    """Undo `begin_io_thread`: the calling thread may wait for locks again."""
    _io_threads.discard(get_ident())


class _Guarded(logging.Logger):
    """A logger for threads that must not block."""

    def isEnabledFor(self, level: int) -> bool:
        if get_ident() not in _io_threads:
            return super().isEnabledFor(level)
        # `logging` would cache the answer, for which it takes a lock
        return not self.disabled and self.manager.disable < level and level >= self.getEffectiveLevel()

    def makeRecord(
        self, name: str, level: int, fn: str, lno: int, msg: object, args: Any, *more: Any, **named: Any
    ) -> Any:
        if type(args) is tuple:
            args = tuple(map(_printable, args))
        return super().makeRecord(name, level, fn, lno, msg, args, *more, **named)

    def filter(self, record: logging.LogRecord) -> Any:  # since Python 3.12, a filter may return another record
        try:
            return super().filter(record)
        except BaseException as error:
            contained(error)
            _REPORTER.handleError(record)
            return True

    def callHandlers(self, record: logging.LogRecord) -> None:
        is_io_thread = get_ident() in _io_threads
        for handler in self._all_handlers():
            if record.levelno >= handler.level:
                if is_io_thread:
                    _hand_over(handler, record)
                else:
                    _handle(handler, record)

    def _all_handlers(self) -> Iterator[logging.Handler]:
        """Yield the handlers of this logger and its ancestors or, if there are none, the handler of last resort."""
        logger: logging.Logger | None = self
        found = False
        while logger is not None:
            for handler in logger.handlers:
                found = True
                yield handler
            logger = logger.parent if logger.propagate else None
        if not found and logging.lastResort is not None:
            yield logging.lastResort


def _printable(argument: object) -> object:
    """Return an argument of a log line, or its escaped text if the text has unprintable characters."""
    if not isinstance(argument, str | BaseException):
        return argument
    try:
        text = str(argument)
    except BaseException as error:  # the handler runs into the error again, and reports it
        contained(error)
        return argument
    if text.isprintable():
        return argument
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)


def _guarded(kind: type[logging.Logger]) -> type[_Guarded]:
    """Return a guarded logger class that derives from the application's own logger class."""
    return _Guarded if kind is logging.Logger else type(kind.__name__, (_Guarded, kind), {})


def _handle(handler: logging.Handler, record: logging.LogRecord) -> None:
    try:
        handler.handle(record)
    except BaseException as error:
        contained(error)
        handler.handleError(record)


def _hand_over(handler: logging.Handler, record: logging.LogRecord) -> None:
    """Write a line from an I/O thread, either now or later."""
    lock = handler.lock
    if not isinstance(lock, _RLOCK):  # the handler does not lock, like `NullHandler`, or has its own kind of lock
        _handle(handler, record)
    elif lock.acquire(timeout=0 if _late_lines.are_waiting() else PATIENCE_SECONDS):
        try:
            _handle(handler, record)
        finally:
            lock.release()
    else:
        _late_lines.add(handler, record)


class _LateLines:
    """Lines whose handlers were locked, and the thread that waits for those handlers."""

    def __init__(self) -> None:
        self._lines: deque[tuple[logging.Handler, logging.LogRecord]] = deque()
        self._added: SimpleQueue[None] = SimpleQueue()
        self._thread: Thread | None = None

    def are_waiting(self) -> bool:
        return len(self._lines) > 0

    def add(self, handler: logging.Handler, record: logging.LogRecord) -> None:
        if len(self._lines) >= LATE_LINES_MAX:
            return
        self._lines.append((handler, record))
        self._added.put(None)
        if self._thread is None or not self._thread.is_alive():  # for example in a forked child
            self._thread = Thread(target=self._write, name="kafkawire-log", daemon=True)
            self._thread.start()

    def _write(self) -> None:
        while True:
            self._added.get()
            _handle(*self._lines[0])
            self._lines.popleft()


_late_lines: Final = _LateLines()
