"""A file that is appended to and read at any position, and a slice of it that can be sent without being read.

The descriptor is closed with the last reference: a slice that is being sent keeps its segment readable, even if the
segment is deleted meanwhile.
"""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["FileSlice", "LogFile", "replace_file"]


class LogFile:
    """A file for appending, and for reading at any position.

    Args:
        path: created if it does not exist.

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
        """Append, all or nothing.

        Raises:
            OSError: the disk is full or broken; the file is unchanged.
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
        """Return `size_bytes` bytes from `position`; fewer only at the end of the file."""
        return os.pread(self._descriptor, size_bytes, position)

    def truncate(self, size_bytes: int) -> None:
        """Truncate the file to `size_bytes`."""
        os.ftruncate(self._descriptor, size_bytes)
        self.size_bytes = size_bytes

    def sync(self) -> None:
        """Wait until the content is on the disk."""
        os.fsync(self._descriptor)


class FileSlice:
    """A region of a file, which a fetch returns instead of the bytes.

    Args:
        file: the file.
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
        """Return the bytes, for a wire that cannot send files."""
        return self.file.read(self.position, self.size_bytes)


def replace_file(path: Path, content: str) -> None:
    """Replace a small file atomically: a crash leaves the old or the new content."""
    temporary = path.with_name(path.name + ".tmp")
    with open(temporary, "w", encoding="utf-8") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
