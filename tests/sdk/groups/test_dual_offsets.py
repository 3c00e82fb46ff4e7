"""With two stores, a commit is complete once both have it, and the larger of two committed offsets is used.

Method: use two stores, for which the test answers in any order.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import partial

import pytest

from kafkawire.sdk.errors import Closed, KafkaWireError, RequestTimedOut
from kafkawire.sdk.groups.auto_commit import Positions
from kafkawire.sdk.groups.commit_outcome import Committed, Fenced, OnDone, Outcome, Rebalanced
from kafkawire.sdk.groups.committed_offsets import Found
from kafkawire.sdk.groups.dual_offsets import DualCommittedOffsets, DualOffsets, PositionsInBoth
from kafkawire.sdk.groups.pending_commits import Member
from kafkawire.sdk.groups.protocol import GroupMetadata
from kafkawire.sdk.routing.partitions import OffsetAndMetadata, TopicPartition
from tests.sdk.groups.readers import MemoryReader

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def offsets(**numbers: int) -> dict[TopicPartition, OffsetAndMetadata]:
    """Return offsets in partitions of topic t, written as t0=5."""
    return {TopicPartition("t", int(name[1:])): OffsetAndMetadata(offset) for name, offset in numbers.items()}


class Store:
    """An offset store that answers when told to."""

    def __init__(self, positions: Positions) -> None:
        self.member: Member | None = None
        self.positions = positions
        self.commits: list[tuple[Mapping[TopicPartition, OffsetAndMetadata], OnDone]] = []
        self.released: list[object] = []
        self.lookups: list[Callable[[Found, int], None]] = []
        self.due: int | None = None
        self.polls = self.ends = 0

    def commit(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], deadline_ms: int, on_done: OnDone, now_ms: int
    ) -> None:
        self.commits.append((offsets, on_done))

    def release(
        self, partitions: Collection[TopicPartition] | None, now_ms: int, cause: KafkaWireError | None = None
    ) -> None:
        self.released.append((partitions, cause))

    def find(
        self, partitions: Collection[TopicPartition], deadline_ms: int, on_found: Callable[[Found, int], None]
    ) -> Callable[[], None]:
        self.lookups.append(on_found)
        return partial(self.lookups.remove, on_found)

    def poll(self, now_ms: int) -> None:
        self.polls += 1

    def due_ms(self, now_ms: int) -> int | None:
        return self.due

    def fail(self, error: KafkaWireError, now_ms: int) -> None:
        self.ends += 1

    def store(self) -> None:
        """Store the first commit."""
        given, on_done = self.commits.pop(0)
        self.positions.committed(given)
        on_done(Committed(given), 5)


class Signer:
    """A member."""

    failure: KafkaWireError | None = None

    def sign(self) -> GroupMetadata | None:
        return GroupMetadata("g")

    def rejected(self, signature: GroupMetadata, error: KafkaWireError, now_ms: int) -> None: ...


class Scene:
    """Offsets in two stores."""

    def __init__(self, interval_ms: int | None = None) -> None:
        self.reader = MemoryReader()
        self.reader.assign([T0, T1])
        both = PositionsInBoth(self.reader)
        self.kafka, self.zookeeper = self.stores = Store(both.sides[0]), Store(both.sides[1])
        self.offsets = DualOffsets("g", self.stores, both, interval_ms, 500)
        self.committed = DualCommittedOffsets(self.kafka, self.zookeeper)
        self.ends: list[Outcome | KafkaWireError] = []

    def commit(self, **numbers: int) -> None:
        self.offsets.commit(offsets(**numbers), 9_000, lambda outcome, _: self.ends.append(outcome), 1)


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_a_commit_counts_once_both_have_it(order: tuple[int, int]) -> None:
    scene = Scene()
    scene.commit(t0=5, t1=6)
    first, second = (scene.stores[index] for index in order)
    first.store()
    assert not scene.ends
    assert not scene.reader.stored
    second.store()
    assert scene.ends == [Committed(offsets(t0=5, t1=6))]
    assert scene.reader.stored == offsets(t0=5, t1=6)


def test_a_store_that_is_ahead() -> None:
    scene = Scene()
    scene.commit(t0=5)
    scene.commit(t0=7)
    scene.kafka.store()
    scene.kafka.store()
    scene.zookeeper.store()
    assert scene.reader.stored == offsets(t0=5)
    scene.zookeeper.store()
    assert scene.reader.stored == offsets(t0=7)


CAUSE, ERROR, OTHER = RequestTimedOut("lost"), RequestTimedOut("late"), RequestTimedOut("other")
DONE = Committed(offsets(t0=5, t1=6))


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        (DONE, ERROR, ERROR),
        (ERROR, OTHER, ERROR),
        (DONE, Committed(offsets(t0=8, t1=6)), DONE),
        (DONE, Rebalanced(offsets(t0=5), frozenset({T1})), Rebalanced(offsets(t0=5), frozenset({T1}))),
        (
            Rebalanced({}, frozenset({T0, T1})),
            Fenced(offsets(t0=5), frozenset({T1}), CAUSE),
            Fenced({}, frozenset({T0, T1}), CAUSE),
        ),
    ],
)
def test_the_worse_outcome_counts(
    first: Outcome | KafkaWireError, second: Outcome | KafkaWireError, expected: Outcome | KafkaWireError
) -> None:
    scene = Scene()
    scene.commit(t0=5, t1=6)
    scene.kafka.commits[0][1](first, 2)
    scene.zookeeper.commits[0][1](second, 3)
    assert scene.ends == [expected]


def test_partitions_that_are_given_up_are_forgotten() -> None:
    scene = Scene()
    scene.commit(t0=5, t1=5)
    scene.kafka.store()
    cause = RequestTimedOut("lost")
    scene.offsets.release([T0], 3, cause)
    assert scene.kafka.released == scene.zookeeper.released == [([T0], cause)]
    scene.zookeeper.store()
    assert scene.reader.stored == offsets(t1=5), "the offset of t-0 belongs to its former assignment"
    scene.offsets.release(None, 4)


def test_automatic_commits_go_to_both_and_a_member_signs_both() -> None:
    scene = Scene(interval_ms=100)
    signer = Signer()
    scene.offsets.member = signer
    assert scene.kafka.member is scene.zookeeper.member is scene.offsets.member is signer
    scene.offsets.poll(1_000)
    scene.reader.read()
    scene.offsets.poll(1_100)
    assert [given for given, _ in scene.kafka.commits] == [scene.reader.to_commit()]
    assert len(scene.zookeeper.commits) == 1
    assert scene.kafka.polls == scene.zookeeper.polls == 2
    assert scene.offsets.due_ms(1_100) == 1_200
    scene.zookeeper.due = 1_150
    assert scene.offsets.due_ms(1_100) == 1_150
    scene.offsets.fail(Closed("the client"), 1_100)
    scene.offsets.poll(1_300)
    assert scene.kafka.ends == scene.zookeeper.ends == 1
    assert len(scene.kafka.commits) == 1


def test_the_larger_offset_counts() -> None:
    scene = Scene()
    found: list[Found] = []
    end = scene.committed.find([T0, T1], 9_000, lambda results, _: found.append(results))
    kafka = OffsetAndMetadata(7, "text", 3)
    scene.kafka.lookups[0]({T0: kafka}, 1)
    scene.kafka.lookups[0]({T1: None}, 1)
    assert not found
    scene.zookeeper.lookups[0]({T0: OffsetAndMetadata(6), T1: OffsetAndMetadata(2)}, 2)
    assert found == [{T0: kafka, T1: OffsetAndMetadata(2)}]
    end()
    assert not scene.kafka.lookups
    assert not scene.zookeeper.lookups


@pytest.mark.parametrize(
    ("kafka", "zookeeper", "expected"),
    [
        (None, None, None),
        (OffsetAndMetadata(1), OffsetAndMetadata(2), OffsetAndMetadata(2)),
        (OffsetAndMetadata(1), None, OffsetAndMetadata(1)),
        (ERROR, OffsetAndMetadata(2), ERROR),
        (OffsetAndMetadata(2), OTHER, OTHER),
    ],
)
def test_an_unknown_offset_might_be_the_larger_one(
    kafka: OffsetAndMetadata | KafkaWireError | None,
    zookeeper: OffsetAndMetadata | KafkaWireError | None,
    expected: OffsetAndMetadata | KafkaWireError | None,
) -> None:
    scene = Scene()
    found: list[Found] = []
    scene.committed.find([T0], 9_000, lambda results, _: found.append(results))
    scene.zookeeper.lookups[0]({T0: zookeeper}, 1)
    scene.kafka.lookups[0]({T0: kafka}, 1)
    assert found == [{T0: expected}]


def test_look_ups_are_driven_in_both() -> None:
    scene = Scene()
    scene.committed.poll(1)
    assert scene.committed.due_ms(1) is None
    scene.kafka.due, scene.zookeeper.due = 8, 4
    assert scene.committed.due_ms(1) == 4
    scene.committed.fail(Closed("the client"), 1)
    assert [store.polls + store.ends for store in scene.stores] == [2, 2]
