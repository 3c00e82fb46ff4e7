"""Records on their way into batches: the structure that an application's threads and the sender share.

`send` puts a record into the open batch of its partition; the sender learns by `news` of new and full batches, and of
records whose topic is not known yet. One lock keeps them apart; the native engine appends without it while the open
batch has room, since nothing else runs in between.

Source: Apache Kafka, `RecordAccumulator`, `BuiltInPartitioner`; KIP-480, KIP-794 (sticky and adaptive partitions).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from threading import RLock
from typing import Final

from kafkawire.sdk.client.options import ProducerOptions
from kafkawire.sdk.client.partitioner import ROUND_ROBIN, murmur2_partition
from kafkawire.sdk.client.partitions import TopicPartition
from kafkawire.sdk.client.retry import Attempts, Backoff
from kafkawire.sdk.client.topics import checked_topic
from kafkawire.sdk.errors import BufferFull, Closed, KafkaWireError, LocalProtocolError, RecordTooLarge
from kafkawire.sdk.producer.batch import ProducerBatch
from kafkawire.sdk.producer.contents import (
    FILL_ONE_AFTER_THE_OTHER,
    TO_BE_CHOSEN,
    Held,
    PartitionerFailed,
    checked_partition,
    is_absent,
)
from kafkawire.sdk.producer.engine import Appender
from kafkawire.sdk.producer.outcome import Outcome
from kafkawire.sdk.producer.partition_queue import PartitionQueue
from kafkawire.sdk.producer.producer_topic import ProducerTopic
from kafkawire.sdk.protocol.tables.record_formats import BATCH_HEADER_BYTES
from kafkawire.sdk.records import BatchBuilder
from kafkawire.sdk.transport.user_code import contained

__all__ = ["Accumulator"]

#: What a batch takes of `buffer_memory` at first; it takes twice as much whenever that is not enough.
_FIRST_BYTES: Final = 1024


class Accumulator:
    """All records of a producer that are not settled yet.

    Args:
        options: limits and timeouts.
        backoff: between the attempts at a batch.
        clock: returns the time.
        has_leader: returns whether a partition of a topic has one.
        wake: has the sender look at the news.

    Attributes:
        appender: takes the records.
        news: batches that were opened, partitions whose oldest batch is full, records that wait for their topic.
        bytes_held: of all of these; at most `buffer_memory`.
        unobserved: the first error of a record that nobody has asked for.
        failed: the first outcome that ended with an error since somebody took it from here.
    """

    def __init__(
        self,
        options: ProducerOptions,
        backoff: Backoff,
        clock: Callable[[], int],
        has_leader: Callable[[str, int], bool],
        wake: Callable[[], None],
    ) -> None:
        self._options = options
        self._backoff = backoff
        self._clock = clock
        self._has_leader = has_leader
        self._wake = wake
        self._lock = RLock()
        self._batches_made = 0
        self._largest_bytes = min(options.max_request_size, options.buffer_memory)
        partitioner = options.partitioner
        self.appender = Appender(self, partitioner is not None, spreads=partitioner == ROUND_ROBIN)
        self.topics: dict[str, ProducerTopic] = self.appender.topics  # type: ignore[assignment]  # all are made here
        self.news: deque[ProducerBatch | PartitionQueue | Held] = deque()
        self.bytes_held = 0
        self.unobserved: Outcome | None = None
        self.failed: Outcome | None = None

    # The user's side.

    def take(self, record: Held, number: int) -> tuple[Outcome, int]:
        """Put a record into a batch, or hold it while its topic is not known; see `Owner.take`.

        Raises:
            BufferFull: `buffer_memory` is used up.
            RecordTooLarge: no request could carry the record.
            LocalProtocolError: there is no such topic or partition.
        """
        if BATCH_HEADER_BYTES + record.bound_bytes > self._largest_bytes:
            name = "max_request_size" if self._largest_bytes == self._options.max_request_size else "buffer_memory"
            raise RecordTooLarge(
                f"record of up to {record.bound_bytes} bytes, {name}={self._largest_bytes} leaves "
                f"{self._largest_bytes - BATCH_HEADER_BYTES}"
            )
        try:
            while True:
                topic = self.topics.get(record.topic)
                if topic is None or is_absent(record.partition, topic.partitions):
                    with self._lock:
                        self._check()
                        outcome = self._hold(record)
                    if outcome is not None:
                        return outcome, 0
                    continue
                if number == TO_BE_CHOSEN:
                    try:
                        number = self._choose(topic, record, topic.partitions)
                    except PartitionerFailed as error:
                        return self.refused(record, error.reason), 0
                with self._lock:
                    self._check()
                    if number < topic.partitions:  # it is not 0 either: the topic has not been forgotten meanwhile
                        return self._append(topic, record, number)
                number = TO_BE_CHOSEN
        except BaseException as error:
            if not isinstance(error, KafkaWireError):  # Ctrl-C, anywhere in between
                self._tell_again(record.topic)
            raise

    def fill(self, name: str, values: Sequence[bytes | None], number: int | None, timestamp_ms: int) -> int:
        """Append records without keys and headers to the open batch of a partition, until one does not fit.

        Args:
            name: of the topic.
            values: None for a tombstone.
            number: of the partition; None for the one that such records go to now.
            timestamp_ms: milliseconds since the epoch.

        Returns:
            How many were appended; 0 if `take` must open a batch first.
        """
        with self._lock:
            topic = self.topics.get(name)
            if topic is None or not topic.partitions or self.appender.refusal is not None:
                return 0
            batch: ProducerBatch | None = topic.sticky if number is None else topic.open_batch(number)
            if batch is None or not self._grow(batch, batch.limit_bytes, partly=False):
                return 0
            before_bytes = batch.used_bytes
            added = batch.builder.append_many(values, timestamp_ms)
            batch.used_bytes = batch.builder.size_bytes
            if number is None:
                topic.sticky_bytes += batch.used_bytes - before_bytes
            return added

    def refused(self, record: Held, error: KafkaWireError) -> Outcome:
        """Return the outcome of a record that goes nowhere."""
        outcome = record.outcome or Outcome(TopicPartition(record.topic, -1))
        self.note_failure(outcome)
        outcome.fail(error)
        return outcome

    def _check(self) -> None:
        if self.appender.refusal is not None:
            raise self.appender.refusal.again()

    def _hold(self, record: Held) -> Outcome | None:
        """Keep a record until its topic, or partition, is known; return None if it is known by now."""
        topic = self.topics.get(record.topic)
        if topic is not None and not is_absent(record.partition, topic.partitions):
            return None
        record.topic = checked_topic(record.topic)
        now_ms = self._clock()
        self._admit(BATCH_HEADER_BYTES + record.bound_bytes, BATCH_HEADER_BYTES + record.bound_bytes)
        if topic is None:
            topic = self.topics[record.topic] = ProducerTopic(record.topic)
        record.outcome = Outcome(TopicPartition(record.topic, -1))
        record.deadline_ms = now_ms + self._options.delivery_timeout_ms
        topic.held.append(record)
        self._tell(record)
        return record.outcome

    def _choose(self, topic: ProducerTopic, record: Held, count: int) -> int:
        """Return the partition of a record, by what it holds."""
        if record.partition is not None:
            return checked_partition(record.topic, record.partition, count)
        partitioner = self._options.partitioner
        if partitioner == ROUND_ROBIN:
            start = next(topic.turns)  # in one step: other threads send, too
            numbers = ((start + step) % count for step in range(count))
            return next((number for number in numbers if self._has_leader(topic.name, number)), start % count)
        if record.key is None:
            return FILL_ONE_AFTER_THE_OTHER
        if partitioner is None:
            return murmur2_partition(record.key, count)
        try:
            return checked_partition(record.topic, partitioner(record.key, count), count)
        except BaseException as error:
            failure = PartitionerFailed.of(record.key, error)
            failure.reason.__cause__ = contained(error)
            raise failure from error

    def _append(self, topic: ProducerTopic, record: Held, number: int) -> tuple[Outcome, int]:
        is_sticky = number == FILL_ONE_AFTER_THE_OTHER
        opened = None
        while True:
            if is_sticky:
                number = self._stick(topic)
            batch: ProducerBatch | None = topic.open[number]
            if batch is None:
                # What waited for its topic has waited since then.
                held_ms = record.deadline_ms - self._options.delivery_timeout_ms if record.outcome else None
                batch = opened = self._new(topic, number, record.bound_bytes, held_ms)
                break
            if self._grow(batch, batch.used_bytes + record.bound_bytes, partly=True):
                break
            self.close(batch)
            batch.queue.usual_bytes = batch.limit_bytes  # asked for at once: to grow later costs as much as a new batch
            self._tell(batch.queue)
        before_bytes = batch.used_bytes
        index = batch.builder.append(record.timestamp_ms, record.key, record.value, record.headers)
        assert index is not None, "the batch has room for it"
        batch.used_bytes = batch.builder.size_bytes
        if opened is not None:  # only now: a batch without a record must not be seen, whatever interrupts this
            topic.open[number] = opened
            opened.queue.waiting.append(opened)
            self._tell(opened)
        if is_sticky:
            topic.sticky = batch
            topic.sticky_bytes += batch.used_bytes - before_bytes
        return batch.outcome, index

    def _stick(self, topic: ProducerTopic) -> int:
        """Return the partition that records without a key go to now: one after the other gets a batch's worth."""
        number = topic.sticky_partition
        if topic.sticky is not None:
            return number
        count = len(topic.open)
        if (
            not 0 <= number < count
            or topic.sticky_bytes >= self._options.batch_size
            or not self._has_leader(topic.name, number)
        ):
            number = topic.sticky_partition = topic.less_busy(self._backoff.fraction, self._has_leader)
            topic.sticky_bytes = 0
        return number

    # Batches and their memory; under the lock.

    def _new(self, topic: ProducerTopic, number: int, bound_bytes: int, created_ms: int | None) -> ProducerBatch:
        needed_bytes = BATCH_HEADER_BYTES + bound_bytes
        options = self._options
        limit_bytes = max(options.batch_size, needed_bytes)
        queue = topic.queues.get(number)
        if queue is None:
            queue = PartitionQueue(TopicPartition(topic.name, number))
        wished_bytes = min(max(_FIRST_BYTES, needed_bytes, queue.usual_bytes), limit_bytes)
        admitted_bytes = self._admit(needed_bytes, wished_bytes)
        topic.queues[number] = queue
        builder = BatchBuilder(limit_bytes, options.compression)
        now_ms = self._clock()
        batch = self.new_batch(queue, builder, limit_bytes, now_ms if created_ms is None else created_ms)
        batch.admitted_bytes = admitted_bytes
        topic.used_ms = now_ms
        return batch

    def new_batch(
        self,
        queue: PartitionQueue,
        builder: BatchBuilder,
        limit_bytes: int,
        created_ms: int,
        order: tuple[int, ...] | None = None,
    ) -> ProducerBatch:
        """Return a batch that counts from `created_ms`; the latest one, unless an `order` is given."""
        if order is None:
            self._batches_made += 1
            order = (self._batches_made,)
        attempts = Attempts(self._backoff, created_ms + self._options.delivery_timeout_ms, self._options.retries)
        return ProducerBatch(queue, order, builder, attempts, limit_bytes, created_ms)

    def parts_of(self, batch: ProducerBatch) -> list[ProducerBatch]:
        """Return batches of half the size with the records of one, to be sent in its place."""
        limit_bytes = max(batch.used_bytes // 2, BATCH_HEADER_BYTES)
        return [
            self.new_batch(batch.queue, builder, limit_bytes, batch.created_ms, (*batch.order, number))
            for number, builder in enumerate(batch.parts(limit_bytes))
        ]

    def _grow(self, batch: ProducerBatch, needed_bytes: int, *, partly: bool) -> bool:
        """Have an open batch hold so many bytes; return whether it may.

        Args:
            needed_bytes: its size then.
            partly: whether to raise `BufferFull` if there is no room; otherwise the answer is no.
        """
        if needed_bytes <= batch.admitted_bytes:
            return True
        if needed_bytes > batch.limit_bytes:
            return False
        held_bytes = batch.admitted_bytes
        wished_bytes = min(max(2 * held_bytes, needed_bytes), batch.limit_bytes)
        if not partly and self.bytes_held + needed_bytes - held_bytes > self._options.buffer_memory:
            return False
        batch.admitted_bytes += self._admit(needed_bytes - held_bytes, wished_bytes - held_bytes)
        return True

    def _admit(self, needed_bytes: int, wished_bytes: int) -> int:
        """Take memory: as much as wished, or as needed, and return how much it was."""
        room_bytes = self._options.buffer_memory - self.bytes_held
        if needed_bytes > room_bytes:
            raise BufferFull(
                f"{self.bytes_held} bytes are not acknowledged yet, {needed_bytes} more exceed buffer_memory="
                f"{self._options.buffer_memory}; wait with producer.drain() and send again, or use send_many"
            )
        taken_bytes = min(wished_bytes, room_bytes)
        self.bytes_held += taken_bytes
        return taken_bytes

    def _tell(self, what: ProducerBatch | PartitionQueue | Held) -> None:
        self.news.append(what)
        self._wake()

    def _tell_again(self, name: str) -> None:
        """Tell all about a topic: the sender may not have heard of the last thing that happened there."""
        topic = self.topics.get(name)
        if topic is not None:
            with self._lock:
                self.news.extend([*topic.held, *(each for queue in topic.queues.values() for each in queue.waiting)])
        self._wake()

    # The sender's side.

    def close(self, batch: ProducerBatch) -> None:
        """Have a batch take no more records, and give back the memory that it does not need."""
        if batch.is_closed:
            return
        with self._lock:
            number = batch.queue.partition.partition
            topic = self.topics.get(batch.queue.partition.topic)
            if topic is not None:
                if number < len(topic.open) and topic.open[number] is batch:
                    topic.open[number] = None
                if topic.sticky is batch:
                    topic.sticky = None
            self.bytes_held -= batch.admitted_bytes - batch.used_bytes
            batch.admitted_bytes = batch.queue.usual_bytes = batch.used_bytes
            batch.is_closed = True

    def is_open(self, batch: ProducerBatch) -> bool:
        """Return whether a batch takes records."""
        name, number = batch.queue.partition
        topic = self.topics.get(name)
        return topic is not None and number < len(topic.open) and topic.open[number] is batch

    def forget(self, name: str) -> None:
        """Have the next record of a topic wait until it is known again."""
        with self._lock:
            topic = self.topics[name]
            topic.partitions = 0
            topic.sticky = None
            if not any(queue.sequences.producer is not None for queue in topic.queues.values()) and not topic.held:
                del self.topics[name]  # no sequence number is needed again

    def release(self, size_bytes: int) -> None:
        """Give back memory."""
        with self._lock:
            self.bytes_held -= size_bytes

    def put_back(self, batch: ProducerBatch) -> None:
        """Put a batch back among those that wait, in its place."""
        with self._lock:
            batch.queue.put_back(batch)

    def place_held(
        self,
        topic: ProducerTopic,
        count: int,
        moved: Callable[[Outcome, Outcome], None],
        ended: Callable[[Outcome], None],
    ) -> None:
        """Put the records that waited for a topic into batches, then let others in: the order is kept.

        A topic that was created again may have fewer partitions than before: what was for the others stays in their
        queues, which have no leader any more.

        Args:
            topic: whose records wait.
            count: of its partitions.
            moved: called with the outcome of a record and that of its batch.
            ended: called with the outcome of a record that no partition takes.
        """
        with self._lock:
            topic.partitions = min(topic.partitions, count)
            for batch in filter(None, topic.open[count:]):
                self.close(batch)
            del topic.open[count:]
            topic.open.extend([None] * (count - len(topic.open)))
        while True:
            with self._lock:
                if not topic.held:
                    topic.partitions = count
                    return
                record = topic.held.popleft()
            outcome = record.outcome
            if outcome is None or outcome.done:
                continue
            try:
                number = self._choose(topic, record, count)
            except (PartitionerFailed, LocalProtocolError) as error:
                self._give_up(record, error.reason if isinstance(error, PartitionerFailed) else error)
                ended(outcome)
            else:
                with self._lock:
                    self.bytes_held -= BATCH_HEADER_BYTES + record.bound_bytes
                    place = self._append(topic, record, number)
                moved(outcome, place[0])
                outcome.move([place])

    def give_up_held(self, record: Held, error: KafkaWireError) -> None:
        """Fail a record that waits for its topic."""
        self._give_up(record, error)
        topic = self.topics[record.topic]
        with self._lock:
            while topic.held and topic.held[0].outcome is not None and topic.held[0].outcome.done:
                topic.held.popleft()

    def _give_up(self, record: Held, error: KafkaWireError) -> None:
        self.release(BATCH_HEADER_BYTES + record.bound_bytes)
        self.refused(record, error)

    def note_failure(self, outcome: Outcome) -> None:
        """Remember the first failure: for `flush`, in case nobody asks for it, and for the end of a transaction."""
        self.failed = self.failed or outcome
        if self.unobserved is None or self.unobserved.observed:
            self.unobserved = outcome

    def refuse(self, error: KafkaWireError | None) -> None:
        """Take no records for now, or take them again; a producer that is closed stays so."""
        with self._lock:
            if not isinstance(self.appender.refusal, Closed):
                self.appender.refusal = error

    def refuse_all(self, error: KafkaWireError) -> None:
        """Take no records from now on."""
        with self._lock:
            self.appender.refusal = self.appender.refusal or error
            for topic in self.topics.values():
                topic.sticky = None
                topic.open[:] = [None] * len(topic.open)
