"""The consumer: reads records of partitions assigned by hand or by its group.

This is the face for asyncio: it waits for what the machines of `core.py` do. `async for` yields record after record,
`batches` whole batches, `getmany` lists. Whatever is awaited can be cancelled without losing a record.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

from kafkawire.sdk.client.arguments import (
    checked_end,
    checked_partition,
    checked_partitions,
    checked_timeout_ms,
    checked_times,
)
from kafkawire.sdk.client.method_hints import CONSUMER
from kafkawire.sdk.client.partitions import OffsetAndMetadata, OffsetAndTimestamp, TopicPartition
from kafkawire.sdk.client.topics import checked_topic
from kafkawire.sdk.client.unclosed import weakly
from kafkawire.sdk.clock import monotonic_ms
from kafkawire.sdk.consumer.batch import ConsumerBatch
from kafkawire.sdk.consumer.face import CLOSE_TIMEOUT_MS, ConsumerFace
from kafkawire.sdk.errors import Closed, LocalProtocolError, RequestTimedOut
from kafkawire.sdk.protocol.tables.enums import OffsetTimestamp
from kafkawire.sdk.records import Record
from kafkawire.sdk.records.type_variables import Key, Value
from kafkawire.sdk.transport.promise import Promise
from kafkawire.sdk.transport.waiting import turn

if TYPE_CHECKING:
    from datetime import datetime

    from kafkawire.sdk.client.groups.protocol import Event
    from kafkawire.sdk.consumer.core import ConsumerCore
    from kafkawire.sdk.consumer.listener import BlockingListenerCalls, ListenerCalls, RebalanceListener
    from kafkawire.sdk.consumer.reading.bounds import BoundedRecords, Bounds
    from kafkawire.sdk.consumer.reading.handout import Handout, RecordIterator, RecordStream

__all__ = ["Consumer"]

logger = logging.getLogger("kafkawire.consumer")

#: How much longer than its limit `close` waits for the I/O side. That keeps the limit, unless the I/O thread waits for
#: a lock that the closing thread holds, since a signal handler has interrupted it.
_GRACE_MS: Final = 250

Result = TypeVar("Result")


class Consumer(ConsumerFace[Key, Value], hints=CONSUMER):
    """Read records of topics.

    The constructor does no I/O; use `async with Consumer(…) as consumer`, or call `start` and `close`. Iterating,
    and every other read, raises `BrokerError`, `DecodeError` (a damaged batch) or `NoOffset` (no committed offset,
    and `auto_offset_reset` is "none"); the partition then stops until the application seeks or resumes it. A
    consumer with neither topics nor partitions raises `LocalProtocolError`. When the consumer is closed, iterations
    in other tasks end, and other reads raise `Closed`. Several tasks may read: each record goes to one of them, and
    counts as finished once any of them asks for more.

    Args:
        servers: brokers to connect to first: `host:port,host:port`, or a sequence of `host:port`; the option
            `bootstrap_servers` may take its place.
        topics: the topics to read, one by one or in one list. With `group_id`, the group assigns their partitions;
            without it, all are read. Without topics, call `assign`.
        listener: called when partitions are assigned, revoked or lost.
        key_deserializer: makes a record's key from its bytes; None to leave it. It is called when an iteration,
            `getmany` or `records` hands out the record; if it raises, so does the read, see `DeserializationFailed`.
            `batches` and `getbatches` hand out bytes.
        value_deserializer: likewise for its value.
        interceptors: see every record that is handed out, and every commit; called in this order.
        network: reaches the brokers; None for TCP.
        options: see `ConsumerKeywords` and docs/options.md; the dotted names of Kafka's documentation are accepted too.

    Raises:
        ConfigurationError: an option is unknown or out of range, or two contradict each other.
        LocalProtocolError: no topic can have one of the names.
    """

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
            BrokerError: a topic may not be read. A topic that does not exist yet is read once it does.
            LocalProtocolError: the consumer was started already.
            Closed: it was closed; a closed consumer is not started again.
        """
        self._check_open()
        if self._core is not None:
            raise LocalProtocolError("the consumer was started already")
        from kafkawire.sdk.consumer.core import ConsumerCore  # what connects is loaded here, not by the import

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

        Finished records are committed with `enable_auto_commit`, otherwise nothing is. The listener itself may close
        the consumer. A second call meanwhile, such as that of a signal handler, waits within its own limit: it may have
        interrupted the first.

        Args:
            timeout_ms: for committing and leaving the group; after that the consumer disconnects anyway.

        Raises:
            Exception: what the listener raised meanwhile.
        """
        checked_timeout_ms(timeout_ms)
        core, is_listener = self._core or self._former, self._calls is not None and self._calls.let_go()
        closing = self._closing
        if core is None or (closing is not None and (closing.done or is_listener)):
            return
        if closing is None:
            closing = self._closing = Promise()
        try:
            with suppress(Closed):  # by a defect, which every read has raised
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
        """Iterate over records without end; a record is finished when the next one is asked for."""
        self._started()
        assert self._stream is not None
        return self._stream

    async def batches(self) -> AsyncGenerator[ConsumerBatch, None]:
        """Iterate over whole batches without end; a batch is finished when the next one is asked for."""
        core = self._started()
        while (batch := await self._next_batch(core)) is not None:
            yield batch

    async def getmany(
        self, timeout_ms: int = 0, max_records: int | None = None
    ) -> dict[TopicPartition, list[Record[Key, Value]]]:
        """Return the records that are available, by partition; all of them are finished at the next read.

        Args:
            timeout_ms: how long to wait for the first record, in milliseconds from 0.
            max_records: the most records to return; None for `max_poll_records`.

        Returns:
            Records by partition, in the order of their offsets; empty if none arrived in time.
        """
        core = self._started()
        limit = self._record_limit(max_records)
        deadline_ms = monotonic_ms() + checked_timeout_ms(timeout_ms)
        return await self._wait(core, lambda: core.reader.take_many(limit) or None, deadline_ms) or {}

    async def getbatches(self, timeout_ms: int = 0, max_batches: int | None = None) -> list[ConsumerBatch]:
        """Return the batches that are available; all of them are finished at the next read.

        `kafkawire.sdk.consumer.arrow.to_arrow` makes columns of all of them in one call; the more there are, the less
        each record costs.

        Args:
            timeout_ms: how long to wait for the first batch, in milliseconds from 0.
            max_batches: the most batches to return, whatever is in them; None for as many as have `max_poll_records`
                records, of which the last one may have more.
        """
        core, limits = self._started(), self._batch_limits(max_batches)
        deadline_ms = monotonic_ms() + checked_timeout_ms(timeout_ms)
        return await self._wait(core, lambda: core.reader.take_batches(*limits) or None, deadline_ms) or []

    def records(
        self, *, until: Mapping[TopicPartition, int] | int | datetime | None = None, stop_at_end: bool = False
    ) -> BoundedRecords[Key, Value]:
        """Iterate over records up to an end; one such read at a time. Others get nothing from beyond it meanwhile.

        An error ends the read: `records` begins another. If waiting for a record is cancelled, any other read ends it.

        Args:
            until: a time in ms since the epoch, or as a datetime with a time zone; or offsets by partition, which leave
                out other partitions. Records from there on are left for later reads.
            stop_at_end: whether to stop at what is the end of each partition now.

        Raises:
            BrokerError: the ends could not be looked up.
            LocalProtocolError: the time is negative, or has no time zone; or another bounded read has not ended.
        """
        from kafkawire.sdk.consumer.reading.bounds import BoundedRecords  # few programs read up to an end

        return BoundedRecords(lambda: self._bounded(until, stop_at_end), self._advance)

    # Which partitions.

    async def subscribe(self, *topics: str | Iterable[str], pattern: str | None = None) -> None:
        """Replace the subscription, at any time; a group rebalances.

        Args:
            topics: the topics to read from now on, one by one or in one list.
            pattern: instead of names, a regular expression that must match the whole name of a topic: all such topics
                are read, including later ones, but not Kafka's internal topics. It is Python's, evaluated whenever the
                metadata is refreshed (`metadata_max_age_ms`); with `group_protocol="consumer"` it is RE2/J's, evaluated
                by the brokers, and a pattern that they refuse ends the membership. With "auto" it must be both.

        Raises:
            LocalProtocolError: partitions were assigned by hand, or no topic can have one of the names.
            ConfigurationError: there are neither topics nor a pattern, or both, or the pattern is invalid.
            Closed: the consumer was closed.
        """
        self._check_open()
        subscription = self._chosen(topics, pattern)
        core = self._core
        if core is not None:
            await core.subscribe(subscription)
        self._subscription = subscription

    async def partitions_for(self, topic: str) -> list[TopicPartition]:
        """Return the partitions of a topic.

        Raises:
            BrokerError: it does not exist, or may not be read; to ask does not create it.
        """
        return await self._started().partitions_for(checked_topic(topic))

    # Positions.

    async def position(self, partition: TopicPartition) -> int:
        """Return the offset of the next record to hand out.

        Raises:
            LocalProtocolError: the partition is not assigned.
            KafkaWireError: the position is not known yet, and looking it up failed.
        """
        core = self._started()
        partition = checked_partition(partition)
        began_ms = monotonic_ms()
        deadline_ms = began_ms + self._options.api_timeout_ms
        offset = core.position(partition)
        while offset is None:
            if not await self._woken(core, deadline_ms, partial(core.has_position, partition)):
                text = f"position of {partition}: not found in {self._options.api_timeout_ms} ms"
                reason = "; ".join(filter(None, (text, core.router.metadata.absence(partition))))
                raise RequestTimedOut(reason + core.router.throttling(began_ms))
            offset = core.position(partition)
        if self._turns.are_due():
            await self._turns.give()
        return offset

    async def committed(
        self, *partitions: TopicPartition | Iterable[TopicPartition]
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return the offsets that the group has committed; partitions without one are left out.

        Raises:
            LocalProtocolError: there is no `group_id`.
            BrokerError: a partition may not be read.
        """
        return await self._started_group().committed(checked_partitions(partitions))

    async def commit(
        self,
        offsets: Mapping[TopicPartition, int | OffsetAndMetadata] | Record[Any, Any] | ConsumerBatch | None = None,
        timeout_ms: int | None = None,
    ) -> None:
        """Commit offsets for the group.

        Args:
            offsets: the offset of the next record to read, by partition; a record or a batch for everything up to it,
                included; None for everything handed out so far, or with `enable_auto_finish=False` for everything
                before the first record that is not finished.
            timeout_ms: the limit, retries included; None for `api_timeout_ms`.

        Raises:
            BrokerError: REBALANCE_IN_PROGRESS if partitions no longer belong to this member: the new owner resumes from
                the last commit. UNKNOWN_MEMBER_ID if this consumer has not subscribed, and the group has members.
                ILLEGAL_GENERATION, UNKNOWN_MEMBER_ID and the like if the group has moved on without
                this member; the error's cause says why. Or the commit was refused.
            RequestTimedOut: it was not committed in time.
            LocalProtocolError: there is no `group_id`.
        """
        core = self._started_group()
        await core.commit(core.to_commit(offsets), timeout_ms)

    async def beginning_offsets(
        self, *partitions: TopicPartition | Iterable[TopicPartition]
    ) -> dict[TopicPartition, int]:
        """Return the offset of the first record of each partition.

        Raises:
            BrokerError: a partition does not exist, or may not be read.
        """
        return await self._offsets(partitions, OffsetTimestamp.EARLIEST)

    async def end_offsets(self, *partitions: TopicPartition | Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the offset after the last record of each partition.

        Raises:
            BrokerError: a partition does not exist, or may not be read.
        """
        return await self._offsets(partitions, OffsetTimestamp.LATEST)

    async def offsets_for_times(
        self, times: Mapping[TopicPartition, int | datetime]
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """Return the first record at or after a time, for each partition.

        Args:
            times: milliseconds since the epoch, or datetimes with a time zone, by partition.

        Returns:
            Offset and timestamp by partition; None if no record is that recent.

        Raises:
            BrokerError: a partition does not exist, or may not be read.
            LocalProtocolError: a time is negative, or has no time zone.
        """
        found = await self._started().look_up(checked_times(times))
        return {partition: place if place.offset >= 0 else None for partition, place in found.items()}

    # Internals.

    def _new_stream(self) -> RecordStream[Key, Value] | RecordIterator[Key, Value]:
        if self._hooks is None:
            from kafkawire.sdk.consumer.reading.handout import RecordStream
        else:  # what the extension hands out passes no hooks
            from kafkawire.sdk.consumer.reading.engines.python import RecordStream
        self._stream = RecordStream(self._next_record)
        return self._stream

    async def _next_record(self) -> Record[Key, Value]:
        """Wait for the next record of an iteration, and hand it out."""
        handout = await self._advance()
        if handout is None:
            raise StopAsyncIteration
        return handout.take()

    async def _advance(self, bounds: Bounds | None = None) -> Handout | None:
        """Wait for a record that can be taken; None at the end of the client, or of the read with these bounds."""
        core = self._core
        if core is None:
            return None
        try:
            return await self._wait(core, core.reader.advance, bounds=bounds)
        except Closed:
            if self._closing is None:  # in a forked child, or without the event loop
                raise
            return None

    async def _next_batch(self, core: ConsumerCore) -> ConsumerBatch | None:
        """Wait for the next batch, and hand it out; None at the end of the client."""
        try:
            return await self._wait(core, core.reader.next_batch)
        except Closed:
            if self._closing is None:  # in a forked child, or without the event loop
                raise
            return None

    async def _bounded(self, until: Mapping[TopicPartition, int] | int | datetime | None, stop_at_end: bool) -> Bounds:
        """Begin a bounded read; `lift` ends it."""
        from kafkawire.sdk.consumer.reading.bounds import Bounds

        core = self._started()
        self._check_reads()
        bounds = Bounds(core, None if until is None else checked_end(until), stop_at_end)
        try:
            await bounds.find(lambda is_there: self._woken(core, None, is_there))
        except BaseException:
            bounds.lift()
            raise
        return bounds

    async def _wait(
        self,
        core: ConsumerCore,
        read: Callable[[], Result | None],
        deadline_ms: int | None = None,
        bounds: Bounds | None = None,
    ) -> Result | None:
        """Call `read` until it finds something; None at the deadline, or at the end of the read with these bounds."""
        self._check_reads()
        if core.reader.bounds is not None:
            core.reader.lift_abandoned()
        if self._turns.are_due():
            await self._turns.give()  # the application may never wait, and heartbeats need the event loop, too
        elif core.reader.taken != self._seen:
            await turn()  # let responses in and the next requests out
        self._seen = core.reader.taken
        while (found := self._read(core, read)) is None:
            if (bounds is not None and bounds.are_reached) or not await self._woken(core, deadline_ms):
                return None
            self._seen = core.reader.taken + 1  # what comes now was waited for
        return found

    def _read(self, core: ConsumerCore, read: Callable[[], Result | None]) -> Result | None:
        return read()

    async def _woken(
        self, core: ConsumerCore, deadline_ms: int | None, is_there: Callable[[], bool] | None = None
    ) -> bool:
        """Wait until something arrives, see `FetchQueue.wait`; return whether it did before the deadline."""
        core.driver.check_loop()
        promise = core.queue.wait(is_there)
        try:
            return await promise.within(None if deadline_ms is None else deadline_ms - monotonic_ms())
        finally:
            core.queue.cancel(promise)

    async def _offsets(self, partitions: tuple[Any, ...], timestamp: int) -> dict[TopicPartition, int]:
        found = await self._started().look_up(dict.fromkeys(checked_partitions(partitions), timestamp))
        return {partition: place.offset for partition, place in found.items()}

    def _listener_calls(self, core: ConsumerCore, listener: RebalanceListener) -> ListenerCalls | BlockingListenerCalls:
        from kafkawire.sdk.consumer.listener import ListenerCalls  # few programs listen

        return ListenerCalls(listener, self._listened)

    def _listened(self, event: Event, error: Exception | None) -> None:
        """Go on after the listener; what it raised is raised by every read from now on, or else by `close`."""
        if error is not None:
            logger.error("the rebalance listener failed at %s", event, exc_info=error)
        core = self._core
        if core is None:
            return
        if error is not None and self._closing is not None:
            self._raised = error
        with suppress(Closed):
            core.acknowledge(event, error)
