"""Partition folders for tests, with segments and their indexes as a broker writes them."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from kafkawire.sdk.records import BatchBuilder, Compression, RecordBatch
from kafkawire.sdk.records.batch import rewrite
from kafkawire.sdk.records.control import end_transaction_marker
from kafkawire.sdk.records.walk import walk
from kafkawire.sdk.spark.segments.files import FoundSegment
from kafkawire.sdk.spark.segments.plan import SegmentPart, Wanted, plan
from kafkawire.sdk.spark.segments.reading import ReadOptions, read_parts
from kafkawire.sdk.spark.segments.storage import OpenFile, SegmentFiles

TIME_MS = 1_700_000_000_000


def batch(base_offset: int, count: int = 10, compression: Compression = Compression.NONE, **options: Any) -> bytes:
    """Return a batch in which each record's timestamp is `TIME_MS` plus its offset."""
    builder = BatchBuilder(1 << 24, compression, base_offset=base_offset, **options)
    for offset in range(base_offset, base_offset + count):
        builder.append(TIME_MS + offset, b"key %d" % offset, b"value %d " % offset * 3)
    return builder.build()


def cleaned_batch(base_offset: int) -> bytes:
    """Return what compaction leaves of a batch of ten records with equal keys."""
    (whole,) = walk(batch(base_offset))
    assert isinstance(whole, RecordBatch)
    return rewrite(whole, whole.records()[:1])


def records_of(base_offset: int, producer_id: int, count: int = 1) -> bytes:
    """Return a batch in a transaction."""
    return batch(base_offset, count, producer_id=producer_id, producer_epoch=0, base_sequence=0, is_transactional=True)


def marker(offset: int, producer_id: int, is_commit: bool) -> bytes:
    """Return the batch that ends a transaction."""
    builder = BatchBuilder(
        base_offset=offset, producer_id=producer_id, producer_epoch=0, is_transactional=True, is_control=True
    )
    builder.append(TIME_MS + offset, *end_transaction_marker(is_commit, 0))
    return builder.build()


def write_segment(folder: Path, batches: Iterable[bytes], base_offset: int | None = None, *, every: int = 1) -> Path:
    """Write a segment with an index entry for every `every`-th batch after the first, and return its path."""
    content, offsets, times = b"", b"", b""
    written = list(batches)
    first = next(walk(written[0])).base_offset if base_offset is None else base_offset
    for number, each in enumerate(written):
        if number and number % every == 0:
            (found,) = walk(each, check_crc=False)
            offsets += struct.pack(">ii", found.last_offset - first, len(content))
            times += struct.pack(">qi", found.max_timestamp, found.last_offset - first)
        content += each
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{first:020}.log"
    path.write_bytes(content)
    path.with_suffix(".index").write_bytes(offsets)
    path.with_suffix(".timeindex").write_bytes(times)
    return path


def write_two_segments(folder: Path) -> SegmentFiles:
    """Write two segments of orders-0 with offsets 0 to 199, in batches of ten."""
    for base in (0, 100):
        write_segment(folder / "orders-0", [batch(base + number * 10) for number in range(10)])
    return SegmentFiles([str(folder)])


def write_names(folder: Path, names: Iterable[str]) -> Path:
    """Write files that contain their own names, and return the folder."""
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(name.encode())
    return folder


def log_of(files: SegmentFiles, number: int = 0) -> Path:
    """Return the path of a segment."""
    return Path(files.find()[number].path)


def noted_reads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list that receives the position of every read from now on."""
    read: list[int] = []
    original = OpenFile._read_at

    def counted(file: OpenFile, position: int, size: int) -> bytes:
        read.append(position)
        return original(file, position, size)

    monkeypatch.setattr(OpenFile, "_read_at", counted)
    return read


def planned(files: SegmentFiles, wanted: Wanted | None = None, split_bytes: int = 1 << 30) -> list[SegmentPart]:
    """Return the parts of all segments."""

    def wanted_of(segment: FoundSegment) -> Wanted:
        return wanted or Wanted()

    return list(plan(files.find(), wanted_of, files.read, split_bytes))


def offsets_of(
    parts: Iterable[SegmentPart], files: SegmentFiles, options: ReadOptions | None = None, *, alone: bool = True
) -> list[int]:
    """Return the offsets that tasks read; with `alone`, each part is in a separate task."""
    chosen = options or ReadOptions(("offset",))
    tasks = [[part] for part in parts] if alone else [list(parts)]
    found = (rows for task in tasks for rows in read_parts(task, files, chosen))
    return [offset for rows in found for offset in rows.column("offset").to_pylist()]
