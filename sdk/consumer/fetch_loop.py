"""The tasks that drive a consumer's fetcher: one looks up positions and leaders, one for each broker fetches.

Source: Apache Kafka, `Fetcher`, `OffsetFetcher`.
"""

from __future__ import annotations

import asyncio
import logging
from types import TracebackType

from kafkawire.sdk.client.cluster import Cluster
from kafkawire.sdk.client.offsets import fetch_committed, list_offsets
from kafkawire.sdk.client.options import ConsumerOptions
from kafkawire.sdk.client.partitions import TopicPartition
from kafkawire.sdk.clock import monotonic_ms
from kafkawire.sdk.consumer.fetcher import Fetched, Fetcher
from kafkawire.sdk.consumer.positions import RESET_TIMESTAMPS, Positions
from kafkawire.sdk.errors import KafkaWireError, NoOffset
from kafkawire.sdk.protocol.messages.fetch import FetchRequest, FetchResponse
from kafkawire.sdk.protocol.uuids import ZERO_UUID

__all__ = ["FetchLoop"]

logger = logging.getLogger("kafkawire.consumer")

#: How often leaders and positions are checked when nothing else happens.
_LOOK_INTERVAL_MS = 1_000


class FetchLoop:
    """Fetch for a consumer.

    Args:
        options: the consumer's options.
        cluster: routes the requests.
        positions: the consumer's positions; missing ones are looked up here.
    """

    def __init__(self, options: ConsumerOptions, cluster: Cluster, positions: Positions) -> None:
        self._options = options
        self._cluster = cluster
        self._positions = positions
        self._fetcher = Fetcher(options, positions, cluster.metadata)
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._failures = 0
        self._wake = asyncio.Event()
        self._arrived = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._failure: Exception | None = None
        self._failure_trace: TracebackType | None = None

    def start(self) -> None:
        """Start fetching, unless it was started already."""
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run(), name="kafkawire consumer")

    async def close(self) -> None:
        """Stop fetching."""
        tasks = [task for task in (self._task, *self._tasks.values()) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def wake(self) -> None:
        """Check positions and leaders now: partitions were assigned, moved, or resumed."""
        self._wake.set()

    def fail(self, error: Exception) -> None:
        """Make every read raise an error from now on."""
        self._failure = error
        self._failure_trace = error.__traceback__
        self._arrived.set()

    async def next(self, deadline_ms: int | None = None) -> Fetched | None:
        """Wait for the next batches and return them.

        Args:
            deadline_ms: when to give up, by the monotonic clock; None to wait indefinitely.

        Returns:
            None if nothing arrived in time.

        Raises:
            KafkaWireError: what stops the consumer from reading on; see `Consumer`.
        """
        await asyncio.sleep(0)  # the application may never yield: let responses in and the next requests out
        while True:
            self._arrived.clear()
            if self._failure is not None:
                failure = self._failure.again() if isinstance(self._failure, KafkaWireError) else self._failure
                raise failure.with_traceback(self._failure_trace)  # a foreign error may not be copyable
            if self._fetcher.errors:
                raise self._fetcher.errors.popleft()
            fetched = self._fetcher.next()
            if fetched is not None:
                self._wake.set()
                return fetched
            try:
                async with asyncio.timeout(None if deadline_ms is None else (deadline_ms - monotonic_ms()) / 1000):
                    await self._arrived.wait()
            except TimeoutError:
                return None

    async def look_up_positions(self) -> None:
        """Look up where to start in every partition that has no position.

        Raises:
            NoOffset: a partition has no committed offset, and `auto_offset_reset` is "none".
            KafkaWireError: the lookup failed; worth a retry if the error is retriable.
        """
        missing = self._positions.without_position()
        epochs = {each: self._positions[each].epoch for each in missing}
        fresh = [each for each in missing if self._positions[each].reset is None]
        if fresh and self._options.group_id is not None:
            committed = await fetch_committed(self._cluster, self._options.group_id, fresh)
            for partition, commit in committed.items():
                self._seek(partition, epochs[partition], commit.offset)
                state = self._positions.get(partition)
                if state is not None:
                    state.committed = commit.offset
        resets: dict[TopicPartition, int] = {}
        for partition in missing:
            state = self._positions.get(partition)
            if state is None or state.position is not None or state.epoch != epochs[partition]:
                continue
            policy = state.reset or self._options.auto_offset_reset
            if policy not in RESET_TIMESTAMPS:
                state.paused = True
                raise NoOffset(f"{partition} has no committed offset, and auto_offset_reset is {policy}")
            resets[partition] = RESET_TIMESTAMPS[policy]
        if resets:
            for partition, (offset, _) in (await list_offsets(self._cluster, resets)).items():
                self._seek(partition, epochs[partition], offset)

    def _seek(self, partition: TopicPartition, epoch: int, offset: int) -> None:
        """Continue from an offset that was looked up, unless the application has sought elsewhere meanwhile."""
        state = self._positions.get(partition)
        if state is not None and state.epoch == epoch:
            state.seek(offset)

    async def _run(self) -> None:
        while True:
            self._wake.clear()
            pause_ms: float = _LOOK_INTERVAL_MS
            try:
                await self._look()
                self._failures = 0
            except KafkaWireError as error:
                pause_ms = self._troubled(error)
            except Exception as error:  # a bug: better a read that raises than one that hangs
                self.fail(error)
                return
            try:
                async with asyncio.timeout(pause_ms / 1000):
                    await self._wake.wait()
            except TimeoutError:
                pass

    async def _look(self) -> None:
        """Look up missing positions and leaders, and start a task for each broker that has something to fetch."""
        await self.look_up_positions()
        metadata = self._cluster.metadata
        if metadata.is_stale(monotonic_ms()) or self._fetcher.without_leader():
            await self._cluster.refresh()
        for node_id in self._fetcher.leaders():
            if node_id not in self._tasks:
                self._tasks[node_id] = asyncio.get_running_loop().create_task(self._fetch(node_id))

    async def _fetch(self, node_id: int) -> None:
        """Fetch from one broker until there is nothing left to ask for."""
        timeout_ms = self._options.fetch_max_wait_ms + self._options.request_timeout_ms
        failures = 0
        try:
            connection = await self._cluster.connection(node_id)
            while (request := self._fetcher.request(node_id)) is not None:
                named = any(topic.topic_id == ZERO_UUID for topic in request.topics)
                version = connection.version_for(FetchRequest, (FetchRequest.FetchTopic, "topic") if named else None)
                response = await connection.request(request, FetchResponse, version, timeout_ms)
                trouble = self._fetcher.receive(node_id, response)
                self._arrived.set()
                failures = 0 if trouble is None else failures + 1
                if trouble is not None:
                    self._cluster.note(trouble)
                    self._wake.set()
                    await asyncio.sleep(self._cluster.pause_ms(failures) / 1000)
        except KafkaWireError as error:
            self._fetcher.failed(node_id)
            await asyncio.sleep(self._troubled(error) / 1000)
        except Exception as error:  # see _run
            self.fail(error)
        finally:
            self._fetcher.failed(node_id)
            del self._tasks[node_id]
            self._wake.set()

    def _troubled(self, error: KafkaWireError) -> float:
        """Report errors that the application must see; return how long to wait before the next attempt."""
        self._cluster.note(error, self._options.group_id)
        self._failures += 1
        if error.retriable:
            logger.warning("cannot fetch now: %s", error)
        else:
            self._fetcher.errors.append(error)
            self._arrived.set()
        return self._cluster.pause_ms(self._failures)
