"""The machine that sends batches: it decides which batch goes to which leader, and when, and handles the results.

It learns about batches from the accumulator's news, groups them by leader, and settles each outcome once, no later than
its deadline, whether the batch is waiting, lingering or in flight. `_judge`, not the router, decides whether to send a
batch again: a request holds batches of many partitions with separate outcomes, and the next attempt may go to another
leader, in another request, after the batches that precede it.

Source: Apache Kafka, `Sender`, `RecordAccumulator`.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Iterator
from functools import partial
from heapq import heappop, heappush
from itertools import count
from typing import Final

from kafkawire.sdk.client.options import ProducerOptions
from kafkawire.sdk.errors import BrokerError, Closed, DeliveryTimedOut, KafkaWireError, TransactionAborted
from kafkawire.sdk.log_limit import LogLimit
from kafkawire.sdk.producer.accumulator import Accumulator
from kafkawire.sdk.producer.arguments import Held
from kafkawire.sdk.producer.identity import ProducerIdentity
from kafkawire.sdk.producer.outcome import Outcome
from kafkawire.sdk.producer.partition_queue import PartitionQueue, ProducerBatch
from kafkawire.sdk.producer.producer_metrics import ProducerMetrics
from kafkawire.sdk.producer.requests import Result, produce_request, results, timed_out
from kafkawire.sdk.producer.settings import DRAINED_FRACTION
from kafkawire.sdk.producer.topic_registry import TopicRegistry
from kafkawire.sdk.producer.transactions.partitions import TransactionPartitions
from kafkawire.sdk.producer.waiters import Waiters
from kafkawire.sdk.protocol.messages.produce import ProduceResponse
from kafkawire.sdk.protocol.schema import Message
from kafkawire.sdk.protocol.tables.enums import NO_SEQUENCE, Acks
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.routing.call import Call, Node
from kafkawire.sdk.routing.retry import is_refusal, outdates_metadata
from kafkawire.sdk.routing.router import Router
from kafkawire.sdk.transport.driver_interface import NextPoll, Versions
from kafkawire.sdk.transport.promise import Promise

__all__ = ["Schedule", "Sender", "UnsettledBatches", "outcome_of"]

logger = logging.getLogger("kafkawire.producer")

#: The codes with which a broker rejects a batch as too large; half of the batch may be accepted.
_TOO_LARGE: Final = frozenset({ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE})

#: How long after `request_timeout_ms` the router ends a request, as a fallback in case the connection does not.
_GRACE_MS: Final = 1_000


class Sender:
    """Send the batches of an accumulator.

    Args:
        options: the producer's options.
        router: sends the requests.
        accumulator: holds the batches.
        identity: provides the producer id.
        transaction: decides to which partitions batches may be sent; None for a producer without transactions.
    """

    def __init__(
        self,
        options: ProducerOptions,
        router: Router,
        accumulator: Accumulator,
        identity: ProducerIdentity,
        transaction: TransactionPartitions | None = None,
    ) -> None:
        self._options = options
        self._router = router
        self._accumulator = accumulator
        self._identity = identity
        self._transaction = transaction
        self._schedule = Schedule()
        self._waiters = Waiters()
        self._topics = TopicRegistry(options, router, accumulator, self._ended, self._moved)
        self._unsettled = UnsettledBatches()
        self._in_flight: dict[int, int] = {}
        self._without_id: dict[PartitionQueue, None] = {}
        self._seen_changes = -1
        self._lines = LogLimit(logger)
        self._metrics = ProducerMetrics(
            router.metrics, options, accumulator, lambda: sum(list(self._in_flight.values()))
        )
        self._failed: KafkaWireError | None = None

    # The producer's requests.

    def flush(self, promise: Promise[None], now_ms: int) -> None:
        """Send everything without lingering, and keep the promise once everything is settled."""
        self.hurry(now_ms)
        if self._failed is not None:
            promise.fail(self._failed)
            return
        self._waiters.await_all(promise, self._unsettled.items)

    def drain(self, promise: Promise[None], now_ms: int) -> None:
        """Keep the promise once at least half of `buffer_memory` is free."""
        self._hear(now_ms)
        if self._failed is not None:
            promise.fail(self._failed)
            return
        self._waiters.await_room(promise, int(self._options.buffer_memory * DRAINED_FRACTION))

    # The transaction machine's requests.

    @property
    def is_settled(self) -> bool:
        """Whether every record has its outcome and no request is waiting for a response."""
        return not self._unsettled.items and self.is_silent

    @property
    def is_silent(self) -> bool:
        """Whether all requests have ended, with or without a response."""
        return not self._in_flight

    def hurry(self, now_ms: int) -> None:
        """Stop all batches from lingering."""
        self._hear(now_ms)
        for item in list(self._unsettled.items.values()):
            if isinstance(item, ProducerBatch) and not item.is_closed:
                self._accumulator.close(item)
                self._place(item.queue, now_ms)

    def abandon(self, error: KafkaWireError, now_ms: int) -> None:
        """Fail all records that are not on their way to a broker."""
        self._hear(now_ms)
        for item in list(self._unsettled.items.values()):
            if isinstance(item, Held):
                self._topics.abandon(item, error, now_ms)
            elif not item.on_wire:
                self._give_up(item, error, now_ms)

    # Machine.

    def poll(self, now_ms: int) -> None:
        """Do the work that is due."""
        self._hear(now_ms)
        self._identity.poll(now_ms)
        self._follow_identity(now_ms)
        for queue in self._transaction.take_added() if self._transaction is not None else ():
            self._place(queue, now_ms)
        self._follow_metadata(now_ms)
        self._expire(now_ms)
        for queue in self._schedule.due(now_ms):
            self._place(queue, now_ms)
        self._waiters.room(self._accumulator.bytes_held)
        if self._waiters.awaits_room and not self._schedule.ready and not self._in_flight:
            self.hurry(now_ms)  # only this makes room; until it is needed, a batch may as well keep filling
        self._dispatch(now_ms)

    def due_ms(self, now_ms: int) -> int | None:
        """Return when to poll again if nothing happens before then."""
        times = (
            self._schedule.due_ms(),
            self._topics.due_ms(),
            self._unsettled.due_ms(),
            self._identity.due_ms(now_ms),
        )
        return min((due_ms for due_ms in times if due_ms is not None), default=None)

    def fail(self, error: KafkaWireError, now_ms: int) -> None:
        """Fail all unsettled records."""
        self._failed = error
        self._identity.fail(error)
        self._accumulator.refuse_all(error)
        self._hear(now_ms)
        for item in list(self._unsettled.items.values()):
            if isinstance(item, Held):
                self._accumulator.give_up_held(item, error)
                self._ended(outcome_of(item))
            else:
                item.queue.remove(item)
                self._settle(item, error, now_ms)
        self._waiters.fail(error)

    # New batches and records.

    def _hear(self, now_ms: int) -> None:
        news = self._accumulator.news
        while news:
            try:
                item = news.popleft()
            except IndexError:  # the thread that added it has taken it back, because the producer has ended
                return
            if isinstance(item, PartitionQueue):
                for batch in item.gather():
                    self._unsettled.add(batch)
                    if (error := self._accumulator.outdated(batch.term)) is not None:
                        self._give_up(batch, error, now_ms)
                if item.node_id is None:  # otherwise it already waits for its leader
                    self._place(item, now_ms)
                continue
            outcome = outcome_of(item)
            if outcome.done or outcome.places is not None or outcome in self._unsettled.items:
                continue  # its topic has since become known, or the news came twice
            self._unsettled.add(item)
            if (error := self._accumulator.outdated(item.term)) is None:
                self._topics.want(item.topic, now_ms)
            else:
                self._topics.abandon(item, error, now_ms)

    def _follow_metadata(self, now_ms: int) -> None:
        changes = self._router.metadata.changes
        if changes == self._seen_changes:
            self._topics.poll(now_ms, changed=False)
            return
        self._seen_changes = changes
        self._topics.poll(now_ms, changed=True)
        self._hear(now_ms)
        if self._waiters.flushes:  # the flushes began before these batches existed
            self.hurry(now_ms)
        for queue in self._schedule.placed:
            self._place(queue, now_ms)

    # Where each partition waits.

    def _place(self, queue: PartitionQueue, now_ms: int) -> None:
        """Put a partition into the place where its oldest batch must wait."""
        if not queue.waiting or not self._may_send(queue):
            self._schedule.take_out(queue)
            return
        batch = queue.waiting[0]
        due_ms = batch.attempts.not_before_ms
        if len(queue.waiting) == 1 and not batch.is_closed:
            due_ms = max(due_ms, batch.created_ms + self._options.linger_ms)
        if due_ms > now_ms:
            self._schedule.put_later(queue, due_ms)
            return
        leader = self._router.metadata.leader(queue.partition)
        if leader is None:
            self._topics.miss(queue.partition.topic, now_ms)
        self._schedule.put_ready(queue, leader)

    def _may_send(self, queue: PartitionQueue) -> bool:
        """Return whether the sequence number of a partition's oldest batch allows sending it.

        This includes a batch that must wait for a producer id: `_dispatch` connects to its leader in the meantime.
        """
        identity, transaction = self._identity, self._transaction
        sequences = queue.sequences
        if not identity.enabled:
            return True
        if transaction is not None and not transaction.may_send(queue):
            return False
        if sequences.needs_epoch and not (queue.on_wire and sequences.batches):
            if sequences.producer == identity.current and not identity.raise_epoch() and not sequences.is_forgotten:
                return False
            if identity.current is not None:
                logger.info("%s: sequence numbers restart with epoch %d", queue.partition, identity.current.epoch)
                sequences.restart(identity.current)
        if identity.current is None:
            self._without_id[queue] = None
            return True
        return sequences.may_send(queue.waiting[0], identity.current)

    def _follow_identity(self, now_ms: int) -> None:
        """Place the batches that waited for a producer id once there is one, or fail them if there will be none."""
        identity = self._identity
        if not self._without_id or (identity.is_lacking and identity.error is None):
            return
        # This includes partitions placed before the last id was used up: their batches in flight have that id.
        queues = {**self._without_id, **dict.fromkeys(self._schedule.placed)}
        self._without_id = {}
        for queue in queues:
            if identity.error is not None:
                for batch in list(queue.waiting):
                    queue.remove(batch)
                    self._settle(batch, identity.error, now_ms)
            self._place(queue, now_ms)

    # Sending.

    def _dispatch(self, now_ms: int) -> None:
        for node_id in list(self._schedule.ready):
            if not self._has_room(node_id):
                continue
            if self._router.reach(node_id, now_ms) is not None:
                while not self._identity.is_lacking and node_id in self._schedule.ready and self._has_room(node_id):
                    self._send(node_id, self._take(node_id, now_ms), now_ms)

    def _has_room(self, node_id: int) -> bool:
        return self._in_flight.get(node_id, 0) < self._options.max_in_flight

    def _take(self, node_id: int, now_ms: int) -> list[ProducerBatch]:
        """Take the batches for one request: one per partition, up to `max_request_size` bytes before compression.

        There is at least one, because some partition is ready for this leader.
        """
        taken: list[ProducerBatch] = []
        room_bytes = self._options.max_request_size
        while (queue := self._schedule.first(node_id)) is not None:
            batch = queue.waiting[0]
            if taken and batch.used_bytes > room_bytes:
                break
            self._schedule.take_out(queue)
            self._accumulator.close(batch)
            queue.waiting.popleft()
            queue.on_wire += 1
            batch.on_wire = True
            if self._identity.current is not None and batch.sequence == NO_SEQUENCE and self._identity.enabled:
                queue.sequences.assign(batch, self._identity.current)
            room_bytes -= batch.used_bytes
            taken.append(batch)
        for batch in taken:
            self._place(batch.queue, now_ms)
        return taken

    def _send(self, node_id: int, batches: list[ProducerBatch], now_ms: int) -> None:
        options = self._options

        names: dict[bytes, str] = {}

        def request(versions: Versions) -> tuple[Message, int]:
            made, version = produce_request(
                batches, self._router.metadata, options.acks, options.request_timeout_ms, versions, self._transaction
            )
            names.update((topic.topic_id, topic.name) for topic in made.topic_data)
            self._metrics.sent(batches, now_ms)
            return made, version

        self._in_flight[node_id] = self._in_flight.get(node_id, 0) + 1
        call = Call(
            Node(node_id),
            request,
            None if options.acks == Acks.NONE else ProduceResponse,
            now_ms + options.request_timeout_ms + _GRACE_MS,
            partial(self._came_back, node_id, batches, names),
            retries=False,
        )
        self._router.submit(call, now_ms)

    def _came_back(
        self, node_id: int, batches: list[ProducerBatch], names: dict[bytes, str], call: Call, now_ms: int
    ) -> None:
        self._in_flight[node_id] -= 1
        if not self._in_flight[node_id]:
            del self._in_flight[node_id]
        for batch in batches:
            batch.on_wire = False
            batch.queue.on_wire -= 1
        if isinstance(call.result, ProduceResponse):
            found = list(results(call.result, batches, names, self._router.metadata))
        else:  # the request failed, or it has no response
            found = [Result(batch, call.error) for batch in batches]
        for result in found:
            self._judge(result, now_ms)
        all_stored = all(result.error is None for result in found)
        if self._transaction is not None and self._transaction.refusal is not None:
            self.abandon(self._transaction.refusal, now_ms)
        waits = self._transaction is not None  # perhaps for the last of these batches
        for batch in batches:
            if batch.queue.waiting:
                waits = True
                if batch.queue.node_id is None or not all_stored:  # a stored batch does not delay others
                    self._place(batch.queue, now_ms)
        self._waiters.room(self._accumulator.bytes_held)
        waits = waits or self._waiters.awaits_room
        call.next_poll = NextPoll.NOW if self._schedule.ready else NextPoll.SOON if waits else NextPoll.NONE

    # Results.

    def _judge(self, result: Result, now_ms: int) -> None:
        """Decide what to do with a batch whose result has arrived."""
        batch, error = result.batch, result.error
        code = error.code if isinstance(error, BrokerError) else None
        if error is None or code is ErrorCode.DUPLICATE_SEQUENCE_NUMBER:
            batch.queue.sequences.acknowledged(batch, result.base_offset)
            self._settle(batch, None, now_ms, result)
        elif batch.outcome.done:  # its time had already run out
            self._accumulator.release(batch.kept_bytes)
        elif code in _TOO_LARGE and batch.builder.count > 1:
            self._split(batch, now_ms)
        else:
            self._try_again(result, error, now_ms)

    def _try_again(self, result: Result, error: KafkaWireError, now_ms: int) -> None:
        """Send a batch again, now or later, or settle it.

        Three rules are specific to the sender. A batch outlasts refused logins, since a later one may be accepted. An
        error about a batch's sequence number, which a retry alone would not fix, is resolved if the partition restarts
        its numbers, or once an earlier batch has arrived (`Sequences.mends`). Furthermore, a batch whose leader has
        moved needs no pause if the response names the new leader.
        """
        batch = result.batch
        attempts = batch.attempts
        if outdates_metadata(error) and not result.leader_moved:
            self._router.metadata.invalidate()
        sequences, raises_epoch = batch.queue.sequences, self._transaction is None
        is_mended = isinstance(error, BrokerError) and sequences.mends(
            batch, error.code, result.log_start_offset, raises_epoch=raises_epoch
        )
        again = attempts.failed(error, now_ms, is_mended=is_mended or is_refusal(error))
        if result.leader_moved:
            attempts.not_before_ms = now_ms
        if again:
            subject = "retry", batch.queue.partition.topic
            self._lines.warning(subject, now_ms, "attempt %d failed, sending again: %s", attempts.failures, error)
            self._metrics.retried(batch, now_ms)
            self._accumulator.put_back(batch)
            return
        is_late = (error.retriable or is_refusal(error)) and not attempts.are_spent
        sequences.failed(batch)
        if is_late:
            self._settle(batch, self._timed_out(batch, error), now_ms)
        else:
            self._settle(batch, result.others or error, now_ms, result)

    def _split(self, batch: ProducerBatch, now_ms: int) -> None:
        """Send the records of an oversized batch in smaller batches."""
        queue, accumulator = batch.queue, self._accumulator
        self._metrics.split(now_ms)
        parts = accumulator.parts_of(batch)
        logger.info("%s are too large for one batch: sending them again in %d smaller ones", batch, len(parts))
        queue.sequences.divide(batch, parts)
        for part in parts:
            self._unsettled.add(part)
            accumulator.put_back(part)
        accumulator.release(batch.kept_bytes - sum(part.kept_bytes for part in parts))
        self._moved(batch.outcome, *(part.outcome for part in parts))
        batch.outcome.move([(part.outcome, index) for part in parts for index in range(part.builder.count)])

    def _expire(self, now_ms: int) -> None:
        """Fail all records that are past their deadline, whether or not they are in flight."""
        for item in self._unsettled.overdue(now_ms):
            if isinstance(item, Held):
                self._topics.expire(item, now_ms)
            else:
                self._give_up(item, self._timed_out(item, item.attempts.last_error), now_ms)

    def _give_up(self, batch: ProducerBatch, error: KafkaWireError, now_ms: int) -> None:
        self._accumulator.close(batch)
        batch.queue.remove(batch)
        batch.queue.sequences.failed(batch)
        self._settle(batch, error, now_ms)
        queue = batch.queue
        self._place(queue, now_ms)

    def _timed_out(self, batch: ProducerBatch, cause: KafkaWireError | None) -> DeliveryTimedOut:
        leader = self._router.metadata.leader(batch.queue.partition)
        cause = cause or self._identity.trouble or self._router.trouble(leader)
        throttling = self._router.throttling(batch.created_ms, leader)
        has_id = not self._identity.is_lacking
        lack = "it has no leader" if leader is None else "" if has_id else "no broker has given a producer id"
        return timed_out(batch, self._options.delivery_timeout_ms, cause, lack=lack, throttling=throttling)

    def _settle(
        self, batch: ProducerBatch, error: KafkaWireError | None, now_ms: int, result: Result | None = None
    ) -> None:
        """Settle a batch; its memory is freed once no request needs it."""
        self._accumulator.close(batch)
        if not batch.on_wire:
            self._accumulator.release(batch.kept_bytes)
        outcome = batch.outcome
        if outcome.done:
            return
        if error is None:
            assert result is not None
            outcome.settle(result.base_offset, result.log_append_time_ms)
        else:
            self._metrics.failed(batch, now_ms)
            self._accumulator.note_failure(outcome)
            outcome.fail(error, {} if result is None else result.record_errors)
            if not isinstance(error, Closed | TransactionAborted):
                self._lines.error(("failed", batch.queue.partition.topic), now_ms, "delivery failed: %s", error)
        self._ended(outcome)

    def _ended(self, outcome: Outcome) -> None:
        self._unsettled.discard(outcome)
        self._waiters.ended(outcome)

    def _moved(self, outcome: Outcome, *others: Outcome) -> None:
        self._unsettled.discard(outcome)
        self._waiters.moved(outcome, others)


class Schedule:
    """The schedule of partitions: which ones can send something to which leader, and when to look at the others.

    The work per event grows with the number of ready partitions, not with the total number: partitions that linger or
    pause are in a heap, those without a leader wait for new metadata, and those with nothing to send are not listed.

    Attributes:
        ready: the partitions that have a batch to send, keyed by leader, in the order in which they are served.
        without_leader: the partitions that have a batch but no leader.
    """

    def __init__(self) -> None:
        self.ready: dict[int, OrderedDict[PartitionQueue, None]] = {}
        self.without_leader: dict[PartitionQueue, None] = {}
        self._later: list[tuple[int, int, PartitionQueue]] = []
        self._entries = count()

    def put_ready(self, queue: PartitionQueue, node_id: int | None) -> None:
        """Queue a partition for its leader, behind those already waiting."""
        self.take_out(queue)
        if node_id is None:
            self.without_leader[queue] = None
            return
        queue.node_id = node_id
        queues = self.ready.get(node_id)
        if queues is None:
            queues = self.ready[node_id] = OrderedDict()
        queues[queue] = None

    @property
    def placed(self) -> list[PartitionQueue]:
        """The partitions that have a batch to send now, with or without a leader."""
        return [*self.without_leader, *(queue for queues in self.ready.values() for queue in queues)]

    def first(self, node_id: int) -> PartitionQueue | None:
        """Return the next partition for a leader; None if there is none."""
        queues = self.ready.get(node_id)
        return next(iter(queues)) if queues else None

    def put_later(self, queue: PartitionQueue, due_ms: int) -> None:
        """Schedule another check of a partition for a given time."""
        self.take_out(queue)
        if queue.due_ms != due_ms:
            queue.due_ms = due_ms
            heappush(self._later, (due_ms, next(self._entries), queue))

    def take_out(self, queue: PartitionQueue) -> None:
        """Remove a partition that has nothing to send, or that moves to another place."""
        if queue.node_id is not None:
            queues = self.ready[queue.node_id]
            del queues[queue]
            if not queues:
                del self.ready[queue.node_id]
            queue.node_id = None
        elif self.without_leader:
            self.without_leader.pop(queue, None)

    def due(self, now_ms: int) -> list[PartitionQueue]:
        """Return the partitions that are due."""
        found: list[PartitionQueue] = []
        while self._later and self._later[0][0] <= now_ms:
            due_ms, _, queue = heappop(self._later)
            if queue.due_ms == due_ms:
                queue.due_ms = -1
                found.append(queue)
        return found

    def due_ms(self) -> int | None:
        """Return when the next partition is due."""
        while self._later and self._later[0][2].due_ms != self._later[0][0]:
            heappop(self._later)
        return self._later[0][0] if self._later else None


class UnsettledBatches:
    """A producer's unsettled batches, and its unsettled records that have no batch.

    Attributes:
        items: the batches and records, keyed by outcome, in order of arrival.
    """

    def __init__(self) -> None:
        self.items: dict[Outcome, ProducerBatch | Held] = {}
        #: An outcome that is settled early stays here until its deadline; it holds no records.
        self._deadlines: list[tuple[int, int, Outcome]] = []
        self._entries = count()

    def add(self, item: ProducerBatch | Held) -> None:
        """Add a new batch or record."""
        outcome = outcome_of(item)
        self.items[outcome] = item
        heappush(self._deadlines, (item.deadline_ms, next(self._entries), outcome))

    def discard(self, outcome: Outcome) -> None:
        """Forget a settled batch or record."""
        self.items.pop(outcome, None)

    def overdue(self, now_ms: int) -> Iterator[ProducerBatch | Held]:
        """Yield batches and records past their deadline; the caller settles them."""
        while self._deadlines and self._deadlines[0][0] <= now_ms:
            item = self.items.get(heappop(self._deadlines)[2])
            if item is not None:
                yield item

    def due_ms(self) -> int | None:
        """Return the next deadline."""
        while self._deadlines and self._deadlines[0][2] not in self.items:
            heappop(self._deadlines)
        return self._deadlines[0][0] if self._deadlines else None


def outcome_of(item: ProducerBatch | Held) -> Outcome:
    """Return the outcome of a batch or record."""
    assert item.outcome is not None
    return item.outcome
