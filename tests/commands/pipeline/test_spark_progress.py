"""Progress is shown only on a terminal.

Method: use a hand-built tracker, and a console that writes to memory.
"""

from __future__ import annotations

import io
import threading
from typing import Any, NamedTuple

from rich.console import Console

from kafkawire.commands.pipeline.spark_progress import SparkProgress, tasks_of


class Stage(NamedTuple):
    numTasks: int
    numCompletedTasks: int


class Tracker:
    """Spark's status tracker, with two stages, one of which has just ended."""

    def __init__(self) -> None:
        self.asked = threading.Event()

    def getActiveStageIds(self) -> list[int]:
        return [1, 2, 3]

    def getStageInfo(self, stage: int) -> Any:
        if stage == 3:
            self.asked.set()
            return None
        return Stage(10 * stage, stage)


def test_tasks() -> None:
    assert tasks_of(Tracker()) == (3, 30)


def test_on_a_terminal() -> None:
    text, tracker = io.StringIO(), Tracker()
    with SparkProgress(tracker, Console(file=text, force_terminal=True, width=100)) as progress:
        progress.step("reading segments")
        assert tracker.asked.wait(10)
    assert "reading segments" in text.getvalue()


def test_elsewhere() -> None:
    text, tracker = io.StringIO(), Tracker()
    with SparkProgress(tracker, Console(file=text, force_terminal=False)) as progress:
        progress.step("reading segments")
    assert text.getvalue().strip() == ""
    assert not tracker.asked.is_set()
