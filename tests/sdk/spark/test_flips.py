"""A flipped bit in a column or a segment never silently removes or changes a record.

Method: join a hundred batches of every compression type into one value and one segment; in each mode, flip one bit at a
time, in each byte of one header and in as many other bytes as KAFKAWIRE_SPARK_FLIPS says.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from kafkawire.sdk.errors import DecodeError
from kafkawire.sdk.protocol.tables.record_formats import BATCH_HEADER_BYTES
from kafkawire.sdk.records import Compression
from kafkawire.sdk.records.walk import walk
from tests.thorough import sampled

pyarrow = pytest.importorskip("pyarrow")

from kafkawire.sdk.spark.columns.raw_values import DecodeOptions, decoded  # noqa: E402 - it needs pyarrow
from kafkawire.sdk.spark.damage import Mode  # noqa: E402 - it needs pyarrow
from kafkawire.sdk.spark.schema import CORRUPT  # noqa: E402 - it needs pyarrow
from kafkawire.sdk.spark.segments.reading import ReadOptions, read_parts  # noqa: E402 - it needs pyarrow
from kafkawire.sdk.spark.segments.storage import SegmentFiles  # noqa: E402 - it needs pyarrow
from tests.sdk.spark.segments.logs import batch, planned, write_segment  # noqa: E402 - it needs pyarrow

FLIPS = int(os.environ.get("KAFKAWIRE_SPARK_FLIPS", "300"))
#: Reading after each flip takes 1 to 3 ms.
pytestmark = pytest.mark.timeout(60 + FLIPS // 20)

RECORDS_OF_A_BATCH = 6
BATCHES = [batch(RECORDS_OF_A_BATCH * number, RECORDS_OF_A_BATCH, Compression(number % 5)) for number in range(100)]
DATA = b"".join(BATCHES)
#: The fields that the checksum does not cover: the first record's offset and the leader epoch.
UNCHECKED = {*range(8), *range(12, 16)}
NAMES = ("offset", "key", "value")

Rows = list[tuple[Any, ...]]


def flips(seed: int) -> Iterable[tuple[int, int, bytes]]:
    """Yield a position in the data and in its batch, and the data with a bit flipped there; one header is complete."""
    chance = random.Random(seed)
    starts = [position for each in BATCHES for position in range(len(each))]
    header = range(starts.index(0, len(DATA) // 2), len(DATA))[:BATCH_HEADER_BYTES]
    for position in [*header, *chance.sample(range(len(DATA)), min(FLIPS, len(DATA)))]:
        damaged = bytearray(DATA)
        damaged[position] ^= 1 << chance.randrange(8)
        yield position, starts[position], bytes(damaged)


def split(tables: Iterable[Any]) -> tuple[Rows, int]:
    """Return the record rows, and the number of damage rows."""
    rows, damaged = [], 0
    for table in tables:
        columns = [table.column(name).to_pylist() for name in NAMES]
        damages = table.column(CORRUPT).to_pylist() if CORRUPT in table.schema.names else [None] * table.num_rows
        for row, damage in zip(zip(*columns, strict=True), damages, strict=True):
            if damage is None:
                rows.append(row)
            else:
                damaged += 1
    return rows, damaged


def column(data: bytes, options: DecodeOptions) -> tuple[Rows, int]:
    """Return the rows of a column with one value."""
    cells = {"batches": [data], "topic": ["orders"], "partition": pyarrow.array([0], pyarrow.int32())}
    return split(decoded([pyarrow.RecordBatch.from_pydict(cells)], options))


WHOLE, _ = column(DATA, DecodeOptions(NAMES))


def check(rows: Rows, *, is_told: bool, within: int, position: int) -> None:
    """Check the rows that were read from damaged data.

    Args:
        rows: the record rows.
        is_told: whether damage has been reported.
        within: the bit's position in its batch.
        position: the bit's position in the data.
    """
    if within not in UNCHECKED:
        assert is_told or rows == WHOLE, position
        assert set(rows) <= set(WHOLE), position
    assert is_told or [row[1:] for row in rows] == [row[1:] for row in WHOLE], position
    # A wrong length may lead to the next batch or beyond it.
    assert len(rows) >= len(WHOLE) - 2 * RECORDS_OF_A_BATCH, position


def test_what_is_flipped() -> None:
    assert len(WHOLE) == 100 * RECORDS_OF_A_BATCH == len(set(WHOLE))
    assert {len(each.data) for each in walk(DATA)} == set(map(len, BATCHES))
    assert max(UNCHECKED) < BATCH_HEADER_BYTES


@pytest.mark.parametrize("mode", sampled(Mode, 3))
def test_column(mode: Mode, caplog: pytest.LogCaptureFixture) -> None:
    names = (*NAMES, CORRUPT) if mode is Mode.PERMISSIVE else NAMES
    for position, within, damaged in flips(7):
        caplog.clear()
        try:
            rows, damages = column(damaged, DecodeOptions(names, mode))
        except DecodeError:
            assert mode is Mode.FAILFAST, position
            continue
        is_told = damages > 0 or "dropped in total" in caplog.text
        check(rows, is_told=is_told, within=within, position=position)


@pytest.mark.parametrize("mode", sampled(Mode, 3))
def test_segment(mode: Mode, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Another segment follows, and shows where this segment's offsets end."""
    names = (*NAMES, CORRUPT) if mode is Mode.PERMISSIVE else NAMES
    path = write_segment(tmp_path / "orders-0", BATCHES)
    write_segment(tmp_path / "orders-0", [batch(len(WHOLE), 1)])
    files = SegmentFiles([str(tmp_path)])
    for position, within, damaged in flips(8):
        path.write_bytes(damaged)
        caplog.clear()
        parts = planned(files, None, 4000)
        try:
            rows, damages = split(read_parts(parts, files, ReadOptions(names, mode)))
        except DecodeError:
            assert mode is Mode.FAILFAST, position
            continue
        assert rows.pop() == (len(WHOLE), *batch_row(len(WHOLE))), position
        is_told = damages > 0 or "dropped in total" in caplog.text
        check(rows, is_told=is_told, within=within, position=position)


def batch_row(offset: int) -> tuple[bytes, bytes]:
    return b"key %d" % offset, b"value %d " % offset * 3
