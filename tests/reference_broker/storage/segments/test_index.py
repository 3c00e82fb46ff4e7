"""Indexes find their entries, store them in Kafka's format, and report unusable files.

Method: use entries in the range of a small segment; compare files with hand-built bytes, damage them and reread them.
"""

import struct

import pytest

from kafkawire.reference_broker.storage.disk.disk import read_file
from kafkawire.reference_broker.storage.disk.machine import MachineDisk
from kafkawire.reference_broker.storage.disk.memory import MemoryDisk, fail_at
from kafkawire.reference_broker.storage.segments.index import OffsetIndex, TimeIndex

BASE = 1000


@pytest.fixture
def disk(tmp_path):
    return MachineDisk(tmp_path)


@pytest.fixture
def offsets(disk):
    index = OffsetIndex(disk, "i", BASE, 1024)
    for last_offset, position in ((1004, 100), (1009, 300), (1020, 900)):
        index.append(last_offset, position)
    return index


@pytest.mark.parametrize(
    ("offset", "position"), [(1000, 0), (1003, 0), (1004, 100), (1008, 100), (1009, 300), (1020, 900), (9999, 900)]
)
def test_position_for(offsets, offset, position):
    assert offsets.position_for(offset) == position


@pytest.mark.parametrize(
    ("position", "offset"),
    [(0, 1004), (99, 1004), (100, 1009), (101, 1009), (300, 1009), (301, 1020), (900, 1020), (901, None)],
)
def test_offset_from(offsets, position, offset):
    """As in Kafka, a search for the position of the very first entry does not find that entry."""
    assert offsets.offset_from(position) == offset


def test_offset_index_file(offsets, disk, tmp_path):
    assert not (tmp_path / "i").exists(), "entries stay in memory until the segment is complete"
    offsets.store()
    assert (tmp_path / "i").read_bytes() == struct.pack(">6i", 4, 100, 9, 300, 20, 900)
    again = OffsetIndex(disk, "i", BASE, 1024)
    assert again.load()
    assert (again.position_for(1010), again.last_position, len(again)) == (300, 900, 3)
    assert (again.last_offset, OffsetIndex(disk, "none", BASE, 1024).last_offset) == (1020, BASE)


def test_stored_index_outlives_a_power_cut():
    disk = MemoryDisk()
    index = OffsetIndex(disk, "i", BASE, 1024)
    index.append(1004, 100)
    index.store()
    disk.sync_folder("")
    for seed in range(10):
        assert read_file(disk.crash(seed), "i") == struct.pack(">2i", 4, 100)


def test_zeros_of_a_preallocated_file_are_no_entries(offsets, disk, tmp_path):
    offsets.store()
    with open(tmp_path / "i", "ab") as file:
        file.write(bytes(800))
    again = OffsetIndex(disk, "i", BASE, 1024)
    assert not again.load(), "the file has to be rewritten, or else entries would follow the zeros"


@pytest.mark.parametrize(
    "content",
    [
        b"\x00" * 7,
        struct.pack(">4i", 9, 300, 4, 400),
        struct.pack(">4i", 4, 300, 9, 200),
        struct.pack(">4i", 4, 100, 9, 300)[:-1],
    ],
)
def test_damaged_file_is_dropped(disk, tmp_path, content):
    (tmp_path / "i").write_bytes(content)
    index = OffsetIndex(disk, "i", BASE, 1024)
    assert not index.load()
    assert len(index) == 0
    index.append(1004, 100)
    index.store()
    assert (tmp_path / "i").read_bytes() == struct.pack(">2i", 4, 100)


def test_missing_file(disk):
    assert not OffsetIndex(disk, "i", BASE, 1024).load()


def test_full(disk):
    index = OffsetIndex(disk, "i", BASE, 16)
    index.append(1001, 10)
    assert not index.is_full
    index.append(1002, 20)
    assert index.is_full


def test_time_index(disk, tmp_path):
    index = TimeIndex(disk, "t", BASE, 1024)
    for timestamp, offset in ((50, 1003), (50, 1005), (40, 1006), (70, 1009)):
        index.append(timestamp, offset)
    index.store()
    assert (tmp_path / "t").read_bytes() == struct.pack(">qiqi", 50, 3, 70, 9)
    again = TimeIndex(disk, "t", BASE, 1024)
    assert again.load()
    assert again.last_entry == (70, 1009)
    assert [again.offset_before(timestamp) for timestamp in (49, 50, 51, 70, 71)] == [1000, 1000, 1003, 1003, 1009]


def test_time_index_has_no_entry_without_a_timestamp(disk):
    index = TimeIndex(disk, "t", BASE, 1024)
    index.append(-1, BASE)
    assert len(index) == 0
    index.append(0, BASE + 1)
    index.append(-1, BASE + 2)
    assert index.last_entry == (0, BASE + 1)


@pytest.mark.parametrize("call", range(1, 5))
def test_file_is_replaced_whole(call):
    """A power cut halfway through a write once left entries that were in order but incomplete."""
    disk = MemoryDisk()
    for last_offsets in ((1004,), (1004, 1009, 1020)):
        index = OffsetIndex(disk, "i", BASE, 1024)
        for position, last_offset in enumerate(last_offsets, 1):
            index.append(last_offset, position)
        if len(last_offsets) == 3:
            disk.plan = fail_at(disk.calls + call)
            with pytest.raises(OSError, match="planned"):
                index.store()
        else:
            index.store()
    assert read_file(disk, "i") == struct.pack(">ii", 4, 1)


def test_size_of_the_file(disk, offsets):
    assert offsets.stored_bytes() == 0
    offsets.store()
    assert OffsetIndex(disk, "i", BASE, 1024).stored_bytes() == 24


def test_an_empty_file_is_not_synced_unless_there_was_something_in_it():
    disk, synced = MemoryDisk(), []
    disk.plan = lambda call: synced.append(call.path) if call.name == "sync" else None
    index = OffsetIndex(disk, "i", BASE, 1024)
    index.store()
    assert synced == []
    disk.sync_folder("")
    assert OffsetIndex(disk.crash(0), "i", BASE, 1024).load()
    disk.open("i.tmp", create=True).append(b"of a crash")
    index.store()
    assert synced == ["i.tmp"]


@pytest.mark.parametrize("left", [b"junk", struct.pack(">6i", 1, 10, 2, 20, 3, 30) * 10])
@pytest.mark.parametrize("entries", [[], [(1004, 1100), (1009, 1300)]])
@pytest.mark.parametrize("kind", [OffsetIndex, TimeIndex])
def test_what_a_crash_has_left_of_the_temporary_file_does_not_count(kind, entries, left):
    clean, dirty = MemoryDisk(), MemoryDisk()
    dirty.open("i.tmp", create=True).append(left)
    for disk in (clean, dirty):
        index = kind(disk, "i", BASE, 1024)
        for entry in entries:
            index.append(*entry)
        index.store()
    assert read_file(dirty, "i") == read_file(clean, "i")
    again = kind(dirty, "i", BASE, 1024)
    assert again.load()
    assert len(again) == len(entries)
