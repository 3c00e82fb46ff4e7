"""Handle the responses to a share consumer's requests: queue acquired records, and end acknowledgements.

Each partition of a response has its own error for the fetch, and another one for the acknowledgements.

Source: Apache Kafka, `ShareConsumeRequestManager`, `ShareFetchCollector`; KIP-951 (leaders in responses).
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence
from typing import Final

from kafkawire.sdk.consumer.sharing.acquisitions import Acquired, AcquiredRange, Ledger
from kafkawire.sdk.consumer.sharing.held_records import HeldRecords
from kafkawire.sdk.consumer.sharing.node_shares import ByPartition, NodeShares
from kafkawire.sdk.consumer.sharing.queue import ShareFetched, ShareQueue
from kafkawire.sdk.consumer.sharing.settlements import Settlements
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.log_limit import LogLimit
from kafkawire.sdk.metrics.catalogue import SHARE_FETCH
from kafkawire.sdk.protocol.messages.share_acknowledge import ShareAcknowledgeResponse
from kafkawire.sdk.protocol.messages.share_fetch import ShareFetchResponse
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.routing import retry
from kafkawire.sdk.routing.metadata import Endpoint
from kafkawire.sdk.routing.partitions import TopicIdPartition
from kafkawire.sdk.routing.retry import outdates_metadata
from kafkawire.sdk.routing.router import Router

__all__ = ["ShareResponses"]

logger = logging.getLogger("kafkawire.consumer")

#: A retriable code that reads raise, because the leader would read the same damaged batch again.
_RAISED: Final = frozenset({ErrorCode.CORRUPT_MESSAGE})

#: A code that is not marked as retriable but is nevertheless temporary, as in Apache Kafka's share consumer.
_PASSING: Final = frozenset({ErrorCode.UNKNOWN_SERVER_ERROR})

#: Retriable codes after which the broker no longer has the acquisition locks.
_MOVED: Final = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
    }
)

#: How long a lock is taken to last if the broker does not say, which none of the supported versions does: as long as
#: Kafka's default.
_LOCK_TIMEOUT_MS: Final = 30_000


class ShareResponses:
    """Handle the responses for one planner.

    Args:
        router: its metadata stores new leaders.
        queue: receives acquired records.
        ledger: takes their acknowledgements.
        held: counts acquired records.
        settlements: ends acknowledgements.

    Attributes:
        again: the acknowledgements that the last response asks to send again.
    """

    def __init__(
        self, router: Router, queue: ShareQueue, ledger: Ledger, held: HeldRecords, settlements: Settlements
    ) -> None:
        self._metadata = router.metadata
        self._queue = queue
        self._ledger = ledger
        self._held = held
        self._settlements = settlements
        self._lines = LogLimit(logger)
        self._refused: set[TopicIdPartition] = set()
        self._bytes = router.metrics.sensor(SHARE_FETCH, "bytes-consumed", "fetch-size")
        self._records = router.metrics.sensor(SHARE_FETCH, "records-consumed", "records-per-request")
        self.again: ByPartition = {}

    def take(
        self, node: NodeShares, response: ShareFetchResponse, sent: ByPartition, now_ms: int, locked_ms: int
    ) -> BrokerError | None:
        """Handle a fetch's response without a top-level error.

        Args:
            node: the broker.
            response: the response.
            sent: the acknowledgements in the request; those that the response ends are removed.
            now_ms: the time.
            locked_ms: when the locks began.

        Returns:
            An error after which the broker should be given a pause; None if records were acquired, or nothing failed.
        """
        self._retract(node, response)
        lock_timeout_ms = response.acquisition_lock_timeout_ms or _LOCK_TIMEOUT_MS
        self._ledger.lock_timeout_ms = lock_timeout_ms
        pause: BrokerError | None = None
        size_bytes = count = 0
        for topic in response.responses:
            for data in topic.partitions:
                partition = node.partition(topic.topic_id, data.partition_index)
                refusal = self._end(
                    partition,
                    sent,
                    data.acknowledge_error_code,
                    data.acknowledge_error_message,
                    now_ms,
                    locked_ms,
                    lock_timeout_ms,
                )
                pause = pause or refusal
                if data.error_code != ErrorCode.NONE:
                    pause = self._refuse(partition, data, response.node_endpoints, now_ms) or pause
                elif ranges := _ranges(data.acquired_records):
                    records = data.records if data.records is not None else b""
                    acquired_count = sum(each.last - each.first + 1 for each in ranges)
                    locked_until_ms = locked_ms + lock_timeout_ms
                    acquired = Acquired(
                        partition, node.node_id, acquired_count, locked_until_ms, lock_timeout_ms, self._ledger
                    )
                    self._held.add(acquired)
                    self._queue.put(ShareFetched(acquired, ranges, records))
                    size_bytes += len(records)
                    count += acquired_count
        self._bytes.record(size_bytes, now_ms)
        self._records.record(count, now_ms)
        if count:
            self._queue.signal()
            return None
        return pause

    def forget(self, partitions: Collection[TopicIdPartition]) -> None:
        """Drop the unread errors of partitions, because they can be fetched again or are no longer assigned."""
        for partition in partitions:
            self._queue.retract(partition)
        self._refused.difference_update(partitions)

    @property
    def refused(self) -> frozenset[TopicIdPartition]:
        """The partitions whose last fetch failed with an error that reads raise."""
        return frozenset(self._refused)

    def take_acknowledged(
        self, node: NodeShares, response: ShareAcknowledgeResponse, sent: ByPartition, now_ms: int, locked_ms: int
    ) -> BrokerError | None:
        """Handle an acknowledgement's response without a top-level error; see `take`."""
        if response.acquisition_lock_timeout_ms:
            self._ledger.lock_timeout_ms = response.acquisition_lock_timeout_ms
        pause: BrokerError | None = None
        for topic in response.responses:
            for data in topic.partitions:
                partition = node.partition(topic.topic_id, data.partition_index)
                if data.error_code != ErrorCode.NONE:
                    self._move(partition, data.current_leader, response.node_endpoints)
                refusal = self._end(
                    partition,
                    sent,
                    data.error_code,
                    data.error_message,
                    now_ms,
                    locked_ms,
                    response.acquisition_lock_timeout_ms,
                )
                pause = refusal or pause
        return pause

    def _end(
        self,
        partition: TopicIdPartition,
        sent: ByPartition,
        code: int,
        message: str | None,
        now_ms: int,
        locked_ms: int,
        lock_timeout_ms: int,
    ) -> BrokerError | None:
        """End the acknowledgements of a partition, or have them sent again after the returned error."""
        acknowledgements = sent.pop(partition, None)
        if acknowledgements is None:
            return None
        if code == ErrorCode.NONE:
            self._settlements.settle(partition, acknowledgements, None, locked_ms, lock_timeout_ms)
            return None
        what = f"acknowledgements of {partition}"
        error = BrokerError(code, f"{what}: {message}" if message else what)
        if outdates_metadata(error):
            self._metadata.invalidate()
        if error.retriable and error.code not in _MOVED:
            self.again.setdefault(partition, []).extend(acknowledgements)
            return error
        self._settlements.settle(partition, acknowledgements, error, now_ms)
        return None

    def _refuse(
        self,
        partition: TopicIdPartition,
        data: ShareFetchResponse.PartitionData,
        endpoints: Sequence[Endpoint],
        now_ms: int,
    ) -> BrokerError | None:
        """Handle the error of one partition's fetch; return it unless the next fetch goes to another broker."""
        what = f"share fetch from {partition}"
        error = BrokerError(data.error_code, f"{what}: {data.error_message}" if data.error_message else what)
        if self._move(partition, data.current_leader, endpoints):
            return None
        if not retry.may_pass(error, _RAISED, _PASSING):
            self._queue.report(error, partition)
            self._refused.add(partition)
            return error
        if outdates_metadata(error):
            self._metadata.invalidate()
        self._lines.warning(("retry", partition.topic), now_ms, "%s", error)
        return error

    def _retract(self, node: NodeShares, response: ShareFetchResponse) -> None:
        """Drop the unread errors of partitions that were fetched now; a response leaves out those without records."""
        if self._refused:
            again = {
                node.partition(topic.topic_id, data.partition_index)
                for topic in response.responses
                for data in topic.partitions
                if data.error_code != ErrorCode.NONE
            }
            self.forget(self._refused & node.session.members.keys() - again)

    def _move(
        self,
        partition: TopicIdPartition,
        leader: ShareFetchResponse.LeaderIdAndEpoch | ShareAcknowledgeResponse.LeaderIdAndEpoch,
        endpoints: Sequence[Endpoint],
    ) -> bool:
        """Take over a new leader from a response; return whether there is one."""
        return self._metadata.move_leader(partition.topic_partition, leader.leader_id, leader.leader_epoch, endpoints)


def _ranges(acquired: Sequence[ShareFetchResponse.AcquiredRecords]) -> tuple[AcquiredRange, ...]:
    """Return acquired offsets in order; an offset that is listed twice counts once."""
    found: list[AcquiredRange] = []
    next_offset = 0
    for each in sorted(acquired, key=lambda each: each.first_offset):
        first = max(each.first_offset, next_offset)
        if first <= each.last_offset:
            found.append(AcquiredRange(first, each.last_offset, each.delivery_count))
            next_offset = each.last_offset + 1
    return tuple(found)
