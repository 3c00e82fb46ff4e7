"""Show Spark's progress on one line of a terminal: the step, and the number of finished tasks."""

from __future__ import annotations

import threading
from types import TracebackType
from typing import Any, Final, Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

__all__ = ["SparkProgress", "tasks_of"]

#: Seconds between two updates, short enough for the display to look alive.
_LOOK_SECONDS: Final = 0.25


class SparkProgress:
    """Shows progress inside a `with` block, if standard error is a terminal.

    Args:
        tracker: Spark's status tracker.
        console: the console that shows the progress.
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
        """Show the next step."""
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
    """Return the number of finished tasks and the number of all tasks in the active stages."""
    done = total = 0
    for stage in tracker.getActiveStageIds():
        info = tracker.getStageInfo(stage)
        if info is not None:  # the stage may just have ended
            done += info.numCompletedTasks
            total += info.numTasks
    return done, total
