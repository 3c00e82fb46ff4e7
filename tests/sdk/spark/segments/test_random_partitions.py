"""Random partitions of every kind yield each record once, whatever the parts, ranges and times are.

Method: write segments of all formats and compression types, with gaps between batches, and with wrong indexes or
indexes as brokers of several releases write them; compare the rows with the records written.
"""

from __future__ import annotations

import struct
from pathlib import Path
from random import Random

import pytest

from kafkawire.sdk.records import BatchBuilder, Compression, MessageSetBuilder
from tests.thorough import sampled

pytest.importorskip("pyarrow")

from kafkawire.sdk.spark.segments.plan import Wanted
from kafkawire.sdk.spark.segments.storage import SegmentFiles
from tests.sdk.spark.segments.logs import TIME_MS, offsets_of, planned

#: The offset and timestamp of each record.
Records = list[tuple[int, int]]

SPLITS = (1, 100, 400, 1 << 30)


def built(draw: Random, magic: int, base_offset: int) -> tuple[bytes, Records]:
    """Return a batch of some records."""
    compression = draw.choice([Compression.NONE, Compression.NONE, Compression.GZIP])
    builder = (
        BatchBuilder(1 << 20, compression, base_offset=base_offset)
        if magic == 2
        else MessageSetBuilder(magic, compression, base_offset=base_offset)
    )
    records = []
    for offset in range(base_offset, base_offset + draw.randint(1, 6)):
        timestamp = TIME_MS + offset * 10 + draw.choice([0, 0, -500, 900])
        builder.append(timestamp, b"k", b"v" * draw.randint(0, 30))
        records.append((offset, timestamp if magic else -1))
    return builder.build(), records


def index_of(draw: Random, base_offset: int, batches: list[tuple[bytes, Records]]) -> bytes:
    """Return an index of last offsets (per batch or per several batches) or first offsets, or a wrong or empty one."""
    style, every = draw.choice(["last", "together", "first", "shifted", "none"]), draw.randint(1, 4)
    position, entries = 0, [(-1, 0)]
    for number, (data, records) in enumerate(batches):
        if number and number % every == 0 and style != "none":
            last = batches[min(number + every, len(batches)) - 1] if style == "together" else batches[number]
            offset = records[0][0] if style == "first" else last[1][-1][0]
            place = max(position + draw.randint(-20, 20), 0) if style == "shifted" else position
            if offset - base_offset > entries[-1][0] and place > entries[-1][1]:
                entries.append((offset - base_offset, place))
        position += len(data)
    return b"".join(struct.pack(">ii", *entry) for entry in entries[1:])


def write_partition(draw: Random, folder: Path) -> Records:
    """Write a partition's segments, and return its records."""
    folder.mkdir()
    offset, found = draw.choice([0, 37]), []
    magics = draw.choice([[2], [2], [0, 1, 2], [1, 2]])
    for magic in magics * draw.randint(1, 2) if len(magics) == 1 else magics:
        base_offset, batches = offset, []
        for _ in range(draw.randint(1, 14)):
            offset += draw.choice([0, 0, 0, 0, 3, 17])
            batches.append(built(draw, magic, offset))
            found += batches[-1][1]
            offset = found[-1][0] + 1
        path = folder / f"{base_offset:020}.log"
        path.write_bytes(b"".join(data for data, _ in batches))
        path.with_suffix(".index").write_bytes(index_of(draw, base_offset, batches))
    return found


@pytest.mark.parametrize("seed", sampled(range(120), 4))
def test_each_record_once(tmp_path: Path, seed: int) -> None:
    draw = Random(seed)
    records = write_partition(draw, tmp_path / "orders-0")
    files, end = SegmentFiles([str(tmp_path)]), records[-1][0] + 1
    for _ in range(8):
        first, last = sorted((draw.randint(0, end), draw.randint(0, end + 5)))
        wanted = Wanted(first, draw.choice([None, last, first + draw.randint(0, 4)]))
        if draw.random() < 0.4:
            wanted = wanted._replace(start_timestamp_ms=TIME_MS + draw.randint(-600, end * 10))
        if draw.random() < 0.3:
            wanted = wanted._replace(end_timestamp_ms=TIME_MS + draw.randint(0, end * 10))
        expected = [
            offset
            for offset, timestamp in records
            if wanted.start_offset <= offset
            and (wanted.end_offset is None or offset < wanted.end_offset)
            and (wanted.start_timestamp_ms is None or timestamp >= wanted.start_timestamp_ms)
            and (wanted.end_timestamp_ms is None or timestamp < wanted.end_timestamp_ms)
        ]
        parts = planned(files, wanted, draw.choice(SPLITS))
        assert offsets_of(parts, files, alone=draw.random() < 0.5) == expected, wanted
