"""A fetch on its way to the application; its batches are handed out singly or several at a time.

Handling a batch costs as much as handling many records. Therefore records that are handed out singly are taken from
several batches at a time, provided that a position between any two records can be determined and that little is held in
memory.

Source: Apache Kafka, `CompletedFetch`; KIP-98 (aborted transactions in responses).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Final

from kafkawire.sdk.consumer.batch import ConsumerBatch
from kafkawire.sdk.consumer.fetching.queue import Fetched
from kafkawire.sdk.consumer.position import Position
from kafkawire.sdk.consumer.reading.assignment import Reading
from kafkawire.sdk.errors import DecodeError, PartialBatch
from kafkawire.sdk.protocol.tables.enums import ControlRecordType
from kafkawire.sdk.protocol.tables.record_formats import BATCH_COMPRESSION_MASK
from kafkawire.sdk.records import Batch, MessageBatch, Record, RecordBatch, walk

__all__ = ["RECORDS_AHEAD", "CompletedFetch", "fetched_batches"]

#: No further batch is opened once this many records are ready, since the overhead per record is negligible by then.
RECORDS_AHEAD: Final = 500


class CompletedFetch:
    """One `Fetched` on its way to the application.

    Args:
        reading: the reading of its partition.
        fetched: the fetched data.
        batches: its batches for the application.

    Attributes:
        epoch: the reading's epoch when it was fetched.
        batch: the first of the batches in `reading.handout`.
        rest: the remaining records of a batch, which are handed out first after a pause.
    """

    __slots__ = ("_ahead", "_batches", "_following", "batch", "epoch", "fetched", "reading", "rest")

    def __init__(self, reading: Reading, fetched: Fetched, batches: Iterator[Batch]) -> None:
        self.reading = reading
        self.epoch = fetched.epoch
        self.fetched = fetched
        self.batch: ConsumerBatch | None = None
        self.rest: ConsumerBatch | None = None
        self._batches = batches
        self._ahead: deque[Batch] = deque()
        self._following: list[tuple[int, Batch]] = []

    @property
    def is_over(self) -> bool:
        """Whether the rest of the fetch must be withheld or dropped."""
        reading = self.reading
        return reading.epoch != self.epoch or reading.withheld or (reading.until is not None and reading.is_at_end)

    def next(self) -> Batch | None:
        """Return the next batch; None at the end.

        Raises:
            DecodeError: the next batch is damaged.
        """
        return self._ahead.popleft() if self._ahead else next(self._batches, None)

    def open(self, batch: ConsumerBatch) -> list[Record]:
        """Return the records of a batch and start handing them out.

        Raises:
            DecodeError: the records are damaged.
        """
        records = batch.records
        self.batch = batch
        self._following.clear()
        return records

    def extend(self, records: list[Record]) -> int:
        """Add the records of the batches that follow the open one and share its leader epoch.

        A compressed batch is not combined with others, because its decompressed size is unknown. An error is left for
        `next`.

        Returns:
            The offset after the last batch.
        """
        assert self.batch is not None
        first = last = self.batch.batch
        if isinstance(first, MessageBatch) or first.attributes & BATCH_COMPRESSION_MASK or self._ahead:
            return self.batch.next_offset
        kind, epoch, partition = type(first), first.partition_leader_epoch, self.reading.partition
        try:
            while len(records) < RECORDS_AHEAD and (batch := next(self._batches, None)) is not None:
                if (
                    type(batch) is not kind
                    or batch.partition_leader_epoch != epoch
                    or batch.attributes & BATCH_COMPRESSION_MASK
                ):
                    self._ahead.append(batch)
                    break
                more = batch.records(*partition)
                self._following.append((len(records), batch))
                records += more
                last = batch
        except DecodeError as error:
            self._batches = _raising(error)
        return last.next_offset

    def rest_at(self, index: int) -> ConsumerBatch:
        """Return the rest of the batch that contains the record at an index; `next` returns the batches after it."""
        assert self.batch is not None
        assert self.reading.start is not None
        batches = [(0, self.batch.batch), *self._following]
        while batches[-1][0] > index:
            self._ahead.appendleft(batches.pop()[1])
        current = batches[-1][1]
        self._following.clear()
        return ConsumerBatch(self.batch.partition, current, self.reading.start.offset, self.reading.until)

    def end_of(self, next_offset: int, leader_epoch: int) -> Position:
        """Return the position after a batch and any following batches that are not for the application."""
        return self.fetched.end if next_offset >= self.fetched.data_end else Position(next_offset, leader_epoch)


def _raising(error: DecodeError) -> Iterator[Batch]:
    """Raise an error when the next batch is requested."""
    yield from ()
    raise error


def fetched_batches(fetched: Fetched, check_crcs: bool) -> Iterator[Batch]:
    """Yield a fetch's batches for the application, leaving out control batches and aborted transactions.

    The first batch contains the requested offset; a partial batch at the end is left out.

    Raises:
        DecodeError: a size, a magic number or a checksum is wrong; earlier batches have been yielded.
    """
    aborted = list(reversed(fetched.aborted))
    aborting: set[int] = set()
    try:
        for batch in walk(fetched.records, check_crcs):
            if isinstance(batch, MessageBatch):
                if batch.next_offset > fetched.start:
                    yield batch
                continue
            while aborted and aborted[-1][0] <= batch.last_offset:
                aborting.add(aborted.pop()[1])
            if batch.is_control:
                if batch.producer_id in aborting and _is_abort(batch):
                    aborting.discard(batch.producer_id)
            elif batch.next_offset > fetched.start and not (
                aborting and batch.is_transactional and batch.producer_id in aborting
            ):
                yield batch
    except PartialBatch:
        return


def _is_abort(batch: RecordBatch) -> bool:
    from kafkawire.sdk.records.control import control_type  # only readers of aborted transactions need it

    records = batch.records()
    return bool(records) and control_type(records[0]).type is ControlRecordType.ABORT
