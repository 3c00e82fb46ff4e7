"""The broker's interface to a disk. All access to a data directory goes through it.

`MachineDisk` is the real one; `MemoryDisk` keeps everything in the process and can lose power, fill up and fail.
Content survives a power cut once its file has been synced, and a name change (a file created, renamed or removed) once
its folder has been synced. Paths are relative to the data directory, with forward slashes; "" is the directory itself.
A call that fails raises an OSError that names the file.
"""

from __future__ import annotations

import errno
from typing import NamedTuple, Protocol

from kafkawire.sdk.protocol.schema import Buffer

__all__ = [
    "TEMPORARY_SUFFIX",
    "Disk",
    "File",
    "FileSlice",
    "Lock",
    "Volume",
    "has_file",
    "is_short_of_descriptors",
    "is_short_of_room",
    "read_file",
    "remove_tree",
    "replace_file",
    "write_file",
]

#: Suffix of a file that will be renamed once it is durable.
TEMPORARY_SUFFIX = ".tmp"

#: Maximum number of bytes that `FileSlice` reads at once; files that the broker reads as a whole are smaller.
_WHOLE_BYTES = 2**31 - 1


class File(Protocol):
    """An open file, which can be appended to, and read at any position.

    It is closed when the last reference is dropped: a slice being sent keeps its file readable, even after the file has
    been removed.
    """

    @property
    def size_bytes(self) -> int:
        """The size when the file was opened, plus changes made through this object."""
        ...

    def fileno(self) -> int | None:
        """Return the descriptor, for `sendfile`; None if the operating system has no such file."""
        ...

    def append(self, data: Buffer) -> None:
        """Append data. An append that fails may have written a part of it, which `size_bytes` includes."""
        ...

    def read(self, position: int, size_bytes: int) -> bytes:
        """Return `size_bytes` bytes from `position`; fewer only at the end of the file."""
        ...

    def truncate(self, size_bytes: int) -> None:
        """Truncate the file to `size_bytes` bytes; a shorter one is extended with zeros."""
        ...

    def sync(self) -> None:
        """Wait until the content is durable. A failure may lose earlier writes, even if later calls succeed."""
        ...


class Volume(NamedTuple):
    """The size of the volume that contains a disk.

    Attributes:
        total_bytes: its size.
        usable_bytes: the number of bytes that this process can still write.
    """

    total_bytes: int
    usable_bytes: int


class Lock(Protocol):
    """A lock on a path, released at the latest when the process ends."""

    def release(self) -> None:
        """Release the lock; may be called more than once."""
        ...


class Disk(Protocol):
    """A tree of files and folders. Its methods may be called from several threads."""

    def describe(self, path: str) -> str:
        """Return the description of a path for log lines."""
        ...

    def open(self, path: str, *, create: bool = False, stays: bool = False, is_private: bool = False) -> File:
        """Open a file.

        Args:
            path: the file.
            create: whether to create an empty file if it does not exist.
            stays: whether the file may stay open indefinitely; the last few descriptors are not available to such
                files.
            is_private: whether a new file may be read only by the user who runs the broker.

        Raises:
            FileNotFoundError: the file or its folder does not exist.
        """
        ...

    def size_of(self, path: str) -> int:
        """Return the length of a file."""
        ...

    def volume(self) -> Volume | None:
        """Return the size of the volume and its free space; None if it has no limit."""
        ...

    def names(self, path: str) -> list[str]:
        """Return the names in a folder, sorted."""
        ...

    def make_folder(self, path: str) -> None:
        """Create a folder unless it exists; its parent must exist."""
        ...

    def rename(self, old: str, new: str) -> None:
        """Rename a file or a folder atomically; an existing file or empty folder with the new name is replaced."""
        ...

    def remove(self, path: str) -> None:
        """Remove a file, which stays readable while it is open."""
        ...

    def remove_folder(self, path: str) -> None:
        """Remove an empty folder."""
        ...

    def sync_folder(self, path: str) -> None:
        """Wait until the names in a folder are durable."""
        ...

    def lock(self, path: str) -> Lock:
        """Lock a path, and create a file there.

        Raises:
            BlockingIOError: the path is already locked, by this process or another.
        """
        ...


class FileSlice:
    """A region of a file, which a fetch returns in place of the bytes.

    Args:
        file: the file.
        position: position of its first byte.
        size_bytes: its length.
    """

    __slots__ = ("file", "position", "size_bytes")

    def __init__(self, file: File, position: int, size_bytes: int) -> None:
        self.file = file
        self.position = position
        self.size_bytes = size_bytes

    def __len__(self) -> int:
        return self.size_bytes

    def read(self) -> bytes:
        """Return the bytes, for a connection that cannot send files.

        Raises:
            OSError: the file has become shorter, so the response whose length includes the bytes cannot be completed.
        """
        data = self.file.read(self.position, self.size_bytes)
        if len(data) < self.size_bytes:
            reason = (
                f"the file has {len(data)} bytes from position {self.position} on, but had {self.size_bytes} before"
            )
            raise OSError(errno.EIO, reason)
        return data


def is_short_of_descriptors(error: Exception) -> bool:
    """Return whether a call failed only because this process or the machine has too many open files.

    This is not a disk failure: the call had no effect, and will succeed once other files are closed.
    """
    return isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE)


def is_short_of_room(error: Exception) -> bool:
    """Return whether a call failed because the disk is full or the user's disk quota is used up.

    The call will succeed once there is room; a failed append may have written a part of its data, and a failed sync may
    have lost earlier writes.
    """
    return isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)


def has_file(disk: Disk, path: str) -> bool:
    """Return whether a file exists."""
    return read_file(disk, path, 0) is not None


def read_file(disk: Disk, path: str, max_bytes: int = _WHOLE_BYTES) -> bytes | None:
    """Return the content of a small file, up to its first `max_bytes` bytes; None if it does not exist."""
    try:
        file = disk.open(path)
    except FileNotFoundError:
        return None
    return file.read(0, max_bytes)


def write_file(disk: Disk, path: str, content: bytes) -> None:
    """Write a small file that can be rebuilt; a crash may leave only part of it."""
    file = disk.open(path, create=True)
    # An old file, or one left by a crash.
    if file.size_bytes:
        file.truncate(0)
    file.append(content)


def replace_file(disk: Disk, path: str, content: bytes, *, is_private: bool = False) -> None:
    """Replace a small file durably; a crash during this call leaves either the old or the new content.

    Args:
        disk: holds the file.
        path: path of the file.
        content: the new content.
        is_private: see `Disk.open`.
    """
    temporary = path + TEMPORARY_SUFFIX
    file = disk.open(temporary, create=True, is_private=is_private)
    # A crash may have left this file.
    file.truncate(0)
    file.append(content)
    file.sync()
    disk.rename(temporary, path)
    disk.sync_folder(path.rpartition("/")[0])


def remove_tree(disk: Disk, path: str) -> None:
    """Remove a folder with its content, including unknown folders; a missing folder is ignored."""
    try:
        names = disk.names(path)
    except FileNotFoundError:
        return
    for name in names:
        try:
            disk.remove(f"{path}/{name}")
        except (IsADirectoryError, PermissionError):  # how Linux and macOS, respectively, reject a folder
            remove_tree(disk, f"{path}/{name}")
    disk.remove_folder(path)
