"""Columns hold the records' values, in Arrow's layout, and point into the input.

Method: convert batches of every magic with every engine, alone and joined, and let Arrow validate its arrays in full;
include nulls, empty values, and values around the size above which views are no longer inline.
"""

from __future__ import annotations

from typing import Any

import pyarrow
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkawire.sdk.errors import DecodeError
from kafkawire.sdk.records import BatchBuilder, Compression, MessageSetBuilder, RecordBatch, walk
from kafkawire.sdk.records.columns import columns, cut_columns
from tests.sdk.records.conftest import AVAILABLE, ROWS, rows


def batch_of(records: Any = ROWS, compression: Compression = Compression.NONE, base_offset: int = 0) -> bytes:
    builder = BatchBuilder(2**31 - 1, compression, base_offset=base_offset)
    for record in records:
        builder.append(*record)
    return builder.build()


def message_set() -> bytes:
    messages = MessageSetBuilder(1, Compression.GZIP)
    messages.append(7, None, b"x" * 13)
    return messages.build()


def table_of(data: bytes, engine: str | None = None, **options: Any) -> dict[str, list[Any]]:
    batch = columns(walk(data, engine=engine), headers=True).to_arrow(**options)
    batch.validate(full=True)
    found: dict[str, list[Any]] = batch.to_pydict()
    return found


@pytest.mark.parametrize("copy", [False, True])
def test_many_batches_become_one_table(engine: str, copy: bool) -> None:
    parts = [batch_of(), batch_of(compression=Compression.LZ4, base_offset=100), message_set()]
    for data in (b"".join(parts[:2]), b"".join(parts), b""):
        records = [record for batch in walk(data, engine=engine) for record in batch.records()]
        table = table_of(data, engine, copy=copy)
        assert table["offset"] == [record.offset for record in records]
        assert table["timestamp"] == [record.timestamp_ms for record in records]
        assert table["key"] == [record.key for record in records]
        assert table["value"] == [record.value for record in records]
        assert table["headers"] == [
            [{"key": name, "value": value} for name, value in record.headers] for record in records
        ]


@given(records=st.lists(rows, min_size=1, max_size=20))
def test_any_records_on_every_engine(records: Any) -> None:
    first, *others = (table_of(batch_of(records), name) for name in AVAILABLE)
    assert others == [first] * len(others)


@pytest.mark.parametrize("size", [0, 1, 4, 11, 12, 13, 1000])
def test_values_of_every_size(engine: str, size: int) -> None:
    value = bytes(range(256)) * 4
    data = batch_of([(1, value[:size], value[-size:] if size else b"", ()), (1, None, None, ())])
    (batch,) = walk(data, engine=engine)
    found = batch.columns()
    assert [found.keys.at(0), found.keys.at(1)] == [value[:size], None]
    assert [found.values.at(0), found.values.at(1)] == [value[-size:] if size else b"", None]


@pytest.mark.parametrize(
    "values", [[None] * 9, [b"x"] * 9, [b"x"] * 9 + [None], [None] * 9 + [b"long enough for a view"]]
)
def test_columns_that_are_all_null_or_not_null_at_first(engine: str, values: list[bytes | None]) -> None:
    data = batch_of([(1, value, value, ()) for value in values])
    found = columns([*walk(data, engine=engine), *walk(data, engine=engine)])
    arrow = found.to_arrow()
    arrow.validate(full=True)
    assert arrow.column("key").to_pylist() == arrow.column("value").to_pylist() == values * 2
    assert found.keys.nulls == found.values.nulls == arrow.column("key").null_count == values.count(None) * 2
    assert all(found.keys.at(row) == value for row, value in enumerate(values * 2))
    if None in values:
        first = values.index(None)
        assert bytes(found.keys.views)[first * 16 : first * 16 + 16] == bytes(16)


def test_ranges_of_offsets(engine: str) -> None:
    parts = [
        batch_of([(1, None, b"%d" % row, ()) for row in range(start, start + 5)], base_offset=start) for start in (0, 5)
    ]
    batches = [*walk(parts[0], engine=engine), *walk(parts[1], engine=engine)]
    for ranges in (
        [(3, 9), (3, 9)],
        [None, (5, 6)],
        [(0, 0), None],
        [(9, 2), (5, 10)],
        [(-(2**63), 2**63 - 1), (7, 7)],
    ):
        expected = [
            [record for record in batch.records() if wanted is None or wanted[0] <= record.offset < wanted[1]]
            for batch, wanted in zip(batches, ranges, strict=True)
        ]
        found, counts = cut_columns(batches, ranges, headers=True)
        table = found.to_arrow()
        table.validate(full=True)
        assert counts == list(map(len, expected))
        records = [record for part in expected for record in part]
        assert table.column("offset").to_pylist() == [record.offset for record in records]
        assert table.column("value").to_pylist() == [record.value for record in records]
        assert found.headers == tuple(record.headers for record in records)


def test_batches_of_one_buffer_share_it(engine: str) -> None:
    data = batch_of() + batch_of(base_offset=4) + batch_of(compression=Compression.LZ4, base_offset=8)
    first, second, compressed = walk(data, engine=engine)
    for batches in ([first, second], [second, first], [first, first], [first, compressed, second]):
        found = columns(batches)
        values = [record.value for batch in batches for record in batch.records()]
        assert [found.values.at(row) for row in range(found.count)] == values
    if engine == "native":
        assert len(columns([first, second]).values.data) == 1
        assert len(columns([second, first]).values.data) == 2


def test_memory_of_columns_is_used_again_after_them() -> None:
    batches = list(walk(batch_of([(1, None, b"v" * 20, ())] * 3000), engine=AVAILABLE[-1]))
    kept = columns(batches)
    expected = [b"v" * 20] * 3000
    others = columns(list(walk(batch_of([(2, b"k" * 30, None, ())] * 3000), engine=AVAILABLE[-1])))
    assert [kept.values.at(row) for row in range(3000)] == expected
    assert others.values.nulls == 3000
    arrow = kept.to_arrow().column("value")
    del kept, others
    columns(list(walk(batch_of([(3, b"other" * 4, b"other" * 4, ())] * 3000), engine=AVAILABLE[-1])))
    assert arrow.to_pylist() == expected


def test_nulls_beyond_the_first_byte_of_the_validity(engine: str) -> None:
    values = [None if row % 3 == 1 else b"%d" % row * row for row in range(20)]
    (batch,) = walk(batch_of([(1, value, value, ()) for value in values]), engine=engine)
    found = batch.columns()
    assert [found.keys.at(row) for row in range(20)] == values


def test_schema_and_headers_on_request() -> None:
    batch = RecordBatch(batch_of())
    arrow = batch.to_arrow()
    assert arrow.schema.names == ["offset", "timestamp", "key", "value"]
    assert arrow.schema.field("key").type == pyarrow.binary_view()
    assert batch.columns().to_arrow(copy=True).schema.field("key").type == pyarrow.binary()
    assert columns([batch]).headers is None


def test_views_point_into_what_came_in() -> None:
    data = bytearray(batch_of())
    (buffer,) = columns(walk(data, engine=AVAILABLE[-1])).values.data
    before = bytes(buffer)
    data[-1] ^= 0xFF
    assert (bytes(buffer) != before) == (AVAILABLE[-1] == "native")
    del data
    assert len(bytes(buffer)) == len(before)


def test_broken_batches(engine: str) -> None:
    data = bytearray(batch_of())
    data[-1] = 0x02  # a header that is missing
    with pytest.raises(DecodeError, match=rf"^records\[3\].* at byte {len(batch_of())}: "):
        columns(walk(batch_of() + data, check_crc=False, engine=engine))
