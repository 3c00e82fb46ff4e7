"""Indexes are read whole or entry by entry; preallocated space is not read as entries, and damage is reported.

Method: read hand-built entries, with unused space of every size after them, and with cuts at every byte.
"""

from __future__ import annotations

import struct
from array import array

import pytest

from kafkawire.sdk.storage.damage import DamagedContent
from kafkawire.sdk.storage.index_entries import (
    OFFSET_INDEX,
    TIME_INDEX,
    IndexEntries,
    IndexFormat,
    index_content,
    parse_index,
)

OFFSETS = [(4, 100), (9, 256), (20, 900)]
TIMES = [(2**40, 4), (2**40 + 256, 9), (2**40 + 300, 9)]
INDEXES = [(OFFSET_INDEX, ">ii", OFFSETS), (TIME_INDEX, ">qi", TIMES)]
EACH = pytest.mark.parametrize(("index", "form", "entries"), INDEXES, ids=["offsets", "times"])


class Source:
    """An in-memory file."""

    def __init__(self, content: bytes) -> None:
        self.content = content
        self.end = len(content)

    def at(self, position: int, size: int) -> memoryview:
        return memoryview(self.content)[position : position + size]


def packed(form: str, entries: list[tuple[int, int]]) -> bytes:
    return b"".join(struct.pack(form, *entry) for entry in entries)


@EACH
def test_columns(index: IndexFormat, form: str, entries: list[tuple[int, int]]) -> None:
    content = packed(form, entries)
    keys, values, room_bytes = parse_index(content, index)
    assert list(zip(keys, values, strict=True)) == entries
    assert room_bytes == 0
    assert (keys.typecode, values.typecode) == (index.key_code, "i")
    assert index_content(keys, values, index) == content
    assert index.entry_bytes == len(content) // len(entries)


@EACH
def test_no_entries(index: IndexFormat, form: str, entries: list[tuple[int, int]]) -> None:
    assert parse_index(b"", index) == index.no_entries() == (array(index.key_code), array("i"), 0)
    assert parse_index(bytes(10 * index.entry_bytes), index) == (*index.no_entries()[:2], 10 * index.entry_bytes)
    columns = index.no_entries()
    columns.keys.append(entries[0][0])
    columns.values.append(entries[0][1])
    assert index_content(*columns[:2], index) == packed(form, entries[:1])


@EACH
def test_room(index: IndexFormat, form: str, entries: list[tuple[int, int]]) -> None:
    """The last byte of an entry may be zero, and must not be taken for unused space."""
    for kept in (1, 2, 3):
        for count in (1, 2, 100):
            content = packed(form, entries[:kept]) + bytes(count * index.entry_bytes)
            keys, values, room_bytes = parse_index(content, index)
            assert list(zip(keys, values, strict=True)) == entries[:kept]
            assert room_bytes == count * index.entry_bytes


@EACH
def test_a_cut(index: IndexFormat, form: str, entries: list[tuple[int, int]]) -> None:
    content = packed(form, entries)
    for size in range(len(content)):
        whole, left = divmod(size, index.entry_bytes)
        told: list[DamagedContent] = []
        keys, values, _ = parse_index(content[:size], index, told.append)
        assert list(zip(keys, values, strict=True)) == entries[:whole]
        expected = [(f"the last entry has only {left} of {index.entry_bytes} bytes", size - left)] if left else []
        assert [(damage.reason, damage.position) for damage in told] == expected
        if left:
            with pytest.raises(DamagedContent, match=expected[0][0]):
                parse_index(content[:size], index)


@pytest.mark.parametrize(
    ("index", "content"),
    [
        (OFFSET_INDEX, packed(">ii", [(9, 300), (4, 400)])),
        (OFFSET_INDEX, packed(">ii", [(4, 300), (9, 200)])),
        (OFFSET_INDEX, packed(">ii", [(4, 300), (0, 0), (9, 400)])),
        (TIME_INDEX, packed(">qi", [(50, 3), (50, 5)])),
    ],
)
def test_entries_that_are_not_in_order(index: IndexFormat, content: bytes) -> None:
    with pytest.raises(DamagedContent, match="its entries are not in order"):
        parse_index(content, index)
    told: list[DamagedContent] = []
    assert parse_index(content, index, told.append) == index.no_entries()
    assert len(told) == 1


@EACH
@pytest.mark.parametrize("room", [0, 1, 50])
def test_one_entry_at_a_time(index: IndexFormat, form: str, entries: list[tuple[int, int]], room: int) -> None:
    found = IndexEntries(Source(packed(form, entries) + bytes(room * index.entry_bytes + 3)), index)
    assert len(found) == len(entries) + room
    assert found[: len(entries)] == entries
    for number in (-1, len(entries) + room):
        with pytest.raises(IndexError):
            found[number]
    assert found.value_at(entries[0][0] - 1) is None
    for key, value in entries:
        assert found.value_at(key) == value
    assert found.value_at(entries[-1][0] + 5) == entries[-1][1]


def test_the_first_entry_may_be_zeros() -> None:
    """The first batch's entry is (0, 0) if the batch has one record and is at position 0."""
    found = IndexEntries(Source(packed(">ii", [(0, 0), (1, 68)]) + bytes(80)), OFFSET_INDEX)
    assert [found.value_at(key) for key in (0, 1, 9)] == [0, 68, 68]


def test_an_empty_file() -> None:
    assert IndexEntries(Source(b""), OFFSET_INDEX).value_at(5) is None


def test_a_file_that_is_cut_meanwhile() -> None:
    source = Source(packed(">ii", OFFSETS))
    found = IndexEntries(source, OFFSET_INDEX)
    source.content = source.content[:12]
    assert found[0] == OFFSETS[0]
    with pytest.raises(IndexError):
        found[1]
    assert found.value_at(9) is None
