"""The consumer, which reads records from partitions assigned by hand or by its group.

This is the asyncio client, which waits for the machines in `core.py`. `async for` yields single records, `batches`
yields whole batches, and `getmany` returns lists. Any await can be cancelled without losing a record.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import AsyncGenerator, Callable, Collection, Iterable, Mapping
from contextlib import suppress
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Generic, Self, TypeVar, Unpack

from kafkawire.sdk.client.arguments import (
    MAX_INT32,
    checked_end,
    checked_methods,
    checked_number,
    checked_offset,
    checked_partition,
    checked_partitions,
    checked_timeout_ms,
    checked_times,
    given_several,
)
from kafkawire.sdk.client.method_hints import CONSUMER, Hinting
from kafkawire.sdk.client.options import ConsumerOptions, read_options
from kafkawire.sdk.client.summary import State, not_running, summary
from kafkawire.sdk.client.times import is_datetime, to_ms
from kafkawire.sdk.client.unclosed_clients import caller, reduce_unstarted, warn_unclosed, weakly
from kafkawire.sdk.clock import monotonic_ms
from kafkawire.sdk.consumer.batch import ConsumerBatch
from kafkawire.sdk.consumer.position import Place
from kafkawire.sdk.consumer.topic_choice import choose_topics
from kafkawire.sdk.errors import Closed, DeserializationFailed, LocalProtocolError, RequestTimedOut
from kafkawire.sdk.groups.subscription import Subscription
from kafkawire.sdk.protocol.tables.enums import OffsetTimestamp
from kafkawire.sdk.protocol.values import quoted
from kafkawire.sdk.records import Record
from kafkawire.sdk.records.type_variables import Key, Value
from kafkawire.sdk.routing.partitions import OffsetAndMetadata, OffsetAndTimestamp, TopicPartition
from kafkawire.sdk.routing.topics import checked_topic
from kafkawire.sdk.transport.promise import Promise
from kafkawire.sdk.transport.waiting import YieldTimer, yield_to_loop
from kafkawire.sdk.transport.wire import Network

if TYPE_CHECKING:
    from datetime import datetime

    from kafkawire.sdk.client.keywords import ConsumerKeywords
    from kafkawire.sdk.consumer.core import ConsumerCore
    from kafkawire.sdk.consumer.health import ConsumerHealth
    from kafkawire.sdk.consumer.listener import BlockingListenerCalls, ListenerCalls, RebalanceListener
    from kafkawire.sdk.consumer.reading.bounded_reads import BoundedRecords, EndOffsets
    from kafkawire.sdk.consumer.reading.engine import Handout, RecordIterator, RecordStream
    from kafkawire.sdk.consumer.reading.hooks import ConsumerHooks, ConsumerInterceptor
    from kafkawire.sdk.groups.protocol import Event, GroupMetadata
    from kafkawire.sdk.metrics.names import MetricName

__all__ = ["CLOSE_TIMEOUT_MS", "Consumer"]

logger = logging.getLogger("kafkawire.consumer")

#: How long `close` may take by default to commit and to leave the group. As in Kafka, the group would continue without
#: the member after a session timeout anyway.
CLOSE_TIMEOUT_MS: Final = 5_000

#: How much longer than its limit `close` waits for the I/O side. The I/O side observes the limit itself, unless its
#: thread is blocked on a lock held by the closing thread, which a signal handler has interrupted.
_GRACE_MS: Final = 250

Result = TypeVar("Result")


class Consumer(Hinting, Generic[Key, Value], hints=CONSUMER):
    """Read records from topics.

    The constructor does no I/O; use `async with Consumer(…) as consumer`, or call `start` and `close`. Every read,
    including iteration, raises `BrokerError`, `DecodeError` (a damaged batch) or `NoOffset` (no committed offset, and
    `auto_offset_reset` is "none"). The partition then stops until `seek` or `resume`, unless access was denied: after a
    pause it is asked for again, and reading continues after the grant. A consumer with neither topics nor partitions
    raises `LocalProtocolError`. When the consumer is closed, iterations in other tasks end, and other reads raise
    `Closed`. Several tasks may read: each record goes to one of them, and is considered finished once any of them reads
    again.

    Args:
        servers: brokers to connect to first: `host:port,host:port`, or a sequence of `host:port`; the option
            `bootstrap_servers` can be used instead.
        topics: the topics to read, as separate arguments or in one list. With `group_id`, the group assigns their
            partitions; without it, all partitions are read. If you pass no topics, call `assign`.
        listener: called when partitions are assigned, revoked or lost.
        key_deserializer: converts a record's key from bytes; None leaves it as bytes. It is called when an iteration,
            `getmany` or `records` hands out the record; if it raises, the read raises `DeserializationFailed`.
            `batches` and `getbatches` hand out bytes.
        value_deserializer: the same for the value.
        interceptors: called, in this order, with every record that is handed out and with every commit.
        network: how to connect to the brokers; None for TCP.
        options: see `ConsumerKeywords` and docs/options.md; the dotted names of Kafka's documentation are accepted too.

    Raises:
        ConfigurationError: an option is unknown or out of range, or two options contradict each other.
        LocalProtocolError: a topic name is invalid.
    """

    def __init__(
        self,
        servers: str | Iterable[str] | None = None,
        /,
        *topics: str | Iterable[str],
        listener: RebalanceListener | None = None,
        key_deserializer: Callable[[bytes], Key] | None = None,
        value_deserializer: Callable[[bytes], Value] | None = None,
        interceptors: Iterable[ConsumerInterceptor[Key, Value]] | None = None,
        network: Network | None = None,
        **options: Unpack[ConsumerKeywords],
    ) -> None:
        self._options = read_options(ConsumerOptions, servers, options)
        self._network = network
        self._listener = listener
        if listener is not None:
            checked_methods("listener", listener, on_assigned=1, on_revoked=1, on_lost=1)
        self._hooks: ConsumerHooks[Key, Value] | None = None
        if key_deserializer is not None or value_deserializer is not None or interceptors is not None:
            from kafkawire.sdk.consumer.reading.hooks import ConsumerHooks  # few programs have hooks

            self._hooks = ConsumerHooks(key_deserializer, value_deserializer, interceptors or ())
        self._by_hand: Collection[TopicPartition] | Mapping[TopicPartition, int] = ()
        self._subscription = self._chosen(topics) if topics else None
        self._core: ConsumerCore | None = None
        self._calls: ListenerCalls | BlockingListenerCalls | None = None
        self._raised: Exception | None = None
        self._former: ConsumerCore | None = None
        self._closing: Promise[None] | None = None
        self._stream: RecordStream[Key, Value] | None = None
        self._seen = 0
        self._yield_timer = YieldTimer()
        self._made_at = caller()

    def __del__(self, is_finalizing: Callable[[], bool] = sys.is_finalizing) -> None:
        core: ConsumerCore | None = getattr(self, "_core", None)  # also None if the constructor raised
        if core is not None and self._closing is None and not is_finalizing() and core.let_go(CLOSE_TIMEOUT_MS):
            group = "" if self._options.group_id is None else f" of group {self._options.group_id!r}"
            consequence = "it leaves its group" if group else "it disconnects"
            warn_unclosed(self, f"consumer {self._options.client_id!r}{group}", self._made_at, consequence)

    __reduce_ex__ = reduce_unstarted("consumer", "_core")

    def __repr__(self) -> str:
        return summary(self, *self._state())

    def _state(self) -> tuple[ConsumerOptions | None, State]:
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
            self._core.reader.finish()
        await self.close()

    async def start(self) -> None:
        """Connect to the cluster and start reading.

        Raises:
            ConnectFailed: none of the bootstrap servers can be reached.
            RequestTimedOut: with `group_protocol="zookeeper"`, ZooKeeper was not reached within `api_timeout_ms`.
            ConfigurationError: a package required by an option is not installed.
            BrokerError: access to a topic is denied. A topic that does not exist yet is read as soon as it exists.
            LocalProtocolError: the consumer has already been started.
            Closed: the consumer was closed; a closed consumer cannot be started again.
        """
        self._check_open()
        if self._core is not None:
            raise LocalProtocolError("the consumer was already started")
        from kafkawire.sdk.consumer.core import ConsumerCore  # loaded late to keep the import fast

        core = self._core = ConsumerCore(self._options, self._network)
        core.reader.stream = self._new_stream()
        if self._hooks is not None:
            core.reader.hooks, core.assignment.on_commit = self._hooks, weakly(self._hooks.committed, None)
        if self._subscription is not None:
            core.topics = self._subscription.names
        try:
            await core.start()
            if core.group is not None and self._listener is not None:
                self._calls = self._listener_calls(core, self._listener)
                core.group.notify = weakly(self._calls.notify, None)
            if self._subscription is not None:
                await core.subscribe(self._subscription)
            if self._by_hand:
                core.assign(self._by_hand)
        except BaseException:
            calls, self._calls, self._core = self._calls, None, None
            try:
                await core.client.finish(Closed("the consumer could not be started"))
            finally:
                if calls is not None:
                    await calls.end()
            raise

    async def close(self, timeout_ms: int = CLOSE_TIMEOUT_MS) -> None:
        """Commit, tell the listener, leave the group and disconnect.

        With `enable_auto_commit`, finished records are committed; otherwise nothing is committed. The listener may call
        this. A second call while the first is running, for example from a signal handler, waits no longer than its own
        limit, because it may have interrupted the first call.

        Args:
            timeout_ms: the limit for committing and leaving the group, after which the consumer disconnects anyway.

        Raises:
            Exception: the error that the listener raised during the call.
        """
        checked_timeout_ms(timeout_ms)
        core, is_listener = self._core or self._former, self._calls is not None and self._calls.let_go()
        closing = self._closing
        if core is None or (closing is not None and (closing.done or is_listener)):
            return
        if closing is None:
            closing = self._closing = Promise()
        try:
            with suppress(Closed):  # an internal error has already closed the client, and every read has raised it
                left = core.leave(timeout_ms)
                limit_ms = timeout_ms + _GRACE_MS
                await (left.within(limit_ms) if self._calls is None else self._calls.until(left, limit_ms))
                if left.done:
                    await left
        finally:
            self._former, self._core = core, None
            try:
                await core.client.finish(Closed("the consumer was closed"))
            finally:
                closing.keep(None)
                if self._calls is not None:
                    await self._calls.end()
        if self._raised is not None:
            error, self._raised = self._raised, None
            raise error

    # Reading.

    def __aiter__(self) -> RecordStream[Key, Value]:
        """Iterate over records endlessly; a record is finished when the next one is requested."""
        self._started()
        assert self._stream is not None
        return self._stream

    async def batches(self) -> AsyncGenerator[ConsumerBatch, None]:
        """Iterate over whole batches endlessly; a batch is finished when the next one is requested."""
        core = self._started()
        while (batch := await self._next_batch(core)) is not None:
            yield batch

    async def getmany(
        self, timeout_ms: int = 0, max_records: int | None = None
    ) -> dict[TopicPartition, list[Record[Key, Value]]]:
        """Return the available records by partition; the next read marks all of them as finished.

        Args:
            timeout_ms: how long to wait for the first record, in milliseconds; 0 for no wait.
            max_records: the maximum number of records; None for `max_poll_records`.

        Returns:
            The records in offset order, keyed by partition; empty if none arrived in time.
        """
        core = self._started()
        limit = self._record_limit(max_records)
        deadline_ms = monotonic_ms() + checked_timeout_ms(timeout_ms)
        return await self._wait(core, lambda: core.reader.take_many(limit) or None, deadline_ms) or {}

    async def getbatches(self, timeout_ms: int = 0, max_batches: int | None = None) -> list[ConsumerBatch]:
        """Return the available batches; the next read marks all of them as finished.

        `kafkawire.sdk.consumer.arrow.to_arrow` converts all of them into columns in one call; the more batches, the
        lower the cost per record.

        Args:
            timeout_ms: how long to wait for the first batch, in milliseconds; 0 for no wait.
            max_batches: the maximum number of batches, regardless of size; None for enough batches to hold
                `max_poll_records` records, a number that the last batch may exceed.
        """
        core, limits = self._started(), self._batch_limits(max_batches)
        deadline_ms = monotonic_ms() + checked_timeout_ms(timeout_ms)
        return await self._wait(core, lambda: core.reader.take_batches(*limits) or None, deadline_ms) or []

    def records(
        self, *, until: Mapping[TopicPartition, int] | int | datetime | None = None, stop_at_end: bool = False
    ) -> BoundedRecords[Key, Value]:
        """Iterate over records up to an end. Only one such read can run at a time, and other reads stop at its end too.

        An error ends the read; call `records` to begin another. If a wait is cancelled, any other read ends this one.

        Args:
            until: a time, in ms since the epoch or as a datetime with a time zone, or offsets keyed by partition, in
                which case other partitions are not read. Records from that point on are left for later reads.
            stop_at_end: whether to stop at the current end of each partition.

        Raises:
            BrokerError: the end offsets could not be looked up.
            LocalProtocolError: the time is negative or has no time zone, or another bounded read is still running.
        """
        from kafkawire.sdk.consumer.reading.bounded_reads import BoundedRecords  # few programs use bounded reads

        return BoundedRecords(lambda: self._bounded(until, stop_at_end), self._advance)

    # Assignment and subscription.

    @property
    def assignment(self) -> frozenset[TopicPartition]:
        """The currently assigned partitions."""
        core = self._core
        return frozenset(self._by_hand) if core is None else core.assignment.assigned

    @property
    def subscription(self) -> frozenset[str]:
        """The topics currently subscribed to by name; empty with a pattern or with partitions assigned by hand."""
        subscription = self._subscription
        return frozenset() if subscription is None else subscription.names

    @property
    def paused(self) -> frozenset[TopicPartition]:
        """The assigned partitions that `pause` has suspended."""
        core = self._core
        return frozenset() if core is None else core.assignment.paused

    def assign(self, *partitions: TopicPartition | Iterable[TopicPartition] | Mapping[TopicPartition, int]) -> None:
        """Read exactly these partitions, without group membership.

        Args:
            partitions: the partitions to read instead of the previous ones, as separate arguments or in one list, which
                may be empty; a mapping gives the start offset of each partition.

        Raises:
            LocalProtocolError: no argument is given, the consumer subscribes to topics, or a partition or offset is
                invalid.
            Closed: the consumer was closed.
        """
        self._check_open()
        if self._subscription is not None:
            raise LocalProtocolError("assign: this consumer subscribes to topics; create one without topics")
        if not partitions:
            raise LocalProtocolError("assign: expected partitions; to read none, assign an empty list")
        checked = checked_partitions(partitions)
        if isinstance(partitions[0], Mapping):
            self._by_hand = dict(zip(checked, map(checked_offset, checked, partitions[0].values()), strict=True))
        else:
            self._by_hand = checked
        core = self._core
        if core is not None:
            core.assign(self._by_hand)

    async def subscribe(
        self, *topics: str | Iterable[str], pattern: str | None = None, excluded_pattern: str | None = None
    ) -> None:
        """Replace the subscription, at any time; if the topics change, a group then rebalances.

        Args:
            topics: the topics to read from now on, as separate arguments or in one list.
            pattern: instead of names, a regular expression that must match a topic's whole name: all such topics are
                read, including topics created later, but not Kafka's internal topics. It uses Python's syntax and is
                evaluated whenever the metadata is refreshed (`metadata_max_age_ms`); with `group_protocol="consumer"`
                it uses RE2/J's syntax and is evaluated by the brokers, and a pattern that they reject ends the
                membership. With "auto" it must be valid in both. With "zookeeper" it uses the syntax common to Java and
                Python, and is evaluated whenever a topic is created or deleted.
            excluded_pattern: instead of names, a regular expression for the topics not to read: all others are read,
                except Kafka's internal topics. Brokers cannot exclude names, so this does not work with
                `group_protocol="consumer"` and "auto".

        Raises:
            LocalProtocolError: partitions were assigned by hand, or a topic name is invalid.
            ConfigurationError: none or several of topics, a pattern and an excluded pattern are given, the pattern is
                invalid, or the group's protocol does not support it.
            Closed: the consumer was closed.
        """
        self._check_open()
        subscription = self._chosen(topics, pattern, excluded_pattern)
        core = self._core
        if core is not None:
            await core.subscribe(subscription)
        self._subscription = subscription

    async def partitions_for(self, topic: str) -> list[TopicPartition]:
        """Return the partitions of a topic.

        Raises:
            BrokerError: the topic does not exist (this call does not create it), or access to it is denied.
        """
        return await self._started().partitions_for(checked_topic(topic))

    def pause(self, *partitions: TopicPartition | Iterable[TopicPartition]) -> None:
        """Suspend reading from each given partition, or from all assigned ones if none is given; they stay assigned.

        Raises:
            LocalProtocolError: a partition is not assigned.
        """
        self._started().assignment.pause(self._given(partitions))

    def resume(self, *partitions: TopicPartition | Iterable[TopicPartition]) -> None:
        """Resume reading from paused or stopped partitions: the given ones, or all assigned ones if none is given.

        Raises:
            LocalProtocolError: a partition is not assigned.
        """
        self._started().assignment.resume(self._given(partitions))

    def finish(self, *done: Record[Any, Any] | ConsumerBatch | Iterable[Record[Any, Any] | ConsumerBatch]) -> None:
        """Mark records or whole batches as finished, in any order and from any thread.

        With `enable_auto_finish=False`, `commit` and automatic commits store the position of the first unfinished
        record. Records of partitions that have moved to another member are ignored, since their new owner reads them
        again.

        Args:
            done: the processed records or batches, as separate arguments or in one list, which may be empty. If a
                batch was handed out whole, pass the batch to finish its records.

        Raises:
            LocalProtocolError: `enable_auto_finish` is on, no argument is given, a record was handed out in a batch, or
                an argument is neither a record nor a batch.
        """
        assignment = self._started().assignment
        if not done:
            raise LocalProtocolError("finish: expected records or batches; an empty list finishes none")
        for each in given_several(done, lambda each: isinstance(each, Record | ConsumerBatch)):
            if isinstance(each, Record):
                assignment.finish(TopicPartition(each.topic, each.partition), each.offset)
            elif isinstance(each, ConsumerBatch):
                assignment.finish(each.partition, each.start_offset, each.next_offset)
            else:
                raise LocalProtocolError(f"finish: expected records or batches of this consumer, got {quoted(each)}")

    def skip(self, error: DeserializationFailed) -> None:
        """Skip a record that could not be deserialized, and continue with the next one.

        The record is then finished. Unlike `seek`, this keeps earlier records unfinished with
        `enable_auto_finish=False`. The call has no effect if the partition has moved to another member or its position
        has been moved.

        Args:
            error: the error that a read raised.

        Raises:
            LocalProtocolError: `error` is not a `DeserializationFailed`.
        """
        assignment = self._started().assignment
        if not isinstance(error, DeserializationFailed):
            raise LocalProtocolError(f"skip: expected a DeserializationFailed, got {quoted(error)}")
        assignment.skip(TopicPartition(error.topic, error.partition), error.offset)

    # Positions.

    def seek(self, partition: TopicPartition, place: int | datetime) -> None:
        """Continue reading a partition from an offset or a time.

        Args:
            partition: the partition.
            place: an offset, or a datetime with a time zone to seek to the first record at or after it.

        Raises:
            LocalProtocolError: the offset is negative, the time has no time zone, or the partition is not assigned.
        """
        core, chosen = self._started(), checked_partition(partition)
        if is_datetime(place):
            core.seek([chosen], to_ms(place))
        else:
            core.seek_to_offset(chosen, place)

    def seek_to_beginning(self, *partitions: TopicPartition | Iterable[TopicPartition]) -> None:
        """Continue from the first record of each given partition, or of all assigned ones if none is given."""
        self._seek(partitions, OffsetTimestamp.EARLIEST)

    def seek_to_end(self, *partitions: TopicPartition | Iterable[TopicPartition]) -> None:
        """Continue after the last record of each given partition, or of all assigned ones if none is given."""
        self._seek(partitions, OffsetTimestamp.LATEST)

    def seek_to_time(self, time: int | datetime, *partitions: TopicPartition | Iterable[TopicPartition]) -> None:
        """Continue from the first record at or after a time, or else after the last record.

        Args:
            time: milliseconds since the epoch, or a datetime with a time zone.
            partitions: as separate arguments or in one list, which may be empty; all assigned ones if none is given.

        Raises:
            LocalProtocolError: the time is negative or has no time zone, or a partition is not assigned.
        """
        self._seek(partitions, to_ms(time))

    def lag(self, partition: TopicPartition) -> int | None:
        """Return the number of offsets between a partition's position and its end; None if either is unknown.

        Raises:
            LocalProtocolError: the partition is not assigned.
        """
        return self._started().lag(checked_partition(partition))

    async def position(self, partition: TopicPartition) -> int:
        """Return the offset of the next record that will be handed out.

        Raises:
            LocalProtocolError: the partition is not assigned.
            KafkaWireError: the position is unknown, and looking it up failed.
        """
        core = self._started()
        partition = checked_partition(partition)
        began_ms = monotonic_ms()
        deadline_ms = began_ms + self._options.api_timeout_ms
        offset = core.position(partition)
        while offset is None:
            if not await self._woken(core, deadline_ms, partial(core.has_position, partition)):
                text = f"position of {partition}: not found within {self._options.api_timeout_ms} ms"
                reason = "; ".join(filter(None, (text, core.router.metadata.absence(partition))))
                raise RequestTimedOut(reason + core.router.throttling(began_ms))
            offset = core.position(partition)
        if self._yield_timer.is_due():
            await self._yield_timer.yield_now()
        return offset

    async def committed(
        self, *partitions: TopicPartition | Iterable[TopicPartition]
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return the committed offsets of the given partitions, or of all assigned ones; those without are left out.

        Raises:
            LocalProtocolError: there is no `group_id`.
            BrokerError: access to a partition is denied.
        """
        return await self._started_group().committed(self._given(partitions))

    async def commit(
        self,
        offsets: Mapping[TopicPartition, int | OffsetAndMetadata] | Record[Any, Any] | ConsumerBatch | None = None,
        timeout_ms: int | None = None,
    ) -> None:
        """Commit offsets for the group.

        Args:
            offsets: the offset of the next record to read, keyed by partition; or a record or batch, to commit
                everything up to and including it; None for everything handed out so far or, with
                `enable_auto_finish=False`, everything before the first unfinished record.
            timeout_ms: the limit, including retries; None for `api_timeout_ms`.

        Raises:
            BrokerError: REBALANCE_IN_PROGRESS if partitions no longer belong to this member: the new owner resumes from
                the last commit. UNKNOWN_MEMBER_ID if this consumer has not subscribed and the group has members.
                ILLEGAL_GENERATION, UNKNOWN_MEMBER_ID or a similar code if the group has moved on without this member;
                the error's cause says why. Other codes if the broker rejected the commit.
            RequestTimedOut: the commit did not succeed in time.
            LocalProtocolError: there is no `group_id`.
        """
        core = self._started_group()
        await core.commit(core.to_commit(offsets), timeout_ms)

    async def beginning_offsets(
        self, *partitions: TopicPartition | Iterable[TopicPartition]
    ) -> dict[TopicPartition, int]:
        """Return the offset of the first record of each given partition, or of all assigned ones if none is given.

        Raises:
            BrokerError: a partition does not exist, or access to it is denied.
        """
        return await self._offsets(partitions, OffsetTimestamp.EARLIEST)

    async def end_offsets(self, *partitions: TopicPartition | Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the offset after the last record of each given partition, or of all assigned ones if none is given.

        Raises:
            BrokerError: a partition does not exist, or access to it is denied.
        """
        return await self._offsets(partitions, OffsetTimestamp.LATEST)

    async def offsets_for_times(
        self, times: Mapping[TopicPartition, int | datetime]
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """Return the first record at or after a time, for each partition.

        Args:
            times: milliseconds since the epoch, or datetimes with a time zone, keyed by partition.

        Returns:
            The offset and timestamp for each partition; None if no record is that recent.

        Raises:
            BrokerError: a partition does not exist, or access to it is denied.
            LocalProtocolError: a time is negative or has no time zone.
        """
        found = await self._started().look_up(checked_times(times))
        return {partition: place if place.offset >= 0 else None for partition, place in found.items()}

    # Status.

    @property
    def client_id(self) -> str:
        """The `client_id` option."""
        return self._options.client_id

    def health(self) -> ConsumerHealth:
        """Return what the consumer is waiting for, and its current problem; can be called from any thread at any time.

        Raises:
            Closed: the consumer is not started or is closed.
        """
        from kafkawire.sdk.consumer.health import health_of  # only programs that call this need it

        return health_of(self._started(), monotonic_ms())

    async def client_instance_id(self, timeout_ms: int) -> str:
        """Return the id under which brokers know this client's metrics, as 22 characters (KIP-714).

        Arguments and errors are those of `Producer.client_instance_id`.
        """
        return await self._started().client.client_instance_id(checked_timeout_ms(timeout_ms))

    def metrics(self) -> Mapping[MetricName, float]:
        """Return the current value of every metric; any thread may call this. docs/observability.md lists them.

        Raises:
            Closed: the consumer is not started or is closed.
        """
        return self._started().client.metrics()

    def group_metadata(self) -> GroupMetadata:
        """Return this consumer's current identity in its group, for `Producer.send_offsets`.

        Call this right after reading, before awaiting anything else, because it identifies the generation that the
        records belong to.

        Raises:
            BrokerError: the consumer is not a member at the moment, so its partitions belong to other members.
            LocalProtocolError: there is no `group_id`.
        """
        group = self._started().group
        if group is None:
            raise LocalProtocolError("group_metadata: there is no group; set group_id")
        return group.metadata()

    # Internals.

    def _new_stream(self) -> RecordStream[Key, Value] | RecordIterator[Key, Value]:
        if self._hooks is None:
            from kafkawire.sdk.consumer.reading.engine import RecordStream
        else:  # records that the extension hands out skip the hooks
            from kafkawire.sdk.consumer.reading.engines.python import RecordStream
        self._stream = RecordStream(self._next_record)
        return self._stream

    async def _next_record(self) -> Record[Key, Value]:
        """Wait for the next record of an iteration and return it."""
        handout = await self._advance()
        if handout is None:
            raise StopAsyncIteration
        return handout.take()

    async def _advance(self, end_offsets: EndOffsets | None = None) -> Handout | None:
        """Wait for a record that can be taken; return None once the client, or the read with this end, has ended."""
        core = self._core
        if core is None:
            return None
        try:
            return await self._wait(core, core.reader.advance, end_offsets=end_offsets)
        except Closed:
            if self._closing is None:  # in a forked child, or without the event loop
                raise
            return None

    async def _next_batch(self, core: ConsumerCore) -> ConsumerBatch | None:
        """Wait for the next batch and return it; return None once the client has ended."""
        try:
            return await self._wait(core, core.reader.next_batch)
        except Closed:
            if self._closing is None:  # in a forked child, or without the event loop
                raise
            return None

    async def _bounded(
        self, until: Mapping[TopicPartition, int] | int | datetime | None, stop_at_end: bool
    ) -> EndOffsets:
        """Start a bounded read, which `lift` ends."""
        from kafkawire.sdk.consumer.reading.bounded_reads import EndOffsets

        core = self._started()
        self._check_reads()
        end_offsets = EndOffsets(core, None if until is None else checked_end(until), stop_at_end)
        try:
            await end_offsets.find(lambda is_there: self._woken(core, None, is_there))
        except BaseException:
            end_offsets.lift()
            raise
        return end_offsets

    async def _wait(
        self,
        core: ConsumerCore,
        read: Callable[[], Result | None],
        deadline_ms: int | None = None,
        end_offsets: EndOffsets | None = None,
    ) -> Result | None:
        """Call `read` until it finds something; return None at the deadline or when the bounded read has ended."""
        self._check_reads()
        if core.reader.bounded_read is not None:
            core.reader.lift_abandoned()
        if self._yield_timer.is_due():
            await self._yield_timer.yield_now()  # the application may never wait, and heartbeats also need the loop
        elif core.reader.taken != self._seen:
            await yield_to_loop()  # let responses arrive and requests go out
        self._seen = core.reader.taken
        while (found := self._read(core, read)) is None:
            if (end_offsets is not None and end_offsets.are_reached) or not await self._woken(core, deadline_ms):
                return None
            self._seen = core.reader.taken + 1  # a batch that arrives now ends the wait
        return found

    def _read(self, core: ConsumerCore, read: Callable[[], Result | None]) -> Result | None:
        return read()

    async def _woken(
        self, core: ConsumerCore, deadline_ms: int | None, is_there: Callable[[], bool] | None = None
    ) -> bool:
        """Wait until something arrives (see `FetchQueue.wait`); return whether it arrived before the deadline."""
        core.driver.check_loop()
        promise = core.queue.wait(is_there)
        try:
            return await promise.within(None if deadline_ms is None else deadline_ms - monotonic_ms())
        finally:
            core.queue.cancel(promise)

    async def _offsets(self, partitions: tuple[Any, ...], timestamp: int) -> dict[TopicPartition, int]:
        found = await self._started().look_up(dict.fromkeys(self._given(partitions), timestamp))
        return {partition: place.offset for partition, place in found.items()}

    def _listener_calls(self, core: ConsumerCore, listener: RebalanceListener) -> ListenerCalls | BlockingListenerCalls:
        from kafkawire.sdk.consumer.listener import ListenerCalls  # few programs have a listener

        return ListenerCalls(listener, self._listened)

    def _listened(self, event: Event, error: Exception | None) -> None:
        """Continue after the listener; its error is raised by every later read or, if none follows, by `close`."""
        if error is not None:
            logger.error("the rebalance listener failed to handle %s", event, exc_info=error)
        core = self._core
        if core is None:
            return
        if error is not None and self._closing is not None:
            self._raised = error
        with suppress(Closed):
            core.acknowledge(event, error)

    def _seek(self, partitions: tuple[Any, ...], place: Place) -> None:
        """Seek to a place in the given partitions, or in all assigned ones if no argument is given."""
        self._started().seek(self._given(partitions), place)

    def _given(self, partitions: tuple[Any, ...]) -> Collection[TopicPartition]:
        """Return the partitions passed to a method, or all assigned ones if no argument is given."""
        return checked_partitions(partitions) if partitions else self._started().assignment.assigned

    def _chosen(self, topics: tuple[Any, ...], pattern: str | None = None, excluded: str | None = None) -> Subscription:
        """Return the topics or pattern to subscribe to; see `subscribe` for the errors."""
        if self._by_hand:
            raise LocalProtocolError("subscribe: this consumer uses assign; create another one to subscribe")
        return choose_topics(self._options, topics, pattern, excluded)

    def _check_open(self) -> None:
        if self._closing is not None:
            raise Closed("the consumer was closed; create a new one")

    def _started(self) -> ConsumerCore:
        core = self._core  # read only once, because a signal handler may close the consumer at any moment
        if core is None:
            raise not_running("consumer", is_closed=self._closing is not None)
        return core

    def _started_group(self) -> ConsumerCore:
        core = self._started()
        if core.group is None:
            raise LocalProtocolError("committed offsets belong to a group: set group_id")
        return core

    def _check_reads(self) -> None:
        """Raise `LocalProtocolError` if there is nothing to read, because a read would wait forever."""
        if self._subscription is None and not self._by_hand:
            raise LocalProtocolError("there is nothing to read: subscribe to topics, or assign partitions")

    def _record_limit(self, given: int | None) -> int:
        return self._options.max_poll_records if given is None else checked_number("max_records", given, 1, MAX_INT32)

    def _batch_limits(self, given: int | None) -> tuple[int, int | None]:
        """Return the maximum number of batches in a list, and the number of records that completes the list."""
        if given is None:
            return MAX_INT32, self._options.max_poll_records
        return checked_number("max_batches", given, 1, MAX_INT32), None
