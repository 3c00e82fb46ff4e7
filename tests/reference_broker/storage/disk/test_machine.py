"""The machine's disk: a descriptor is closed with its last reference, and a lock excludes other processes."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from kafkawire.reference_broker.storage.disk.disk import is_short_of_descriptors
from kafkawire.reference_broker.storage.disk.machine import MachineDisk

_LOCK = """
import sys
from kafkawire.reference_broker.storage.disk.machine import MachineDisk
lock = MachineDisk(sys.argv[1]).lock("lock")
print("locked", flush=True)
sys.stdin.read()
"""


def test_directory_is_created_with_its_parents(tmp_path):
    disk = MachineDisk(tmp_path / "a" / "b")
    disk.open("c", create=True)
    assert (tmp_path / "a" / "b" / "c").exists()
    assert disk.describe("c") == str(tmp_path / "a" / "b" / "c")
    assert disk.describe("") == str(tmp_path / "a" / "b")


def test_descriptor_is_closed_with_the_last_reference(tmp_path):
    file = MachineDisk(tmp_path).open("a", create=True)
    descriptor = file.fileno()
    os.fstat(descriptor)
    del file
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(descriptor)


def test_write_that_the_kernel_cuts_short_goes_on(tmp_path, monkeypatch):
    file = MachineDisk(tmp_path).open("a", create=True)
    write = os.write
    monkeypatch.setattr(os, "write", lambda descriptor, data: write(descriptor, data[:3]))
    file.append(b"0123456789")
    assert (file.size_bytes, file.read(0, 20)) == (10, b"0123456789")


def test_part_of_a_failed_write_is_counted(tmp_path, monkeypatch):
    file = MachineDisk(tmp_path).open("a", create=True)
    write = os.write
    results = iter([3])

    def full(descriptor, data):
        for size in results:
            return write(descriptor, data[:size])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(OSError, match="No space"):
        file.append(b"0123456789")
    assert file.size_bytes == os.stat(tmp_path / "a").st_size == 3


def test_read_that_the_kernel_cuts_short_goes_on(tmp_path, monkeypatch):
    file = MachineDisk(tmp_path).open("a", create=True)
    file.append(b"0123456789")
    pread = os.pread
    monkeypatch.setattr(os, "pread", lambda descriptor, size, at: pread(descriptor, min(size, 3), at))
    assert file.read(1, 8) == b"12345678"
    os.truncate(tmp_path / "a", 5)
    assert file.read(1, 8) == b"1234"


def test_lock_holds_between_processes_and_ends_with_them(tmp_path):
    with subprocess.Popen(
        [sys.executable, "-c", _LOCK, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"locked\n"
        with pytest.raises(BlockingIOError):
            MachineDisk(tmp_path).lock("lock")
        other.kill()
        other.wait()
    MachineDisk(tmp_path).lock("lock").release()


def test_lock_that_is_refused_leaves_no_descriptor_open(tmp_path, monkeypatch):
    disk, opened, machine_open = MachineDisk(tmp_path), [], os.open
    lock = disk.lock("lock")

    def noting(*arguments):
        opened.append(machine_open(*arguments))
        return opened[-1]

    monkeypatch.setattr(os, "open", noting)
    with pytest.raises(BlockingIOError):
        disk.lock("lock")
    assert len(opened) == 1
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(opened[0])
    lock.release()
    lock.release()
    disk.lock("lock")


def test_root_that_is_no_folder_is_refused_in_words(tmp_path):
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    for name, reason in (("file", "not a folder"), ("link", "a broken link")):
        with pytest.raises(NotADirectoryError, match=rf"{reason}: '.*{name}'"):
            MachineDisk(tmp_path / name)
    assert not (tmp_path / "nowhere").exists()


def open_descriptors(path):
    """Return how many descriptors this process has open for a file."""
    open_files = [Path(f"/proc/self/fd/{number}") for number in os.listdir("/proc/self/fd")]
    return sum(each.is_symlink() and str(each.readlink()) == str(path) for each in open_files)


def test_what_is_no_regular_file_is_refused(tmp_path):
    disk = MachineDisk(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "zero").symlink_to("/dev/zero")
    for name in ("pipe", "zero"):
        with pytest.raises(OSError, match="not a regular file") as caught:
            disk.open(name)
        assert caught.value.filename == str(tmp_path / name)


def test_the_last_descriptors_are_not_for_files_that_stay_open(tmp_path, monkeypatch):
    """All descriptors are treated as the last ones, so the process's other open files make no difference."""
    disk = MachineDisk(tmp_path)
    disk.open("a", create=True)
    with monkeypatch.context() as context:
        context.setattr(f"{MachineDisk.__module__}.kept_from_logs", lambda limit: limit)
        with pytest.raises(OSError, match=r"the last (\d+) of \1 file descriptors") as refused:
            disk.open("a", stays=True)
        assert is_short_of_descriptors(refused.value)
        assert open_descriptors(tmp_path / "a") == 0
        file = disk.open("a")
        assert open_descriptors(tmp_path / "a") == 1, "a file that is open only for a moment is not refused"
        assert file.size_bytes == 0
    assert disk.open("a", stays=True).size_bytes == 0
