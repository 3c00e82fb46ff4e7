"""The task that sends batches from the accumulator to the brokers.

It sleeps until a batch is due or a response arrives, then sends as many requests as each broker may have in flight.
Connecting and refreshing metadata run in tasks of their own, so that an unreachable broker does not hold up the others.

Source: Apache Kafka, `Sender`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial

from kafkawire.sdk.client.cluster import Cluster
from kafkawire.sdk.client.options import ProducerOptions
from kafkawire.sdk.client.partitions import TopicPartition
from kafkawire.sdk.clock import monotonic_ms
from kafkawire.sdk.errors import KafkaWireError
from kafkawire.sdk.producer.accumulator import Accumulator, ProducerBatch
from kafkawire.sdk.producer.requests import Outcome, outcomes, produce_request
from kafkawire.sdk.protocol.messages.produce import ProduceRequest, ProduceResponse
from kafkawire.sdk.protocol.tables.enums import Acks
from kafkawire.sdk.protocol.uuids import ZERO_UUID
from kafkawire.sdk.transport.connection import BrokerConnection

__all__ = ["Sender"]

#: Longest sleep while batches wait, so that batches with an unknown leader still expire.
_LONGEST_SLEEP_MS = 1_000


class Sender:
    """Send the batches of an accumulator.

    Args:
        options: the producer's options.
        cluster: routes the requests.
        accumulator: holds the batches.
        on_progress: called after batches were acknowledged or have failed, and after a metadata refresh.
    """

    def __init__(
        self, options: ProducerOptions, cluster: Cluster, accumulator: Accumulator, on_progress: Callable[[], None]
    ) -> None:
        self._options = options
        self._cluster = cluster
        self._accumulator = accumulator
        self._on_progress = on_progress
        self._connections: dict[int, BrokerConnection] = {}
        self._connecting: dict[int, asyncio.Task[None]] = {}
        self._in_flight: dict[int, int] = {}
        self._failures: dict[int, int] = {}
        self._metadata_failures = 0
        self._metadata_task: asyncio.Task[None] | None = None
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start sending."""
        self._task = asyncio.get_running_loop().create_task(self._run(), name="kafkawire producer")
        self._task.add_done_callback(self._ended)

    async def close(self) -> None:
        """Stop; the outcome of requests in flight stays unknown."""
        tasks = [task for task in (self._task, self._metadata_task, *self._connecting.values()) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def wake(self) -> None:
        """Check the accumulator now."""
        self._wake.set()

    def want_metadata(self) -> None:
        """Refresh the metadata, and again until every topic asked for is known."""
        if self._metadata_task is None or self._metadata_task.done():
            self._metadata_task = asyncio.get_running_loop().create_task(self._refresh())

    async def _run(self) -> None:
        while True:
            self._wake.clear()
            now_ms = monotonic_ms()
            self._accumulator.expire(now_ms)
            self._dispatch(now_ms)
            self._on_progress()
            due_ms = self._accumulator.due_ms(now_ms)
            if due_ms is None:
                await self._wake.wait()
                continue
            # Batches already due wait for a broker: a response or a connection will wake this task.
            sleep_ms = due_ms - now_ms if due_ms > now_ms else _LONGEST_SLEEP_MS
            try:
                async with asyncio.timeout(min(sleep_ms, _LONGEST_SLEEP_MS) / 1000):
                    await self._wake.wait()
            except TimeoutError:
                pass

    def _ended(self, task: asyncio.Task[None]) -> None:
        """Fail all waiting batches if the task died of a bug: better an error than a delivery that hangs."""
        if not task.cancelled() and (error := task.exception()) is not None:
            failure = KafkaWireError(f"the producer's sender failed: {error!r}")
            failure.__cause__ = error
            self._accumulator.abandon(failure)
            self._on_progress()

    def _dispatch(self, now_ms: int) -> None:
        metadata = self._cluster.metadata
        nodes: dict[int, None] = {}
        for partition in self._accumulator.waiting():
            leader = metadata.leader(partition)
            if leader is None:
                self.want_metadata()
            else:
                nodes[leader] = None
        if metadata.is_stale(now_ms):
            self.want_metadata()
        for node_id in nodes:
            self._send_to(node_id, now_ms)

    def _send_to(self, node_id: int, now_ms: int) -> None:
        def led(partition: TopicPartition) -> bool:
            return self._cluster.metadata.leader(partition) == node_id

        connection = self._connections.get(node_id)
        if connection is None or not connection.is_open:
            if node_id not in self._connecting:
                task = asyncio.get_running_loop().create_task(self._connect(node_id))
                self._connecting[node_id] = task
            return
        while self._in_flight.get(node_id, 0) < self._options.max_in_flight and connection.is_open:
            batches = self._accumulator.take(led, now_ms)
            if not batches:
                return
            self._send(connection, node_id, batches)

    def _send(self, connection: BrokerConnection, node_id: int, batches: list[ProducerBatch]) -> None:
        metadata = self._cluster.metadata
        options = self._options
        request = produce_request(batches, metadata, options.acks, options.request_timeout_ms)
        named = any(topic.topic_id == ZERO_UUID for topic in request.topic_data)
        carrying = (ProduceRequest.TopicProduceData, "name") if named else None
        try:
            version = connection.version_for(ProduceRequest, carrying)
            if options.acks == Acks.NONE:
                connection.post(request, version)
                for batch in batches:
                    self._accumulator.succeed(batch, -1, -1)
                return
            response = connection.send(request, ProduceResponse, version)
        except KafkaWireError as error:
            self._came_back(node_id, [Outcome(batch, error) for batch in batches])
            return
        self._in_flight[node_id] = self._in_flight.get(node_id, 0) + 1
        response.add_done_callback(partial(self._received, node_id, batches))

    def _received(self, node_id: int, batches: list[ProducerBatch], response: asyncio.Future[ProduceResponse]) -> None:
        self._in_flight[node_id] -= 1
        if response.cancelled():
            return
        error = response.exception()
        if error is None:
            self._came_back(node_id, list(outcomes(response.result(), batches, self._cluster.metadata)))
        else:
            assert isinstance(error, KafkaWireError)
            self._came_back(node_id, [Outcome(batch, error) for batch in batches])

    def _came_back(self, node_id: int, results: list[Outcome]) -> None:
        now_ms = monotonic_ms()
        for batch, error, base_offset, log_append_time_ms in results:
            if error is None:
                self._failures.pop(node_id, None)
                self._accumulator.succeed(batch, base_offset, log_append_time_ms)
            elif error.retriable:
                self._cluster.note(error)
                self._accumulator.retry(batch, error, now_ms, self._cluster.pause_ms(batch.failures + 1))
            else:
                self._accumulator.fail(batch, error)
        self._on_progress()
        self._wake.set()

    async def _connect(self, node_id: int) -> None:
        try:
            self._connections[node_id] = await self._cluster.connection(node_id)
        except KafkaWireError as error:
            self._cluster.note(error)
            self._failures[node_id] = self._failures.get(node_id, 0) + 1
            await asyncio.sleep(self._cluster.pause_ms(self._failures[node_id]) / 1000)
        finally:
            del self._connecting[node_id]
            self._wake.set()

    async def _refresh(self) -> None:
        try:
            await self._cluster.refresh()
        except KafkaWireError as error:
            self._cluster.note(error)
        self._on_progress()
        self._wake.set()
        complete = not self._cluster.metadata.missing(self._cluster.topics or ())
        complete = complete and all(
            self._cluster.metadata.leader(partition) is not None for partition in self._accumulator.waiting()
        )
        if complete and not self._cluster.metadata.is_stale(monotonic_ms()):
            self._metadata_failures = 0
            return
        # While this task sleeps, `want_metadata` starts no other: this is the backoff.
        self._metadata_failures += 1
        await asyncio.sleep(self._cluster.pause_ms(self._metadata_failures) / 1000)
        self._wake.set()
