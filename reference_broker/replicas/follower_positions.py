"""What a partition's leader learns about its followers from their fetches.

A fetch from an offset means that the follower has all records before it. The leader never asks; it only records what
each fetch implies, and judges a follower by the time since it was last caught up.

Source: `Replica`, `ReplicaState` in Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Final, NamedTuple, Protocol

from kafkawire.sdk.protocol.tables.enums import NO_LOG_START_OFFSET, UNKNOWN_OFFSET

__all__ = ["UNKNOWN_BROKER_EPOCH", "Follower", "FollowerPosition", "FollowerPositions", "IdlePartition"]

#: Stands for the missing broker epoch in a request; the controller does not check it.
UNKNOWN_BROKER_EPOCH: Final = -1

#: A time long ago, which stands for never: a follower that is not in sync has not yet caught up in this leader's term.
_NEVER_MS: Final = -(2**53)


class Follower(NamedTuple):
    """A broker that fetches as a follower.

    Attributes:
        broker_id: the id of the broker.
        broker_epoch: the epoch of its registration; -1 if the request has none.
    """

    broker_id: int
    broker_epoch: int = UNKNOWN_BROKER_EPOCH


class IdlePartition(Protocol):
    """A partition in a follower's fetch session, which is not read while the follower has all of it."""

    @property
    def idle_ms(self) -> int | None:
        """The time of the last fetch that left the partition out because nothing was new; None if it was read."""
        ...

    def read_again(self) -> None:
        """Read the partition at the follower's next fetch even if nothing is new."""
        ...


class FollowerPosition:
    """The known position of one follower.

    Args:
        broker_id: the follower's broker.

    Attributes:
        broker_id: see above.
        end_offset: the end of the follower's log at its last fetch; -1 before the first one.
        start_offset: the start of the follower's log; -1 if unknown.
        fetched_ms: when its last fetch arrived.
        leader_end_offset: the end of the leader's log at that time.
        caught_up_ms: the latest known time at which the follower had all of the leader's records.
        broker_epoch: the epoch of the follower's registration, from its last fetch; -1 if that had none.
    """

    __slots__ = (
        "_partition",
        "broker_epoch",
        "broker_id",
        "caught_up_ms",
        "end_offset",
        "fetched_ms",
        "leader_end_offset",
        "start_offset",
    )

    def __init__(self, broker_id: int) -> None:
        self.broker_id = broker_id
        self._partition: IdlePartition | None = None
        self.end_offset = self.leader_end_offset = UNKNOWN_OFFSET
        self.start_offset = NO_LOG_START_OFFSET
        self.fetched_ms = self.caught_up_ms = _NEVER_MS
        self.broker_epoch = UNKNOWN_BROKER_EPOCH

    def begin(self, leader_end_offset: int, now_ms: int, *, is_in_sync: bool, is_new_leader: bool) -> None:
        """Begin a leader epoch.

        Args:
            leader_end_offset: the end of the leader's log.
            now_ms: the current time.
            is_in_sync: whether the follower is in the ISR, which gives it the usual time to fetch.
            is_new_leader: whether another broker led before, in which case everything known may be outdated.
        """
        if is_new_leader:
            self.end_offset = self.leader_end_offset = UNKNOWN_OFFSET
            self.start_offset = NO_LOG_START_OFFSET
            self.fetched_ms = _NEVER_MS
            self.broker_epoch = UNKNOWN_BROKER_EPOCH
        else:
            self.leader_end_offset = leader_end_offset
            self.fetched_ms = now_ms if is_in_sync else _NEVER_MS
            self.read_again()
        self._partition = None  # its fetches in the previous epoch prove nothing about this one
        self.caught_up_ms = now_ms if is_in_sync else _NEVER_MS

    def fetched(
        self,
        end_offset: int,
        start_offset: int,
        leader_end_offset: int,
        now_ms: int,
        broker_epoch: int,
        partition: IdlePartition | None = None,
    ) -> None:
        """Record the arrival of a fetch.

        Args:
            end_offset: the fetch offset, which is the end of the follower's log.
            start_offset: the start of the follower's log; -1 if the request has none.
            leader_end_offset: the end of the leader's log.
            now_ms: the current time.
            broker_epoch: the follower's broker epoch; -1 if the request has none.
            partition: the partition in the fetch session.
        """
        if end_offset >= leader_end_offset:
            self.caught_up_ms = max(self.caught_up_ms, now_ms)
        elif end_offset >= self.leader_end_offset:
            # It has all records that the leader had at the previous fetch: it keeps up, even if it never reaches the
            # end.
            self.caught_up_ms = max(self.caught_up_ms, self._last_fetched_ms())
        self.end_offset, self.start_offset = end_offset, start_offset
        self.leader_end_offset = max(leader_end_offset, self.leader_end_offset)
        self.fetched_ms = now_ms
        self.broker_epoch = broker_epoch
        self._partition = partition

    def is_noted(self, end_offset: int, partition: IdlePartition | None = None) -> bool:
        """Return whether the last fetch recorded in this epoch had the given offset and the given place in a session.

        Args:
            end_offset: the fetch offset.
            partition: the partition in the fetch session.
        """
        return self.end_offset == end_offset and self._partition is partition

    def is_caught_up(self, leader_end_offset: int, now_ms: int, lag_max_ms: int) -> bool:
        """Return whether the follower has all records, or had them recently.

        Args:
            leader_end_offset: the end of the leader's log.
            now_ms: the current time.
            lag_max_ms: `replica.lag.time.max.ms`.
        """
        return self.end_offset == leader_end_offset or now_ms - self.last_caught_up_ms() <= lag_max_ms

    def last_caught_up_ms(self) -> int:
        """Return the latest known time at which the follower had all records, including fetches while it was idle."""
        idle_ms = None if self._partition is None else self._partition.idle_ms
        return self.caught_up_ms if idle_ms is None else max(self.caught_up_ms, idle_ms)

    def read_again(self) -> None:
        """Make sure that the follower's next fetch is recorded even if nothing is new."""
        if self._partition is not None:
            self._partition.read_again()

    def _last_fetched_ms(self) -> int:
        idle_ms = None if self._partition is None else self._partition.idle_ms
        return self.fetched_ms if idle_ms is None else max(self.fetched_ms, idle_ms)


class FollowerPositions:
    """The followers of one partition, keyed by broker id."""

    __slots__ = ("_positions",)

    def __init__(self) -> None:
        self._positions: dict[int, FollowerPosition] = {}

    def __len__(self) -> int:
        return len(self._positions)

    def __iter__(self) -> Iterator[FollowerPosition]:
        return iter(self._positions.values())

    def get(self, broker_id: int) -> FollowerPosition | None:
        """Return the known position of a follower; None if the partition is not assigned to that broker."""
        return self._positions.get(broker_id)

    def assign(self, broker_ids: Collection[int]) -> None:
        """Set which brokers follow, keeping the known positions of those that remain.

        Args:
            broker_ids: the ids of all replicas except the leader.
        """
        self._positions = {each: self._positions.get(each) or FollowerPosition(each) for each in broker_ids}

    def clear(self) -> None:
        """Forget all followers, since this broker no longer leads."""
        self._positions = {}
