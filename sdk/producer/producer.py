"""The asyncio producer, which takes records and returns deliveries.

`send` is a plain function that appends to the batch of a partition; the state machines do the rest. When the buffer
is full, `send` raises `BufferFull` instead of waiting; `drain` and `send_many` wait.
"""

from __future__ import annotations

import logging
import sys
from asyncio import CancelledError
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Generic, Self, Unpack

from kafkawire.sdk.client.arguments import checked_timeout_ms
from kafkawire.sdk.client.method_hints import PRODUCER, Hinting
from kafkawire.sdk.client.options import ProducerOptions
from kafkawire.sdk.client.summary import State, not_running, summary
from kafkawire.sdk.client.unclosed_clients import caller, reduce_unstarted, warn_unclosed
from kafkawire.sdk.clock import monotonic_ms, now_ms
from kafkawire.sdk.errors import BufferFull, Closed, KafkaWireError, LocalProtocolError, RequestTimedOut
from kafkawire.sdk.producer.arguments import checked_values, contents, wanted_partition
from kafkawire.sdk.producer.engine import Delivery, are_plain
from kafkawire.sdk.producer.send_fast_path import ProducerClass, SendFastPath, fast_path_of
from kafkawire.sdk.producer.settings import DRAINED_FRACTION, read_producer_options
from kafkawire.sdk.protocol.values import Buffer
from kafkawire.sdk.records.content import HeadersInput, record_headers
from kafkawire.sdk.records.type_variables import GivenKey, GivenValue
from kafkawire.sdk.routing.partitions import OffsetAndMetadata, TopicPartition
from kafkawire.sdk.transport.promise import Promise
from kafkawire.sdk.transport.wire import Network

if TYPE_CHECKING:
    from kafkawire.sdk.client.keywords import ProducerKeywords
    from kafkawire.sdk.groups.protocol import GroupMetadata
    from kafkawire.sdk.metrics.names import MetricName
    from kafkawire.sdk.producer.core import ProducerCore
    from kafkawire.sdk.producer.hooks import ProducerHooks, ProducerInterceptor
    from kafkawire.sdk.producer.transactions.prepared import PreparedTransaction

__all__ = ["Producer", "Transaction", "prepare_transaction"]

logger = logging.getLogger("kafkawire.producer")

#: The number of records that `send_many` buffers before it yields; buffering them takes about 0.1 ms with the extension
#: and 2 ms without.
_MANY = 1_000


class Producer(Hinting, Generic[GivenKey, GivenValue], metaclass=ProducerClass, hints=PRODUCER):
    """Send records to topics.

    The constructor does no I/O; use `async with Producer(…) as producer`, or call `start` and `close`.

    Args:
        servers: brokers to connect to first: `host:port,host:port`, or a sequence of `host:port`; the option
            `bootstrap_servers` can be used instead.
        key_serializer: converts a key to bytes or text; None to use keys as they are. `send` calls it if there is a
            key, and raises `EncodeError` if it fails.
        value_serializer: the same for values; it is not called for None, which deletes a key.
        interceptors: called, in this order, with every record that is sent and with its outcome.
        network: how to connect to the brokers; None for TCP.
        options: see `ProducerKeywords` and docs/options.md; the dotted names of Kafka's documentation are accepted too.

    Raises:
        ConfigurationError: an option is unknown or out of range, or two options contradict each other.
    """

    def __init__(
        self,
        servers: str | Iterable[str] | None = None,
        /,
        *,
        key_serializer: Callable[[GivenKey], Buffer | str | None] | None = None,
        value_serializer: Callable[[GivenValue], Buffer | str | None] | None = None,
        interceptors: Iterable[ProducerInterceptor] | None = None,
        network: Network | None = None,
        **options: Unpack[ProducerKeywords],
    ) -> None:
        self._options = read_producer_options(servers, options)
        self._network = network
        self._core: ProducerCore | None = None
        self._is_open = self._was_open = False
        self._closing: Promise[None] | None = None
        self._fast_path: SendFastPath | None = None
        self._hooks: ProducerHooks[GivenKey, GivenValue] | None = None
        if key_serializer is not None or value_serializer is not None or interceptors is not None:
            from kafkawire.sdk.producer.hooks import ProducerHooks  # few programs have hooks

            self._hooks = ProducerHooks(key_serializer, value_serializer, interceptors or ())
        self._made_at = caller()

    def __del__(self, is_finalizing: Callable[[], bool] = sys.is_finalizing) -> None:
        core: ProducerCore | None = getattr(self, "_core", None)  # also None if the constructor raised
        if core is not None and self._closing is None and not is_finalizing() and core.let_go():
            consequence = "its transaction is aborted" if core.is_transactional else "its buffered records are sent"
            warn_unclosed(self, f"producer {self._options.client_id!r}", self._made_at, consequence)

    __reduce_ex__ = reduce_unstarted("producer", "_core")

    def __repr__(self) -> str:
        return summary(self, *self._state())

    def _state(self) -> tuple[ProducerOptions | None, State]:
        """Return the options and the state; the options are None if the constructor raised before setting them."""
        state: State = "new"
        if getattr(self, "_closing", None) is not None:
            state = "closed"
        elif getattr(self, "_core", None) is not None:
            state = "started" if self._is_open else "starting"
        return getattr(self, "_options", None), state

    async def __aenter__(self) -> Self:
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
            BrokerError: `transactional_id` is set, and the coordinator rejects it or its `transaction_timeout_ms`.
            RequestTimedOut: `transactional_id` is set, and its coordinator was not ready within `api_timeout_ms`.
            UnsupportedVersion: `enable_idempotence=True`, and the cluster issues no producer ids.
            LocalProtocolError: the producer has already been started.
            Closed: the producer was closed, perhaps during this call; a closed producer cannot be started again.
        """
        if self._closing is not None:
            raise Closed("the producer was closed; create a new one")
        if self._core is not None:
            raise LocalProtocolError("the producer was already started")
        from kafkawire.sdk.producer.core import ProducerCore  # loaded late to keep the import fast

        core = self._core = ProducerCore(self._options, self._network)
        try:
            await core.start()
            if self._closing is not None:  # the producer was ready, but was closed before this coroutine resumed
                raise Closed("the producer was closed while it was starting")
        except BaseException:
            self._core = None
            await core.client.finish(Closed("the producer could not be started"))
            raise
        self._is_open = True
        engine = None if self._hooks is not None else core.accumulator.appender.send
        self._fast_path = SendFastPath(self, _SEND, lambda: engine)

    async def close(self, *, flush: bool = True, timeout_ms: int | None = None) -> None:
        """Flush and disconnect; abort an open transaction, or wait for one that is being committed.

        A second call while the first is running, for example from a signal handler, uses its own limit to close the
        producer, because it may have interrupted the first call.

        Args:
            flush: False to fail unacknowledged records with `Closed`.
            timeout_ms: the limit for flushing, after which unsent records fail; None for no limit except
                `delivery_timeout_ms`, or `api_timeout_ms` for a transaction. A transaction that could not be ended in
                time is aborted by its coordinator after `transaction_timeout_ms`, or when the next producer with its
                `transactional_id` starts.

        Raises:
            KafkaWireError: as for `flush`, or `Closed` if some records could not be sent in time.
        """
        if timeout_ms is not None:
            checked_timeout_ms(timeout_ms)
        core, closing = self._core, self._closing
        if core is None or (closing is not None and closing.done):
            return
        if closing is None:
            self._was_open |= self._is_open  # otherwise the producer is still starting, and `start` raises `Closed`
            self._is_open = False
            closing = self._closing = Promise()
        is_open, began_ms = self._was_open, monotonic_ms()
        core.refuse(Closed("the producer is closed"))
        try:
            if is_open and core.is_transactional:
                await _finished(core, timeout_ms)
            elif is_open and flush:
                flushed = core.flush()
                if await flushed.within(timeout_ms):
                    await flushed
        except Closed:
            pass  # nothing can send the buffered records now, or they belong to the parent process of a fork
        finally:
            when = "before the record was acknowledged" if is_open else "while it was starting"
            when += core.client.router.throttling(began_ms)
            try:
                await core.client.finish(Closed(f"the producer was closed {when}"))
            finally:
                closing.keep(None)
        if flush and not core.is_transactional:
            core.raise_unobserved()

    def send(
        self,
        topic: str,
        value: GivenValue | None = None,
        *,
        key: GivenKey | None = None,
        headers: HeadersInput = (),
        partition: int | None = None,
        timestamp_ms: int | None = None,
        on_delivery: Callable[[Delivery], object] | None = None,
    ) -> Delivery:
        """Buffer a record for sending, without waiting; can be called from any thread.

        Args:
            topic: the destination.
            value: the content; text is encoded as UTF-8. None deletes the key from a compacted topic.
            key: text is encoded as UTF-8; records with equal keys go to the same partition, in order. None for no key.
            headers: (name, value) pairs in order, or a mapping if names are unique; text is encoded as UTF-8.
            partition: the partition number, from 0; None to choose by the key or, without a key, to fill one batch
                after another.
            timestamp_ms: milliseconds since the epoch; None for now.
            on_delivery: called with the delivery once it is settled, on the producer's event loop.

        Returns:
            An awaitable that returns the record's `RecordMetadata` or raises its error.

        Raises:
            BufferFull: `buffer_memory` is used up; the record was not buffered. Await `drain`, or use `send_many`.
            RecordTooLarge: the record exceeds `max_request_size` or `buffer_memory`.
            EncodeError: a key, value, header or timestamp cannot be encoded.
            Closed: the producer is not started or is closed, or the process is a fork of the one that started it.
            LocalProtocolError: the topic name or partition number is invalid, or the producer has a `transactional_id`
                and no transaction is open. If only the partition is missing from the topic, the delivery raises this
                after up to 10 s, since the partition may just have been added.
            TransactionAborted: the open transaction can only be aborted.
            ProducerFenced: the producer can no longer send anything.
        """
        appender = self._started().accumulator.appender
        if self._hooks is not None:
            from kafkawire.sdk.producer.hooks import OutgoingRecord

            record = OutgoingRecord(topic, value, key, headers, partition, timestamp_ms)
            return self._hooks.send(appender, record, on_delivery)
        plain: tuple[Any, Any] = (value, key)  # without serializers only bytes and text are possible
        return appender.send(
            topic,
            plain[0],
            key=plain[1],
            headers=headers,
            partition=partition,
            timestamp_ms=timestamp_ms,
            on_delivery=on_delivery,
        )

    async def send_many(
        self,
        topic: str,
        values: Iterable[GivenValue | None],
        *,
        headers: HeadersInput = (),
        partition: int | None = None,
    ) -> int:
        """Buffer many records without keys, waiting whenever the buffer is full.

        Args:
            topic: the destination.
            values: the values of the records (see `send`); not a string, bytes or a mapping.
            headers, partition: used for every record; see `send`.

        Returns:
            The number of buffered records. `flush` waits until they are stored.

        Raises:
            RecordTooLarge, EncodeError, Closed, LocalProtocolError: see `send`; earlier records were buffered.
        """
        accumulator = self._started().accumulator
        number = None if partition is None else wanted_partition(topic, partition)
        pairs = record_headers(headers) if headers else ()
        count = 0
        remaining = checked_values(values)
        is_plain = self._hooks is None
        is_engine = fast_path_of(self) is not None
        while True:
            chunk, refused = contents(remaining, _MANY, are_plain if is_plain else None)
            taken = 0
            while taken < len(chunk):
                # The first record goes through `send`, which opens a batch or raises; a single call then fills that
                # batch.
                try:
                    self.send(topic, chunk[taken], headers=pairs, partition=number)
                except BufferFull:
                    await self.drain()
                    continue
                taken += 1
                if is_engine and not pairs and taken < len(chunk):
                    taken += accumulator.fill(topic, chunk[taken:], number, now_ms())
            count += taken
            await self.drain()  # sends full batches, which keeps the buffer from filling up and causing a wait
            if refused is not None:
                raise refused
            if len(chunk) < _MANY:
                return count

    async def send_arrow(
        self,
        topic: str,
        table: object,
        value: str | None = "value",
        *,
        key: str | None = None,
        headers: str | None = None,
        partition: str | int | None = None,
        timestamp_ms: str | None = None,
    ) -> int:
        """Buffer a record for each row of an Arrow table, waiting whenever the buffer is full; needs pyarrow.

        Serializers and interceptors are not called for these records. With the extension, no Python object is created
        for a record unless it has headers.

        Args:
            topic: the destination.
            table: a `pyarrow.RecordBatch` or `Table`, or an object with the Arrow PyCapsule interface.
            value: the column of values, binary or text; None for records without values.
            key: the column of keys, binary or text; None for no keys. Records with equal keys go to the same partition.
            headers: a column of lists of (name, value) structs, or of maps; None for no headers.
            partition: a column of numbers, in which null means to choose; or one partition for all rows; None to choose
                for every row (see `send`).
            timestamp_ms: a column of Arrow timestamps of any unit, or of integers in milliseconds since the epoch; null
                means now, and None means now for all rows.

        Returns:
            The number of buffered records. `flush` waits until they are stored.

        Raises:
            EncodeError: a column does not exist, or its type or the named row cannot be converted into records.
            RecordTooLarge, LocalProtocolError: see `send`; the error names the row, from 0, and earlier rows were
                buffered.
            Closed: see `send`.
        """
        from kafkawire.sdk.producer.arrow import arrow_rows, at_row

        core = self._started()
        appender = core.accumulator.appender
        named = {"value": value, "key": key, "headers": headers, "partition": partition, "timestamp_ms": timestamp_ms}
        count = 0
        for rows in arrow_rows(table, **named):
            row = rested = 0
            while row < rows.count:
                row += appender.send_columns(topic, rows, row, min(row + _MANY, rows.count))
                if row < rows.count:
                    try:
                        appender.send(topic, **rows.record(row))
                    except BufferFull:
                        await self.drain()
                        continue
                    except KafkaWireError as error:
                        raise at_row(error, rows.first + row) from error
                    row += 1
                if row - rested >= _MANY or row == rows.count:
                    rested = row
                    await core.rest()  # lets the driver send full batches
            count += rows.count
        return count

    @property
    def client_id(self) -> str:
        """The `client_id` option."""
        return self._options.client_id

    async def client_instance_id(self, timeout_ms: int) -> str:
        """Return the id under which brokers know this client's metrics, as 22 characters (KIP-714).

        Args:
            timeout_ms: how long to wait for a broker to give it.

        Raises:
            RequestTimedOut: no broker has given an id in time.
            UnsupportedVersion: the brokers do not want the metrics of clients.
            LocalProtocolError: `enable_metrics_push` is False.
            Closed: the producer is not started or is closed.
        """
        return await self._started().client.client_instance_id(checked_timeout_ms(timeout_ms))

    def metrics(self) -> Mapping[MetricName, float]:
        """Return the current value of every metric; any thread may call this. docs/observability.md lists them.

        Raises:
            Closed: the producer is not started or is closed.
        """
        return self._started().client.metrics()

    async def drain(self) -> None:
        """Wait until at least half of `buffer_memory` is free; lingering batches are sent only if necessary."""
        core = self._started()
        await core.rest()
        if core.accumulator.bytes_held > self._options.buffer_memory * DRAINED_FRACTION:
            await core.drain()

    async def flush(self, timeout_ms: int | None = None) -> None:
        """Send everything buffered so far and wait until it is acknowledged.

        Args:
            timeout_ms: how long to wait; None for no limit except `delivery_timeout_ms`.

        Raises:
            RequestTimedOut: the time limit has passed; unacknowledged records are still being sent.
            KafkaWireError: the first error since the last `flush` among records whose delivery was not awaited or
                checked.
        """
        if timeout_ms is not None:
            checked_timeout_ms(timeout_ms)
        core = self._started()
        began_ms = monotonic_ms()
        flushed = core.flush()
        if not await flushed.within(timeout_ms):
            text = f"flush: after {timeout_ms} ms some records are still unacknowledged; they are still being sent"
            raise RequestTimedOut(text + core.client.router.throttling(began_ms))
        await flushed
        core.raise_unobserved()

    # Transactions.

    def transaction(self, timeout_ms: int | None = None) -> Transaction:
        """Return a transaction for `async with`; it commits at the end of the block, or aborts if the block raises.

        Args:
            timeout_ms: the limit for committing or aborting; None for `api_timeout_ms`.
        """
        return Transaction(self, timeout_ms)

    async def begin_transaction(self) -> None:
        """Begin a transaction, as soon as the previous one has ended.

        Raises:
            LocalProtocolError: a transaction is open, or there is no `transactional_id`.
            RequestTimedOut: the previous transaction did not end within `api_timeout_ms`.
            ProducerFenced: another producer uses the `transactional_id`.
            KafkaWireError: another error has made transactions impossible.
        """
        core = self._started()
        await core.transaction_ended()
        begun = core.begin()
        try:
            await begun
        except (CancelledError, KeyboardInterrupt):
            with suppress(KafkaWireError):
                core.abort(None)  # nothing else could end the transaction
            raise

    async def commit_transaction(self, timeout_ms: int | None = None) -> None:
        """Flush and commit the open transaction.

        If the call is cancelled or takes too long, the commit continues: call this again to learn its outcome.

        Args:
            timeout_ms: the limit; None for `api_timeout_ms`.

        Raises:
            TransactionAborted: a record was not stored, or the offsets or the commit were rejected (see the cause); the
                transaction was aborted.
            RequestTimedOut: the transaction did not end within the limit.
            ProducerFenced: another producer uses the `transactional_id`, and the transaction was aborted.
            LocalProtocolError: no transaction is open, or it is being aborted.
            KafkaWireError: another error has made transactions impossible.
        """
        await self._started().commit(timeout_ms)

    async def abort_transaction(self, timeout_ms: int | None = None) -> None:
        """Abort the open transaction; unsent records fail with `TransactionAborted`.

        Args:
            timeout_ms: the limit, after which the abort continues in the background; None for `api_timeout_ms`.

        Raises:
            RequestTimedOut, ProducerFenced, LocalProtocolError, KafkaWireError: see `commit_transaction`.
        """
        await self._started().abort(timeout_ms)

    async def send_offsets(
        self,
        offsets: Mapping[TopicPartition, int | OffsetAndMetadata],
        group: GroupMetadata,
        timeout_ms: int | None = None,
    ) -> None:
        """Commit offsets of a consumer's group with the open transaction.

        Args:
            offsets: the offset of the next record to read, keyed by partition.
            group: the result of `Consumer.group_metadata`, which must be called right after the records were read,
                before anything else is awaited: if the group has rebalanced since, the offsets are rejected.
            timeout_ms: the limit, including retries; None for `api_timeout_ms`.

        Raises:
            BrokerError: ILLEGAL_GENERATION, UNKNOWN_MEMBER_ID or a similar code if the group has rebalanced without
                this member, or other codes if the commit was rejected. The transaction can only be aborted.
            RequestTimedOut: the coordinator did not answer in time. The transaction can only be aborted.
            TransactionAborted: the transaction can only be aborted, because of an earlier error.
            LocalProtocolError: no transaction is open.
            ProducerFenced: another producer uses the `transactional_id`.
        """
        await self._started().send_offsets(offsets, group, timeout_ms)

    def _started(self) -> ProducerCore:
        core = self._core
        if core is None or not self._is_open:
            raise not_running("producer", is_closed=self._closing is not None)
        return core


#: The original method: the fast path is used only until this method is replaced.
_SEND: Final = Producer.send


class Transaction:
    """Commit all records sent inside `async with producer.transaction()`, or none of them.

    The block commits at its end. If it raises or is cancelled, the transaction is aborted and the error propagates; if
    the abort fails as well, its error is logged, and the next transaction raises that error. A commit that has begun is
    not undone: if it is cancelled or exceeds its limit, it continues, the next transaction waits for it, and
    `Producer.commit_transaction` reports its outcome.

    Args:
        producer: a producer with a `transactional_id`.
        timeout_ms: the limit for committing or aborting; None for `api_timeout_ms`.
    """

    def __init__(self, producer: Producer[Any, Any], timeout_ms: int | None = None) -> None:
        self._producer = producer
        self._timeout_ms = timeout_ms

    async def __aenter__(self) -> Transaction:
        await self._producer.begin_transaction()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            await self._producer.commit_transaction(self._timeout_ms)
            return
        try:
            await self._producer.abort_transaction(self._timeout_ms)
        except KafkaWireError as failure:
            logger.warning("after %r, the transaction could not be aborted: %s", error, failure)

    async def send_offsets(
        self,
        offsets: Mapping[TopicPartition, int | OffsetAndMetadata],
        group: GroupMetadata,
        timeout_ms: int | None = None,
    ) -> None:
        """Commit offsets of a consumer's group with the transaction; see `Producer.send_offsets`."""
        await self._producer.send_offsets(offsets, group, timeout_ms)


async def prepare_transaction(
    producer: Producer[Any, Any], timeout_ms: int | None = None
) -> PreparedTransaction | None:
    """Flush, and keep the producer's transaction open even after the producer is closed.

    The producer accepts no more records. It can still commit or abort the transaction itself, or be closed.

    Args:
        producer: a producer with an open transaction.
        timeout_ms: the limit; None for `api_timeout_ms`.

    Returns:
        The data needed to end the transaction in any process; None if nothing was sent and there is nothing to end.

    Raises:
        TransactionAborted: a record was not stored, or offsets were rejected (see the cause).
        RequestTimedOut: some records were not stored within the limit. The transaction can only be aborted.
        LocalProtocolError: no transaction is open.
        ProducerFenced: another producer uses the `transactional_id`, and the transaction was aborted.
        KafkaWireError: another error has made transactions impossible.
    """
    return await producer._started().prepare(timeout_ms)


async def _finished(core: ProducerCore, timeout_ms: int | None) -> None:
    """Abort the open transaction, within the time limit."""
    began_ms = monotonic_ms()
    finished = core.finish(timeout_ms)
    try:
        if not await finished.within(timeout_ms):
            raise RequestTimedOut(f"not within {timeout_ms} ms{core.client.router.throttling(began_ms)}")
        await finished
    except KafkaWireError as error:
        logger.warning("the transaction was not ended before the producer was closed: %s", error)
