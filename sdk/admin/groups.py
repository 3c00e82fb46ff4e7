"""Groups: list them, describe consumer groups, delete groups, and remove members.

A coordinator has a separate API for KIP-848 groups and classic groups, and does not say which kind a group is. As in
Java's admin, the KIP-848 API is called first, then the classic one for the groups that it does not know.

Source: Apache Kafka, `KafkaAdminClient.listGroups`, `DescribeConsumerGroupsHandler`, `DeleteGroupsHandler`,
`RemoveMembersFromConsumerGroupHandler`; KIP-518 and KIP-848 (filters), KIP-430 (authorized operations), KIP-345 and
KIP-571 (removal of members).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, Final, TypeVar

from kafkawire.sdk.admin.authorized_operations import authorized_operations
from kafkawire.sdk.admin.descriptions import GroupDescription, GroupListing, GroupMemberDescription, ItemResults
from kafkawire.sdk.admin.item_batches import answered, in_batches, one_by_one
from kafkawire.sdk.admin.places import Coordinators, Nodes
from kafkawire.sdk.admin.releases import versioned
from kafkawire.sdk.client.operations import Operations
from kafkawire.sdk.errors import BrokerError, DecodeError, KafkaWireError, UnsupportedVersion
from kafkawire.sdk.groups.requests import leave_group
from kafkawire.sdk.protocol import messages
from kafkawire.sdk.protocol.tables import enums
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.protocol.values import Buffer
from kafkawire.sdk.routing.call import Node
from kafkawire.sdk.routing.partitions import TopicPartition
from kafkawire.sdk.routing.requests import carries, check, error_text, lacking
from kafkawire.sdk.transport.driver_interface import Versions

__all__ = [
    "STATES",
    "TYPES",
    "Outcomes",
    "delete_groups",
    "describe_groups",
    "described",
    "list_groups",
    "remove_group_members",
]

_CLASSIC, _CONSUMER = "classic", "consumer"

#: Kinds of groups that `describe_groups` does not support.
_OTHER_KINDS = ("share", "streams")

#: All types of groups, in the words of the brokers.
TYPES: Final = (_CLASSIC, _CONSUMER, *_OTHER_KINDS)

#: All states of groups of any type.
STATES: Final = (
    "PreparingRebalance",
    "CompletingRebalance",
    "Stable",
    "Dead",
    "Empty",
    "Assigning",
    "Reconciling",
    "NotReady",
    "Unknown",
)

#: The protocol types of consumer groups; a group with only committed offsets has none.
_OF_CONSUMERS = (enums.CONSUMER_PROTOCOL_TYPE, "")

#: The state that coordinators before Apache Kafka 4.0 report for a nonexistent classic group; later ones return an
#: error.
_DEAD = "Dead"

#: The error codes returned by a coordinator that has no KIP-848 group with this id, or does not support KIP-848.
_NO_CONSUMER_GROUP = frozenset({ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNSUPPORTED_VERSION})

#: The maximum length of a reason for removing a member; as in Java, the rest is cut off, to keep brokers' logs short.
_REASON_CHARACTERS_MAX = 255

#: The protocols of members, keyed by their numbers in ConsumerGroupDescribe.
_PROTOCOLS = {0: _CLASSIC, 1: _CONSUMER}

Value = TypeVar("Value")

#: The description or the error of each group, keyed by group id.
Outcomes = dict[str, Value | KafkaWireError]
Found = Outcomes[GroupDescription]


async def list_groups(
    operations: Operations, *, states: Sequence[str], types: Sequence[str], protocol_types: Collection[str]
) -> list[GroupListing]:
    """Return the groups of all brokers, sorted by group id; see `Admin.list_groups`."""
    kind = messages.ListGroupsRequest

    def request(versions: Versions) -> tuple[messages.ListGroupsRequest, int]:
        version = versions.version_for(kind)
        # A broker that does not know types of groups has only classic ones, so this filter would not change anything.
        is_plain = (
            _CLASSIC in types and {*types} <= {_CLASSIC, _CONSUMER} and not carries(kind, "types_filter", version)
        )
        if types and not is_plain:
            return versioned(kind(states, types), "types_filter")(versions)
        return versioned(kind(states), "states_filter" if states else None)(versions)

    async def of_node(node_id: int, _: int, deadline_ms: int) -> list[GroupListing]:
        response = await operations.request(
            Node(node_id), request, messages.ListGroupsResponse, deadline_ms=deadline_ms, retries=False
        )
        check(response.error_code, f"groups of node {node_id}")
        return [
            GroupListing(group.group_id, group.protocol_type, group.group_state, group.group_type)
            for group in response.groups
            if not protocol_types or group.protocol_type in protocol_types
        ]

    await operations.describe(())
    brokers = list(operations.router.metadata.brokers)
    results = await in_batches(operations, brokers, Nodes(lambda node_id: node_id), one_by_one(of_node))
    # A group may be listed twice if its coordinator moves.
    found = {group.group_id: group for listed in results.all().values() for group in listed}
    return [found[group_id] for group_id in sorted(found)]


async def describe_groups(
    operations: Operations, group_ids: Iterable[str], *, include_authorized_operations: bool
) -> ItemResults[str, GroupDescription]:
    """Return groups by group id; see `Admin.describe_groups`."""

    async def describe(node_id: int, batch: list[str], deadline_ms: int) -> Found:
        asked = _Coordinator(operations, node_id, deadline_ms, include_authorized_operations)
        found = await asked.consumer_groups(batch)
        if rest := [group_id for group_id in batch if _has_code(found.get(group_id), _NO_CONSUMER_GROUP)]:
            found |= await asked.classic_groups(rest)
        if rest := [each for each in batch if _has_code(found.get(each), {ErrorCode.GROUP_ID_NOT_FOUND})]:
            found |= await asked.other_kinds(rest)
        return found

    return await in_batches(operations, group_ids, Coordinators(operations, enums.CoordinatorType.GROUP), describe)


def described(response: Any, batch: list[str], noun: str, describe: Callable[[Any], Value]) -> Outcomes[Value]:
    """Return the description or the error of each group of a batch.

    Args:
        response: the response, whose `groups` may be of any type but the classic one.
        batch: the groups that were asked about.
        noun: what they are, for errors.
        describe: returns the description of a group that the response describes.
    """
    found: Outcomes[Value] = {}
    for group in response.groups:
        text = error_text(f"{noun} {group.group_id}", group.error_message)
        is_found = group.error_code == ErrorCode.NONE
        found[group.group_id] = describe(group) if is_found else BrokerError(group.error_code, text)
    return answered(response, found, batch, noun)


async def delete_groups(
    operations: Operations, group_ids: Iterable[str], *, noun: str = "group"
) -> ItemResults[str, None]:
    """Delete groups without members; see `Admin.delete_groups`.

    Args:
        operations: sends the requests.
        group_ids: the groups.
        noun: what they are, for errors.
    """

    async def delete(node_id: int, batch: list[str], deadline_ms: int) -> dict[str, KafkaWireError | None]:
        response = await operations.request(
            Node(node_id),
            versioned(messages.DeleteGroupsRequest(batch)),
            messages.DeleteGroupsResponse,
            deadline_ms=deadline_ms,
            retries=False,
        )
        found: dict[str, KafkaWireError | None] = {}
        for each in response.results:
            is_done = each.error_code == ErrorCode.NONE
            found[each.group_id] = None if is_done else BrokerError(each.error_code, f"{noun} {each.group_id}")
        return answered(response, found, batch, noun)

    return await in_batches(operations, group_ids, Coordinators(operations, enums.CoordinatorType.GROUP), delete)


async def remove_group_members(
    operations: Operations,
    group_id: str,
    instance_ids: Collection[str] | None,
    member_ids: Collection[str],
    *,
    reason: str,
) -> ItemResults[str, None]:
    """Remove members from a group; see `Admin.remove_group_members`.

    Args:
        operations: sends the requests.
        group_id: the group.
        instance_ids: the static members; None for all members, static or not.
        member_ids: the dynamic members.
        reason: the reason for the brokers' logs.
    """
    static, dynamic = dict.fromkeys(instance_ids or ()), dict.fromkeys(member_ids)
    if instance_ids is None:
        described = await describe_groups(operations, [group_id], include_authorized_operations=False)
        for member in described.all()[group_id].members:
            if member.group_instance_id is None:
                dynamic[member.member_id] = None
            else:
                static[member.group_instance_id] = None
    if not static and not dynamic:
        return ItemResults({}, {})
    text = reason[:_REASON_CHARACTERS_MAX]
    identity = messages.LeaveGroupRequest.MemberIdentity
    identities = [
        *(identity(enums.UNKNOWN_MEMBER_ID, each, text) for each in static),
        *(identity(each, None, text) for each in dynamic),
    ]

    async def remove(node_id: int, item: str, deadline_ms: int) -> ItemResults[str, None]:
        def request(versions: Versions) -> tuple[messages.LeaveGroupRequest, int]:
            version = versions.version_for(messages.LeaveGroupRequest)
            if not static and len(dynamic) == 1:  # the only form that brokers before Apache Kafka 2.4 take
                return leave_group(group_id, next(iter(dynamic)), None, text, version), version
            return versioned(messages.LeaveGroupRequest(group_id, members=identities), "members")(versions)

        response = await operations.request(
            Node(node_id), request, messages.LeaveGroupResponse, deadline_ms=deadline_ms, retries=False
        )
        check(response.error_code, f"removal of members of group {group_id}")
        # Brokers before Apache Kafka 2.4 do not name the member.
        codes = {each.group_instance_id or each.member_id: each.error_code for each in response.members}
        values: dict[str, None] = {}
        errors: dict[str, KafkaWireError] = {}
        for member in [*static, *dynamic]:
            if response.members and member not in codes:
                errors[member] = lacking(response, f"member {member}")
            elif code := codes.get(member, ErrorCode.NONE):
                errors[member] = BrokerError(code, f"member {member} of group {group_id}")
            else:
                values[member] = None
        return ItemResults(values, errors)

    places = Coordinators(operations, enums.CoordinatorType.GROUP)
    results = await in_batches(operations, [group_id], places, one_by_one(remove))
    if group_id in results.errors:
        return ItemResults({}, dict.fromkeys([*static, *dynamic], results.errors[group_id]))
    return results.values[group_id]


class _Coordinator:
    """Describes groups of one coordinator, a batch at a time.

    Args:
        operations: sends the requests.
        node_id: the coordinator.
        deadline_ms: when to give up.
        include_authorized_operations: whether to ask what this user may do with each group.
    """

    def __init__(
        self, operations: Operations, node_id: int, deadline_ms: int, include_authorized_operations: bool
    ) -> None:
        self._operations = operations
        self._node_id = node_id
        self._deadline_ms = deadline_ms
        self._includes_operations = include_authorized_operations

    async def consumer_groups(self, batch: list[str]) -> Found:
        """Return KIP-848 groups; the other groups get GROUP_ID_NOT_FOUND."""
        try:
            response = await self._operations.request(
                Node(self._node_id),
                messages.ConsumerGroupDescribeRequest(batch, self._includes_operations),
                messages.ConsumerGroupDescribeResponse,
                deadline_ms=self._deadline_ms,
                retries=False,
            )
        except UnsupportedVersion:  # the coordinator has only classic groups
            return {each: BrokerError(ErrorCode.GROUP_ID_NOT_FOUND) for each in batch}
        return described(response, batch, "group", self._consumer_group)

    async def classic_groups(self, batch: list[str]) -> Found:
        """Return classic groups; the other groups get GROUP_ID_NOT_FOUND."""

        def request(versions: Versions) -> tuple[messages.DescribeGroupsRequest, int]:
            kind = messages.DescribeGroupsRequest
            version = versions.version_for(kind)
            includes = self._includes_operations and carries(kind, "include_authorized_operations", version)
            return kind(batch, includes), version

        response = await self._operations.request(
            Node(self._node_id),
            request,
            messages.DescribeGroupsResponse,
            deadline_ms=self._deadline_ms,
            retries=False,
        )
        found: Found = {}
        for group in response.groups:
            is_missing = not group.error_code and group.group_state == _DEAD
            code = ErrorCode.GROUP_ID_NOT_FOUND if is_missing else group.error_code
            text = error_text(f"group {group.group_id}", group.error_message)
            found[group.group_id] = BrokerError(code, text) if code else self._classic_group(group)
        return answered(response, found, batch, "group")

    async def other_kinds(self, batch: list[str]) -> Found:
        """Return the errors of groups that are neither KIP-848 nor classic groups, which name their kind."""

        def request(versions: Versions) -> tuple[messages.ListGroupsRequest, int]:
            version = versions.version_for(messages.ListGroupsRequest)
            if carries(messages.ListGroupsRequest, "types_filter", version):
                return messages.ListGroupsRequest(types_filter=list(_OTHER_KINDS)), version
            return messages.ListGroupsRequest(), version

        response = await self._operations.request(
            Node(self._node_id), request, messages.ListGroupsResponse, deadline_ms=self._deadline_ms, retries=False
        )
        check(response.error_code, f"the kind of group {batch[0]}")
        kinds = {group.group_id: group.group_type.lower() for group in response.groups}
        found: Found = {}
        for group_id in batch:
            kind = kinds.get(group_id)
            known = f"the group is a {kind} group: use describe_{kind}_groups"
            text = error_text(f"group {group_id}", known if kind in _OTHER_KINDS else None)
            found[group_id] = BrokerError(ErrorCode.GROUP_ID_NOT_FOUND, text)
        return found

    def _consumer_group(self, group: messages.ConsumerGroupDescribeResponse.DescribedGroup) -> GroupDescription:
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
                rack=member.rack_id,
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
            self._node_id,
            authorized_operations(group.authorized_operations),
        )

    def _classic_group(self, group: messages.DescribeGroupsResponse.DescribedGroup) -> GroupDescription:
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
            group.group_id,
            group.group_state,
            group.protocol_data,
            tuple(members),
            _CLASSIC,
            group.protocol_type,
            coordinator_id=self._node_id,
            authorized_operations=authorized_operations(group.authorized_operations),
        )


def _has_code(outcome: object, codes: Collection[ErrorCode]) -> bool:
    return isinstance(outcome, BrokerError) and outcome.code in codes


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
