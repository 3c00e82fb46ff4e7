"""The consumer: records out, of partitions that it was given or that its group gave it.

Everything is read batch by batch: `batches` hands whole ones out, iterating takes their records one after the other and
waits only where a batch ends, `getmany` collects lists. Fetching, membership and commits go on in tasks beside it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Collection, Iterable, Iterator, Mapping
from types import TracebackType

from kafkawire.sdk.client.cluster import Cluster
from kafkawire.sdk.client.offsets import commit_offsets, fetch_committed, list_offsets
from kafkawire.sdk.client.partitions import OffsetAndMetadata, OffsetAndTimestamp, TopicPartition
from kafkawire.sdk.clock import monotonic_ms
from kafkawire.sdk.consumer.batch import ConsumerBatch, batches
from kafkawire.sdk.consumer.fetch_loop import FetchLoop
from kafkawire.sdk.consumer.membership import Membership, RebalanceListener
from kafkawire.sdk.consumer.positions import PartitionPosition, Positions
from kafkawire.sdk.errors import Closed, DecodeError, KafkaWireError, LocalProtocolError
from kafkawire.sdk.options import ConsumerOptions, read_options
from kafkawire.sdk.protocol.tables.enums import OffsetTimestamp
from kafkawire.sdk.records import Record
from kafkawire.sdk.transport.wire import Network

__all__ = ["Consumer"]

logger = logging.getLogger("kafkawire.consumer")

#: How long `close` waits for the commit and for the group to be told, in all.
_CLOSE_TIMEOUT_MS = 5_000


class Consumer:
    """Read records of topics.

    Nothing is connected before `start`; use it as `async with Consumer(…) as consumer`.

    Args:
        bootstrap_servers: brokers to ask first, `host:port,host:port` or a sequence.
        topics: what to read; the partitions are shared with the group if `group_id` is given. Without topics, `assign`
            says which partitions to read.
        listener: told when partitions come and go.
        network: how to reach brokers; TCP if not given.
        options: see `ConsumerOptions`; dotted names of Kafka's documentation are accepted too.

    Raises:
        ConfigurationError: an option is unknown or out of its range.
    """

    def __init__(
        self,
        bootstrap_servers: str | Iterable[str] | None = None,
        *topics: str,
        listener: RebalanceListener | None = None,
        network: Network | None = None,
        **options: object,
    ) -> None:
        self._options = read_options(ConsumerOptions, bootstrap_servers, options)
        self._network = network
        self._listener = listener
        self._topics = frozenset(topics)
        self._positions = Positions()
        self._cluster: Cluster | None = None
        self._loop: FetchLoop | None = None
        self._membership: Membership | None = None
        self._commit_task: asyncio.Task[None] | None = None
        self._batches: Iterator[ConsumerBatch] = iter(())
        self._records: Iterator[Record] | None = None
        self._batch: ConsumerBatch | None = None
        self._state = PartitionPosition()
        self._turn = 0
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
        """Connect to the cluster and begin to read.

        Raises:
            ConnectFailed: none of the bootstrap servers can be reached.
            BrokerError: a topic does not exist, or may not be read.
        """
        if self._cluster is not None:
            raise LocalProtocolError("the consumer was started already")
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
        """Commit what is finished (with `enable_auto_commit`), leave the group and disconnect."""
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
            logger.warning("the group could not be told within %d ms that this member leaves", _CLOSE_TIMEOUT_MS)
        finally:
            await loop.close()
            await cluster.close()

    # Reading.

    async def __aiter__(self) -> AsyncIterator[Record]:
        """Iterate over records for ever; a record is finished when the next one is asked for."""
        while True:
            batch = await self._current_batch()
            state, turn = self._state, self._turn
            for record in self._decoded(batch):
                state.finished = record.offset
                state.position = record.offset + 1
                yield record
                if state.turn != turn:
                    break
            else:
                state.finished = state.position = batch.next_offset
            self._batch = None

    async def batches(self) -> AsyncIterator[ConsumerBatch]:
        """Iterate over whole batches for ever; a batch is finished when the next one is asked for."""
        while True:
            batch = await self._current_batch()
            state, turn = self._state, self._turn
            self._batch = None
            if self._records is not None and state.position is not None:  # its first records were taken one by one
                batch = ConsumerBatch(batch.partition, batch.batch, state.position)
                if state.position >= batch.next_offset:
                    continue
            state.position = batch.next_offset
            yield batch
            if state.turn == turn:
                state.finished = batch.next_offset

    async def getmany(self, timeout_ms: int = 0, max_records: int | None = None) -> dict[TopicPartition, list[Record]]:
        """Return the records that are there, by partition; all of them are finished at the next read.

        Args:
            timeout_ms: how long to wait for the first one.
            max_records: most records; None for `max_poll_records`.
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
        """The partitions that are read now."""
        return self._positions.assigned

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read exactly these partitions, without sharing them with a group.

        Raises:
            LocalProtocolError: the consumer was made with topics.
        """
        if self._topics:
            raise LocalProtocolError(
                "assign: this consumer was made with topics; make one without for assigned partitions"
            )
        chosen = [TopicPartition(*partition) for partition in partitions]
        self._positions.assign(chosen)
        if self._cluster is not None:
            self._cluster.topics = {partition.topic for partition in chosen}
            self._cluster.metadata.invalidate()
        self._wake()

    async def subscribe(self, *topics: str) -> None:
        """Read other topics than before; the group shares the partitions out anew.

        Raises:
            BrokerError: a topic does not exist, or may not be read.
            LocalProtocolError: partitions were assigned by hand.
        """
        if self._positions.assigned and not self._topics:
            raise LocalProtocolError("subscribe: partitions were assigned by hand")
        self._topics = frozenset(topics)
        if self._cluster is not None:
            await self._begin()

    def pause(self, *partitions: TopicPartition) -> None:
        """Hand out no more records of these partitions, and fetch none; they stay with this member."""
        for partition in partitions:
            self._positions[partition].pause()

    def resume(self, *partitions: TopicPartition) -> None:
        """Go on with paused partitions."""
        for partition in partitions:
            self._positions[partition].paused = False
        self._wake()

    # Positions.

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Go on from `offset` in a partition."""
        if offset < 0:
            raise LocalProtocolError(f"seek in {partition} to {offset}: expected 0 or more")
        self._positions[partition].jump(offset)
        self._wake()

    def seek_to_beginning(self, *partitions: TopicPartition) -> None:
        """Go on from the first record of each partition; of all, if none is given."""
        self._look_up(partitions, "earliest")

    def seek_to_end(self, *partitions: TopicPartition) -> None:
        """Go on behind the last record of each partition; of all, if none is given."""
        self._look_up(partitions, "latest")

    async def position(self, partition: TopicPartition) -> int:
        """Return the offset of the next record that the application gets."""
        state = self._positions[partition]
        while state.position is None:
            await self._started_loop().look_up_positions()
        return state.position

    async def committed(self, *partitions: TopicPartition) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return what the group has committed; partitions without a commit are left out."""
        return await fetch_committed(self._started_cluster(), self._group_id(), partitions)

    async def commit(self, offsets: Mapping[TopicPartition, int | OffsetAndMetadata] | None = None) -> None:
        """Commit positions of the group.

        Args:
            offsets: of the next record to read; None for everything handed out so far.

        Raises:
            BrokerError: REBALANCE_IN_PROGRESS, ILLEGAL_GENERATION or UNKNOWN_MEMBER_ID where the group moved on: others
                may read these partitions now.
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
        """Return the offset of the first record of each partition."""
        return await self._offsets(partitions, OffsetTimestamp.EARLIEST)

    async def end_offsets(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the offset behind the last record of each partition."""
        return await self._offsets(partitions, OffsetTimestamp.LATEST)

    async def offsets_for_times(
        self, timestamps_ms: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """Return the first record at or after a time, None where there is none."""
        found = await list_offsets(self._started_cluster(), timestamps_ms)
        return {partition: place if place.offset >= 0 else None for partition, place in found.items()}

    # How it is done.

    async def _begin(self) -> None:
        """Take up the topics of this consumer: in its group, or all their partitions."""
        cluster, loop = self._started_cluster(), self._started_loop()
        cluster.topics = set(self._topics) or {partition.topic for partition in self._positions.assigned}
        described = await cluster.describe(self._topics)
        if self._membership is not None:
            self._membership.subscribe(self._topics)
        elif self._topics and self._options.group_id is not None:
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
        """Return whether a batch was begun, and no jump made it useless."""
        return self._batch is not None and self._state.turn == self._turn

    async def _current_batch(self) -> ConsumerBatch:
        """Return the batch that was begun, else the next one."""
        if not self._has_current():
            await self._next_batch()
        assert self._batch is not None
        return self._batch

    async def _next_batch(self, deadline_ms: int | None = None) -> bool:
        """Make the next batch the current one; return whether there is one."""
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
                self._turn = fetched.turn
                self._batches = batches(fetched, self._options.check_crcs)
                batch = self._from_fetched()
                if batch is None:
                    self._state.position = fetched.next_offset  # nothing but control batches
        finally:
            self._reading_stopped_ms = monotonic_ms()
        self._batch = batch
        self._records = None
        return True

    def _from_fetched(self) -> ConsumerBatch | None:
        """Return the next batch of what was fetched last, None if nothing of it is left."""
        if self._state.turn != self._turn:
            self._batches = iter(())
        try:
            return next(self._batches, None)
        except DecodeError:
            self._stop_before_damage()
            raise

    def _decoded(self, batch: ConsumerBatch) -> Iterator[Record]:
        """Return what is left of the current batch."""
        if self._records is None:
            try:
                self._records = iter(batch)
            except DecodeError:
                self._stop_before_damage()
                raise
        return self._records

    def _stop_before_damage(self) -> None:
        """Skip nothing that cannot be decoded: the partition is paused until the application seeks past it."""
        self._batch = None
        self._state.pause()

    async def _commit_regularly(self) -> None:
        while True:
            await asyncio.sleep(self._options.auto_commit_interval_ms / 1000)
            try:
                await self._commit_finished(self._started_cluster(), self._membership)
            except KafkaWireError as error:
                logger.warning("positions of group %s were not committed: %s", self._options.group_id, error)

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
            raise LocalProtocolError("committed positions belong to a group: give group_id")
        return self._options.group_id

    def _started_cluster(self) -> Cluster:
        if self._cluster is None:
            raise Closed("the consumer is not started, or was closed")
        return self._cluster

    def _started_loop(self) -> FetchLoop:
        if self._loop is None:
            raise Closed("the consumer is not started, or was closed")
        return self._loop
