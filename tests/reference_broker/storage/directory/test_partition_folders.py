"""Partition folders are created, recognised by their topic id, set aside and removed.

Method: test folders and metadata alone, on an in-memory disk; one file per partition stands in for its records.
"""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from kafkawire.reference_broker.storage.directory.partition_folders import PartitionFolders
from kafkawire.reference_broker.storage.disk.disk import read_file, remove_tree, write_file
from kafkawire.reference_broker.storage.disk.machine import MachineDisk
from kafkawire.reference_broker.storage.disk.memory import DiskCall, MemoryDisk
from kafkawire.sdk.storage.partition_metadata import partition_metadata_content

PLACE = ("t", 0)
FIRST, SECOND = b"1" * 16, b"2" * 16
METADATA = "t-0/partition.metadata"


def made() -> tuple[MemoryDisk, PartitionFolders]:
    disk = MemoryDisk()
    folders = PartitionFolders(disk)
    folders.make(PLACE, FIRST)
    write_file(disk, "t-0/records", b"first")
    return disk, folders


def test_new_folder_names_its_topic() -> None:
    disk, _ = made()
    assert read_file(disk, METADATA) == partition_metadata_content(FIRST)


def test_folder_of_another_topic_is_set_aside(caplog: pytest.LogCaptureFixture) -> None:
    disk, folders = made()
    assert not folders.settle(PLACE, FIRST, is_there=True)
    assert folders.settle(PLACE, SECOND, is_there=True)
    assert "memory:t-0 is missing, so the partition starts out empty" in caplog.text
    assert disk.names("t-0") == ["partition.metadata"]
    assert read_file(disk, "MjIyMjIyMjIyMjIyMjIyMg.0-stray/records") == b"first"


@pytest.mark.parametrize("content", [None, b"", b"version: 0", bytes(47)])
def test_metadata_that_a_crash_took_is_written_again(content: bytes | None) -> None:
    disk, folders = made()
    if content is None:
        disk.remove(METADATA)
    else:
        write_file(disk, METADATA, content)
    assert not folders.settle(PLACE, SECOND, is_there=True), "the decision depends on the name"
    assert read_file(disk, METADATA) == partition_metadata_content(SECOND)
    assert read_file(disk, "t-0/records") == b"first"


def test_missing_folder_is_made(caplog: pytest.LogCaptureFixture) -> None:
    disk = MemoryDisk()
    assert PartitionFolders(disk).settle(PLACE, FIRST, is_there=False)
    assert read_file(disk, METADATA) == partition_metadata_content(FIRST)
    assert "memory:t-0 is missing, so the partition starts out empty" in caplog.text


def test_sound_metadata_is_read_once_and_not_written() -> None:
    disk, folders = made()
    calls: list[str] = []
    disk.plan = lambda call: calls.append(call.name)
    before = disk.calls
    folders.settle(PLACE, FIRST, is_there=True)
    assert disk.calls - before == len(calls) <= 2, calls
    assert not {"append", "truncate", "rename"} & {*calls}


def test_folder_that_is_set_aside_again() -> None:
    disk = MemoryDisk()
    for number in range(3):
        disk.make_folder("t-0")
        write_file(disk, "t-0/records", b"%d" % number)
        PartitionFolders(disk).make(PLACE, FIRST)
        remove_tree(disk, "t-0")
    found = [read_file(disk, f"MTExMTExMTExMTExMTExMQ.0{more}-stray/records") for more in ("", ".1", ".2")]
    assert found == [b"0", b"1", b"2"]


@pytest.mark.parametrize(
    ("content", "is_free", "goes"),
    [
        (partition_metadata_content(FIRST), False, True),
        (partition_metadata_content(SECOND), True, False),
        (b"", True, True),
        (b"", False, False),
        (None, True, True),
        (None, False, False),
    ],
)
def test_metadata_decides_which_folders_are_retired(content: bytes | None, is_free: bool, goes: bool) -> None:
    disk, folders = made()
    disk.remove(METADATA)
    if content is not None:
        write_file(disk, METADATA, content)
    retired = folders.retire([PLACE, ("t", 1)], FIRST, lambda: is_free)
    assert retired == folders.retired() == (["MTExMTExMTExMTExMTExMQ.0-delete"] if goes else [])
    assert ("t-0" in disk.names("")) is not goes
    folders.remove(retired)
    assert folders.retired() == []


def test_retired_folders_are_durable() -> None:
    disk, folders = made()
    disk.sync_folder("")
    folders.retire([PLACE], FIRST, lambda: False)
    for seed in range(8):
        assert disk.crash(seed).names("") == ["MTExMTExMTExMTExMTExMQ.0-delete"]


def test_no_folder_is_removed_while_the_broker_stops() -> None:
    disk, folders = made()
    retired = folders.retire([PLACE], FIRST, lambda: False)
    folders.is_ending = True
    folders.remove(retired)
    assert disk.names("") == retired


def test_found_folders_of_partitions() -> None:
    disk, folders = made()
    folders.make(("a-b", 12), SECOND, is_durable=True)
    for name in ("u-0", "v-0", "t-00", "t-1.d", "lost+found", "topics", "MTExMTExMTExMTExMTExMQ.1-delete", "x.0-stray"):
        disk.make_folder(name)
    write_file(disk, "u-0/partition.metadata", b"version: 0")
    disk.make_folder("v-0/partition.metadata")
    assert folders.found() == {PLACE: FIRST, ("a-b", 12): SECOND, ("u", 0): None, ("v", 0): None}


def test_folders_are_not_found_without_file_descriptors() -> None:
    disk, folders = made()

    def plan(call: DiskCall) -> None:
        if call.path == METADATA:
            raise OSError(errno.EMFILE, "planned")

    disk.plan = plan
    with pytest.raises(OSError, match="planned"):
        folders.found()


@pytest.mark.parametrize("seed", range(8))
def test_durable_metadata_outlives_a_crash_with_its_folder(seed: int) -> None:
    disk = MemoryDisk()
    PartitionFolders(disk).make(PLACE, FIRST, is_durable=True)
    disk.sync_folder("")
    assert PartitionFolders(disk.crash(seed)).found() == {PLACE: FIRST}


@pytest.mark.parametrize(
    ("content", "name"),
    [
        (partition_metadata_content(SECOND), "MjIyMjIyMjIyMjIyMjIyMg.0-delete"),
        (b"", "AAAAAAAAAAAAAAAAAAAAAA.0-delete"),
    ],
)
def test_folder_of_a_log_is_retired_whatever_its_metadata_say(content: bytes, name: str) -> None:
    disk, folders = made()
    write_file(disk, METADATA, content)
    assert folders.retire_one(PLACE) == name
    assert disk.names("") == folders.retired() == [name]


@pytest.mark.parametrize("place", [("../t", 0), ("t-", -1), ("t\0", 0)])
def test_no_other_folder_is_retired(tmp_path: Path, place: tuple[str, int]) -> None:
    """A hostile controller may name a partition that cannot exist: `t--1` belongs to partition 1 of topic `t-`."""
    data = tmp_path / "data"
    folders = {tmp_path / "t-0", data, data / "t--1"}
    for folder in sorted(folders):
        folder.mkdir()
    assert PartitionFolders(MachineDisk(data)).retire_one(place) is None
    assert set(tmp_path.rglob("*")) == folders


def test_what_does_not_belong_there_is_named_and_left_alone(caplog: pytest.LogCaptureFixture) -> None:
    disk = MemoryDisk()
    for name in ("t-0", "t-1", "t-abc", "lost+found", "x.0-stray", "x.0-delete", "topics"):
        disk.make_folder(name)
    for name in ("meta.properties", ".lock", "producer-ids.tmp", "notes"):
        disk.open(name, create=True)
    before = disk.names("")
    PartitionFolders(disk).tell_strays(["t-0"])
    assert disk.names("") == before
    assert [record.getMessage() for record in caplog.records] == [
        f"memory:{name} does not belong to any topic, and is left alone"
        for name in ("lost+found", "notes", "t-1", "t-abc")
    ]
