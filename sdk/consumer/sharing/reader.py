"""The reader of a share consumer, which takes acquired records and hands them out as deliveries.

Nothing in this module waits. A record is handed out only while its acquisition lock holds. In implicit mode, a read
accepts everything that earlier reads have handed out; in explicit mode, the application acknowledges each delivery.
Several tasks may read: each record goes to one of them.

Source: Apache Kafka, `ShareConsumerImpl`, `ShareFetchCollector`, `ShareCompletedFetch`.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from kafkawire.sdk.consumer.sharing.acquired_records import AcquiredRecords, Found
from kafkawire.sdk.consumer.sharing.acquisitions import Acquired, Ledger
from kafkawire.sdk.consumer.sharing.delivery import AcquiredRecord, ShareDeliveryState
from kafkawire.sdk.consumer.sharing.queue import ShareFetched, ShareQueue
from kafkawire.sdk.errors import DeserializationFailed, KafkaWireError, LocalProtocolError
from kafkawire.sdk.log_limit import LogLimit
from kafkawire.sdk.protocol.tables.enums import AcknowledgeType
from kafkawire.sdk.records import Record
from kafkawire.sdk.routing.partitions import TopicPartition

if TYPE_CHECKING:
    from kafkawire.sdk.consumer.reading.hooks import ConsumerHooks

__all__ = ["LIST_MS", "ShareReader"]

logger = logging.getLogger("kafkawire.consumer")

#: A list that takes longer than this to fill, for example because of slow deserializers, ends early to give the event
#: loop a turn before the next list.
LIST_MS = 100

Handed = TypeVar("Handed", bound=AcquiredRecord[Any, Any])


class ShareReader(Generic[Handed]):
    """Hand out acquired records.

    Args:
        queue: the acquired records.
        ledger: takes the acknowledgements.
        make: creates a delivery from a record, its delivery count and its acquisition.
        check_crcs: whether to verify the checksums of batches.

    Attributes:
        hooks: the deserializers; set by the client; None for none.
        subscribed: the topics whose records are handed out; records of others are released.
    """

    def __init__(
        self,
        queue: ShareQueue,
        ledger: Ledger,
        make: Callable[[Record, int, Acquired], Handed],
        *,
        check_crcs: bool,
    ) -> None:
        self._queue = queue
        self._ledger = ledger
        self._make = make
        self._check_crcs = check_crcs
        self._records: AcquiredRecords | None = None
        #: What was made ready, until the records continue after it.
        self._found: Found | None = None
        self._ready: deque[Handed] = deque()
        self._returned: deque[Handed] = deque()
        self._taken: deque[Handed] = deque()
        self._failed: Handed | None = None
        self._errors: deque[KafkaWireError] = deque()
        self._lines = LogLimit(logger)
        self._handed_out = 0
        self._seen = -1
        self._seen_ms: int | None = None
        self.hooks: ConsumerHooks[Any, Any] | None = None
        self.subscribed: Collection[str] = frozenset()

    @property
    def taken(self) -> int:
        """The number of records handed out."""
        return self._handed_out

    # Reads.

    def take(self) -> Handed | None:
        """Hand out a record; None if there is none at the moment, in which case wait for the queue.

        Raises:
            DeserializationFailed: a deserializer raised; the record is released by the next read.
            DecodeError: a batch is damaged, and its records are rejected.
            KafkaWireError: a broker refuses to hand out records, or the client has ended.
        """
        self.settle()
        found = self._next()
        if found is None:
            self._queue.ask()
        return found

    def take_many(self, limit: int) -> dict[TopicPartition, list[Handed]]:
        """Hand out the available records by partition.

        If an error occurs after records have been found, the next read raises it.

        Args:
            limit: the maximum number of records; the list also ends after `LIST_MS`.

        Raises:
            KafkaWireError: see `take`.
        """
        self.settle()
        found: dict[TopicPartition, list[Handed]] = {}
        end_ms = self._ledger.clock_ms() + LIST_MS
        while limit > 0 and (not found or self._ledger.clock_ms() < end_ms):
            try:
                delivery = self._next()
            except KafkaWireError as error:
                if not found:
                    raise
                self._errors.append(error)
                break
            if delivery is None:
                break
            record = delivery.record
            found.setdefault(TopicPartition(record.topic, record.partition), []).append(delivery)
            limit -= 1
        if not found:
            self._queue.ask()
        return found

    def settle(self) -> None:
        """Begin a read, which accepts everything handed out earlier in implicit mode.

        Raises:
            KafkaWireError: an earlier read encountered this error but returned the records found before it.
        """
        self.finish()
        if self._errors:
            raise self._errors.popleft()
        if self._failed is not None:
            self._failed.acknowledged(AcknowledgeType.RELEASE)
            self._failed = None

    def finish(self) -> None:
        """Accept everything handed out so far in implicit mode."""
        taken = self._taken
        while taken:
            if not self._ledger.is_explicit:
                taken[0].acknowledged(AcknowledgeType.ACCEPT)
            taken.popleft()

    def reject(self, error: DeserializationFailed) -> None:
        """Reject the record that could not be deserialized, which the next read would release.

        Raises:
            LocalProtocolError: the record was already released or rejected.
        """
        failed = self._failed
        place = error.topic, error.partition, error.offset
        if failed is None or (failed.record.topic, failed.record.partition, failed.record.offset) != place:
            raise LocalProtocolError(
                f"reject: the record at offset {error.offset} of {error.topic}-{error.partition} is not held any more; "
                "call reject before the next read"
            )
        failed.acknowledged(AcknowledgeType.REJECT)
        self._failed = None

    def rewind(self) -> None:
        """Hand out the records of the last read again, because it was interrupted before they reached the caller."""
        taken, self._taken = self._taken, deque()
        if taken and any(source and source[0] is taken[-1] for source in (self._returned, self._ready)):
            taken.pop()  # it was interrupted before it removed the last one
        self._returned.extendleft(reversed(taken))

    def abandon(self, error: KafkaWireError) -> None:
        """Stop handing out records, and make every read raise an error."""
        self._records = self._found = self._failed = None
        for waiting in (self._ready, self._returned, self._taken):
            waiting.clear()
        self._queue.clear()
        self._queue.fail(error)

    # A signal handler may raise anywhere in these methods, and the next read must still find every record once.

    def _next(self) -> Handed | None:
        """Hand out a record; None if there is none."""
        while True:
            while self._returned:
                delivery = self._returned[0]
                if self._is_wanted(delivery):
                    return self._hand_out(self._returned, delivery)
                self._returned.popleft()
            while self._ready:
                delivery = self._ready[0]
                if not self._is_wanted(delivery):
                    self._ready.popleft()
                    continue
                if self.hooks is None:
                    return self._hand_out(self._ready, delivery)
                try:
                    record = self.hooks.applied(delivery.record)
                except DeserializationFailed:
                    self._failed = delivery
                    self._ready.popleft()
                    raise
                delivery.record = record
                return self._hand_out(self._ready, delivery)
            if not self._fill():
                return None

    def _is_wanted(self, delivery: Handed) -> bool:
        """Return whether to hand out a record; it is released if it is still held, but its topic is no longer read."""
        state, topic = delivery.state, delivery.record.topic
        if state is ShareDeliveryState.ACQUIRED:
            if topic in self.subscribed:
                return True
            delivery.acknowledged(AcknowledgeType.RELEASE)
        elif state is ShareDeliveryState.LOST:
            self._skipped(topic, 1)
        return False

    def _hand_out(self, source: deque[Handed], delivery: Handed) -> Handed:
        self._taken.append(delivery)
        source.popleft()
        self._handed_out += 1
        return delivery

    def _fill(self) -> bool:
        """Make records ready; return whether there may be more."""
        self._go_on()
        if self._records is None:
            if (error := self._queue.next_error()) is not None:
                raise error
            self._queue.check()
            fetched = self._queue.first()
            if fetched is None:
                return False
            self._records = self._opened(fetched)
            if self._records is None:
                return True
        acquired = self._records.fetched.acquired
        found = self._records.look() if acquired.partition.topic in self.subscribed else self._records.rest()
        if not found.records and found.error is None:
            self._found = found
            self._go_on()
            self._queue.drop(self._records.fetched)
            self._records = None
            return True
        ready = deque(self._make(record, delivery_count, acquired) for record, delivery_count in found.records)
        self._ready, self._found = ready, found
        self._go_on()
        if found.error is not None:
            raise found.error
        return True

    def _go_on(self) -> None:
        """Continue after the records that are ready."""
        if self._found is not None and self._records is not None:
            self._records.go_on(self._found)
            self._found = None

    def _opened(self, fetched: ShareFetched) -> AcquiredRecords | None:
        """Return the records of a response, unless they are no longer held."""
        acquired = fetched.acquired
        if acquired.is_lost or acquired.locked_until_ms <= self._ledger.clock_ms():
            self._queue.drop(fetched)
            self._skipped(acquired.partition.topic, sum(each.last - each.first + 1 for each in fetched.ranges))
            return None
        return AcquiredRecords(fetched, self._check_crcs)

    def _skipped(self, topic: str, count: int) -> None:
        text = "topic %s: records not handed out, because their acquisition locks have run out or were lost: %d"
        self._lines.warning(topic, self._ledger.clock_ms(), text, topic, count)

    # The group's view.

    @property
    def last_handed_out_ms(self) -> int | None:
        """When the application was last known to receive a record; None while a read is waiting.

        The clock is read when this is accessed, not once per record.
        """
        if self._queue.is_awaited:
            self._seen_ms = None
            return None
        seen = self._handed_out
        if self._seen_ms is None or seen != self._seen:
            self._seen, self._seen_ms = seen, self._ledger.clock_ms()
        return self._seen_ms

    def report(self, error: KafkaWireError) -> None:
        """Make the next read raise an error, after which reading continues."""
        self._queue.report(error)

    def is_unread(self, error: KafkaWireError) -> bool:
        """Return whether a reported error has yet to be raised by a read."""
        return error in list(self._queue.errors)
