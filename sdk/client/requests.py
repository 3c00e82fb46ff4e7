"""Requests and responses whose shape changed between versions.

Callers build all other requests themselves: the codec drops fields that a version does not carry. The requests here
hold one item in older versions and a list in newer ones, so the version must be known first. Which version carries what
is in the field tables of the messages.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from kafkawire.sdk.client.partitions import OffsetAndMetadata, TopicPartition
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol import messages, tables
from kafkawire.sdk.protocol.tables import enums

if TYPE_CHECKING:
    from kafkawire.sdk.protocol.schema import Message

__all__ = [
    "by_topic",
    "carries",
    "check",
    "committed_offsets",
    "coordinator",
    "find_coordinator",
    "leave_group",
    "offset_fetch",
]

#: The offset of a partition for which a group has committed nothing.
_NOTHING_COMMITTED = -1


def carries(structure: type[Message], field_name: str, version: int) -> bool:
    """Return whether a structure has a field in a version."""
    return version in next(field.versions for field in structure.FIELDS if field.name == field_name)


def check(error_code: int, detail: str) -> None:
    """Raise `BrokerError` unless the code is NONE.

    Args:
        error_code: from a response.
        detail: what was asked, for the text of the error.
    """
    if error_code != tables.ErrorCode.NONE:
        raise BrokerError(error_code, detail)


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """Return the partition numbers of each topic, in the order given."""
    topics: dict[str, list[int]] = {}
    for topic, partition in partitions:
        topics.setdefault(topic, []).append(partition)
    return topics


def find_coordinator(
    key: str, version: int, kind: enums.CoordinatorType = enums.CoordinatorType.GROUP
) -> messages.FindCoordinatorRequest:
    """Return the request that looks up the coordinator of a group or a transactional id."""
    if carries(messages.FindCoordinatorRequest, "coordinator_keys", version):
        return messages.FindCoordinatorRequest(key_type=kind, coordinator_keys=[key])
    return messages.FindCoordinatorRequest(key=key, key_type=kind)


def coordinator(response: messages.FindCoordinatorResponse, detail: str) -> tuple[int, str, int]:
    """Return node id, host and port of the coordinator.

    Args:
        response: to the look-up of one key.
        detail: what was looked up, for the text of the error.

    Raises:
        BrokerError: there is none.
    """
    found = response.coordinators[0] if response.coordinators else response
    check(found.error_code, f"{detail}: {found.error_message}" if found.error_message else detail)
    return found.node_id, found.host, found.port


def leave_group(
    group_id: str, member_id: str, group_instance_id: str | None, reason: str, version: int
) -> messages.LeaveGroupRequest:
    """Return the request that removes a member from its group."""
    if carries(messages.LeaveGroupRequest, "members", version):
        identity = messages.LeaveGroupRequest.MemberIdentity(member_id, group_instance_id, reason)
        return messages.LeaveGroupRequest(group_id, members=[identity])
    return messages.LeaveGroupRequest(group_id, member_id)


def offset_fetch(
    group_id: str, partitions: Iterable[TopicPartition] | None, version: int
) -> messages.OffsetFetchRequest:
    """Return the request for the offsets that a group has committed.

    Args:
        group_id: the group.
        partitions: None for all that the group has committed.
        version: one that has topic names, not ids.
    """
    topics = None if partitions is None else by_topic(partitions).items()
    if carries(messages.OffsetFetchRequest, "groups", version):
        named = (
            None
            if topics is None
            else [
                messages.OffsetFetchRequest.OffsetFetchRequestTopics(topic, partition_indexes=numbers)
                for topic, numbers in topics
            ]
        )
        return messages.OffsetFetchRequest(
            groups=[messages.OffsetFetchRequest.OffsetFetchRequestGroup(group_id, topics=named)]
        )
    asked = (
        None
        if topics is None
        else [
            messages.OffsetFetchRequest.OffsetFetchRequestTopic(topic, partition_indexes=numbers)
            for topic, numbers in topics
        ]
    )
    return messages.OffsetFetchRequest(group_id, topics=asked)


def committed_offsets(
    response: messages.OffsetFetchResponse, group_id: str
) -> Mapping[TopicPartition, OffsetAndMetadata]:
    """Return the committed offsets in a response; partitions without one are left out.

    Raises:
        BrokerError: the error of the group, or of the first partition that has one.
    """
    group = response.groups[0] if response.groups else response
    check(group.error_code, f"committed offsets of group {group_id}")
    found: dict[TopicPartition, OffsetAndMetadata] = {}
    for topic in group.topics:
        for partition in topic.partitions:
            key = TopicPartition(topic.name, partition.partition_index)
            check(partition.error_code, f"committed offset of group {group_id} in {key}")
            if partition.committed_offset != _NOTHING_COMMITTED:
                found[key] = OffsetAndMetadata(
                    partition.committed_offset, partition.metadata or "", partition.committed_leader_epoch
                )
    return found
