"""The batches that a share fetch reads from the log: their headers, and which of them belong to aborted transactions.

Acquiring records needs only the boundaries of batches; the records go from the file to the client unread.

Source: `SharePartition.fetchAbortedTransactionRecordBatches`, `ShareFetchUtils.maybeSliceFetchRecords` in Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from kafkawire.reference_broker.storage.batches import Window
from kafkawire.reference_broker.storage.disk.disk import FileSlice
from kafkawire.sdk.errors import DecodeError, PartialBatch
from kafkawire.sdk.protocol.tables.enums import NO_PRODUCER_ID, ControlRecordType
from kafkawire.sdk.records import walk
from kafkawire.sdk.records.control import control_record
from kafkawire.sdk.storage.transaction_index import AbortedTransaction

__all__ = ["FetchedBatch", "aborted_batches", "fetched_batches", "sliced"]


class FetchedBatch(NamedTuple):
    """The header of a batch.

    Attributes:
        base_offset, last_offset: the offsets, inclusive.
        position: where the batch begins in its file.
        size_bytes: its size.
        producer_id: the id of its producer; `NO_PRODUCER_ID` if it has none.
        is_transactional: whether it belongs to a transaction.
        is_abort: whether it is the marker that aborts a transaction.
    """

    base_offset: int
    last_offset: int
    position: int = 0
    size_bytes: int = 0
    producer_id: int = NO_PRODUCER_ID
    is_transactional: bool = False
    is_abort: bool = False


def fetched_batches(region: FileSlice) -> list[FetchedBatch]:
    """Return the headers of the whole batches in a region of a file.

    Raises:
        OSError: the disk failed.
        DecodeError: a batch is damaged.
    """
    window, position, end = Window(region.file), region.position, region.position + region.size_bytes
    batches = []
    while position < end:
        try:
            header = window.header(position)
        except PartialBatch:
            break
        if position + header.size_bytes > end:
            break
        is_abort = header.is_control and _is_abort(region.file.read(position, header.size_bytes))
        batches.append(
            FetchedBatch(
                header.base_offset,
                header.last_offset,
                position,
                header.size_bytes,
                header.producer_id,
                header.is_transactional,
                is_abort,
            )
        )
        position += header.size_bytes
    return batches


def _is_abort(data: bytes) -> bool:
    """Return whether a control batch is the marker of an aborted transaction."""
    try:
        record = next(iter(next(walk(data)).records()), None)
    except DecodeError:
        return False
    return record is not None and control_record(record).key.type == ControlRecordType.ABORT


def sliced(region: FileSlice, batches: Sequence[FetchedBatch], first_offset: int, last_offset: int) -> FileSlice:
    """Return the part of a region with the batches that overlap a range of offsets.

    Args:
        region: the region.
        batches: its batches; a single one is never cut off.
        first_offset, last_offset: the range, inclusive; it begins within the region.
    """
    if len(batches) < 2:
        return region
    begin = 0
    for at, batch in enumerate(batches):
        if batch.base_offset <= first_offset:
            begin = at
    kept = [batch for batch in batches[begin + 1 :] if batch.base_offset <= last_offset]
    last = kept[-1] if kept else batches[begin]
    position = batches[begin].position
    return FileSlice(region.file, position, last.position + last.size_bytes - position)


def aborted_batches(batches: Iterable[FetchedBatch], transactions: Iterable[AbortedTransaction]) -> list[FetchedBatch]:
    """Return the batches of aborted transactions.

    Args:
        batches: batches in order.
        transactions: the aborted transactions that may have records in them.
    """
    waiting = sorted(transactions, key=lambda transaction: transaction.first_offset, reverse=True)
    producers: set[int] = set()
    aborted = []
    for batch in batches:
        if batch.producer_id == NO_PRODUCER_ID:
            continue
        while waiting and waiting[-1].first_offset <= batch.last_offset:
            producers.add(waiting.pop().producer_id)
        if batch.is_abort:
            producers.discard(batch.producer_id)
        elif batch.is_transactional and batch.producer_id in producers:
            aborted.append(batch)
    return aborted
