"""Background work on a log's files: running work is counted, and operations that rename files take turns.

The folder of a log must not be removed, or created for another topic, while such work runs.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Protocol

from kafkawire.reference_broker.storage.services import LogServices
from kafkawire.reference_broker.work.background import call

__all__ = ["FileWork", "Turns", "when_all_quiet"]


class FileWork:
    """The background work of one log.

    Args:
        services: see `LogServices`.
    """

    def __init__(self, services: LogServices) -> None:
        self._services = services
        self._in_flight = 0
        #: Callbacks waiting until no work is running.
        self._when_quiet: list[Callable[[], None]] = []

    def do(self, work: Callable[[], None], done: Callable[[Exception | None], None]) -> None:
        """Run work on the files in the background; see `Background`."""
        self._in_flight += 1

        def ended(error: Exception | None) -> None:
            self._in_flight -= 1
            try:
                done(error)
            finally:
                if not self._in_flight:
                    self._call_when_quiet()

        self._services.background(work, ended)

    def when_quiet(self, callback: Callable[[], None]) -> None:
        """Call `callback` once no background work uses the files; a log that has ended starts no more work."""
        self._when_quiet.append(callback)
        if not self._in_flight:
            self._call_when_quiet()

    def _call_when_quiet(self) -> None:
        waiting, self._when_quiet = self._when_quiet, []
        for callback in waiting:
            call(callback)


class Turns:
    """Compaction, retention and truncation of a log take turns removing or replacing its files."""

    def __init__(self) -> None:
        self._is_taken = False
        self._waiting: deque[Callable[[], None]] = deque()

    def take(self, callback: Callable[[], None]) -> None:
        """Call `callback` when its turn comes, which may be immediately; `give` ends the turn."""
        self._waiting.append(callback)
        self._begin_next()

    def give(self) -> None:
        """End the current turn."""
        self._is_taken = False
        self._begin_next()

    def _begin_next(self) -> None:
        if self._waiting and not self._is_taken:
            self._is_taken = True
            call(self._waiting.popleft())


class _HasQuiet(Protocol):
    def when_quiet(self, callback: Callable[[], None]) -> None: ...


def when_all_quiet(logs: Sequence[_HasQuiet], callback: Callable[[], None]) -> None:
    """Call `callback` once no background work uses the files of logs that have ended."""
    left = len(logs) + 1

    def quiet() -> None:
        nonlocal left
        left -= 1
        if not left:
            callback()

    for log in logs:
        log.when_quiet(quiet)
    quiet()
