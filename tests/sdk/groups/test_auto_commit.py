"""Automatic commits happen once per interval, one at a time, and stop when told to."""

from __future__ import annotations

import logging
from collections.abc import Mapping

import pytest

from kafkawire.sdk.errors import RequestTimedOut
from kafkawire.sdk.groups.auto_commit import AutoCommit
from kafkawire.sdk.groups.commit_outcome import Committed, OnDone
from kafkawire.sdk.routing.partitions import OffsetAndMetadata, TopicPartition
from tests.sdk.groups.readers import MemoryReader

P = TopicPartition("t", 0)


class Scene:
    """Automatic commits every 100 ms, which end when told to."""

    def __init__(self, interval_ms: int | None = 100) -> None:
        self.reader = MemoryReader()
        self.reader.assign([P])
        self.auto = AutoCommit("g", self.reader, interval_ms, 50)
        self.begun: list[tuple[int, int, int]] = []
        self.running: list[OnDone] = []

    def commit(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], deadline_ms: int, on_done: OnDone, now_ms: int
    ) -> None:
        self.begun.append((now_ms, deadline_ms, offsets[P].offset))
        self.running.append(on_done)

    def poll(self, *times: int) -> None:
        for now_ms in times:
            if self.auto.is_due(now_ms):
                self.auto.begin(self.commit, now_ms)


def test_one_per_interval() -> None:
    scene = Scene()
    scene.poll(1_000)
    assert scene.auto.due_ms == 1_100
    scene.reader.read()
    scene.poll(1_099)
    assert not scene.begun
    scene.poll(1_100, 1_150, 1_200)
    assert scene.begun == [(1_100, 1_150, 1)], "the first commit is still running at 1,200"
    scene.running.pop()(Committed({}), 1_210)
    scene.poll(1_250)
    scene.poll(1_300)
    assert [now_ms for now_ms, _, _ in scene.begun] == [1_100, 1_300]
    assert scene.auto.due_ms == 1_400


def test_nothing_to_commit_is_not_committed() -> None:
    scene = Scene()
    scene.poll(1_000, 1_100)
    scene.reader.read()
    scene.poll(1_199, 1_200)
    assert scene.begun == [(1_200, 1_250, 1)]


def test_a_failure_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    scene = Scene()
    scene.reader.read()
    scene.poll(1_000, 1_100)
    with caplog.at_level(logging.WARNING, "kafkawire.group"):
        scene.running.pop()(RequestTimedOut("too late"), 1_150)
    assert "group g: the automatic commit failed: too late" in caplog.text
    scene.poll(1_200)
    assert len(scene.begun) == 2


def test_none_without_an_interval_or_after_the_end() -> None:
    scene = Scene(None)
    scene.reader.read()
    scene.poll(1_000, 2_000)
    assert scene.auto.due_ms is None
    other = Scene()
    other.reader.read()
    other.poll(1_000)
    other.auto.end()
    other.poll(2_000)
    assert other.auto.due_ms is None
    assert not scene.begun
    assert not other.begun
