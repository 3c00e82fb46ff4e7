"""The share partitions of one partition of `__share_group_state`: a state machine for the coordinator's runtime.

The group coordinator initializes and deletes the state of a share partition; the leader of the partition reads and
writes it. A write is stored as an update, and after a number of updates as a snapshot.

Source: `ShareCoordinatorShard` in Apache Kafka, whose order of checks and texts are kept.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from kafkawire.reference_broker.coordinators.records import decode
from kafkawire.reference_broker.coordinators.shard import CoordinatorRecord, Result
from kafkawire.reference_broker.shares.limits import ShareLimits
from kafkawire.reference_broker.shares.redundant_offsets import RedundantOffsets
from kafkawire.reference_broker.shares.share_state import (
    SHARE_RECORD_TYPES,
    UNKNOWN_COUNT,
    SharePartitionKey,
    ShareState,
    snapshot_record,
    snapshot_tombstone,
    state_of_snapshot,
    update_record,
    updated,
)
from kafkawire.reference_broker.shares.state_batches import StateBatch, combined
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.messages.coordinator.share_group_state.share_snapshot import (
    ShareSnapshotKey,
    ShareSnapshotValue,
)
from kafkawire.sdk.protocol.messages.coordinator.share_group_state.share_update import ShareUpdateKey, ShareUpdateValue
from kafkawire.sdk.protocol.schema import Message
from kafkawire.sdk.protocol.tables.enums import NO_PARTITION_LEADER_EPOCH, UNKNOWN_OFFSET
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode

__all__ = ["COLD_INTERVAL_MS", "ShareShard", "StateRefused", "Write"]

#: How long a share partition without writes keeps its last snapshot before a new one lets the log be pruned: the
#: default of Kafka's internal `share.coordinator.cold.partition.snapshot.interval.ms`.
COLD_INTERVAL_MS = 5 * 60_000

#: Stands for an unknown state epoch in a request.
_ANY_EPOCH = -1

#: Kafka's texts for errors that have no reason of their own.
_TEXTS = {
    ErrorCode.FENCED_LEADER_EPOCH: "The leader epoch in the request is older than the epoch on the broker.",
    ErrorCode.FENCED_STATE_EPOCH: "The share coordinator rejected the request because the share-group state epoch did "
    "not match.",
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "This server does not host this topic-partition.",
}


class StateRefused(BrokerError):
    """The error of a share coordinator about one share partition, with Kafka's text."""

    def __init__(self, code: ErrorCode, text: str = "") -> None:
        super().__init__(code, text or _TEXTS[code])


class Write(NamedTuple):
    """A change that the leader of a partition stores.

    Attributes:
        state_epoch: the state epoch that the leader knows; -1 for any.
        leader_epoch: its leader epoch; -1 for any.
        start_offset: the first offset whose delivery is not complete; `UNKNOWN_OFFSET` if unchanged.
        delivery_complete_count: the number of records after it whose delivery is complete.
        batches: the ranges of offsets that have changed.
    """

    state_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int
    batches: tuple[StateBatch, ...]


class ShareShard:
    """The state of the share partitions whose keys belong to one partition.

    Args:
        limits: see `ShareLimits`.
        partitions_of: returns the number of partitions of the topic with a given id; 0 if it does not exist.

    Attributes:
        states: the states, keyed by share partition; only replaying records changes them.
        offsets: see `RedundantOffsets`.
    """

    def __init__(self, limits: ShareLimits, partitions_of: Callable[[bytes], int]) -> None:
        self._limits = limits
        self._partitions_of = partitions_of
        self.states: dict[SharePartitionKey, ShareState] = {}
        self.offsets = RedundantOffsets()
        #: The highest leader epoch and state epoch seen of each share partition.
        self._leader_epochs: dict[SharePartitionKey, int] = {}
        self._state_epochs: dict[SharePartitionKey, int] = {}
        #: The number of updates since the last snapshot of each share partition.
        self._updates: dict[SharePartitionKey, int] = {}

    # Called by the runtime (see `Shard`).

    def decode(self, key: bytes, value: bytes | None) -> CoordinatorRecord | None:
        return decode(SHARE_RECORD_TYPES, key, value)

    def replay(self, record: CoordinatorRecord, offset: int, producer_id: int) -> None:
        key, value = record.key, record.value
        if isinstance(key, ShareSnapshotKey):
            self._replay_snapshot(SharePartitionKey(key.group_id, bytes(key.topic_id), key.partition), value, offset)
        elif isinstance(key, ShareUpdateKey) and isinstance(value, ShareUpdateValue):
            share = SharePartitionKey(key.group_id, bytes(key.topic_id), key.partition)
            _raise(self._leader_epochs, share, value.leader_epoch)
            self.states[share] = updated(self.states.get(share), value)
            self._updates[share] = self._updates.get(share, 0) + 1

    def _replay_snapshot(self, share: SharePartitionKey, value: Message | None, offset: int) -> None:
        if isinstance(value, ShareSnapshotValue):
            _raise(self._leader_epochs, share, value.leader_epoch)
            _raise(self._state_epochs, share, value.state_epoch)
            self.states[share] = state_of_snapshot(value)
            if self._updates.get(share, 0) >= self._limits.updates_per_snapshot:
                self._updates[share] = 0
        else:
            for known in (self.states, self._leader_epochs, self._state_epochs, self._updates):
                known.pop(share, None)
        self.offsets.written(share, offset, is_deletion=value is None)

    def end_transaction(self, producer_id: int, is_commit: bool) -> None:
        """Do nothing; share coordinators write no transactions."""

    def loaded(self, now_ms: int) -> None:
        """Do nothing; the coordinator has timers for all of its partitions."""

    def unloaded(self) -> None:
        """Do nothing; no operation waits inside this shard."""

    def fire(self, action: Callable[[int], None], now_ms: int) -> Result[None]:
        action(now_ms)
        return Result(None)

    # Operations.

    def initialize(self, share: SharePartitionKey, state_epoch: int, start_offset: int, now_ms: int) -> Result[None]:
        """Begin a new state, which replaces any earlier one.

        Args:
            share: the share partition.
            state_epoch: the epoch of the new state.
            start_offset: where delivery begins; `UNKNOWN_OFFSET` to leave that to the leader.
            now_ms: the current time.

        Raises:
            StateRefused: INVALID_REQUEST, FENCED_STATE_EPOCH, UNKNOWN_TOPIC_OR_PARTITION.
        """
        _check_partition(share)
        self._check_state_epoch(share, state_epoch)
        self._check_exists(share)
        known = self.states.get(share)
        count = UNKNOWN_COUNT if start_offset == UNKNOWN_OFFSET else 0
        epoch = 0 if known is None else known.snapshot_epoch + 1
        state = ShareState(epoch, state_epoch, 0, start_offset, count, created_ms=now_ms, written_ms=now_ms)
        return Result(None, [snapshot_record(share, state)])

    def read(self, share: SharePartitionKey, leader_epoch: int, now_ms: int) -> Result[ShareState]:
        """Return the state for a leader, whose epoch fences earlier leaders.

        Raises:
            StateRefused: INVALID_REQUEST, FENCED_LEADER_EPOCH, UNKNOWN_TOPIC_OR_PARTITION.
        """
        _check_partition(share)
        if share not in self.states:
            text = "Read operation on uninitialized share partition not allowed."
            raise StateRefused(ErrorCode.INVALID_REQUEST, text)
        if self._leader_epochs[share] > leader_epoch:
            raise StateRefused(ErrorCode.FENCED_LEADER_EPOCH)
        self._check_exists(share)
        state = self.states[share]
        if leader_epoch in (NO_PARTITION_LEADER_EPOCH, self._leader_epochs[share]):
            return Result(state)
        write = Write(state.state_epoch, leader_epoch, state.start_offset, state.delivery_complete_count, ())
        return Result(state, [self._record(share, write, leader_epoch, now_ms)])

    def write(self, share: SharePartitionKey, write: Write, now_ms: int) -> Result[None]:
        """Store a change to the state.

        Raises:
            StateRefused: INVALID_REQUEST, FENCED_LEADER_EPOCH, FENCED_STATE_EPOCH, UNKNOWN_TOPIC_OR_PARTITION.
        """
        _check_partition(share)
        if share not in self.states:
            text = "Write operation on uninitialized share partition not allowed."
            raise StateRefused(ErrorCode.INVALID_REQUEST, text)
        if write.leader_epoch != NO_PARTITION_LEADER_EPOCH and self._leader_epochs[share] > write.leader_epoch:
            raise StateRefused(ErrorCode.FENCED_LEADER_EPOCH)
        self._check_state_epoch(share, write.state_epoch)
        self._check_exists(share)
        return Result(None, [self._record(share, write, self.states[share].leader_epoch, now_ms)])

    def _record(self, share: SharePartitionKey, write: Write, leader_epoch: int, now_ms: int) -> CoordinatorRecord:
        """Return an update, or a snapshot if there have been enough updates."""
        state = self.states[share]
        changed = state._replace(
            leader_epoch=leader_epoch,
            start_offset=write.start_offset,
            delivery_complete_count=write.delivery_complete_count,
        )
        if self._updates.get(share, 0) < self._limits.updates_per_snapshot:
            batches = tuple(combined((), write.batches, write.start_offset))
            return update_record(share, changed._replace(batches=batches))
        start_offset = state.start_offset if write.start_offset == UNKNOWN_OFFSET else write.start_offset
        whole = changed._replace(
            snapshot_epoch=state.snapshot_epoch + 1,
            start_offset=start_offset,
            batches=tuple(combined(state.batches, write.batches, start_offset)),
            created_ms=now_ms,
            written_ms=now_ms,
        )
        return snapshot_record(share, whole)

    def delete(self, share: SharePartitionKey) -> Result[None]:
        """Delete the state, if there is any.

        Raises:
            StateRefused: INVALID_REQUEST, UNKNOWN_TOPIC_OR_PARTITION.
        """
        _check_partition(share)
        self._check_exists(share)
        return Result(None, [snapshot_tombstone(share)] if share in self.states else [])

    def summary(self, share: SharePartitionKey) -> Result[ShareState | None]:
        """Return the state for an overview, or None if there is none.

        Raises:
            StateRefused: INVALID_REQUEST, UNKNOWN_TOPIC_OR_PARTITION.
        """
        _check_partition(share)
        self._check_exists(share)
        return Result(self.states.get(share))

    def forget_topics(self, topic_ids: frozenset[bytes]) -> Result[None]:
        """Delete the states of deleted topics."""
        return Result(None, [snapshot_tombstone(share) for share in self.states if share.topic_id in topic_ids])

    def snapshot_cold(self, now_ms: int) -> Result[None]:
        """Write new snapshots of share partitions without recent ones, unless nothing has changed since the last time.

        Without them, a share partition without writes would keep all records of the others in the log.
        """
        if all(state.created_ms != state.written_ms for state in self.states.values()):
            return Result(None)
        return Result(
            None,
            [
                snapshot_record(share, state._replace(snapshot_epoch=state.snapshot_epoch + 1, written_ms=now_ms))
                for share, state in self.states.items()
                if now_ms - state.written_ms >= COLD_INTERVAL_MS
            ],
        )

    # Checks.

    def _check_state_epoch(self, share: SharePartitionKey, state_epoch: int) -> None:
        if state_epoch != _ANY_EPOCH and self._state_epochs.get(share, state_epoch) > state_epoch:
            raise StateRefused(ErrorCode.FENCED_STATE_EPOCH)

    def _check_exists(self, share: SharePartitionKey) -> None:
        if share.partition >= self._partitions_of(share.topic_id):
            raise StateRefused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


def _check_partition(share: SharePartitionKey) -> None:
    if share.partition < 0:
        raise StateRefused(ErrorCode.INVALID_REQUEST, "The partition id cannot be a negative number.")


def _raise(epochs: dict[SharePartitionKey, int], share: SharePartitionKey, epoch: int) -> None:
    epochs[share] = max(epochs.get(share, epoch), epoch)
