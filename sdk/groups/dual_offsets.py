"""The offsets of a group in two stores, Kafka and ZooKeeper, while it moves from one to the other.

Every commit goes to both stores, and the larger of the two committed offsets is used. During a rolling restart,
therefore, members that know only one store find all offsets in it, and members that know both miss none.

Source: `dual.commit.enabled` in Apache Kafka 1.1, "Migrating offsets from ZooKeeper to Kafka" in its documentation.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Protocol

from kafkawire.sdk.errors import KafkaWireError
from kafkawire.sdk.groups.auto_commit import AutoCommit, Positions
from kafkawire.sdk.groups.commit_outcome import Committed, CommitWaiter, Fenced, OnDone, Outcome
from kafkawire.sdk.groups.committed_offsets import Found
from kafkawire.sdk.groups.pending_commits import Member
from kafkawire.sdk.routing.partitions import OffsetAndMetadata, TopicPartition

__all__ = ["CommitStore", "DualCommittedOffsets", "DualOffsets", "LookUpStore", "PositionsInBoth"]

#: The number of stores.
_STORES = 2


class CommitStore(Protocol):
    """One of the two stores: `Offsets` or `ZookeeperOffsets`."""

    @property
    def member(self) -> Member | None: ...

    @member.setter
    def member(self, member: Member | None) -> None: ...

    def commit(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], deadline_ms: int, on_done: OnDone, now_ms: int
    ) -> None: ...

    def release(
        self, partitions: Collection[TopicPartition] | None, now_ms: int, cause: KafkaWireError | None = None
    ) -> None: ...

    def poll(self, now_ms: int) -> None: ...

    def due_ms(self, now_ms: int) -> int | None: ...

    def fail(self, error: KafkaWireError, now_ms: int) -> None: ...


class LookUpStore(Protocol):
    """One of the two stores: `CommittedOffsets` or `ZookeeperCommittedOffsets`."""

    def find(
        self, partitions: Collection[TopicPartition], deadline_ms: int, on_found: Callable[[Found, int], None]
    ) -> Callable[[], None]: ...

    def poll(self, now_ms: int) -> None: ...

    def due_ms(self, now_ms: int) -> int | None: ...

    def fail(self, error: KafkaWireError, now_ms: int) -> None: ...


class PositionsInBoth:
    """A reader's positions for two stores: an offset counts as committed once both stores have it.

    Args:
        positions: the reader's positions.

    Attributes:
        sides: the positions to pass to each store.
    """

    def __init__(self, positions: Positions) -> None:
        self._positions = positions
        self._stored: tuple[dict[TopicPartition, OffsetAndMetadata], ...] = tuple({} for _ in range(_STORES))
        self.sides: tuple[Positions, Positions] = _Side(self, 0), _Side(self, 1)

    @property
    def assigned(self) -> frozenset[TopicPartition]:
        return self._positions.assigned

    def to_commit(
        self, partitions: Collection[TopicPartition] | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        return self._positions.to_commit(partitions)

    def stored(self, index: int, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """Record that one store has these offsets."""
        self._stored[index].update(offsets)
        first, second = self._stored
        both = offsets.keys() & first.keys() & second.keys()
        committed = {each: min(first[each], second[each], key=lambda offset: offset.offset) for each in both}
        if committed:
            self._positions.committed(committed)

    def forget(self, partitions: Collection[TopicPartition] | None) -> None:
        """Forget the stored offsets of partitions that are given up; None stands for all partitions."""
        for stored in self._stored:
            for partition in list(stored if partitions is None else stored.keys() & set(partitions)):
                del stored[partition]


class _Side:
    """The positions, as seen by one store."""

    def __init__(self, both: PositionsInBoth, index: int) -> None:
        self._both = both
        self._index = index

    @property
    def assigned(self) -> frozenset[TopicPartition]:
        return self._both.assigned

    def to_commit(
        self, partitions: Collection[TopicPartition] | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        return self._both.to_commit(partitions)

    def committed(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        self._both.stored(self._index, offsets)


class DualOffsets:
    """A machine that commits to two stores, with the same interface as `Offsets`.

    Args:
        group_id: the group, for the log.
        stores: the stores, created with the `sides` of `positions` in this order and without automatic commits.
        positions: the finished positions.
        auto_commit_interval_ms: the time between automatic commits; None disables them.
        api_timeout_ms: how long an automatic commit may take.
    """

    def __init__(
        self,
        group_id: str,
        stores: tuple[CommitStore, CommitStore],
        positions: PositionsInBoth,
        auto_commit_interval_ms: int | None,
        api_timeout_ms: int,
    ) -> None:
        self._stores = stores
        self._positions = positions
        reader = positions.sides[0]
        self._auto_commit = AutoCommit(group_id, reader, auto_commit_interval_ms, api_timeout_ms)

    @property
    def member(self) -> Member | None:
        """The member that signs commits; None to commit from outside the group."""
        return self._stores[0].member

    @member.setter
    def member(self, member: Member | None) -> None:
        for store in self._stores:
            store.member = member

    def commit(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], deadline_ms: int, on_done: OnDone, now_ms: int
    ) -> None:
        """Commit offsets to both stores; see `Offsets.commit`. The worse of the two outcomes is reported."""
        outcomes: list[Outcome | KafkaWireError] = []

        def done(outcome: Outcome | KafkaWireError, now_ms: int) -> None:
            outcomes.append(outcome)
            if len(outcomes) == _STORES:
                on_done(_worst(offsets, outcomes), now_ms)

        for store in self._stores:
            store.commit(offsets, deadline_ms, done, now_ms)

    def release(
        self, partitions: Collection[TopicPartition] | None, now_ms: int, cause: KafkaWireError | None = None
    ) -> None:
        """Withdraw uncommitted offsets of partitions that the member gives up; see `Offsets.release`."""
        for store in self._stores:
            store.release(partitions, now_ms, cause)
        self._positions.forget(partitions)

    def poll(self, now_ms: int) -> None:
        """Do what is due in both stores."""
        if self._auto_commit.is_due(now_ms) and (self.member is None or self.member.sign() is not None):
            self._auto_commit.begin(self.commit, now_ms)
        for store in self._stores:
            store.poll(now_ms)

    def due_ms(self, now_ms: int) -> int | None:
        """Return when to poll again if nothing happens before then."""
        times = [self._auto_commit.due_ms, *(store.due_ms(now_ms) for store in self._stores)]
        return min((due_ms for due_ms in times if due_ms is not None), default=None)

    def fail(self, error: KafkaWireError, now_ms: int) -> None:
        """End all commits."""
        self._auto_commit.end()
        for store in self._stores:
            store.fail(error, now_ms)


class DualCommittedOffsets:
    """A machine that looks up committed offsets in two stores, with the same interface as `CommittedOffsets`.

    Args:
        kafka: the store in Kafka; if its offset is used, so are its metadata and leader epoch.
        zookeeper: the store in ZooKeeper.
    """

    def __init__(self, kafka: LookUpStore, zookeeper: LookUpStore) -> None:
        self._stores = kafka, zookeeper

    def find(
        self, partitions: Collection[TopicPartition], deadline_ms: int, on_found: Callable[[Found, int], None]
    ) -> Callable[[], None]:
        """Look up partitions; see `CommittedOffsets.find`. A partition is reported once both stores have answered."""
        found: tuple[dict[TopicPartition, OffsetAndMetadata | KafkaWireError | None], ...] = ({}, {})

        def took(index: int, results: Found, now_ms: int) -> None:
            found[index].update(results)
            kafka, zookeeper = found
            both = [partition for partition in results if partition in kafka and partition in zookeeper]
            if both:
                on_found({each: _larger(kafka[each], zookeeper[each]) for each in both}, now_ms)

        ends = [store.find(partitions, deadline_ms, partial(took, index)) for index, store in enumerate(self._stores)]

        def end() -> None:
            for each in ends:
                each()

        return end

    def poll(self, now_ms: int) -> None:
        """Do what is due in both stores."""
        for store in self._stores:
            store.poll(now_ms)

    def due_ms(self, now_ms: int) -> int | None:
        """Return when to poll again if nothing happens before then."""
        times = [store.due_ms(now_ms) for store in self._stores]
        return min((due_ms for due_ms in times if due_ms is not None), default=None)

    def fail(self, error: KafkaWireError, now_ms: int) -> None:
        """End all lookups."""
        for store in self._stores:
            store.fail(error, now_ms)


def _worst(
    offsets: Mapping[TopicPartition, OffsetAndMetadata], outcomes: Collection[Outcome | KafkaWireError]
) -> Outcome | KafkaWireError:
    """Combine the outcomes of two commits for the same offsets into one."""
    both = CommitWaiter(offsets, lambda outcome, now_ms: None)
    stored: list[Mapping[TopicPartition, OffsetAndMetadata]] = []
    for outcome in outcomes:
        if isinstance(outcome, KafkaWireError):
            both.error = both.error or outcome
            continue
        stored.append(outcome.offsets)
        if not isinstance(outcome, Committed):
            both.rebalanced |= outcome.partitions
        if isinstance(outcome, Fenced):
            both.cause = both.cause or outcome.cause
    if both.error is None:
        first, second = stored
        shared = (first.keys() & second.keys()) - both.rebalanced
        both.offsets = {each: min(first[each], second[each], key=lambda offset: offset.offset) for each in shared}
    return both.outcome()


def _larger(
    kafka: OffsetAndMetadata | KafkaWireError | None, zookeeper: OffsetAndMetadata | KafkaWireError | None
) -> OffsetAndMetadata | KafkaWireError | None:
    """Return the larger offset, or an error if there is one, since the unknown offset may be the larger one."""
    if isinstance(kafka, KafkaWireError):
        return kafka
    if isinstance(zookeeper, KafkaWireError):
        return zookeeper
    if kafka is None or zookeeper is None:
        return zookeeper if kafka is None else kafka
    return kafka if kafka.offset >= zookeeper.offset else zookeeper
