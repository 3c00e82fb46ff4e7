"""The reader of a consumer, which takes fetched batches and hands them out.

Nothing in this module waits. Positions move when records are handed out, which happens only after every step that can
fail or be cancelled. A record is finished when the application requests the next one, so work interrupted by an error
or a rebalance is repeated. Two tasks may read at the same time: each record goes to one of them, and is considered
finished once either of them reads again.

Source: Apache Kafka, `FetchCollector`, `CompletedFetch`.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, Final, Protocol

from kafkawire.sdk.client.unclosed_clients import weakly
from kafkawire.sdk.consumer.batch import ConsumerBatch
from kafkawire.sdk.consumer.fetching.queue import FetchQueue
from kafkawire.sdk.consumer.position import Position
from kafkawire.sdk.consumer.reading.assignment import Assignment, Reading
from kafkawire.sdk.consumer.reading.completed_fetch import CompletedFetch, fetched_batches
from kafkawire.sdk.consumer.reading.engine import Handout, RecordIterator, RecordStream
from kafkawire.sdk.consumer.stopped_partitions import stopping
from kafkawire.sdk.errors import DecodeError, KafkaWireError
from kafkawire.sdk.records import MessageBatch, Record
from kafkawire.sdk.routing.partitions import TopicPartition

if TYPE_CHECKING:
    from kafkawire.sdk.consumer.reading.hooks import ConsumerHooks

__all__ = ["LIST_MS", "BoundedRead", "Reader"]

#: A list that takes longer than this to fill, for example because of slow deserializers, ends early to give the event
#: loop a turn before the next list.
LIST_MS: Final = 100


class BoundedRead(Protocol):
    """A bounded read as seen by other reads, which may end it; see `EndOffsets`."""

    @property
    def is_abandoned(self) -> bool:
        """Whether the next read ends this one."""
        ...

    def lift(self) -> None:
        """Let reads continue past its end."""
        ...


class Reader:
    """Hand out fetched records.

    Args:
        assignment: the partitions, whose readings this class moves.
        queue: the fetched batches.
        check_crcs: whether to verify the checksums of batches.

    Attributes:
        handout: the batch whose records are being handed out singly; None if there is none.
        taken: the number of `Fetched` taken from the queue.
        bounded_read: the current bounded read; None if there is none.
        stream: takes records directly from the handout; set by the client.
        hooks: applied to records that are handed out singly or in lists; set by the client; None for no hooks.
    """

    def __init__(self, assignment: Assignment, queue: FetchQueue, check_crcs: bool) -> None:
        self._assignment = assignment
        self._queue = queue
        self._check_crcs = check_crcs
        self._fetch: CompletedFetch | None = None
        self._paused: list[CompletedFetch] = []
        self._moved: set[Reading] = set()
        self._errors: deque[KafkaWireError] = deque()
        self._handed_out = 0
        self.handout: Handout | None = None
        self.taken = 0
        self.bounded_read: BoundedRead | None = None
        self.stream: RecordStream[Any, Any] | RecordIterator[Any, Any] | None = None
        self.hooks: ConsumerHooks[Any, Any] | None = None
        assignment.on_pause = weakly(self._set_aside, None)
        assignment.handed_out = weakly(self._count, 0)

    def advance(self) -> Handout | None:
        """Return `handout` with a record to take; everything handed out earlier is finished.

        Returns:
            None if there is no record at the moment; then wait for the queue.

        Raises:
            KafkaWireError: reading a partition, or the client as a whole, has stopped.
        """
        if self._moved or self._fetch is not None or self._errors:
            self.settle()
        found = self._advance()
        if found is None and self._moved:
            self.settle()  # skipped records are also finished
        return found

    def next_batch(self) -> ConsumerBatch | None:
        """Hand out a batch, or the rest of one; everything handed out earlier is finished.

        Returns:
            None if there is no batch at the moment; then wait for the queue.

        Raises:
            KafkaWireError: see `advance`.
        """
        self.settle()
        batch = self._rest() or self._next_batch()
        if batch is None or self._fetch is None:
            self.settle()  # skipped records are also finished
            return None
        self._hand_over(batch, self._fetch)
        return batch

    def take_many(self, limit: int) -> dict[TopicPartition, list[Record[Any, Any]]]:
        """Hand out the available records by partition; the next read finishes them.

        If an error occurs after records have been found, the next read raises it.

        Args:
            limit: the maximum number of records; the list also ends after `LIST_MS`.

        Raises:
            KafkaWireError: see `advance`.
        """
        self.settle()
        found: dict[TopicPartition, list[Record[Any, Any]]] = {}
        begun: dict[Reading, Position | None] = {}
        clock_ms = self._assignment.clock_ms
        end_ms = clock_ms() + LIST_MS
        while limit > 0 and (not found or clock_ms() < end_ms):
            try:
                handout = self._advance()
                if handout is None:
                    break
                assert self._fetch is not None
                if self.hooks is not None:
                    begun.setdefault(self._fetch.reading, self._fetch.reading.position)
                taken = handout.take_many(limit)
            except KafkaWireError as error:
                if not found:
                    raise
                self._errors.append(error)
                break
            except BaseException:  # a hook was cancelled or interrupted: its record is not handed out
                for reading, position in begun.items():
                    if reading.partition in found:
                        self._assignment.fetch_again(reading, position)
                raise
            limit -= len(taken)
            found.setdefault(self._fetch.reading.partition, []).extend(taken)
        else:
            if self.handout is not None:
                self._leave(self.handout)
        if not found:
            self.settle()
        return found

    def take_batches(self, limit: int, enough_records: int | None = None) -> list[ConsumerBatch]:
        """Hand out the available whole batches; the next read finishes them.

        Args:
            limit: the maximum number of batches.
            enough_records: stop once the batches have this many records; None for no limit.

        Raises:
            KafkaWireError: see `advance`; it is not raised if batches have already been found.
        """
        self.settle()
        found: list[ConsumerBatch] = []
        records_count = 0
        while len(found) < limit and (enough_records is None or records_count < enough_records):
            try:
                batch = self._rest() or self._next_batch()
            except KafkaWireError as error:
                if not found:
                    raise
                self._errors.append(error)
                break
            if batch is None or self._fetch is None:
                break
            self._hand_over(batch, self._fetch)
            found.append(batch)
            records_count += _most_records(batch)
        if not found:
            self.settle()
        return found

    def settle(self) -> None:
        """Begin a read, which finishes everything handed out earlier.

        Raises:
            KafkaWireError: an earlier read encountered this error but returned the records found before it.
        """
        self.finish()
        if self._errors:
            raise self._errors.popleft()

    def finish(self) -> None:
        """Mark everything handed out so far as finished."""
        fetch = self._fetch
        if self._moved:
            if fetch is not None:
                self._moved.add(fetch.reading)
            for reading in self._moved:
                reading.settle()
            self._moved.clear()
        elif fetch is not None:
            fetch.reading.settle()

    def rewind(self) -> None:
        """Hand out unfinished records again, because a read was interrupted midway.

        Fetched data is dropped, because it is unknown how much of it was already handed out.
        """
        for reading in list(self._assignment.readings.values()):
            if reading.finished is not None and not reading.halted:
                self._assignment.seek(reading.partition, reading.finished)

    def fetch_again(self, reading: Reading) -> None:
        """Drop a partition's fetched data that was not handed out; unfinished records stay unfinished."""
        self._assignment.fetch_again(reading)
        self._moved.add(reading)

    def lift_abandoned(self) -> None:
        """End a bounded read that was dropped before its end."""
        if self.bounded_read is not None and self.bounded_read.is_abandoned:
            self.bounded_read.lift()

    def take_back(self) -> None:
        """Reopen the current handout, because its partition now ends elsewhere."""
        fetch = self._fetch
        rest = self._rest()
        if fetch is not None and rest is not None:
            fetch.rest = rest

    def abandon(self, error: KafkaWireError) -> None:
        """Stop handing out records, and make every read raise an error."""
        if self.handout is not None:
            self.handout.cut()
        self._fetch = None
        self._paused.clear()
        self._queue.clear()
        self._queue.fail(error)

    def _count(self) -> int:
        handout = self.handout
        return self._handed_out + (0 if handout is None else handout.index)

    def _advance(self) -> Handout | None:
        """Return `handout` with a record to take, or None if there is none; finish nothing."""
        while (handout := self.handout) is None or not handout.left:
            if handout is not None:
                self._leave(handout)
            batch = self._next_batch()
            fetch = self._fetch
            if batch is None or fetch is None:
                return None
            try:
                records = fetch.open(batch)
            except DecodeError as error:
                raise self._damaged(fetch, error) from error
            leader_epoch, next_offset, reading = batch.leader_epoch, batch.next_offset, fetch.reading
            if reading.unfinished is not None and reading.start is not None:
                reading.unfinished.began(reading.start, (record.offset for record in records), leader_epoch)
            elif self.hooks is None and reading.until is None and next_offset < fetch.fetched.data_end:
                next_offset = fetch.extend(records)
            end = fetch.end_of(next_offset, leader_epoch)
            if self.hooks is None:
                self._hand_out(fetch, Handout(records, end, leader_epoch))
            else:
                self._hand_out(fetch, self._hooked(fetch, records, end, leader_epoch))
        return handout

    def _hooked(self, fetch: CompletedFetch, records: list[Record], end: Position, leader_epoch: int) -> Handout:
        from kafkawire.sdk.consumer.reading.hooks import HookedHandout  # few programs have hooks

        assert self.hooks is not None
        clock_ms = self._assignment.clock_ms
        return HookedHandout(
            records, end, leader_epoch, self.hooks, lambda error: self._stop(fetch, error), clock_ms, LIST_MS
        )

    def _hand_over(self, batch: ConsumerBatch, fetch: CompletedFetch) -> None:
        reading = fetch.reading
        unfinished, start = reading.unfinished, reading.start
        if unfinished is not None and start is not None:
            unfinished.began_batch(Position(batch.start_offset, start.leader_epoch), batch.next_offset)
        reading.start = fetch.end_of(batch.next_offset, batch.leader_epoch)
        self._moved.add(reading)
        self._handed_out += 1

    def _hand_out(self, fetch: CompletedFetch, handout: Handout) -> None:
        fetch.reading.handout = handout
        self.handout = handout
        if self.stream is not None:
            self.stream.handout = handout
        if fetch.is_over:  # the group has withheld it in the meantime
            handout.cut()

    def _leave(self, handout: Handout) -> None:
        """Leave a batch if all of it has been handed out."""
        if not handout.left:
            self._handed_out += handout.index
            self.handout = None
            fetch = self._fetch
            if fetch is not None and fetch.reading.handout is handout:
                fetch.reading.leave()
                self._moved.add(fetch.reading)

    def _rest(self) -> ConsumerBatch | None:
        """Return the rest of a batch whose first records were handed out singly."""
        handout, fetch = self.handout, self._fetch
        if handout is None:
            return None
        if fetch is None or fetch.batch is None or not handout.left:
            self._leave(handout)
            return None
        index = handout.index
        self._handed_out += index
        self.handout = None
        fetch.reading.leave()
        handout.cut()
        self._moved.add(fetch.reading)
        return fetch.rest_at(index)

    def _set_aside(self) -> None:
        """Keep the current handout of a paused partition until it is resumed."""
        fetch = self._fetch
        if fetch is not None and fetch.reading.paused:
            rest = self._rest()
            fetch.rest = rest
            self._paused.append(fetch)
            self._fetch = None

    def _next_batch(self) -> ConsumerBatch | None:
        """Return the next batch with records for the application; None if there is none at the moment."""
        while True:
            fetch = self._fetch
            if fetch is None or fetch.is_over:
                fetch = self._fetch = self._next_fetch()
                if fetch is None:
                    return None
            reading = fetch.reading
            if fetch.rest is not None:
                rest, fetch.rest = fetch.rest, None
                return ConsumerBatch(reading.partition, rest.batch, rest.start_offset, reading.until)
            if reading.unfinished is not None:
                reading.unfinished.check_room()
            try:
                batch = fetch.next()
            except DecodeError as error:
                raise self._damaged(fetch, error) from error
            if batch is None:
                self._end(fetch)
                continue
            assert reading.start is not None
            start = max(reading.start.offset, fetch.fetched.start)
            if reading.until is not None and batch.base_offset >= reading.until:
                reading.start = Position(reading.until)  # another leader epoch may have begun in the gap before it
                self._moved.add(reading)
                continue
            return ConsumerBatch(reading.partition, batch, start, reading.until)

    def _end(self, fetch: CompletedFetch) -> None:
        """Finish a fetch whose batches have all been handed out."""
        fetch.reading.start = fetch.fetched.end
        self._moved.add(fetch.reading)
        self._fetch = None

    def _damaged(self, fetch: CompletedFetch, error: DecodeError) -> DecodeError:
        """Stop a partition at an unreadable batch; return an error with the batch's position."""
        position = fetch.reading.position
        where = f"{fetch.reading.partition} at offset {-1 if position is None else position.offset}"
        damage = stopping(DecodeError(f"{where}: {error.path or 'batch'}", error.offset, error.reason))
        self._stop(fetch, damage)
        return damage

    def _stop(self, fetch: CompletedFetch, error: KafkaWireError) -> None:
        """Stop a partition until the application seeks past the damage, because records are never skipped silently."""
        self._fetch = None
        self._assignment.halt(fetch.reading, error)

    def _next_fetch(self) -> CompletedFetch | None:
        """Return the next fetch to hand out, or raise an error that precedes it.

        Errors are raised in the order in which they occurred. An error that ends all reading does not wait for fetched
        data, since none of that data is finished, so it will be read again.
        """
        queue = self._queue
        if queue.errors and (error := queue.next_error()) is not None:
            raise error
        if queue.failure is not None:
            queue.check()
        if self._paused:
            self._paused = [fetch for fetch in self._paused if not fetch.is_over]
            for index, fetch in enumerate(self._paused):
                if not fetch.reading.paused:
                    return self._paused.pop(index)
        readings = self._assignment.readings
        while (fetched := queue.take(readings)) is not None:
            reading = readings[fetched.partition]
            if fetched.error is not None:
                self._assignment.halt(reading, fetched.error)
                raise fetched.error
            has_records = len(fetched.records) > 0
            if reading.start is None or not has_records:
                reading.start = fetched.end
                self._moved.add(reading)
            if has_records:
                self.taken += 1
                return CompletedFetch(reading, fetched, fetched_batches(fetched, self._check_crcs))
        return None


def _most_records(batch: ConsumerBatch) -> int:
    """Return the maximum number of records in a batch to hand out, without decoding the batch, which might fail."""
    spread = batch.next_offset - batch.start_offset
    return spread if isinstance(batch.batch, MessageBatch) else min(batch.batch.records_count, spread)
