"""Describe a group for an admin: a KIP-848 consumer group or a classic group.

A coordinator has a separate API for each kind, and does not say which kind a group is. As in Java's admin, the KIP-848
API is called first, then the classic one if there is no such group.
"""

from __future__ import annotations

from kafkawire.sdk.admin.descriptions import GroupDescription, GroupMemberDescription
from kafkawire.sdk.client.operations import Operations
from kafkawire.sdk.errors import BrokerError, DecodeError, UnsupportedVersion
from kafkawire.sdk.groups.requests import group_in
from kafkawire.sdk.protocol import messages
from kafkawire.sdk.protocol.tables import enums
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.protocol.values import Buffer
from kafkawire.sdk.routing.call import Coordinator
from kafkawire.sdk.routing.partitions import TopicPartition
from kafkawire.sdk.routing.requests import carries, check, error_text
from kafkawire.sdk.transport.driver_interface import Versions

__all__ = ["describe_group"]

_CLASSIC, _CONSUMER = "classic", "consumer"

#: Kinds of groups that `describe_group` does not support.
_OTHER_KINDS = ("share", "streams")

#: The protocol types of consumer groups; a group with only committed offsets has none.
_OF_CONSUMERS = (enums.CONSUMER_PROTOCOL_TYPE, "")

#: The state that coordinators before Apache Kafka 4.0 report for a nonexistent classic group; later ones return an
#: error.
_DEAD = "Dead"

#: The error codes returned by a coordinator that has no KIP-848 group with this id, or does not support KIP-848.
_NO_CONSUMER_GROUP = frozenset({ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNSUPPORTED_VERSION})

#: The protocols of members, keyed by their numbers in ConsumerGroupDescribe.
_PROTOCOLS = {0: _CLASSIC, 1: _CONSUMER}


async def describe_group(operations: Operations, group_id: str) -> GroupDescription:
    """Return a group.

    Raises:
        BrokerError: GROUP_ID_NOT_FOUND if no such group exists or the group is of another kind; other codes if the
            coordinator rejected the request.
    """
    coordinator = Coordinator(enums.CoordinatorType.GROUP, group_id)
    deadline_ms = operations.attempts().deadline_ms
    try:
        return await _consumer_group(operations, coordinator, deadline_ms)
    except UnsupportedVersion:
        pass  # the coordinator has only classic groups
    except BrokerError as error:
        if error.code not in _NO_CONSUMER_GROUP:
            raise
    try:
        return await _classic_group(operations, coordinator, deadline_ms)
    except BrokerError as error:
        if error.code != ErrorCode.GROUP_ID_NOT_FOUND:
            raise
    kind = await _other_kind(operations, coordinator, deadline_ms)
    other = f"the group is a {kind} group; only consumer and classic groups can be described" if kind else None
    raise BrokerError(ErrorCode.GROUP_ID_NOT_FOUND, error_text(f"group {group_id}", other))


async def _consumer_group(
    operations: Operations, coordinator: Coordinator, deadline_ms: int | None
) -> GroupDescription:
    def read(response: messages.ConsumerGroupDescribeResponse) -> None:
        group = group_in(response, response.groups, coordinator.key)
        check(group.error_code, error_text(f"group {coordinator.key}", group.error_message))

    request = messages.ConsumerGroupDescribeRequest([coordinator.key])
    kind = messages.ConsumerGroupDescribeResponse
    response = await operations.request(coordinator, request, kind, read, deadline_ms=deadline_ms)
    group = group_in(response, response.groups, coordinator.key)
    members = (
        GroupMemberDescription(
            member.member_id,
            member.instance_id,
            member.client_id,
            member.client_host,
            _partitions(member.assignment),
            target_assignment=_partitions(member.target_assignment),
            member_epoch=member.member_epoch,
            group_protocol=_PROTOCOLS.get(member.member_type, ""),
        )
        for member in group.members
    )
    return GroupDescription(
        group.group_id,
        group.group_state,
        group.assignor_name,
        tuple(members),
        _CONSUMER,
        enums.CONSUMER_PROTOCOL_TYPE,
        group.group_epoch,
        group.assignment_epoch,
    )


async def _classic_group(operations: Operations, coordinator: Coordinator, deadline_ms: int | None) -> GroupDescription:
    def read(response: messages.DescribeGroupsResponse) -> None:
        group = group_in(response, response.groups, coordinator.key)
        is_missing = not group.error_code and group.group_state == _DEAD
        code = ErrorCode.GROUP_ID_NOT_FOUND if is_missing else group.error_code
        check(code, error_text(f"group {coordinator.key}", group.error_message))

    request = messages.DescribeGroupsRequest([coordinator.key])
    kind = messages.DescribeGroupsResponse
    response = await operations.request(coordinator, request, kind, read, deadline_ms=deadline_ms)
    group = group_in(response, response.groups, coordinator.key)
    members = []
    for member in group.members:
        assignment = _assignment(member.member_assignment) if group.protocol_type in _OF_CONSUMERS else None
        members.append(
            GroupMemberDescription(
                member.member_id,
                member.group_instance_id,
                member.client_id,
                member.client_host,
                assignment or (),
                group_protocol=_CLASSIC,
                other_assignment=b"" if assignment is not None else bytes(member.member_assignment),
            )
        )
    return GroupDescription(
        group.group_id, group.group_state, group.protocol_data, tuple(members), _CLASSIC, group.protocol_type
    )


async def _other_kind(operations: Operations, coordinator: Coordinator, deadline_ms: int | None) -> str | None:
    """Return the kind of a group that is neither a KIP-848 nor a classic group; None if there is no such group."""

    def request(versions: Versions) -> tuple[messages.ListGroupsRequest, int]:
        version = versions.version_for(messages.ListGroupsRequest)
        if carries(messages.ListGroupsRequest, "types_filter", version):
            return messages.ListGroupsRequest(types_filter=list(_OTHER_KINDS)), version
        return messages.ListGroupsRequest(), version

    response = await operations.request(
        coordinator,
        request,
        messages.ListGroupsResponse,
        lambda response: check(response.error_code, f"the kind of group {coordinator.key}"),
        deadline_ms=deadline_ms,
    )
    found = (group.group_type for group in response.groups if group.group_id == coordinator.key)
    return next((kind for kind in map(str.lower, found) if kind in _OTHER_KINDS), None)


def _partitions(assignment: messages.ConsumerGroupDescribeResponse.Assignment) -> tuple[TopicPartition, ...]:
    topics = assignment.topic_partitions
    return tuple(TopicPartition(topic.topic_name, number) for topic in topics for number in topic.partitions)


def _assignment(data: Buffer) -> tuple[TopicPartition, ...] | None:
    """Decode a member's assignment, which is empty during a rebalance; None if it is not a consumer assignment."""
    from kafkawire.sdk.groups.consumer_protocol import VERSION_BYTES, decode_assignment

    if len(data) <= VERSION_BYTES:
        return ()
    try:
        return decode_assignment(bytes(data))
    except DecodeError:  # a group must not become invisible because its leader wrote other data
        return None
