"""The machines of a consumer, with methods that return promises for `Consumer`.

Nothing in this module waits, so asyncio and threads can share it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from kafkawire.sdk.client.arguments import checked_offset, checked_offsets, checked_timeout_ms
from kafkawire.sdk.client.core import ClientCore
from kafkawire.sdk.client.offset_queries import OffsetQueries
from kafkawire.sdk.client.operations import NO_SUCH_TOPIC
from kafkawire.sdk.client.options import ConsumerOptions
from kafkawire.sdk.clock import monotonic_ms
from kafkawire.sdk.clock import now_ms as wall_ms
from kafkawire.sdk.consumer.batch import ConsumerBatch
from kafkawire.sdk.consumer.fetching.metrics import show_group, show_lags
from kafkawire.sdk.consumer.fetching.planner import FetchPlanner
from kafkawire.sdk.consumer.fetching.queue import FetchQueue
from kafkawire.sdk.consumer.position import Place, Position
from kafkawire.sdk.consumer.read_queue import LOGIN
from kafkawire.sdk.consumer.reading.assignment import Assignment
from kafkawire.sdk.consumer.reading.reader import Reader
from kafkawire.sdk.consumer.subscription import SubscribedTopics
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.groups.subscription import Subscription
from kafkawire.sdk.records import Record
from kafkawire.sdk.routing.partitions import OffsetAndMetadata, OffsetAndTimestamp, TopicPartition
from kafkawire.sdk.transport import fork
from kafkawire.sdk.transport.promise import Promise
from kafkawire.sdk.transport.wire import Network

if TYPE_CHECKING:
    from kafkawire.sdk.consumer.group import Group
    from kafkawire.sdk.groups.committed_offsets import Found
    from kafkawire.sdk.groups.protocol import Event

__all__ = ["ConsumerCore"]


class ConsumerCore:
    """The machines of one consumer.

    Args:
        options: the consumer's options.
        network: how to connect to the brokers; None for TCP.

    Attributes:
        queue: the fetched batches.
        assignment: the assigned partitions.
        reader: hands out fetched records.
        planner: plans the fetches.
        group: the consumer's group; None if it has no `group_id`.
        client: runs the machines.
        driver: the client's driver.
        router: sends the machines' requests.
        topics: the topics that the consumer subscribes to when it starts.
    """

    def __init__(self, options: ConsumerOptions, network: Network | None = None) -> None:
        self._options = options
        self.client = ClientCore("consumer", options, network)
        backoff = self.client.backoff
        self.router, self.driver = self.client.router, self.client.driver
        self.queue = FetchQueue(self.driver.wake)
        # No machine refers to this object, so it is garbage-collected along with the `Consumer`; see `let_go`.
        group: Group | None = None

        def find_committed(
            partitions: Collection[TopicPartition], on_found: Callable[[Found, int], None], now_ms: int
        ) -> None:
            if group is not None:
                group.find(partitions, on_found, now_ms)

        committed = find_committed if options.group_id is not None else None
        self.planner = FetchPlanner(self.router, options, backoff, self.queue, wall_ms, committed)
        self._queries = OffsetQueries(self.router, options, backoff, options.isolation_level)
        self.assignment = Assignment(
            self.planner, self.queue, self.driver.run, monotonic_ms, auto_finish=options.enable_auto_finish
        )
        self.planner.user = self.assignment
        by_itself = self.assignment if options.group_id is None else None
        self._subscribed = SubscribedTopics(self.router.metadata, by_itself)
        self.reader = Reader(self.assignment, self.queue, options.check_crcs)
        self.queue.announces_reads = options.group_id is not None
        self.topics: frozenset[str] = frozenset()
        show_lags(self.router.metrics, self.assignment)
        if options.group_id is not None:
            from kafkawire.sdk.consumer.group import Group  # only consumers in a group need it

            assignment, queue = self.assignment, self.queue
            group = Group(
                options, self.router, backoff, assignment, lambda error, now_ms: queue.fail(error), self.driver.post
            )
            self.client.machines.append(group)
            show_group(self.router.metrics, lambda: assignment.readings, group.last_heartbeat_ms)
        self.group: Group | None = group
        self.client.machines += (self._subscribed, self.planner, self._queries)
        fork.watch(self)

    def forked(self, error: fork.Forked) -> None:
        """Stop handing out records in a forked child process, because the parent hands them out."""
        self.reader.abandon(error)

    def start(self) -> Promise[None]:
        """Connect to the cluster.

        Returns:
            A promise that is kept once the first metadata has arrived and the session with the group's ZooKeeper is
            open; it fails if no bootstrap server or no ZooKeeper server can be reached, or if access to a topic is
            denied.
        """
        metadata = self.router.metadata
        metadata.wanted = set(self.topics)
        started = self.client.start()

        async def described() -> None:
            await started
            for topic in self.topics:
                code = metadata.errors.get(topic)
                error = None if code is None else BrokerError(code, f"topic {topic}")
                if error is not None and not error.retriable:  # a missing topic may still be created
                    raise error
            if self.group is not None:
                await self.driver.ask(self.group.open)

        return self.client.perform(described())

    @property
    def is_subscribed(self) -> bool:
        """Whether the consumer reads topics, rather than partitions assigned by hand."""
        return self._subscribed.is_active

    def subscribe(self, subscription: Subscription) -> Promise[None]:
        """Replace the topics to read.

        Returns:
            A promise that is kept once the known partitions are assigned; with a group, immediately.
        """

        def step(promise: Promise[None], now_ms: int) -> None:
            self._subscribed.subscribe(subscription)
            if self.group is not None:
                self.group.subscribe(subscription, now_ms)
            elif subscription.pattern is not None:
                subscription.keep_known(self.router.metadata)
            is_by_hand = self.group is None and subscription.pattern is None
            self.planner.subscribe(subscription.names, keeps_known=is_by_hand)
            self._subscribed.poll(now_ms)
            promise.keep(None)

        return self.driver.ask(step)

    def topics_assigned(self) -> Promise[None]:
        """Wait until every subscribed topic that exists in the cluster is assigned; with a group, do not wait."""
        return self.driver.ask(self._subscribed.await_topics)

    # Methods that need a group.

    def acknowledge(self, event: Event, error: Exception | None) -> None:
        """Continue after the listener has handled an event.

        Args:
            event: the event.
            error: the listener's error; every read raises it, and records of added partitions are not handed out.

        Raises:
            Closed: the client has ended.
        """
        group = self._member()

        def step(now_ms: int) -> None:
            group.acknowledge(event, now_ms)
            if error is not None:
                self.assignment.withhold(event.partitions)

        if error is not None:
            self.queue.fail(error)
        self.driver.run(step)

    def to_commit(
        self, offsets: Mapping[TopicPartition, int | OffsetAndMetadata] | Record[Any, Any] | ConsumerBatch | None
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return the exact offsets to commit; see `Consumer.commit` for the argument.

        Raises:
            LocalProtocolError: the offsets cannot be committed.
        """
        if offsets is None:
            self.reader.finish()
            return self.assignment.to_commit()
        if isinstance(offsets, Record):
            return self._up_to(TopicPartition(offsets.topic, offsets.partition), offsets.offset + 1)
        if isinstance(offsets, ConsumerBatch):
            return self._up_to(offsets.partition, offsets.next_offset)
        return checked_offsets(offsets)

    def _up_to(self, partition: TopicPartition, offset: int) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return the position to commit for an offset, with its leader epoch if it is the current position."""
        reading = self.assignment.readings.get(partition)
        position = None if reading is None else reading.position
        is_position = position is not None and position.offset == offset
        return {partition: position.to_commit() if position and is_position else OffsetAndMetadata(offset)}

    def commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata], timeout_ms: int | None) -> Promise[None]:
        """Commit offsets; see `Consumer.commit`."""
        group = self._member()
        limit_ms = self._options.api_timeout_ms if timeout_ms is None else checked_timeout_ms(timeout_ms)
        return self.driver.ask(lambda promise, now_ms: group.commit(offsets, limit_ms, promise, now_ms))

    def committed(self, partitions: Collection[TopicPartition]) -> Promise[dict[TopicPartition, OffsetAndMetadata]]:
        """Return the group's committed offsets; partitions without one are left out."""
        group = self._member()
        return self.driver.ask(lambda promise, now_ms: group.look_up(partitions, promise, now_ms))

    def leave(self, timeout_ms: int) -> Promise[None]:
        """Commit finished records (with `enable_auto_commit`), and leave the group if there is one.

        Returns:
            A promise that is kept within the limit.
        """
        group = self.group

        def step(promise: Promise[None], now_ms: int) -> None:
            if group is None:
                promise.keep(None)
            else:
                group.stop(timeout_ms, promise, now_ms)

        return self.driver.ask(step)

    def let_go(self, timeout_ms: int) -> bool:
        """Leave the group and disconnect, because the consumer was garbage-collected.

        Returns:
            Whether there is anything left to end.
        """

        async def last() -> None:
            if self.group is not None:
                self.group.notify = None  # the application no longer holds the consumer
                await self.leave(timeout_ms)

        return self.client.let_go(last)

    def _member(self) -> Group:
        assert self.group is not None
        return self.group

    # Cluster lookups.

    def look_up(self, times: Mapping[TopicPartition, int]) -> Promise[dict[TopicPartition, OffsetAndTimestamp]]:
        """Look up each partition's first record at or after a time, or at an `OffsetTimestamp`."""
        return self.driver.ask(lambda promise, now_ms: self._queries.ask(times, promise, now_ms), is_query=True)

    def partitions_for(self, topic: str) -> Promise[list[TopicPartition]]:
        """Look up the current partitions of a topic."""

        async def described() -> list[TopicPartition]:
            topics = await self.client.operations.describe([topic], final=NO_SUCH_TOPIC)
            return sorted(TopicPartition(topic, number) for number in topics[topic].partitions)

        return self.client.perform(described())

    def assign(self, partitions: Collection[TopicPartition] | Mapping[TopicPartition, int]) -> None:
        """Read exactly these partitions; a mapping gives their start offsets."""
        if isinstance(partitions, Mapping):
            self.assignment.assign({each: Position(offset) for each, offset in partitions.items()})
        else:
            self.assignment.assign(partitions)

    def seek(self, partitions: Iterable[TopicPartition], place: Place) -> None:
        """Seek to a place in each of these partitions."""
        for partition in partitions:
            self.assignment.seek(partition, place)

    def seek_to_offset(self, partition: TopicPartition, offset: object) -> None:
        """Seek to an offset in a partition.

        Raises:
            LocalProtocolError: the offset is invalid, or the partition is not assigned.
        """
        self.assignment.seek(partition, Position(checked_offset(partition, offset)))

    def position(self, partition: TopicPartition) -> int | None:
        """Return the offset of the next record to hand out; None until it has been looked up.

        Raises:
            LocalProtocolError: the partition is not assigned.
            KafkaWireError: looking it up failed.
        """
        reading = self.assignment[partition]
        position = reading.position
        if position is not None:
            return position.offset
        error = self.queue.take_error(partition, reading.epoch)
        if error is not None:
            self.assignment.halt(reading, error)
            raise error
        error = self.queue.take_reported(partition)
        if error is not None:  # the lookup was denied, and goes on
            raise error
        self.queue.check()
        refusal = self.queue.take_reported(LOGIN) or self.queue.refusal
        if refusal is not None:
            raise refusal.again()
        return None

    def has_position(self, partition: TopicPartition) -> bool:
        """Return whether `position` has an outcome: an offset or an error."""
        reading, queue = self.assignment.readings.get(partition), self.queue
        if reading is None or reading.position is not None or queue.failure is not None or queue.refusal is not None:
            return True
        has_reported = queue.has_reported(partition) or queue.has_reported(LOGIN)
        return has_reported or queue.has_error(partition, reading.epoch)

    def lag(self, partition: TopicPartition) -> int | None:
        """Return the number of offsets between the position and the end; None if either is unknown.

        Raises:
            LocalProtocolError: the partition is not assigned.
        """
        reading = self.assignment[partition]
        position = reading.position
        if position is None or reading.end_offset < 0:
            return None
        return max(reading.end_offset - position.offset, 0)
