"""What changes names on the disk, one step after the other in the background.

Topics that are created and deleted, checkpoints, and the upkeep of logs: no two of them meet in a folder.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from kafkawire.reference_broker.work.background import Background

__all__ = ["BackgroundQueue"]

#: Calls what it is given once a step may be done.
When = Callable[[Callable[[], None]], None]


class _Step(NamedTuple):
    """Something to be done in the background.

    Attributes:
        prepare: called when its turn comes; returns the work, see `Background`.
        done: see `Background`.
        when: see `BackgroundQueue.do`.
    """

    prepare: Callable[[], Callable[[], None]]
    done: Callable[[Exception | None], None]
    when: When


class BackgroundQueue:
    """Pieces of blocking work that are done one after the other.

    Args:
        background: see `Background`.
    """

    def __init__(self, background: Background) -> None:
        self._background = background
        #: One for each topic that a client creates or deletes, one checkpoint, and one of the upkeep.
        self._steps: deque[_Step] = deque()
        self._is_stepping = False
        self._is_closed = False

    def do(
        self,
        prepare: Callable[[], Callable[[], None]],
        done: Callable[[Exception | None], None],
        *,
        place: int | None = None,
        when: When = lambda begin: begin(),
    ) -> None:
        """Do something in the background.

        Args:
            prepare: called when its turn comes; returns the work, see `Background`.
            done: see `Background`.
            place: how many of the steps that wait may come before it; None for all of them.
            when: called when its turn comes; calls what it is given once the step may be done. Others wait meanwhile.
        """
        self._steps.insert(len(self._steps) if place is None else place, _Step(prepare, done, when))
        self._next()

    def _next(self) -> None:
        if self._is_stepping or self._is_closed or not self._steps:
            return
        self._is_stepping = True
        step = self._steps.popleft()

        def done(error: Exception | None) -> None:
            try:
                step.done(error)
            finally:
                self._is_stepping = False
                self._next()

        def begin() -> None:
            if self._is_closed:
                return
            try:
                work = step.prepare()
            except Exception as error:
                done(error)  # those behind it must not wait for ever
            else:
                self._background(work, done)

        step.when(begin)

    def close(self) -> None:
        """Begin no further step."""
        self._is_closed = True
