"""The part of a consumer that does not wait: its partitions and positions, as the application sees and changes them.

A change holds at once on the user's side, and the I/O side learns of it. Reading, and whatever asks the cluster, waits:
that is added in `consumer.py`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Generic

from kafkawire.sdk.client.arguments import (
    MAX_INT32,
    checked_methods,
    checked_number,
    checked_offset,
    checked_partition,
    checked_partitions,
    checked_text,
    given_several,
    is_text,
)
from kafkawire.sdk.client.groups.subscription import Subscription
from kafkawire.sdk.client.method_hints import CONSUMER, Hinting
from kafkawire.sdk.client.options import ConsumerOptions, read_options
from kafkawire.sdk.client.partitions import TopicPartition
from kafkawire.sdk.client.summary import State, summary
from kafkawire.sdk.client.times import is_datetime, to_ms
from kafkawire.sdk.client.topics import checked_topics
from kafkawire.sdk.client.unclosed import caller, warn_unclosed
from kafkawire.sdk.clock import monotonic_ms
from kafkawire.sdk.consumer.batch import ConsumerBatch
from kafkawire.sdk.consumer.position import Place
from kafkawire.sdk.errors import Closed, DeserializationFailed, LocalProtocolError
from kafkawire.sdk.protocol.tables.enums import OffsetTimestamp
from kafkawire.sdk.protocol.values import quoted
from kafkawire.sdk.records import Record
from kafkawire.sdk.records.type_variables import Key, Value
from kafkawire.sdk.transport.promise import Promise
from kafkawire.sdk.transport.waiting import Turns
from kafkawire.sdk.transport.wire import Network

if TYPE_CHECKING:
    from datetime import datetime
    from typing import Unpack

    from kafkawire.sdk.client.groups.protocol import GroupMetadata
    from kafkawire.sdk.client.keywords import ConsumerKeywords
    from kafkawire.sdk.consumer.core import ConsumerCore
    from kafkawire.sdk.consumer.health import ConsumerHealth
    from kafkawire.sdk.consumer.listener import BlockingListenerCalls, ListenerCalls, RebalanceListener
    from kafkawire.sdk.consumer.reading.handout import RecordStream
    from kafkawire.sdk.consumer.reading.hooks import ConsumerHooks, ConsumerInterceptor
    from kafkawire.sdk.metrics.names import MetricName

__all__ = ["CLOSE_TIMEOUT_MS", "ConsumerFace"]

#: How long `close` may take to commit and to leave the group, unless it is told otherwise; as in Kafka, a session
#: timeout later the group would go on without the member anyway.
CLOSE_TIMEOUT_MS = 5_000


class ConsumerFace(Hinting, Generic[Key, Value], hints=CONSUMER):
    """The part of a consumer that does not wait; see `Consumer` for the arguments."""

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
        self._turns = Turns()
        self._made_at = caller()

    def __del__(self, is_finalizing: Callable[[], bool] = sys.is_finalizing) -> None:
        core: ConsumerCore | None = getattr(self, "_core", None)  # None if the constructor raised, too
        if core is not None and self._closing is None and not is_finalizing() and core.let_go(CLOSE_TIMEOUT_MS):
            group = "" if self._options.group_id is None else f" of group {self._options.group_id!r}"
            consequence = "it leaves its group" if group else "it disconnects"
            warn_unclosed(self, f"consumer {self._options.client_id!r}{group}", self._made_at, consequence)

    def __repr__(self) -> str:
        return summary(self, *self._state())

    def _state(self) -> tuple[ConsumerOptions | None, State]:
        """Return the options and the state; the options are None if the constructor raised before it had them."""
        started = getattr(self, "_core", None) is not None
        is_closed = getattr(self, "_closing", None) is not None
        return getattr(self, "_options", None), "closed" if is_closed else "started" if started else "new"

    # Which partitions.

    @property
    def assignment(self) -> frozenset[TopicPartition]:
        """The partitions assigned now."""
        core = self._core
        return frozenset(self._by_hand) if core is None else core.assignment.assigned

    @property
    def subscription(self) -> frozenset[str]:
        """The topics subscribed to now by their names; none with a pattern, or with partitions assigned by hand."""
        subscription = self._subscription
        return frozenset() if subscription is None else subscription.names

    @property
    def paused(self) -> frozenset[TopicPartition]:
        """The partitions assigned now that `pause` has suspended."""
        core = self._core
        return frozenset() if core is None else core.assignment.paused

    def assign(self, *partitions: TopicPartition | Iterable[TopicPartition] | Mapping[TopicPartition, int]) -> None:
        """Read exactly these partitions, without group membership.

        Args:
            partitions: replace those assigned before, one by one or in one list, which may be empty; a mapping has for
                each the offset to begin at.

        Raises:
            LocalProtocolError: nothing is given; the consumer subscribes to topics, or one of them can be no partition
                or offset.
            Closed: it was closed.
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

    def pause(self, *partitions: TopicPartition | Iterable[TopicPartition]) -> None:
        """Suspend reading of these partitions; they stay assigned to this consumer.

        Args:
            partitions: one by one, or in one list.

        Raises:
            LocalProtocolError: one is not assigned.
        """
        self._started().assignment.pause(checked_partitions(partitions))

    def resume(self, *partitions: TopicPartition | Iterable[TopicPartition]) -> None:
        """Resume reading of paused partitions, and of those stopped by an error.

        Args:
            partitions: one by one, or in one list.

        Raises:
            LocalProtocolError: a partition is not assigned.
        """
        self._started().assignment.resume(checked_partitions(partitions))

    def finish(self, *done: Record[Any, Any] | ConsumerBatch | Iterable[Record[Any, Any] | ConsumerBatch]) -> None:
        """Count records, or whole batches, as finished, in any order and from any thread.

        With `enable_auto_finish=False`, what is committed, by `commit` or automatically, is the position before the
        first record that was handed out and is not finished. Records of partitions that have moved to another member
        are ignored: their new owner reads them again.

        Args:
            done: what was processed, one by one or in one list. Records of a batch that was handed out whole are
                finished with the batch.

        Raises:
            LocalProtocolError: `enable_auto_finish` is on, a record was handed out in a batch, or it is neither.
        """
        assignment = self._started().assignment
        for each in given_several(done, _can_be_finished):
            if isinstance(each, Record):
                assignment.finish(TopicPartition(each.topic, each.partition), each.offset)
            elif isinstance(each, ConsumerBatch):
                assignment.finish(each.partition, each.start_offset, each.next_offset)
            else:
                raise LocalProtocolError(f"finish: expected records or batches of this consumer, got {quoted(each)}")

    def skip(self, error: DeserializationFailed) -> None:
        """Leave out a record that could not be deserialized, and continue after it.

        It counts as finished. With `enable_auto_finish=False`, earlier records stay unfinished, which a `seek` would
        forget. Nothing happens if the partition has moved to another member or another position.

        Args:
            error: what a read has raised.

        Raises:
            LocalProtocolError: it is something else.
        """
        assignment = self._started().assignment
        if not isinstance(error, DeserializationFailed):
            raise LocalProtocolError(f"skip: expected a DeserializationFailed, got {quoted(error)}")
        assignment.skip(TopicPartition(error.topic, error.partition), error.offset)

    # Positions.

    def seek(self, partition: TopicPartition, place: int | datetime) -> None:
        """Continue reading a partition from an offset or a time.

        Args:
            partition: which one.
            place: an offset, or a datetime with a time zone for the first record at or after it.

        Raises:
            LocalProtocolError: the offset is negative, the time has no time zone, or the partition is not assigned.
        """
        core, chosen = self._started(), checked_partition(partition)
        if is_datetime(place):
            core.seek([chosen], to_ms(place))
        else:
            core.seek_to_offset(chosen, place)

    def seek_to_beginning(self, *partitions: TopicPartition | Iterable[TopicPartition]) -> None:
        """Continue from the first record of each partition; of all assigned ones if none is given."""
        self._seek(partitions, OffsetTimestamp.EARLIEST)

    def seek_to_end(self, *partitions: TopicPartition | Iterable[TopicPartition]) -> None:
        """Continue after the last record of each partition; of all assigned ones if none is given."""
        self._seek(partitions, OffsetTimestamp.LATEST)

    def seek_to_time(self, time: int | datetime, *partitions: TopicPartition | Iterable[TopicPartition]) -> None:
        """Continue from the first record at or after a time, or else after the last record.

        Args:
            time: milliseconds since the epoch, or a datetime with a time zone.
            partitions: one by one, or in one list, which may be empty; all assigned ones if none is given.

        Raises:
            LocalProtocolError: the time is negative or has no time zone, or a partition is not assigned.
        """
        self._seek(partitions, to_ms(time))

    def lag(self, partition: TopicPartition) -> int | None:
        """Return how many offsets are between position and end of a partition; None if either is unknown.

        Raises:
            LocalProtocolError: the partition is not assigned.
        """
        return self._started().lag(checked_partition(partition))

    def _seek(self, partitions: tuple[Any, ...], place: Place) -> None:
        """Continue the given partitions from a place, or all assigned ones if no argument is given."""
        core = self._started()
        core.seek(checked_partitions(partitions) if partitions else core.assignment.assigned, place)

    # Status.

    @property
    def client_id(self) -> str:
        """The `client_id` option."""
        return self._options.client_id

    def health(self) -> ConsumerHealth:
        """Return what the consumer waits for, and its current trouble; from any thread, at any time.

        Raises:
            Closed: the consumer is not started, or is closed.
        """
        from kafkawire.sdk.consumer.health import health_of  # only programs that ask need it

        return health_of(self._started(), monotonic_ms())

    def metrics(self) -> Mapping[MetricName, float]:
        """Return every metric and its value now, from any thread; docs/observability.md lists them.

        Raises:
            Closed: the consumer is not started, or is closed.
        """
        return self._started().client.metrics()

    def group_metadata(self) -> GroupMetadata:
        """Return what identifies this consumer in its group now, for `Producer.send_offsets`.

        Call it right after reading, before awaiting anything else: it identifies the generation the records belong to.

        Raises:
            BrokerError: the consumer is not a member at the moment; its partitions belong to others.
            LocalProtocolError: there is no `group_id`.
        """
        group = self._started().group
        if group is None:
            raise LocalProtocolError("group_metadata: there is no group, set group_id")
        return group.metadata()

    def _chosen(self, topics: tuple[Any, ...], pattern: str | None = None) -> Subscription:
        """Return what to subscribe to.

        Raises:
            LocalProtocolError: partitions were assigned by hand, or no topic can have one of the names.
            ConfigurationError: there are neither topics nor a pattern, or both, or the pattern is invalid.
        """
        if self._by_hand:
            raise LocalProtocolError("subscribe: partitions were assigned by hand")
        if pattern is not None:
            checked_text("pattern", pattern)
        subscription = Subscription(checked_topics(given_several(topics, is_text)), pattern)
        if self._options.group_id is None or self._options.group_protocol != "consumer":
            subscription.check()
        return subscription

    def _check_open(self) -> None:
        if self._closing is not None:
            raise Closed("the consumer was closed; create a new one")

    def _started(self) -> ConsumerCore:
        core = self._core  # looked at once: a signal handler may close the consumer in between
        if core is None:
            raise Closed("the consumer is not started, or is closed")
        return core

    def _started_group(self) -> ConsumerCore:
        core = self._started()
        if core.group is None:
            raise LocalProtocolError("committed offsets belong to a group: set group_id")
        return core

    def _check_reads(self) -> None:
        """Refuse to read if there is nothing to read: the read would wait for ever.

        Raises:
            LocalProtocolError: the consumer has neither a subscription nor partitions.
        """
        if self._subscription is None and not self._by_hand:
            raise LocalProtocolError("there is nothing to read: subscribe to topics, or assign partitions")

    def _record_limit(self, given: int | None) -> int:
        return self._options.max_poll_records if given is None else checked_number("max_records", given, 1, MAX_INT32)

    def _batch_limits(self, given: int | None) -> tuple[int, int | None]:
        """Return how many batches a list may have, and how many records are enough."""
        if given is None:
            return MAX_INT32, self._options.max_poll_records
        return checked_number("max_batches", given, 1, MAX_INT32), None


def _can_be_finished(given: object) -> bool:
    return isinstance(given, Record | ConsumerBatch)
