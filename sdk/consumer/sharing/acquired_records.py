"""Find the acquired records in the batches of a share fetch.

A response has whole batches, of which this consumer may have acquired only some offsets. An acquired offset may have no
record for the application, because of compaction or because it has a control record: it is acknowledged as a gap. The
acquired offsets of a damaged batch are rejected, since no consumer could read them.

Source: Apache Kafka, `ShareCompletedFetch`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from kafkawire.sdk.consumer.sharing.acquisitions import AcquiredRange
from kafkawire.sdk.consumer.sharing.queue import ShareFetched
from kafkawire.sdk.errors import DecodeError, PartialBatch
from kafkawire.sdk.protocol.tables.enums import ACKNOWLEDGE_GAP, AcknowledgeType
from kafkawire.sdk.records import Batch, MessageBatch, Record, walk

__all__ = ["AcquiredRecords", "Found"]

#: After the offset of any record.
_END = 2**63


class Found:
    """What comes next in a response.

    Args:
        ranges: the acquired offsets that have not been passed.
        index: the number of batches that have been passed.

    Attributes:
        records: the acquired records of one batch, with their delivery counts; empty at the end.
        others: acquired offsets without a record, as first offset, last offset and acknowledgement.
        ranges: as given, for what follows.
        index: the same.
        error: the error of a damaged batch; None if there is none.
    """

    def __init__(self, ranges: Iterable[AcquiredRange], index: int) -> None:
        self.records: list[tuple[Record, int]] = []
        self.others: deque[tuple[int, int, int]] = deque()
        self.ranges = deque(ranges)
        self.index = index
        self.error: DecodeError | None = None

    def skip(self, offset: int, type: int) -> None:
        """Skip the acquired offsets before an offset, which have no record for the application."""
        while self.ranges and self.ranges[0].first < offset:
            first, last = self.ranges[0].first, min(self.ranges[0].last, offset - 1)
            self.others.append((first, last, type))
            self._advance(last + 1)

    def take(self, record: Record) -> None:
        """Keep a record if it was acquired, and move past its offset."""
        self.skip(record.offset, ACKNOWLEDGE_GAP)
        if self.ranges and self.ranges[0].first == record.offset:
            self.records.append((record, self.ranges[0].delivery_count))
            self._advance(record.offset + 1)

    def _advance(self, offset: int) -> None:
        """Continue at an offset of the first range, or after that range."""
        first = self.ranges.popleft()
        if offset <= first.last:
            self.ranges.appendleft(first._replace(first=offset))


class AcquiredRecords:
    """The acquired records of one partition in one response.

    `look` and `rest` change nothing, so a reader may be interrupted there and look again.

    Args:
        fetched: the fetched data.
        check_crcs: whether to verify the checksums of batches.

    Attributes:
        fetched: as given.
    """

    def __init__(self, fetched: ShareFetched, check_crcs: bool) -> None:
        self.fetched = fetched
        self._check_crcs = check_crcs
        self._ranges: Iterable[AcquiredRange] = fetched.ranges
        self._index = 0
        #: The last one may be the error of the bytes after the others.
        self._batches: list[Batch | DecodeError] = []
        try:
            self._batches.extend(walk(fetched.records, check_crc=False))
        except DecodeError as error:
            self._batches.append(error)

    def look(self) -> Found:
        """Return the acquired records of the next batch that has any; `go_on` continues after it."""
        found = Found(self._ranges, self._index)
        while found.ranges and not found.records and found.error is None:
            batch = self._batches[found.index] if found.index < len(self._batches) else None
            found.index += 1
            if batch is None:
                found.skip(_END, ACKNOWLEDGE_GAP)
            elif isinstance(batch, PartialBatch):  # the rest may be complete in another response
                found.skip(_END, AcknowledgeType.RELEASE)
            elif isinstance(batch, DecodeError):
                found.skip(_END, AcknowledgeType.REJECT)
                found.error = self._located(batch)
            else:
                self._look_into(batch, found)
        return found

    def go_on(self, found: Found) -> None:
        """Continue after what was found, and acknowledge the offsets that have no record."""
        self._ranges, self._index = found.ranges, found.index
        acquired = self.fetched.acquired
        while found.others:
            acquired.ledger.add_range(acquired, *found.others.popleft())

    def rest(self) -> Found:
        """Return what was not returned as offsets to release, because it is not wanted; `go_on` releases them."""
        found = Found(self._ranges, len(self._batches))
        found.skip(_END, AcknowledgeType.RELEASE)
        return found

    def _look_into(self, batch: Batch, found: Found) -> None:
        found.skip(batch.base_offset, ACKNOWLEDGE_GAP)
        if not found.ranges or found.ranges[0].first >= batch.next_offset:
            return
        try:
            records = self._records(batch)
        except DecodeError as error:
            found.skip(batch.next_offset, AcknowledgeType.REJECT)
            found.error = self._located(error)
            return
        for record in records:
            found.take(record)
        found.skip(batch.next_offset, ACKNOWLEDGE_GAP)

    def _records(self, batch: Batch) -> list[Record]:
        if self._check_crcs:
            batch.check_crc()
        partition = self.fetched.acquired.partition
        is_control = not isinstance(batch, MessageBatch) and batch.is_control
        return [] if is_control else batch.records(partition.topic, partition.partition)

    def _located(self, error: DecodeError) -> DecodeError:
        where = f"{self.fetched.acquired.partition}: {error.path or 'batch'}"
        located = DecodeError(where, error.offset, f"{error.reason}; the acquired records of the batch are rejected")
        located.__cause__ = error
        return located
