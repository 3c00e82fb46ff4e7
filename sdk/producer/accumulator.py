"""Records on their way to the brokers: in open batches, in sealed ones, and in flight.

`send` appends to the open batch of a partition; the sender takes what is ready for a broker and reports the outcome.
Batches of a partition leave in order; when one must be retried, later ones wait until all in flight have come back. No
I/O and no clock.

Source: Apache Kafka, `RecordAccumulator`, `ProducerBatch`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence

from kafkawire.sdk.client.options import ProducerOptions
from kafkawire.sdk.client.partitions import TopicPartition
from kafkawire.sdk.errors import BufferFull, DeliveryTimedOut, KafkaWireError, RecordTooLarge
from kafkawire.sdk.protocol.tables.record_formats import BATCH_HEADER_BYTES
from kafkawire.sdk.protocol.values import Buffer
from kafkawire.sdk.records import BatchBuilder, HeadersLike

__all__ = ["Accumulator", "PartitionQueue", "ProducerBatch"]

#: Upper bound of a record's size beyond its key, value and headers: lengths, deltas, attributes.
_RECORD_OVERHEAD_BYTES = 32


class ProducerBatch:
    """A record batch, from its first record until it is acknowledged or has failed.

    Attributes:
        partition: its destination.
        builder: holds the records.
        created_ms: when the first record was appended.
        bytes_held: what it counts against `buffer_memory`.
        failures: failed attempts so far.
        number: grows from batch to batch of a producer.
        base_offset: of the first record, once acknowledged; -1 with acks=0.
        log_append_time_ms: the broker's timestamp for all records, -1 if they keep their own.
        error: why it failed.
        done: whether it is acknowledged or has failed.
        on_done: called once, without arguments.
        observed: whether anybody has awaited the outcome.
    """

    __slots__ = (
        "_sealed",
        "base_offset",
        "builder",
        "bytes_held",
        "created_ms",
        "done",
        "error",
        "failures",
        "log_append_time_ms",
        "number",
        "observed",
        "on_done",
        "partition",
    )

    def __init__(self, number: int, partition: TopicPartition, builder: BatchBuilder, created_ms: int) -> None:
        self.number = number
        self.partition = partition
        self.builder = builder
        self.created_ms = created_ms
        self.bytes_held = 0
        self.failures = 0
        self.base_offset = -1
        self.log_append_time_ms = -1
        self.error: KafkaWireError | None = None
        self.done = False
        self.on_done: list[Callable[[], None]] = []
        self.observed = False
        self._sealed: Buffer | None = None

    def sealed(self) -> Buffer:
        """Return the batch as it is sent; no more records can be added."""
        if self._sealed is None:
            self._sealed = self.builder.seal()
        return self._sealed


class PartitionQueue:
    """The batches of one partition that are not in flight, oldest first; the last one may be open."""

    __slots__ = ("batches", "in_flight", "not_before_ms", "partition", "returned")

    def __init__(self, partition: TopicPartition) -> None:
        self.partition = partition
        self.batches: deque[ProducerBatch] = deque()
        self.in_flight = 0
        self.not_before_ms = 0
        self.returned: list[ProducerBatch] = []

    @property
    def open(self) -> ProducerBatch | None:
        """The batch that takes records, None if a new one is needed."""
        if self.batches and self.batches[-1]._sealed is None:
            return self.batches[-1]
        return None


class Accumulator:
    """All records of a producer that are not acknowledged yet.

    Args:
        options: limits and timeouts.

    Attributes:
        bytes_held: of all batches; at most `buffer_memory`.
        unobserved: the first failed batch whose outcome nobody awaited.
    """

    def __init__(self, options: ProducerOptions) -> None:
        self._options = options
        self._queues: dict[TopicPartition, PartitionQueue] = {}
        self._sendable: dict[TopicPartition, PartitionQueue] = {}
        self._unfinished: dict[int, ProducerBatch] = {}
        self._batches_made = 0
        self.bytes_held = 0
        self.unobserved: ProducerBatch | None = None

    @property
    def unfinished(self) -> list[ProducerBatch]:
        """The batches that are neither acknowledged nor failed."""
        return list(self._unfinished.values())

    def append(
        self,
        partition: TopicPartition,
        key: Buffer | None,
        value: Buffer | None,
        headers: HeadersLike,
        timestamp_ms: int,
        now_ms: int,
        admitted_bytes: int | None = None,
    ) -> tuple[ProducerBatch, int, bool]:
        """Append a record.

        Args:
            partition: its destination.
            key: None for none.
            value: None for a tombstone.
            headers: (name, value) in order.
            timestamp_ms: milliseconds since the epoch.
            now_ms: the current time, monotonic.
            admitted_bytes: what `admit` returned for the record, None if it was not called.

        Returns:
            The batch, the record's index in it, and whether the sender should look: a batch was opened or filled.

        Raises:
            BufferFull: `buffer_memory` is used up.
            RecordTooLarge: no request could carry the record.
        """
        size = self.admit(key, value, headers) if admitted_bytes is None else admitted_bytes
        queue = self._queues.get(partition)
        if queue is None:
            queue = self._queues[partition] = PartitionQueue(partition)
        batch = queue.open
        index = None if batch is None else batch.builder.append(timestamp_ms, key, value, headers)
        is_new = index is None
        if batch is None or index is None:
            if batch is not None:  # it is full
                batch.sealed()
            batch, index = self._open(queue, size, now_ms), 0
            batch.builder.append(timestamp_ms, key, value, headers)
        batch.bytes_held += size
        self.bytes_held += size
        return batch, index, is_new

    def fill(self, partition: TopicPartition, values: Sequence[Buffer | None], timestamp_ms: int) -> int:
        """Append records without keys and headers to the open batch of a partition, until one does not fit.

        Args:
            partition: their destination.
            values: None for a tombstone.
            timestamp_ms: milliseconds since the epoch.

        Returns:
            How many were appended; 0 also if no batch is open, or if filling it could exceed `buffer_memory`.
        """
        queue = self._queues.get(partition)
        batch = None if queue is None else queue.open
        if batch is None or self.bytes_held + self._options.batch_size > self._options.buffer_memory:
            return 0
        size_before = batch.builder.size_bytes
        try:
            return batch.builder.append_many(values, timestamp_ms)
        finally:  # the records before an invalid one were appended
            added_bytes = batch.builder.size_bytes - size_before
            batch.bytes_held += added_bytes
            self.bytes_held += added_bytes

    def admit(self, key: Buffer | None, value: Buffer | None, headers: HeadersLike) -> int:
        """Return the upper bound of a record's size, if there is room for it.

        Raises:
            BufferFull, RecordTooLarge: see `append`.
        """
        size = _RECORD_OVERHEAD_BYTES + (len(value) if value is not None else 0) + (len(key) if key is not None else 0)
        for name, content in headers:
            size += 4 * len(name) + (len(content) if content is not None else 0) + _RECORD_OVERHEAD_BYTES
        limit = self._options.buffer_memory
        if size + BATCH_HEADER_BYTES > self._options.max_request_size:
            raise RecordTooLarge(
                f"record of up to {size} bytes, max_request_size={self._options.max_request_size} leaves "
                f"{self._options.max_request_size - BATCH_HEADER_BYTES}"
            )
        if self.bytes_held + size > limit:
            raise BufferFull(
                f"{self.bytes_held} bytes are not acknowledged yet, {size} more exceed buffer_memory={limit}; "
                "await producer.drain() and send again, or use send_many"
            )
        return size

    def take(self, led: Callable[[TopicPartition], bool], now_ms: int) -> list[ProducerBatch]:
        """Take the batches for one request to a broker: at most one of each partition.

        Args:
            led: returns whether the broker leads a partition.
            now_ms: the current time, monotonic.

        Returns:
            Batches for one request, at most `max_request_size` bytes before compression, or a single one.
        """
        taken: list[ProducerBatch] = []
        room = self._options.max_request_size
        for queue in list(self._sendable.values()):
            if not led(queue.partition) or self._due_ms(queue, now_ms) > now_ms:
                continue
            batch = queue.batches[0]
            if taken and batch.bytes_held > room:
                continue
            queue.batches.popleft()
            queue.in_flight += 1
            batch.sealed()
            room -= batch.bytes_held
            taken.append(batch)
            # Requeue the partition after the others, so that none starves.
            del self._sendable[queue.partition]
            self._note(queue)
        return taken

    def due_ms(self, now_ms: int) -> int | None:
        """Return when the next batch may be sent, in the past if one is due; None if there is none."""
        return min((self._due_ms(queue, now_ms) for queue in self._sendable.values()), default=None)

    def waiting(self) -> Iterable[TopicPartition]:
        """Return the partitions that have batches to send."""
        return self._sendable.keys()

    def flush(self) -> None:
        """Seal all open batches, so that they are sent without lingering."""
        for queue in self._sendable.values():
            if queue.open is not None:
                queue.open.sealed()

    def succeed(self, batch: ProducerBatch, base_offset: int, log_append_time_ms: int) -> None:
        """Report that a batch in flight was acknowledged."""
        batch.base_offset = base_offset
        batch.log_append_time_ms = log_append_time_ms
        batch.error = None
        self._came_back(batch)
        self._finish(batch)

    def retry(self, batch: ProducerBatch, error: KafkaWireError, now_ms: int, pause_ms: float) -> None:
        """Report that a batch in flight failed with a retriable error; out of time or retries, it fails for good.

        Args:
            batch: goes back to its place in the queue.
            error: why it failed.
            now_ms: the current time, monotonic.
            pause_ms: how long no batch of the partition is sent.
        """
        batch.failures += 1
        if batch.failures > self._options.retries:
            self.fail(batch, error)
            return
        if now_ms >= batch.created_ms + self._options.delivery_timeout_ms:
            self.fail(batch, self._timed_out(batch, error))
            return
        batch.error = error
        queue = self._queues[batch.partition]
        queue.returned.append(batch)
        queue.not_before_ms = max(queue.not_before_ms, now_ms + int(pause_ms))
        self._came_back(batch)

    def fail(self, batch: ProducerBatch, error: KafkaWireError) -> None:
        """Report that a batch in flight failed for good."""
        batch.error = error
        self._came_back(batch)
        self._finish(batch)

    def expire(self, now_ms: int) -> None:
        """Fail batches that are past `delivery_timeout_ms` and not in flight."""
        for queue in list(self._sendable.values()):
            while queue.batches and now_ms >= queue.batches[0].created_ms + self._options.delivery_timeout_ms:
                batch = queue.batches.popleft()
                batch.sealed()
                batch.error = self._timed_out(batch, batch.error)
                self._finish(batch)
            self._note(queue)

    def abandon(self, error: KafkaWireError) -> None:
        """Fail everything that is not in flight."""
        for queue in self._queues.values():
            batches: Iterable[ProducerBatch] = [*queue.returned, *queue.batches]
            queue.returned.clear()
            queue.batches.clear()
            self._note(queue)
            for batch in batches:
                batch.error = error
                self._finish(batch)

    def _open(self, queue: PartitionQueue, size: int, now_ms: int) -> ProducerBatch:
        builder = BatchBuilder(max(self._options.batch_size, size + BATCH_HEADER_BYTES), self._options.compression)
        self._batches_made += 1
        batch = ProducerBatch(self._batches_made, queue.partition, builder, now_ms)
        batch.bytes_held = BATCH_HEADER_BYTES
        self.bytes_held += BATCH_HEADER_BYTES
        self._unfinished[batch.number] = batch
        queue.batches.append(batch)
        self._note(queue)
        return batch

    def _note(self, queue: PartitionQueue) -> None:
        """Update whether a queue has anything to send."""
        if queue.batches:
            self._sendable.setdefault(queue.partition, queue)
        else:
            self._sendable.pop(queue.partition, None)

    def _due_ms(self, queue: PartitionQueue, now_ms: int) -> int:
        """Return when the first batch of a queue may be sent."""
        if queue.returned:
            return now_ms + self._options.delivery_timeout_ms  # not before the others in flight have come back
        batch = queue.batches[0]
        lingers = batch is queue.open and batch.builder.size_bytes < self._options.batch_size
        ready_ms = batch.created_ms + self._options.linger_ms if lingers else batch.created_ms
        return max(ready_ms, queue.not_before_ms)

    def _came_back(self, batch: ProducerBatch) -> None:
        """Requeue returned batches in order once none of the partition is in flight."""
        queue = self._queues[batch.partition]
        queue.in_flight -= 1
        if queue.returned and not queue.in_flight:
            queue.batches.extendleft(sorted(queue.returned, key=lambda each: each.number, reverse=True))
            queue.returned.clear()
            self._note(queue)

    def _finish(self, batch: ProducerBatch) -> None:
        self.bytes_held -= batch.bytes_held
        del self._unfinished[batch.number]
        batch.done = True
        if batch.error is not None and not batch.observed and self.unobserved is None:
            self.unobserved = batch
        for call in batch.on_done:
            call()
        batch.on_done.clear()

    def _timed_out(self, batch: ProducerBatch, cause: KafkaWireError | None) -> DeliveryTimedOut:
        error = DeliveryTimedOut(
            f"{batch.builder.count} records for {batch.partition} were not acknowledged within "
            f"delivery_timeout_ms={self._options.delivery_timeout_ms}; {cause or 'nothing could be sent'}"
        )
        error.__cause__ = cause
        return error
