"""Consecutive batches are found, all engines read them identically, and bytes that are not a whole batch are reported.

Method: walk batches of every shape on every engine; try each cut and each flipped bit of small batches, for which the
engines must agree on records or a DecodeError; use hypothesis for round trips.
"""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkawire.sdk.errors import DecodeError, PartialBatch
from kafkawire.sdk.protocol.engines.selection import ENGINE
from kafkawire.sdk.protocol.tables.record_formats import BATCH_HEADER_BYTES
from kafkawire.sdk.records import (
    Compression,
    MessageSetBuilder,
    TimestampType,
    crc32c,
    empty_batch,
    read_records,
    walk,
    walk_headers,
)
from kafkawire.sdk.records.columns import columns
from kafkawire.sdk.records.engines import selection as engines
from kafkawire.sdk.records.java_integers import sequence_after
from kafkawire.sdk.records.walk import walked_records
from tests.sdk.records.conftest import AVAILABLE, ROWS, batch_of, message_set, rows
from tests.thorough import sampled


def outcome(data: bytes, engine: str, check_crc: bool = True) -> Any:
    """Return every record with its batch's header, and the position of the error if there is one."""
    found: list[Any] = []
    try:
        for batch in walk(data, check_crc, engine=engine):
            header = (batch.base_offset, batch.last_offset, batch.next_offset, batch.last_sequence, batch.attributes)
            found.append((header, [record_of(record) for record in batch.views()]))
            assert [record_of(record) for record in batch.records()] == found[-1][1]
    except DecodeError as error:
        return found, (error.offset, error.path.partition(".")[0])  # construct's path includes the record
    return found, None


def record_of(record: Any) -> tuple[Any, ...]:
    return record.offset, record.timestamp_ms, record.key, record.value, record.headers, record.sequence


def resealed(data: bytes) -> bytes:
    """Return the batch with a valid checksum."""
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


@pytest.mark.parametrize(
    ("base_sequence", "of_record", "last"), [(-1, -1, -1), (-2, -1, 1), (-5, -1, -2), (-(2**31), -1, -(2**31) + 3)]
)
def test_only_minus_one_stands_for_no_sequence_in_a_batch(
    engine: str, base_sequence: int, of_record: int, last: int
) -> None:
    """In Kafka, `DefaultRecordBatch.lastSequence` counts on from any other number, but `DefaultRecord` only from 0."""
    data = batch_of()
    data = resealed(data[:53] + base_sequence.to_bytes(4, "big", signed=True) + data[57:])
    (batch,) = walk(data, engine=engine)
    assert (batch.base_sequence, batch.last_sequence) == (base_sequence, last)
    assert {record.sequence for record in (*batch.records(), *batch.views())} == {of_record}


def test_the_last_sequence_that_apache_kafka_finds(engine: str) -> None:
    data = bytes.fromhex(
        "00000000000003e80000003100000006022aba13700030f8dd5ddfffffffffffffffff0000018bcfe568000000000000000387000780000000"
        "00000000"
    )
    (batch,) = walk(data, engine=engine)
    assert (batch.base_sequence, batch.last_sequence) == (-(2**31), 2027773407)


def test_the_sequence_of_a_record_before_the_first_overflows_as_in_java(engine: str) -> None:
    """No valid batch has such a record: its offset delta is negative."""
    data = batch_of([(1, b"k", b"v", ())], base_offset=10, producer_id=7, producer_epoch=1, base_sequence=5)
    at = 61 + 3  # size, attributes and timestamp delta take a byte each
    assert data[at] == 0
    (batch,) = walk(resealed(data[:at] + b"\x01" + data[at + 1 :]), engine=engine)
    (record,) = batch.records()
    assert (record.offset, record.sequence) == (9, sequence_after(5, -1))
    assert record.sequence != sequence_after(-1, 5)


@given(records=st.lists(rows, min_size=1, max_size=5), compression=st.sampled_from(Compression))
def test_any_records(records: Any, compression: Compression) -> None:
    data = batch_of(records, compression)
    for engine in AVAILABLE:
        (batch,) = walk(data, engine=engine)
        found = [(record.timestamp_ms, record.key, record.value, record.headers) for record in batch.records()]
        assert found == records


def test_topic_and_partition(engine: str) -> None:
    for data in (batch_of(), message_set(1)):
        (batch,) = walk(data, engine=engine)
        assert {(record.topic, record.partition) for record in batch.records("orders", 3)} == {("orders", 3)}


@pytest.mark.parametrize("wrap", [bytearray, memoryview, lambda data: memoryview(data).cast("b")])
def test_any_buffer(engine: str, wrap: Any) -> None:
    data = batch_of(compression=Compression.GZIP) + message_set(0)
    assert outcome(wrap(data), engine) == outcome(data, "python")


def walked(data: bytes, engine: str) -> tuple[list[Any], PartialBatch | None]:
    """Return the whole batches, and the error at the end."""
    found: list[Any] = []
    try:
        for batch in walk(data, engine=engine):
            found.append(batch)
    except PartialBatch as partial:
        return found, partial
    return found, None


def test_several_batches_of_any_magic(engine: str) -> None:
    parts = [batch_of(), message_set(0), message_set(1), batch_of(compression=Compression.LZ4)]
    found, partial = walked(b"".join(parts), engine)
    assert [batch.position for batch in found] == [sum(map(len, parts[:index])) for index in range(len(parts))]
    assert [batch.magic for batch in found] == [2, 0, 1, 2]
    assert partial is None
    assert walked(b"", engine) == ([], None)


@pytest.mark.parametrize(
    "last", sampled([batch_of(), batch_of(compression=Compression.GZIP), message_set(0), message_set(1)], 2)
)
def test_every_cut_is_reported(engine: str, last: bytes) -> None:
    first = message_set(1) + batch_of()
    for size in range(1, len(last)):
        found, partial = walked(first + last[:size], engine)
        assert [batch.position for batch in found] == [0, len(message_set(1))], size
        assert partial is not None, size
        assert (partial.path, partial.offset, partial.left_bytes) == ("batch", len(first), size)
        assert partial.needed_bytes == (None if size <= 16 else len(last))


def test_partial_batches_say_how_many_bytes_there_are_and_where(engine: str) -> None:
    data = batch_of([(1, None, b"v", ())])
    with pytest.raises(
        PartialBatch,
        match=r"batch at byte 69: partial batch: 69 bytes are needed, "
        r"but 68 are left, so 1 are missing",
    ):
        list(walk(data + data[:-1], engine=engine))
    with pytest.raises(
        PartialBatch, match=r"batch at byte 0: partial batch: 16 bytes are left, too few for its length"
    ):
        list(walk(data[:16], engine=engine))


def test_a_length_that_cannot_be_is_no_partial_batch(engine: str) -> None:
    """The length is refused even if nothing follows it."""
    for size in (12, 16, 61):
        with pytest.raises(DecodeError, match="the length is 13 bytes") as caught:
            list(walk((bytes(11) + b"\x0d" + bytes(49))[:size], engine=engine))
        assert not isinstance(caught.value, PartialBatch)


@pytest.mark.parametrize("magic", [0, 1, 2])
def test_no_flipped_bit_of_a_length_loses_a_batch(engine: str, magic: int) -> None:
    """The second of three batches has a wrong length; an error is raised before any batch is missed."""
    one = batch_of([(1, b"k", b"v", ())]) if magic == 2 else message_set(magic)
    for bit in range(32):
        damaged = bytearray(one * 3)
        damaged[len(one) + 8 + bit // 8] ^= 0x80 >> bit % 8
        for check_crc in (True, False) if magic == 2 else (True,):  # older messages may have spare bytes
            found: list[Any] = []
            with pytest.raises(DecodeError) as caught:
                found.extend(batch.records() for batch in walk(bytes(damaged), check_crc, engine=engine))
            assert len(found) <= 1
            assert len(one) <= caught.value.offset < 3 * len(one)
            with pytest.raises(DecodeError):
                columns(walk(bytes(damaged), check_crc, engine=engine))


@pytest.mark.parametrize("compression", [Compression.NONE, Compression.GZIP])
def test_every_cut(engine: str, compression: Compression) -> None:
    data = batch_of([(1, b"k", b"v", (("h", b"x"),)), (2, None, b"", ())], compression)
    for end in range(1, len(data)):
        assert outcome(data[:end], engine) == ([], (0, "batch"))
        shorter = data[:8] + max(end - 12, 0).to_bytes(4, "big") + data[12:end]
        if end >= BATCH_HEADER_BYTES:
            found, place = outcome(resealed(shorter), engine)
            assert (found, place is None) == ([], False)


def test_every_flipped_bit_of_a_checked_batch_is_noticed(engine: str) -> None:
    data = batch_of([(1, b"k", b"v", (("h", b"x"),))])
    for position in range(16, len(data)):
        for bit in range(8):
            flipped = bytearray(data)
            flipped[position] ^= 1 << bit
            found, place = outcome(bytes(flipped), engine)
            assert (found, place is None) == ([], False), position


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
        ((8, b"\x00\x00\x00\x0d"), "the length is 13 bytes, but no batch or message has fewer than 14"),
        ((8, b"\xff\xff\xff\xff"), "the length is -1 bytes"),
        ((8, b"\x00\x00\x00\x30"), "the batch has 60 bytes, but at least 61 are needed"),
        ((16, b"\x03"), "magic 3 is unknown; expected 0 to 2"),
        ((16, b"\xff"), "magic 255 is unknown; expected 0 to 2"),
        ((17, b"\x00\x00\x00\x00"), "the checksum is 0x00000000, but the content has 0x"),
    ],
)
def test_refused_headers(engine: str, change: tuple[int, bytes], reason: str) -> None:
    position, value = change
    data = batch_of([(1, None, b"v", ())])
    damaged = data[:position] + value + data[position + len(value) :]
    with pytest.raises(DecodeError, match=reason):
        list(walk(data + damaged, engine=engine))


@pytest.mark.parametrize("count", [-1, -(2**31), 3, 4, 2**31 - 1])
@pytest.mark.parametrize("compression", [Compression.NONE, Compression.GZIP])
def test_a_count_that_the_bytes_cannot_hold(engine: str, compression: Compression, count: int) -> None:
    """The count is refused before any record is read, and before memory for that many records is allocated."""
    data = batch_of([(1, None, b"", ())] * 2, compression)
    wrong = resealed(data[:57] + count.to_bytes(4, "big", signed=True) + data[61:])
    (_, batch) = walk(data + wrong, engine=engine)
    for read in (batch.records, lambda: list(batch.views()), lambda: columns([batch])):
        with pytest.raises(
            DecodeError, match=f"^records_count at byte {len(data)}: {count} records are counted in [0-9]+ bytes"
        ):
            read()


def test_errors_name_the_record_and_the_place(engine: str) -> None:
    data = batch_of([(1, None, b"v", ()), (2, None, b"w", ())])
    damaged = resealed(data[:-1] + b"\x02")  # the second record declares a header that is missing
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


@pytest.mark.parametrize("damaged_at", [16, -1, None], ids=["magic", "content", "cut"])
def test_an_error_ends_the_walk(engine: str, damaged_at: int | None) -> None:
    damaged = bytearray(batch_of())
    if damaged_at is None:
        damaged.pop()
    else:
        damaged[damaged_at] ^= 0xFF
    batches = walk(batch_of() + damaged, engine=engine)
    next(batches)
    with pytest.raises(DecodeError):
        next(batches)
    assert list(batches) == []


@pytest.mark.parametrize("data", [batch_of(compression=Compression.GZIP), message_set(1)], ids=range(2))
def test_copies_of_batches(engine: str, data: bytes) -> None:
    """Copies own their bytes, and are read by the engine of the process that loads them."""
    buffer = bytearray(message_set(0) + data)
    _, batch = walk(buffer, limit=10_000_000, engine=engine)
    records = batch.records()
    pickled = pickle.dumps(batch)
    assert b"native" not in pickled
    copies = [copy.copy(batch), copy.deepcopy(batch), pickle.loads(pickled)]
    buffer[:] = bytes(len(buffer))
    for copied in copies:
        copied.check_crc()
        assert copied.records() == records
        assert (bytes(copied.data), copied.position, copied.limit) == (data, 0, 10_000_000)


def test_walk_headers_checks_nothing_behind_the_header() -> None:
    data = bytearray(batch_of())
    data[-1] ^= 1
    assert [batch.records_count for batch in walk_headers(bytes(data))] == [len(ROWS)]


def test_decompression_is_bounded(engine: str) -> None:
    data = batch_of([(1, None, bytes(1_000_000), ())], Compression.GZIP)
    with pytest.raises(DecodeError, match="more than the 65536 bytes"):
        next(walk(data, limit=65536, engine=engine)).records()


def test_decompression_of_a_wrapper_is_bounded(engine: str) -> None:
    builder = MessageSetBuilder(1, Compression.GZIP)
    builder.append(1, None, bytes(100_000))
    with pytest.raises(DecodeError, match="more than the 65536 bytes"):
        next(walk(builder.build(), limit=65536, engine=engine)).records()


# --- all records at once ----------------------------------------------------------------------------------------------

READERS: dict[str, Callable[..., list[Any]]] = {
    "in use": read_records,
    **{engine: partial(walked_records, engine=engine) for engine in AVAILABLE},
    **({} if engines.built is None else {"native, at once": engines.built.read_records}),
}


@pytest.fixture(params=READERS)
def reader(request: pytest.FixtureRequest) -> Callable[..., list[Any]]:
    """Provide every way to read all records in a buffer."""
    return READERS[request.param]


PARTS = [
    batch_of(base_offset=10, producer_id=7, producer_epoch=1, base_sequence=2**31 - 2),
    batch_of([(1, None, b"v", ())]),
    batch_of([(1, None, b"v", ())], timestamp_type=TimestampType.LOG_APPEND_TIME, log_append_time=77),
    batch_of(compression=Compression.GZIP),
    batch_of([(1, b"\0\0\0\1", b"\0\0\0\0\0\0", ())], is_control=True),
    empty_batch(base_offset=5, last_offset_delta=3),
    message_set(0),
    message_set(1),
]


@pytest.mark.parametrize("wrap", [bytes, bytearray, memoryview, lambda data: memoryview(data).cast("b")])
def test_all_records_of_a_buffer(reader: Callable[..., list[Any]], wrap: Any) -> None:
    """Batches alone, in pairs and all together give the same records as a walk, without control records."""
    pairs = [first + second for first in PARTS for second in PARTS]
    for data in (b"", *PARTS, *pairs, b"".join(PARTS), PARTS[1] * 100):
        walked = [batch for batch in walk(data, engine="python") if not getattr(batch, "is_control", False)]
        expected = [record_of(record) for batch in walked for record in batch.records()]
        assert [record_of(record) for record in reader(wrap(data))] == expected


def test_all_records_are_of_a_topic_and_partition(reader: Callable[..., list[Any]]) -> None:
    for data in PARTS[:4]:
        assert {(record.topic, record.partition) for record in reader(data + data)} == {("", -1)}
        assert {(record.topic, record.partition) for record in reader(data + data, "orders", 3)} == {("orders", 3)}


def reading(reader: Callable[..., list[Any]], data: bytes, **options: Any) -> Any:
    """Return the records, or the description of the damage."""
    try:
        return [record_of(record) for record in reader(data, **options)]
    except DecodeError as error:
        return type(error), error.offset, str(error)


def test_damage_is_reported_as_by_a_walk(reader: Callable[..., list[Any]]) -> None:
    # The construct engine says more about a damaged record.
    in_use = ENGINE if reader is read_records else "python"
    engine = "construct" if "construct" in (in_use, getattr(reader, "keywords", {}).get("engine")) else "python"
    walker = partial(walked_records, engine=engine)
    for part in (PARTS[1], PARTS[3], batch_of([(1, b"k", None, (("h", b"x"),))]), message_set(1)):
        data = PARTS[1] + part
        for end in range(len(PARTS[1]), len(data)):
            assert reading(reader, data[:end]) == reading(walker, data[:end]), end
        for bit in range(8 * len(PARTS[1]), 8 * len(data), 3):
            damaged = bytearray(data)
            damaged[bit // 8] ^= 0x80 >> bit % 8
            for check_crc in (True, False):
                found = reading(reader, bytes(damaged), check_crc=check_crc)
                assert found == reading(walker, bytes(damaged), check_crc=check_crc), (bit, check_crc)


def test_all_records_within_a_limit(reader: Callable[..., list[Any]]) -> None:
    data = PARTS[1] + batch_of([(1, None, bytes(10_000), ())], Compression.GZIP)
    assert len(reader(data, limit=11_000)) == 2
    with pytest.raises(DecodeError, match=r"limit|more than"):
        reader(data, limit=1_000)


@pytest.mark.parametrize("wrong", [None, 5, "text", [1]])
def test_records_of_no_buffer(reader: Callable[..., list[Any]], wrong: Any) -> None:
    with pytest.raises(TypeError):
        reader(wrong)
