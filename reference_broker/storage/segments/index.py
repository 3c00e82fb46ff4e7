"""The two sparse indexes of a segment: from offset to position, and from timestamp to offset.

The active segment's entries are kept in memory. The files are written when the segment is complete, and read again for
searches. Both indexes can be rebuilt from the segment, so a damaged file is dropped rather than repaired. See
`sdk/storage/index_entries.py` for the file format.

Source: Kafka's `OffsetIndex` (`.index`) and `TimeIndex` (`.timeindex`).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right

from kafkawire.reference_broker.storage.disk.disk import TEMPORARY_SUFFIX, Disk, read_file
from kafkawire.sdk.protocol.tables.enums import NO_TIMESTAMP
from kafkawire.sdk.storage.damage import DamagedContent
from kafkawire.sdk.storage.index_entries import OFFSET_INDEX, TIME_INDEX, IndexFormat, index_content, parse_index

__all__ = ["OffsetIndex", "TimeIndex"]


class _Index:
    """Pairs of numbers, both ascending.

    Args:
        disk: holds the file.
        path: the file, which `store` writes.
        base_offset: the segment's base offset, to which the offsets in the file are relative.
        max_bytes: the maximum size of the file, Kafka's `segment.index.bytes`.
    """

    _FORMAT: IndexFormat

    def __init__(self, disk: Disk, path: str, base_offset: int, max_bytes: int) -> None:
        self._disk = disk
        self._path = path
        self._base_offset = base_offset
        self._max_entries = max_bytes // self._FORMAT.entry_bytes
        # Arrays rather than lists, since a segment of 1 GiB has 262,144 entries.
        self._keys, self._values, _ = self._FORMAT.no_entries()

    def __len__(self) -> int:
        return len(self._keys)

    @property
    def is_full(self) -> bool:
        """Whether the index has no room for another entry, in which case the log must be rolled."""
        return len(self._keys) >= self._max_entries

    @property
    def room(self) -> int:
        """The number of further entries that fit; negative if the index has more than `max_bytes` allows."""
        return self._max_entries - len(self._keys)

    def load(self) -> bool:
        """Read the file.

        Returns:
            False if the file is missing or damaged, in which case the index is empty and must be rebuilt.
        """
        content = read_file(self._disk, self._path)
        if content is None:
            return False
        try:
            keys, values, room_bytes = parse_index(content, self._FORMAT)
        except DamagedContent:
            self.clear()
            return False
        # Kafka preallocates the file of an active segment; a broker that crashes leaves zeros at its end.
        if room_bytes:
            self.clear()
            return False
        self._keys, self._values = keys, values
        return True

    def stored_bytes(self) -> int:
        """Return the size of the file, on any thread; 0 if the file is missing, as it will be rebuilt on demand.

        Raises:
            OSError: the disk failed.
        """
        try:
            return self._disk.size_of(self._path)
        except FileNotFoundError:
            return 0

    def clear(self) -> None:
        """Remove all entries."""
        del self._keys[:], self._values[:]

    def store(self) -> None:
        """Replace the file, on any thread; the caller syncs the folder.

        The file is not rewritten in place: the old file may already be trusted, and a power cut may leave a partial
        file that looks complete.
        """
        temporary = self._path + TEMPORARY_SUFFIX
        file = self._disk.open(temporary, create=True)
        had_content = file.size_bytes > 0
        if had_content:
            file.truncate(0)
        if self._keys or had_content:  # a file that has always been empty is durable once its name is
            file.append(index_content(self._keys, self._values, self._FORMAT))
            file.sync()
        self._disk.rename(temporary, self._path)

    def _add(self, key: int, value: int) -> None:
        self._keys.append(key)
        self._values.append(value)


class OffsetIndex(_Index):
    """Entries that map the last offset of a batch to the position where the batch begins."""

    _FORMAT = OFFSET_INDEX

    def append(self, last_offset: int, position: int) -> None:
        """Add an entry for a batch.

        Args:
            last_offset: the batch's last offset, higher than those of earlier entries.
            position: where the batch begins in the segment.
        """
        self._add(last_offset - self._base_offset, position)

    def position_for(self, offset: int) -> int:
        """Return the highest indexed position at or before the start of the batch with `offset`."""
        entry = bisect_right(self._keys, offset - self._base_offset) - 1
        return self._values[entry] if entry >= 0 else 0

    def offset_from(self, position: int) -> int | None:
        """Return the last offset of the first indexed batch at or after `position`, or None.

        Given the position of the very first entry, Kafka's search returns the next entry instead.
        """
        entry = bisect_left(self._values, position)
        if not entry and self._values and self._values[0] == position:
            entry = 1
        return self._base_offset + self._keys[entry] if entry < len(self._keys) else None

    @property
    def last_position(self) -> int:
        """The position in the last entry; 0 if there are no entries."""
        return self._values[-1] if self._values else 0

    @property
    def last_offset(self) -> int:
        """The offset in the last entry; the base offset if there are no entries."""
        return self._base_offset + (self._keys[-1] if self._keys else 0)


class TimeIndex(_Index):
    """Entries that map the highest timestamp so far to the last offset of its batch."""

    _FORMAT = TIME_INDEX

    @property
    def is_full(self) -> bool:
        """Whether there is room for only one more entry, the one added when the segment is complete."""
        return len(self._keys) >= self._max_entries - 1

    @property
    def room(self) -> int:
        """The number of entries until the index is full."""
        return self._max_entries - 1 - len(self._keys)

    @property
    def last_timestamp(self) -> int:
        """The timestamp in the last entry; `NO_TIMESTAMP` if there are no entries."""
        return self._keys[-1] if self._keys else NO_TIMESTAMP

    def append(self, timestamp: int, last_offset: int) -> None:
        """Add an entry for the highest timestamp so far, if there is one and it is higher than the last entry's.

        Args:
            timestamp: milliseconds since the epoch.
            last_offset: the last offset of its batch.
        """
        if timestamp > self.last_timestamp:
            self._add(timestamp, last_offset - self._base_offset)

    def offset_before(self, timestamp: int) -> int:
        """Return the highest indexed offset such that no earlier batch has a record at or after `timestamp`."""
        entry = bisect_left(self._keys, timestamp) - 1
        return self._base_offset + self._values[entry] if entry >= 0 else self._base_offset

    @property
    def last_entry(self) -> tuple[int, int] | None:
        """The last entry, (timestamp, offset); None if there are no entries."""
        if not self._keys:
            return None
        return self._keys[-1], self._base_offset + self._values[-1]
