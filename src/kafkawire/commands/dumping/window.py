"""A part of a file in memory, moved forward as somebody reads."""

from __future__ import annotations

import errno
import stat
from io import FileIO
from pathlib import Path

from kafkawire.commands.dumping.limits import WINDOW_BYTES

__all__ = ["Window", "open_file"]


def open_file(path: Path) -> FileIO:
    """Open a file for a window.

    Raises:
        OSError: it cannot be opened, or is no regular file: pipes wait for somebody who writes, and devices never end.
    """
    if not stat.S_ISREG(path.stat().st_mode):
        raise OSError(errno.EINVAL, "Not a regular file", str(path))
    return path.open("rb", buffering=0)


class Window:
    """Reads a file in large pieces, of which one is in memory.

    What `at` returned shows other bytes after the next call.

    Args:
        file: opened for reading, without a buffer of its own.
        end: where to stop, at most; a file that grows is read up to its size at the beginning, unless `has_grown` is
            asked.

    Attributes:
        end: see above, or the end of the file; less if the file turns out to be shorter.
        is_limited: whether more of the file is behind it.
        is_cut: whether the file got shorter meanwhile, so that less was returned than `end` had promised.
    """

    def __init__(self, file: FileIO, end: int | None = None) -> None:
        size = file.seek(0, 2)
        self.end = size if end is None else min(size, end)
        self.is_limited = self.end < size
        self.is_cut = False
        self._file = file
        self._memory = memoryview(bytearray(WINDOW_BYTES))
        self._start = self._filled = 0

    def at(self, position: int, size: int) -> memoryview:
        """Return bytes of the file: as many as asked for, or fewer where it ends.

        Raises:
            OSError: the file cannot be read.
        """
        size = max(min(size, self.end - position), 0)
        first = position - self._start
        if first < 0 or first + size > self._filled:
            self._fill(position, size)
            first = 0
        return self._memory[first : min(first + size, self._filled)]

    def has_grown(self) -> bool:
        """Take in what was appended to a file without a limit; return whether that is anything."""
        size = self._file.seek(0, 2)
        if self.is_limited or size <= self.end:
            return False
        self.end = size
        return True

    def _fill(self, position: int, size: int) -> None:
        """Read from a position on, into more memory than usual only while that is needed."""
        wanted = max(size, WINDOW_BYTES)
        if len(self._memory) != wanted:
            self._memory = memoryview(b"")  # free before more is taken
            self._memory = memoryview(bytearray(wanted))
        self._file.seek(position)
        self._start, self._filled = position, 0
        room = min(wanted, self.end - position)
        while self._filled < room:
            count = self._file.readinto(self._memory[self._filled : room])
            if not count:
                self.end = min(position + self._filled, self._file.seek(0, 2))  # somebody cut the file meanwhile
                self.is_cut = True
                return
            self._filled += count
