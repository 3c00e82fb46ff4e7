"""Compaction keeps a whole batch, only its latest records, only its header if the header is needed, or nothing.

Method: clean hand-built batches, given the latest offsets of their keys.
"""

from typing import Any

import pytest

from kafkawire.reference_broker.storage.cleaning.cleaned_batch import Cleaning, LastRecord
from kafkawire.reference_broker.storage.cleaning.cleaned_transactions import CleanedTransactions
from kafkawire.reference_broker.storage.cleaning.key_offsets import KeyOffsets
from kafkawire.sdk.records import BatchBuilder, Compression, TimestampType
from kafkawire.sdk.records.control import end_transaction_marker
from kafkawire.sdk.records.engine import RecordBatch
from kafkawire.sdk.storage.transaction_index import AbortedTransaction

NOW_MS = 1_000_000
RETENTION_MS = 500
HORIZON_MS = NOW_MS + RETENTION_MS


def batch_of(*entries, **options):
    """Return a batch of keys and values that begins at offset 10."""
    builder = BatchBuilder(2**20, options.pop("compression", Compression.NONE), base_offset=10, **options)
    for number, (key, value) in enumerate(entries):
        builder.append(NOW_MS - 100 + number, key, value, [("h", b"1")])
    return RecordBatch(builder.build())


def marker(is_commit, **options):
    builder = BatchBuilder(2**20, base_offset=10, is_transactional=True, is_control=True, **options)
    builder.append(NOW_MS - 100, *end_transaction_marker(is_commit, 3))
    return RecordBatch(builder.build())


def left_of(
    batch, latest=None, now_ms=NOW_MS, end_offset=99, producers=None, aborted=(), retention_ms=RETENTION_MS
) -> Any:
    keys = KeyOffsets(2**20)
    for key, offset in sorted((latest or {}).items(), key=lambda entry: entry[1]):
        keys.put(key, offset)
    keys.end_offset = 50
    cleaning = Cleaning(keys, CleanedTransactions(aborted), producers or {}, end_offset, retention_ms, now_ms)
    left = cleaning.left_of(batch)
    if left is None:
        return None
    result = RecordBatch(bytes(left))
    result.check_crc()
    assert (result.base_offset, result.last_offset, result.partition_leader_epoch) == (
        batch.base_offset,
        batch.last_offset,
        batch.partition_leader_epoch,
    )
    assert (result.producer_id, result.producer_epoch, result.base_sequence) == (
        batch.producer_id,
        batch.producer_epoch,
        batch.base_sequence,
    )
    return result


def keys_in(batch):
    return [(record.offset, bytes(record.key)) for record in batch.records()]


@pytest.mark.parametrize("compression", list(Compression))
def test_latest_records_stay_as_they_were(compression):
    batch = batch_of((b"a", b"1"), (b"b", b"2"), (b"c", b"3"), compression=compression)
    assert bytes(left_of(batch).data) == bytes(batch.data)
    assert bytes(left_of(batch, {b"a": 10, b"b": 11}).data) == bytes(batch.data)
    left = left_of(batch, {b"a": 20, b"b": 21})
    assert keys_in(left) == [(12, b"c")]
    assert left.compression == compression
    assert [record.timestamp_ms for record in left.records()] == [NOW_MS - 98]
    assert next(iter(left.records())).headers == (("h", b"1"),)
    assert left_of(batch, {b"a": 20, b"b": 21, b"c": 22}) is None


def test_what_was_not_read_stays():
    batch = batch_of((b"a", b"1"), (None, b"2"))
    keys = KeyOffsets(2**20)
    keys.put(b"a", 11)
    keys.end_offset = 11
    left = Cleaning(keys, CleanedTransactions([]), {}, 99, RETENTION_MS, NOW_MS).left_of(batch)
    assert left is not None
    assert [(record.offset, record.key) for record in RecordBatch(bytes(left)).records()] == [(11, None)]


def test_records_without_key_go():
    assert keys_in(left_of(batch_of((None, b"1"), (b"a", b"2")))) == [(11, b"a")]


def test_tombstones_get_a_horizon_and_go_after_it():
    batch = batch_of((b"a", None), (b"b", b"2"), (b"c", b"3"))
    first = left_of(batch, {b"c": 40})
    assert first.delete_horizon_ms == HORIZON_MS
    assert keys_in(first) == [(10, b"a"), (11, b"b")]
    assert [record.timestamp_ms for record in first.records()] == [NOW_MS - 100, NOW_MS - 99]
    assert bytes(left_of(first, now_ms=HORIZON_MS - 1).data) == bytes(first.data), "the horizon is set only once"
    after = left_of(first, now_ms=HORIZON_MS)
    assert keys_in(after) == [(11, b"b")]
    assert after.delete_horizon_ms == HORIZON_MS
    assert left_of(batch_of((b"a", None), delete_horizon_ms=NOW_MS)) is None


@pytest.mark.parametrize("excess", [0, 1, NOW_MS])
def test_tombstones_that_are_kept_for_ever(excess):
    retention_ms = 2**63 - 1 - NOW_MS + excess
    tombstone, needless = batch_of((b"a", None), (b"b", b"2")), marker(True, producer_id=7, producer_epoch=0)
    for batch in (tombstone, needless):
        left = left_of(batch, retention_ms=retention_ms)
        assert left.delete_horizon_ms == (2**63 - 1 if not excess else None)
        assert [record.timestamp_ms for record in left.records()] == [record.timestamp_ms for record in batch.records()]
        again = left_of(left, now_ms=2**62, retention_ms=retention_ms)
        assert bytes(again.data) == bytes(left.data)
    assert keys_in(left_of(tombstone, {b"b": 40}, retention_ms=retention_ms)) == [(10, b"a")]


def test_batch_that_gets_no_horizon_is_not_written_again(monkeypatch):
    monkeypatch.setattr("kafkawire.reference_broker.storage.cleaning.cleaned_batch.rewrite", None)
    batch = batch_of((b"a", None))
    assert bytes(left_of(batch, retention_ms=2**63 - 1).data) == bytes(batch.data)


def test_older_tombstones_go_at_once():
    assert left_of(batch_of((b"a", None)), {b"a": 20}) is None


def test_log_append_time_is_kept():
    batch = batch_of((b"a", b"1"), (b"b", None), timestamp_type=TimestampType.LOG_APPEND_TIME, log_append_time=777)
    left = left_of(batch, {b"a": 30})
    assert (left.timestamp_type, left.max_timestamp) == (TimestampType.LOG_APPEND_TIME, 777)
    assert [record.timestamp_ms for record in left.records()] == [777]


@pytest.mark.parametrize(
    ("producers", "end_offset", "is_kept"),
    [
        ({}, 99, False),
        ({}, 12, True),
        ({}, 11, False),
        ({7: LastRecord(0, 11)}, 99, True),
        ({7: LastRecord(0, 10)}, 99, False),
        ({7: LastRecord(0, None)}, 99, False),
        ({8: LastRecord(0, 11)}, 99, False),
    ],
)
def test_empty_batch_keeps_the_place_of_its_producer_or_of_the_end(producers, end_offset, is_kept):
    batch = batch_of((b"a", b"1"), (b"a", b"2"), producer_id=7, producer_epoch=0, base_sequence=5)
    left = left_of(batch, {b"a": 40}, producers=producers, end_offset=end_offset)
    assert (left is not None) == is_kept
    if left is not None:
        assert (left.records_count, left.size_in_bytes, left.max_timestamp) == (0, 61, NOW_MS - 99)
        assert bytes(left_of(left, producers=producers, end_offset=end_offset).data) == bytes(left.data)
        assert left_of(left) is None


def test_aborted_records_go_whatever_they_are():
    batch = batch_of(
        (b"a", b"1"), (b"b", None), is_transactional=True, producer_id=7, producer_epoch=0, base_sequence=0
    )
    aborted = [AbortedTransaction(7, 10, 20, 21)]
    assert left_of(batch, aborted=aborted) is None
    empty = left_of(batch, aborted=aborted, producers={7: LastRecord(0, 11)})
    assert (empty.records_count, empty.is_transactional, empty.delete_horizon_ms) == (0, True, None)


@pytest.mark.parametrize("is_commit", [True, False])
def test_needless_marker_gets_a_horizon_and_goes_after_it(is_commit):
    batch = marker(is_commit, producer_id=7, producer_epoch=0)
    first = left_of(batch)
    assert (first.delete_horizon_ms, first.records_count, first.is_control) == (HORIZON_MS, 1, True)
    assert bytes(left_of(first, now_ms=HORIZON_MS - 1).data) == bytes(first.data)
    assert left_of(first, now_ms=HORIZON_MS) is None
    kept = left_of(first, now_ms=HORIZON_MS, producers={7: LastRecord(0, None)})
    assert (kept.records_count, kept.is_control) == (0, True)
    assert left_of(first, now_ms=HORIZON_MS, producers={7: LastRecord(1, None)}) is None


def test_marker_that_is_needed_stays_as_it_was():
    aborted = [AbortedTransaction(7, 5, 10, 11)]
    cleaning = Cleaning(KeyOffsets(2**20), CleanedTransactions(aborted), {}, 99, RETENTION_MS, NOW_MS)
    builder = BatchBuilder(
        2**20, base_offset=5, is_transactional=True, producer_id=7, producer_epoch=0, base_sequence=0
    )
    builder.append(NOW_MS, b"k", b"v")
    assert cleaning.left_of(RecordBatch(builder.build())) is None
    batch = marker(False, producer_id=7, producer_epoch=0)
    left = cleaning.left_of(batch)
    assert left is not None
    assert bytes(left) == bytes(batch.data)
