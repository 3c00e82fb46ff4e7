"""What the broker asks of a disk; everything under a data directory goes through it.

`MachineDisk` is the real one; `MemoryDisk` keeps everything in the process and can lose power, run full and fail.
Two things last through a power cut: content, once its file was synced, and names (a file created, renamed or removed),
once their folder was synced. Paths are relative to the data directory, with forward slashes; "" is the directory
itself. A call raises OSError if it fails, which names the file.
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
    "read_file",
    "remove_tree",
    "replace_file",
    "write_file",
]

#: Of a file that is renamed when it is durable.
TEMPORARY_SUFFIX = ".tmp"

#: What `FileSlice` reads of a file at once; any file of the broker is smaller.
_WHOLE_BYTES = 2**31 - 1


class File(Protocol):
    """An open file: appended to, and read at any position.

    It is closed with the last reference: a slice that is being sent keeps its file readable, even if the file was
    removed meanwhile.
    """

    @property
    def size_bytes(self) -> int:
        """The length when it was opened, and what was done through this object since."""
        ...

    def fileno(self) -> int | None:
        """Return the descriptor, for `sendfile`; None if the operating system does not know the file."""
        ...

    def append(self, data: Buffer) -> None:
        """Append; if that fails, a part may be in the file, and `size_bytes` counts it."""
        ...

    def read(self, position: int, size_bytes: int) -> bytes:
        """Return `size_bytes` bytes from `position`; fewer only at the end of the file."""
        ...

    def truncate(self, size_bytes: int) -> None:
        """Cut the file off after `size_bytes` bytes; a shorter one is filled with zeros."""
        ...

    def sync(self) -> None:
        """Wait until the content is durable. After a failure, earlier writes may be lost whatever later calls say."""
        ...


class Volume(NamedTuple):
    """The size of the volume that a disk is on.

    Attributes:
        total_bytes: its size.
        usable_bytes: what this process may still write.
    """

    total_bytes: int
    usable_bytes: int


class Lock(Protocol):
    """A lock on a path; it ends with the process at the latest."""

    def release(self) -> None:
        """Release the lock; may be called more than once."""
        ...


class Disk(Protocol):
    """A tree of files and folders. Calls may come from several threads."""

    def describe(self, path: str) -> str:
        """Return how a log line names a path."""
        ...

    def open(self, path: str, *, create: bool = False, stays: bool = False) -> File:
        """Open a file.

        Args:
            path: the file.
            create: whether to create it, empty, if it does not exist.
            stays: whether it may be open for ever; the last descriptors are not for such files.

        Raises:
            FileNotFoundError: it does not exist, or its folder does not.
        """
        ...

    def size_of(self, path: str) -> int:
        """Return the length of a file."""
        ...

    def volume(self) -> Volume | None:
        """Return the size of the volume, and how much of it is left; None if it has no limit."""
        ...

    def names(self, path: str) -> list[str]:
        """Return the names in a folder, sorted."""
        ...

    def make_folder(self, path: str) -> None:
        """Create a folder; its parent must exist, the folder may."""
        ...

    def rename(self, old: str, new: str) -> None:
        """Rename a file or a folder, in one step; a file of the new name, or an empty folder, is replaced."""
        ...

    def remove(self, path: str) -> None:
        """Remove a file; open ones stay readable."""
        ...

    def remove_folder(self, path: str) -> None:
        """Remove an empty folder."""
        ...

    def sync_folder(self, path: str) -> None:
        """Wait until the names in a folder are durable."""
        ...

    def lock(self, path: str) -> Lock:
        """Lock a path, creating a file there.

        Raises:
            BlockingIOError: somebody else has locked it, in this process or another.
        """
        ...


class FileSlice:
    """A region of a file, which a fetch returns instead of the bytes.

    Args:
        file: the file.
        position: its first byte.
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
        """Return the bytes, for a wire that cannot send files.

        Raises:
            OSError: the file is shorter than it was; the response that announced the bytes cannot be sent.
        """
        data = self.file.read(self.position, self.size_bytes)
        if len(data) < self.size_bytes:
            reason = f"{len(data)} bytes at {self.position} of a file, {self.size_bytes} were there before"
            raise OSError(errno.EIO, reason)
        return data


def is_short_of_descriptors(error: Exception) -> bool:
    """Return whether a call failed only because this process, or the machine, has too many files open.

    That says nothing about the disk: nothing was done, and the same call succeeds once others are closed.
    """
    return isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE)


def has_file(disk: Disk, path: str) -> bool:
    """Return whether there is a file."""
    return read_file(disk, path, 0) is not None


def read_file(disk: Disk, path: str, max_bytes: int = _WHOLE_BYTES) -> bytes | None:
    """Return the content of a small file, None if it does not exist; at most `max_bytes` from its beginning."""
    try:
        file = disk.open(path)
    except FileNotFoundError:
        return None
    return file.read(0, max_bytes)


def write_file(disk: Disk, path: str, content: bytes) -> None:
    """Write a small file that can be rebuilt: a crash may leave any part of it."""
    file = disk.open(path, create=True)
    # What was there before, or what a crash has left.
    if file.size_bytes:
        file.truncate(0)
    file.append(content)


def replace_file(disk: Disk, path: str, content: bytes) -> None:
    """Replace a small file: a crash leaves the old or the new content, after this call the new one."""
    temporary = path + TEMPORARY_SUFFIX
    file = disk.open(temporary, create=True)
    # What a crash may have left.
    file.truncate(0)
    file.append(content)
    file.sync()
    disk.rename(temporary, path)
    disk.sync_folder(path.rpartition("/")[0])


def remove_tree(disk: Disk, path: str) -> None:
    """Remove a folder and what is in it, also folders, which somebody else has put there; nothing if it is missing."""
    try:
        names = disk.names(path)
    except FileNotFoundError:
        return
    for name in names:
        try:
            disk.remove(f"{path}/{name}")
        except (IsADirectoryError, PermissionError):  # as Linux, and as macOS, refuses a folder
            remove_tree(disk, f"{path}/{name}")
    disk.remove_folder(path)
