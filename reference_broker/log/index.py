"""The two sparse indexes beside a segment: offset to position, time to offset.

Entries are kept in memory for searching and appended to their files as they come. The files can always be made again
from the segment, so that a damaged one is dropped rather than repaired.

Source: Kafka's `OffsetIndex` (`.index`: int32 relative offset, int32 position) and `TimeIndex` (`.timeindex`: int64
time, int32 relative offset).
"""

from __future__ import annotations

import struct
from array import array
from bisect import bisect_left, bisect_right
from pathlib import Path

from kafkawire.reference_broker.log.file import LogFile

__all__ = ["OffsetIndex", "TimeIndex"]


class _Index:
    """Pairs of numbers in a file, both ascending.

    Args:
        path: of the file; it is made with the first entry.
        base_offset: of the segment, which the offsets in the file are relative to.
        max_bytes: of the file, Kafka's `segment.index.bytes`.
    """

    _ENTRY: struct.Struct

    def __init__(self, path: Path, base_offset: int, max_bytes: int) -> None:
        self._path = path
        self._base_offset = base_offset
        self._max_entries = max_bytes // self._ENTRY.size
        self._file: LogFile | None = None
        # Arrays, since a segment of 1 GiB has 262,144 entries.
        self._keys = array("q")
        self._values = array("i")

    def __len__(self) -> int:
        return len(self._keys)

    @property
    def is_full(self) -> bool:
        """Whether the segment has to be rolled because no further entry may be added."""
        return len(self._keys) >= self._max_entries

    def load(self) -> bool:
        """Read the file.

        Returns:
            False if it is missing or damaged; the index is then empty and has to be made again.
        """
        try:
            content = self._path.read_bytes()
        except FileNotFoundError:
            return False
        size = len(content) - len(content) % self._ENTRY.size
        entries = list(self._ENTRY.iter_unpack(content[:size]))
        # Kafka preallocates the file of an active segment; a broker that crashed leaves it full of zeros.
        while entries and not any(entries[-1]):
            entries.pop()
        self._keys = array("q", (key for key, _ in entries))
        self._values = array("i", (value for _, value in entries))
        ascending = all(a < b for a, b in zip(self._keys, self._keys[1:], strict=False)) and all(
            a <= b for a, b in zip(self._values, self._values[1:], strict=False)
        )
        if not ascending or len(entries) * self._ENTRY.size != len(content):
            self.clear()
            return False
        return True

    def clear(self) -> None:
        """Forget all entries and empty the file."""
        del self._keys[:], self._values[:]
        self._open().truncate(0)

    def sync(self) -> None:
        """Wait until the file is on the disk; makes an empty one if there is no entry, as Kafka does."""
        self._open().sync()

    def _add(self, key: int, value: int) -> None:
        self._open().append(self._ENTRY.pack(key, value))
        self._keys.append(key)
        self._values.append(value)

    def _open(self) -> LogFile:
        if self._file is None:
            self._file = LogFile(self._path)
        return self._file


class OffsetIndex(_Index):
    """Where batches lie: the last offset of a batch and the position at which it begins."""

    _ENTRY = struct.Struct(">ii")

    def append(self, last_offset: int, position: int) -> None:
        """Note where a batch begins.

        Args:
            last_offset: of the batch, higher than in all entries before.
            position: of its first byte in the segment.
        """
        self._add(last_offset - self._base_offset, position)

    def position_for(self, offset: int) -> int:
        """Return a position from which on `offset` is found, the highest that is known."""
        entry = bisect_right(self._keys, offset - self._base_offset) - 1
        return self._values[entry] if entry >= 0 else 0

    @property
    def last_position(self) -> int:
        """The position in the last entry, 0 without entries."""
        return self._values[-1] if self._values else 0


class TimeIndex(_Index):
    """When batches were: the highest timestamp up to some place, and the last offset of its batch."""

    _ENTRY = struct.Struct(">qi")

    def append(self, timestamp: int, last_offset: int) -> None:
        """Note the highest timestamp so far, if it is higher than the last one noted.

        Args:
            timestamp: in milliseconds.
            last_offset: of the batch that has it.
        """
        if not self._keys or timestamp > self._keys[-1]:
            self._add(timestamp, last_offset - self._base_offset)

    def offset_before(self, timestamp: int) -> int:
        """Return an offset before which no batch reaches `timestamp`, the highest that is known."""
        entry = bisect_left(self._keys, timestamp) - 1
        return self._base_offset + self._values[entry] if entry >= 0 else self._base_offset

    @property
    def last_entry(self) -> tuple[int, int] | None:
        """The highest timestamp noted and its offset; None without entries."""
        if not self._keys:
            return None
        return self._keys[-1], self._base_offset + self._values[-1]
