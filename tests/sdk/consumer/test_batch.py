"""A batch returns the records from the first to the last requested offset, as records or as columns.

Method: read hand-built batches.
"""

from __future__ import annotations

import pytest

from kafkawire.sdk.consumer.batch import ConsumerBatch
from kafkawire.sdk.records import walk
from kafkawire.sdk.routing.partitions import TopicPartition
from tests.sdk.consumer.batches import made

PARTITION = TopicPartition("t", 3)


def batch(start: int = 0, end: int | None = None) -> ConsumerBatch:
    """Return a batch with offsets 10 to 13."""
    return ConsumerBatch(PARTITION, next(walk(made(10, b"a", b"b", b"c", b"d"))), start, end)


def test_records() -> None:
    whole = batch()
    assert [record.value for record in whole] == [b"a", b"b", b"c", b"d"]
    assert (whole.partition, len(whole), whole.next_offset) == (PARTITION, 4, 14)
    assert whole.records is whole.records
    assert {(record.topic, record.partition) for record in whole} == {PARTITION}


def test_repr() -> None:
    inner = "<RecordBatch of 4 records, offsets 10 to 13>"
    assert repr(batch(12)) == f"<ConsumerBatch of t-3, from offset 12 to 13: {inner}>"
    assert repr(batch(0, 12)) == f"<ConsumerBatch of t-3, to 11: {inner}>"


@pytest.mark.parametrize(
    ("start", "end", "is_cut"), [(0, None, False), (10, 14, False), (11, 14, True), (10, 13, True)]
)
def test_whether_a_batch_is_cut(start: int, end: int | None, is_cut: bool) -> None:
    assert batch(start, end).is_cut is is_cut


@pytest.mark.parametrize(
    ("start", "end", "offsets", "next_offset"),
    [(0, None, [10, 11, 12, 13], 14), (12, None, [12, 13], 14), (0, 12, [10, 11], 12), (11, 13, [11, 12], 13)],
)
def test_a_part_of_a_batch(start: int, end: int | None, offsets: list[int], next_offset: int) -> None:
    part = batch(start, end)
    assert [record.offset for record in part] == offsets
    assert part.next_offset == next_offset
    pytest.importorskip("pyarrow", reason="columns need pyarrow")
    assert part.to_arrow().column("offset").to_pylist() == offsets
