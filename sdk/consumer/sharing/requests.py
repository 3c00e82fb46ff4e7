"""Build the requests of a share consumer, and read which partitions a response is about."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from kafkawire.sdk.client.options import ShareConsumerOptions
from kafkawire.sdk.consumer.sharing.acknowledgement_batches import acknowledgement_batches
from kafkawire.sdk.consumer.sharing.node_shares import ByPartition
from kafkawire.sdk.protocol.messages.share_acknowledge import ShareAcknowledgeRequest
from kafkawire.sdk.protocol.messages.share_fetch import ShareFetchRequest
from kafkawire.sdk.protocol.tables.enums import ShareAcquireMode
from kafkawire.sdk.routing.partitions import TopicIdPartition
from kafkawire.sdk.routing.share_session import ShareSessionPlan

__all__ = ["ShareRequests"]

#: The size of a response without records: its header and, for each partition, its fields and some acquired ranges.
#: `max_frame_bytes` limits the whole response, so requests leave room for these bytes.
_RESPONSE_BYTES: Final = 1_024
_PARTITION_BYTES: Final = 512


class ShareRequests:
    """Build the requests of one member.

    Args:
        options: the consumer's options.
        member_id: the member's id.
    """

    def __init__(self, options: ShareConsumerOptions, member_id: str) -> None:
        self._options = options
        self._member_id = member_id
        self._mode = ShareAcquireMode[options.share_acquire_mode.upper()]

    def fetch(self, plan: ShareSessionPlan, acknowledgements: ByPartition, partitions_count: int) -> ShareFetchRequest:
        """Return a fetch that also carries acknowledgements, none of which renews a lock.

        Args:
            plan: the changes to the session.
            acknowledgements: the acknowledgements, by partition.
            partitions_count: the number of partitions in the session.
        """
        options, kind = self._options, ShareFetchRequest
        room_bytes = options.max_frame_bytes - _RESPONSE_BYTES - _PARTITION_BYTES * partitions_count
        topics: dict[bytes, list[ShareFetchRequest.FetchPartition]] = {}
        for partition in dict.fromkeys((*plan.added, *acknowledgements)):
            batches = [kind.AcknowledgementBatch(*each) for each in _batches(acknowledgements, partition)]
            topics.setdefault(partition.topic_id, []).append(kind.FetchPartition(partition.partition, batches))
        return kind(
            options.group_id,
            self._member_id,
            plan.epoch,
            options.fetch_max_wait_ms,
            options.fetch_min_bytes,
            max(1, min(options.fetch_max_bytes, room_bytes)),
            options.max_poll_records,
            options.max_poll_records,
            self._mode,
            topics=[kind.FetchTopic(topic_id, partitions) for topic_id, partitions in topics.items()],
            forgotten_topics_data=[
                kind.ForgottenTopic(topic_id, numbers) for topic_id, numbers in _numbers(plan.forgotten).items()
            ],
        )

    def acknowledge(self, epoch: int, acknowledgements: ByPartition, *, renews: bool) -> ShareAcknowledgeRequest:
        """Return a request that only acknowledges.

        Args:
            epoch: the epoch of the session.
            acknowledgements: the acknowledgements, by partition.
            renews: whether one of them renews a lock.
        """
        kind = ShareAcknowledgeRequest
        topics: dict[bytes, list[ShareAcknowledgeRequest.AcknowledgePartition]] = {}
        for partition in acknowledgements:
            batches = [kind.AcknowledgementBatch(*each) for each in _batches(acknowledgements, partition)]
            topics.setdefault(partition.topic_id, []).append(kind.AcknowledgePartition(partition.partition, batches))
        listed = [kind.AcknowledgeTopic(topic_id, partitions) for topic_id, partitions in topics.items()]
        return kind(self._options.group_id, self._member_id, epoch, renews, listed)


def _batches(acknowledgements: ByPartition, partition: TopicIdPartition) -> Iterable[tuple[int, int, tuple[int, ...]]]:
    return acknowledgement_batches(acknowledgements.get(partition, ()))


def _numbers(partitions: Iterable[TopicIdPartition]) -> Mapping[bytes, list[int]]:
    numbers: dict[bytes, list[int]] = {}
    for partition in partitions:
        numbers.setdefault(partition.topic_id, []).append(partition.partition)
    return numbers
