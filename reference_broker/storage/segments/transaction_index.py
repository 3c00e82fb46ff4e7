"""The index of transactions aborted by markers in a segment, and its file (see `sdk/storage/transaction_index.py`).

A `read_committed` fetch uses the index to tell the client which records to skip. Like the other indexes, it can be
rebuilt from the log; unlike them, it is written by every sync of the log. The file exists only if there are aborted
transactions.

Source: `TransactionIndex` in Apache Kafka.
"""

from __future__ import annotations

import logging
from array import array
from bisect import bisect_left
from collections.abc import Iterator

from kafkawire.reference_broker.storage.disk.disk import Disk, read_file, replace_file
from kafkawire.reference_broker.storage.producers.producers import CompletedTransaction
from kafkawire.sdk.storage.damage import DamagedContent
from kafkawire.sdk.storage.transaction_index import (
    ENTRY_BYTES,
    AbortedTransaction,
    parse_transactions,
    transaction_at,
    transaction_content,
)

__all__ = ["TransactionIndex"]

logger = logging.getLogger("kafkawire.broker")

#: The number of entries in a block. The lowest first offset of each block is kept; a search checks all of these offsets
#: (1 ms for the seven million entries of 1 GiB), and then the entries of each block that may overlap its range.
_BLOCK_ENTRIES = 256


class TransactionIndex:
    """The index of one segment.

    Args:
        disk: holds the file.
        path: the file, which `store` writes.
        base_offset: base offset of the segment.

    Attributes:
        is_complete: whether all entries are present; if not, the log has to be searched for them again.
    """

    def __init__(self, disk: Disk, path: str, base_offset: int) -> None:
        self.is_complete = True
        self._disk = disk
        self._path = path
        self._base_offset = base_offset
        #: The entries as stored in the file; a segment of 1 GiB may have millions.
        self._content = bytearray()
        #: See `_BLOCK_ENTRIES`.
        self._lowest = array("q")
        #: The size of the entries that are in the file.
        self._stored_bytes = 0
        self._has_file = False

    def __len__(self) -> int:
        return len(self._content) // ENTRY_BYTES

    def __iter__(self) -> Iterator[AbortedTransaction]:
        return map(self._entry, range(len(self)))

    def _entry(self, number: int) -> AbortedTransaction:
        return transaction_at(self._content, number)

    # The file.

    def load(self) -> None:
        """Read the file, if there is one; damage leaves the index incomplete.

        Raises:
            OSError: the file could not be read.
        """
        content = read_file(self._disk, self._path)
        self._has_file = content is not None
        try:
            lowest = _checked(content or b"", self._base_offset)
        except DamagedContent as damage:
            logger.warning("%s: %s; it is rebuilt", self._disk.describe(self._path), damage)
            self.forget()
        else:
            self._content, self._lowest = bytearray(content or b""), lowest
            self._stored_bytes = len(self._content)

    def store(self) -> bool:
        """Write new entries to the file and sync it, on any thread; remove the file if there are no entries.

        Returns:
            Whether the file was created or removed, in which case its folder must be synced.

        Raises:
            OSError: the disk failed.
        """
        end, had_file = len(self._content), self._has_file
        self._has_file = end > 0
        if end > self._stored_bytes:
            new = bytes(self._content[self._stored_bytes : end])
            if had_file and not self._stored_bytes:
                # The file is not rewritten in place: a crash could leave a file that silently lacks entries.
                replace_file(self._disk, self._path, new)
            else:
                file = self._disk.open(self._path, create=True)
                file.append(new)
                file.sync()
            self._stored_bytes = end
        elif had_file and not end:
            self._disk.remove(self._path)
        return had_file != self._has_file

    # The entries.

    def forget(self) -> None:
        """Remove all entries; the log will be searched for them again."""
        self.is_complete = False
        self._content, self._lowest = bytearray(), array("q")
        self._stored_bytes = 0

    def append(self, ended: CompletedTransaction | AbortedTransaction) -> None:
        """Add an aborted transaction.

        Raises:
            ValueError: its marker is not after the last entry's marker.
        """
        if self._content and ended.last_offset <= (last := self._entry(len(self) - 1).last_offset):
            raise ValueError(f"a marker at offset {ended.last_offset} follows one at {last}")
        _note_lowest(self._lowest, len(self), ended.first_offset)
        self._content += transaction_content(
            ended.producer_id, ended.first_offset, ended.last_offset, ended.last_stable_offset
        )

    def collect(self, first_offset: int, end_offset: int) -> tuple[list[AbortedTransaction], bool]:
        """Return the aborted transactions that have records in a range.

        Args:
            first_offset: the first offset of the range.
            end_offset: the offset after the end of the range.

        Returns:
            The transactions in the order of their markers, and whether later segments cannot contain more of them.
        """
        # Marker offsets increase from entry to entry, and stable offsets never decrease. However, the stable offset
        # stays the same while a transaction is open, so an old range may require a search of all later entries.
        numbers = range(len(self))
        start = bisect_left(numbers, first_offset, key=lambda number: self._entry(number).last_offset)
        last = bisect_left(numbers, end_offset, key=lambda number: self._entry(number).last_stable_offset)
        found, stop = [], min(last + 1, len(self))
        for block in range(start // _BLOCK_ENTRIES, -(-stop // _BLOCK_ENTRIES)):
            if self._lowest[block] < end_offset:
                at = block * _BLOCK_ENTRIES
                entries = map(self._entry, range(max(at, start), min(at + _BLOCK_ENTRIES, stop)))
                found += [entry for entry in entries if entry.first_offset < end_offset]
        return found, last < len(self)


def _note_lowest(lowest: array[int], number: int, first_offset: int) -> None:
    """Update the lowest first offset of a block with the entry that has a given number."""
    if number % _BLOCK_ENTRIES == 0:
        lowest.append(first_offset)
    else:
        lowest[-1] = min(lowest[-1], first_offset)


def _checked(content: bytes, base_offset: int) -> array[int]:
    """Return the lowest first offset of each block of entries; raise DamagedContent if the content is damaged."""
    lowest = array("q")
    for number, entry in enumerate(parse_transactions([content], base_offset)):
        _note_lowest(lowest, number, entry.first_offset)
    return lowest
