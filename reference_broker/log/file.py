"""A file that is appended to and read in slices, and a slice of it that can be sent without reading it.

The descriptor is closed when nobody holds the file any more: a slice that is being sent keeps its segment readable,
also when the segment is deleted meanwhile.
"""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["FileSlice", "LogFile", "replace_file"]


class LogFile:
    """A file opened for appending and for reading anywhere.

    Args:
        path: made if it does not exist.

    Attributes:
        size_bytes: its length.
    """

    __slots__ = ("_descriptor", "size_bytes")

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        self.size_bytes = os.fstat(self._descriptor).st_size

    def __del__(self) -> None:
        if hasattr(self, "_descriptor"):
            os.close(self._descriptor)

    def fileno(self) -> int:
        """Return the descriptor, for `sendfile`."""
        return self._descriptor

    def append(self, data: bytes | bytearray | memoryview) -> None:
        """Write at the end, all or nothing.

        Raises:
            OSError: the disk is full or broken; the file is as it was before.
        """
        written = 0
        try:
            with memoryview(data) as view:
                while written < len(view):
                    written += os.write(self._descriptor, view[written:] if written else view)
        except OSError:
            os.ftruncate(self._descriptor, self.size_bytes)
            raise
        self.size_bytes += written

    def read(self, position: int, size_bytes: int) -> bytes:
        """Return up to `size_bytes` from `position`; less only at the end of the file."""
        return os.pread(self._descriptor, size_bytes, position)

    def truncate(self, size_bytes: int) -> None:
        """Cut the file down to `size_bytes`."""
        os.ftruncate(self._descriptor, size_bytes)
        self.size_bytes = size_bytes

    def sync(self) -> None:
        """Wait until the content is on the disk."""
        os.fsync(self._descriptor)


class FileSlice:
    """A region of a file: what a fetch gives out instead of the bytes.

    Args:
        file: where it lies.
        position: its first byte.
        size_bytes: its length.
    """

    __slots__ = ("file", "position", "size_bytes")

    def __init__(self, file: LogFile, position: int, size_bytes: int) -> None:
        self.file = file
        self.position = position
        self.size_bytes = size_bytes

    def __len__(self) -> int:
        return self.size_bytes

    def read(self) -> bytes:
        """Return the bytes, for whoever cannot send from the file."""
        return self.file.read(self.position, self.size_bytes)


def replace_file(path: Path, content: str) -> None:
    """Write a whole small file so that a crash leaves the old or the new one, never half of it."""
    temporary = path.with_name(path.name + ".tmp")
    with open(temporary, "w", encoding="utf-8") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
