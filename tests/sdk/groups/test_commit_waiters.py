"""Each waiter for a commit is called once: after its last partition, at its deadline, or when everything ends."""

from __future__ import annotations

from kafkawire.sdk.errors import Closed, KafkaWireError, RequestTimedOut
from kafkawire.sdk.groups.commit_outcome import Committed, CommitWaiter, Fenced, Outcome, Rebalanced
from kafkawire.sdk.groups.commit_waiters import CommitWaiters
from kafkawire.sdk.routing.partitions import OffsetAndMetadata, TopicPartition

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


class Scene:
    """Waiters, and the ways in which they ended."""

    def __init__(self) -> None:
        self.waiters = CommitWaiters()
        self.ends: list[tuple[Outcome | KafkaWireError, int]] = []

    def add(self, *partitions: TopicPartition, deadline_ms: int = 100) -> CommitWaiter:
        waiter = CommitWaiter(partitions, lambda outcome, now_ms: self.ends.append((outcome, now_ms)))
        self.waiters.add(waiter, deadline_ms)
        return waiter


def test_the_last_partition_settles_a_commit() -> None:
    scene = Scene()
    waiter = scene.add(T0, T1)
    scene.waiters.settle(waiter, T0, 1)
    assert not scene.ends
    assert len(scene.waiters) == 1
    scene.waiters.settle(waiter, T1, 2)
    assert scene.ends == [(Committed({}), 2)]
    assert not len(scene.waiters)
    scene.waiters.end(waiter, Closed("again"), 3)
    assert len(scene.ends) == 1


def test_partitions_that_are_refused_given_up_or_lost() -> None:
    scene = Scene()
    error, cause = RequestTimedOut("no"), RequestTimedOut("lost")
    scene.waiters.refuse([scene.add(T0), scene.add(T0)], T0, error, 1)
    assert [outcome for outcome, _ in scene.ends] == [error, error]
    scene.waiters.give_up([scene.add(T0)], T0, None, 2)
    assert scene.ends[-1] == (Rebalanced({}, frozenset({T0})), 2)
    waiter = scene.add(T0, T1)
    waiter.offsets[T1] = OffsetAndMetadata(3)
    scene.waiters.settle(waiter, T1, 3)
    scene.waiters.give_up([waiter], T0, cause, 3)
    assert scene.ends[-1] == (Fenced({T1: OffsetAndMetadata(3)}, frozenset({T0}), cause), 3)


def test_deadlines_pass_in_order() -> None:
    scene = Scene()
    late, early = scene.add(T0, deadline_ms=200), scene.add(T1, deadline_ms=100)
    assert scene.waiters.due_ms == 100
    assert list(scene.waiters.late(99)) == []
    for waiter in scene.waiters.late(100):
        assert waiter is early
        scene.waiters.end(waiter, RequestTimedOut("too late"), 100)
    assert scene.waiters.due_ms == 200
    scene.waiters.settle(late, T0, 150)
    assert list(scene.waiters.late(150)) == [], "a commit that has ended must be left out"
    assert scene.waiters.due_ms is None


def test_all_can_be_ended() -> None:
    scene = Scene()
    scene.add(T0)
    scene.add(T1)
    closed = Closed("the client")
    scene.waiters.end_all(closed, 5)
    assert scene.ends == [(closed, 5), (closed, 5)]
    assert scene.waiters.due_ms is None


def test_deadlines_of_ended_commits_do_not_pile_up() -> None:
    scene = Scene()
    for _ in range(1_000):
        scene.waiters.settle(scene.add(T0, deadline_ms=10_000), T0, 1)
    assert len(scene.waiters._deadlines) < 100
