"""Loading replays the last record of each key, in log order and in slices, and any records written in the meantime.

Method: load from an in-memory log, and count the slices.
"""

from __future__ import annotations

import pytest

from kafkawire.reference_broker.coordinators import loading
from kafkawire.reference_broker.coordinators.loading import Loading
from kafkawire.reference_broker.coordinators.records import encode
from kafkawire.reference_broker.coordinators.shard import InTransaction, LastMarker
from kafkawire.reference_broker.storage.producers.producers import Marker
from kafkawire.reference_broker.work.timers import Timers
from kafkawire.sdk.errors import DecodeError
from kafkawire.sdk.protocol.messages.coordinator.consumer_offsets.offset_commit import OffsetCommitKey
from kafkawire.sdk.records import BatchBuilder, Compression, walk
from tests.reference_broker.coordinators.counting_shard import CountingShard, MemoryLog, record


def filled(*batches):
    log = MemoryLog()
    for records in batches:
        log.append([encode(entry) for entry in records], 0, lambda outcome: None)
    return log


class NotingShard(CountingShard):
    """Records the order of replayed records."""

    def __init__(self, timers):
        super().__init__(timers)
        self.order = []

    def replay(self, record, offset, producer_id):
        super().replay(record, offset, producer_id)
        assert isinstance(record.key, OffsetCommitKey)
        self.order.append(record.key.group)


def test_empty_log_is_loaded():
    assert Loading(MemoryLog(), CountingShard(Timers())).is_done


def test_what_was_removed_at_the_end_of_a_log_is_passed_over():
    """After deletions, there is nothing to read before the end of the log."""
    log = filled([record("a", 1)])
    log.next_offset += 3
    shard = CountingShard(Timers())
    task = Loading(log, shard)
    steps = 0
    while not task.is_done:
        task.step()
        steps += 1
        assert steps < 10, "the load did not finish"
    assert shard.numbers == {"a": 1}


def test_last_record_of_each_key_is_replayed_in_the_order_of_the_log():
    shard = NotingShard(Timers())
    log = filled([record("a", 1), record("b", 1)], [record("c", 1), record("a", 2)], [record("b", None)])
    task = Loading(log, shard)
    task.step()
    log.append([encode(record("d", 4))], 0, lambda outcome: None)
    while not task.is_done:
        task.step()
    assert shard.order == ["c", "a", "b", "d"]
    assert shard.numbers == {"c": 1, "a": 2, "d": 4}


def test_replay_is_sliced(monkeypatch):
    monkeypatch.setattr(loading, "SLICE_RECORDS", 2)
    shard = CountingShard(Timers())
    task = Loading(filled([record(str(number), number) for number in range(5)]), shard)
    counts = []
    while not task.is_done:
        task.step()
        counts.append(shard.replayed)
    assert counts == [0, 0, 2, 4, 5]


def test_records_of_unknown_types_are_left_alone():
    log = filled([record("a", 1)])
    log.append([(b"\x00\x63junk", b"x")], 0, lambda outcome: None)
    shard = CountingShard(Timers())
    task = Loading(log, shard)
    while not task.is_done:
        task.step()
    assert (shard.numbers, shard.replayed) == ({"a": 1}, 1)


def test_transactions_count_from_where_they_are_written_once_a_marker_commits_them():
    log = MemoryLog()

    def append(entry, producer_id=None):
        transaction = None if producer_id is None else InTransaction(producer_id, 0, None)
        log.append([encode(entry)], 0, lambda outcome: None, transaction)

    def end(producer_id, is_commit):
        log.append_marker(LastMarker(Marker(producer_id, 0, is_commit, 0), 2), 0, lambda outcome: None)

    append(record("before", 1))
    append(record("committed", 1), 7)
    append(record("overtaken", 1), 7)
    append(record("deleted", 1), 7)
    append(record("aborted", 1), 8)
    append(record("open", 1), 9)
    append(record("overtaken", 2))
    append(record("deleted", None))
    append(record("open", 2))
    end(7, True)
    end(8, False)
    end(6, True)
    append(record("before", 2))
    shard = CountingShard(Timers())
    task = Loading(log, shard)
    while not task.is_done:
        task.step()
    assert shard.numbers == {"before": 2, "committed": 1, "overtaken": 2, "open": 2}
    assert ("open", 5, 9) in shard.places
    assert shard.places.index(("open", 8, -1)) < shard.places.index(("open", 5, 9)) < len(shard.places) - 1
    assert shard.places[-1] == ("open", 8, -1), "the later commit wins"


def test_compressed_batches_and_cut_ones(monkeypatch):
    batches = b""
    for offset in range(6):
        builder = BatchBuilder(10_000, Compression.GZIP if offset % 2 else Compression.NONE, base_offset=offset)
        builder.append(0, *encode(record(str(offset % 4), offset if offset != 3 else None)))
        batches += builder.build()

    class Cut(MemoryLog):
        def read(self, offset, max_bytes):
            start = sum(batch.size_in_bytes for batch in walk(batches) if batch.base_offset < offset)
            return batches[start : start + 250]

    log = Cut()
    log.next_offset = 6
    shard = CountingShard(Timers())
    task = Loading(log, shard)
    while not task.is_done:
        task.step()
    assert shard.numbers == {"0": 4, "1": 5, "2": 2}


def test_reading_what_is_not_plain_is_sliced_too(monkeypatch):
    monkeypatch.setattr(loading, "SLICE_RECORDS", 4)
    log = MemoryLog()
    for number in range(10):
        log.append([encode(record(str(number), number))], 0, lambda outcome: None, InTransaction(7, 0, None))
        log.append_marker(LastMarker(Marker(7, 0, True, 0), 2), 0, lambda outcome: None)
    data = b"".join(batch.data() for batch in log.batches)

    class Whole(MemoryLog):
        def read(self, offset, max_bytes):
            return data[sum(batch.size_in_bytes for batch in walk(data) if batch.base_offset < offset) :]

    whole = Whole()
    whole.next_offset = log.next_offset
    shard = CountingShard(Timers())
    task = Loading(whole, shard)
    steps = 0
    while not shard.replayed:
        task.step()
        steps += 1
    assert steps == 5 + 2, "four batches are read at a time, then replayed"
    while not task.is_done:
        task.step()
    assert shard.numbers == {str(number): number for number in range(10)}


def test_key_of_a_transaction_that_has_ended_may_be_deleted_while_another_is_open():
    log, shard = filled(), CountingShard(Timers())
    for name, producer_id in (("a", 1), ("b", 2)):
        log.append([encode(record(name, 5))], 0, lambda outcome: None, InTransaction(producer_id, 0, None))
        if name == "a":
            log.append_marker(LastMarker(Marker(1, 0, True, 0), 2), 0, lambda outcome: None)
    log.append([encode(record("a", None))], 0, lambda outcome: None)
    task = Loading(log, shard)
    while not task.is_done:
        task.step()
    assert shard.places == [("a", 3, -1), ("b", 2, 2)]


def test_what_a_transaction_has_written_is_replayed_in_the_order_of_the_log():
    log, shard = MemoryLog(), NotingShard(Timers())
    for name in "aba":
        log.append([encode(record(name, 1))], 0, lambda outcome: None, InTransaction(7, 0, None))
    log.append_marker(LastMarker(Marker(7, 0, True, 0), 2), 0, lambda outcome: None)
    task = Loading(log, shard)
    while not task.is_done:
        task.step()
    assert shard.order == ["b", "a"]


def test_transactions_that_have_written_the_same_key_end_one_after_the_other():
    log, shard = MemoryLog(), CountingShard(Timers())
    for producer_id in (7, 8):
        log.append([encode(record("a", producer_id))], 0, lambda outcome: None, InTransaction(producer_id, 0, None))
    for producer_id in (7, 8):
        log.append_marker(LastMarker(Marker(producer_id, 0, True, 0), 2), 0, lambda outcome: None)
    task = Loading(log, shard)
    while not task.is_done:
        task.step()
    assert shard.numbers == {"a": 8}


@pytest.mark.parametrize("compression", [Compression.NONE, Compression.GZIP])
def test_what_is_deleted_takes_along_what_is_pending(compression):
    pending = MemoryLog()
    pending.append([encode(record("a", 5))], 0, lambda outcome: None, InTransaction(7, 0, None))
    builder = BatchBuilder(10_000, compression, base_offset=1)
    builder.append(0, *encode(record("a", None)))
    data = bytes(pending.batches[0].data()) + bytes(builder.build())

    class Whole(MemoryLog):
        def read(self, offset, max_bytes):
            return data

    log, shard = Whole(), CountingShard(Timers())
    log.next_offset = 2
    task = Loading(log, shard)
    while not task.is_done:
        task.step()
    assert shard.places == [("a", 1, -1)]


@pytest.mark.parametrize("compression", [Compression.NONE, Compression.GZIP])
def test_batch_that_claims_an_offset_behind_the_end_is_damage(compression):
    """Otherwise, later records would be left out, and nothing could ever replace the batch's value."""

    class Damaged(MemoryLog):
        def read(self, offset, max_bytes):
            builder = BatchBuilder(2**20, compression, base_offset=2**40)
            key, value = encode(record("a", 1))
            builder.append(0, key, value)
            return bytes(builder.build())

    log = Damaged()
    log.next_offset = 3
    task = Loading(log, CountingShard(Timers()))
    with pytest.raises(DecodeError, match="a batch ends before offset 1099511627777, but the log ends at 3") as caught:
        task.step()
    assert caught.value.offset == len(log.read(0, 2**20)), "the position is the end of the batch"
