"""Both builders write the same bytes, accept everything that fits, and refuse batches that no broker would accept.

Method: make the same calls on the Python builder and on the extension's, with every option and limit once, and read
each batch back.
"""

from __future__ import annotations

import struct
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kafkawire.sdk.errors import EncodeError
from kafkawire.sdk.protocol.tables.record_formats import BATCH_HEADER_BYTES
from kafkawire.sdk.records import (
    DEFAULT_BATCH_BYTES,
    BatchBuilder,
    BinaryColumn,
    Compression,
    RecordBatch,
    TimestampType,
    batch_builder_class,
)
from kafkawire.sdk.records.engines import selection as engines
from tests.sdk.records.conftest import ROWS, rows

BUILDERS = ["python", *(["native"] if engines.built is not None else [])]
HEADER_BYTES = 61


@pytest.fixture(params=BUILDERS)
def builder_class(request: pytest.FixtureRequest) -> type[BatchBuilder]:
    return batch_builder_class(request.param)


def column(*values: bytes | None) -> BinaryColumn:
    ends = [0]
    for value in values:
        ends.append(ends[-1] + len(value or b""))
    bits = sum((value is not None) << index for index, value in enumerate(values))
    validity = None if None not in values else bits.to_bytes(len(values) // 8 + 1, "little")
    return BinaryColumn(struct.pack(f"={len(ends)}i", *ends), b"".join(value or b"" for value in values), validity)


@given(
    records=st.lists(rows, min_size=1, max_size=6),
    options=st.fixed_dictionaries(
        {},
        optional={
            "base_offset": st.integers(0, 2**62),
            "timestamp_type": st.sampled_from(TimestampType),
            "log_append_time": st.integers(-1, 2**62),
            "partition_leader_epoch": st.integers(-1, 2**31 - 1),
            "delete_horizon_ms": st.none() | st.integers(-(2**63), 2**62),
            "is_control": st.booleans(),
            "producer_id": st.just(-1),
        },
    ),
)
@example(records=[(-1, None, None, ()), (2**63 - 1, None, None, ())], options={})  # the delta does not fit 64 bits
def test_builders_agree(records: Any, options: Any) -> None:
    built = set()
    for name in BUILDERS:
        builder = batch_builder_class(name)(2**31 - 1, **options)
        for index, record in enumerate(records):
            assert builder.append(*record) == index
        built.add(builder.build())
    assert len(built) == 1


def test_flags_and_producer(builder_class: type[BatchBuilder]) -> None:
    builder = builder_class(producer_id=5, producer_epoch=2, base_sequence=7, is_transactional=True)
    builder.append(1, None, b"v")
    batch = RecordBatch(builder.build())
    assert batch.is_transactional
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (5, 2, 7)


@pytest.mark.parametrize("delete_horizon_ms", [-1, -(2**63)])
def test_a_delete_horizon_below_0_is_none(builder_class: type[BatchBuilder], delete_horizon_ms: int) -> None:
    builder = builder_class(delete_horizon_ms=delete_horizon_ms)
    assert builder.delete_horizon_ms is None
    builder.append(5, None, b"v")
    batch = RecordBatch(builder.build())
    assert (batch.delete_horizon_ms, batch.base_timestamp) == (None, 5)


def test_a_delete_horizon_of_0_is_one(builder_class: type[BatchBuilder]) -> None:
    builder = builder_class(delete_horizon_ms=0)
    assert builder.delete_horizon_ms == 0
    builder.append(5, None, b"v")
    batch = RecordBatch(builder.build())
    assert (batch.delete_horizon_ms, batch.base_timestamp) == (0, 0)
    assert batch.records()[0].timestamp_ms == 5


def test_a_batch_is_full(builder_class: type[BatchBuilder]) -> None:
    builder = builder_class(HEADER_BYTES + 20)
    assert builder.append(1, None, b"x" * 100) == 0  # the first record is accepted regardless of its size
    assert builder.append(2, None, b"") is None
    assert builder.append_many([b""], 2) == 0
    assert builder.append_columns(column(b""), 2) == 0
    assert builder.count == 1
    for more in (16, 23):
        builder = builder_class(HEADER_BYTES + more)
        assert builder.append_many([b"a"] * 5, 1) == 2
        assert builder.size_bytes == HEADER_BYTES + 16
        assert len(builder.build()) == HEADER_BYTES + 16


def test_default_limit(builder_class: type[BatchBuilder]) -> None:
    builder = builder_class()
    assert builder.append_many([bytes(1000)] * 200, 1) < 200
    assert DEFAULT_BATCH_BYTES - 1100 < builder.size_bytes <= DEFAULT_BATCH_BYTES


def test_buffers_of_every_kind(builder_class: type[BatchBuilder]) -> None:
    builder = builder_class()
    builder.append(
        1, bytearray(b"k"), memoryview(b"value")[1:3], [("h", bytearray(b"x")), ("i", memoryview(b"yz")[1:])]
    )
    (record,) = RecordBatch(builder.build()).records()
    assert (record.key, record.value, record.headers) == (b"k", b"al", (("h", b"x"), ("i", b"z")))


def test_append_many_takes_any_iterable(builder_class: type[BatchBuilder]) -> None:
    builder = builder_class()
    assert builder.append_many(iter([b"a", None, bytearray(b"c")]), 9) == 3
    records = RecordBatch(builder.build()).records()
    assert [(record.timestamp_ms, record.key, record.value) for record in records] == [
        (9, None, b"a"),
        (9, None, None),
        (9, None, b"c"),
    ]


def test_append_columns(builder_class: type[BatchBuilder]) -> None:
    builder = builder_class()
    assert builder.append_columns(column(b"zero", b"one", None, b""), 9, column(None, b"k", b"", b"last"), start=1) == 3
    assert builder.append_columns(column(b"more"), 10) == 1
    assert builder.append_columns(column(b"a"), 10, start=5) == 0
    records = RecordBatch(builder.build()).records()
    assert [(record.key, record.value) for record in records] == [
        (b"k", b"one"),
        (b"", None),
        (b"last", b""),
        (None, b"more"),
    ]


def test_append_at(builder_class: type[BatchBuilder]) -> None:
    builder = builder_class(base_offset=10)
    assert builder.append_at(10, 1, None, b"a") == 0
    assert builder.append_at(10 + 2**31 - 1, 1, None, b"b") == 2**31 - 1
    batch = RecordBatch(builder.build())
    assert [record.offset for record in batch.records()] == [10, 10 + 2**31 - 1]
    assert batch.last_offset == 10 + 2**31 - 1


def test_raised_last_offset_delta(builder_class: type[BatchBuilder]) -> None:
    builder = builder_class()
    builder.append(1, None, b"a")
    builder.last_offset_delta = 9
    assert RecordBatch(builder.build()).next_offset == 10


@pytest.mark.parametrize("compression", Compression)
def test_seal_is_a_view_and_can_be_repeated(builder_class: type[BatchBuilder], compression: Compression) -> None:
    builder = builder_class(2**20, compression)
    for record in ROWS:
        builder.append(*record)
    sealed = builder.seal()
    assert sealed.readonly
    assert sealed == builder.build()
    builder.producer_id, builder.producer_epoch, builder.base_sequence = 8, 0, 5
    again = RecordBatch(builder.seal())
    again.check_crc()
    assert (again.producer_id, again.base_sequence) == (8, 5)
    assert [record.value for record in again.records()] == [value for _, _, value, _ in ROWS]
    del builder
    assert again.records_count == len(ROWS)  # the view keeps the memory alive


def test_nothing_follows_the_seal(builder_class: type[BatchBuilder]) -> None:
    builder = builder_class()
    builder.append(1, None, b"a")
    builder.seal()
    with pytest.raises(EncodeError, match="sealed"):
        builder.append(1, None, b"b")


def test_without_records_there_is_no_batch(builder_class: type[BatchBuilder]) -> None:
    assert builder_class().build() == b""
    assert len(builder_class(1000, Compression.GZIP).seal()) == 0


@pytest.mark.parametrize(
    ("arguments", "path"),
    [
        ((-2, None, b""), "timestamp_ms"),
        ((2**63, None, b""), "timestamp_ms"),
        ((1, "text", b""), "key"),
        ((1, None, 5), "value"),
        ((1, b"k", 5), "value"),
        ((1, "text", None), "key"),
        ((1, None, b"", [(b"name", b"")]), "headers"),
        ((1, None, b"", [("name", "text")]), "headers"),
        ((1, None, b"", [("name",)]), "headers"),
        ((1, None, b"", [5]), "headers"),
        ((1, None, b"", 5), "headers"),
        ((1.5, None, b""), "timestamp_ms"),
        (("1", None, b""), "timestamp_ms"),
    ],
)
def test_refused_records(builder_class: type[BatchBuilder], arguments: Any, path: str) -> None:
    builder = builder_class()
    with pytest.raises(EncodeError) as caught:
        builder.append(*arguments)
    assert caught.value.path == path
    assert builder.count == 0
    assert builder.append(1, None, b"") == 0


def test_refused_offsets(builder_class: type[BatchBuilder]) -> None:
    builder = builder_class(base_offset=5)
    builder.append(1, None, b"")
    for offset, reason in (
        (5, "5 does not follow 5"),
        (4, "does not follow"),
        (5 + 2**31, "at most 2147483647 is allowed"),
    ):
        with pytest.raises(EncodeError, match=reason):
            builder.append_at(offset, 1, None, b"")


@pytest.mark.parametrize("start", [0, 1, 3])
def test_columns_that_do_not_fit_are_taken_up_to_the_limit(builder_class: type[BatchBuilder], start: int) -> None:
    values = column(*(b"%d" % row * 20 for row in range(8)))
    whole = builder_class()
    assert whole.append_columns(values, 1) == 8
    builder = builder_class(limit_bytes=BATCH_HEADER_BYTES + (whole.size_bytes - BATCH_HEADER_BYTES) // 4)
    assert builder.append_columns(values, 1, start=start) == 2
    records = RecordBatch(builder.build()).records()
    assert [record.value for record in records] == [b"%d" % row * 20 for row in (start, start + 1)]


def test_refused_columns(builder_class: type[BatchBuilder]) -> None:
    builder = builder_class()
    with pytest.raises(EncodeError, match="there are 2 keys for 1 values"):
        builder.append_columns(column(b"a"), 1, column(b"a", b"b"))
    broken = BinaryColumn(struct.pack("=3i", 0, 1, 50), b"abc")
    with pytest.raises(EncodeError, match=r"offsets\[1\]: 1 to 50 is not within 3 bytes"):
        builder.append_columns(broken, 1)
    assert builder.count == 1


@pytest.mark.parametrize(
    ("options", "path"),
    [
        ({"is_transactional": True}, "producer_id"),
        ({"producer_id": 1}, "producer_epoch"),
        ({"producer_id": 1, "producer_epoch": 0}, "base_sequence"),
    ],
)
def test_refused_producers(builder_class: type[BatchBuilder], options: Any, path: str) -> None:
    builder = builder_class(**options)
    builder.append(1, None, b"")
    with pytest.raises(EncodeError) as caught:
        builder.seal()
    assert caught.value.path == path
    builder.append(1, None, b"")
    assert builder.count == 2  # it was not sealed


@pytest.mark.parametrize(
    ("field", "low", "high"),
    [
        ("base_offset", -(2**63), 2**63 - 1),
        ("producer_id", -(2**63), 2**63 - 1),
        ("log_append_time", -(2**63), 2**63 - 1),
        ("delete_horizon_ms", -(2**63), 2**63 - 1),
        ("limit_bytes", 0, 2**63 - 1),
        ("partition_leader_epoch", -(2**31), 2**31 - 1),
        ("base_sequence", -(2**31), 2**31 - 1),
        ("producer_epoch", -(2**15), 2**15 - 1),
        ("timestamp_type", 0, 1),
    ],
)
def test_numbers_that_do_not_fit(builder_class: type[BatchBuilder], field: str, low: int, high: int) -> None:
    wrong: Any
    for wrong in (low - 1, high + 1):
        with pytest.raises(EncodeError, match=f"^{field}: {wrong} is not within {low} and {high}$"):
            builder_class(**{field: wrong})
    for wrong in ("5", 5.0):
        with pytest.raises(EncodeError, match=f"^{field}: expected an integer, got {wrong!r} of "):
            builder_class(**{field: wrong})
    for right in (low, high):
        builder_class(**{field: right})  # type: ignore[arg-type]  # all of them are integers


@pytest.mark.parametrize(
    "field", ["base_offset", "producer_id", "partition_leader_epoch", "producer_epoch", "base_sequence"]
)
def test_numbers_that_are_set_later(builder_class: type[BatchBuilder], field: str) -> None:
    builder = builder_class()
    with pytest.raises(EncodeError, match=f"^{field}: {2**63} is not within"):
        setattr(builder, field, 2**63)
    setattr(builder, field, 7)
    assert getattr(builder, field) == 7


def test_the_last_offset_only_grows(builder_class: type[BatchBuilder]) -> None:
    builder = builder_class()
    builder.append_many([b"", b""], 1)
    for wrong in (0, 2**31):
        with pytest.raises(EncodeError, match=f"^last_offset_delta: {wrong} is not within 1 and 2147483647$"):
            builder.last_offset_delta = wrong
    builder.last_offset_delta = 2**31 - 1
    with pytest.raises(
        EncodeError,
        match=r"^offset: "
        r"the record is 2147483648 after the first of the batch, but at most 2147483647 is allowed$",
    ):
        builder.append(1, None, b"")


@pytest.mark.parametrize(
    ("compression", "level", "reason"),
    [
        (5, None, r"compression: 5 is none of 0 \(none\), 1 \(gzip\), 2 \(snappy\), 3 \(lz4\), 4 \(zstd\)"),
        (-1, None, "compression: -1 is none of"),
        (2**70, None, f"compression: {2**70} is none of"),
        ("gzip", None, "compression: expected an integer, got 'gzip' of str"),
        (None, None, "compression: expected an integer, got None of NoneType"),
        (Compression.GZIP, 10, "level: gzip has levels 1 to 9, not 10"),
        (Compression.ZSTD, 23, "level: zstd has levels -131072 to 22, not 23"),
        (Compression.LZ4, "high", "level: expected an integer, got 'high' of str"),
        (Compression.NONE, 1.5, "level: expected an integer, got 1.5 of float"),
    ],
)
def test_refused_compressions(builder_class: type[BatchBuilder], compression: Any, level: Any, reason: str) -> None:
    with pytest.raises(EncodeError, match=f"^{reason}"):
        builder_class(1000, compression, level=level)


def test_a_compression_may_be_a_number(builder_class: type[BatchBuilder]) -> None:
    builder = builder_class(1000, 4, level=3)  # type: ignore[arg-type]  # a Compression is a number
    builder.append(1, None, b"v")
    assert builder.compression is Compression.ZSTD
    assert RecordBatch(builder.build()).compression is Compression.ZSTD
