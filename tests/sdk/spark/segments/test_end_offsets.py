"""A partition ends after its last complete batch, and its stable part ends before the first open transaction."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafkawire.sdk.records import BatchBuilder

pytest.importorskip("pyarrow")

from kafkawire.sdk.spark.segments.end_offsets import End, PartitionEnds, start_position
from kafkawire.sdk.spark.segments.storage import SegmentFiles
from tests.sdk.spark.segments.logs import batch, marker, noted_reads, records_of, write_segment


@pytest.fixture
def files(tmp_path: Path) -> SegmentFiles:
    return SegmentFiles([str(tmp_path)])


def end(files: SegmentFiles) -> End:
    return PartitionEnds(files).of(files.find()[-1])


@pytest.mark.parametrize("tail", [b"", bytes(9), bytes(50_000), batch(30)[:30], batch(30)[:-1], b"x" * 100])
def test_end(files: SegmentFiles, tmp_path: Path, tail: bytes) -> None:
    """The end is found with or without an index, even if the index is damaged."""
    batches = [batch(number * 10) for number in range(3)]
    path = write_segment(tmp_path / "orders-0", batches)
    path.write_bytes(path.read_bytes() + tail)
    index = path.with_suffix(".index")
    whole = index.read_bytes()
    for content in (whole, b"", whole[:5], whole[:-1] + b"\1", bytes(8) + whole):
        index.write_bytes(content)
        assert end(files) == End(30, len(b"".join(batches)))


def test_empty(files: SegmentFiles, tmp_path: Path) -> None:
    write_segment(tmp_path / "orders-0", [b""], 40)
    assert end(files) == End(40, 0)


def test_base_offset_that_cannot_be_right(files: SegmentFiles, tmp_path: Path) -> None:
    path = write_segment(tmp_path / "orders-0", [batch(0), batch(10)])
    path.write_bytes(batch(0) + b"\x7f" + batch(10)[1:])
    assert end(files).offset == 10


def test_cache(files: SegmentFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ends = PartitionEnds(files)
    write_segment(tmp_path / "orders-0", [batch(0)])
    assert ends.of(files.find()[0]).offset == 10
    with monkeypatch.context() as patched:
        patched.setattr(SegmentFiles, "open", lambda *_: pytest.fail("it is known"))
        assert ends.of(files.find()[0]).offset == 10
    write_segment(tmp_path / "orders-0", [batch(0), batch(10)])
    assert ends.of(files.find()[0]).offset == 20


def test_end_is_looked_for_again_where_no_file_says_when_it_changed(files: SegmentFiles, tmp_path: Path) -> None:
    """The size of a segment may include preallocated space."""
    ends = PartitionEnds(files)
    path = write_segment(tmp_path / "orders-0", [batch(0), batch(10)])
    whole = path.read_bytes()
    segment = files.find()[0]._replace(modified_ns=None)
    path.write_bytes(whole[: len(batch(0))] + bytes(len(batch(10))))
    assert ends.of(segment).offset == 10
    path.write_bytes(whole)
    assert ends.of(segment).offset == 20


def test_last_stable_offset(files: SegmentFiles, tmp_path: Path) -> None:
    ends = PartitionEnds(files)
    folder = tmp_path / "orders-0"
    first = [batch(0, 1), records_of(1, 7), records_of(2, 8), records_of(3, 7)]
    second = [marker(4, 7, True), batch(5, 1), records_of(6, 7), marker(7, 8, False)]
    found = []
    for count in range(1, 9):
        write_segment(folder, first[:count])
        if count > 4:
            write_segment(folder, second[: count - 4])
        found.append(ends.last_stable_offset(files.find(), 0, count))
    assert found == [1, 1, 1, 1, 2, 2, 2, 6]
    # A query that begins later finds the same offset; transactions that ended before it are ignored.
    assert PartitionEnds(files).last_stable_offset(files.find(), 0, 8) == 6
    assert PartitionEnds(files).last_stable_offset(files.find(), 5, 8) == 6


def test_open_transaction_that_is_begun_with_in_the_middle_of_a_batch(files: SegmentFiles, tmp_path: Path) -> None:
    write_segment(tmp_path / "orders-0", [batch(0), records_of(10, 7, 10), batch(20)])
    assert PartitionEnds(files).last_stable_offset(files.find(), 15, 30) == 10


def test_last_stable_offset_looks_at_nothing_twice(
    files: SegmentFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_segment(tmp_path / "orders-0", [batch(number * 10) for number in range(9)])
    ends, segments = PartitionEnds(files), files.find()
    assert ends.last_stable_offset(segments, 35, 90) == 90
    read = noted_reads(monkeypatch)
    assert ends.last_stable_offset(segments, 35, 90) == 90
    assert read == []


def test_start_position(files: SegmentFiles, tmp_path: Path) -> None:
    path = write_segment(tmp_path / "orders-0", [batch(number * 10) for number in range(3)])
    (segment,) = files.find()
    second = len(batch(0))
    third = second + len(batch(10))
    expected = [(0, 0), (18, 0), (19, second), (28, second), (29, third), (99, third)]
    assert [(offset, start_position(files, segment, offset)) for offset, _ in expected] == expected
    path.with_suffix(".index").unlink()
    assert start_position(files, segment, 29) == 0


def test_segment_with_a_marker_is_gone_before_it_was_looked_at(files: SegmentFiles, tmp_path: Path) -> None:
    """The remaining segments show what is open; otherwise, the transaction would stay open forever."""
    ends = PartitionEnds(files)
    folder = tmp_path / "orders-0"
    first = write_segment(folder, [batch(0), records_of(10, 7)])
    assert ends.last_stable_offset(files.find(), 0, 11) == 10
    write_segment(folder, [records_of(20, 8), marker(21, 7, True), marker(22, 8, True)])
    first.unlink()
    assert ends.last_stable_offset(files.find(), 0, 23) == 23
    write_segment(folder, [records_of(30, 9)])
    assert ends.last_stable_offset(files.find(), 0, 31) == 30
    (folder / f"{20:020}.log").unlink()
    (folder / f"{30:020}.log").unlink()
    write_segment(folder, [batch(40), records_of(50, 6)])
    assert ends.last_stable_offset(files.find(), 0, 51) == 50


# Batches that were read before and no longer exist.


def replaced(path: Path, *batches: bytes) -> None:
    new = path.with_suffix(".swap")
    new.write_bytes(b"".join(batches))
    new.replace(path)


def test_segment_that_was_cleaned_while_it_was_followed(files: SegmentFiles, tmp_path: Path) -> None:
    """Positions change in the process, but cleaning keeps open transactions."""
    ends, folder = PartitionEnds(files), tmp_path / "orders-0"
    path = write_segment(folder, [batch(0), batch(10), records_of(20, 7)])
    assert ends.last_stable_offset(files.find(), 0, 21) == 20
    replaced(path, batch(10), records_of(20, 7), marker(21, 7, True), records_of(22, 8))
    assert ends.last_stable_offset(files.find(), 0, 23) == 22
    replaced(path, records_of(20, 7), marker(21, 7, True), records_of(22, 8), marker(23, 8, False), batch(24, 1))
    assert ends.last_stable_offset(files.find(), 0, 25) == 25


def test_segments_that_were_put_together_while_they_were_followed(files: SegmentFiles, tmp_path: Path) -> None:
    ends, folder = PartitionEnds(files), tmp_path / "orders-0"
    first = write_segment(folder, [batch(0), records_of(10, 7), marker(11, 7, True)])
    second = write_segment(folder, [records_of(12, 8)])
    assert ends.last_stable_offset(files.find(), 0, 13) == 12
    second.unlink()
    replaced(first, records_of(10, 7), marker(11, 7, True), records_of(12, 8), marker(13, 8, True))
    write_segment(folder, [batch(14, 1), records_of(15, 9)])
    assert ends.last_stable_offset(files.find(), 0, 16) == 15


def test_transaction_that_was_cut_off(files: SegmentFiles, tmp_path: Path) -> None:
    """A new leader cuts it off, and has other records in its place."""
    ends, folder = PartitionEnds(files), tmp_path / "orders-0"
    path = write_segment(folder, [batch(0), records_of(10, 7)])
    assert ends.last_stable_offset(files.find(), 0, 11) == 10
    replaced(path, batch(0))
    assert ends.last_stable_offset(files.find(), 0, 10) == 10
    replaced(path, batch(0), batch(10), records_of(20, 9))
    assert ends.last_stable_offset(files.find(), 0, 21) == 20
    replaced(path, batch(0), batch(10), records_of(20, 8), marker(21, 8, True), batch(22, 1))
    assert ends.last_stable_offset(files.find(), 0, 23) == 23, "a different batch of that size is at that position"


def test_control_batches_that_end_nothing(files: SegmentFiles, tmp_path: Path) -> None:
    """Unknown kinds of control records end no transaction. A damaged batch may be an end marker; a read reports it."""
    for key, expected in ((b"\0\0\0\x63", 0), (b"\0", 2), (b"\0\0\0\1", 2)):
        builder = BatchBuilder(base_offset=1, producer_id=7, producer_epoch=0, is_transactional=True, is_control=True)
        builder.append(0, key, b"\0\0\0\0\0\0")
        write_segment(tmp_path / "orders-0", [records_of(0, 7), builder.build()])
        assert PartitionEnds(files).last_stable_offset(files.find(), 0, 2) == expected
