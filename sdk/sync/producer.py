"""The blocking producer: `kafkawire.Producer` on an I/O thread."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Generic, Self, Unpack

from kafkawire.sdk.client.method_hints import PRODUCER, Hinting
from kafkawire.sdk.client.summary import blocking_summary
from kafkawire.sdk.producer.engine import Delivery
from kafkawire.sdk.producer.producer import Producer as AsyncProducer
from kafkawire.sdk.producer.producer import Transaction as AsyncTransaction
from kafkawire.sdk.producer.send_fast_path import ProducerClass, SendFastPath, fast_path_of
from kafkawire.sdk.protocol.values import Buffer
from kafkawire.sdk.records.content import HeadersInput
from kafkawire.sdk.records.type_variables import GivenKey, GivenValue
from kafkawire.sdk.routing.partitions import OffsetAndMetadata, TopicPartition
from kafkawire.sdk.sync.options import on_io_thread
from kafkawire.sdk.transport.waiting import result_of
from kafkawire.sdk.transport.wire import Network

if TYPE_CHECKING:
    from kafkawire.sdk.client.keywords import ProducerKeywords
    from kafkawire.sdk.groups.protocol import GroupMetadata
    from kafkawire.sdk.metrics.names import MetricName
    from kafkawire.sdk.producer.hooks import ProducerInterceptor

__all__ = ["Producer", "Transaction"]


class Producer(Hinting, Generic[GivenKey, GivenValue], metaclass=ProducerClass, hints=PRODUCER):
    """Send records to topics, blocking the caller where `kafkawire.Producer` awaits.

    The constructor does no I/O; use `with Producer(…) as producer`, or call `start` and `close`. Any thread may call
    any method. `Delivery.result` waits for one record. Delivery callbacks run on the I/O thread, so they must not
    block, and methods that would wait raise `LocalProtocolError` there.

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
        self._inner: AsyncProducer[GivenKey, GivenValue] = AsyncProducer(
            servers,
            key_serializer=key_serializer,
            value_serializer=value_serializer,
            interceptors=interceptors,
            network=network,
            **on_io_thread(options),
        )

    def __repr__(self) -> str:
        return blocking_summary(self)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close(flush=error is None)

    def start(self) -> None:
        """Connect to the cluster; see `kafkawire.Producer.start`."""
        result_of(self._inner.start)
        self._fast_path = SendFastPath(self, _SEND, partial(fast_path_of, self._inner))

    def close(self, *, flush: bool = True, timeout_ms: int | None = None) -> None:
        """Flush and disconnect; see `kafkawire.Producer.close`."""
        result_of(self._inner.close, flush=flush, timeout_ms=timeout_ms)

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
        """Buffer a record for sending, without waiting; see `kafkawire.Producer.send`."""
        return self._inner.send(
            topic,
            value,
            key=key,
            headers=headers,
            partition=partition,
            timestamp_ms=timestamp_ms,
            on_delivery=on_delivery,
        )

    def send_many(
        self,
        topic: str,
        values: Iterable[GivenValue | None],
        *,
        headers: HeadersInput = (),
        partition: int | None = None,
    ) -> int:
        """Buffer many records without keys, waiting whenever the buffer is full; see `kafkawire.Producer.send_many`."""
        return result_of(self._inner.send_many, topic, values, headers=headers, partition=partition)

    def send_arrow(
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
        """Buffer a record for each row of an Arrow table; see `kafkawire.Producer.send_arrow`."""
        return result_of(
            self._inner.send_arrow,
            topic,
            table,
            value,
            key=key,
            headers=headers,
            partition=partition,
            timestamp_ms=timestamp_ms,
        )

    def drain(self) -> None:
        """Wait until at least half of `buffer_memory` is free; see `kafkawire.Producer.drain`."""
        result_of(self._inner.drain)

    def flush(self, timeout_ms: int | None = None) -> None:
        """Send everything buffered so far and wait until it is acknowledged; see `kafkawire.Producer.flush`."""
        result_of(self._inner.flush, timeout_ms)

    # Transactions.

    def transaction(self, timeout_ms: int | None = None) -> Transaction:
        """Return a transaction for `with`; see `kafkawire.Producer.transaction`."""
        return Transaction(self, timeout_ms)

    def begin_transaction(self) -> None:
        """Begin a transaction; see `kafkawire.Producer.begin_transaction`."""
        result_of(self._inner.begin_transaction)

    def commit_transaction(self, timeout_ms: int | None = None) -> None:
        """Flush and commit the open transaction; see `kafkawire.Producer.commit_transaction`."""
        result_of(self._inner.commit_transaction, timeout_ms)

    def abort_transaction(self, timeout_ms: int | None = None) -> None:
        """Abort the open transaction; see `kafkawire.Producer.abort_transaction`."""
        result_of(self._inner.abort_transaction, timeout_ms)

    def send_offsets(
        self,
        offsets: Mapping[TopicPartition, int | OffsetAndMetadata],
        group: GroupMetadata,
        timeout_ms: int | None = None,
    ) -> None:
        """Commit offsets of a consumer's group with the open transaction; see `kafkawire.Producer.send_offsets`."""
        result_of(self._inner.send_offsets, offsets, group, timeout_ms)

    # Status.

    @property
    def client_id(self) -> str:
        """The `client_id` option."""
        return self._inner.client_id

    def client_instance_id(self, timeout_ms: int) -> str:
        """Return the id under which brokers know this client's metrics; see `kafkawire.Producer.client_instance_id`."""
        return result_of(self._inner.client_instance_id, timeout_ms)

    def metrics(self) -> Mapping[MetricName, float]:
        """Return the current value of every metric; see `kafkawire.Producer.metrics`."""
        return self._inner.metrics()


#: The method as defined here; see `sdk/producer/producer.py`.
_SEND: Final = Producer.send


class Transaction:
    """Commit everything sent inside `with producer.transaction()`, or none of it; see `kafkawire.Transaction`.

    Args:
        producer: a producer with a `transactional_id`.
        timeout_ms: the limit for committing or aborting; None for `api_timeout_ms`.
    """

    def __init__(self, producer: Producer[Any, Any], timeout_ms: int | None = None) -> None:
        self._inner = AsyncTransaction(producer._inner, timeout_ms)

    def __enter__(self) -> Transaction:
        result_of(self._inner.__aenter__)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        result_of(self._inner.__aexit__, kind, error, trace)

    def send_offsets(
        self,
        offsets: Mapping[TopicPartition, int | OffsetAndMetadata],
        group: GroupMetadata,
        timeout_ms: int | None = None,
    ) -> None:
        """Commit offsets of a consumer's group with the transaction; see `kafkawire.Transaction.send_offsets`."""
        result_of(self._inner.send_offsets, offsets, group, timeout_ms)
