"""Changes to file and folder names on disk, made in the background, one step at a time.

The creation and deletion of topics, the writing of checkpoints, and log upkeep thus never change a folder at the same
time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from kafkawire.reference_broker.work.background import Background

__all__ = ["BackgroundQueue"]

#: Calls its argument once a step may run.
When = Callable[[Callable[[], None]], None]


class _Step(NamedTuple):
    """A step to run in the background.

    Attributes:
        prepare: called when its turn comes; returns the work (see `Background`).
        done: see `Background`.
        when: see `BackgroundQueue.do`.
    """

    prepare: Callable[[], Callable[[], None]]
    done: Callable[[Exception | None], None]
    when: When


class BackgroundQueue:
    """A queue of blocking work, run one step at a time.

    Args:
        background: see `Background`.
    """

    def __init__(self, background: Background) -> None:
        self._background = background
        #: At most one step for each topic that a client creates or deletes, one for a checkpoint, and one for upkeep.
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
        """Queue a step in the background.

        Args:
            prepare: called when its turn comes; returns the work (see `Background`).
            done: see `Background`.
            place: the number of waiting steps that may run before this one; None for no limit.
            when: called when its turn comes; calls its argument once the step may run. Other steps wait until then.
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
                done(error)  # later steps must not wait forever
            else:
                self._background(work, done)

        step.when(begin)

    def close(self) -> None:
        """Stop starting steps."""
        self._is_closed = True
