"""The share partitions of the partitions that this broker leads, for all share groups.

A share partition is created by the first fetch of a member. It is dropped when this broker stops leading the
partition, when others have changed its state, and when the last member of the group has gone; the next fetch loads it
again.

Source: `SharePartitionCache`, `SharePartitionManager` in Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import partial
from typing import TypeVar

from kafkawire.reference_broker.coordinators.shard import Done
from kafkawire.reference_broker.replicas.replica import Replica
from kafkawire.reference_broker.replicas.replicas import Replicas
from kafkawire.reference_broker.replicas.roles import Role
from kafkawire.reference_broker.shares.acknowledgement import AcknowledgedRange
from kafkawire.reference_broker.shares.limits import ShareLimits
from kafkawire.reference_broker.shares.persister import Persister
from kafkawire.reference_broker.shares.share_partition import SharePartition
from kafkawire.reference_broker.shares.share_state import SharePartitionKey
from kafkawire.reference_broker.work.timers import Timers
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.tables.enums import OffsetTimestamp
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.storage.partitions import Partition

__all__ = ["SharePartitions"]

K = TypeVar("K", bound=Hashable)

#: After these errors, the state of a share partition is not what this broker believes.
_FENCING = frozenset(
    {
        ErrorCode.FENCED_STATE_EPOCH,
        ErrorCode.GROUP_ID_NOT_FOUND,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
)


class SharePartitions:
    """All share partitions.

    Args:
        limits: see `ShareLimits`.
        persister: stores their state.
        timers: the broker's timers.
        replicas: the replicas on this broker.

    Attributes:
        on_change: called with a share partition that may have more to acquire, or that has been dropped.
    """

    def __init__(self, limits: ShareLimits, persister: Persister, timers: Timers, replicas: Replicas) -> None:
        self._limits = limits
        self._persister = persister
        self._timers = timers
        self._replicas = replicas
        self._all: dict[SharePartitionKey, SharePartition] = {}
        #: The name of the topic and the number of each share partition's partition.
        self._partitions: dict[SharePartitionKey, Partition] = {}
        #: The share partitions of each partition, and of each group.
        self._of_partition: dict[Partition, set[SharePartitionKey]] = {}
        self._of_group: dict[str, set[SharePartitionKey]] = {}
        self.on_change: Callable[[SharePartitionKey], None] = lambda key: None

    def __len__(self) -> int:
        return len(self._all)

    def get(self, key: SharePartitionKey) -> SharePartition | None:
        """Return a share partition that has been created."""
        return self._all.get(key)

    def create(self, key: SharePartitionKey, topic: str) -> SharePartition:
        """Return a share partition, which is new and empty unless it has been created before.

        Args:
            key: the group and the partition.
            topic: the name of the topic.

        Raises:
            BrokerError: this broker does not lead the partition; see `Replicas.leader`.
        """
        known = self._all.get(key)
        if known is not None:
            return known
        replica = self._replicas.leader(topic, key.partition)
        share = SharePartition(
            key,
            replica.leader_epoch,
            self._limits,
            self._persister,
            self._timers,
            partial(self._find_start, key.group_id, replica),
            partial(self._changed, key),
        )
        self._all[key] = share
        self._partitions[key] = topic, key.partition
        self._of_partition.setdefault((topic, key.partition), set()).add(key)
        self._of_group.setdefault(key.group_id, set()).add(key)
        return share

    def _changed(self, key: SharePartitionKey) -> None:
        self.on_change(key)

    def _find_start(self, group_id: str, replica: Replica, done: Done[int]) -> None:
        """Look up where a group without a state begins to read a partition."""
        self._timers.soon(lambda now_ms: self._look_up(self._limits.start_timestamp(group_id, now_ms), replica, done))

    def _look_up(self, timestamp: int, replica: Replica, done: Done[int]) -> None:
        def read() -> int:
            log = replica.log
            replica.check()
            if timestamp == OffsetTimestamp.EARLIEST:
                return log.log_start_offset
            if timestamp == OffsetTimestamp.LATEST:
                return log.high_watermark
            found = log.offset_for_timestamp(timestamp)
            if found is None:
                text = f"there is no record with timestamp {timestamp} or later in {log.folder}"
                raise BrokerError(ErrorCode.OFFSET_NOT_AVAILABLE, text)
            return found.offset

        replica.log.when_prepared(read, done)

    # Dropping.

    def drop(self, key: SharePartitionKey) -> None:
        """Drop a share partition, and notify the fetches that are waiting for it."""
        share = self._all.pop(key, None)
        if share is None:
            return
        _discard(self._of_partition, self._partitions.pop(key), key)
        _discard(self._of_group, key.group_id, key)
        share.fence()
        self.on_change(key)

    def drop_group(self, group_id: str) -> None:
        """Drop all share partitions of a group."""
        for key in list(self._of_group.get(group_id, ())):
            self.drop(key)

    def changed_role(self, partition: Partition, replica: Replica, before: Role) -> None:
        """Drop the share partitions of a partition that this broker no longer leads; see `RoleListener`."""
        if replica.role is not Role.LEADER:
            for key in list(self._of_partition.get(partition, ())):
                self.drop(key)

    def failed(self, key: SharePartitionKey, error: BrokerError) -> None:
        """Drop a share partition if an error shows that its state has been changed by others."""
        if error.code in _FENCING:
            self.drop(key)

    # Acknowledging.

    def acknowledge(
        self,
        member_id: str,
        acknowledged: Mapping[SharePartitionKey, Sequence[AcknowledgedRange]],
        done: Callable[[dict[SharePartitionKey, BrokerError | None]], None],
        now_ms: int,
    ) -> None:
        """Acknowledge records of several share partitions; `done` gets the outcome of each once all are known."""
        missing = _Outcomes(len(acknowledged), done)
        for key, ranges in acknowledged.items():
            share = self._all.get(key)
            if share is None:
                text = "This server does not host this topic-partition."
                missing.put(key, BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, text))
            else:
                share.acknowledge(member_id, ranges, partial(self._ended, missing, key), now_ms)
                self.on_change(key)

    def _ended(self, outcomes: _Outcomes, key: SharePartitionKey, error: BrokerError | None) -> None:
        if error is not None:
            self.failed(key, error)
        outcomes.put(key, error)

    def release(self, member_id: str, keys: Sequence[SharePartitionKey], now_ms: int) -> None:
        """Release everything that a member has acquired, since its session has ended."""
        for key in keys:
            share = self._all.get(key)
            if share is not None:
                share.release(member_id, partial(self._released, key), now_ms)
                self.on_change(key)

    def _released(self, key: SharePartitionKey, error: BrokerError | None) -> None:
        if error is not None:
            self.failed(key, error)


def _discard(known: dict[K, set[SharePartitionKey]], name: K, key: SharePartitionKey) -> None:
    """Remove a share partition from an index."""
    known[name].discard(key)
    if not known[name]:
        del known[name]


class _Outcomes:
    """The outcomes of a request for several share partitions, until all are known."""

    def __init__(self, count: int, done: Callable[[dict[SharePartitionKey, BrokerError | None]], None]) -> None:
        self._count = count
        self._done = done
        self._known: dict[SharePartitionKey, BrokerError | None] = {}
        if not count:
            done(self._known)

    def put(self, key: SharePartitionKey, outcome: BrokerError | None) -> None:
        """Record an outcome."""
        self._known[key] = outcome
        if len(self._known) == self._count:
            self._done(self._known)
