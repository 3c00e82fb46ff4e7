"""The share consumer, which shares the records of topics with the other consumers of its share group.

This is the asyncio client, which waits for the machines in `core.py`. `async for` yields single deliveries, and
`getmany` returns lists. Any await can be cancelled without losing a record or an acknowledgement.

Source: KIP-932; Apache Kafka, `KafkaShareConsumer`.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Generic, Self, TypeVar, Unpack

from kafkawire.sdk.client.arguments import (
    MAX_INT32,
    checked_callable,
    checked_number,
    checked_timeout_ms,
    given_several,
    is_text,
)
from kafkawire.sdk.client.method_hints import SHARE_CONSUMER, Hinting
from kafkawire.sdk.client.options import ShareConsumerOptions, read_options
from kafkawire.sdk.client.summary import State, not_running, summary
from kafkawire.sdk.client.unclosed_clients import caller, reduce_unstarted, warn_unclosed
from kafkawire.sdk.clock import monotonic_ms
from kafkawire.sdk.consumer.sharing.delivery import AcquiredRecord, ShareDelivery
from kafkawire.sdk.errors import Closed, ConfigurationError, DeserializationFailed, LocalProtocolError
from kafkawire.sdk.protocol.values import quoted
from kafkawire.sdk.records.type_variables import Key, Value
from kafkawire.sdk.routing.partitions import TopicPartition
from kafkawire.sdk.routing.topics import checked_topics
from kafkawire.sdk.transport.promise import Promise
from kafkawire.sdk.transport.waiting import YieldTimer
from kafkawire.sdk.transport.wire import Network

if TYPE_CHECKING:
    from kafkawire.sdk.client.keywords import ShareConsumerKeywords
    from kafkawire.sdk.consumer.reading.hooks import ConsumerHooks
    from kafkawire.sdk.consumer.sharing.acquisitions import AcknowledgeOutcome
    from kafkawire.sdk.consumer.sharing.core import ShareConsumerCore
    from kafkawire.sdk.metrics.names import MetricName

__all__ = ["SHARE_CLOSE_TIMEOUT_MS", "ShareConsumer", "ShareStream"]

logger = logging.getLogger("kafkawire.consumer")

#: How long `close` may take by default to send acknowledgements and to leave the group. As in Kafka, the brokers would
#: release the records and continue without the member a while later anyway.
SHARE_CLOSE_TIMEOUT_MS: Final = 5_000

#: How much longer than its limit `close` waits for the I/O side. The I/O side observes the limit itself, unless its
#: thread is blocked on a lock held by the closing thread, which a signal handler has interrupted.
_GRACE_MS: Final = 250

Result = TypeVar("Result")


class ShareConsumer(Hinting, Generic[Key, Value], hints=SHARE_CONSUMER):
    """Receive records of topics that the consumers of a share group process together, in no particular order (KIP-932).

    A broker acquires records for this consumer, each with a lock that lasts for a while. A record that is not
    acknowledged in that time is delivered again, to any consumer of the group. In implicit mode, the next read or
    `commit` accepts everything that was handed out. With `share_acknowledgement_mode="explicit"`, the application
    acknowledges each delivery, in any order, and may read on before it has done so.

    The constructor does no I/O; use `async with ShareConsumer(…) as consumer`, or call `start` and `close`. In implicit
    mode, leaving the `async with` block without an error accepts the records of the last read. Every read, including
    iteration, raises `BrokerError`, `DecodeError` (a damaged batch, whose records are rejected) or
    `DeserializationFailed` (the record is released). When the consumer is closed, iterations in other tasks end, and
    other reads raise `Closed`. Several tasks may read: each record goes to one of them.

    Args:
        servers: brokers to connect to first: `host:port,host:port`, or a sequence of `host:port`; the option
            `bootstrap_servers` can be used instead.
        topics: the topics to read, as separate arguments or in one list. If you pass no topics, call `subscribe`.
        reject_on: exceptions after which `async with delivery` rejects the record rather than releasing it.
        on_acknowledged: called with the outcome of acknowledgements, on the client's event loop or its I/O thread; it
            must not wait.
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
        self._options = read_options(ShareConsumerOptions, servers, options)
        self._network = network
        self._reject_on = _exceptions(reject_on)
        checked_callable("on_acknowledged", on_acknowledged)
        self._on_acknowledged = on_acknowledged
        self._hooks: ConsumerHooks[Key, Value] | None = None
        if key_deserializer is not None or value_deserializer is not None:
            from kafkawire.sdk.consumer.reading.hooks import ConsumerHooks  # few programs have deserializers

            self._hooks = ConsumerHooks(key_deserializer, value_deserializer, ())
        self._topics = _names(topics) if topics else frozenset[str]()
        self._core: ShareConsumerCore | None = None
        self._closing: Promise[None] | None = None
        self._former: ShareConsumerCore | None = None
        self._yield_timer = YieldTimer()
        self._made_at = caller()

    def __del__(self, is_finalizing: Callable[[], bool] = sys.is_finalizing) -> None:
        core: ShareConsumerCore | None = getattr(self, "_core", None)  # also None if the constructor raised
        is_dropped = core is not None and self._closing is None and not is_finalizing()
        if is_dropped and core is not None and core.let_go(SHARE_CLOSE_TIMEOUT_MS):
            name = f"share consumer {self._options.client_id!r} of group {self._options.group_id!r}"
            warn_unclosed(self, name, self._made_at, "it leaves its group")

    __reduce_ex__ = reduce_unstarted("share consumer", "_core")

    def __repr__(self) -> str:
        return summary(self, *self._state())

    def _state(self) -> tuple[ShareConsumerOptions | None, State]:
        """Return the options and the state; the options are None if the constructor raised before setting them."""
        started = getattr(self, "_core", None) is not None
        is_closed = getattr(self, "_closing", None) is not None
        return getattr(self, "_options", None), "closed" if is_closed else "started" if started else "new"

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None and self._core is not None:
            self._alone(self._core.reader.finish)
        await self.close()

    async def start(self) -> None:
        """Connect to the cluster, and join the group if topics were given.

        Raises:
            ConnectFailed: none of the bootstrap servers can be reached.
            BrokerError: access to a topic is denied. A topic that does not exist yet is read as soon as it exists.
            LocalProtocolError: the share consumer has already been started.
            Closed: the share consumer was closed; it cannot be started again.
        """
        self._check_open()
        if self._core is not None:
            raise LocalProtocolError("the share consumer was already started")
        from kafkawire.sdk.consumer.sharing.core import ShareConsumerCore  # loaded late to keep the import fast

        core = self._core = ShareConsumerCore(self._options, self._network, self._delivery, self._reject_on)
        core.reader.hooks = self._hooks
        core.planner.settlements.notify = self._on_acknowledged
        try:
            await core.start(self._topics)
            if self._topics:
                core.subscribe(self._topics)
        except BaseException:
            self._core = None
            await core.client.finish(Closed("the share consumer could not be started"))
            raise

    async def close(self, timeout_ms: int = SHARE_CLOSE_TIMEOUT_MS) -> None:
        """Send the acknowledgements, release the other records, leave the group and disconnect.

        A second call while the first is running, for example from a signal handler, waits no longer than its own limit,
        because it may have interrupted the first call.

        Args:
            timeout_ms: the limit for sending acknowledgements and leaving the group, after which the consumer
                disconnects anyway; the brokers then release the records.

        Raises:
            LocalProtocolError: the limit is invalid.
        """
        checked_timeout_ms(timeout_ms)
        core, closing = self._core or self._former, self._closing
        if core is None or (closing is not None and closing.done):
            return
        if closing is None:
            closing = self._closing = Promise()
        try:
            with suppress(Closed):  # an internal error has already closed the client, and every read has raised it
                left = core.leave(timeout_ms)
                await left.within(timeout_ms + _GRACE_MS)
        finally:
            self._former, self._core = core, None
            try:
                await core.client.finish(Closed("the share consumer was closed"))
            finally:
                closing.keep(None)

    # Reading.

    def __aiter__(self) -> ShareStream[Key, Value]:
        """Iterate over deliveries endlessly; in implicit mode, a record is accepted when the next one is requested."""
        self._started()
        return ShareStream(self._next)

    async def getmany(
        self, timeout_ms: int = 0, max_records: int | None = None
    ) -> dict[TopicPartition, list[ShareDelivery[Key, Value]]]:
        """Return the available deliveries by partition; in implicit mode, the next read accepts all of them.

        Args:
            timeout_ms: how long to wait for the first record, in milliseconds; 0 for no wait. A read that finds nothing
                has records acquired for later reads.
            max_records: the maximum number of records; None for `max_poll_records`.

        Returns:
            The deliveries in offset order, keyed by partition; empty if none arrived in time.

        Raises:
            LocalProtocolError: there is no subscription, or an argument is invalid.
            KafkaWireError: reading failed.
        """
        core = self._started()
        limit = self._record_limit(max_records)
        deadline_ms = monotonic_ms() + checked_timeout_ms(timeout_ms)
        return await self._wait(core, lambda: core.reader.take_many(limit) or None, deadline_ms) or {}

    # Acknowledgements.

    async def commit(self, timeout_ms: int | None = None) -> list[AcknowledgeOutcome]:
        """Send all acknowledgements now, and wait for the brokers; in implicit mode, first accept what was handed out.

        Without this call, acknowledgements are sent with the next fetch or after a moment.

        Args:
            timeout_ms: the limit; None for `api_timeout_ms`.

        Returns:
            The outcomes of all acknowledgements that had none yet, by partition. An outcome with an error means that
            other consumers may receive the records.

        Raises:
            RequestTimedOut: brokers did not answer in time; acknowledgements on their way are not withdrawn.
        """
        core = self._started()
        limit_ms = self._options.api_timeout_ms if timeout_ms is None else checked_timeout_ms(timeout_ms)
        self._alone(core.reader.finish)
        return await core.commit(limit_ms)

    def reject(self, error: DeserializationFailed) -> None:
        """Reject a record that could not be deserialized, instead of having it delivered again.

        Call this before the next read, which would release the record.

        Args:
            error: the error that a read raised.

        Raises:
            LocalProtocolError: `error` is not a `DeserializationFailed`, or the record is no longer held.
        """
        core = self._started()
        if not isinstance(error, DeserializationFailed):
            raise LocalProtocolError(f"reject: expected a DeserializationFailed, got {quoted(error)}")
        self._alone(lambda: core.reader.reject(error))

    @property
    def acquisition_lock_timeout_ms(self) -> int | None:
        """How long acquisition locks last, as a broker last reported; None before the first response to a fetch."""
        core = self._core
        return None if core is None else core.ledger.lock_timeout_ms

    # Subscription.

    @property
    def subscription(self) -> frozenset[str]:
        """The topics currently subscribed to."""
        return self._topics

    async def subscribe(self, *topics: str | Iterable[str]) -> None:
        """Replace the subscription, at any time; acquired records of other topics are released by the next reads.

        Deliveries that were handed out can still be acknowledged.

        Args:
            topics: the topics to read from now on, as separate arguments or in one list.

        Raises:
            LocalProtocolError: no topic is given, or a topic name is invalid.
            Closed: the share consumer was closed.
        """
        self._check_open()
        names = _names(topics)
        if self._core is not None:
            self._core.subscribe(names)
        self._topics = names

    # Status.

    @property
    def client_id(self) -> str:
        """The `client_id` option."""
        return self._options.client_id

    def metrics(self) -> Mapping[MetricName, float]:
        """Return the current value of every metric; any thread may call this. docs/observability.md lists them.

        Raises:
            Closed: the share consumer is not started or is closed.
        """
        return self._started().client.metrics()

    # Internals.

    #: The class of this consumer's deliveries.
    _delivery: type[AcquiredRecord[Any, Any]] = ShareDelivery

    async def _next(self) -> ShareDelivery[Key, Value] | None:
        """Wait for the next delivery of an iteration; return None once the client has ended."""
        core = self._core
        if core is None:
            return None
        try:
            return await self._wait(core, core.reader.take)
        except Closed:
            if self._closing is None:  # in a forked child, or without the event loop
                raise
            return None

    async def _wait(
        self, core: ShareConsumerCore, read: Callable[[], Result | None], deadline_ms: int | None = None
    ) -> Result | None:
        """Call `read` until it finds something; return None at the deadline."""
        if not self._topics:
            raise LocalProtocolError("there is nothing to read: subscribe to topics")
        if self._yield_timer.is_due():
            await self._yield_timer.yield_now()  # the application may never wait, and heartbeats also need the loop
        while (found := self._read(core, read)) is None:
            if not await self._woken(core, deadline_ms):
                return None
        return found

    def _read(self, core: ShareConsumerCore, read: Callable[[], Result | None]) -> Result | None:
        return read()

    def _alone(self, act: Callable[[], None]) -> None:
        """Change what was handed out."""
        act()

    async def _woken(self, core: ShareConsumerCore, deadline_ms: int | None) -> bool:
        """Wait until something arrives; return whether it arrived before the deadline."""
        core.driver.check_loop()
        promise = core.queue.wait()
        try:
            return await promise.within(None if deadline_ms is None else deadline_ms - monotonic_ms())
        finally:
            core.queue.cancel(promise)

    def _check_open(self) -> None:
        if self._closing is not None:
            raise Closed("the share consumer was closed; create a new one")

    def _started(self) -> ShareConsumerCore:
        core = self._core  # read only once, because a signal handler may close the consumer at any moment
        if core is None:
            raise not_running("share consumer", is_closed=self._closing is not None)
        return core

    def _record_limit(self, given: int | None) -> int:
        return self._options.max_poll_records if given is None else checked_number("max_records", given, 1, MAX_INT32)


class ShareStream(AsyncIterator[ShareDelivery[Key, Value]]):
    """The asynchronous iterator of deliveries.

    Args:
        wait: waits for the next delivery and returns it; returns None at the end.
    """

    def __init__(self, wait: Callable[[], Any]) -> None:
        self._wait = wait

    def __aiter__(self) -> ShareStream[Key, Value]:
        return self

    async def __anext__(self) -> ShareDelivery[Key, Value]:
        delivery: ShareDelivery[Key, Value] | None = await self._wait()
        if delivery is None:
            raise StopAsyncIteration
        return delivery


def _names(topics: tuple[Any, ...]) -> frozenset[str]:
    names = checked_topics(given_several(topics, is_text))
    if not names:
        raise LocalProtocolError("subscribe: expected topics")
    return frozenset(names)


def _exceptions(given: object) -> tuple[type[BaseException], ...]:
    """Return exception classes, given as one class or as a tuple.

    Raises:
        ConfigurationError: the value is neither.
    """
    several = given if isinstance(given, tuple) else (given,)
    classes = tuple(each for each in several if isinstance(each, type) and issubclass(each, BaseException))
    if len(classes) < len(several):
        raise ConfigurationError("reject_on", given, "expected an exception class, or a tuple of such classes")
    return classes
