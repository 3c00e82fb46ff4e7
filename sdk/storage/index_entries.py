"""Read and write a segment's sparse indexes: offset to position (`.index`) and timestamp to offset (`.timeindex`).

Both hold ascending pairs of numbers. While a segment is being written, Apache Kafka preallocates zero-filled space
after the entries, and cuts it off once the segment is complete.

Source: `OffsetIndex`, `TimeIndex` in Apache Kafka; `schemas/records/*_index_entry.yaml`.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from struct import Struct
from typing import Final, NamedTuple, overload

from kafkawire.sdk.protocol.tables.record_formats import OFFSET_INDEX_ENTRY_HEADER, TIME_INDEX_ENTRY_HEADER
from kafkawire.sdk.records.index_columns import index_columns
from kafkawire.sdk.records.sound_batches import StoredBytes
from kafkawire.sdk.storage.damage import DamagedContent, OnDamage, refuse

__all__ = ["OFFSET_INDEX", "TIME_INDEX", "IndexColumns", "IndexEntries", "IndexFormat", "index_content", "parse_index"]


class IndexFormat(NamedTuple):
    """The format of an index.

    Attributes:
        entry: its fields: a key and an int32 value.
        key_code: the type code of keys in `array`.
    """

    entry: Struct
    key_code: str

    @property
    def entry_bytes(self) -> int:
        """The size of an entry."""
        return self.entry.size

    def no_entries(self) -> IndexColumns:
        """Return empty columns."""
        return IndexColumns(array(self.key_code), array(_VALUE_CODE), 0)


#: The last offset of a batch, relative to the segment's base offset, and the position at which the batch begins.
OFFSET_INDEX: Final = IndexFormat(OFFSET_INDEX_ENTRY_HEADER, "i")
#: The highest timestamp so far, and the last offset of its batch, relative to the segment's base offset.
TIME_INDEX: Final = IndexFormat(TIME_INDEX_ENTRY_HEADER, "q")

#: The type code of values in `array`.
_VALUE_CODE: Final = "i"


class IndexColumns(NamedTuple):
    """The entries of an index.

    Attributes:
        keys: the keys, increasing.
        values: the value of each key, never decreasing.
        room_bytes: the number of zero bytes after the entries.
    """

    keys: array[int]
    values: array[int]
    room_bytes: int


def parse_index(content: bytes, index: IndexFormat, on_damage: OnDamage = refuse) -> IndexColumns:
    """Return the entries of an index.

    Args:
        content: the content of the file.
        index: its format.
        on_damage: called for a partial entry at the end, which is skipped, and for entries that are out of order: such
            an index cannot be searched, so the result is empty.

    Raises:
        DamagedContent: the content is damaged, and `on_damage` raises this error.
    """
    size = index.entry_bytes
    if left := len(content) % size:
        on_damage(DamagedContent(f"the last entry has only {left} of {size} bytes", len(content) - left))
        content = content[: len(content) - left]
    used = -(-len(content.rstrip(b"\0")) // size) * size  # the last entry can itself end with zeros
    columns = index_columns(content[:used], array(index.key_code).itemsize)
    if columns is None:
        on_damage(DamagedContent("its entries are not in order"))
        return index.no_entries()
    return IndexColumns(*columns, len(content) - used)


def index_content(keys: Iterable[int], values: Iterable[int], index: IndexFormat) -> bytes:
    """Return the content of an index with these entries."""
    return b"".join(map(index.entry.pack, keys, values))


class IndexEntries(Sequence[tuple[int, int]]):
    """The entries of an index and the unused space after them, read on access.

    Args:
        source: the file, which may shrink or grow between reads.
        index: its format.
    """

    def __init__(self, source: StoredBytes, index: IndexFormat) -> None:
        self._source = source
        self._entry = index.entry

    def __len__(self) -> int:
        return self._source.end // self._entry.size

    @overload
    def __getitem__(self, index: int) -> tuple[int, int]: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[tuple[int, int]]: ...
    def __getitem__(self, index: int | slice) -> tuple[int, int] | Sequence[tuple[int, int]]:
        if isinstance(index, slice):
            return [self[number] for number in range(*index.indices(len(self)))]
        if not 0 <= index < len(self):
            raise IndexError(index)
        content = self._source.at(index * self._entry.size, self._entry.size)
        if len(content) < self._entry.size:  # the file has been truncated since
            raise IndexError(index)
        key, value = self._entry.unpack(content)
        return key, value

    def value_at(self, key: int) -> int | None:
        """Return the value of the last entry with a key up to `key`; None if there is none, or after a truncation."""
        try:
            number = bisect_right(range(self._used()), key, key=lambda number: self[number][0]) - 1
            return self[number][1] if number >= 0 else None
        except IndexError:
            return None

    def _used(self) -> int:
        """Return the number of entries before the unused space."""
        end = len(self)
        # Zeros after the first entry are unused space: only the first entry can be for offset 0.
        return bisect_right(range(1, end), False, key=lambda number: self[number][0] <= 0) + 1 if end else 0
