"""Batches are found one after the other, read alike by every engine, stamped and rewritten in place.

Method: batches of every shape on every engine; each cut and each flipped bit of small ones, where any outcome but
records or a DecodeError is a failure, and the engines must agree; hypothesis for round trips.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkawire.sdk.errors import DecodeError, EncodeError, LocalProtocolError
from kafkawire.sdk.records import (
    BatchBuilder,
    Compression,
    MessageSetBuilder,
    RecordBatch,
    TimestampType,
    batch_builder_class,
    crc32c,
    empty_batch,
    record_batch_class,
    rewrite,
    stamp,
    walk,
    walk_headers,
)
from tests.sdk.records.conftest import AVAILABLE, ROWS, rows

HEADER_BYTES = 61


def batch_of(records: Any = ROWS, compression: Compression = Compression.NONE, **options: Any) -> bytes:
    builder = BatchBuilder(2**31 - 1, compression, **options)
    for record in records:
        builder.append(*record)
    return builder.build()


def message_set(magic: int) -> bytes:
    messages = MessageSetBuilder(magic, base_offset=40)
    messages.append(5, b"key", b"value")
    return messages.build()


def outcome(data: bytes, engine: str, check_crc: bool = True) -> Any:
    """Return every record with its batch's header, or that there was an error."""
    found: list[Any] = []
    try:
        for batch in walk(data, check_crc, engine=engine):
            header = (batch.base_offset, batch.last_offset, batch.next_offset, batch.last_sequence, batch.attributes)
            found.append((header, [record_of(record) for record in batch.views()]))
            assert [record_of(record) for record in batch.records()] == found[-1][1]
    except DecodeError:
        return found, "error"
    return found


def record_of(record: Any) -> tuple[Any, ...]:
    return record.offset, record.timestamp, record.key, record.value, record.headers, record.sequence


def resealed(data: bytes) -> bytes:
    """Return the batch with a right checksum."""
    return data[:17] + crc32c(data[21:]).to_bytes(4, "big") + data[21:]


@pytest.mark.parametrize("compression", Compression)
def test_round_trip(engine: str, compression: Compression) -> None:
    data = batch_of(compression=compression, base_offset=100, producer_id=7, producer_epoch=1, base_sequence=3)
    (batch,) = walk(data, engine=engine)
    assert [record_of(record) for record in batch.records()] == [
        (100 + index, timestamp, key, value, headers, 3 + index)
        for index, (timestamp, key, value, headers) in enumerate(ROWS)
    ]
    assert (batch.base_offset, batch.last_offset, batch.next_offset) == (100, 103, 104)
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence, batch.last_sequence) == (7, 1, 3, 6)
    assert batch.compression is compression
    assert batch.max_timestamp == 1005
    assert batch.timestamp_type is TimestampType.CREATE_TIME
    assert batch.size_in_bytes == len(data)
    assert bytes(batch.data) == data
    assert not batch.is_transactional
    assert not batch.is_control
    assert batch.delete_horizon_ms is None


@given(records=st.lists(rows, min_size=1, max_size=5), compression=st.sampled_from(Compression))
def test_any_records(records: Any, compression: Compression) -> None:
    data = batch_of(records, compression)
    for engine in AVAILABLE:
        (batch,) = walk(data, engine=engine)
        found = [(record.timestamp, record.key, record.value, record.headers) for record in batch.records()]
        assert found == records


def test_topic_and_partition(engine: str) -> None:
    for data in (batch_of(), message_set(1)):
        (batch,) = walk(data, engine=engine)
        assert {(record.topic, record.partition) for record in batch.records("orders", 3)} == {("orders", 3)}


@pytest.mark.parametrize("wrap", [bytearray, memoryview, lambda data: memoryview(data).cast("b")])
def test_any_buffer(engine: str, wrap: Any) -> None:
    data = batch_of(compression=Compression.GZIP) + message_set(0)
    assert outcome(wrap(data), engine) == outcome(data, "python")


def test_several_batches_of_any_magic_and_a_cut_one(engine: str) -> None:
    parts = [batch_of(), message_set(0), message_set(1), batch_of(compression=Compression.LZ4)]
    data = b"".join(parts)
    positions = [sum(map(len, parts[:index])) for index in range(len(parts))]
    for tail in (b"", data[:5], data[:12], data[:16], data[:60], batch_of()[:-1]):
        found = list(walk(data + tail, engine=engine))
        assert [batch.position for batch in found] == positions
        assert [batch.magic for batch in found] == [2, 0, 1, 2]


@pytest.mark.parametrize("compression", [Compression.NONE, Compression.GZIP])
def test_every_cut(engine: str, compression: Compression) -> None:
    data = batch_of([(1, b"k", b"v", (("h", b"x"),)), (2, None, b"", ())], compression)
    whole = outcome(data, engine)
    for end in range(len(data)):
        assert outcome(data[:end], engine) == []  # a cut batch is left out, as at the end of a fetch
        shorter = data[:8] + max(end - 12, 0).to_bytes(4, "big") + data[12:end]
        if end >= HEADER_BYTES:
            found = outcome(resealed(shorter), engine)
            assert found == ([], "error")
            assert found != whole


def test_every_flipped_bit_of_a_checked_batch_is_noticed(engine: str) -> None:
    data = batch_of([(1, b"k", b"v", (("h", b"x"),))])
    for position in range(16, len(data)):
        for bit in range(8):
            flipped = bytearray(data)
            flipped[position] ^= 1 << bit
            found = outcome(bytes(flipped), engine)
            assert found == ([], "error"), position


@pytest.mark.parametrize("compression", Compression)
def test_engines_agree_on_flipped_bits(compression: Compression) -> None:
    data = batch_of([(1, b"k", b"v", (("h", b"x"),)), (2, None, b"w" * 30, ())], compression)
    for position in range(8, len(data)):
        for bit in range(8):
            flipped = bytearray(data)
            flipped[position] ^= 1 << bit
            first, *others = (outcome(bytes(flipped), engine, check_crc=False) for engine in AVAILABLE)
            assert others == [first] * len(others), (position, bit)


@given(body=st.binary(max_size=60), count=st.integers(-2, 4), attributes=st.sampled_from([0, 8, 0x40]))
def test_engines_agree_on_any_body(body: bytes, count: int, attributes: int) -> None:
    header = empty_batch(base_offset=5, last_offset_delta=3)
    data = header[:8] + (49 + len(body)).to_bytes(4, "big") + header[12:]
    data = data[:21] + attributes.to_bytes(2, "big") + data[23:57] + count.to_bytes(4, "big", signed=True) + body
    first, *others = (outcome(resealed(data), engine) for engine in AVAILABLE)
    assert others == [first] * len(others)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ((8, b"\x00\x00\x00\x0d"), "13 bytes announced, no batch or message has fewer than 14"),
        ((8, b"\xff\xff\xff\xff"), "-1 bytes announced"),
        ((8, b"\x00\x00\x00\x30"), "batch of 60 bytes, at least 61 are needed"),
        ((16, b"\x03"), "magic 3, 0 to 2 are known"),
        ((16, b"\xff"), "magic 255, 0 to 2 are known"),
        ((17, b"\x00\x00\x00\x00"), "checksum 0x00000000, the content has 0x"),
    ],
)
def test_refused_headers(engine: str, change: tuple[int, bytes], reason: str) -> None:
    position, value = change
    data = batch_of([(1, None, b"v", ())])
    damaged = data[:position] + value + data[position + len(value) :]
    with pytest.raises(DecodeError, match=reason):
        list(walk(data + damaged, engine=engine))


def test_errors_name_the_record_and_the_place(engine: str) -> None:
    data = batch_of([(1, None, b"v", ()), (2, None, b"w", ())])
    damaged = resealed(data[:-1] + b"\x02")  # the second record announces a header that is not there
    with pytest.raises(DecodeError, match=r"records\[1\].* at byte") as caught:
        list(walk(data + damaged, engine=engine))[1].records()
    assert caught.value.offset == len(data)


def test_views_fail_when_their_turn_comes(engine: str) -> None:
    data = batch_of([(1, None, b"v", ()), (2, None, b"w", ())])
    (batch,) = walk(resealed(data[:-1] + b"\x02"), engine=engine)
    views = batch.views()
    assert next(views).value == b"v"
    with pytest.raises(DecodeError):
        next(views)
    assert list(views) == []


def test_walk_headers_checks_nothing_behind_the_header() -> None:
    data = bytearray(batch_of())
    data[-1] ^= 1
    assert [batch.records_count for batch in walk_headers(bytes(data))] == [len(ROWS)]


def test_decompression_is_bounded(engine: str) -> None:
    data = batch_of([(1, None, bytes(1_000_000), ())], Compression.GZIP)
    with pytest.raises(DecodeError, match="more than the 65536 bytes"):
        next(walk(data, limit=65536, engine=engine)).records()


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
    assert {record.timestamp for record in batch.records()} == {77}


@pytest.mark.parametrize(
    ("buffer", "arguments", "error"),
    [
        (bytearray(60), (0, 0), DecodeError),
        (bytearray(message_set(1) + bytes(60)), (0, 0), DecodeError),
        (bytearray(batch_of()), (2**63, 0), EncodeError),
        (bytearray(batch_of()), (0, 2**31), EncodeError),
        (memoryview(batch_of()), (0, 0), EncodeError),
    ],
)
def test_stamp_refuses(buffer: Any, arguments: tuple[int, int], error: type[Exception]) -> None:
    with pytest.raises(error):
        stamp(buffer, *arguments)


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
    assert empty.size_in_bytes == HEADER_BYTES
    assert (empty.records(), empty.last_offset, empty.compression) == ([], 53, Compression.NONE)
    assert empty.last_sequence == again.last_sequence == 1


def test_empty_batch_refuses_what_does_not_fit() -> None:
    with pytest.raises(EncodeError):
        empty_batch(base_offset=2**63, last_offset_delta=0)


def test_engines_by_name() -> None:
    for name in AVAILABLE:
        assert isinstance(next(walk(batch_of(), engine=name)), record_batch_class(name))
        assert batch_builder_class(name)().count == 0
    assert RecordBatch in {record_batch_class(name) for name in AVAILABLE}
    for find in (record_batch_class, batch_builder_class):
        with pytest.raises(LocalProtocolError, match=r"'rust' is not available, .*python"):
            find("rust")
