"""Requests and responses for committed offsets; topics are given by id if both sides support that, otherwise by name.

Source: Kafka protocol guide, "OffsetCommit", "OffsetFetch"; KIP-709 (several groups), KIP-848 (topic ids).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from kafkawire.sdk.groups.protocol import GroupMetadata
from kafkawire.sdk.groups.requests import group_in
from kafkawire.sdk.protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from kafkawire.sdk.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from kafkawire.sdk.protocol.schema import Message
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.protocol.uuids import ZERO_UUID
from kafkawire.sdk.routing.metadata import Metadata
from kafkawire.sdk.routing.partitions import OffsetAndMetadata, TopicPartition
from kafkawire.sdk.routing.requests import by_topic, carries
from kafkawire.sdk.transport.driver_interface import Versions

__all__ = ["commit_request", "commit_results", "fetch_request", "fetch_results"]

#: The offset of a partition for which a group has committed nothing.
_NOTHING_COMMITTED = -1

#: The names of the topics in a request, keyed by id; needed to read the response.
TopicNames = Mapping[bytes, str]


def commit_request(
    offsets: Mapping[TopicPartition, OffsetAndMetadata],
    signature: GroupMetadata,
    ids: Mapping[str, bytes],
    versions: Versions,
) -> tuple[OffsetCommitRequest, int, TopicNames]:
    """Return the request that commits offsets, its version, and the topics that it identifies by id.

    Args:
        offsets: the offsets, keyed by partition.
        signature: the member's identity.
        ids: the topic ids, keyed by name; zeros for an unknown id.
        versions: the versions that the coordinator supports.
    """
    named = by_topic(offsets)
    ids = _all_or_none(ids)
    version = _version(OffsetCommitRequest, OffsetCommitRequest.OffsetCommitRequestTopic, bool(ids), versions)
    by_id = carries(OffsetCommitRequest.OffsetCommitRequestTopic, "topic_id", version)
    topics = []
    for topic, numbers in named.items():
        partitions = []
        for number in numbers:
            offset = offsets[TopicPartition(topic, number)]
            partitions.append(
                OffsetCommitRequest.OffsetCommitRequestPartition(
                    number, offset.offset, offset.leader_epoch, offset.metadata
                )
            )
        topic_id = ids[topic] if by_id else ZERO_UUID
        topics.append(OffsetCommitRequest.OffsetCommitRequestTopic("" if by_id else topic, topic_id, partitions))
    group_id, generation_id, member_id, instance_id = signature
    request = OffsetCommitRequest(group_id, generation_id, member_id, instance_id, topics=topics)
    return request, version, {topic_id: topic for topic, topic_id in ids.items()}


def commit_results(response: OffsetCommitResponse, names: TopicNames) -> Iterator[tuple[TopicPartition, int]]:
    """Yield each partition of a response with its error code."""
    for topic in response.topics:
        name = topic.name or names.get(topic.topic_id, "")
        for partition in topic.partitions:
            yield TopicPartition(name, partition.partition_index), partition.error_code


def fetch_request(
    group_id: str,
    partitions: Collection[TopicPartition] | None,
    metadata: Metadata,
    versions: Versions,
    *,
    stable: bool = True,
) -> tuple[OffsetFetchRequest, int, TopicNames]:
    """Return the request for committed offsets, its version, and the topics that it identifies by id.

    Args:
        group_id: the group.
        partitions: the partitions; None for all partitions that the group has committed.
        metadata: the metadata, which contains topic ids.
        versions: the versions that the coordinator supports.
        stable: whether offsets that an open transaction may change fail with UNSTABLE_OFFSET_COMMIT.
    """
    named = None if partitions is None else by_topic(partitions)
    ids = {} if named is None else _all_or_none({topic: metadata.topic_id(topic) for topic in named})
    version = _version(OffsetFetchRequest, OffsetFetchRequest.OffsetFetchRequestTopics, bool(ids), versions)
    stable = stable and carries(OffsetFetchRequest, "require_stable", version)
    if not carries(OffsetFetchRequest, "groups", version):
        kind = OffsetFetchRequest.OffsetFetchRequestTopic
        asked = None if named is None else [kind(topic, numbers) for topic, numbers in named.items()]
        return OffsetFetchRequest(group_id, topics=asked, require_stable=stable), version, {}
    by_id = carries(OffsetFetchRequest.OffsetFetchRequestTopics, "topic_id", version)
    topics = None
    if named is not None:
        topics = [
            OffsetFetchRequest.OffsetFetchRequestTopics(
                "" if by_id else topic, ids[topic] if by_id else ZERO_UUID, partition_indexes=numbers
            )
            for topic, numbers in named.items()
        ]
    groups = [OffsetFetchRequest.OffsetFetchRequestGroup(group_id, topics=topics)]
    request = OffsetFetchRequest(groups=groups, require_stable=stable)
    return request, version, {topic_id: topic for topic, topic_id in ids.items()}


def fetch_results(
    response: OffsetFetchResponse, request: OffsetFetchRequest, names: TopicNames
) -> tuple[int, Iterator[tuple[TopicPartition, int, OffsetAndMetadata | None]]]:
    """Return the group's error code, and each partition with its error code and its offset or None.

    Args:
        response: the response.
        request: the request for the offsets of one group.
        names: the topics that the request identifies by id.

    Raises:
        RemoteProtocolError: the response does not contain the group.
    """
    group: OffsetFetchResponse | OffsetFetchResponse.OffsetFetchResponseGroup = response
    for asked in request.groups:
        group = group_in(response, response.groups, asked.group_id)

    def results() -> Iterator[tuple[TopicPartition, int, OffsetAndMetadata | None]]:
        for topic in group.topics:
            name = topic.name or names.get(getattr(topic, "topic_id", ZERO_UUID), "")
            for each in topic.partitions:
                offset = None
                if each.error_code == ErrorCode.NONE and each.committed_offset != _NOTHING_COMMITTED:
                    offset = OffsetAndMetadata(each.committed_offset, each.metadata or "", each.committed_leader_epoch)
                yield TopicPartition(name, each.partition_index), each.error_code, offset

    return group.error_code, results()


def _all_or_none(ids: Mapping[str, bytes]) -> Mapping[str, bytes]:
    """Return the topic ids; empty unless all of them are known."""
    return {} if ZERO_UUID in ids.values() else ids


def _version(request: type[Message], topic: type[Message], by_id: bool, versions: Versions) -> int:
    return versions.version_for(request) if by_id else versions.version_for(request, (topic, "name"))
