"""Batches from any number of places share Arrow batches of limited size, and every row keeps its batch's attributes.

Method: decode with limits from one row upward, subsets of the columns, ranges of offsets, and damage between batches;
`test_raw_values.py` compares whole values.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from kafkawire.sdk.errors import DecodeError
from kafkawire.sdk.options import INT64_MAX
from kafkawire.sdk.records import BatchBuilder, Compression, RecordBatch, walk
from kafkawire.sdk.records.rows import PlainBatches
from kafkawire.sdk.records.stored import Damage
from kafkawire.sdk.spark.damage import Mode, Place

pyarrow = pytest.importorskip("pyarrow")

from kafkawire.sdk.spark.decoder import Decoder  # noqa: E402 - it needs pyarrow
from kafkawire.sdk.spark.schema import CONNECTOR, CORRUPT, EXTRAS, HEADERS, arrow_schema  # noqa: E402 - it needs pyarrow

PLACES = [Place("a", 0, "/a-0"), Place("a", 0, "/a-0"), Place("b", 1, "/b-1"), Place(None, None, row=9)]


def batch(base_offset: int, count: int = 5, **options: Any) -> Any:
    builder = BatchBuilder(base_offset=base_offset, **options)
    for number in range(count):
        builder.append(1000 + number, None, b"value")
    (found,) = walk(builder.build())
    return found


BATCHES = [batch(0, compression=Compression.LZ4), batch(5, partition_leader_epoch=3), batch(10), batch(15, count=1)]


def tables(decoder: Decoder, wanted: Any = None) -> Iterator[Any]:
    for number, (place, each) in enumerate(zip(PLACES, BATCHES, strict=True)):
        yield from decoder.add(place, each, 100 * number, wanted)
    yield from decoder.finish()


@pytest.mark.parametrize(("rows_max", "bytes_max"), [(10**6, 10**6), (1, 10**6), (7, 10**6), (10**6, 5), (10**6, 40)])
def test_limits(rows_max: int, bytes_max: int) -> None:
    names = [*CONNECTOR, *EXTRAS]
    found = list(tables(Decoder(names, Mode.FAILFAST, rows_max=rows_max, bytes_max=bytes_max)))
    for table in found:
        table.validate(full=True)
        assert table.schema == arrow_schema(names)
        assert 0 < table.num_rows <= min(rows_max, max(bytes_max // 5, 1))
    rows = [row for table in found for row in table.to_pylist()]
    assert [(row["offset"], row["topic"], row["partition"], row["path"], row["batchPosition"]) for row in rows] == [
        *((offset, "a", 0, "/a-0", 0) for offset in range(5)),
        *((offset, "a", 0, "/a-0", 100) for offset in range(5, 10)),
        *((offset, "b", 1, "/b-1", 200) for offset in range(10, 15)),
        (15, None, None, None, 300),
    ]
    assert [row["leaderEpoch"] for row in rows] == [-1] * 5 + [3] * 5 + [-1] * 6
    assert [row["compression"] for row in rows] == ["lz4"] * 5 + ["none"] * 11
    assert [row["batchOffset"] for row in rows] == [0] * 5 + [5] * 5 + [10] * 5 + [15]


@pytest.mark.parametrize("names", [["topic"], ["value"], ["sequence"], ["batchPosition", "key"], ["offset", "path"]])
def test_columns_that_are_asked_for(names: list[str]) -> None:
    (found,) = tables(Decoder(names, Mode.FAILFAST))
    (whole,) = tables(Decoder([*CONNECTOR, *EXTRAS], Mode.FAILFAST))
    assert found.equals(whole.select(names))


@pytest.mark.parametrize("wanted", [(0, 3), (4, 6), (7, 12), (9, 10), (15, 99), (16, 99), (3, 3)])
def test_ranges_of_offsets(wanted: tuple[int, int]) -> None:
    """Batches without a wanted record leave no rows behind."""
    found = list(tables(Decoder([*CONNECTOR, "batchOffset"], Mode.FAILFAST), wanted))
    rows = [row for table in found for row in table.to_pylist()]
    assert [row["offset"] for row in rows] == [offset for offset in range(16) if wanted[0] <= offset < wanted[1]]
    assert [row["batchOffset"] for row in rows] == [row["offset"] // 5 * 5 for row in rows]


@pytest.mark.parametrize("names", [[*CONNECTOR, HEADERS], ["offset", "key"], ["offset"]])
def test_a_range_is_not_that_of_what_is_added_at_once(names: list[str]) -> None:
    decoder = Decoder(names, Mode.FAILFAST)
    whole = batch(5)
    list(decoder.add(PLACES[0], batch(0), 0, (1, 2)))
    size, _ = decoder.add_plain(PLACES[0], whole.data, PlainBatches(90, len(whole.data)))
    if not size:  # the engine without an extension adds no batches
        list(decoder.add(PLACES[0], whole, 90))
    (found,) = decoder.finish()
    assert found["offset"].to_pylist() == [1, 5, 6, 7, 8, 9]


def test_damage() -> None:
    damage = Damage(7, 9, "garbage")
    decoder = Decoder(["value", CORRUPT], Mode.PERMISSIVE)
    assert list(decoder.add_damage(PLACES[0], damage)) == []
    (rows, corrupt) = tables(decoder)
    assert rows.num_rows == 16
    assert rows[CORRUPT].null_count == 16
    assert corrupt.to_pylist() == [
        {"value": None, CORRUPT: {"path": "/a-0", "position": 7, "size": 9, "reason": "garbage"}}
    ]
    for mode, names in ((Mode.DROPMALFORMED, ["value", CORRUPT]), (Mode.PERMISSIVE, ["value"])):
        decoder = Decoder(names, mode)
        assert list(decoder.add_damage(PLACES[0], damage)) == []
        assert (decoder.dropped.count, decoder.dropped.size_bytes) == (1, 9)
    with pytest.raises(DecodeError, match=r"^/a-0 \(a-0\) at byte 7: garbage$"):
        list(Decoder(["value"], Mode.FAILFAST).add_damage(PLACES[0], damage))


def test_records_that_are_broken_under_a_right_checksum() -> None:
    data = bytearray(batch(0).data)
    data[61] ^= 1
    (broken,) = walk(bytes(data), check_crc=False)
    decoder = Decoder([*CONNECTOR, CORRUPT], Mode.PERMISSIVE)
    (found,) = [*decoder.add(PLACES[0], broken, 40), *decoder.finish()]
    (row,) = found.to_pylist()
    assert row[CORRUPT]["position"] == 40
    assert row[CORRUPT]["size"] == len(data)
    assert row[CORRUPT]["reason"].startswith("records[")


def test_later_arrow_batches_may_be_longer() -> None:
    decoder = Decoder(["topic"], Mode.FAILFAST)
    for count in (1, 5):
        list(decoder.add(PLACES[0], one_batch(0, count), 0))
        assert [each.num_rows for each in decoder.finish()] == [count]


def test_sequences_of_some() -> None:
    decoder = Decoder(["sequence"], Mode.FAILFAST)
    for each in (one_batch(0, 2), one_batch(2, 2, producer_id=1, producer_epoch=0, base_sequence=7)):
        list(decoder.add(PLACES[0], each, 0))
    (found,) = decoder.finish()
    assert found["sequence"].to_pylist() == [-1, -1, 7, 8]


def test_a_time_that_spark_cannot_hold_has_its_place() -> None:
    decoder = Decoder(["timestamp", CORRUPT], Mode.PERMISSIVE)
    for place, position, time_ms in ((PLACES[0], 0, 1), (PLACES[-1], 200, 2**62)):
        list(decoder.add(place, one_batch(position, 1, time_ms=time_ms), position))
    (row,) = [row for found in decoder.finish() for row in found.to_pylist() if row[CORRUPT]]
    assert (row[CORRUPT]["path"], row[CORRUPT]["position"]) == (PLACES[-1].path, 200)


#: Two of these times are more than Spark can hold; -1 means no timestamp.
TIMES_MS = [0, INT64_MAX // 1000, 5, INT64_MAX // 1000 + 1, INT64_MAX, -1]


@pytest.mark.parametrize(
    "times_ms",
    [
        (None, None),
        (0, None),
        (6, None),
        (INT64_MAX, None),
        (None, 0),
        (None, 6),
        (None, INT64_MAX // 1000 + 1),
        (None, INT64_MAX),
        (1, 6),
        (5, 5),
        (-5, 2**70),
    ],
)
@pytest.mark.parametrize("rows_max", [1, 4, 10**6])
def test_times(times_ms: tuple[int | None, int | None], rows_max: int) -> None:
    """The stored time is used, whether or not Spark can hold it, and whether or not it is a column; damage is kept."""
    low, high = times_ms
    expected = [
        offset
        for offset, time_ms in enumerate(TIMES_MS)
        if (low is None or time_ms >= low) and (high is None or time_ms < min(high, INT64_MAX))
    ]
    if times_ms == (None, None):
        expected = [*range(len(TIMES_MS))]
    for names, damaged in ((["offset", CORRUPT], 0), (["timestamp", "offset", CORRUPT], 2)):
        decoder = Decoder(names, Mode.PERMISSIVE, rows_max=rows_max, times_ms=times_ms)
        found = []
        for offset, time_ms in enumerate(TIMES_MS):
            found += decoder.add(PLACES[0], one_batch(offset, 1, time_ms=time_ms), 0)
        found += decoder.add_damage(PLACES[0], Damage(7, 9, "garbage"))
        found += decoder.finish()
        assert all(each.num_rows for each in found)
        assert all(each.schema == arrow_schema(names) for each in found)
        offsets = [offset for each in found for offset in each["offset"].to_pylist()]
        assert [offset for offset in offsets if offset is not None] == expected
        assert sum(each.num_rows - each[CORRUPT].null_count for each in found) == damaged + 1


def one_batch(base_offset: int, count: int, *, time_ms: int = 0, **options: Any) -> RecordBatch:
    builder = BatchBuilder(base_offset=base_offset, **options)
    for _ in range(count):
        builder.append(time_ms, None, b"v")
    (found,) = walk(builder.build())
    assert isinstance(found, RecordBatch)
    return found
