"""The producer: records in, deliveries out.

`send` is a plain function that appends to the batch of a partition; the sender task does the rest. When the buffer is
full, `send` raises `BufferFull` instead of waiting; `drain` and `send_many` wait.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from types import TracebackType
from typing import TYPE_CHECKING, NamedTuple

from kafkawire.sdk.client.options import ProducerOptions, read_options
from kafkawire.sdk.client.partitioner import Partitioner, murmur2_partition
from kafkawire.sdk.client.partitions import TopicPartition
from kafkawire.sdk.client.topics import checked_topic
from kafkawire.sdk.clock import monotonic_ms, now_ms
from kafkawire.sdk.errors import BrokerError, BufferFull, Closed, DeliveryTimedOut, KafkaWireError, LocalProtocolError
from kafkawire.sdk.producer.accumulator import Accumulator
from kafkawire.sdk.producer.delivery import Delivery, settled
from kafkawire.sdk.protocol.values import Buffer
from kafkawire.sdk.records import HeadersLike
from kafkawire.sdk.records.content import HeadersInput, record_content, record_headers
from kafkawire.sdk.records.engines.builder_options import checked_time
from kafkawire.sdk.transport.timing import random_fraction
from kafkawire.sdk.transport.wire import Network

if TYPE_CHECKING:
    from typing import Unpack

    from kafkawire.sdk.client.cluster import Cluster
    from kafkawire.sdk.client.keywords import ProducerKeywords
    from kafkawire.sdk.producer.sender import Sender
    from kafkawire.sdk.protocol.tables.error_codes import ErrorCode

__all__ = ["Producer"]

logger = logging.getLogger("kafkawire.producer")

#: `drain` returns once this fraction of `buffer_memory` is in use, so that filling and draining do not alternate record
#: by record.
_DRAINED_FRACTION = 0.5

#: How many records `send_many` takes before it yields: about 0.1 ms with the extension, 2 ms without.
_MANY = 1_000


class _Waiting(NamedTuple):
    """A record whose topic is not known yet."""

    delivery: Delivery
    key: Buffer | None
    value: Buffer | None
    headers: HeadersLike
    partition: int | None
    timestamp_ms: int
    size_bytes: int
    since_ms: int


class _Sticky:
    """The partition that records without a key currently go to (KIP-794)."""

    __slots__ = ("bytes_left", "partition")

    def __init__(self, partition: TopicPartition, bytes_left: int) -> None:
        self.partition = partition
        self.bytes_left = bytes_left


class Producer:
    """Send records to topics.

    The constructor does no I/O; use `async with Producer(…) as producer`, or call `start` and `close`.

    Args:
        servers: brokers to connect to first: `host:port,host:port`, or a sequence of `host:port`; the option
            `bootstrap_servers` may take its place.
        network: reaches the brokers; None for TCP.
        options: see `ProducerKeywords` and docs/options.md; the dotted names of Kafka's documentation are accepted too.

    Raises:
        ConfigurationError: an option is unknown or out of range, or two contradict each other.
    """

    def __init__(
        self,
        servers: str | Iterable[str] | None = None,
        /,
        *,
        network: Network | None = None,
        **options: Unpack[ProducerKeywords],
    ) -> None:
        self._options = read_options(ProducerOptions, servers, options)
        self._network = network
        self._partitioner: Partitioner = self._options.partitioner or murmur2_partition
        self._accumulator = Accumulator(self._options)
        self._sticky: dict[str, _Sticky] = {}
        self._waiting: dict[str, deque[_Waiting]] = {}
        self._unobserved: KafkaWireError | None = None
        self._progress: asyncio.Future[None] | None = None
        self._cluster: Cluster | None = None
        self._sender: Sender | None = None

    async def __aenter__(self) -> Producer:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close(flush=error is None)

    async def start(self) -> None:
        """Connect to the cluster.

        Raises:
            ConnectFailed: none of the bootstrap servers can be reached.
            LocalProtocolError: the producer was started already.
        """
        if self._cluster is not None:
            raise LocalProtocolError("the producer was started already")
        from kafkawire.sdk.client.cluster import Cluster  # what connects is loaded here, not by the import
        from kafkawire.sdk.producer.sender import Sender

        cluster = Cluster(self._options, self._network, creates_topics=True)
        try:
            await cluster.refresh()
        except BaseException:
            await cluster.close()
            raise
        self._cluster = cluster
        self._sender = Sender(self._options, cluster, self._accumulator, self._progressed)
        self._sender.start()

    async def close(self, *, flush: bool = True) -> None:
        """Flush, and disconnect.

        Args:
            flush: False to fail records that were not sent yet with `Closed`.

        Raises:
            KafkaWireError: see `flush`.
        """
        sender, cluster = self._sender, self._cluster
        if sender is None or cluster is None:
            return
        try:
            if flush:
                await self.flush()
        finally:
            self._sender = None
            await sender.close()
            await cluster.close()
            closed = Closed("the producer was closed before the record was sent")
            self._accumulator.abandon(closed)
            for topic in list(self._waiting):
                self._refuse(topic, closed)
            self._progressed()

    def send(
        self,
        topic: str,
        value: Buffer | str | None = None,
        *,
        key: Buffer | str | None = None,
        headers: HeadersInput = (),
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> Delivery:
        """Buffer a record for sending, without waiting.

        Args:
            topic: its destination.
            value: its content; text is encoded as UTF-8. None deletes the key from a compacted topic.
            key: text is encoded as UTF-8; records with equal keys go to the same partition, in order. None for none.
            headers: (name, value) pairs in order, or a mapping if names are unique; text is encoded as UTF-8, too.
            partition: from 0; None to choose by the key, or without a key to fill one batch after the other.
            timestamp_ms: milliseconds since the epoch; None for now.

        Returns:
            An awaitable for the record's `RecordMetadata`, or its error.

        Raises:
            BufferFull: `buffer_memory` is used up; the record was not buffered. Await `drain`, or use `send_many`.
            RecordTooLarge: it does not fit into `max_request_size`.
            Closed: the producer is not started, or is closed.
            EncodeError: key, value, headers or timestamp have a type that is not encoded, numbers for example. Nothing
                was buffered.
            LocalProtocolError: the topic has no such partition, or no topic can have this name.
        """
        sender = self._sender
        if sender is None:
            raise Closed("the producer is not started, or is closed")
        # What the batch would refuse is refused before there is one.
        content = value if type(value) is bytes else record_content("value", value)
        key_bytes = key if key is None or type(key) is bytes else record_content("key", key)
        pairs: HeadersLike = record_headers(headers) if headers else ()
        timestamp_ms = now_ms() if timestamp_ms is None else checked_time(timestamp_ms)
        known = self._cluster.metadata.topics.get(topic) if self._cluster is not None else None
        if known is None or not known.partitions or topic in self._waiting:
            checked_topic(topic)
            return self._send_later(sender, topic, key_bytes, content, pairs, partition, timestamp_ms)
        target = self._target(topic, len(known.partitions), key_bytes, content, partition)
        batch, index, news = self._accumulator.append(target, key_bytes, content, pairs, timestamp_ms, monotonic_ms())
        if news:
            sender.wake()
        return Delivery(batch, index, timestamp_ms)

    async def send_many(
        self,
        topic: str,
        values: Iterable[Buffer | str | None],
        *,
        headers: HeadersInput = (),
        partition: int | None = None,
    ) -> int:
        """Buffer many records without keys, waiting whenever the buffer is full.

        Args:
            topic: their destination.
            values: one record each; see `send`.
            headers: the headers of every record; see `send`.
            partition: the partition of every record; see `send`.

        Returns:
            How many records were buffered. `flush` waits until they are stored.

        Raises:
            RecordTooLarge, Closed, EncodeError, LocalProtocolError: see `send`; earlier records were buffered.
        """
        count = 0
        pairs = record_headers(headers) if headers else ()
        remaining = iter(values)
        while True:
            chunk, refused = _contents(remaining)
            taken = 0
            while taken < len(chunk):
                # One record goes through `send`, which opens a batch or raises; those after it fill that batch at once.
                try:
                    self.send(topic, chunk[taken], headers=pairs, partition=partition)
                except BufferFull:
                    await self.drain()
                    continue
                taken += 1
                if not pairs:
                    taken += self._fill(topic, chunk[taken:], partition)
            count += taken
            await asyncio.sleep(0)  # let full batches leave
            if refused is not None:
                raise refused
            if len(chunk) < _MANY:
                return count

    async def drain(self) -> None:
        """Send buffered batches, and wait until at least half of `buffer_memory` is free."""
        await asyncio.sleep(0)  # a caller that only sends in a loop would keep the sender from running
        target = int(self._options.buffer_memory * _DRAINED_FRACTION)
        if self._accumulator.bytes_held > target:
            self._accumulator.flush()
        while self._sender is not None and self._accumulator.bytes_held > target:
            self._sender.wake()
            await self._next_progress()

    async def flush(self) -> None:
        """Send everything buffered so far and wait until it is acknowledged.

        Raises:
            KafkaWireError: the first error, since the last `flush`, of a record whose delivery nobody awaited.
        """
        while self._waiting and self._sender is not None:
            await self._next_progress()
        self._accumulator.flush()
        if self._sender is not None:
            self._sender.wake()
        for batch in self._accumulator.unfinished:
            await settled(batch)
        failed, self._accumulator.unobserved = self._accumulator.unobserved, None
        refused, self._unobserved = self._unobserved, None
        if failed is not None and failed.error is not None and not failed.observed:
            raise failed.error.again()
        if refused is not None:
            raise refused.again()

    def _target(
        self, topic: str, partitions: int, key: Buffer | None, value: Buffer | None, partition: int | None
    ) -> TopicPartition:
        """Return the partition that a record goes to."""
        if partition is not None:
            if not isinstance(partition, int) or not 0 <= partition < partitions:
                raise LocalProtocolError(f"topic {topic} has partitions 0 to {partitions - 1}, not {partition}")
            return TopicPartition(topic, partition)
        if key is not None:
            return TopicPartition(topic, self._partitioner(bytes(key), partitions))
        sticky = self._sticky.get(topic)
        if sticky is None or sticky.bytes_left <= 0 or sticky.partition.partition >= partitions:
            number = int(random_fraction() * partitions)
            sticky = self._sticky[topic] = _Sticky(TopicPartition(topic, number), self._options.batch_size)
        if value is not None:
            sticky.bytes_left -= len(value)
        return sticky.partition

    def _fill(self, topic: str, values: Sequence[Buffer | None], partition: int | None) -> int:
        """Append values to the batch that the previous record went to; return how many fit."""
        if topic in self._waiting:
            return 0
        sticky = self._sticky.get(topic)
        if partition is not None:
            return self._accumulator.fill(TopicPartition(topic, partition), values, now_ms())
        if sticky is None:
            return 0
        added = self._accumulator.fill(sticky.partition, values, now_ms())
        sticky.bytes_left -= sum(len(value) for value in values[:added] if value is not None)
        return added

    def _send_later(
        self,
        sender: Sender,
        topic: str,
        key: Buffer | None,
        value: Buffer | None,
        headers: HeadersLike,
        partition: int | None,
        timestamp_ms: int,
    ) -> Delivery:
        """Hold a record until its topic is known; it counts against `buffer_memory` meanwhile."""
        assert self._cluster is not None
        assert self._cluster.topics is not None
        size_bytes = self._accumulator.admit(key, value, headers)
        self._accumulator.bytes_held += size_bytes
        delivery = Delivery(None, 0, timestamp_ms)
        record = _Waiting(delivery, key, value, headers, partition, timestamp_ms, size_bytes, monotonic_ms())
        self._waiting.setdefault(topic, deque()).append(record)
        self._cluster.topics.add(topic)
        sender.want_metadata()
        return delivery

    def _progressed(self) -> None:
        """Place records whose topic has become known, and wake callers that wait for room."""
        for topic in list(self._waiting):
            self._place(topic)
        if self._progress is not None:
            self._progress.set_result(None)
            self._progress = None

    def _place(self, topic: str) -> None:
        if self._cluster is None or self._sender is None:
            return
        known = self._cluster.metadata.topics.get(topic)
        if known is None or not known.partitions:
            self._give_up_waiting(topic, self._cluster.metadata.errors.get(topic))
            return
        for record in self._waiting.pop(topic):
            self._accumulator.bytes_held -= record.size_bytes
            delivery, key, value, headers, partition, timestamp_ms, size_bytes, _ = record
            try:
                target = self._target(topic, len(known.partitions), key, value, partition)
                batch, index, _ = self._accumulator.append(
                    target, key, value, headers, timestamp_ms, monotonic_ms(), size_bytes
                )
            except KafkaWireError as error:
                self._note_refused(record, error)
            else:
                delivery.place(batch, index)
        self._sender.wake()

    def _give_up_waiting(self, topic: str, code: ErrorCode | None) -> None:
        """Refuse the records of a topic that does not exist, and those that have waited too long."""
        error = BrokerError(code, f"topic {topic}") if code is not None else None
        if error is not None and not error.retriable:
            self._refuse(topic, error)
            return
        timeout_ms = self._options.delivery_timeout_ms
        if monotonic_ms() - self._waiting[topic][0].since_ms >= timeout_ms:
            reason = error or "no broker has responded"
            timed_out = DeliveryTimedOut(f"topic {topic} is not known after {timeout_ms} ms: {reason}")
            timed_out.__cause__ = error
            self._refuse(topic, timed_out)
        elif self._sender is not None:
            self._sender.want_metadata()

    def _refuse(self, topic: str, error: KafkaWireError) -> None:
        for record in self._waiting.pop(topic):
            self._accumulator.bytes_held -= record.size_bytes
            self._note_refused(record, error)
        if self._cluster is not None and self._cluster.topics is not None:
            self._cluster.topics.discard(topic)

    def _note_refused(self, record: _Waiting, error: KafkaWireError) -> None:
        if not record.delivery.refuse(error) and self._unobserved is None:
            self._unobserved = error
        if not isinstance(error, Closed):  # whoever closes the producer without flushing knows
            logger.error("a record was not sent: %s", error)

    async def _next_progress(self) -> None:
        if self._progress is None:
            self._progress = asyncio.get_running_loop().create_future()
        await asyncio.shield(self._progress)


def _contents(values: Iterator[Buffer | str | None]) -> tuple[list[Buffer | None], Exception | None]:
    """Return the next values as bytes, and the error that ended them early: those before it are sent."""
    found: list[Buffer | None] = []
    try:
        for value in islice(values, _MANY):
            found.append(value if type(value) is bytes else record_content("value", value))
    except Exception as error:
        return found, error
    return found, None
