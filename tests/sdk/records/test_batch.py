"""Batches are stamped in place and rewritten with fewer records, without any other change.

Method: change batches from every engine, and read them again; try to write content that must be refused.
"""

from __future__ import annotations

from typing import Any

import pytest

from kafkawire.sdk.errors import DecodeError, EncodeError
from kafkawire.sdk.protocol.tables.record_formats import BATCH_HEADER_BYTES
from kafkawire.sdk.records import (
    Compression,
    RecordBatch,
    TimestampType,
    empty_batch,
    place,
    recompress,
    rewrite,
    set_max_timestamp,
    stamp,
    walk,
)
from tests.sdk.records.conftest import batch_of, message_set


def test_stamp() -> None:
    data = bytearray(b"before" + batch_of(compression=Compression.LZ4))
    stamp(data, 1234, 9, position=6)
    (batch,) = walk(memoryview(data)[6:])
    assert (batch.base_offset, batch.partition_leader_epoch) == (1234, 9)
    assert [record.offset for record in batch.records()] == [1234, 1235, 1236, 1237]
    assert batch.max_timestamp == 1005

    stamp(data, 1234, 9, position=6, log_append_time=77)
    (batch,) = walk(memoryview(data)[6:])
    assert batch.timestamp_type is TimestampType.LOG_APPEND_TIME
    assert {record.timestamp_ms for record in batch.records()} == {77}


def test_a_checked_batch_is_placed_as_stamped() -> None:
    placed, stamped = bytearray(batch_of()), bytearray(batch_of())
    place(placed, 2**63 - 1, 2**31 - 1)
    stamp(stamped, 2**63 - 1, 2**31 - 1)
    assert placed == stamped


@pytest.mark.parametrize(
    ("cut", "arguments", "error", "path"),
    [
        (3, (5, 1), DecodeError, "batch_length"),
        (-1, (5, 1), DecodeError, "batch"),
        (0, (2**63, 1), EncodeError, "base_offset"),
        (0, ("5", 1), EncodeError, "base_offset"),
        (0, (5, 2**31), EncodeError, "partition_leader_epoch"),
        (0, (5, None), EncodeError, "partition_leader_epoch"),
        (0, (5, 1, 2**70), EncodeError, "log_append_time"),
        (0, (5, 1, 1.5), EncodeError, "log_append_time"),
    ],
)
def test_stamp_writes_nothing_when_it_refuses(
    cut: int, arguments: tuple[Any, ...], error: type[Exception], path: str
) -> None:
    before = batch_of()
    before = before[: BATCH_HEADER_BYTES - 1] if cut < 0 else before[: len(before) - cut]
    data = bytearray(b"before" + before)
    offset, epoch, *times = arguments
    with pytest.raises(error) as caught:
        stamp(data, offset, epoch, position=6, log_append_time=times[0] if times else None)
    assert caught.value.path == path  # type: ignore[attr-defined]  # both errors have this attribute
    assert data == b"before" + before


@pytest.mark.parametrize("log_append_time", [None, 77])
@pytest.mark.parametrize(
    ("buffer", "error"),
    [
        (bytearray(message_set(1) + bytes(60)), DecodeError),
        (memoryview(batch_of()), EncodeError),
        (memoryview(bytearray(2 * len(batch_of())))[::2], EncodeError),
        ("text", EncodeError),
    ],
)
def test_stamp_refuses(buffer: Any, error: type[Exception], log_append_time: int | None) -> None:
    with pytest.raises(error):
        stamp(buffer, 0, 0, log_append_time=log_append_time)


@pytest.mark.parametrize("position", [-1, -61, 1, 2**70])
def test_stamp_refuses_positions_outside(position: int) -> None:
    data = bytearray(batch_of() * 2)
    before = bytes(data)
    with pytest.raises(DecodeError):
        stamp(data, 5, 1, position=position)
    assert data == before


def test_rewrite_keeps_what_others_rely_on(engine: str) -> None:
    options = {"base_offset": 50, "producer_id": 3, "producer_epoch": 0, "base_sequence": 2**31 - 2}
    (batch,) = walk(batch_of(compression=Compression.ZSTD, partition_leader_epoch=4, **options), engine=engine)
    assert not hasattr(batch, "message_size")
    kept = batch.records()[1:3]
    (again,) = walk(rewrite(batch, kept, delete_horizon_ms=5000), engine=engine)  # type: ignore[arg-type]  # checked above
    assert again.records() == kept
    assert (again.base_offset, again.last_offset, again.base_sequence) == (50, 53, 2**31 - 2)
    assert (again.delete_horizon_ms, again.partition_leader_epoch, again.compression) == (5000, 4, Compression.ZSTD)
    (kept_horizon,) = walk(rewrite(again, kept[:1]), engine=engine)  # type: ignore[arg-type]  # checked above
    assert kept_horizon.delete_horizon_ms == 5000
    (empty,) = walk(rewrite(again, []), engine=engine)  # type: ignore[arg-type]  # checked above
    assert empty.size_in_bytes == BATCH_HEADER_BYTES
    assert (empty.records(), empty.last_offset, empty.compression) == ([], 53, Compression.NONE)
    assert empty.last_sequence == again.last_sequence == 1


def test_rewrite_drops_a_delete_horizon_below_0() -> None:
    """As in the output of `MemoryRecords.filterTo`, a base timestamp is a horizon only if it is at least 0."""
    batch = RecordBatch(
        bytes.fromhex(
            "000000000000000000000040ffffffff0229cd23f100480000000cffffffffffffffff00000000000007d0ffffffffffffffffffff0000"
            "0000000000020e07c8010c0101000c000012010000"
        )
    )
    assert batch.delete_horizon_ms == -1
    assert rewrite(batch, batch.records()[:1]) == bytes.fromhex(
        "000000000000000000000038ffffffff02a02e76bf00080000000c00000000000007d000000000000007d0ffffffffffffffffffff0000"
        "0000000000010c00000c010100"
    )


def test_log_append_times_that_kafka_builds_and_does_not_rewrite() -> None:
    options = {"timestamp_type": TimestampType.LOG_APPEND_TIME, "log_append_time": -5}
    batch = RecordBatch(batch_of(**options))
    assert {record.timestamp_ms for record in batch.records()} == {-5}
    with pytest.raises(EncodeError, match=r"^timestamp_ms: -5 is not a time in ms, nor -1 for none$"):
        rewrite(batch, batch.records()[:1])


def test_empty_batch_of_a_plain_producer() -> None:
    batch = RecordBatch(empty_batch(base_offset=5, last_offset_delta=2))
    batch.check_crc()
    assert (batch.attributes, batch.records_count, batch.base_offset, batch.last_offset) == (0, 0, 5, 7)
    assert (batch.base_timestamp, batch.max_timestamp, batch.partition_leader_epoch) == (-1, -1, -1)
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (-1, -1, -1)


def test_empty_batch_refuses_what_does_not_fit() -> None:
    with pytest.raises(EncodeError):
        empty_batch(base_offset=2**63, last_offset_delta=0)


@pytest.mark.parametrize("flags", [{"is_transactional": True}, {"is_control": True}, {}])
def test_rewrite_keeps_flags_and_times(flags: dict[str, bool]) -> None:
    options = {"timestamp_type": TimestampType.LOG_APPEND_TIME, "log_append_time": 77}
    batch = RecordBatch(batch_of(producer_id=1, producer_epoch=2, base_sequence=3, **flags, **options))
    for kept in (batch.records()[:1], []):
        again = RecordBatch(rewrite(batch, kept))
        assert again.is_transactional is flags.get("is_transactional", False)
        assert again.is_control is flags.get("is_control", False)
        assert (again.timestamp_type, again.max_timestamp) == (TimestampType.LOG_APPEND_TIME, 77)
        assert (again.producer_id, again.producer_epoch, again.base_sequence) == (1, 2, 3)
        again.check_crc()


def test_stamp_leaves_what_follows_the_batch_alone() -> None:
    data = bytearray(batch_of() + b"after")
    stamp(data, 5, 6, log_append_time=77)
    RecordBatch(data).check_crc()
    assert data.endswith(b"after")


def test_set_max_timestamp() -> None:
    before = batch_of(compression=Compression.LZ4)
    data = bytearray(before + b"after")
    set_max_timestamp(data, TimestampType.LOG_APPEND_TIME, 77)
    (batch,) = walk(data[: len(before)])
    assert {record.timestamp_ms for record in batch.records()} == {77}
    assert batch.timestamp_type is TimestampType.LOG_APPEND_TIME
    set_max_timestamp(data, TimestampType.CREATE_TIME, 1005)
    assert data == before + b"after"
    with pytest.raises(EncodeError):
        set_max_timestamp(data, TimestampType.CREATE_TIME, 2**63)
    assert data == before + b"after"


@pytest.mark.parametrize("before", Compression)
@pytest.mark.parametrize("after", Compression)
def test_recompress(engine: str, before: Compression, after: Compression) -> None:
    options = {"producer_id": 3, "producer_epoch": 0, "base_sequence": 7, "partition_leader_epoch": 4}
    (batch,) = walk(batch_of(compression=before, base_offset=9, **options), engine=engine)
    (again,) = walk(recompress(batch, after))  # type: ignore[arg-type]  # not in an older format
    assert again.compression == after
    assert again.records() == batch.records()
    assert (again.base_offset, again.producer_id, again.base_sequence, again.max_timestamp) == (9, 3, 7, 1005)
    if before == after == Compression.NONE:
        assert bytes(again.data) == bytes(batch.data)  # type: ignore[union-attr]  # the same type
