"""Rows equal the records, however they are split into pieces, and a broken batch yields no rows.

Method: compare every engine's rows with `batch.records()`, for batches of every magic and compression, with limits from
one row up; let Arrow validate its arrays in full; read batches that are broken after whole records.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kafkawire.sdk.errors import DecodeError
from kafkawire.sdk.protocol.tables.record_formats import (
    BATCH_CRC_AT,
    BATCH_CRC_COVERS_FROM,
    BATCH_HEADER_BYTES,
)
from kafkawire.sdk.records import Batch, BatchBuilder, Compression, MessageSetBuilder, TimestampType, walk
from kafkawire.sdk.records.crc import crc32c
from kafkawire.sdk.records.engines import python_rows, selection
from kafkawire.sdk.records.engines.shared_rows import HEADER_BYTES, HEADER_OBJECT_BYTES
from kafkawire.sdk.records.rows import COLUMNS, PlainBatches, RowsBuilder, arrow_arrays, rows_builder
from tests.needs import EXTENSION
from tests.sdk.records.conftest import ROWS, rows

BUILDERS: list[Any] = [python_rows.RowsBuilder, *([selection.built.RowsBuilder] if selection.built is not None else [])]


@pytest.fixture(params=BUILDERS, ids=["python", "native"][: len(BUILDERS)])
def builder_class(request: pytest.FixtureRequest) -> Any:
    return request.param


def batch_of(records: Any = ROWS, compression: Compression = Compression.NONE, base_offset: int = 0) -> bytes:
    builder = BatchBuilder(2**31 - 1, compression, base_offset=base_offset)
    for record in records:
        builder.append(*record)
    return builder.build()


def message_set(compression: Compression) -> bytes:
    messages = MessageSetBuilder(1, compression)
    for number in range(5):
        messages.append(number, b"key" if number % 2 else None, b"x" * number)
    return messages.build()


def pieces(builder: RowsBuilder, batches: Iterable[Batch], wanted: Any = None) -> list[dict[str, list[Any]]]:
    """Return the rows from some batches, in the pieces that the builder returns."""
    found = []
    for batch in batches:
        builder.begin(batch, wanted)
        while not builder.fill():
            found.append(table(builder))
    found.append(table(builder))
    return found


def table(builder: RowsBuilder) -> dict[str, list[Any]]:
    count, size = builder.count, builder.size_in_bytes
    columns = arrow_arrays(builder.take())
    batch = pyarrow.RecordBatch.from_arrays(list(columns.values()), list(columns))
    batch.validate(full=True)
    assert batch.num_rows == count
    assert (builder.count, builder.size_in_bytes) == (0, 0)
    if "timestamp" in columns:
        columns["timestamp"] = columns["timestamp"].cast(pyarrow.int64())
    assert size == sum(_bytes(columns[name]) for name in ("key", "value", "headers") if name in columns)
    return {name: column.to_pylist() for name, column in columns.items()}


def _bytes(column: pyarrow.Array) -> int:
    if isinstance(column, pyarrow.ListArray):
        headers = column.flatten()
        return HEADER_BYTES * len(headers) + sum(map(_bytes, headers.flatten()))
    return sum(len(each.as_buffer() or b"") for each in column if each.is_valid)


def joined(found: list[dict[str, list[Any]]]) -> dict[str, list[Any]]:
    return {name: [value for piece in found for value in piece[name]] for name in found[0]}


def expected(batches: Iterable[Batch], first: int = 0, end: int = 2**63 - 1) -> dict[str, list[Any]]:
    records = [record for batch in batches for record in batch.records() if first <= record.offset < end]
    return {
        "key": [record.key for record in records],
        "value": [record.value for record in records],
        "offset": [record.offset for record in records],
        "timestamp": [record.timestamp_ms for record in records],
        "headers": [[{"key": name, "value": value} for name, value in record.headers] or None for record in records],
    }


@pytest.mark.parametrize("compression", list(Compression))
@pytest.mark.parametrize(("rows_max", "bytes_max"), [(10**6, 10**6), (1, 10**6), (3, 10**6), (10**6, 1), (10**6, 40)])
def test_every_cut(builder_class: Any, compression: Compression, rows_max: int, bytes_max: int) -> None:
    parts = [batch_of(), batch_of(compression=compression, base_offset=100), batch_of([], base_offset=200)]
    if compression is not Compression.ZSTD:
        parts.append(message_set(compression))
    batches = list(walk(b"".join(parts)))
    found = pieces(builder_class(rows_max=rows_max, bytes_max=bytes_max), batches)
    assert joined(found) == expected(batches)
    for piece in found:
        count = len(piece["key"])
        assert count <= rows_max
        assert count == 1 or sum(len(value or b"") for value in piece["value"]) <= bytes_max
    assert len(found) > 1 or (rows_max, bytes_max) == (10**6, 10**6)


def test_a_batch_that_fits_into_the_next_piece_is_not_cut(builder_class: Any) -> None:
    batches = list(walk(batch_of() + batch_of(base_offset=100)))
    found = pieces(builder_class(rows_max=len(ROWS)), batches)
    assert [piece["offset"] for piece in found] == [list(range(len(ROWS))), list(range(100, 100 + len(ROWS)))]


@given(
    batches=st.lists(st.lists(rows, max_size=12), min_size=1, max_size=4),
    rows_max=st.integers(1, 20),
    bytes_max=st.integers(1, 300),
)
def test_any_records(batches: Any, rows_max: int, bytes_max: int) -> None:
    data = b"".join(batch_of(records, base_offset=100 * number) for number, records in enumerate(batches))
    walked = list(walk(data))
    for kind in BUILDERS:
        assert joined(pieces(kind(rows_max=rows_max, bytes_max=bytes_max), walked)) == expected(walked)


@pytest.mark.parametrize("name", COLUMNS)
def test_columns_that_are_asked_for(builder_class: Any, name: str) -> None:
    batches = list(walk(batch_of() + batch_of(base_offset=50)))
    (found,) = pieces(builder_class([name]), batches)
    assert found == {name: expected(batches)[name]}


@pytest.mark.parametrize(("first", "end"), [(0, 1), (1, 3), (2, 100), (100, 101), (5, 5)])
def test_offsets_that_are_wanted(builder_class: Any, first: int, end: int) -> None:
    batches = list(walk(batch_of() + batch_of(base_offset=100, compression=Compression.LZ4)))
    found = pieces(builder_class(rows_max=2), batches, (first, end))
    assert joined(found) == expected(batches, first, end)


@pytest.mark.parametrize("nulls", ["first", "last", "all", "none", "eighth"])
def test_nulls(builder_class: Any, nulls: str) -> None:
    is_null = {
        "first": lambda number: number < 11,
        "last": lambda number: number > 20,
        "all": lambda number: True,
        "none": lambda number: False,
        "eighth": lambda number: number % 8 == 0,
    }[nulls]
    values = [None if is_null(number) else b"%d" % number for number in range(30)]
    parts = (values[:5], values[5:16], values[16:24], values[24:])
    data = [batch_of([(1, value, value, [("h", value)]) for value in part]) for part in parts]
    found = joined(pieces(builder_class(), walk(b"".join(data))))
    assert found["key"] == found["value"] == values
    assert [headers[0]["value"] for headers in found["headers"]] == values


def test_names_of_headers_with_all_characters(builder_class: Any) -> None:
    names = ["plain", "ärger", "汉字", ""]
    batches = list(walk(batch_of([(1, b"k", b"v", [(name, b"")]) for name in names])))
    found = joined(pieces(builder_class(), batches))
    assert [headers[0]["key"] for headers in found["headers"]] == names
    damaged = batch_of([(1, None, None, [("ab", b"")])]).replace(b"ab", b"\xff\xfe")
    found = joined(pieces(builder_class(), walk(damaged, check_crc=False)))
    assert found == expected(walk(damaged, check_crc=False))


@pytest.mark.parametrize("name", ["", "\u00e9"])
def test_headers_that_do_not_fit_into_memory(builder_class: Any, name: str) -> None:
    """Each header takes more memory than its bytes in the batch, and takes most if its name has to be compared."""
    count = 1000
    price = HEADER_BYTES if name == "" else HEADER_OBJECT_BYTES
    data = batch_of([(1, None, b"v", [(name, None)] * count), (1, None, b"v", [(name, None)])])
    (fits,) = walk(data, limit=count * price)
    assert joined(pieces(builder_class(), [fits])) == expected([fits])
    (large,) = walk(data, limit=count * price - 1)
    builder = builder_class()
    with pytest.raises(
        DecodeError,
        match=rf"the {count} headers of a record take {count * price} bytes, "
        rf"but the limit is",
    ):
        builder.begin(large)
    assert builder.count == 0
    assert joined(pieces(builder_class(["value"]), [large]))["value"] == [b"v", b"v"]


def test_headers_without_bytes_fill_a_table(builder_class: Any) -> None:
    data = batch_of([(1, None, None, [("", b"")] * 10)] * 20)
    builder = builder_class(["headers"], bytes_max=8 * 10 * 15)
    rows = [len(piece["headers"]) for piece in pieces(builder, walk(data + data))]
    assert sum(rows) == 40
    assert max(rows) <= 15


@pytest.mark.parametrize("where", [0, 15, -1])  # the length of the first record, of the second, the end
def test_no_row_of_a_broken_batch(builder_class: Any, where: int) -> None:
    data = bytearray(batch_of([(1, b"key", b"value", ()) for _ in range(10)]))
    data[where if where < 0 else BATCH_HEADER_BYTES + where] ^= 0x7F
    builder = builder_class(rows_max=3)
    assert joined(pieces(builder, walk(batch_of())))["offset"] == list(range(len(ROWS)))
    (broken,) = walk(bytes(data), check_crc=False)
    with pytest.raises(DecodeError) as of_records:
        broken.records()
    with pytest.raises(DecodeError) as of_rows:
        builder.begin(broken)
    assert str(of_rows.value) == str(of_records.value)
    assert builder.fill()  # the builder has no work left
    assert builder.count == 0
    assert joined(pieces(builder, walk(batch_of())))["offset"] == list(range(len(ROWS)))


def test_a_batch_that_is_left(builder_class: Any) -> None:
    builder = builder_class(rows_max=1)
    first, second = walk(batch_of([(1, b"a", b"a", ()), (1, b"b", b"b", ())]) + batch_of([(1, b"c", b"c", ())]))
    builder.begin(first)
    assert not builder.fill()
    assert table(builder)["key"] == [b"a"]
    builder.begin(second)
    assert builder.fill()
    assert table(builder)["key"] == [b"c"]
    assert builder.fill()


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (
            {"columns": ["key", "values"]},
            "there is no column values; a record has key, value, offset, timestamp, headers",
        ),
        ({"rows_max": 0}, "0 rows and"),
        ({"bytes_max": 0}, "and 0 bytes are allowed, but at least 1"),
    ],
)
def test_what_is_refused(builder_class: Any, options: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        builder_class(**options)


def test_memory_is_used_again_only_when_nobody_looks(builder_class: Any) -> None:
    builder = builder_class()
    kept = []
    for number in range(20):
        builder.begin(next(walk(batch_of([(1, b"k%d" % number, bytes([number]) * 100_000, ())]))))
        assert builder.fill()
        kept.append(arrow_arrays(builder.take()))
    assert [each["key"].to_pylist() for each in kept] == [[b"k%d" % number] for number in range(20)]
    assert [each["value"].to_pylist()[0][:1] for each in kept] == [bytes([number]) for number in range(20)]


def full_builders(builder: RowsBuilder, data: bytes) -> Iterator[RowsBuilder]:
    """Add all batches, joining plain ones, and yield the builder whenever rows have to be taken."""
    position = 0
    while position < len(data):
        position += builder.add_plain(data[position:], PlainBatches(position, len(data) - position))[0]
        for batch in walk(data[position:]):
            builder.begin(batch, position=position)
            while not builder.fill():
                yield builder
            position += batch.size_in_bytes
            break
    yield builder


@given(
    batches=st.lists(st.lists(rows, max_size=12), min_size=1, max_size=5),
    names=st.sets(st.sampled_from(COLUMNS)),
    rows_max=st.integers(1, 40),
    bytes_max=st.integers(1, 600),
)
def test_any_records_at_once(batches: Any, names: Any, rows_max: int, bytes_max: int) -> None:
    data = b"".join(batch_of(records, base_offset=100 * number) for number, records in enumerate(batches))
    all_rows = expected(walk(data))
    for kind in BUILDERS:
        builder = kind([*names, "offset"], rows_max=rows_max, bytes_max=bytes_max)
        found = joined([table(full) for full in full_builders(builder, data)])
        assert found == {name: all_rows[name] for name in found}


def plain_batch(base_offset: int = 0, **options: Any) -> bytes:
    builder = BatchBuilder(base_offset=base_offset, **options)
    for number in range(3):
        builder.append(1000, b"k%d" % number, b"value", [("h", b"v")])
    return builder.build()


def broken_batch(base_offset: int = 0) -> bytes:
    """Return a batch with a valid checksum whose last record claims to be longer than it is."""
    data = bytearray(plain_batch(base_offset))
    data[data.rindex(b"k2") - 5] += 2  # the length of the record
    struct.pack_into(">I", data, BATCH_CRC_AT, crc32c(data[BATCH_CRC_COVERS_FROM:]))
    return bytes(data)


def changed(data: bytes, at: int, value: int) -> bytes:
    return data[:at] + bytes([value]) + data[at + 1 :]


NOT_PLAIN = {
    "compressed": plain_batch(3, compression=Compression.GZIP),
    "control": plain_batch(3, is_control=True, is_transactional=True, producer_id=1, producer_epoch=0),
    "damaged": changed(plain_batch(3), 70, 0xFF),
    "broken": broken_batch(3),
    "negative": changed(plain_batch(3), 0, 0x80),
    "old": message_set(Compression.NONE),
    "cut": plain_batch(3)[:-1],
    "header": plain_batch(3)[:50],
    "nothing": b"",
}


def native_builder(*columns: Any, **limits: Any) -> Any:
    """Return the extension's builder."""
    assert selection.built is not None
    return selection.built.RowsBuilder(*columns, **limits)


@EXTENSION.mark
@pytest.mark.parametrize("following", NOT_PLAIN.values(), ids=list(NOT_PLAIN))
@pytest.mark.parametrize("names", [COLUMNS, ["value", "timestamp"]])
def test_what_is_not_plain_is_left(following: bytes, names: Any) -> None:
    data = plain_batch() + following
    builder = native_builder(names)
    assert builder.add_plain(data, PlainBatches(0, len(data))) == (len(plain_batch()), 3)
    assert builder.count == 3
    assert table(builder)["value"] == [b"value"] * 3


@EXTENSION.mark
def test_which_batches_are_added_at_once() -> None:
    data = plain_batch() + plain_batch(3) + plain_batch(7)
    size = len(plain_batch())

    def taken(content: bytes = data, **plain: Any) -> tuple[int, int, int]:
        builder = native_builder()
        bytes_taken, next_offset = builder.add_plain(
            content, PlainBatches(**{"position": 0, "size_bytes": 999, **plain})
        )
        return bytes_taken // size, next_offset, builder.count

    assert taken() == (3, 10, 9)
    assert taken(next_offset=0) == (2, 6, 6)
    assert taken(next_offset=1) == (0, 1, 0)
    assert [taken(end_offset=end)[0] for end in (0, 2, 3, 5, 6, 9, 10, 2**63 - 1)] == [0, 0, 1, 1, 2, 2, 3, 3]
    assert [taken(size_bytes=limit)[0] for limit in (0, 1, size, size + 1)] == [0, 1, 1, 2]
    transactional = data + plain_batch(10, is_transactional=True, producer_id=1, producer_epoch=0, base_sequence=0)
    assert [taken(transactional, are_transactional=which)[0] for which in (True, False)] == [4, 3]
    highest = changed(plain_batch(), 0, 0x7F)
    highest = highest[:1] + b"\xff" * 7 + highest[8:]
    assert taken(highest, end_offset=2**63 - 1) == (0, 0, 0)
    assert taken(plain_batch() + batch_of([(1, None, None, [("\xe4", b"")])], base_offset=3)) == (1, 3, 3)


def restart(builder: RowsBuilder, what: str) -> None:
    """Leave a builder without rows, in the state that the named kind of batch causes."""
    if what in BROKEN:
        with pytest.raises(DecodeError):
            builder.begin(next(walk(BROKEN[what])), (1, 2), 77)
    elif what != "nothing":
        builder.begin(next(walk(BEGUN[what])), (1, 2), 77)
        if what == "finished":
            assert builder.fill()
    builder.take()


BEGUN = {
    "range": plain_batch(),
    "finished": plain_batch(),
    "compressed": plain_batch(compression=Compression.GZIP),
    "names that are not ASCII": batch_of([(1, b"k", b"v", [("\xe4", b"")])] * 3),
    "old": message_set(Compression.NONE),
}
BROKEN = {"broken": broken_batch()}


@given(
    before=st.lists(st.sampled_from(["nothing", *BEGUN, *BROKEN]), max_size=3),
    records=st.lists(rows, min_size=1, max_size=6),
    names=st.sets(st.sampled_from(COLUMNS)),
    is_plain=st.booleans(),
)
@example(before=["range"], records=ROWS[:3], names={"headers"}, is_plain=True)  # measured, as headers are wanted
@example(before=["range"], records=[(1, None, None, ())] * 3, names={"key"}, is_plain=True)  # measured for the null
@example(before=["names that are not ASCII"], records=ROWS[:3], names={"headers"}, is_plain=True)
def test_a_builder_is_as_new_whatever_it_did_before(before: Any, records: Any, names: Any, is_plain: bool) -> None:
    """No ranges, positions or records from a batch begun earlier affect the next batch."""
    data = batch_of(records, base_offset=100) * 2

    def taken(builder: RowsBuilder) -> tuple[Any, ...]:
        position = builder.add_plain(data, PlainBatches(500, 1))[0] if is_plain else 0
        for batch in walk(data[position:]):
            builder.begin(batch, position=500 + position)
            assert builder.fill()
            position += batch.size_in_bytes
        found = builder.take()
        return found.rows_count, [each.tolist() for each in found.batches], arrow_arrays(found)

    for kind in BUILDERS:
        used = kind([*names, "offset"])
        for what in before:
            restart(used, what)
        assert taken(used) == taken(kind([*names, "offset"]))


def test_nulls_behind_what_was_void(builder_class: Any) -> None:
    """A batch that turns out to be broken leaves nothing behind."""
    first = batch_of([(1, None, None, ())] * 3)
    last = batch_of([(1, None, b"", ()), (1, b"", None, ())] * 4, base_offset=9)
    builder = builder_class(["key", "value"])
    builder.begin(next(walk(first)))
    assert builder.fill()
    assert builder.add_plain(broken_batch(), PlainBatches(0, 999))[0] == 0
    builder.begin(next(walk(last)))
    assert builder.fill()
    assert table(builder) == {"key": [None] * 3 + [None, b""] * 4, "value": [None] * 3 + [b"", None] * 4}


@pytest.mark.parametrize("rows_max", [1, 2, 4, 100])
def test_where_rows_come_from(builder_class: Any, rows_max: int) -> None:
    parts = [
        plain_batch(5, partition_leader_epoch=4, producer_id=2**40, producer_epoch=7, base_sequence=9),
        message_set(Compression.GZIP),
        batch_of([], base_offset=20),
        plain_batch(
            30, compression=Compression.LZ4, is_transactional=True, producer_id=1, producer_epoch=0, base_sequence=8
        ),
        plain_batch(40, timestamp_type=TimestampType.LOG_APPEND_TIME, log_append_time=5),
    ]
    data, builder = b"".join(parts), builder_class(["offset"], rows_max=rows_max)
    starts = [sum(map(len, parts[:number])) for number in range(len(parts))]
    facts = {
        starts[0]: (2, 0, 5, 4, 2**40, 7, 9),
        starts[1]: (1, 1, -1, -1, -1, -1, -1),
        starts[3]: (2, 0b10011, 30, -1, 1, 0, 8),
        starts[4]: (2, 0b01000, 40, -1, -1, -1, -1),
    }
    found = [full.take() for full in full_builders(builder, data)]
    assert sum(piece.rows_count for piece in found) == 3 + 5 + 3 + 3
    seen = []
    for piece in found:
        batches = list(zip(*piece.batches, strict=True))
        assert (batches[-1][0] if batches else 0) == piece.rows_count
        assert [each[0] for each in batches] == sorted({each[0] for each in batches})
        for _, start, *rest in batches:
            assert tuple(rest) == facts[start]
            seen.append(start)
    assert list(dict.fromkeys(seen)) == sorted(facts)
    assert len(seen) == 4 or rows_max < 100


def test_the_engine_in_use() -> None:
    assert isinstance(rows_builder(), BUILDERS[-1] if selection.native is not None else python_rows.RowsBuilder)
    assert rows_builder(["key"], rows_max=1).fill()


def test_nulls_of_one_table_are_not_those_of_the_next(builder_class: Any) -> None:
    with_nulls, without = batch_of([(1, None, b"", ())] * 9), batch_of([(1, b"k", b"", ())] * 9)
    builder = builder_class(["key"])
    for data, key in ((with_nulls, None), (without, b"k"), (with_nulls, None), (without, b"k")):
        builder.begin(next(walk(data)))
        assert builder.fill()
        assert table(builder) == {"key": [key] * 9}
        assert table(builder) == {"key": []}
        if not builder.add_plain(data, PlainBatches(0, 999))[0]:
            continue  # Python adds no batches, and no engine adds the first null of a column
        rows = builder.take()
        assert rows.keys.nulls == (9 if key is None else 0)
        assert (rows.keys.validity is None) == (key is not None)
