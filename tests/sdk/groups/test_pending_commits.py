"""Offsets on their way to a store are replaced, withdrawn, stored and sent again, and every waiter is called once.

Method: drive one object, with a reader of two partitions, step by step; the stores' own tests also cover it.
"""

from __future__ import annotations

from typing import Any

from kafkawire.sdk.errors import KafkaWireError, RequestTimedOut
from kafkawire.sdk.groups.commit_outcome import Committed, Rebalanced
from kafkawire.sdk.groups.pending_commits import PendingCommits
from kafkawire.sdk.protocol.uuids import ZERO_UUID
from kafkawire.sdk.routing.partitions import OffsetAndMetadata, TopicPartition
from tests.sdk.groups.readers import MemoryReader

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


class Scene:
    """Commits without a member."""

    def __init__(self) -> None:
        self.commits = PendingCommits(MemoryReader(lambda partition: 0))

    def add(self, offsets: dict[TopicPartition, int], deadline_ms: int = 1_000) -> list[Any]:
        """Begin a commit, and return the list that will receive its outcome."""
        outcomes: list[Any] = []
        given = {partition: OffsetAndMetadata(offset) for partition, offset in offsets.items()}
        self.commits.add(None, given, deadline_ms, lambda outcome, now_ms: outcomes.append(outcome), 0)
        return outcomes

    def store(self, *partitions: TopicPartition) -> None:
        self.commits.stored(self.commits.take_sent(partitions), 1)


def test_a_later_offset_takes_over_the_waiters() -> None:
    scene = Scene()
    first, second = scene.add({T0: 1, T1: 5}), scene.add({T0: 2})
    assert {each: commit.offset.offset for each, commit in scene.commits.waiting.items()} == {T0: 2, T1: 5}
    assert {commit.topic_id for commit in scene.commits.waiting.values()} == {ZERO_UUID}
    scene.commits.send()
    scene.store(T0)
    assert not first
    assert second == [Committed({T0: OffsetAndMetadata(2)})]
    scene.store(T1, T1)
    assert first == [Committed({T0: OffsetAndMetadata(2), T1: OffsetAndMetadata(5)})]


def test_an_offset_that_was_not_stored_is_sent_again_unless_there_is_a_later_one() -> None:
    scene = Scene()
    first = scene.add({T0: 1})
    scene.commits.send()
    scene.commits.send_again(T0, scene.commits.sent.pop(T0))
    assert scene.commits.waiting[T0].offset.offset == 1
    scene.commits.send()
    second = scene.add({T0: 2})
    scene.commits.send_again(T0, scene.commits.sent.pop(T0))
    scene.commits.send()
    scene.store(T0)
    assert first == second == [Committed({T0: OffsetAndMetadata(2)})]


def test_withdrawn_offsets_are_neither_stored_nor_sent_again() -> None:
    scene = Scene()
    sent = scene.add({T0: 1})
    scene.commits.send()
    waiting = scene.add({T0: 2, T1: 3})
    scene.commits.give_up(scene.commits.withdraw([T0]), None, 1)
    assert sent == [Rebalanced({}, frozenset({T0}))]
    assert not waiting
    scene.store(T0)
    scene.commits.give_up(scene.commits.withdraw(None), None, 1)
    assert waiting == [Rebalanced({}, frozenset({T0, T1}))]
    assert not scene.commits.waiting


def test_an_offset_that_nobody_waits_for_is_forgotten() -> None:
    scene = Scene()
    late, patient = scene.add({T0: 1, T1: 1}, 10), scene.add({T1: 2}, 100)
    error = RequestTimedOut("late")
    scene.commits.expire(lambda waiter: error, 9)
    assert not late
    scene.commits.expire(lambda waiter: error, 10)
    assert late == [error]
    assert scene.commits.waiting.keys() == {T1}
    end = KafkaWireError("the end")
    scene.commits.fail(end, 11)
    assert patient == [end]
    assert not scene.commits.waiting
