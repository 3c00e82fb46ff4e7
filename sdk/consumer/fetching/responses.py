"""Handle the responses to fetches: queue the batches, and handle the error of each partition separately.

Source: Apache Kafka, `FetchCollector.handleInitializeErrors`; KIP-951 (leaders in responses), KIP-392 (followers).
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping

from kafkawire.sdk.client.options import ConsumerOptions
from kafkawire.sdk.consumer.fetching.metrics import FetchMetrics
from kafkawire.sdk.consumer.fetching.partition_fetch import PartitionFetch, Planning, may_pass
from kafkawire.sdk.consumer.fetching.queue import Fetched, FetchQueue
from kafkawire.sdk.consumer.position import Position
from kafkawire.sdk.errors import BrokerError, KafkaWireError, RemoteProtocolError
from kafkawire.sdk.log_limit import LogLimit
from kafkawire.sdk.protocol.messages.fetch import FetchResponse
from kafkawire.sdk.protocol.tables.enums import IsolationLevel
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.protocol.values import Buffer
from kafkawire.sdk.records.extent import extent
from kafkawire.sdk.routing.partitions import TopicPartition
from kafkawire.sdk.routing.retry import is_connection_error, outdates_metadata
from kafkawire.sdk.routing.router import Router

__all__ = ["FetchResponses"]

logger = logging.getLogger("kafkawire.consumer")


class FetchResponses:
    """Handle the responses for one planner.

    Args:
        planner: the planner of the partitions.
        router: its metadata stores new leaders.
        options: the consumer's options.
        queue: receives the batches.
    """

    def __init__(self, planner: Planning, router: Router, options: ConsumerOptions, queue: FetchQueue) -> None:
        self._planner = planner
        self._metadata = router.metadata
        self._options = options
        self._queue = queue
        self._damaged: set[int] = set()
        self._lines = LogLimit(logger)
        self._metrics = FetchMetrics(router.metrics)

    def take(self, node_id: int, names: Mapping[bytes, str], response: FetchResponse, now_ms: int) -> None:
        """Handle a response.

        Args:
            node_id: the node that sent the response.
            names: the names of the session's topics, keyed by id.
            response: the response, without a top-level error.
            now_ms: the time.
        """
        for topic in response.responses:
            name = topic.topic or names.get(topic.topic_id, "")
            for data in topic.partitions:
                partition, has_moved = TopicPartition(name, data.partition_index), False
                if data.error_code != ErrorCode.NONE:
                    leader = data.current_leader
                    has_moved = self._metadata.move_leader(
                        partition, leader.leader_id, leader.leader_epoch, response.node_endpoints
                    )
                fetch = self._planner.current(partition)
                # The response is too late for a partition if there was a seek, or if another broker now serves the
                # partition.
                if fetch is not None and fetch.sent is not None and fetch.sent[:3] == (node_id, *_place(fetch)):
                    self._take(node_id, fetch, data, has_moved, now_ms)
        self._damaged.discard(node_id)
        self._queue.retract(node_id)
        self._metrics.response(now_ms)
        self._queue.signal()

    def failed(self, node_id: int, fetches: Iterable[PartitionFetch], error: KafkaWireError, now_ms: int) -> None:
        """Handle a fetch to which a broker did not respond."""
        for fetch in fetches:
            if fetch.replica is not None:
                fetch.replica = None
                self._planner.consider(fetch, now_ms)
        damage = error.__cause__ if isinstance(error.__cause__, RemoteProtocolError) else None
        if damage is not None and node_id not in self._damaged:
            self._damaged.add(node_id)  # perhaps temporary; if not, reads would wait forever without giving a reason
        elif damage is not None:
            self._queue.report(damage, node_id)
        elif not error.retriable and not is_connection_error(error):
            self._queue.report(error, node_id)

    def refused(self, node_id: int, fetches: Iterable[PartitionFetch], error: BrokerError, now_ms: int) -> None:
        """Handle a response with a top-level error; fetching continues after a pause, regardless of the error."""
        if outdates_metadata(error):
            self._metadata.invalidate()
        if not may_pass(error):
            self._queue.report(error, node_id)
        for fetch in fetches:
            self._planner.retry(fetch, error, now_ms)

    def _take(
        self, node_id: int, fetch: PartitionFetch, data: FetchResponse.PartitionData, has_moved: bool, now_ms: int
    ) -> None:
        if data.error_code != ErrorCode.NONE:
            self._refuse(node_id, fetch, data, has_moved, now_ms)
            return
        if fetch.attempts.failures and data.preferred_read_replica < 0:
            self._planner.succeeded(fetch)
        is_committed = self._options.isolation_level == IsolationLevel.READ_COMMITTED
        end_offset = data.last_stable_offset if is_committed else data.high_watermark
        if end_offset != fetch.end_offset:
            fetch.end_offset = end_offset
            assert self._planner.user is not None
            self._planner.user.observed(fetch.partition, fetch.epoch, end_offset)
        if data.preferred_read_replica >= 0:
            fetch.replica = (data.preferred_read_replica, now_ms + self._options.metadata_max_age_ms)
        if data.records is not None and len(data.records):
            self._queue_batches(fetch, data, data.records, now_ms)
        self._planner.go_on(fetch, now_ms)

    def _queue_batches(
        self, fetch: PartitionFetch, data: FetchResponse.PartitionData, records: Buffer, now_ms: int
    ) -> None:
        """Queue the batches of a partition, and continue after the last complete one."""
        assert fetch.position is not None
        start = fetch.position
        found = extent(records)
        if found.next_offset is None or found.next_offset <= start.offset:
            reason = found.damage or f"the response ends before that offset, after {len(records)} bytes"
            error = RemoteProtocolError(f"fetch from {fetch.partition} at offset {start.offset}: {reason}")
            error.__cause__ = found.damage
            self._planner.halt_with(fetch, error, now_ms)
            return
        if found.damage is None and found.size_bytes < len(records):
            records = memoryview(records)[: found.size_bytes]  # the rest is fetched next
        end = Position(found.next_offset, found.leader_epoch)
        aborted = [(each.first_offset, each.producer_id) for each in data.aborted_transactions or ()]
        fetched = Fetched(
            fetch.partition,
            fetch.epoch,
            start.offset,
            end,
            records,
            data_end=-1 if found.data_end is None else found.data_end,
            aborted=tuple(sorted(aborted)) if aborted else (),
        )
        fetch.position = end
        fetch.buffered_bytes += len(records)
        self._metrics.partition(fetch.partition.topic, len(records), found.records_count, now_ms)
        self._queue.put(fetched)
        # The reading side raises the error when it gets there; fetching more would only return the same data.
        fetch.halted = found.damage is not None

    def _refuse(
        self, node_id: int, fetch: PartitionFetch, data: FetchResponse.PartitionData, has_moved: bool, now_ms: int
    ) -> None:
        """Handle the error of one partition; `has_moved` says whether the response named a newer leader."""
        assert fetch.position is not None
        offset = fetch.position.offset
        error = BrokerError(data.error_code, f"fetch from {fetch.partition} at offset {offset}")
        if fetch.replica is not None and fetch.replica[0] == node_id:
            # The next fetch goes to the leader. The leader may immediately recommend the same follower, so there is a
            # pause first.
            fetch.replica = None
            if outdates_metadata(error):
                self._metadata.invalidate()
            self._planner.retry(fetch, error, now_ms)
            return
        if error.code is ErrorCode.OFFSET_OUT_OF_RANGE:
            self._planner.reset(fetch, f"{fetch.partition}: offset {offset} is out of range", now_ms)
            return
        if has_moved and may_pass(error):
            leader_id, subject = data.current_leader.leader_id, ("moved", fetch.partition.topic)
            self._lines.info(subject, now_ms, "%s: node %d is the leader now", fetch.partition, leader_id)
            self._planner.consider(fetch, now_ms)
            return
        self._planner.failed(fetch, error, now_ms)


def _place(fetch: PartitionFetch) -> tuple[int, int]:
    return fetch.epoch, -1 if fetch.position is None else fetch.position.offset
