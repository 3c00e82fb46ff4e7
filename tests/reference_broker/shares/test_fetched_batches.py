"""The headers of fetched batches, the slice that is sent, and the batches of aborted transactions.

Method: write batches and markers to a log in memory, and read its file; read made-up headers.
"""

from __future__ import annotations

import pytest

from kafkawire.reference_broker.shares.fetched_batches import FetchedBatch, aborted_batches, fetched_batches, sliced
from kafkawire.reference_broker.storage.disk.disk import FileSlice
from kafkawire.reference_broker.storage.disk.memory import MemoryDisk
from kafkawire.reference_broker.storage.producers.markers import build_marker
from kafkawire.reference_broker.storage.producers.producers import Marker
from kafkawire.sdk.records import stamp
from kafkawire.sdk.storage.transaction_index import AbortedTransaction
from tests.reference_broker.storage.produced_batches import produced, values_in


def region_of(*batches):
    """Return a file with batches, whose offsets follow each other."""
    file = MemoryDisk().open("log", create=True)
    offset = size = 0
    for data in map(bytearray, batches):
        stamp(data, offset, 0)
        file.append(bytes(data))
        size += len(data)
        offset += int.from_bytes(data[23:27], "big") + 1
    return FileSlice(file, 0, size)


def test_headers():
    abort = build_marker(Marker(7, 0, False, 0), 0)[0]
    commit = build_marker(Marker(7, 0, True, 0), 0)[0]
    records = produced(b"c", producer_id=7, producer_epoch=0, base_sequence=0, is_transactional=True)
    region = region_of(produced(b"a", b"b"), records, abort, commit)
    found = fetched_batches(region)
    assert [(batch.base_offset, batch.last_offset) for batch in found] == [(0, 1), (2, 2), (3, 3), (4, 4)]
    assert [batch.producer_id for batch in found] == [-1, 7, 7, 7]
    assert [batch.is_abort for batch in found] == [False, False, True, False]
    assert [batch.is_transactional for batch in found][:2] == [False, True]
    assert found[1].position == found[0].size_bytes
    for cut in (1, found[-1].size_bytes - 1):
        assert fetched_batches(FileSlice(region.file, 0, region.size_bytes - cut)) == found[:-1]


@pytest.mark.parametrize(
    ("first", "last", "values"),
    [(0, 5, "abcdef"), (2, 3, "cd"), (3, 3, "cd"), (1, 2, "abcd"), (4, 5, "ef"), (5, 9, "ef"), (0, 0, "ab")],
)
def test_only_the_batches_with_acquired_records_are_sent(first, last, values):
    region = region_of(produced(b"a", b"b"), produced(b"c", b"d"), produced(b"e", b"f"))
    part = sliced(region, fetched_batches(region), first, last)
    assert b"".join(values_in(part.read())).decode() == values


def test_a_single_batch_is_sent_whole():
    region = region_of(produced(b"a", b"b"))
    assert sliced(region, fetched_batches(region), 1, 1) is region


def test_batches_of_aborted_transactions():
    def batch(offset, producer_id=-1, is_abort=False):
        return FetchedBatch(
            offset,
            offset,
            producer_id=producer_id,
            is_transactional=producer_id >= 0 and not is_abort,
            is_abort=is_abort,
        )

    batches = [batch(0), batch(1, 7), batch(2, 8), batch(3, 7), batch(4, 7, True), batch(5, 7), batch(6, 8)]
    aborted = [AbortedTransaction(7, 1, 4, 0), AbortedTransaction(9, 0, 6, 0)]
    assert [found.base_offset for found in aborted_batches(batches, aborted)] == [1, 3]
    assert aborted_batches(batches, []) == []
