"""The stored state of a share partition, and its records in `__share_group_state`.

A snapshot is the whole state; an update has what has changed since the snapshot before it. A log of them is replayed in
order: unlike other coordinators' records, an update does not replace the previous one.

Source: `ShareGroupOffset`, `ShareCoordinatorRecordHelpers`, `SharePartitionKey` in Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from kafkawire.reference_broker.coordinators.records import types_by_key
from kafkawire.reference_broker.coordinators.shard import CoordinatorRecord
from kafkawire.reference_broker.shares.state_batches import StateBatch, combined
from kafkawire.sdk.protocol.messages.coordinator.share_group_state.share_snapshot import (
    ShareSnapshotKey,
    ShareSnapshotValue,
)
from kafkawire.sdk.protocol.messages.coordinator.share_group_state.share_update import ShareUpdateKey, ShareUpdateValue
from kafkawire.sdk.protocol.tables.enums import NO_PARTITION_LEADER_EPOCH, NO_TIMESTAMP, UNKNOWN_OFFSET
from kafkawire.sdk.protocol.uuids import format_uuid

__all__ = [
    "SHARE_RECORD_TYPES",
    "UNKNOWN_COUNT",
    "SharePartitionKey",
    "ShareState",
    "snapshot_record",
    "snapshot_tombstone",
    "state_of_snapshot",
    "update_record",
    "updated",
]

#: The types of the records.
SHARE_RECORD_TYPES = types_by_key((ShareSnapshotKey, ShareSnapshotValue), (ShareUpdateKey, ShareUpdateValue))

#: The number of records whose delivery is complete, as long as it is unknown.
UNKNOWN_COUNT = -1

#: Stands for a state epoch in an update, which has none.
_NO_STATE_EPOCH = 0


class SharePartitionKey(NamedTuple):
    """A partition of a topic as a share group reads it."""

    group_id: str
    topic_id: bytes
    partition: int

    @property
    def coordinator_key(self) -> str:
        """The key by which FindCoordinator finds its share coordinator."""
        return f"{self.group_id}:{format_uuid(self.topic_id)}:{self.partition}"


class ShareState(NamedTuple):
    """The stored state of a share partition.

    Attributes:
        snapshot_epoch: increases with each snapshot.
        state_epoch: increases each time the group coordinator initializes the state.
        leader_epoch: the epoch of the partition's leader that wrote the state; -1 before any has.
        start_offset: the first offset whose delivery is not complete; `UNKNOWN_OFFSET` until a leader has set it.
        delivery_complete_count: the number of records after the start whose delivery is complete; `UNKNOWN_COUNT` if
            unknown.
        batches: the states of the offsets, beginning with the start offset.
        created_ms: when the last snapshot that was due to a change was written.
        written_ms: when the last snapshot was written.
    """

    snapshot_epoch: int
    state_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int
    batches: tuple[StateBatch, ...] = ()
    created_ms: int = NO_TIMESTAMP
    written_ms: int = NO_TIMESTAMP


def snapshot_record(key: SharePartitionKey, state: ShareState) -> CoordinatorRecord:
    """Return the record with the whole state of a share partition."""
    batches = [
        ShareSnapshotValue.StateBatch(batch.first_offset, batch.last_offset, batch.delivery_state, batch.delivery_count)
        for batch in state.batches
    ]
    value = ShareSnapshotValue(
        state.snapshot_epoch,
        state.state_epoch,
        state.leader_epoch,
        state.start_offset,
        state.delivery_complete_count,
        state.created_ms,
        state.written_ms,
        batches,
    )
    return CoordinatorRecord(ShareSnapshotKey(*key), value)


def snapshot_tombstone(key: SharePartitionKey) -> CoordinatorRecord:
    """Return the record that deletes the state of a share partition."""
    return CoordinatorRecord(ShareSnapshotKey(*key), None)


def update_record(key: SharePartitionKey, changed: ShareState) -> CoordinatorRecord:
    """Return the record with changes to the state of a share partition.

    Args:
        key: the share partition.
        changed: the changes; the start offset is `UNKNOWN_OFFSET` if it has not moved.
    """
    batches = [
        ShareUpdateValue.StateBatch(batch.first_offset, batch.last_offset, batch.delivery_state, batch.delivery_count)
        for batch in changed.batches
    ]
    value = ShareUpdateValue(
        changed.snapshot_epoch, changed.leader_epoch, changed.start_offset, changed.delivery_complete_count, batches
    )
    return CoordinatorRecord(ShareUpdateKey(*key), value)


def state_of_snapshot(value: ShareSnapshotValue) -> ShareState:
    """Return the state in a snapshot."""
    return ShareState(
        value.snapshot_epoch,
        value.state_epoch,
        value.leader_epoch,
        value.start_offset,
        value.delivery_complete_count,
        _batches(value.state_batches),
        value.create_timestamp,
        value.write_timestamp,
    )


def updated(state: ShareState | None, value: ShareUpdateValue) -> ShareState:
    """Return the state after an update; without a previous state, the update is all that is known."""
    batches = _batches(value.state_batches)
    if state is None:
        return ShareState(
            value.snapshot_epoch,
            _NO_STATE_EPOCH,
            value.leader_epoch,
            value.start_offset,
            value.delivery_complete_count,
            batches,
        )
    start_offset = state.start_offset if value.start_offset == UNKNOWN_OFFSET else value.start_offset
    has_leader = value.leader_epoch != NO_PARTITION_LEADER_EPOCH
    return state._replace(
        leader_epoch=value.leader_epoch if has_leader else state.leader_epoch,
        start_offset=start_offset,
        delivery_complete_count=value.delivery_complete_count,
        batches=tuple(combined(state.batches, batches, start_offset)),
    )


def _batches(
    batches: Iterable[ShareSnapshotValue.StateBatch | ShareUpdateValue.StateBatch],
) -> tuple[StateBatch, ...]:
    return tuple(
        StateBatch(batch.first_offset, batch.last_offset, batch.delivery_count, batch.delivery_state)
        for batch in batches
    )
