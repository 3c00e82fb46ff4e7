"""The blocking consumer: `kafkawire.Consumer` on an I/O thread.

Ctrl-C may interrupt a read at any point. If that happens before records reach the caller, the partitions go back to the
last finished record, and the records that did not reach the caller are handed out again.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Generator, Iterable, Mapping
from threading import RLock
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, Self, TypeVar, Unpack

from kafkawire.sdk.client.method_hints import CONSUMER, Hinting
from kafkawire.sdk.client.summary import blocking_summary
from kafkawire.sdk.consumer.batch import ConsumerBatch
from kafkawire.sdk.consumer.consumer import CLOSE_TIMEOUT_MS
from kafkawire.sdk.consumer.consumer import Consumer as AsyncConsumer
from kafkawire.sdk.consumer.listener import BlockingListenerCalls
from kafkawire.sdk.errors import DeserializationFailed, KafkaWireError
from kafkawire.sdk.records import Record
from kafkawire.sdk.records.type_variables import Key, Value
from kafkawire.sdk.routing.partitions import OffsetAndMetadata, OffsetAndTimestamp, TopicPartition
from kafkawire.sdk.sync.options import on_io_thread
from kafkawire.sdk.transport.waiting import result_of
from kafkawire.sdk.transport.wire import Network

if TYPE_CHECKING:
    from datetime import datetime

    from kafkawire.sdk.client.keywords import ConsumerKeywords
    from kafkawire.sdk.consumer.core import ConsumerCore
    from kafkawire.sdk.consumer.health import ConsumerHealth
    from kafkawire.sdk.consumer.listener import RebalanceListener
    from kafkawire.sdk.consumer.reading.bounded_reads import EndOffsets
    from kafkawire.sdk.consumer.reading.engine import RecordIterator
    from kafkawire.sdk.consumer.reading.hooks import ConsumerInterceptor
    from kafkawire.sdk.groups.protocol import GroupMetadata
    from kafkawire.sdk.metrics.names import MetricName

__all__ = ["Consumer"]

Given = ParamSpec("Given")
Result = TypeVar("Result")


class Consumer(Hinting, Generic[Key, Value], hints=CONSUMER):
    """Read records from topics, blocking the caller where `kafkawire.Consumer` awaits.

    The constructor does no I/O; use `with Consumer(…) as consumer`, or call `start` and `close`. Heartbeats, automatic
    commits and fetches continue while the application is working, for up to `max_poll_interval_ms`. Several threads may
    read: each record goes to one of them, and is considered finished once any of them reads again. `kafkawire.Consumer`
    describes the errors that reads raise.

    Args:
        servers: brokers to connect to first: `host:port,host:port`, or a sequence of `host:port`; the option
            `bootstrap_servers` can be used instead.
        topics: the topics to read, as separate arguments or in one list. With `group_id`, the group assigns their
            partitions; without it, all partitions are read. If you pass no topics, call `assign`.
        listener: called when partitions are assigned, revoked or lost: by the thread that reads, before its next
            record, or by the thread that closes the consumer. Its methods are plain functions.
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
        self._inner: _Inner[Key, Value] = _Inner(
            servers,
            *topics,
            listener=listener,
            key_deserializer=key_deserializer,
            value_deserializer=value_deserializer,
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
        result_of(self._inner.__aexit__, kind, error, trace)

    def start(self) -> None:
        """Connect to the cluster and start reading; see `kafkawire.Consumer.start`."""
        result_of(self._inner.start)

    def close(self, timeout_ms: int = CLOSE_TIMEOUT_MS) -> None:
        """Commit, tell the listener, leave the group and disconnect; see `kafkawire.Consumer.close`."""
        result_of(self._inner.close, timeout_ms)

    # Reading.

    def __iter__(self) -> RecordIterator[Key, Value]:
        """Iterate over records endlessly; a record is finished when the next one is requested."""
        return self._inner.iterator()

    def batches(self) -> Generator[ConsumerBatch, None, None]:
        """Iterate over whole batches endlessly; a batch is finished when the next one is requested."""
        while (batch := self._inner.take(self._inner.next_batch)) is not None:
            yield batch

    def getmany(
        self, timeout_ms: int = 0, max_records: int | None = None
    ) -> dict[TopicPartition, list[Record[Key, Value]]]:
        """Return the available records by partition; see `kafkawire.Consumer.getmany`."""
        return self._inner.take(self._inner.getmany, timeout_ms, max_records)

    def getbatches(self, timeout_ms: int = 0, max_batches: int | None = None) -> list[ConsumerBatch]:
        """Return the available batches; see `kafkawire.Consumer.getbatches`."""
        return self._inner.take(self._inner.getbatches, timeout_ms, max_batches)

    def records(
        self, *, until: Mapping[TopicPartition, int] | int | datetime | None = None, stop_at_end: bool = False
    ) -> Generator[Record[Key, Value], None, None]:
        """Iterate over records up to an end; see `kafkawire.Consumer.records`."""
        end_offsets = result_of(self._inner.bounded, until, stop_at_end)
        try:
            yield from self._inner.iterate(end_offsets)
        finally:
            end_offsets.lift()

    # Assignment of partitions.

    @property
    def assignment(self) -> frozenset[TopicPartition]:
        """The currently assigned partitions."""
        return self._inner.assignment

    @property
    def subscription(self) -> frozenset[str]:
        """The topics currently subscribed to by name; empty with a pattern or with partitions assigned by hand."""
        return self._inner.subscription

    @property
    def paused(self) -> frozenset[TopicPartition]:
        """The assigned partitions that `pause` has suspended."""
        return self._inner.paused

    def assign(self, *partitions: TopicPartition | Iterable[TopicPartition] | Mapping[TopicPartition, int]) -> None:
        """Read exactly these partitions, without group membership; see `kafkawire.Consumer.assign`."""
        self._inner.assign(*partitions)

    def subscribe(
        self, *topics: str | Iterable[str], pattern: str | None = None, excluded_pattern: str | None = None
    ) -> None:
        """Replace the subscription, at any time; see `kafkawire.Consumer.subscribe`."""
        result_of(self._inner.subscribe, *topics, pattern=pattern, excluded_pattern=excluded_pattern)

    def partitions_for(self, topic: str) -> list[TopicPartition]:
        """Return the partitions of a topic; see `kafkawire.Consumer.partitions_for`."""
        return result_of(self._inner.partitions_for, topic)

    def pause(self, *partitions: TopicPartition | Iterable[TopicPartition]) -> None:
        """Suspend reading from each given partition; see `kafkawire.Consumer.pause`."""
        self._inner.pause(*partitions)

    def resume(self, *partitions: TopicPartition | Iterable[TopicPartition]) -> None:
        """Resume reading from paused or stopped partitions; see `kafkawire.Consumer.resume`."""
        self._inner.resume(*partitions)

    def finish(self, *done: Record[Any, Any] | ConsumerBatch | Iterable[Record[Any, Any] | ConsumerBatch]) -> None:
        """Mark records or whole batches as finished; see `kafkawire.Consumer.finish`."""
        self._inner.finish(*done)

    def skip(self, error: DeserializationFailed) -> None:
        """Skip a record that could not be deserialized; see `kafkawire.Consumer.skip`."""
        self._inner.skip(error)

    # Positions.

    def seek(self, partition: TopicPartition, place: int | datetime) -> None:
        """Continue reading a partition from an offset or a time; see `kafkawire.Consumer.seek`."""
        self._inner.seek(partition, place)

    def seek_to_beginning(self, *partitions: TopicPartition | Iterable[TopicPartition]) -> None:
        """Continue from the first record of each given partition, or of all assigned ones if none is given."""
        self._inner.seek_to_beginning(*partitions)

    def seek_to_end(self, *partitions: TopicPartition | Iterable[TopicPartition]) -> None:
        """Continue after the last record of each given partition, or of all assigned ones if none is given."""
        self._inner.seek_to_end(*partitions)

    def seek_to_time(self, time: int | datetime, *partitions: TopicPartition | Iterable[TopicPartition]) -> None:
        """Continue from the first record at or after a time; see `kafkawire.Consumer.seek_to_time`."""
        self._inner.seek_to_time(time, *partitions)

    def lag(self, partition: TopicPartition) -> int | None:
        """Return the number of offsets between a partition's position and its end; see `kafkawire.Consumer.lag`."""
        return self._inner.lag(partition)

    def position(self, partition: TopicPartition) -> int:
        """Return the offset of the next record that will be handed out; see `kafkawire.Consumer.position`."""
        return result_of(self._inner.position, partition)

    def committed(
        self, *partitions: TopicPartition | Iterable[TopicPartition]
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return the committed offsets of the given partitions; see `kafkawire.Consumer.committed`."""
        return result_of(self._inner.committed, *partitions)

    def commit(
        self,
        offsets: Mapping[TopicPartition, int | OffsetAndMetadata] | Record[Any, Any] | ConsumerBatch | None = None,
        timeout_ms: int | None = None,
    ) -> None:
        """Commit offsets for the group; see `kafkawire.Consumer.commit`."""
        result_of(self._inner.commit, offsets, timeout_ms)

    def beginning_offsets(self, *partitions: TopicPartition | Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the offset of the first record of each given partition, or of all assigned ones if none is given."""
        return result_of(self._inner.beginning_offsets, *partitions)

    def end_offsets(self, *partitions: TopicPartition | Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the offset after the last record of each given partition, or of all assigned ones if none is given."""
        return result_of(self._inner.end_offsets, *partitions)

    def offsets_for_times(
        self, times: Mapping[TopicPartition, int | datetime]
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """Return the first record at or after a time; see `kafkawire.Consumer.offsets_for_times`."""
        return result_of(self._inner.offsets_for_times, times)

    # Status.

    @property
    def client_id(self) -> str:
        """The `client_id` option."""
        return self._inner.client_id

    def client_instance_id(self, timeout_ms: int) -> str:
        """Return the id under which brokers know this client's metrics; see `kafkawire.Consumer.client_instance_id`."""
        return result_of(self._inner.client_instance_id, timeout_ms)

    def metrics(self) -> Mapping[MetricName, float]:
        """Return the current value of every metric; see `kafkawire.Consumer.metrics`."""
        return self._inner.metrics()

    def health(self) -> ConsumerHealth:
        """Return what the consumer is waiting for, and its current problem; see `kafkawire.Consumer.health`."""
        return self._inner.health()

    def group_metadata(self) -> GroupMetadata:
        """Return this consumer's current identity in its group; see `kafkawire.Consumer.group_metadata`."""
        return self._inner.group_metadata()


class _Inner(AsyncConsumer[Key, Value]):
    """The asyncio consumer inside a blocking one; it can be interrupted, and threads share it.

    Attributes:
        is_taking: whether records may be in transit from the queue to the caller.
    """

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._lock = RLock()
        self._iterator: RecordIterator[Key, Value] | None = None
        self.is_taking = False

    def take(
        self, read: Callable[Given, Coroutine[Any, Any, Result]], *arguments: Given.args, **named: Given.kwargs
    ) -> Result:
        """Return the records that a read finds; if the read is interrupted, the next one finds them again."""
        try:
            found = result_of(read, *arguments, **named)
        except KafkaWireError:
            self.is_taking = False
            raise
        except BaseException:
            core = self._core
            if self.is_taking and core is not None:
                core.reader.rewind()
            self.is_taking = False
            raise
        self.is_taking = False
        return found

    def iterator(self) -> RecordIterator[Key, Value]:
        """Return an iterator over records."""
        self._started()
        assert self._iterator is not None
        return self._iterator

    async def next_batch(self) -> ConsumerBatch | None:
        """Return the next batch; None at the end."""
        return await self._next_batch(self._started())

    bounded = AsyncConsumer._bounded

    def iterate(self, end_offsets: EndOffsets | None = None) -> RecordIterator[Key, Value]:
        """Return an iterator over records, up to these end offsets if any are given."""
        if self._hooks is None:
            from kafkawire.sdk.consumer.reading.engine import RecordIterator
        else:
            from kafkawire.sdk.consumer.reading.engines.python import RecordIterator

        def wait() -> bool:
            found = self.take(self._advance, end_offsets)
            if found is not None:
                iterator.handout = found
            return found is not None

        iterator: RecordIterator[Key, Value] = RecordIterator(wait)
        return iterator

    def _new_stream(self) -> RecordIterator[Key, Value]:
        self._iterator = self.iterate()
        return self._iterator

    def _listener_calls(self, core: ConsumerCore, listener: RebalanceListener) -> BlockingListenerCalls:
        return BlockingListenerCalls(listener, self._listened, core.queue.signal)

    def _read(self, core: ConsumerCore, read: Callable[[], Result | None]) -> Result | None:
        with self._lock:
            self._call_listener()
            core.reader.finish()
            self.is_taking = True
            found = read()
            if found is None:
                self.is_taking = False
            return found

    async def _woken(
        self, core: ConsumerCore, deadline_ms: int | None, is_there: Callable[[], bool] | None = None
    ) -> bool:
        self._call_listener()
        return await super()._woken(core, deadline_ms, is_there)

    def _call_listener(self) -> None:
        if isinstance(self._calls, BlockingListenerCalls):
            self._calls.run()
