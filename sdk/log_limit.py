"""Keep an outage from flooding the log: write at most one line per interval and subject, and count the others.

A machine has a `LogLimit` for its logger and gives each line a subject, for example ("not stored", topic). Lines about
different subjects do not delay each other. docs/observability.md lists the loggers.
"""

from __future__ import annotations

import logging
from collections.abc import Hashable
from typing import Final

__all__ = ["INTERVAL_MS", "SUBJECTS_MAX", "LogLimit"]

#: An outage shows up immediately, and adds at most 360 lines per subject and hour.
INTERVAL_MS: Final = 10_000

#: The maximum number of remembered subjects, which exceeds the number of brokers in any cluster. Beyond that, the
#: oldest subject is forgotten, and the next line about it may come early.
SUBJECTS_MAX: Final = 1_000


class LogLimit:
    """Write to one logger, and suppress repeated lines.

    Args:
        logger: receives the lines.
    """

    def __init__(self, logger: logging.Logger) -> None:
        self._logger = logger
        self._subjects: dict[Hashable, tuple[int, int]] = {}

    def info(self, subject: Hashable, now_ms: int, text: str, *arguments: object) -> None:
        """Log something worth knowing, such as a recovery or a change."""
        self._write(logging.INFO, subject, now_ms, text, arguments)

    def warning(self, subject: Hashable, now_ms: int, text: str, *arguments: object) -> None:
        """Log a failure that will be retried."""
        self._write(logging.WARNING, subject, now_ms, text, arguments)

    def error(self, subject: Hashable, now_ms: int, text: str, *arguments: object) -> None:
        """Log a permanent failure."""
        self._write(logging.ERROR, subject, now_ms, text, arguments)

    def exception(self, subject: Hashable, now_ms: int, text: str, *arguments: object) -> None:
        """Log a bug in this code with its traceback; for use in an `except` clause."""
        self._write(logging.ERROR, subject, now_ms, text, arguments, has_traceback=True)

    def _write(
        self,
        level: int,
        subject: Hashable,
        now_ms: int,
        text: str,
        arguments: tuple[object, ...],
        *,
        has_traceback: bool = False,
    ) -> None:
        not_before_ms, held_back = self._subjects.get(subject, (now_ms, 0))
        if not_before_ms - INTERVAL_MS <= now_ms < not_before_ms:  # unless the clock was set back
            self._subjects[subject] = not_before_ms, held_back + 1
            return
        self._subjects.pop(subject, None)
        if len(self._subjects) >= SUBJECTS_MAX:
            del self._subjects[next(iter(self._subjects))]
        self._subjects[subject] = now_ms + INTERVAL_MS, 0
        if held_back:
            text, arguments = text + " (and %d more like it)", (*arguments, held_back)
        self._logger.log(level, text, *arguments, exc_info=has_traceback, stacklevel=3)
