"""Batches yield the requested records: none before the requested offset, none of control batches.

Method: batches made by hand, walked as a consumer walks them.
"""

from __future__ import annotations

import pytest

from kafkawire.sdk.client.partitions import TopicPartition
from kafkawire.sdk.consumer.batch import ConsumerBatch, batches
from kafkawire.sdk.consumer.fetcher import Fetched
from kafkawire.sdk.errors import DecodeError
from kafkawire.sdk.records import BatchBuilder, stamp

PARTITION = TopicPartition("t", 3)


def made(base_offset: int, *values: bytes, is_control: bool = False) -> bytes:
    """Return one batch."""
    builder = BatchBuilder(is_control=is_control, producer_id=1, producer_epoch=0, base_sequence=0)
    for value in values:
        builder.append(5, b"\0\0\0\1", value)
    data = bytearray(builder.seal())
    stamp(data, base_offset, 0)
    return bytes(data)


def walked(data: bytes, offset: int = 0) -> list[ConsumerBatch]:
    """Return the batches of a fetch."""
    return list(batches(Fetched(PARTITION, 0, data, offset, -1), check_crcs=True))


def test_records() -> None:
    first, second = walked(made(0, b"a", b"b") + made(2, b"c") + made(3, b"d")[:-1])
    assert [record.value for record in first] == [b"a", b"b"]
    assert (first.partition, len(first), first.next_offset) == (PARTITION, 2, 2)
    assert first.records is first.records
    assert (second.records[0].offset, second.records[0].timestamp) == (2, 5)
    assert {(record.topic, record.partition) for record in [*first, *second]} == {PARTITION}


def test_a_fetch_that_begins_inside_a_batch() -> None:
    (batch, after) = walked(made(0, b"a") + made(1, b"b", b"c", b"d") + made(4, b"e"), offset=3)
    assert [record.offset for record in batch] == [3]
    assert [record.offset for record in after] == [4]


def test_control_batches_are_left_out() -> None:
    marker = made(1, b"\0\0\0\0\0\0", is_control=True)
    assert [len(batch) for batch in walked(made(0, b"a") + marker + made(2, b"b"))] == [1, 1]


def test_damage_is_found_when_it_is_reached() -> None:
    damaged = bytearray(made(1, b"b"))
    damaged[-1] ^= 1
    found = batches(Fetched(PARTITION, 0, made(0, b"a") + bytes(damaged), 0, -1), check_crcs=True)
    assert len(next(found)) == 1
    with pytest.raises(DecodeError, match="checksum"):
        next(found)


def test_columns() -> None:
    pytest.importorskip("pyarrow", reason="columns need pyarrow")
    whole, cut = walked(made(0, b"a", b"b", b"c"))[0], walked(made(0, b"a", b"b", b"c"), offset=1)[0]
    assert whole.to_arrow().column("offset").to_pylist() == [0, 1, 2]
    assert cut.to_arrow().column("offset").to_pylist() == [1, 2]
