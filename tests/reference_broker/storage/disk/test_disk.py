"""Both disks honour the same contract, and replace a small file atomically.

Method: run one suite on the machine's disk and on the in-memory disk.
"""

import errno
import inspect
import os
import re

import pytest

from kafkawire.reference_broker.storage.disk.disk import (
    Disk,
    FileSlice,
    has_file,
    read_file,
    remove_tree,
    replace_file,
    write_file,
)
from kafkawire.reference_broker.storage.disk.machine import MachineDisk
from kafkawire.reference_broker.storage.disk.memory import MemoryDisk, PowerCut, cut_power_at, fail_at


@pytest.fixture(params=["machine", "memory"])
def disk(request, tmp_path):
    return MachineDisk(tmp_path / "data") if request.param == "machine" else MemoryDisk()


def test_file_is_appended_to_and_read_anywhere(disk):
    file = disk.open("a", create=True)
    file.append(b"0123")
    file.append(memoryview(b"456"))
    file.append(bytearray(b""))
    assert file.size_bytes == disk.size_of("a") == 7
    assert (file.read(0, 3), file.read(5, 100), file.read(7, 1), file.read(100, 1)) == (b"012", b"56", b"", b"")
    file.sync()
    file.truncate(2)
    file.append(b"x")
    assert (file.size_bytes, file.read(0, 10)) == (3, b"01x")
    again = disk.open("a")
    assert (again.size_bytes, again.read(0, 10)) == (3, b"01x")


def test_volume(disk):
    if isinstance(disk, MemoryDisk):
        assert disk.volume() is None
        disk.capacity_bytes = 100
        disk.open("a", create=True).append(bytes(70))
        assert disk.volume() == (100, 30)
        disk.capacity_bytes = 50
        assert disk.volume() == (50, 0)
    else:
        status = os.statvfs(disk.describe(""))
        volume = disk.volume()
        assert volume.total_bytes == status.f_blocks * status.f_frsize
        assert 0 < volume.usable_bytes < volume.total_bytes


def test_what_does_not_exist(disk):
    for action in (disk.open, disk.size_of, disk.remove, disk.names, disk.remove_folder, disk.sync_folder):
        with pytest.raises(FileNotFoundError):
            action("none")
    for action in (lambda: disk.rename("none", "other"), lambda: disk.open("none/a", create=True)):
        with pytest.raises(FileNotFoundError):
            action()
    assert read_file(disk, "none") is None
    remove_tree(disk, "none")


def test_folders(disk):
    disk.make_folder("f")
    disk.make_folder("f")
    for name in ("b", "a"):
        disk.open(f"f/{name}", create=True).append(name.encode())
    disk.sync_folder("f")
    disk.sync_folder("")
    assert (disk.names(""), disk.names("f")) == (["f"], ["a", "b"])
    with pytest.raises(FileExistsError):
        disk.make_folder("f/a")
    with pytest.raises(NotADirectoryError):
        disk.names("f/a")
    for action in (disk.open, disk.remove):
        with pytest.raises(OSError, match="f"):
            action("f")
    with pytest.raises(OSError, match="not empty") as caught:
        disk.remove_folder("f")
    assert caught.value.errno == errno.ENOTEMPTY
    disk.rename("f", "g")
    assert read_file(disk, "g/b") == b"b"
    disk.remove("g/b")
    remove_tree(disk, "g")
    assert disk.names("") == []


def test_rename_replaces_a_file_but_no_full_folder(disk):
    disk.open("old", create=True).append(b"old")
    disk.open("new", create=True).append(b"new")
    disk.rename("old", "new")
    assert (disk.names(""), read_file(disk, "new")) == (["new"], b"old")
    for name in ("f", "g"):
        disk.make_folder(name)
        disk.open(f"{name}/x", create=True)
    with pytest.raises(OSError, match="not empty") as caught:
        disk.rename("f", "g")
    assert caught.value.errno == errno.ENOTEMPTY


#: Calls that fail, given a file `a`, an empty folder `e`, and a folder `f` with a file `x`; each comes with its error
#: and the path in the error.
REFUSED = [
    (lambda disk: disk.open("none"), errno.ENOENT, "none"),
    (lambda disk: disk.open("none/a", create=True), errno.ENOENT, "none/a"),
    (lambda disk: disk.open("a/b", create=True), errno.ENOTDIR, "a/b"),
    (lambda disk: disk.open("f"), errno.EISDIR, "f"),
    (lambda disk: disk.open("f", create=True), errno.EISDIR, "f"),
    (lambda disk: disk.size_of("none"), errno.ENOENT, "none"),
    (lambda disk: disk.size_of("a/b"), errno.ENOTDIR, "a/b"),
    (lambda disk: disk.names("none"), errno.ENOENT, "none"),
    (lambda disk: disk.names("a"), errno.ENOTDIR, "a"),
    (lambda disk: disk.make_folder("none/g"), errno.ENOENT, "none/g"),
    (lambda disk: disk.make_folder("a/g"), errno.ENOTDIR, "a/g"),
    (lambda disk: disk.make_folder("a"), errno.EEXIST, "a"),
    (lambda disk: disk.rename("none", "b"), errno.ENOENT, "none"),
    (lambda disk: disk.rename("a", "none/b"), errno.ENOENT, "a"),
    (lambda disk: disk.rename("a", "e"), errno.EISDIR, "a"),
    (lambda disk: disk.rename("a", "f"), errno.EISDIR, "a"),
    (lambda disk: disk.rename("f", "a"), errno.ENOTDIR, "f"),
    (lambda disk: disk.rename("e", "f"), errno.ENOTEMPTY, "e"),
    (lambda disk: disk.rename("f", "f/g"), errno.EINVAL, "f"),
    (lambda disk: disk.remove("none"), errno.ENOENT, "none"),
    (lambda disk: disk.remove("f"), errno.EISDIR, "f"),
    (lambda disk: disk.remove("e"), errno.EISDIR, "e"),
    (lambda disk: disk.remove_folder("none"), errno.ENOENT, "none"),
    (lambda disk: disk.remove_folder("a"), errno.ENOTDIR, "a"),
    (lambda disk: disk.remove_folder("f"), errno.ENOTEMPTY, "f"),
    (lambda disk: disk.sync_folder("none"), errno.ENOENT, "none"),
    (lambda disk: disk.sync_folder("a"), errno.ENOTDIR, "a"),
    (lambda disk: disk.lock("none/lock"), errno.ENOENT, "none/lock"),
    (lambda disk: disk.lock("f"), errno.EISDIR, "f"),
    (lambda disk: disk.open("a").truncate(-1), errno.EINVAL, "a"),
    (lambda disk: disk.open("a").read(-1, 2), errno.EINVAL, "a"),
]


@pytest.mark.parametrize("number", range(len(REFUSED)))
def test_what_is_refused_says_why_and_changes_nothing(disk, number):
    action, code, path = REFUSED[number]
    disk.open("a", create=True).append(b"abc")
    disk.make_folder("e")
    disk.make_folder("f")
    disk.open("f/x", create=True)
    with pytest.raises(OSError, match=re.escape(os.strerror(code))) as caught:
        action(disk)
    error = caught.value
    assert (error.errno, type(error)) == (code, type(OSError(code, "")))
    assert error.filename in (path, disk.describe(path))
    assert (disk.names(""), disk.names("e"), disk.names("f")) == (["a", "e", "f"], [], ["x"])
    assert read_file(disk, "a") == b"abc"


def test_rename_to_what_may_be_replaced(disk):
    for name in ("f", "g"):
        disk.make_folder(name)
    disk.open("f/x", create=True).append(b"x")
    disk.rename("f", "g")
    disk.rename("g", "g")
    disk.rename("g/x", "g/x")
    disk.rename("g/x", "y")
    assert (disk.names(""), disk.names("g"), read_file(disk, "y")) == (["g", "y"], [], b"x")


def test_names_are_sorted_by_code_point(disk):
    names = ["b", "B", "10", "9", "é", "_", "b.log", "b-0"]
    for name in names:
        disk.open(name, create=True)
    assert disk.names("") == sorted(names)


def test_open_file_outlives_its_name(disk):
    disk.open("a", create=True).append(b"abc")
    file = disk.open("a")
    piece = FileSlice(file, 1, 2)
    disk.remove("a")
    assert (len(piece), piece.read()) == (2, b"bc")
    disk.open("a", create=True).append(b"another")
    file.append(b"d")
    file.sync()
    file.truncate(2)
    assert (file.size_bytes, file.read(0, 9), read_file(disk, "a")) == (2, b"ab", b"another")


def test_open_file_stays_what_it_was_when_another_takes_its_name(disk):
    file = disk.open("a", create=True)
    file.append(b"first")
    disk.open("b", create=True).append(b"second")
    disk.rename("b", "a")
    file.append(b"!")
    assert (file.read(0, 9), read_file(disk, "a")) == (b"first!", b"second")


def test_truncation_beyond_the_end_fills_with_zeros(disk):
    file = disk.open("a", create=True)
    file.append(b"ab")
    file.truncate(4)
    file.append(b"c")
    file.sync()
    assert (file.size_bytes, disk.size_of("a"), read_file(disk, "a")) == (5, 5, b"ab\0\0c")


def test_open_file_knows_the_length_that_it_was_told(disk):
    """Bytes appended through another handle in the meantime are not read; bytes cut off through one are gone."""
    first, second = disk.open("a", create=True), disk.open("a")
    first.append(b"abc")
    assert (second.size_bytes, second.read(0, 9), disk.size_of("a")) == (0, b"", 3)
    second.append(b"d")
    assert (second.size_bytes, disk.size_of("a")) == (1, 4)
    third = disk.open("a")
    first.truncate(1)
    assert (third.size_bytes, third.read(0, 9), third.read(2, 1)) == (4, b"a", b"")


def test_slice_of_a_file_that_has_become_shorter(disk):
    file = disk.open("a", create=True)
    file.append(b"abc")
    piece = FileSlice(file, 0, 3)
    file.truncate(2)
    with pytest.raises(OSError, match="the file has 2 bytes from position 0 on, but had 3 before"):
        piece.read()


def test_lock(disk):
    lock = disk.lock(".lock")
    with pytest.raises(BlockingIOError):
        disk.lock(".lock")
    lock.release()
    lock.release()
    disk.lock(".lock").release()
    assert disk.names("") == [".lock"]


def test_written_file_takes_the_place_of_what_was_there(disk):
    for content in (b"longer", b"short", b""):
        write_file(disk, "a", content)
        assert read_file(disk, "a") == content


def test_replaced_file_is_never_half(disk):
    replace_file(disk, "a", b"first")
    disk.open("a.tmp", create=True).append(b"what a crash has left")
    replace_file(disk, "a", b"second")
    assert (read_file(disk, "a"), disk.names("")) == (b"second", ["a"])


def test_replaced_file_is_old_or_new_after_a_power_cut_at_every_call():
    seen = set()
    for number in range(1, 8):
        for seed in range(30):
            disk = MemoryDisk()
            replace_file(disk, "a", b"old" * 1000)
            disk.plan = cut_power_at(disk.calls + number)
            try:
                replace_file(disk, "a", b"new" * 2000)
                expected = {b"new" * 2000}
            except PowerCut:
                expected = {b"old" * 1000, b"new" * 2000}
            left = read_file(disk.crash(seed), "a")
            assert left in expected, (number, seed)
            seen.add(left)
    assert len(seen) == 2


def test_replaced_file_is_old_or_new_after_a_failure_of_each_call():
    for number in range(1, 7):
        disk = MemoryDisk()
        replace_file(disk, "a", b"old")
        disk.plan = fail_at(disk.calls + number)
        with pytest.raises(OSError, match="planned"):
            replace_file(disk, "a", b"new")
        assert read_file(disk, "a") in (b"old", b"new")


def test_read_file_reads_no_more_than_it_is_asked_for(disk):
    replace_file(disk, "a", b"0123")
    assert (read_file(disk, "a", 2), read_file(disk, "none", 2)) == (b"01", None)
    assert (has_file(disk, "a"), has_file(disk, "none")) == (True, False)


def test_calls_take_what_the_contract_says(disk):
    def taken_by(call):
        return [(each.name, each.kind, each.default) for each in inspect.signature(call).parameters.values()]

    calls = [name for name in vars(Disk) if not name.startswith("_")]
    assert "open" in calls
    for name in calls:
        assert taken_by(getattr(type(disk), name)) == taken_by(getattr(Disk, name)), name
