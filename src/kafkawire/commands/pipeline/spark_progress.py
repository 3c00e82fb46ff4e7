"""A line on a terminal that says what Spark is doing: the step, and how many tasks of its stages are done."""

from __future__ import annotations

import threading
from types import TracebackType
from typing import Any, Final, Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

__all__ = ["SparkProgress", "tasks_of"]

#: Between two looks, in seconds: what a reader takes for movement.
_LOOK_SECONDS: Final = 0.25


class SparkProgress:
    """Shows progress while it is entered; nothing where standard error is no terminal.

    Args:
        tracker: Spark's status tracker.
        console: where it is shown.
    """

    def __init__(self, tracker: Any, console: Console) -> None:
        self._tracker = tracker
        self._bar = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(30),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self._task = self._bar.add_task("Spark", total=None)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._look, name="kafkawire-progress", daemon=True)

    def step(self, text: str) -> None:
        """Say what comes next."""
        self._bar.update(self._task, description=text, completed=0, total=None)

    def __enter__(self) -> Self:
        self._bar.start()
        if not self._bar.disable:
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join()
        self._bar.stop()

    def _look(self) -> None:
        while not self._ended.wait(_LOOK_SECONDS):
            done, total = tasks_of(self._tracker)
            if total:
                self._bar.update(self._task, completed=done, total=total)


def tasks_of(tracker: Any) -> tuple[int, int]:
    """Return how many tasks of the stages that run are done, and how many there are."""
    done = total = 0
    for stage in tracker.getActiveStageIds():
        info = tracker.getStageInfo(stage)
        if info is not None:  # it may have ended just now
            done += info.numCompletedTasks
            total += info.numTasks
    return done, total
