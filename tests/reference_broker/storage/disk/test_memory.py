"""The in-memory disk loses only what a power cut may lose, fills up, and fails on request.

Method: test each guarantee with enough seeds for every allowed outcome to occur.
"""

import errno

import pytest

from kafkawire.reference_broker.storage.disk.disk import read_file
from kafkawire.reference_broker.storage.disk.memory import MemoryDisk, PowerCut, cut_power_at, fail_at, fail_sometimes

SEEDS = range(200)


def written(disk, path="a", *parts):
    file = disk.open(path, create=True)
    for part in parts:
        file.append(part)
    return file


def outcomes(disk, path="a"):
    return {read_file(disk.crash(seed), path) for seed in SEEDS}


def test_crash_of_the_process_loses_nothing():
    disk = MemoryDisk()
    disk.make_folder("f")
    written(disk, "f/a", b"abc")
    after = disk.crash()
    assert read_file(after, "f/a") == b"abc"
    assert outcomes(after, "f/a") == {b"abc"}, "the next power cut cannot undo the state after the crash"


def test_content_needs_a_sync_and_a_name_a_sync_of_the_folder():
    disk = MemoryDisk()
    file = written(disk, "a", b"abc")
    assert outcomes(disk) == {None, b"", b"abc"}
    disk.sync_folder("")
    assert outcomes(disk) == {b"", b"abc"}
    file.sync()
    assert outcomes(disk) == {b"abc"}


def test_synced_content_without_its_name_may_be_gone():
    disk = MemoryDisk()
    written(disk, "a", b"abc").sync()
    assert outcomes(disk) == {None, b"abc"}


def test_writes_after_the_sync_are_lost_kept_or_torn():
    disk = MemoryDisk()
    file = written(disk, "a", b"s" * 10)
    disk.sync_folder("")
    file.sync()
    file.append(b"x" * 2000)
    file.append(b"y" * 2000)
    left = {content for content in outcomes(disk) if content is not None}
    whole = b"s" * 10 + b"x" * 2000 + b"y" * 2000
    assert all(content[:10] == b"s" * 10 for content in left)
    assert {whole[:10], whole[:2010], whole} <= left
    assert whole[:10] + bytes(2000) + b"y" * 2000 in left, "only the later write survived, with a hole before it"
    assert any(b"x" in content and content.count(b"x") < 2000 for content in left), "torn"


def test_many_unsynced_writes_are_kept_track_of_together():
    disk = MemoryDisk()
    disk.sync_folder("")
    file = written(disk, "a", *[b"x"] * 3000)
    disk.sync_folder("")
    assert len(file._inode._unsynced) <= 1001
    assert {b"", b"x" * 3000} <= outcomes(disk)


def test_cut_that_is_not_synced_may_come_back():
    disk = MemoryDisk()
    file = written(disk, "a", b"0123456789")
    disk.sync_folder("")
    file.sync()
    file.truncate(4)
    assert outcomes(disk) == {b"0123456789", b"0123"}
    file.append(b"x")
    assert read_file(disk, "a") == b"0123x"
    assert outcomes(disk) == {b"0123456789", b"0123", b"0123x", b"0123x56789"}
    file.sync()
    assert outcomes(disk) == {b"0123x"}
    file.truncate(8)
    assert file.read(0, 10) == b"0123x\0\0\0"


def test_names_are_kept_in_order():
    disk = MemoryDisk()
    for name in "abc":
        disk.open(name, create=True)
    disk.rename("a", "d")
    disk.remove("b")
    left = {tuple(disk.crash(seed).names("")) for seed in SEEDS}
    assert left == {(), ("a",), ("a", "b"), ("a", "b", "c"), ("b", "c", "d"), ("c", "d")}


@pytest.mark.parametrize("synced", ["f", "g"])
def test_name_that_moves_to_another_folder_is_in_one_of_them(synced):
    disk = MemoryDisk()
    disk.make_folder("f")
    disk.make_folder("g")
    written(disk, "f/a", b"abc").sync()
    for folder in ("", "f", "g"):
        disk.sync_folder(folder)
    disk.rename("f/a", "g/a")
    assert {(read_file(after, "f/a"), read_file(after, "g/a")) for after in map(disk.crash, SEEDS)} == {
        (b"abc", None),
        (None, b"abc"),
    }
    disk.sync_folder(synced)
    assert outcomes(disk, "g/a") == {b"abc"}
    assert outcomes(disk, "f/a") == {None}


def test_names_in_folders_that_are_gone_are_forgotten():
    disk = MemoryDisk()
    disk.make_folder("kept")
    disk.open("kept/early", create=True)
    for number in range(1_000):
        folder = f"folder{number}"
        disk.make_folder(folder)
        disk.open(f"{folder}/file", create=True)
        disk.remove(f"{folder}/file")
        disk.remove_folder(folder)
        disk.sync_folder("")
    assert len(disk._changes) < 250
    assert {tuple(disk.crash(seed).names("kept")) for seed in range(500)} == {(), ("early",)}
    disk.sync_folder("kept")
    assert disk.crash(1).names("kept") == ["early"]


def test_names_that_are_not_gone_are_seldom_looked_at(monkeypatch):
    """Otherwise, each sync of a folder would spend time on the unsynced names in all other folders."""
    looked = []
    forget = MemoryDisk._forget_unreachable
    monkeypatch.setattr(MemoryDisk, "_forget_unreachable", lambda disk: (looked.append(1), forget(disk)))
    disk = MemoryDisk()
    disk.make_folder("unsynced")
    for number in range(1_000):
        disk.open(f"unsynced/{number}", create=True)
        disk.open(f"{number}", create=True)
        disk.sync_folder("")
    assert 1 <= len(looked) < 10


def test_folder_that_is_synced_but_not_in_its_parent():
    disk = MemoryDisk()
    disk.make_folder("f")
    written(disk, "f/a", b"abc").sync()
    disk.sync_folder("f")
    left = {tuple(disk.crash(seed).names("")) for seed in SEEDS}
    assert left == {(), ("f",)}
    disk.sync_folder("")
    assert outcomes(disk, "f/a") == {b"abc"}


def test_failed_sync_loses_the_writes_for_good():
    """As on Linux, the pages are then considered clean, and the next sync succeeds."""
    disk = MemoryDisk()
    file = written(disk, "a", b"abc")
    disk.sync_folder("")
    disk.plan = fail_at(disk.calls + 1)
    with pytest.raises(OSError, match="planned"):
        file.sync()
    file.append(b"def")
    file.sync()
    assert file.read(0, 10) == b"abcdef"
    assert outcomes(disk) == {b"\0\0\0def"}


def test_full_disk_takes_a_part():
    disk = MemoryDisk(capacity_bytes=10)
    file = written(disk, "a", b"1234567")
    with pytest.raises(OSError, match="No space") as caught:
        file.append(b"890123")
    assert caught.value.errno == errno.ENOSPC
    assert (file.read(0, 20), disk.used_bytes) == (b"1234567890", 10)
    file.truncate(5)
    file.append(b"abc")
    assert disk.used_bytes == 8
    written(disk, "b", b"xy")
    disk.rename("b", "a")
    assert disk.used_bytes == 2
    disk.remove("a")
    assert disk.used_bytes == 0
    assert disk.crash().used_bytes == 0


def test_file_without_a_name_takes_no_room():
    disk = MemoryDisk(10)
    removed, replaced = written(disk, "a", b"12345"), written(disk, "b", b"678")
    disk.remove("a")
    written(disk, "c", b"0")
    disk.rename("c", "b")
    disk.rename("b", "b")
    assert disk.used_bytes == 1
    for file in (removed, replaced):
        file.append(b"90")
        file.truncate(1)
    assert disk.used_bytes == 1
    written(disk, "d", b"123456789")
    with pytest.raises(OSError, match="No space"):
        written(disk, "e", b"1")


def test_calls_are_numbered_and_named():
    disk = MemoryDisk()
    seen = []
    disk.plan = seen.append
    file = written(disk, "a", b"x")
    file.sync()
    disk.rename("a", "b")
    assert [(call.number, call.name, call.path) for call in seen] == [
        (1, "create", "a"),
        (2, "append", "a"),
        (3, "sync", "a"),
        (4, "rename", "a"),
    ]
    assert disk.calls == 4


def test_planned_failure_of_a_write_tears_it():
    disk = MemoryDisk()
    disk.plan = fail_at(2, errno.ENOSPC)
    with pytest.raises(OSError, match="No space") as caught:
        written(disk, "a", b"abcdef")
    assert caught.value.errno == errno.ENOSPC
    assert read_file(disk, "a") == b"abc"


def test_after_a_power_cut_nothing_works():
    disk = MemoryDisk()
    disk.plan = cut_power_at(2)
    with pytest.raises(PowerCut):
        written(disk, "a", b"abcd")
    with pytest.raises(PowerCut):
        disk.names("")
    assert b"ab" in outcomes(disk)


def test_failures_by_seed_repeat():
    def failed(seed):
        disk = MemoryDisk()
        disk.plan = fail_sometimes(seed, 0.3)
        found = []
        for number in range(50):
            try:
                disk.open("a", create=True)
            except OSError:
                found.append(number)
        return found

    assert 5 < len(failed(1)) < 25
    assert failed(1) == failed(1) != failed(2)


def test_lock_ends_with_the_crash():
    disk = MemoryDisk()
    disk.lock("lock")
    with pytest.raises(BlockingIOError):
        disk.lock("lock")
    disk.crash().lock("lock")


@pytest.mark.parametrize("seed", [None, 1])
def test_what_a_crash_leaves_takes_its_room(seed):
    disk = MemoryDisk(capacity_bytes=10)
    disk.make_folder("f")
    written(disk, "f/a", b"1234567").sync()
    written(disk, "b", b"8").sync()
    for folder in ("f", ""):
        disk.sync_folder(folder)
    after = disk.crash(seed)
    assert (after.used_bytes, after.capacity_bytes) == (8, 10)
    with pytest.raises(OSError, match="No space"):
        written(after, "c", b"123")
