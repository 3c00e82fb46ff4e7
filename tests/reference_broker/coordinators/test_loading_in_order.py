"""A load in order replays every record, with its offset, in slices.

Method: load from an in-memory log, and note what is replayed.
"""

from __future__ import annotations

import pytest

from kafkawire.reference_broker.coordinators import loading_in_order
from kafkawire.reference_broker.coordinators.loading_in_order import LoadingInOrder
from kafkawire.reference_broker.coordinators.records import encode
from kafkawire.reference_broker.work.timers import Timers
from kafkawire.sdk.errors import DecodeError
from kafkawire.sdk.protocol.messages.coordinator.consumer_offsets.offset_commit import (
    OffsetCommitKey,
    OffsetCommitValue,
)
from tests.reference_broker.coordinators.counting_shard import CountingShard, MemoryLog, record


class NotingShard(CountingShard):
    """Notes the offsets, the names and the numbers of replayed records."""

    def __init__(self):
        super().__init__(Timers())
        self.noted = []

    def replay(self, record, offset, producer_id):
        super().replay(record, offset, producer_id)
        assert isinstance(record.key, OffsetCommitKey)
        assert isinstance(record.value, OffsetCommitValue | None)
        number = None if record.value is None else record.value.offset
        self.noted.append((offset, record.key.group, number))


def filled(*batches):
    log = MemoryLog()
    for records in batches:
        log.append([encode(entry) for entry in records], 0, lambda outcome: None)
    return log


def loaded(log):
    shard = NotingShard()
    task = LoadingInOrder(log, shard)
    steps = 0
    while not task.is_done:
        task.step()
        steps += 1
        assert steps < 100, "the load does not end"
    return shard.noted, steps


def test_an_empty_log_is_loaded():
    assert LoadingInOrder(MemoryLog(), NotingShard()).is_done


def test_every_record_is_replayed():
    log = filled([record("a", 1), record("b", 2)], [record("a", 3)], [record("a", None)])
    assert loaded(log)[0] == [(0, "a", 1), (1, "b", 2), (2, "a", 3), (3, "a", None)]


def test_what_was_removed_at_the_end_of_a_log_is_passed_over():
    log = filled([record("a", 1)])
    log.next_offset += 3
    assert loaded(log)[0] == [(0, "a", 1)]


def test_replay_is_sliced(monkeypatch):
    monkeypatch.setattr(loading_in_order, "SLICE_RECORDS", 2)
    log = filled(*[[record("a", number)] for number in range(6)])
    noted, steps = loaded(log)
    assert [number for _, _, number in noted] == list(range(6))
    assert steps >= 3


def test_a_damaged_log_is_not_loaded():
    class Damaged(MemoryLog):
        def read(self, offset, max_bytes):
            data = bytearray(super().read(offset, max_bytes))
            data[16] = 9  # the version of the format
            return bytes(data)

    log = Damaged()
    log.append([encode(record("a", 1))], 0, lambda outcome: None)
    with pytest.raises(DecodeError):
        loaded(log)
