"""The blocking share consumer: `kafkawire.ShareConsumer` on an I/O thread.

Ctrl-C may interrupt a read at any point. Records that did not reach the caller are then handed out again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from threading import RLock
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, Self, TypeVar, Unpack

from kafkawire.sdk.client.method_hints import SHARE_CONSUMER, Hinting
from kafkawire.sdk.client.summary import blocking_summary
from kafkawire.sdk.consumer.sharing.delivery import AcquiredRecord
from kafkawire.sdk.consumer.sharing.share_consumer import SHARE_CLOSE_TIMEOUT_MS
from kafkawire.sdk.consumer.sharing.share_consumer import ShareConsumer as AsyncShareConsumer
from kafkawire.sdk.errors import DeserializationFailed, KafkaWireError
from kafkawire.sdk.records.type_variables import Key, Value
from kafkawire.sdk.routing.partitions import TopicPartition
from kafkawire.sdk.sync.options import on_io_thread
from kafkawire.sdk.transport.waiting import result_of
from kafkawire.sdk.transport.wire import Network

if TYPE_CHECKING:
    from kafkawire.sdk.client.keywords import ShareConsumerKeywords
    from kafkawire.sdk.consumer.sharing.acquisitions import AcknowledgeOutcome
    from kafkawire.sdk.consumer.sharing.core import ShareConsumerCore
    from kafkawire.sdk.metrics.names import MetricName

__all__ = ["ShareConsumer", "ShareDelivery", "ShareIterator"]

Given = ParamSpec("Given")
Result = TypeVar("Result")


class ShareDelivery(AcquiredRecord[Key, Value]):
    """A record that this consumer has acquired, to be acknowledged before its acquisition lock runs out.

    `with delivery` accepts the record at the end of the block. If an exception leaves the block, it releases the
    record, or rejects it if the exception is one of the consumer's `reject_on`. If the block has acknowledged the
    record itself, that counts. One thread uses a delivery at a time.

    Attributes:
        record: the record.
        delivery_count: how often it has been delivered, including this time.
    """

    __slots__ = ()

    def __enter__(self) -> Self:
        self._check_explicit("with delivery")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._leave(error)

    def renew(self) -> None:
        """Extend the acquisition lock by its full duration; see `kafkawire.ShareDelivery.renew`."""
        result_of(self._renewed)

    async def _renewed(self) -> None:
        await self._renew()


class ShareConsumer(Hinting, Generic[Key, Value], hints=SHARE_CONSUMER):
    """Receive records of topics that the consumers of a share group process together, blocking the caller.

    The constructor does no I/O; use `with ShareConsumer(…) as consumer`, or call `start` and `close`. Heartbeats and
    acknowledgements continue while the application is working, for up to `max_poll_interval_ms`. Several threads may
    read: each record goes to one of them. `kafkawire.ShareConsumer` describes acknowledgements, and the errors that
    reads raise.

    Args:
        servers: brokers to connect to first: `host:port,host:port`, or a sequence of `host:port`; the option
            `bootstrap_servers` can be used instead.
        topics: the topics to read, as separate arguments or in one list. If you pass no topics, call `subscribe`.
        reject_on: exceptions after which `with delivery` rejects the record rather than releasing it.
        on_acknowledged: called with the outcome of acknowledgements, on the I/O thread; it must not wait.
        key_deserializer: converts a record's key from bytes; None leaves it as bytes. It is called when the record is
            handed out; if it raises, the read raises `DeserializationFailed`.
        value_deserializer: the same for the value.
        network: how to connect to the brokers; None for TCP.
        options: see `ShareConsumerKeywords` and docs/options.md; the dotted names of Kafka's documentation are accepted
            too.

    Raises:
        ConfigurationError: an option is unknown or out of range, or two options contradict each other.
        LocalProtocolError: a topic name is invalid.
    """

    def __init__(
        self,
        servers: str | Iterable[str] | None = None,
        /,
        *topics: str | Iterable[str],
        reject_on: type[BaseException] | tuple[type[BaseException], ...] = (),
        on_acknowledged: Callable[[AcknowledgeOutcome], None] | None = None,
        key_deserializer: Callable[[bytes], Key] | None = None,
        value_deserializer: Callable[[bytes], Value] | None = None,
        network: Network | None = None,
        **options: Unpack[ShareConsumerKeywords],
    ) -> None:
        self._inner: _Inner[Key, Value] = _Inner(
            servers,
            *topics,
            reject_on=reject_on,
            on_acknowledged=on_acknowledged,
            key_deserializer=key_deserializer,
            value_deserializer=value_deserializer,
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
        result_of(self._inner.__aexit__, kind, error, trace)

    def start(self) -> None:
        """Connect to the cluster, and join the group if topics were given; see `kafkawire.ShareConsumer.start`."""
        result_of(self._inner.start)

    def close(self, timeout_ms: int = SHARE_CLOSE_TIMEOUT_MS) -> None:
        """Send the acknowledgements, release the other records, leave the group and disconnect.

        See `kafkawire.ShareConsumer.close`.
        """
        result_of(self._inner.close, timeout_ms)

    # Reading.

    def __iter__(self) -> ShareIterator[Key, Value]:
        """Iterate over deliveries endlessly; in implicit mode, a record is accepted when the next one is requested."""
        return self._inner.iterator()

    def getmany(
        self, timeout_ms: int = 0, max_records: int | None = None
    ) -> dict[TopicPartition, list[ShareDelivery[Key, Value]]]:
        """Return the available deliveries by partition; see `kafkawire.ShareConsumer.getmany`."""
        found: dict[TopicPartition, list[Any]] = self._inner.take(self._inner.getmany, timeout_ms, max_records)
        return found

    # Acknowledgements.

    def commit(self, timeout_ms: int | None = None) -> list[AcknowledgeOutcome]:
        """Send all acknowledgements now, and wait for the brokers; see `kafkawire.ShareConsumer.commit`."""
        return result_of(self._inner.commit, timeout_ms)

    def reject(self, error: DeserializationFailed) -> None:
        """Reject a record that could not be deserialized; see `kafkawire.ShareConsumer.reject`."""
        self._inner.reject(error)

    @property
    def acquisition_lock_timeout_ms(self) -> int | None:
        """How long acquisition locks last, as a broker last reported; None before the first response to a fetch."""
        return self._inner.acquisition_lock_timeout_ms

    # Subscription.

    @property
    def subscription(self) -> frozenset[str]:
        """The topics currently subscribed to."""
        return self._inner.subscription

    def subscribe(self, *topics: str | Iterable[str]) -> None:
        """Replace the subscription, at any time; see `kafkawire.ShareConsumer.subscribe`."""
        result_of(self._inner.subscribe, *topics)

    # Status.

    @property
    def client_id(self) -> str:
        """The `client_id` option."""
        return self._inner.client_id

    def metrics(self) -> Mapping[MetricName, float]:
        """Return the current value of every metric; see `kafkawire.ShareConsumer.metrics`."""
        return self._inner.metrics()


class ShareIterator(Iterator[ShareDelivery[Key, Value]]):
    """The blocking iterator of deliveries.

    Args:
        wait: blocks until there is a delivery and returns it; returns None at the end.
    """

    def __init__(self, wait: Callable[[], Any]) -> None:
        self._wait = wait

    def __iter__(self) -> ShareIterator[Key, Value]:
        return self

    def __next__(self) -> ShareDelivery[Key, Value]:
        delivery: ShareDelivery[Key, Value] | None = self._wait()
        if delivery is None:
            raise StopIteration
        return delivery


class _Inner(AsyncShareConsumer[Key, Value]):
    """The asyncio share consumer inside a blocking one; it can be interrupted, and threads share it."""

    _delivery = ShareDelivery

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._lock = RLock()
        self._is_taking = False

    def iterator(self) -> ShareIterator[Key, Value]:
        """Return an iterator over deliveries."""
        self._started()
        return ShareIterator(lambda: self.take(self._next))

    def take(self, read: Callable[Given, Any], *arguments: Given.args, **named: Given.kwargs) -> Any:
        """Return what a read finds; if the read is interrupted, the next one finds it again."""
        try:
            found = result_of(read, *arguments, **named)
        except KafkaWireError:
            self._is_taking = False
            raise
        except BaseException:
            core = self._core
            if self._is_taking and core is not None:
                core.reader.rewind()
            self._is_taking = False
            raise
        self._is_taking = False
        return found

    def _read(self, core: ShareConsumerCore, read: Callable[[], Result | None]) -> Result | None:
        with self._lock:
            core.reader.settle()
            self._is_taking = True
            found = read()
            if found is None:
                self._is_taking = False
            return found

    def _alone(self, act: Callable[[], None]) -> None:
        with self._lock:
            act()
