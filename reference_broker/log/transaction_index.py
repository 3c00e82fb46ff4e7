"""The `.txnindex` file of a segment: the transactions that were aborted by a marker in the segment.

A fetch at `read_committed` finds there which records its client must leave out. The file exists only if there are any.

Source: `TransactionIndex`, `AbortedTxn` in Apache Kafka; `schemas/records/aborted_transaction.yaml`.
"""

from __future__ import annotations

from typing import NamedTuple

from kafkawire.reference_broker.log.producers import CompletedTransaction
from kafkawire.sdk.errors import DecodeError
from kafkawire.sdk.protocol.schema import Buffer
from kafkawire.sdk.protocol.tables.record_formats import (
    ABORTED_TRANSACTION_HEADER,
    ABORTED_TRANSACTION_HEADER_BYTES,
)

__all__ = ["TRANSACTION_INDEX_SUFFIX", "AbortedTransaction", "TransactionIndex"]

TRANSACTION_INDEX_SUFFIX = ".txnindex"

_VERSION = 0


class AbortedTransaction(NamedTuple):
    """An entry of the index.

    Attributes:
        producer_id: whose transaction it was.
        first_offset: of its first record.
        last_offset: of the marker.
        last_stable_offset: once the marker was replicated.
    """

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int

    def encode(self) -> bytes:
        """Return the entry as it is in the file."""
        return ABORTED_TRANSACTION_HEADER.pack(_VERSION, *self)


class TransactionIndex:
    """The index of one segment.

    Args:
        base_offset: of the segment.
        content: of the file; a part of an entry at its end is not read.

    Raises:
        DecodeError: it is damaged.
    """

    def __init__(self, base_offset: int, content: Buffer = b"") -> None:
        self._entries: list[AbortedTransaction] = []
        whole = len(content) // ABORTED_TRANSACTION_HEADER_BYTES
        for number in range(whole):
            at = number * ABORTED_TRANSACTION_HEADER_BYTES
            version, *fields = ABORTED_TRANSACTION_HEADER.unpack_from(content, at)
            if version > _VERSION:
                raise DecodeError("version", at, f"version {version} of an aborted transaction, {_VERSION} is known")
            entry = AbortedTransaction(*fields)
            if entry.last_offset < base_offset:
                reason = f"offset {entry.last_offset} in the index of the segment from {base_offset} on"
                raise DecodeError("last_offset", at, reason)
            self._entries.append(entry)

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def size_bytes(self) -> int:
        """The size of the file without a part of an entry at its end."""
        return len(self) * ABORTED_TRANSACTION_HEADER_BYTES

    def append(self, ended: CompletedTransaction) -> bytes:
        """Add an aborted transaction and return what is to be appended to the file.

        Raises:
            ValueError: its marker is not after the last one.
        """
        if self._entries and ended.last_offset <= self._entries[-1].last_offset:
            raise ValueError(f"marker at offset {ended.last_offset} after {self._entries[-1].last_offset}")
        entry = AbortedTransaction(ended.producer_id, ended.first_offset, ended.last_offset, ended.last_stable_offset)
        self._entries.append(entry)
        return entry.encode()

    def truncate(self, offset: int) -> int:
        """Drop the transactions with a marker from `offset` on and return the size that the file must have."""
        self._entries = [entry for entry in self._entries if entry.last_offset < offset]
        return self.size_bytes

    def collect(self, first_offset: int, end_offset: int) -> tuple[list[AbortedTransaction], bool]:
        """Return the aborted transactions that have records in a range.

        Args:
            first_offset: the first offset of the range.
            end_offset: the offset after it.

        Returns:
            The transactions in the order of their markers, and whether none of a later segment can be among them.
        """
        found = []
        for entry in self._entries:
            if entry.last_offset >= first_offset and entry.first_offset < end_offset:
                found.append(entry)
            if entry.last_stable_offset >= end_offset:
                return found, True
        return found, False
