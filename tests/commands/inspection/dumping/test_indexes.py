"""Indexes are shown and compared with their segments; differences are reported, up to a limit.

Method: dump a segment with hand-built indexes, then with one fault in each index.
"""

from __future__ import annotations

import struct
from itertools import accumulate
from pathlib import Path
from typing import Any

import pytest

from kafkawire.commands.inspection.dumping.limits import PROBLEMS_MAX
from kafkawire.commands.inspection.dumping.window import Window
from kafkawire.sdk.records import MessageSetBuilder
from tests.commands.inspection.dumping.dump_bench import (
    START_MS,
    batch,
    before_fill,
    cut_while_read,
    dump,
    objects,
    of_kind,
    segment,
)

BASE = 100
BATCHES = [batch(BASE + at, b"a", b"b") for at in range(0, 40, 2)]
SIZE = len(BATCHES[0])

#: The last offset, the position and the highest timestamp of every fourth batch.
PLACES = [(BASE + 2 * number + 1, number * SIZE, START_MS + BASE + 2 * number + 1) for number in range(4, 20, 4)]
OFFSETS = [(offset - BASE, position) for offset, position, _ in PLACES]
TIMES = [(timestamp, offset - BASE) for offset, _, timestamp in PLACES]


def offset_index(folder: Path, entries: list[tuple[int, int]], more: bytes = b"", base_offset: int = BASE) -> Path:
    content = b"".join(struct.pack(">ii", *entry) for entry in entries) + more
    return segment(folder, content, base_offset=base_offset, suffix=".index")


def time_index(folder: Path, entries: list[tuple[int, int]], more: bytes = b"") -> Path:
    content = b"".join(struct.pack(">qi", *entry) for entry in entries) + more
    return segment(folder, content, base_offset=BASE, suffix=".timeindex")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    segment(tmp_path, *BATCHES, base_offset=BASE)
    return tmp_path


def reasons(found: list[dict[str, Any]]) -> list[str]:
    return [each["reason"] for each in of_kind("damage", found)]


def test_an_offset_index(folder: Path) -> None:
    path = offset_index(folder, OFFSETS)
    assert of_kind("entry", objects(path)) == [{"offset": offset, "position": at} for offset, at, _ in PLACES]
    assert dump(path)[1] == f"offset: {PLACES[0][0]} position: {PLACES[0][1]}"


def test_a_time_index(folder: Path) -> None:
    path = time_index(folder, TIMES)
    expected = [{"timestamp": timestamp, "offset": offset} for offset, _, timestamp in PLACES]
    assert of_kind("entry", objects(path)) == expected  # without the offset index
    offset_index(folder, OFFSETS)
    assert of_kind("entry", objects(path)) == expected
    assert dump(path)[1] == f"timestamp: {PLACES[0][2]} offset: {PLACES[0][0]}"


def test_room_for_more_entries(folder: Path) -> None:
    for path in (offset_index(folder, OFFSETS, bytes(8000)), time_index(folder, TIMES, bytes(12000))):
        found = objects(path)
        assert len(of_kind("entry", found)) == len(PLACES)
        (note,) = of_kind("note", found)
        assert "bytes of zeros at the end, reserved for further entries" in note["text"]


def test_the_first_entry_may_be_zeros(tmp_path: Path) -> None:
    """The first batch has the entry (0, 0) if it has one record and is at position 0."""
    segment(tmp_path, batch(0, b"a"), batch(1, b"a"))
    path = offset_index(tmp_path, [(0, 0), (1, len(batch(0, b"a")))], base_offset=0)
    assert len(of_kind("entry", objects(path))) == 2


def test_an_empty_index(folder: Path) -> None:
    for path in (offset_index(folder, []), time_index(folder, [])):
        assert [each["text"] for each in of_kind("note", objects(path))] == ["the index is empty"]


@pytest.mark.parametrize(
    ("number", "entry", "expected"),
    [
        (
            1,
            (OFFSETS[1][0] + 1, OFFSETS[1][1]),
            [f"index offset {BASE + 18}, log offset {BASE + 17} at position {8 * SIZE}"],
        ),
        (1, (OFFSETS[1][0], OFFSETS[1][1] + 1), None),
        (3, (OFFSETS[3][0], 10**6), [f"index offset {PLACES[3][0]}: no batch begins at position 1000000 of the log"]),
        (1, OFFSETS[0], [f"entry {PLACES[0][0]}, {PLACES[0][1]} does not follow the previous entry"]),
        (0, (-5, OFFSETS[0][1]), None),
        (0, (OFFSETS[0][0], -1), None),
    ],
)
def test_offset_entries_that_do_not_fit(
    folder: Path, number: int, entry: tuple[int, int], expected: list[str] | None
) -> None:
    entries = [*OFFSETS[:number], entry, *OFFSETS[number + 1 :]]
    found = reasons(objects(offset_index(folder, entries), code=1))
    assert found == expected if expected else found


@pytest.mark.parametrize(
    ("number", "entry", "expected"),
    [
        (
            1,
            (TIMES[1][0] + 1, TIMES[1][1]),
            f"index timestamp {TIMES[1][0] + 1}, log timestamp {TIMES[1][0]} at offset ",
        ),
        (1, (TIMES[1][0], TIMES[1][1] - 1), f"indexed offset {BASE + 16}, found log offset {BASE + 17}"),
        (3, (TIMES[3][0], 500), f"indexed offset {BASE + 500}, the log ends before it"),
        (
            2,
            (TIMES[0][0], TIMES[2][1]),
            f"index timestamp {TIMES[0][0]} is not later than the previous timestamp, {TIMES[1][0]}",
        ),
        (1, (TIMES[1][0], TIMES[0][1] - 2), f"index offset {BASE + 7} is lower than the previous offset"),
    ],
)
@pytest.mark.parametrize("is_indexed", [False, True])
def test_time_entries_that_do_not_fit(
    folder: Path, number: int, entry: tuple[int, int], expected: str, is_indexed: bool
) -> None:
    if is_indexed:
        offset_index(folder, OFFSETS)
    entries = [*TIMES[:number], entry, *TIMES[number + 1 :]]
    found = reasons(objects(time_index(folder, entries), code=1))
    assert any(each.startswith(expected) for each in found), found
    assert len(of_kind("entry", objects(time_index(folder, entries), code=1))) == len(entries)


def test_a_part_of_an_entry(folder: Path) -> None:
    assert reasons(objects(offset_index(folder, OFFSETS, b"abc"), code=1)) == [
        "the last entry is truncated: expected 8 bytes, got 3"
    ]
    assert reasons(objects(time_index(folder, TIMES, b"abc"), code=1)) == [
        "the last entry is truncated: expected 12 bytes, got 3"
    ]


def test_problems_are_reported_up_to_a_limit(folder: Path) -> None:
    path = offset_index(folder, [(5, 5)] * (PROBLEMS_MAX + 20))
    found = reasons(objects(path, code=1))
    assert len(found) == PROBLEMS_MAX + 1
    assert found[-1].endswith(f"more problems in this file; only {PROBLEMS_MAX} are reported individually")


def test_without_a_segment(tmp_path: Path) -> None:
    found = objects(offset_index(tmp_path, OFFSETS))
    assert len(of_kind("entry", found)) == len(PLACES)
    (note,) = of_kind("note", found)
    assert note["text"] == f"{BASE:020}.log is missing, so entries are not compared with a segment"


@pytest.mark.parametrize("added", [".deleted", ".swap", ".cleaned"])
def test_what_is_being_removed_or_replaced_belongs_together(folder: Path, added: str) -> None:
    """A compacted segment's old indexes do not belong to the segment that replaced it."""
    old = [offset_index(folder, OFFSETS), time_index(folder, TIMES)]
    old = [path.rename(f"{path}{added}") for path in old]
    log = segment(folder, *BATCHES[9:], base_offset=BASE)
    offset_index(folder, [])
    for path in old:
        (note,) = of_kind("note", objects(path))
        assert note["text"].startswith(f"{BASE:020}.log{added} is missing")
    old_log = segment(folder, *BATCHES, base_offset=BASE, suffix=f".log{added}")
    for path in old:
        found = objects(path)
        assert of_kind("note", found) == []
        assert len(of_kind("entry", found)) == len(PLACES)
    wanted = str(PLACES[2][0])
    assert of_kind("end", objects("--from-offset", wanted, old_log))[0]["bytes"] == len(BATCHES) * SIZE - PLACES[2][1]
    assert of_kind("end", objects("--from-offset", wanted, log))[0]["bytes"] == log.stat().st_size


def test_without_an_offset_in_the_name(folder: Path) -> None:
    path = offset_index(folder, OFFSETS).rename(folder / "copy.index")
    found = objects(path)
    assert [each["offset"] for each in of_kind("entry", found)] == [offset for offset, _ in OFFSETS]
    assert "offsets are shown as relative" in of_kind("note", found)[0]["text"]


def test_indexes_of_old_segments(tmp_path: Path) -> None:
    builder = MessageSetBuilder(1, base_offset=BASE)
    for number in range(4):
        builder.append(START_MS + number, b"k", b"v")
    data = builder.build()
    segment(tmp_path, data, base_offset=BASE)
    path = offset_index(tmp_path, [(2, len(data) // 2)])
    assert reasons(objects(path)) == []
    assert reasons(objects(time_index(tmp_path, [(START_MS + 2, 2)]))) == []
    assert reasons(objects(time_index(tmp_path, [(START_MS + 3, 2)]), code=1))


@pytest.mark.parametrize("victim", [".index", ".timeindex", ".log"])
@pytest.mark.parametrize("read", [".index", ".timeindex", ".log"])
@pytest.mark.parametrize("fill", [1, 2, 3])
def test_files_that_get_shorter_while_they_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, victim: str, read: str, fill: int
) -> None:
    for size in (0, 4, 8, 12, 17, 30, 61, SIZE, 4 * SIZE + 17):
        segment(tmp_path, *BATCHES, base_offset=BASE)
        offset_index(tmp_path, OFFSETS, bytes(800))
        time_index(tmp_path, TIMES, bytes(1200))
        path = tmp_path / "t-0" / f"{BASE:020}.log"
        with monkeypatch.context() as patch:
            cut_while_read(patch, path.with_suffix(victim), fill, size)
            found = objects("--from-offset", str(PLACES[2][0]), path.with_suffix(read), code=None)
        if victim == read == ".index" and fill == 1 and size < 8:
            note = f"the file shrank to {size} bytes while it was being read"
            assert of_kind("note", found)[0] == {"text": note}
            assert reasons(found) == ([f"the last entry is truncated: expected 8 bytes, got {size}"] if size else [])


@pytest.mark.parametrize("fill", [1, 2, 3, 4])
@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
def test_indexes_of_a_segment_that_is_being_written(
    folder: Path, monkeypatch: pytest.MonkeyPatch, suffix: str, fill: int
) -> None:
    """A broker appends to the log, then to its indexes, whose preallocated space is larger than a window."""
    log = folder / "t-0" / f"{BASE:020}.log"
    path = offset_index(folder, OFFSETS, bytes(2_400_000))
    if suffix == ".timeindex":
        path = time_index(folder, TIMES, bytes(2_400_000))
    more = [batch(BASE + at, b"a", b"b") for at in range(40, 80, 2)]
    places = [(2 * number + 1, number * SIZE, START_MS + BASE + 2 * number + 1) for number in range(20, 40, 4)]

    def append() -> None:
        with log.open("ab") as file:
            file.write(b"".join(more))
        if suffix == ".index":
            offset_index(folder, [*OFFSETS, *((offset, position) for offset, position, _ in places)], bytes(2_400_000))
        else:
            time_index(folder, [*TIMES, *((timestamp, offset) for offset, _, timestamp in places)], bytes(2_400_000))

    before_fill(monkeypatch, fill, append)
    found = objects(path)
    assert reasons(found) == []
    assert len(of_kind("entry", found)) in (len(OFFSETS), len(OFFSETS) + len(places))


def test_the_room_of_an_index_that_is_cut_off_meanwhile(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The broker cuts off the preallocated space when it starts the next segment."""
    path = offset_index(folder, OFFSETS, bytes(3_000_000))
    cut_while_read(monkeypatch, path, 3, 8 * len(OFFSETS))
    found = objects(path)
    assert len(of_kind("entry", found)) == len(OFFSETS)
    size = 8 * len(OFFSETS)
    assert [each["text"] for each in of_kind("note", found)] == [
        f"the file shrank to {size} bytes while it was being read"
    ]


def test_a_time_index_does_not_search_in_an_offset_index_for_each_entry(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In an index with much spare space, each search would reread several parts of the index."""
    batches = [batch(BASE + number, b"a") for number in range(1_000)]
    segment(tmp_path, *batches, base_offset=BASE)
    positions = list(accumulate(map(len, batches), initial=0))
    offset_index(tmp_path, [(number, positions[number]) for number in range(1, 1_000)], bytes(10_000_000))
    path = time_index(tmp_path, [(START_MS + BASE + number, number) for number in range(1, 1_000)])
    fills = []
    fill = Window._fill

    def counted(window: Window, position: int, size: int) -> None:
        fills.append(position)
        fill(window, position, size)

    monkeypatch.setattr(Window, "_fill", counted)
    assert reasons(objects(path)) == []
    assert len(fills) < 20


@pytest.mark.parametrize("magic", [0, 1, 2, 3])
def test_an_entry_about_the_last_bytes_of_a_segment(tmp_path: Path, magic: int) -> None:
    """Leftover bytes are never taken for a batch, however many there are."""
    for left in range(1, 34 if magic == 2 else 18):
        end = (bytes(16) + bytes([magic]) + bytes(20))[:left]
        segment(tmp_path, *BATCHES, end, base_offset=BASE)
        path = offset_index(tmp_path, [(500, len(BATCHES) * SIZE)])
        assert len(reasons(objects(path, code=1))) == 1
