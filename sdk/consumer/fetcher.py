"""What to fetch from which broker, and what came back, without I/O.

The next request to a broker is built from the batch headers of its last response, before any record is decoded, so that
decoding and the application overlap with the broker's work. What was fetched before a seek or a rebalance is dropped
when its turn comes.

Source: Apache Kafka, `Fetcher`; KIP-516 (topic ids, from version 13), KIP-320 (leader epochs).
"""

from __future__ import annotations

from collections import deque

from kafkawire.sdk.client.metadata import Metadata
from kafkawire.sdk.client.options import ConsumerOptions
from kafkawire.sdk.client.partitions import TopicPartition
from kafkawire.sdk.consumer.positions import RESET_TIMESTAMPS, Positions
from kafkawire.sdk.errors import BrokerError, KafkaWireError, NoOffset, PartialBatch, RemoteProtocolError
from kafkawire.sdk.protocol.messages.fetch import FetchRequest, FetchResponse
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.protocol.values import Buffer
from kafkawire.sdk.records import walk_headers

__all__ = ["Fetched", "Fetcher"]

#: A partition is fetched ahead while fewer fetches than this wait for the application: one being read, one ready.
_FETCHES_AHEAD = 2


class Fetched:
    """The batches of one partition in one response.

    Attributes:
        partition: where they are from.
        epoch: the partition's epoch when they were requested; they are dropped once it differs.
        records: concatenated batches; the last one may be cut off.
        offset: the offset that was requested; earlier records of the first batch are skipped.
        next_offset: the offset after the last whole batch.
    """

    __slots__ = ("next_offset", "offset", "partition", "records", "epoch")

    def __init__(self, partition: TopicPartition, epoch: int, records: Buffer, offset: int, next_offset: int) -> None:
        self.partition = partition
        self.epoch = epoch
        self.records = records
        self.offset = offset
        self.next_offset = next_offset


class Fetcher:
    """Plan fetches and queue what they return.

    Args:
        options: limits and the reset policy.
        positions: the consumer's positions; their fetch offsets are advanced here.
        metadata: the leaders.

    Attributes:
        errors: errors for the application, oldest first.
    """

    def __init__(self, options: ConsumerOptions, positions: Positions, metadata: Metadata) -> None:
        self._options = options
        self._positions = positions
        self._metadata = metadata
        self._queue: deque[Fetched] = deque()
        self._asked: dict[int, dict[TopicPartition, tuple[int, int]]] = {}
        self.errors: deque[KafkaWireError] = deque()

    def leaders(self) -> set[int]:
        """Return the node ids of brokers that have something to fetch and no fetch in flight."""
        ahead = self._queued_bytes() < self._options.fetch_max_bytes
        found = {self._metadata.leader(each) for each in self._positions if ahead and self._wanted(each)}
        return {node for node in found if node is not None and node not in self._asked}

    def without_leader(self) -> bool:
        """Return whether a partition cannot be fetched because its leader is not known."""
        return any(self._metadata.leader(each) is None for each in self._positions if self._wanted(each))

    def request(self, node_id: int) -> FetchRequest | None:
        """Return the next fetch for a broker, None if there is nothing to fetch from it now."""
        asked: dict[TopicPartition, tuple[int, int]] = {}
        topics: dict[str, list[FetchRequest.FetchPartition]] = {}
        if self._queued_bytes() < self._options.fetch_max_bytes:
            for partition in self._positions:
                known = self._metadata.partition(partition)
                if known is None or known.leader != node_id or not self._wanted(partition):
                    continue
                state = self._positions[partition]
                asked[partition] = (state.epoch, state.fetch_offset)
                entry = FetchRequest.FetchPartition(
                    partition.partition,
                    known.leader_epoch,
                    state.fetch_offset,
                    partition_max_bytes=self._options.max_partition_fetch_bytes,
                )
                topics.setdefault(partition.topic, []).append(entry)
        if not asked:
            return None
        self._asked[node_id] = asked
        return FetchRequest(
            max_wait_ms=self._options.fetch_max_wait_ms,
            min_bytes=self._options.fetch_min_bytes,
            max_bytes=self._options.fetch_max_bytes,
            topics=[
                FetchRequest.FetchTopic(name, self._metadata.topic_id(name), partitions)
                for name, partitions in topics.items()
            ],
        )

    def failed(self, node_id: int) -> None:
        """Report that a fetch got no response."""
        self._asked.pop(node_id, None)

    def receive(self, node_id: int, response: FetchResponse) -> KafkaWireError | None:
        """Handle the response to the last fetch from a broker.

        Returns:
            An error after which the next fetch should be delayed, None if all is well.
        """
        asked = self._asked.pop(node_id)
        if response.error_code != ErrorCode.NONE:
            return BrokerError(response.error_code, f"fetch from node {node_id}")
        trouble: KafkaWireError | None = None
        for topic in response.responses:
            name = topic.topic or self._metadata.name_of(topic.topic_id)
            for data in topic.partitions:
                partition = TopicPartition(name or "", data.partition_index)
                epoch, offset = asked.pop(partition, (-1, -1))
                state = self._positions.get(partition)
                if state is None or state.epoch != epoch:
                    continue
                try:
                    self._take(partition, offset, data)
                except KafkaWireError as error:
                    trouble = self._note(partition, error, data)
        # The response covers every partition requested, unless its topic was renamed or its id is no longer known.
        return trouble or (BrokerError(ErrorCode.UNKNOWN_TOPIC_ID, f"fetch from node {node_id}") if asked else None)

    def next(self) -> Fetched | None:
        """Return the oldest fetch that can be handed out, None if there is none."""
        for _ in range(len(self._queue)):
            fetched = self._queue.popleft()
            state = self._positions.get(fetched.partition)
            if state is None or state.epoch != fetched.epoch:
                continue
            if state.paused:
                self._queue.append(fetched)
                continue
            state.queued_bytes -= len(fetched.records)
            return fetched
        return None

    def _queued_bytes(self) -> int:
        return sum(len(fetched.records) for fetched in self._queue)

    def _wanted(self, partition: TopicPartition) -> bool:
        state = self._positions[partition]
        ahead = _FETCHES_AHEAD * self._options.max_partition_fetch_bytes
        return state.position is not None and not state.paused and state.queued_bytes < ahead

    def _take(self, partition: TopicPartition, offset: int, data: FetchResponse.PartitionData) -> None:
        """Queue the batches of a partition and advance its fetch offset.

        Raises:
            BrokerError: the partition could not be read.
            RemoteProtocolError: the batches end before the offset that was requested.
        """
        state = self._positions[partition]
        if data.error_code != ErrorCode.NONE:
            raise BrokerError(data.error_code, f"fetch from {partition} at offset {offset}")
        state.high_watermark = data.high_watermark
        records = data.records
        if records is None or not len(records):
            return
        next_offset = offset
        try:
            for header in walk_headers(records):
                next_offset = header.next_offset
        except PartialBatch as partial:
            # The rest is asked for next. Brokers send the first batch whole, however large: without one, it is damaged.
            if not partial.offset:
                raise RemoteProtocolError(
                    f"fetch from {partition} at offset {offset}: no whole batch; {partial}"
                ) from None
        if next_offset <= offset:
            raise RemoteProtocolError(
                f"fetch from {partition} at offset {offset} brought {len(records)} bytes that end before it"
            )
        state.fetch_offset = next_offset
        state.queued_bytes += len(records)
        self._queue.append(Fetched(partition, state.epoch, records, offset, next_offset))

    def _note(
        self, partition: TopicPartition, error: KafkaWireError, data: FetchResponse.PartitionData
    ) -> KafkaWireError:
        """Act on the error of one partition."""
        if isinstance(error, BrokerError) and error.code == ErrorCode.OFFSET_OUT_OF_RANGE:
            state = self._positions[partition]
            if self._options.auto_offset_reset in RESET_TIMESTAMPS:
                state.look_up(self._options.auto_offset_reset)
            else:
                self.errors.append(NoOffset(f"{error.detail}: out of range, and auto_offset_reset is none"))
                state.paused = True
        elif error.retriable and not (isinstance(error, BrokerError) and error.code == ErrorCode.CORRUPT_MESSAGE):
            leader = data.current_leader
            self._metadata.move_leader(partition, leader.leader_id, leader.leader_epoch)
        else:
            self.errors.append(error)
            self._positions[partition].paused = True
        return error
