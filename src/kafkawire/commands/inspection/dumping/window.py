"""A part of a file that is kept in memory, and moves forward with the reader."""

from __future__ import annotations

import errno
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from io import FileIO
from pathlib import Path

from kafkawire.commands.inspection.dumping.limits import WINDOW_BYTES

__all__ = ["Window", "checked_regular", "open_file"]


def open_file(path: Path) -> FileIO:
    """Open a file for a window.

    Raises:
        OSError: the file cannot be opened, or is not a regular file; a pipe would wait for a writer, and a device may
            never end.
    """
    return checked_regular(path).open("rb", buffering=0)


def checked_regular(path: Path) -> Path:
    """Return the path of a regular file.

    Raises:
        OSError: the path is not a regular file.
    """
    if not stat.S_ISREG(path.stat().st_mode):
        raise OSError(errno.EINVAL, "Not a regular file", str(path))
    return path


class Window:
    """Reads a file in large pieces, and keeps one in memory.

    The next call of `at` overwrites the bytes that the previous call returned.

    Args:
        file: the file, opened unbuffered for reading.
        end: where to stop. A growing file is read up to its initial size, unless `has_grown` is called.

    Attributes:
        end: see above, or the end of the file; it is lowered if the file turns out to be shorter.
        is_limited: whether the file continues after `end`.
        is_cut: whether the file became shorter while it was being read, so fewer bytes were returned than `end`
            promised.
    """

    def __init__(self, file: FileIO, end: int | None = None) -> None:
        self._file = file
        size = self._size()
        self.end = size if end is None else min(size, end)
        self.is_limited = self.end < size
        self.is_cut = False
        self._memory = memoryview(bytearray(WINDOW_BYTES))
        self._start = self._filled = 0

    def at(self, position: int, size: int) -> memoryview:
        """Return bytes from the file: as many as requested, or fewer at its end.

        Raises:
            OSError: the file cannot be read.
        """
        size = max(min(size, self.end - position), 0)
        first = position - self._start
        if first < 0 or first + size > self._filled:
            self._fill(position, size)
            first = 0
        return self._memory[first : min(first + size, self._filled)]

    def is_zero_from(self, position: int) -> bool:
        """Return whether only zeros follow, which are preallocated space or the result of a crash.

        Raises:
            OSError: the file cannot be read.
        """
        while position < self.end:
            piece = bytes(self.at(position, WINDOW_BYTES))
            if piece.count(0) != len(piece):
                return False
            position += max(len(piece), 1)
        return True

    def has_grown(self) -> bool:
        """Move the end of a file without a limit to its current size; return whether it grew."""
        size = self._size()
        if self.is_limited or size <= self.end:
            return False
        self.end = size
        return True

    def _fill(self, position: int, size: int) -> None:
        """Read from a position; use more memory than usual only as long as necessary."""
        wanted = max(size, WINDOW_BYTES)
        if len(self._memory) != wanted:
            self._memory = memoryview(b"")  # free this memory before allocating more
            self._memory = memoryview(bytearray(wanted))
        self._start, self._filled = position, 0
        room = min(wanted, self.end - position)
        while self._filled < room:
            count = self._read(position + self._filled, self._memory[self._filled : room])
            if not count:
                self.end = min(position + self._filled, self._size())  # the file was truncated in the meantime
                self.is_cut = True
                return
            self._filled += count

    def _read(self, position: int, memory: memoryview) -> int:
        with _naming(self._file):
            self._file.seek(position)
            return self._file.readinto(memory) or 0

    def _size(self) -> int:
        with _naming(self._file):
            return self._file.seek(0, 2)


@contextmanager
def _naming(file: FileIO) -> Iterator[None]:
    """Add the file's name to errors, since an index and a segment are read together."""
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(file.name)) from None
