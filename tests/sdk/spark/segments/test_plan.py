"""Plans split segments where batches begin, omit unwanted segments, and combine small parts."""

from __future__ import annotations

import struct

import pytest

pytest.importorskip("pyarrow")

from kafkawire.sdk.routing.partitions import TopicPartition
from kafkawire.sdk.spark.segments.files import FoundSegment
from kafkawire.sdk.spark.segments.plan import Cut, SegmentPart, Wanted, index_cuts, plan, tasks

TIME_MS = 1_700_000_000_000

#: An index for ten batches of 100 bytes and ten records each, with an entry for every batch but the first.
INDEX = b"".join(struct.pack(">ii", number * 10 + 9, number * 100) for number in range(1, 10))
TIMES = b"".join(struct.pack(">qi", TIME_MS + number * 10 + 9, number * 10 + 9) for number in range(1, 10))


def segment(base_offset: int = 1000, end_offset: int | None = 1100, size_bytes: int = 1000) -> FoundSegment:
    return FoundSegment(f"/a-0/{base_offset:020}.log", TopicPartition("a", 0), base_offset, size_bytes, end_offset)


def read(path: str) -> bytes:
    return INDEX if path.endswith(".index") else TIMES


def spans(wanted: Wanted | None, split_bytes: int = 1 << 20, *segments: FoundSegment) -> list[tuple[int, int]]:
    """Return the positions where parts begin and end."""
    parts = plan(segments or [segment()], lambda _: wanted, read, split_bytes)
    return [(part.cuts[part.number].position, part.cuts[part.number + 1].position) for part in parts]


def test_split() -> None:
    assert spans(Wanted()) == [(0, 1000)]
    assert spans(Wanted(), 1000) == [(0, 1000)]
    assert spans(Wanted(), 300) == [(0, 300), (300, 600), (600, 900), (900, 1000)]
    assert spans(Wanted(), 1) == [(start, start + 100) for start in range(0, 1000, 100)]
    parts = plan([segment()], lambda _: Wanted(), read, 300)
    assert [part.size_bytes for part in parts] == [300, 300, 300, 100]


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (Wanted(1000), [(0, 1000)]),
        (Wanted(1018), [(0, 1000)]),
        (Wanted(1019), [(100, 1000)]),
        (Wanted(1025), [(100, 1000)]),
        (Wanted(1099), [(900, 1000)]),
        (Wanted(1100), []),
        (Wanted(0, 1000), []),
        (Wanted(0, 1001), [(0, 200)]),
        (Wanted(0, 1020), [(0, 300)]),
        (Wanted(1045, 1046), [(300, 500)]),
        (Wanted(1050, 1040), []),
        (None, []),
        (Wanted(0, None, TIME_MS + 30), [(200, 1000)]),
        (Wanted(0, None, TIME_MS + 5000), [(900, 1000)]),
        (Wanted(0, 1010, TIME_MS + 5000), []),
        (Wanted(0, None, None, TIME_MS), [(0, 1000)]),
    ],
)
def test_pruning(wanted: Wanted | None, expected: list[tuple[int, int]]) -> None:
    assert spans(wanted) == expected


def test_times_of_the_last_segment_may_be_of_records_that_were_cut_off() -> None:
    last = segment(end_offset=None)
    assert spans(Wanted(0, None, TIME_MS + 5000), 1 << 20, last) == [(0, 1000)]


def test_segments_are_left_out_by_name() -> None:
    parts = list(plan([segment(0, 1000), segment(1000, 1100), segment(1100, None)], lambda _: Wanted(1000, 1100), read))
    assert [part.segment.base_offset for part in parts] == [1000]
    assert spans(Wanted(), 1 << 20, segment(size_bytes=0)) == []


def test_index_is_read_only_if_it_helps() -> None:
    def refuse(path: str) -> bytes:
        raise AssertionError(path)

    for wanted in (Wanted(), Wanted(500, 2000), Wanted(1000, 1100)):
        assert len(list(plan([segment()], lambda _, wanted=wanted: wanted, refuse))) == 1
        assert len(list(plan([segment()], lambda _, wanted=wanted: wanted, refuse, 1000))) == 1


def test_cuts() -> None:
    cuts = index_cuts(segment(), INDEX)
    assert cuts[:2] == [Cut(100, 999, 1019), Cut(200, 1019, 1029)]
    assert len(cuts) == 9
    assert len(index_cuts(segment(size_bytes=250), INDEX)) == 2  # the file was cut
    assert index_cuts(segment(), INDEX[:16] + bytes(84)) == cuts[:2]  # preallocated space in an active segment's index
    assert index_cuts(segment(), INDEX[8:16] + INDEX[:8]) == []  # its entries go backwards
    assert index_cuts(segment(), struct.pack(">iiii", 5, -7, 6, 100)) == []
    # Several entries with the same position make one cut.
    assert index_cuts(segment(), struct.pack(">iiii", 5, 100, 6, 100)) == [Cut(100, 999, 1005)]


def test_tasks() -> None:
    parts = list(plan([segment(number * 100, None) for number in range(5)], lambda _: Wanted(), read))
    megabytes = 1024 * 1024
    assert list(tasks(parts)) == [tuple(parts)]
    assert list(tasks(parts, 9 * megabytes)) == [tuple(parts[:2]), tuple(parts[2:4]), tuple(parts[4:])]
    assert [len(task) for task in tasks(parts, 1)] == [1] * 5
    large = SegmentPart(segment(), (Cut(0, 0, 0), Cut(50 * megabytes, 0, 0)), 0, Wanted())
    assert large.size_bytes == 50 * megabytes
    assert [len(task) for task in tasks([large, *parts, large], 40 * megabytes)] == [1, 5, 1]
    assert list(tasks([])) == []


@pytest.mark.parametrize(("split_bytes", "sizes"), [(18 << 20, [2, 2, 1]), ((18 << 20) - 1, [1] * 5)])
def test_what_opening_a_file_costs(split_bytes: int, sizes: list[int]) -> None:
    """Opening a file costs as much as reading 4 MiB."""
    part = SegmentPart(segment(), (Cut(0, 0, 0), Cut(5 << 20, 0, 0)), 0, Wanted())
    assert [len(task) for task in tasks([part] * 5, split_bytes)] == sizes
