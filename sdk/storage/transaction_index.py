"""Read and write the `.txnindex` file of a segment: the transactions aborted by its markers, in order.

Source: `TransactionIndex`, `AbortedTxn` in Apache Kafka; `schemas/records/aborted_transaction.yaml`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from kafkawire.sdk.protocol.schema import Buffer
from kafkawire.sdk.protocol.tables.record_formats import (
    ABORTED_TRANSACTION_HEADER,
    ABORTED_TRANSACTION_HEADER_BYTES,
)
from kafkawire.sdk.storage.damage import DamagedContent, OnDamage, refuse

__all__ = ["ENTRY_BYTES", "AbortedTransaction", "parse_transactions", "transaction_at", "transaction_content"]

#: The size of an entry.
ENTRY_BYTES: Final = ABORTED_TRANSACTION_HEADER_BYTES

#: The only version of an entry: `AbortedTxn.CURRENT_VERSION`.
_VERSION: Final = 0


class AbortedTransaction(NamedTuple):
    """An entry of the index.

    Attributes:
        producer_id: the producer of the transaction.
        first_offset: the offset of its first record.
        last_offset: the offset of the marker.
        last_stable_offset: the last stable offset once the high watermark has passed the marker.
        version: the version of the entry, always 0.
    """

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int
    version: int = _VERSION


def parse_transactions(
    pieces: Iterable[Buffer],
    base_offset: int = 0,
    end_offset: int | None = None,
    on_damage: OnDamage = refuse,
) -> Iterator[AbortedTransaction]:
    """Yield the entries of an index.

    Args:
        pieces: the consecutive parts of the file's content; only the last may end with a partial entry.
        base_offset: the base offset of the segment, which contains all the markers.
        end_offset: the end offset of the segment, if known.
        on_damage: called for each entry that no broker would have written, before the entry is yielded, and for a
            partial entry at the end.

    Raises:
        DamagedContent: the content is damaged, and `on_damage` raises this error.
    """
    start, before = 0, base_offset - 1
    for piece in pieces:
        whole = memoryview(piece)[: len(piece) // ENTRY_BYTES * ENTRY_BYTES]
        for number, fields in enumerate(ABORTED_TRANSACTION_HEADER.iter_unpack(whole)):
            version, producer_id, first_offset, last_offset, last_stable_offset = fields
            if (
                version != _VERSION
                or not 0 <= first_offset <= last_offset
                or last_offset <= before
                or (end_offset is not None and last_offset >= end_offset)
            ):
                reason = _problem(version, first_offset, last_offset, before, end_offset)
                on_damage(DamagedContent(reason, start + number * ENTRY_BYTES))
            before = last_offset
            yield AbortedTransaction(producer_id, first_offset, last_offset, last_stable_offset, version)
        if left := len(piece) - len(whole):
            on_damage(DamagedContent(f"the last entry has only {left} of {ENTRY_BYTES} bytes", start + len(whole)))
        start += len(piece)


def transaction_at(content: Buffer, number: int) -> AbortedTransaction:
    """Return the entry with this number, counting from 0, of an undamaged index."""
    return AbortedTransaction(*ABORTED_TRANSACTION_HEADER.unpack_from(content, number * ENTRY_BYTES)[1:])


def transaction_content(producer_id: int, first_offset: int, last_offset: int, last_stable_offset: int) -> bytes:
    """Return an entry as it is stored."""
    return ABORTED_TRANSACTION_HEADER.pack(_VERSION, producer_id, first_offset, last_offset, last_stable_offset)


def _problem(version: int, first_offset: int, last_offset: int, before: int, end_offset: int | None) -> str:
    if version != _VERSION:  # Kafka rejects only higher versions, and has never written any other
        return f"version {version} of an aborted transaction is unknown; expected {_VERSION}"
    if not 0 <= first_offset <= last_offset:
        return f"a transaction begins at offset {first_offset} and ends at offset {last_offset}"
    if last_offset <= before:
        return f"a marker at offset {last_offset} follows one at {before}"
    return f"a marker is at offset {last_offset}, but the segment ends at {end_offset}"
