"""The record accumulator, shared by an application's threads and the sender.

`send` puts a record into the open batch of its partition. Through `news`, the sender learns about partitions with new
or full batches, and about records whose topic is not known yet. There is no lock: a signal handler or a finalizer can
interrupt a thread anywhere in this module and then wait for the sender, which would be blocked if that thread held a
lock (docs/decisions/0035-no-locks.md).

Source: Apache Kafka, `RecordAccumulator`, `BuiltInPartitioner`; KIP-480, KIP-794 (sticky and adaptive partitions).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import count as counted
from typing import Final

from kafkawire.sdk.client.options import ProducerOptions
from kafkawire.sdk.client.partitioner import ROUND_ROBIN, murmur2_partition
from kafkawire.sdk.errors import BufferFull, Closed, KafkaWireError, RecordTooLarge
from kafkawire.sdk.producer.arguments import (
    FILL_ONE_AFTER_THE_OTHER,
    TO_BE_CHOSEN,
    Held,
    PartitionerFailed,
    checked_partition,
    is_absent,
)
from kafkawire.sdk.producer.buffer_memory import BufferMemory
from kafkawire.sdk.producer.engine import Appender
from kafkawire.sdk.producer.outcome import Outcome
from kafkawire.sdk.producer.partition_queue import PartitionQueue, ProducerBatch
from kafkawire.sdk.producer.producer_topic import Arrivals, End, ProducerTopic
from kafkawire.sdk.protocol.tables.record_formats import BATCH_HEADER_BYTES
from kafkawire.sdk.records import BatchBuilder
from kafkawire.sdk.routing.partitions import TopicPartition
from kafkawire.sdk.routing.retry import Attempts, Backoff
from kafkawire.sdk.routing.topics import checked_topic
from kafkawire.sdk.transport.user_code import contained

__all__ = ["Accumulator"]

#: The memory that a new batch takes from `buffer_memory`; the batch doubles it whenever it needs more.
_FIRST_BYTES: Final = 1024


class Accumulator:
    """All unsettled records of a producer.

    Args:
        options: limits and timeouts.
        backoff: the pauses between attempts to send a batch.
        clock: returns the time.
        has_leader: returns whether a given partition of a topic has a leader.
        wake: makes the sender process `news`.

    Attributes:
        appender: appends records to open batches.
        news: partitions with a newly opened batch or a full oldest batch, and records that are waiting for their topic.
        term: increases with each transaction; records of one transaction are never sent in the next.
        unobserved: the first failed outcome that the application has not checked through a delivery.
        failed: the first outcome to fail since this attribute was last read and reset.
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
        self._memory = BufferMemory(options.buffer_memory)
        self._numbers = counted(1)
        self._closed: KafkaWireError | None = None
        self._term_error: KafkaWireError | None = None
        self._is_deaf = False
        self._level = options.compression_level
        self._largest_bytes = min(options.max_request_size, options.buffer_memory)
        partitioner = options.partitioner
        self.appender = Appender(self, partitioner is not None, spreads=partitioner == ROUND_ROBIN)
        self.topics: dict[str, ProducerTopic] = self.appender.topics  # type: ignore[assignment]  # all are made here
        self.news: deque[PartitionQueue | Held] = deque()
        self.term = 0
        self.unobserved: Outcome | None = None
        self.failed: Outcome | None = None

    @property
    def bytes_held(self) -> int:
        """The size in bytes of all records; at most `buffer_memory`, except while held records move into batches."""
        return self._memory.taken_bytes

    # The application's side.

    def take(self, record: Held, number: int) -> tuple[Outcome, int]:
        """Put a record into a batch, or hold it until its topic is known; see `Owner.take`.

        Raises:
            BufferFull: `buffer_memory` is used up.
            RecordTooLarge: the record does not fit into any request.
            LocalProtocolError: the topic or partition does not exist.
        """
        if BATCH_HEADER_BYTES + record.bound_bytes > self._largest_bytes:
            name = "max_request_size" if self._largest_bytes == self._options.max_request_size else "buffer_memory"
            raise RecordTooLarge(
                f"the record may take {record.bound_bytes} bytes, but {name}={self._largest_bytes} leaves room for "
                f"{self._largest_bytes - BATCH_HEADER_BYTES}"
            )
        try:
            term = self._current_term()
            topic = self.topics.get(record.topic)
            partitions = 0 if topic is None else topic.partitions
            if topic is None or is_absent(record.partition, partitions):
                topic, partitions = self._hold(record, term)
                if record.outcome is not None:
                    return record.outcome, 0
            if number == TO_BE_CHOSEN or number >= partitions:
                try:
                    number = self._choose(topic, record, partitions)
                except PartitionerFailed as error:
                    return self.refused(record, error.reason), 0
            while (place := self._append(topic, record, number, term)) is None:
                term = self._current_term()  # another transaction has begun
        except BaseException as error:
            if not isinstance(error, KafkaWireError):  # Ctrl-C, anywhere in between
                self._tell_again(record)
            raise
        return place

    def fill(self, name: str, values: Sequence[bytes | None], number: int | None, timestamp_ms: int) -> int:
        """Append records without keys or headers to the open batch of a partition, until one does not fit.

        Args:
            name: the topic's name.
            values: the values; None for a tombstone.
            number: the partition; None for the one that currently receives records without a key.
            timestamp_ms: milliseconds since the epoch.

        Returns:
            The number of appended records; 0 if `take` must open a batch first.
        """
        term = self.term
        topic = self.topics.get(name)
        if self.appender.refusal is not None or topic is None or not topic.partitions:
            return 0
        batch: ProducerBatch | None = topic.sticky if number is None else topic.open_batch(number)
        if batch is None or batch.term != term or not self._grow_to_limit(batch):
            return 0
        before_bytes = batch.used_bytes
        added = batch.append_many(values, timestamp_ms)
        if number is None:
            topic.sticky_bytes += batch.used_bytes - before_bytes
        return added

    def refused(self, record: Held, error: KafkaWireError) -> Outcome:
        """Return the outcome of a rejected record."""
        outcome = record.outcome or Outcome(TopicPartition(record.topic, -1))
        self.note_failure(outcome)
        outcome.fail(error)
        return outcome

    def _current_term(self) -> int:
        """Return the current term, or raise the reason why no records are accepted."""
        term = self.term
        if self.appender.refusal is not None:
            raise self.appender.refusal.again()
        return term

    def _hold(self, record: Held, term: int) -> tuple[ProducerTopic, int]:
        """Give a record an outcome and hold it until its topic and partition are known; do neither if they already are.

        Returns:
            The topic and its number of partitions.
        """
        record.topic = checked_topic(record.topic)
        size_bytes = BATCH_HEADER_BYTES + record.bound_bytes
        record.created_ms = self._clock()
        record.deadline_ms = record.created_ms + self._options.topic_limit[1]
        record.term = term
        self._memory.take(size_bytes, size_bytes)
        outcome = record.outcome = Outcome(TopicPartition(record.topic, -1))
        topic, partitions = self._arrived(record)
        if not is_absent(record.partition, partitions):
            self.release(size_bytes)
            record.outcome = None
        elif not self._tell(record):
            self.release(size_bytes)
            error = self._final_error()
            outcome.fail(error)
            raise error.again()
        return topic, partitions

    def _arrived(self, record: Held) -> tuple[ProducerTopic, int]:
        """Leave a record in the topic's arrivals for the sender, unless the topic now has the partition."""
        while True:
            topic = self.topics.get(record.topic) or self.topics.setdefault(record.topic, ProducerTopic(record.topic))
            arrivals: Arrivals | None = topic.arrivals  # read before `partitions`, which is set first
            partitions = topic.partitions
            while arrivals is not None:
                if not is_absent(record.partition, partitions):
                    return topic, partitions
                end = arrivals.add(record)
                if end is None:
                    return topic, partitions
                partitions, arrivals = end

    def _choose(self, topic: ProducerTopic, record: Held, count: int) -> int:
        """Choose the partition for a record by its content."""
        if record.partition is not None:
            return checked_partition(record.topic, record.partition, count)
        partitioner = self._options.partitioner
        if partitioner == ROUND_ROBIN:
            start = next(topic.round_robin)  # in a single step, because other threads send too
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

    def _append(
        self, topic: ProducerTopic, record: Held, number: int, term: int, *, is_held: bool = False
    ) -> tuple[Outcome, int] | None:
        """Put a record into the open batch of its partition, or into a new one.

        Even if other threads or signal handlers run in between, only the latest batch of a partition can be open, and a
        new batch is opened only after that one is closed, so a thread's records stay in order.

        Returns:
            The outcome of the batch and the record's index in it; None if the open batch belongs to a later term.
        """
        is_sticky = number == FILL_ONE_AFTER_THE_OTHER
        while True:
            if is_sticky:
                number = self._stick(topic)
            queue = topic.queues.get(number) or PartitionQueue(TopicPartition(topic.name, number))
            batch, index = queue.latest(), None
            before_bytes = BATCH_HEADER_BYTES
            if batch is None or batch.is_closed:
                batch, index = self._open(topic, queue, batch, record, term, is_held=is_held), 0
            elif batch.term > term:
                return None
            elif batch.term < term:  # the sender may not have been told about it
                self._close_full(topic, batch)
            elif self._grow(batch, batch.used_bytes + record.bound_bytes, is_held=is_held):
                before_bytes = batch.used_bytes
                index = batch.append(record.timestamp_ms, record.key, record.value, record.headers)
            else:
                self._close_full(topic, batch)
            if batch is None or index is None:
                continue
            if not batch.is_told:
                self._announce(batch)
            if batch.term != self.term:  # its transaction has ended, perhaps before the sender learned of the batch
                batch.close()
            topic.shown_open(batch, is_sticky=is_sticky)
            if is_sticky:
                topic.sticky_bytes += batch.used_bytes - before_bytes
            return batch.outcome, index

    def _open(
        self,
        topic: ProducerTopic,
        queue: PartitionQueue,
        former: ProducerBatch | None,
        record: Held,
        term: int,
        *,
        is_held: bool,
    ) -> ProducerBatch | None:
        """Open a batch with a record in it; return None if another batch was opened first."""
        needed_bytes = BATCH_HEADER_BYTES + record.bound_bytes
        options = self._options
        limit_bytes = max(options.batch_size, needed_bytes)
        wished_bytes = min(max(_FIRST_BYTES, needed_bytes, queue.usual_bytes), limit_bytes)
        admitted_bytes = self._take_memory(needed_bytes, wished_bytes, is_held=is_held)
        try:
            queue = topic.queues.setdefault(queue.partition.partition, queue)
            now_ms = self._clock()
            # The time limit of a record that waited for its topic runs from its arrival.
            created_ms = record.created_ms if is_held else now_ms
            builder = BatchBuilder(limit_bytes, options.compression, level=self._level)
            opened = self.new_batch(queue, builder, limit_bytes, created_ms, term=term)
            opened.grants, opened.admitted_bytes = [admitted_bytes], admitted_bytes
            opened.append(record.timestamp_ms, record.key, record.value, record.headers)
        except BaseException:
            self.release(admitted_bytes)
            raise
        if not queue.follow(former, opened):
            self.release(admitted_bytes)
            return None
        topic.used_ms = now_ms
        return opened

    def _announce(self, batch: ProducerBatch) -> None:
        """Tell the sender about an opened batch; telling it twice does no harm."""
        if not self._tell(batch.queue):
            batch.close()
            self._give_grants(batch)
            error = self._final_error()
            batch.outcome.fail(error)
            raise error.again()
        batch.is_told = True

    def _close_full(self, topic: ProducerTopic, batch: ProducerBatch) -> None:
        """Close a full batch; the next one takes all its memory at once, because growing costs as much as opening."""
        if batch.close():
            batch.is_full = True
            topic.shown_closed(batch)
            batch.queue.usual_bytes = batch.limit_bytes
            self._tell(batch.queue)

    def _stick(self, topic: ProducerTopic) -> int:
        """Return the current partition for records without a key; it changes after each batch's worth of records."""
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

    # Batches and their memory.

    def new_batch(
        self,
        queue: PartitionQueue,
        builder: BatchBuilder,
        limit_bytes: int,
        created_ms: int,
        order: tuple[int, ...] | None = None,
        term: int = 0,
    ) -> ProducerBatch:
        """Return a new batch whose time limit runs from `created_ms`; it is ordered last unless an `order` is given."""
        if order is None:
            order = (next(self._numbers),)
        attempts = Attempts(self._backoff, created_ms + self._options.delivery_timeout_ms, self._options.retries)
        return ProducerBatch(queue, order, builder, attempts, limit_bytes, created_ms, term)

    def parts_of(self, batch: ProducerBatch) -> list[ProducerBatch]:
        """Split a batch into batches of half its size, to be sent in its place."""
        limit_bytes = max(batch.used_bytes // 2, BATCH_HEADER_BYTES)
        parts = [
            self.new_batch(batch.queue, builder, limit_bytes, batch.created_ms, (*batch.order, number), batch.term)
            for number, builder in enumerate(batch.parts(limit_bytes))
        ]
        for part in parts:
            part.close()
            part.is_trimmed, part.kept_bytes = True, part.used_bytes
        return parts

    def _grow(self, batch: ProducerBatch, needed_bytes: int, *, is_held: bool) -> bool:
        """Grow an open batch to a size in bytes; return whether that is allowed.

        Raises:
            BufferFull: `buffer_memory` is used up.
        """
        held_bytes = batch.admitted_bytes
        if needed_bytes <= held_bytes:
            return True
        if needed_bytes > batch.limit_bytes:
            return False
        wished_bytes = min(max(2 * held_bytes, needed_bytes), batch.limit_bytes)
        batch.grants.append(self._take_memory(needed_bytes - held_bytes, wished_bytes - held_bytes, is_held=is_held))
        if batch.is_closed:  # its memory may already have been given back
            self._give_grants(batch)
        else:
            batch.admitted_bytes = sum(batch.grants)
        return True

    def _grow_to_limit(self, batch: ProducerBatch) -> bool:
        """Grow a batch to its limit; return whether there is room."""
        try:
            return self._grow(batch, batch.limit_bytes, is_held=False)
        except BufferFull:
            return False

    def _take_memory(self, needed_bytes: int, wished_bytes: int, *, is_held: bool) -> int:
        if is_held:  # it was admitted on arrival
            self._memory.add(needed_bytes)
            return needed_bytes
        return self._memory.take(needed_bytes, wished_bytes)

    def _give_grants(self, batch: ProducerBatch) -> None:
        """Return the memory by which a batch grew; each grant is returned only once, even if several threads try."""
        while batch.grants:
            with suppress(IndexError):
                self.release(batch.grants.pop())

    def _tell(self, what: PartitionQueue | Held) -> bool:
        """Give the sender news; return whether the sender will read it."""
        self.news.append(what)
        if self._is_deaf:
            try:
                self.news.remove(what)
            except ValueError:  # the sender read the news before it ended
                return True
            return False
        self._wake()
        return True

    def _tell_again(self, record: Held) -> None:
        """Tell the sender everything about a record's topic, because it may have missed the latest change."""
        topic = self.topics.get(record.topic)
        if topic is not None:
            self.news.extend(topic.queues.values())
            if record in topic.arrivals:
                self.news.append(record)
        self._wake()

    def _final_error(self) -> KafkaWireError:
        refusal = self.appender.refusal
        return Closed("the producer is closed") if refusal is None else refusal.again()

    # The sender's side.

    def close(self, batch: ProducerBatch) -> None:
        """Close a batch to further records, and give back the memory that it does not need."""
        batch.close()
        batch.queue.let_go(batch)
        if batch.is_trimmed:
            return
        batch.is_trimmed = True
        topic = self.topics.get(batch.queue.partition.topic)
        if topic is not None:
            topic.shown_closed(batch)
        used_bytes = batch.used_bytes
        self._memory.add(used_bytes)
        self._give_grants(batch)
        batch.kept_bytes = batch.admitted_bytes = used_bytes
        if not batch.is_full:
            batch.queue.usual_bytes = used_bytes

    def outdated(self, term: int) -> KafkaWireError | None:
        """Return the error for a record from an earlier term; None for a record from the current term."""
        return None if term == self.term else self._term_error

    def forget(self, name: str) -> None:
        """Make the topic's next record wait until the topic is known again."""
        topic = self.topics[name]
        topic.partitions = 0
        topic.sticky = None
        if topic.open or topic.held:
            return  # its sequence numbers are needed once it is known again, or a thread is about to open a batch
        del self.topics[name]
        late = topic.arrivals.close(End(0, None))
        if late:
            self.topics.setdefault(name, ProducerTopic(name)).held += late

    def release(self, size_bytes: int) -> None:
        """Give back memory."""
        self._memory.give(size_bytes)

    def put_back(self, batch: ProducerBatch) -> None:
        """Put a batch back into its place among the waiting batches."""
        batch.queue.put_back(batch)

    def place_held(
        self,
        topic: ProducerTopic,
        count: int,
        moved: Callable[[Outcome, Outcome], None],
        ended: Callable[[Outcome], None],
    ) -> None:
        """Put the records that waited for a topic into batches before admitting other records, to preserve the order.

        A record for a missing partition keeps waiting: the partition may be so new that not every broker knows it.

        A recreated topic can have fewer partitions than before: records for the missing ones stay in their queues,
        which no longer have a leader.

        Args:
            topic: the topic whose records wait.
            count: its number of partitions.
            moved: called with the outcome of a record and the outcome of its batch.
            ended: called with the outcome of a record that no partition accepts.
        """
        topic.partitions = min(topic.partitions, count)
        for number, queue in list(topic.queues.items()):
            if number >= count and (batch := queue.latest()) is not None:
                self.close(batch)
        if count < len(topic.open):
            del topic.open[count:]
        else:
            topic.open.extend([None] * (count - len(topic.open)))
        absent: deque[Held] = deque()
        while True:
            topic.gather()
            if topic.held:
                record = topic.held.popleft()
                if record.outcome is None or record.outcome.done:
                    continue
                if is_absent(record.partition, count):
                    absent.append(record)
                else:
                    self._place(topic, record, record.outcome, count, moved, ended)
                continue
            others = Arrivals()
            if topic.arrivals.close_if_empty(End(count, others)):
                topic.held = absent
                topic.partitions = count  # set before `arrivals`, which other threads read first
                topic.arrivals = others
                return

    def _place(
        self,
        topic: ProducerTopic,
        record: Held,
        outcome: Outcome,
        count: int,
        moved: Callable[[Outcome, Outcome], None],
        ended: Callable[[Outcome], None],
    ) -> None:
        """Put a record that waited for its topic into a batch."""
        error, number = self.outdated(record.term), TO_BE_CHOSEN
        try:
            number = self._choose(topic, record, count)
        except PartitionerFailed as failed:
            error = error or failed.reason
        if error is None:
            place = self._append(topic, record, number, record.term, is_held=True)
            assert place is not None, "only this side begins a term"
            self.release(BATCH_HEADER_BYTES + record.bound_bytes)
            moved(outcome, place[0])
            outcome.move([place])
        else:
            self._give_up(record, error)
            ended(outcome)

    def give_up_held(self, record: Held, error: KafkaWireError) -> None:
        """Fail a record that is waiting for its topic."""
        self._give_up(record, error)
        topic = self.topics.get(record.topic)
        if topic is not None:
            topic.gather()
            while topic.held and topic.held[0].outcome is not None and topic.held[0].outcome.done:
                topic.held.popleft()

    def _give_up(self, record: Held, error: KafkaWireError) -> None:
        self.release(BATCH_HEADER_BYTES + record.bound_bytes)
        self.refused(record, error)

    def note_failure(self, outcome: Outcome) -> None:
        """Remember the first failure, for the end of a transaction and, if nobody has checked it, for `flush`."""
        self.failed = self.failed or outcome
        if self.unobserved is None or self.unobserved.observed:
            self.unobserved = outcome

    def end_term(self, error: KafkaWireError) -> None:
        """Begin the next term; records of earlier terms that the sender has not seen yet fail with the error."""
        self._term_error = error
        self.term += 1

    def refuse(self, error: KafkaWireError | None) -> None:
        """Stop or resume accepting records; a closed producer stays closed."""
        if isinstance(error, Closed):
            self._closed = error
        self.appender.refusal = error
        if self._closed is not None:  # perhaps just now
            self.appender.refusal = self._closed

    def refuse_all(self, error: KafkaWireError) -> None:
        """Stop accepting records and news; a record that is not yet in the news is never sent."""
        self._closed = self._closed or error
        self.appender.refusal = self.appender.refusal or error
        for topic in list(self.topics.values()):
            topic.sticky = None
            topic.open[:] = [None] * len(topic.open)
        self._is_deaf = True
