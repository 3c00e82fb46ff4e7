"""Snapshots and updates of a share partition's state are written and read.

Method: encode records, decode them, and apply them.
"""

from __future__ import annotations

from kafkawire.reference_broker.coordinators.records import decode, encode
from kafkawire.reference_broker.shares.share_state import (
    SHARE_RECORD_TYPES,
    SharePartitionKey,
    ShareState,
    snapshot_record,
    snapshot_tombstone,
    state_of_snapshot,
    update_record,
    updated,
)
from kafkawire.reference_broker.shares.state_batches import StateBatch
from kafkawire.sdk.protocol.messages.coordinator.share_group_state.share_snapshot import (
    ShareSnapshotKey,
    ShareSnapshotValue,
)
from kafkawire.sdk.protocol.messages.coordinator.share_group_state.share_update import ShareUpdateValue

KEY = SharePartitionKey("g", bytes(15) + b"\x01", 3)
STATE = ShareState(4, 5, 6, 7, 8, (StateBatch(7, 9, 2, 0), StateBatch(12, 12, 1, 2)), 100, 200)


def read(record):
    found = decode(SHARE_RECORD_TYPES, *encode(record))
    assert found is not None
    return found


def read_update(state):
    value = read(update_record(KEY, state)).value
    assert isinstance(value, ShareUpdateValue)
    return value


def test_the_key_of_the_coordinator():
    assert KEY.coordinator_key == "g:AAAAAAAAAAAAAAAAAAAAAQ:3"


def test_snapshots():
    record = read(snapshot_record(KEY, STATE))
    assert isinstance(record.key, ShareSnapshotKey)
    assert (record.key.group_id, record.key.topic_id, record.key.partition) == KEY
    assert isinstance(record.value, ShareSnapshotValue)
    assert state_of_snapshot(record.value) == STATE
    assert read(snapshot_tombstone(KEY)).value is None


def test_updates():
    changed = STATE._replace(
        leader_epoch=9, start_offset=-1, delivery_complete_count=10, batches=(StateBatch(8, 8, 3, 4),)
    )
    value = read_update(changed)
    assert updated(STATE, value) == STATE._replace(
        leader_epoch=9,
        delivery_complete_count=10,
        batches=(StateBatch(7, 7, 2, 0), StateBatch(8, 8, 3, 4), StateBatch(9, 9, 2, 0), StateBatch(12, 12, 1, 2)),
    )
    moved = read_update(changed._replace(start_offset=9, leader_epoch=-1))
    after = updated(STATE, moved)
    assert (after.start_offset, after.leader_epoch, after.batches[0].first_offset) == (9, 6, 9)


def test_an_update_without_a_snapshot_is_all_that_is_known():
    assert updated(None, read_update(STATE)) == STATE._replace(state_epoch=0, created_ms=-1, written_ms=-1)
