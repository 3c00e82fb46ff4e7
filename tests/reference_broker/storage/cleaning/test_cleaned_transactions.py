"""Compaction knows which batches were aborted, and which markers are still needed.

Method: create a log with interleaved transactions, and pass all or some of its batches in order.
"""

from collections.abc import Collection

from kafkawire.reference_broker.storage.cleaning.cleaned_transactions import CleanedTransactions
from kafkawire.sdk.records import BatchBuilder, empty_batch
from kafkawire.sdk.records.engine import RecordBatch
from tests.reference_broker.storage.compacting import batches_of
from tests.reference_broker.storage.transacting_logs import TransactingLog


def interleaved():
    log = TransactingLog()
    log.append(1, b"a")  # 0, committed
    log.append(2, b"b")  # 1, aborted
    log.plain(b"c")  # 2
    log.append(1, b"d")  # 3
    log.abort(2)  # 4
    log.append(2, b"e")  # 5, committed
    log.commit(1)  # 6
    log.commit(2)  # 7
    log.append(2, b"f")  # 8, aborted
    log.abort(2)  # 9
    return log.log


def given(log, offsets: Collection[int] = range(10)):
    transactions = CleanedTransactions([entry for segment in log.segments for entry in segment.transactions])
    said = {}
    for batch in batches_of(log):
        if batch.base_offset in offsets:
            look = transactions.is_needless if batch.is_control else transactions.is_aborted
            said[batch.base_offset] = look(batch)
    return said, transactions.take_kept()


def test_aborted_batches_and_markers_that_are_needed():
    said, kept = given(interleaved())
    assert [offset for offset, is_gone in said.items() if is_gone] == [1, 8]
    assert [(entry.producer_id, entry.first_offset, entry.last_offset) for entry in kept] == [(2, 1, 4), (2, 8, 9)]


def test_markers_of_transactions_without_batches_are_needless():
    said, kept = given(interleaved(), (0, 2, 3, 4, 6, 7, 9))
    assert [offset for offset, is_gone in said.items() if is_gone] == [4, 7, 9]
    assert kept == []


def test_kept_transactions_are_taken_once():
    log = interleaved()
    transactions = CleanedTransactions([entry for segment in log.segments for entry in segment.transactions])
    for batch in batches_of(log):
        (transactions.is_needless if batch.is_control else transactions.is_aborted)(batch)
        if batch.base_offset == 5:
            assert len(transactions.take_kept()) == 1
    assert len(transactions.take_kept()) == 1


def test_control_batch_whose_marker_is_gone():
    batch = RecordBatch(
        empty_batch(base_offset=4, last_offset_delta=0, producer_id=1, producer_epoch=0, is_control=True)
    )
    assert CleanedTransactions([]).is_needless(batch)


def test_control_batch_of_another_kind_is_kept():
    builder = BatchBuilder(producer_id=1, producer_epoch=0, is_control=True)
    builder.append(0, b"\0\0\0\x63", b"later")
    assert not CleanedTransactions([]).is_needless(RecordBatch(builder.seal()))
