"""Segments may change while they are being read, so that some tasks see the old file and others the new one.

Method: make a broker's changes between the tasks of one plan; whichever tasks see which file, records that are in both
must be read once.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from kafkawire.sdk.errors import DecodeError
from kafkawire.sdk.records import Compression
from kafkawire.sdk.records.walk import walk

pytest.importorskip("pyarrow")

from kafkawire.sdk.spark.damage import Mode
from kafkawire.sdk.spark.segments.reading import ReadOptions
from kafkawire.sdk.spark.segments.storage import OpenFile, SegmentFiles
from tests.sdk.spark.segments.logs import (
    batch,
    cleaned_batch,
    log_of,
    offsets_of,
    planned,
    write_segment,
    write_two_segments,
)


@pytest.fixture
def files(tmp_path: Path) -> SegmentFiles:
    return write_two_segments(tmp_path)


def test_file_that_ends_while_it_is_read(files: SegmentFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    original = SegmentFiles.open

    def opened(here: SegmentFiles, segment: Any) -> OpenFile:
        file = original(here, segment)
        os.truncate(segment.path, position)
        return file

    part, size = planned(files)[0], log_of(files).stat().st_size
    position = sum(len(batch(number * 10)) for number in range(4))
    monkeypatch.setattr(SegmentFiles, "open", opened)
    with pytest.raises(
        DecodeError, match=f"the file ended at {position} while it was read, although it had {size} bytes"
    ):
        offsets_of([part], files)


def replaced(path: Path, content: bytes) -> None:
    """Replace one file with another, as a broker does."""
    new = path.with_suffix(".swap")
    new.write_bytes(content)
    new.replace(path)


CLEANED = {
    "as it was": [batch(number * 10) for number in range(10)],
    "shorter batches": [cleaned_batch(number * 10) for number in range(10)],
    "fewer batches": [batch(number * 10) for number in (0, 3, 4, 8)],
    "nothing but the last": [batch(90)],
    # The following segment is included, so the file is larger than before.
    "merged": [batch(number * 10) for number in range(20)],
    "merged and cleaned": [cleaned_batch(number * 10) for number in range(20)],
    "compressed": [batch(number * 10, compression=Compression.GZIP) for number in range(10)],
}


@pytest.mark.parametrize("cleaned", CLEANED)
@pytest.mark.parametrize("split_bytes", [1, 1000])
def test_segment_that_is_replaced_between_tasks(files: SegmentFiles, cleaned: str, split_bytes: int) -> None:
    """Each offset that is in both files is read once, whichever tasks see which file."""
    path = log_of(files)
    old, new = path.read_bytes(), b"".join(CLEANED[cleaned])
    kept = {offset for each in walk(new) for offset in (record.offset for record in each.records())}
    parts = [part for part in planned(files, None, split_bytes) if part.segment.base_offset == 0]
    if "merged" in cleaned:
        log_of(files, 1).unlink()
    for met_new in range(1, 1 << len(parts)) if len(parts) < 5 else [0b1, 0b10, 0b1010101, 0b111110000, 0b1000000000]:
        found: list[int] = []
        for number, part in enumerate(parts):
            replaced(path, new if met_new >> number & 1 else old)
            found += offsets_of([part], files, ReadOptions(("offset",), Mode.PERMISSIVE, fails_on_loss=False))
        counted = [offset for offset in found if offset is not None]
        assert len(counted) == len(set(counted))
        assert {offset for offset in kept if offset < 100} <= set(counted) <= set(range(100))


@pytest.mark.parametrize("split_bytes", [1, 1000, 1 << 30])
@pytest.mark.parametrize(
    ("cleaned", "fails_on_loss"), [("merged", False), ("merged", True), ("merged and cleaned", False)]
)
def test_segment_that_is_put_into_the_one_before(
    files: SegmentFiles, cleaned: str, split_bytes: int, fails_on_loss: bool
) -> None:
    """The merged segment's tasks read the remaining batches from the other file, and nothing else."""
    write_segment(log_of(files).parent, [batch(200)], 200)
    parts = [part for part in planned(files, None, split_bytes) if part.segment.base_offset < 200]
    for met_new in (len(parts), 0, len(parts) // 2):  # the first part that sees the new file
        new = b"".join(CLEANED[cleaned])
        kept = [record.offset for each in walk(new) for record in each.records()]
        options = ReadOptions(("offset",), Mode.PERMISSIVE, fails_on_loss=fails_on_loss)
        found = [offset for part in parts[:met_new] for offset in offsets_of([part], files, options)]
        old = log_of(files).read_bytes(), log_of(files, 1).read_bytes()
        replaced(log_of(files), new)
        log_of(files, 1).unlink()
        found += [offset for part in parts[met_new:] for offset in offsets_of([part], files, options)]
        assert found == sorted(set(found))
        assert set(kept) <= set(found) <= set(range(200))
        (log_of(files).parent / f"{100:020}.log").write_bytes(old[1])
        replaced(log_of(files), old[0])


def test_segment_that_was_cut_off(files: SegmentFiles) -> None:
    """A removed segment is a loss, even if the one before it still exists or has grown; later records are sound."""
    first, second = planned(files)
    log_of(files, 1).unlink()
    with pytest.raises(DecodeError, match="has since been removed; brokers remove old segments"):
        offsets_of([second], files)
    write_segment(log_of(files).parent, [batch(number * 10) for number in range(20)], 0)
    assert offsets_of([first], files) == list(range(100))
    with pytest.raises(DecodeError, match="has since been removed; brokers remove old segments"):
        offsets_of([second], files)
