"""Take records in Python, as `native.pyx` does in C if the extension is built.

`send` checks its arguments and chooses the partition; the accumulator does the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextvars import copy_context
from typing import TYPE_CHECKING, Any, Final, NoReturn, Protocol, Self

from kafkawire.sdk.client.method_hints import DELIVERY, absent, explaining
from kafkawire.sdk.client.partitioner import murmur2_partition
from kafkawire.sdk.clock import now_ms
from kafkawire.sdk.errors import EncodeError, KafkaWireError
from kafkawire.sdk.producer.arguments import (
    FILL_ONE_AFTER_THE_OTHER,
    MAX_RECORD_OVERHEAD_BYTES,
    TO_BE_CHOSEN,
    Held,
    check_callback,
    checked_partition,
    content,
    header_pairs,
    is_absent,
    timestamp,
)
from kafkawire.sdk.protocol.values import Buffer
from kafkawire.sdk.records import BatchBuilder, HeadersLike
from kafkawire.sdk.records.content import HeadersInput

if TYPE_CHECKING:
    from kafkawire.sdk.producer.arrow import ArrowRows
    from kafkawire.sdk.producer.outcome import Outcome, RecordMetadata

__all__ = ["Appender", "Batch", "Delivery", "Owner", "Topic", "are_plain", "murmur2_partition"]

#: Types of values that need no conversion.
_PLAIN: Final = frozenset({bytes, type(None)})


def are_plain(values: list[Any]) -> bool:
    """Return whether all values are bytes or None and need no conversion."""
    return _PLAIN.issuperset(map(type, values))


class Batch:
    """A batch that is being filled with records.

    Args:
        builder: holds the records.
        outcome: the outcome of the batch.

    Attributes:
        admitted_bytes: the share of the buffer's memory that the batch holds; it grows with the batch.
    """

    __slots__ = ("admitted_bytes", "builder", "outcome")

    def __init__(self, builder: BatchBuilder, outcome: Outcome) -> None:
        self.builder = builder
        self.outcome = outcome
        self.admitted_bytes = 0

    @property
    def used_bytes(self) -> int:
        """The size of the batch so far."""
        return self.builder.size_bytes

    @property
    def is_closed(self) -> bool:
        """Whether the batch accepts no more records."""
        return self.builder.is_closed

    def close(self) -> bool:
        """Close the batch to further records; return whether it was open."""
        return self.builder.close()

    def append(self, timestamp_ms: int, key: bytes | None, value: bytes | None, headers: HeadersLike) -> int | None:
        """Add a record, and return its index; None if it does not fit, or the batch is closed."""
        try:
            return self.builder.append(timestamp_ms, key, value, headers)
        except EncodeError:
            if self.builder.is_closed:
                return None
            raise

    def append_many(self, values: Sequence[bytes | None], timestamp_ms: int) -> int:
        """Add records that have only a value until one does not fit, and return how many were added."""
        added = 0
        for value in values:
            if self.append(timestamp_ms, None, value, ()) is None:
                break
            added += 1
        return added


class Topic:
    """A topic that records are sent to.

    Args:
        name: the topic's name.

    Attributes:
        partitions: the number of partitions; 0 while it is unknown, or while earlier records wait to be placed.
        open: for each partition, the batch that takes records, or None if a new one is needed.
        sticky: the batch that takes records without a key, or None if one must be chosen.
        sticky_partition: the partition of that batch; -1 before the first.
        sticky_bytes: the size of the records without a key that were sent since that partition was chosen.
    """

    __slots__ = ("name", "open", "partitions", "sticky", "sticky_bytes", "sticky_partition")

    def __init__(self, name: str) -> None:
        self.name = name
        self.partitions = 0
        self.open: list[Any] = []
        self.sticky: Any = None
        self.sticky_partition = -1
        self.sticky_bytes = 0


class Owner(Protocol):
    """The accumulator as seen by appenders: it takes the records that they have checked."""

    def take(self, record: Held, number: int) -> tuple[Outcome, int]:
        """Put a record into a batch, or hold it until its topic is known.

        Args:
            record: the record to send.
            number: its partition number, `FILL_ONE_AFTER_THE_OTHER` or `TO_BE_CHOSEN`.

        Returns:
            The outcome of the record's batch, and the record's index in the batch.
        """
        ...


class Delivery:
    """The outcome of one record; awaiting it returns a `RecordMetadata`, or raises the reason why it was not stored.

    It may be awaited any number of times, on any event loop, or never: `flush` and `close` raise errors that were not
    retrieved. `asyncio.gather`, `wait_for` and `as_completed` accept it; `asyncio.wait` accepts only tasks and futures,
    so wrap a delivery in `asyncio.ensure_future`.

    Args:
        outcome: the outcome of the record's batch.
        index: the record's index in its batch.
        timestamp_ms: the record's timestamp, milliseconds since the epoch.

    Raises:
        BrokerError: the broker rejected the record's batch.
        DeliveryTimedOut: the record was not acknowledged within `delivery_timeout_ms`; the cause is the last error.
        Closed: the producer was closed before the record was sent.
    """

    __slots__ = ("_index", "_outcome", "_timestamp_ms")

    def __init__(self, outcome: Outcome, index: int, timestamp_ms: int) -> None:
        self._outcome = outcome
        self._index = index
        self._timestamp_ms = timestamp_ms

    def __repr__(self) -> str:
        return f"<Delivery {self._outcome.described(self._index)}>"

    @property
    def done(self) -> bool:
        """Whether awaiting returns or raises immediately."""
        return self._outcome.is_done(self._index)

    def __await__(self) -> Generator[Any, None, RecordMetadata]:
        return self._outcome.wait(self._index, self._timestamp_ms)

    def result(self, timeout_ms: int | None = None) -> RecordMetadata:
        """Block this thread until the record is settled, and return where it is stored.

        Args:
            timeout_ms: the limit; None to wait up to `delivery_timeout_ms`.

        Raises:
            RequestTimedOut: the record was not settled in time; it may still be stored.
            LocalProtocolError: this thread runs the event loop that settles the record; await the delivery instead.
            KafkaWireError: the reason why the record was not stored.
        """
        return self._outcome.result(self._index, self._timestamp_ms, timeout_ms)

    def exception(self) -> KafkaWireError | None:
        """Return why the record was not stored, or None if it was.

        Raises:
            LocalProtocolError: the record is not settled yet.
        """
        return self._outcome.exception(self._index)

    def add_done_callback(self, callback: Callable[[Self], object]) -> None:
        """Call `callback` with this delivery once it is settled, on the producer's event loop or its I/O thread.

        The callback runs in a copy of the caller's context, like the callbacks of asyncio's futures.
        """
        check_callback("callback", callback)
        context = copy_context()
        self._outcome.watch(self._index, lambda: context.run(callback, self))

    def __getattr__(self, name: str) -> NoReturn:
        raise absent("Delivery", name, DELIVERY, self)

    def _observe(self, callback: Callable[[RecordMetadata | None, KafkaWireError | None], object]) -> None:
        """Report the outcome to an interceptor; see `Outcome.observe`."""
        self._outcome.observe(self._index, self._timestamp_ms, callback)


class Appender:
    """Take records from any thread.

    Args:
        owner: takes the checked records.
        custom_partitioner: whether the owner chooses the partitions of records with a key.
        spreads: whether the owner also chooses the partitions of records without a key, instead of filling one batch
            after another.

    Attributes:
        topics: the topics to which records were sent, keyed by name.
        refusal: the reason why records are rejected, or None if they are accepted.
    """

    def __init__(self, owner: Owner, custom_partitioner: bool, spreads: bool = False) -> None:
        self._owner = owner
        self._spreads = spreads
        self._custom_partitioner = custom_partitioner
        self.topics: dict[str, Topic] = {}
        self.refusal: KafkaWireError | None = None

    def send(
        self,
        topic: str,
        value: Buffer | str | None = None,
        *,
        key: Buffer | str | None = None,
        headers: HeadersInput = (),
        partition: int | None = None,
        timestamp_ms: int | None = None,
        on_delivery: Callable[[Delivery], object] | None = None,
    ) -> Delivery:
        """Take a record; see `Producer.send`."""
        if self.refusal is not None:
            raise self.refusal.again()
        if on_delivery is not None:
            check_callback("on_delivery", on_delivery)
        bound_bytes = MAX_RECORD_OVERHEAD_BYTES
        if value is not None:
            value = content("value", value)
            bound_bytes += len(value)
        if key is not None:
            key = content("key", key)
            bound_bytes += len(key)
        pairs: HeadersLike = ()
        if headers:
            pairs, headers_bytes = header_pairs(headers)
            bound_bytes += headers_bytes
        timestamp_ms = now_ms() if timestamp_ms is None else timestamp(timestamp_ms)
        known = self.topics.get(topic)
        count = 0 if known is None else known.partitions
        if not count:
            number = TO_BE_CHOSEN
        elif partition is not None:
            number = TO_BE_CHOSEN if is_absent(partition, count) else checked_partition(topic, partition, count)
        elif key is None:
            number = TO_BE_CHOSEN if self._spreads else FILL_ONE_AFTER_THE_OTHER
        else:
            number = TO_BE_CHOSEN if self._custom_partitioner else murmur2_partition(key, count)
        record = Held(topic, key, value, pairs, partition, timestamp_ms, bound_bytes)
        delivery = Delivery(*self._owner.take(record, number), timestamp_ms)
        if on_delivery is not None:
            delivery.add_done_callback(on_delivery)
        return delivery

    send = explaining("Producer", send)

    def send_columns(self, topic: str, rows: ArrowRows, start: int, end: int) -> int:
        """Take rows while they fit into open batches, and return their number; `send` takes the next row."""
        return 0
