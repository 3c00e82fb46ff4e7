"""The `.txnindex` file of a segment: the transactions that were aborted by a marker in the segment.

A fetch at `read_committed` finds there which records its client must leave out. Like the other indexes, it can
be rebuilt from the log; unlike them, it is written by every sync of the log. The file exists only if there are any.

Source: `TransactionIndex`, `AbortedTxn` in Apache Kafka; `schemas/records/aborted_transaction.yaml`.
"""

from __future__ import annotations

import logging
from bisect import bisect_left
from collections.abc import Iterator
from typing import NamedTuple

from kafkawire.reference_broker.disk.disk import Disk, read_file, replace_file
from kafkawire.reference_broker.log.producers import CompletedTransaction
from kafkawire.sdk.errors import DecodeError
from kafkawire.sdk.protocol.tables.record_formats import (
    ABORTED_TRANSACTION_HEADER,
    ABORTED_TRANSACTION_HEADER_BYTES,
)

__all__ = ["AbortedTransaction", "TransactionIndex"]

logger = logging.getLogger("kafkawire.broker")


_VERSION = 0


class AbortedTransaction(NamedTuple):
    """An entry of the index.

    Attributes:
        producer_id: whose transaction it was.
        first_offset: of its first record.
        last_offset: of the marker.
        last_stable_offset: the one after it, once the high watermark had passed the marker.
    """

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class TransactionIndex:
    """The index of one segment.

    Args:
        disk: where the file is.
        path: the file, which `store` writes.
        base_offset: of the segment.

    Attributes:
        is_complete: whether nothing is missing; otherwise the entries have to be found again in the log.
    """

    def __init__(self, disk: Disk, path: str, base_offset: int) -> None:
        self.is_complete = True
        self._disk = disk
        self._path = path
        self._base_offset = base_offset
        #: The entries as they are in the file: a segment of 1 GiB may have millions.
        self._content = bytearray()
        #: How much of them is in the file.
        self._stored_bytes = 0
        self._has_file = False

    def __len__(self) -> int:
        return len(self._content) // ABORTED_TRANSACTION_HEADER_BYTES

    def __iter__(self) -> Iterator[AbortedTransaction]:
        return map(self._entry, range(len(self)))

    def _entry(self, number: int) -> AbortedTransaction:
        at = number * ABORTED_TRANSACTION_HEADER_BYTES
        return AbortedTransaction(*ABORTED_TRANSACTION_HEADER.unpack_from(self._content, at)[1:])

    # The file.

    def load(self) -> None:
        """Read the file, if there is one; a damaged one leaves the index incomplete.

        Raises:
            OSError: it could not be read.
        """
        content = read_file(self._disk, self._path)
        self._has_file = content is not None
        try:
            _check(content or b"", self._base_offset)
        except DecodeError as error:
            logger.warning("%s: %s; it is rebuilt", self._disk.describe(self._path), error)
            self.forget()
        else:
            self._content = bytearray(content or b"")
            self._stored_bytes = len(self._content)

    def store(self) -> bool:
        """Write to the file what is not there yet and sync it, on any thread; remove it if there is nothing to write.

        Returns:
            Whether the file was created or removed, so that its folder must be synced.

        Raises:
            OSError: the disk failed.
        """
        end, had_file = len(self._content), self._has_file
        self._has_file = end > 0
        if end > self._stored_bytes:
            new = bytes(self._content[self._stored_bytes : end])
            if had_file and not self._stored_bytes:
                # Not in place: a crash would leave a file that lacks entries and does not show it.
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
        """Forget all entries, to find them again in the log."""
        self.is_complete = False
        self._content = bytearray()
        self._stored_bytes = 0

    def append(self, ended: CompletedTransaction | AbortedTransaction) -> None:
        """Add an aborted transaction.

        Raises:
            ValueError: its marker is not after the last one.
        """
        if self._content and ended.last_offset <= (last := self._entry(len(self) - 1).last_offset):
            raise ValueError(f"marker at offset {ended.last_offset} after {last}")
        self._content += ABORTED_TRANSACTION_HEADER.pack(
            _VERSION, ended.producer_id, ended.first_offset, ended.last_offset, ended.last_stable_offset
        )

    def collect(self, first_offset: int, end_offset: int) -> tuple[list[AbortedTransaction], bool]:
        """Return the aborted transactions that have records in a range.

        Args:
            first_offset: the first offset of the range.
            end_offset: the offset after it.

        Returns:
            The transactions in the order of their markers, and whether none of a later segment can be among them.
        """
        found = []
        # Markers and stable offsets rise from entry to entry.
        start = bisect_left(range(len(self)), first_offset, key=lambda number: self._entry(number).last_offset)
        for number in range(max(start - 1, 0), len(self)):
            entry = self._entry(number)
            if entry.last_offset >= first_offset and entry.first_offset < end_offset:
                found.append(entry)
            if entry.last_stable_offset >= end_offset:
                return found, True
        return found, False


def _check(content: bytes, base_offset: int) -> None:
    """Raise DecodeError if the content of a file is damaged."""
    if left := len(content) % ABORTED_TRANSACTION_HEADER_BYTES:
        raise DecodeError("entry", len(content) - left, f"{left} bytes of an entry")
    last_offset = base_offset - 1
    for number, fields in enumerate(ABORTED_TRANSACTION_HEADER.iter_unpack(content)):
        version, entry = fields[0], AbortedTransaction(*fields[1:])
        at = number * ABORTED_TRANSACTION_HEADER_BYTES
        if version > _VERSION:
            raise DecodeError("version", at, f"version {version} of an aborted transaction, {_VERSION} is known")
        if entry.last_offset <= last_offset:
            raise DecodeError("last_offset", at, f"a marker at offset {entry.last_offset} after {last_offset}")
        last_offset = entry.last_offset
