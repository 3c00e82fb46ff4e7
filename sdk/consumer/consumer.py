"""The consumer: reads records of partitions assigned by hand or by its group.

Everything is read batch by batch: `batches` hands out whole ones, iterating yields their records and awaits only
between batches, `getmany` collects lists. Fetching, group membership and commits run in background tasks.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Collection, Iterable, Iterator, Mapping
from types import TracebackType
from typing import TYPE_CHECKING

from kafkawire.sdk.client.offsets import commit_offsets, fetch_committed, list_offsets
from kafkawire.sdk.client.options import ConsumerOptions, read_options
from kafkawire.sdk.client.partitions import OffsetAndMetadata, OffsetAndTimestamp, TopicPartition
from kafkawire.sdk.client.topics import checked_topics
from kafkawire.sdk.clock import monotonic_ms
from kafkawire.sdk.consumer.batch import ConsumerBatch, batches
from kafkawire.sdk.consumer.positions import PartitionPosition, Positions
from kafkawire.sdk.errors import Closed, DecodeError, KafkaWireError, LocalProtocolError
from kafkawire.sdk.protocol.tables.enums import OffsetTimestamp
from kafkawire.sdk.records import Record
from kafkawire.sdk.transport.wire import Network

if TYPE_CHECKING:
    from typing import Unpack

    from kafkawire.sdk.client.cluster import Cluster
    from kafkawire.sdk.client.keywords import ConsumerKeywords
    from kafkawire.sdk.consumer.fetch_loop import FetchLoop
    from kafkawire.sdk.consumer.membership import Membership, RebalanceListener

__all__ = ["Consumer"]

logger = logging.getLogger("kafkawire.consumer")

#: How long `close` may take to commit and to leave the group, in total.
_CLOSE_TIMEOUT_MS = 5_000


class Consumer:
    """Read records of topics.

    The constructor does no I/O; use `async with Consumer(…) as consumer`, or call `start` and `close`. Iterating, and
    every other read, raises `BrokerError`, `DecodeError` (a damaged batch: the partition is paused until the
    application seeks past it) or `NoOffset` (no committed offset, and `auto_offset_reset` is "none").

    Args:
        servers: brokers to connect to first: `host:port,host:port`, or a sequence of `host:port`; the option
            `bootstrap_servers` may take its place.
        topics: the topics to read. With `group_id`, the group assigns their partitions; without it, all are read.
            Without topics, call `assign`.
        listener: called when partitions are assigned, revoked or lost.
        network: reaches the brokers; None for TCP.
        options: see `ConsumerKeywords` and docs/options.md; the dotted names of Kafka's documentation are accepted too.

    Raises:
        ConfigurationError: an option is unknown or out of range, or two contradict each other.
        LocalProtocolError: no topic can have one of the names.
    """

    def __init__(
        self,
        servers: str | Iterable[str] | None = None,
        /,
        *topics: str,
        listener: RebalanceListener | None = None,
        network: Network | None = None,
        **options: Unpack[ConsumerKeywords],
    ) -> None:
        self._options = read_options(ConsumerOptions, servers, options)
        self._network = network
        self._listener = listener
        self._topics = checked_topics(topics)
        self._positions = Positions()
        self._cluster: Cluster | None = None
        self._loop: FetchLoop | None = None
        self._membership: Membership | None = None
        self._commit_task: asyncio.Task[None] | None = None
        self._batches: Iterator[ConsumerBatch] = iter(())
        self._records: Iterator[Record] | None = None
        self._batch: ConsumerBatch | None = None
        self._state = PartitionPosition()
        self._epoch = 0
        self._reading_stopped_ms: int | None = None

    async def __aenter__(self) -> Consumer:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self._positions.finish_all()
        await self.close()

    async def start(self) -> None:
        """Connect to the cluster and start reading.

        Raises:
            ConnectFailed: none of the bootstrap servers can be reached.
            BrokerError: a topic does not exist, or may not be read.
            LocalProtocolError: the consumer was started already.
        """
        if self._cluster is not None:
            raise LocalProtocolError("the consumer was started already")
        from kafkawire.sdk.client.cluster import Cluster  # what connects is loaded here, not by the import
        from kafkawire.sdk.consumer.fetch_loop import FetchLoop

        cluster = Cluster(self._options, self._network)
        try:
            await cluster.refresh()
            self._cluster = cluster
            self._loop = FetchLoop(self._options, cluster, self._positions)
            await self._begin()
        except BaseException:
            self._cluster = self._loop = None
            await cluster.close()
            raise

    async def close(self) -> None:
        """Commit finished records (with `enable_auto_commit`), leave the group and disconnect.

        Committing and leaving take 5 s at most; after that the consumer disconnects anyway.
        """
        cluster, loop, membership = self._cluster, self._loop, self._membership
        if cluster is None or loop is None:
            return
        self._cluster = self._loop = self._membership = None
        if self._commit_task is not None:
            self._commit_task.cancel()
            await asyncio.gather(self._commit_task, return_exceptions=True)
        try:
            async with asyncio.timeout(_CLOSE_TIMEOUT_MS / 1000):
                if membership is not None:
                    await membership.close()
                elif self._options.group_id is not None and self._options.enable_auto_commit:
                    await self._commit_finished(cluster, None)
        except TimeoutError:
            logger.warning("could not commit and leave the group within %d ms", _CLOSE_TIMEOUT_MS)
        finally:
            await loop.close()
            await cluster.close()

    # Reading.

    async def __aiter__(self) -> AsyncIterator[Record]:
        """Iterate over records without end; a record is finished when the next one is asked for."""
        while True:
            batch = await self._current_batch()
            state, epoch = self._state, self._epoch
            for record in self._decoded(batch):
                state.finished = record.offset
                state.position = record.offset + 1
                yield record
                if state.epoch != epoch:
                    break
            else:
                state.finished = state.position = batch.next_offset
            self._batch = None

    async def batches(self) -> AsyncIterator[ConsumerBatch]:
        """Iterate over whole batches without end; a batch is finished when the next one is asked for."""
        while True:
            batch = await self._current_batch()
            state, epoch = self._state, self._epoch
            self._batch = None
            if self._records is not None and state.position is not None:  # its first records were handed out one by one
                batch = ConsumerBatch(batch.partition, batch.batch, state.position)
                if state.position >= batch.next_offset:
                    continue
            state.position = batch.next_offset
            yield batch
            if state.epoch == epoch:
                state.finished = batch.next_offset

    async def getmany(self, timeout_ms: int = 0, max_records: int | None = None) -> dict[TopicPartition, list[Record]]:
        """Return the records that are available, by partition; all of them are finished at the next read.

        Args:
            timeout_ms: how long to wait for the first record, in milliseconds from 0.
            max_records: the most records to return; None for `max_poll_records`.

        Returns:
            Records by partition, in the order of their offsets; empty if none arrived in time.
        """
        limit = self._options.max_poll_records if max_records is None else max_records
        deadline_ms = monotonic_ms() + timeout_ms
        self._positions.finish_all()
        found: dict[TopicPartition, list[Record]] = {}
        count = 0
        while count < limit and (self._has_current() or await self._next_batch(0 if count else deadline_ms)):
            batch = await self._current_batch()
            taken = [record for _, record in zip(range(limit - count), self._decoded(batch), strict=False)]
            if taken:
                found.setdefault(batch.partition, []).extend(taken)
                count += len(taken)
            if count < limit:
                self._state.position = batch.next_offset
                self._batch = None
            else:
                self._state.position = taken[-1].offset + 1
        return found

    # Which partitions.

    @property
    def assignment(self) -> frozenset[TopicPartition]:
        """The partitions assigned now."""
        return self._positions.assigned

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read exactly these partitions, without group membership.

        Args:
            partitions: replace those assigned before.

        Raises:
            LocalProtocolError: the consumer subscribes to topics.
        """
        if self._topics:
            raise LocalProtocolError("assign: this consumer subscribes to topics; create one without topics")
        chosen = [TopicPartition(*partition) for partition in partitions]
        self._positions.assign(chosen)
        if self._cluster is not None:
            self._cluster.topics = {partition.topic for partition in chosen}
            self._cluster.metadata.invalidate()
        self._wake()

    async def subscribe(self, *topics: str) -> None:
        """Replace the subscription; the group rebalances.

        Args:
            topics: the topics to read from now on.

        Raises:
            BrokerError: a topic does not exist, or may not be read.
            LocalProtocolError: partitions were assigned by hand, or no topic can have one of the names.
        """
        if self._positions.assigned and not self._topics:
            raise LocalProtocolError("subscribe: partitions were assigned by hand")
        names = checked_topics(topics)
        self._topics = names
        if self._cluster is not None:
            await self._begin()

    def pause(self, *partitions: TopicPartition) -> None:
        """Suspend reading of these partitions; they stay assigned to this consumer.

        Raises:
            LocalProtocolError: a partition is not assigned.
        """
        for partition in partitions:
            self._positions[partition].pause()

    def resume(self, *partitions: TopicPartition) -> None:
        """Resume reading of paused partitions.

        Raises:
            LocalProtocolError: a partition is not assigned.
        """
        for partition in partitions:
            self._positions[partition].paused = False
        self._wake()

    # Positions.

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Continue reading a partition from `offset`.

        Raises:
            LocalProtocolError: the offset is negative, or the partition is not assigned.
        """
        if offset < 0:
            raise LocalProtocolError(f"seek in {partition} to {offset}: expected 0 or more")
        self._positions[partition].seek(offset)
        self._wake()

    def seek_to_beginning(self, *partitions: TopicPartition) -> None:
        """Continue from the first record of each partition; of all assigned ones if none is given."""
        self._look_up(partitions, "earliest")

    def seek_to_end(self, *partitions: TopicPartition) -> None:
        """Continue after the last record of each partition; of all assigned ones if none is given."""
        self._look_up(partitions, "latest")

    async def position(self, partition: TopicPartition) -> int:
        """Return the offset of the next record to hand out.

        Raises:
            LocalProtocolError: the partition is not assigned.
            KafkaWireError: the position is not known yet, and looking it up failed.
        """
        state = self._positions[partition]
        while state.position is None:
            await self._started_loop().look_up_positions()
        return state.position

    async def committed(self, *partitions: TopicPartition) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return the offsets that the group has committed; partitions without one are left out.

        Raises:
            LocalProtocolError: there is no `group_id`.
            BrokerError: a partition may not be read.
        """
        return await fetch_committed(self._started_cluster(), self._group_id(), partitions)

    async def commit(self, offsets: Mapping[TopicPartition, int | OffsetAndMetadata] | None = None) -> None:
        """Commit offsets for the group.

        Args:
            offsets: the offset of the next record to read, by partition; None for everything handed out so far.

        Raises:
            BrokerError: REBALANCE_IN_PROGRESS, ILLEGAL_GENERATION or UNKNOWN_MEMBER_ID if the group has moved on: other
                members may read these partitions now.
            LocalProtocolError: there is no `group_id`.
        """
        group_id = self._group_id()
        cluster = self._started_cluster()
        if offsets is None:
            self._positions.finish_all()
            await self._commit_finished(cluster, self._membership)
            return
        exact = {
            partition: offset if isinstance(offset, OffsetAndMetadata) else OffsetAndMetadata(offset)
            for partition, offset in offsets.items()
        }
        if self._membership is not None:
            await self._membership.commit(exact)
        else:
            await commit_offsets(cluster, group_id, exact)

    async def beginning_offsets(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the offset of the first record of each partition.

        Raises:
            BrokerError: a partition does not exist, or may not be read.
        """
        return await self._offsets(partitions, OffsetTimestamp.EARLIEST)

    async def end_offsets(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the offset after the last record of each partition.

        Raises:
            BrokerError: a partition does not exist, or may not be read.
        """
        return await self._offsets(partitions, OffsetTimestamp.LATEST)

    async def offsets_for_times(
        self, timestamps_ms: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """Return the first record at or after a time, for each partition.

        Args:
            timestamps_ms: milliseconds since the epoch, by partition.

        Returns:
            Offset and timestamp by partition; None if no record is that recent.

        Raises:
            BrokerError: a partition does not exist, or may not be read.
        """
        found = await list_offsets(self._started_cluster(), timestamps_ms)
        return {partition: place if place.offset >= 0 else None for partition, place in found.items()}

    # Internals.

    async def _begin(self) -> None:
        """Subscribe to the topics: through the group, or to all of their partitions."""
        cluster, loop = self._started_cluster(), self._started_loop()
        cluster.topics = set(self._topics) or {partition.topic for partition in self._positions.assigned}
        described = await cluster.describe(self._topics)
        if self._membership is not None:
            self._membership.subscribe(self._topics)
        elif self._topics and self._options.group_id is not None:
            from kafkawire.sdk.consumer.membership import Membership  # only consumers in a group need it

            self._membership = Membership(
                self._options, cluster, self._positions, self._topics, self._listener, loop, self._idle_since_ms
            )
            self._membership.start()
        elif self._topics:
            self._positions.assign(
                TopicPartition(name, number) for name, topic in described.items() for number in topic.partitions
            )
        if self._options.group_id is not None and self._options.enable_auto_commit and self._commit_task is None:
            self._commit_task = asyncio.get_running_loop().create_task(self._commit_regularly())
        loop.start()
        loop.wake()

    def _has_current(self) -> bool:
        """Return whether a batch is partly read, and no seek has invalidated it."""
        return self._batch is not None and self._state.epoch == self._epoch

    async def _current_batch(self) -> ConsumerBatch:
        """Return the partly read batch, or else the next one."""
        if not self._has_current():
            await self._next_batch()
        assert self._batch is not None
        return self._batch

    async def _next_batch(self, deadline_ms: int | None = None) -> bool:
        """Advance to the next batch; return whether there is one."""
        loop = self._started_loop()
        self._positions.finish_all()
        self._reading_stopped_ms = None
        if self._membership is not None:
            self._membership.reading()
        try:
            batch = self._from_fetched()
            while batch is None:
                fetched = await loop.next(deadline_ms)
                if fetched is None:
                    return False
                self._state = self._positions[fetched.partition]
                self._epoch = fetched.epoch
                self._batches = batches(fetched, self._options.check_crcs)
                batch = self._from_fetched()
                if batch is None:
                    self._state.position = fetched.next_offset  # only control batches
        finally:
            self._reading_stopped_ms = monotonic_ms()
        self._batch = batch
        self._records = None
        return True

    def _from_fetched(self) -> ConsumerBatch | None:
        """Return the next batch of the last fetch, None if none is left."""
        if self._state.epoch != self._epoch:
            self._batches = iter(())
        try:
            return next(self._batches, None)
        except DecodeError:
            self._stop_before_damage()
            raise

    def _decoded(self, batch: ConsumerBatch) -> Iterator[Record]:
        """Return the remaining records of the current batch."""
        if self._records is None:
            try:
                self._records = iter(batch)
            except DecodeError:
                self._stop_before_damage()
                raise
        return self._records

    def _stop_before_damage(self) -> None:
        """Pause the partition until the application seeks past the damage: undecodable records are never skipped."""
        self._batch = None
        self._state.pause()

    async def _commit_regularly(self) -> None:
        while True:
            await asyncio.sleep(self._options.auto_commit_interval_ms / 1000)
            try:
                await self._commit_finished(self._started_cluster(), self._membership)
            except KafkaWireError as error:
                logger.warning("offsets of group %s were not committed: %s", self._options.group_id, error)

    async def _commit_finished(self, cluster: Cluster, membership: Membership | None) -> None:
        if membership is not None:
            await membership.commit_finished()
            return
        offsets = self._positions.to_commit()
        group_id = self._group_id()
        await commit_offsets(cluster, group_id, {each: OffsetAndMetadata(offset) for each, offset in offsets.items()})
        self._positions.committed(offsets)

    async def _offsets(self, partitions: Collection[TopicPartition], timestamp: int) -> dict[TopicPartition, int]:
        found = await list_offsets(self._started_cluster(), dict.fromkeys(partitions, timestamp))
        return {partition: place.offset for partition, place in found.items()}

    def _look_up(self, partitions: tuple[TopicPartition, ...], policy: str) -> None:
        for partition in partitions or tuple(self._positions):
            self._positions[partition].look_up(policy)
        self._wake()

    def _idle_since_ms(self) -> int | None:
        return self._reading_stopped_ms

    def _wake(self) -> None:
        if self._loop is not None:
            self._loop.wake()

    def _group_id(self) -> str:
        if self._options.group_id is None:
            raise LocalProtocolError("committed offsets belong to a group: set group_id")
        return self._options.group_id

    def _started_cluster(self) -> Cluster:
        if self._cluster is None:
            raise Closed("the consumer is not started, or is closed")
        return self._cluster

    def _started_loop(self) -> FetchLoop:
        if self._loop is None:
            raise Closed("the consumer is not started, or is closed")
        return self._loop
