"""Look up offsets by time at the leaders, look up and commit a group's offsets at its coordinator, with retries.

Source: Kafka protocol guide, "ListOffsets", "OffsetFetch", "OffsetCommit"; KIP-709 (several groups in one request).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from kafkawire.sdk.client.partitions import OffsetAndMetadata, OffsetAndTimestamp, TopicPartition
from kafkawire.sdk.client.requests import by_topic, check, committed_offsets, offset_fetch
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol import messages, tables
from kafkawire.sdk.protocol.tables.enums import CONSUMER_REPLICA_ID, UNKNOWN_GENERATION_ID, UNKNOWN_MEMBER_ID

if TYPE_CHECKING:
    from kafkawire.sdk.client.cluster import Cluster
    from kafkawire.sdk.client.group_member import Generation

__all__ = ["commit_offsets", "fetch_committed", "list_offsets"]


async def list_offsets(
    cluster: Cluster, timestamps: Mapping[TopicPartition, int]
) -> dict[TopicPartition, OffsetAndTimestamp]:
    """Return the first record at or after a time, for each partition.

    Args:
        cluster: routes the requests.
        timestamps: milliseconds since the epoch, or an `OffsetTimestamp`, by partition.

    Returns:
        Offset and timestamp by partition. The offset is -1 if no record is that recent; the timestamp is -1 when the
        offset is not a record's.

    Raises:
        BrokerError: a partition does not exist, or may not be read; a retriable error is raised after `api_timeout_ms`.
    """
    found: dict[TopicPartition, OffsetAndTimestamp] = {}

    async def attempt() -> None:
        missing = [partition for partition in timestamps if partition not in found]
        for node_id, partitions in (await cluster.leaders(missing)).items():
            connection = await cluster.connection(node_id)
            request = _list_request(cluster, {each: timestamps[each] for each in partitions})
            _take_listed(await connection.request(request, messages.ListOffsetsResponse), found)

    await cluster.retrying(attempt)
    return found


async def fetch_committed(
    cluster: Cluster, group_id: str, partitions: Collection[TopicPartition] | None = None
) -> dict[TopicPartition, OffsetAndMetadata]:
    """Return the offsets that a group has committed; partitions without one are left out.

    Args:
        cluster: routes the requests.
        group_id: the group.
        partitions: None for all that the group has committed.

    Raises:
        BrokerError: the group or a partition may not be read; a retriable error is raised after `api_timeout_ms`.
    """

    async def attempt() -> dict[TopicPartition, OffsetAndMetadata]:
        connection = await cluster.coordinator(group_id)
        # Names, not ids: a group may have committed for topics that are not in this client's metadata.
        version = connection.version_for(
            messages.OffsetFetchRequest, (messages.OffsetFetchRequest.OffsetFetchRequestTopics, "name")
        )
        request = offset_fetch(group_id, partitions, version)
        response = await connection.request(request, messages.OffsetFetchResponse, version)
        return dict(committed_offsets(response, group_id))

    return await cluster.retrying(attempt, group_id)


async def commit_offsets(
    cluster: Cluster,
    group_id: str,
    offsets: Mapping[TopicPartition, OffsetAndMetadata],
    generation: Generation | None = None,
) -> None:
    """Commit offsets for a group.

    Args:
        cluster: routes the requests.
        group_id: the group.
        offsets: of the next record to read, by partition.
        generation: identifies the member; None to commit from outside the group.

    Raises:
        BrokerError: the error of the first partition that was refused; the group may have moved on without this member.
    """

    async def attempt() -> None:
        connection = await cluster.coordinator(group_id)
        version = connection.version_for(
            messages.OffsetCommitRequest, (messages.OffsetCommitRequest.OffsetCommitRequestTopic, "name")
        )
        request = _commit_request(group_id, offsets, generation)
        response = await connection.request(request, messages.OffsetCommitResponse, version)
        for topic in response.topics:
            for partition in topic.partitions:
                check(partition.error_code, f"commit of {topic.name}-{partition.partition_index} in group {group_id}")

    if offsets:
        await cluster.retrying(attempt, group_id)


def _list_request(cluster: Cluster, timestamps: Mapping[TopicPartition, int]) -> messages.ListOffsetsRequest:
    topics = []
    for topic, numbers in by_topic(timestamps).items():
        partitions = []
        for number in numbers:
            key = TopicPartition(topic, number)
            known = cluster.metadata.partition(key)
            epoch = -1 if known is None else known.leader_epoch
            partitions.append(messages.ListOffsetsRequest.ListOffsetsPartition(number, epoch, timestamps[key]))
        topics.append(messages.ListOffsetsRequest.ListOffsetsTopic(topic, partitions))
    return messages.ListOffsetsRequest(CONSUMER_REPLICA_ID, topics=topics)


def _take_listed(response: messages.ListOffsetsResponse, found: dict[TopicPartition, OffsetAndTimestamp]) -> None:
    """Add the offsets of a response to `found`; raise the first error after that."""
    failure: BrokerError | None = None
    for topic in response.topics:
        for partition in topic.partitions:
            key = TopicPartition(topic.name, partition.partition_index)
            if partition.error_code == tables.ErrorCode.NONE:
                found[key] = OffsetAndTimestamp(partition.offset, partition.timestamp)
            elif failure is None:
                failure = BrokerError(partition.error_code, f"offsets of {key}")
    if failure is not None:
        raise failure


def _commit_request(
    group_id: str, offsets: Mapping[TopicPartition, OffsetAndMetadata], generation: Generation | None
) -> messages.OffsetCommitRequest:
    topics = []
    for topic, numbers in by_topic(offsets).items():
        partitions = []
        for number in numbers:
            position = offsets[TopicPartition(topic, number)]
            partitions.append(
                messages.OffsetCommitRequest.OffsetCommitRequestPartition(
                    number, position.offset, position.leader_epoch, position.metadata
                )
            )
        topics.append(messages.OffsetCommitRequest.OffsetCommitRequestTopic(topic, partitions=partitions))
    generation_id, member_id, group_instance_id = generation or (UNKNOWN_GENERATION_ID, UNKNOWN_MEMBER_ID, None)
    return messages.OffsetCommitRequest(group_id, generation_id, member_id, group_instance_id, topics=topics)
