"""Share groups: describe and delete them, and list, change and delete their start offsets.

The requests go to the coordinators of the groups. Groups, partitions and topics fail independently of each other.

Source: KIP-932; Apache Kafka, `DescribeShareGroupsHandler`, `ListShareGroupOffsetsHandler`,
`AlterShareGroupOffsetsHandler`, `DeleteShareGroupOffsetsHandler`, `DeleteShareGroupsHandler`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

from kafkawire.sdk.admin.authorized_operations import authorized_operations
from kafkawire.sdk.admin.descriptions import Item, ItemResults
from kafkawire.sdk.admin.groups import Outcomes, delete_groups, described
from kafkawire.sdk.admin.item_batches import in_batches
from kafkawire.sdk.admin.places import Coordinators
from kafkawire.sdk.admin.releases import versioned
from kafkawire.sdk.admin.share_group_descriptions import (
    ShareGroupDescription,
    ShareMemberDescription,
    SharePartitionOffset,
)
from kafkawire.sdk.client.operations import Operations
from kafkawire.sdk.errors import BrokerError, KafkaWireError
from kafkawire.sdk.groups.requests import group_in
from kafkawire.sdk.protocol import messages
from kafkawire.sdk.protocol.schema import Message
from kafkawire.sdk.protocol.tables import enums
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.routing.call import Coordinator, Node
from kafkawire.sdk.routing.partitions import TopicPartition
from kafkawire.sdk.routing.requests import by_topic, check, error_text, lacking

__all__ = [
    "alter_share_group_offsets",
    "delete_share_group_offsets",
    "delete_share_groups",
    "describe_share_groups",
    "list_share_group_offsets",
]

#: An item, its error code and the broker's message about the error.
_Result = tuple[Item, int, str | None]

#: Codes of whole requests that pass, in addition to those that do for every request, as in Java's admin.
_PASSING: Final = frozenset({ErrorCode.REBALANCE_IN_PROGRESS})


async def describe_share_groups(
    operations: Operations, group_ids: Collection[str], *, include_authorized_operations: bool
) -> ItemResults[str, ShareGroupDescription]:
    """Return share groups; see `Admin.describe_share_groups`."""

    async def describe(node_id: int, batch: list[str], deadline_ms: int) -> Outcomes[ShareGroupDescription]:
        response = await operations.request(
            Node(node_id),
            versioned(messages.ShareGroupDescribeRequest(batch, include_authorized_operations)),
            messages.ShareGroupDescribeResponse,
            deadline_ms=deadline_ms,
            retries=False,
        )
        return described(response, batch, "share group", _description)

    return await in_batches(operations, group_ids, Coordinators(operations, enums.CoordinatorType.GROUP), describe)


async def list_share_group_offsets(
    operations: Operations, group_id: str, partitions: Collection[TopicPartition] | None
) -> ItemResults[TopicPartition, SharePartitionOffset | None]:
    """Return the start offsets of a share group; see `Admin.list_share_group_offsets`."""
    kind = messages.DescribeShareGroupOffsetsRequest
    topics = None
    if partitions is not None:
        asked = by_topic(dict.fromkeys(partitions))
        topics = [kind.DescribeShareGroupOffsetsRequestTopic(topic, numbers) for topic, numbers in asked.items()]

    def read(response: messages.DescribeShareGroupOffsetsResponse) -> None:
        group = group_in(response, response.groups, group_id)
        check(group.error_code, error_text(f"start offsets of share group {group_id}", group.error_message))

    response = await operations.request(
        _coordinator(group_id),
        versioned(kind([kind.DescribeShareGroupOffsetsRequestGroup(group_id, topics)])),
        messages.DescribeShareGroupOffsetsResponse,
        read,
    )
    values: dict[TopicPartition, SharePartitionOffset | None] = {}
    errors: dict[TopicPartition, KafkaWireError] = {}
    for topic in group_in(response, response.groups, group_id).topics:
        for data in topic.partitions:
            partition = TopicPartition(topic.topic_name, data.partition_index)
            if data.error_code == ErrorCode.NONE:
                values[partition] = _offset(data)
            else:
                what = error_text(f"start offset of share group {group_id} in {partition}", data.error_message)
                errors[partition] = BrokerError(data.error_code, what)
    for partition in partitions or ():
        if partition not in values and partition not in errors:
            errors[partition] = lacking(response, f"partition {partition}")
    return ItemResults(values, errors)


async def alter_share_group_offsets(
    operations: Operations, group_id: str, offsets: Mapping[TopicPartition, int]
) -> ItemResults[TopicPartition, None]:
    """Change the start offsets of a share group; see `Admin.alter_share_group_offsets`."""
    kind = messages.AlterShareGroupOffsetsRequest
    topics = [
        kind.AlterShareGroupOffsetsRequestTopic(
            topic,
            [
                kind.AlterShareGroupOffsetsRequestPartition(number, offsets[TopicPartition(topic, number)])
                for number in numbers
            ],
        )
        for topic, numbers in by_topic(offsets).items()
    ]
    what = f"start offsets of share group {group_id}"
    response = await operations.request(
        _coordinator(group_id),
        versioned(kind(group_id, topics)),
        messages.AlterShareGroupOffsetsResponse,
        lambda response: _check(response.error_code, error_text(what, response.error_message)),
    )
    results = (
        (TopicPartition(topic.topic_name, each.partition_index), each.error_code, each.error_message)
        for topic in response.responses
        for each in topic.partitions
    )
    return _item_results(response, offsets, results, f"start offset of share group {group_id} in")


async def delete_share_group_offsets(
    operations: Operations, group_id: str, topics: Sequence[str]
) -> ItemResults[str, None]:
    """Delete the start offsets of a share group; see `Admin.delete_share_group_offsets`."""
    kind = messages.DeleteShareGroupOffsetsRequest
    what = f"start offsets of share group {group_id}"
    response = await operations.request(
        _coordinator(group_id),
        versioned(kind(group_id, [kind.DeleteShareGroupOffsetsRequestTopic(topic) for topic in topics])),
        messages.DeleteShareGroupOffsetsResponse,
        lambda response: _check(response.error_code, error_text(what, response.error_message)),
    )
    results = ((each.topic_name, each.error_code, each.error_message) for each in response.responses)
    return _item_results(response, topics, results, f"start offsets of share group {group_id} in topic")


async def delete_share_groups(operations: Operations, group_ids: Collection[str]) -> ItemResults[str, None]:
    """Delete share groups; see `Admin.delete_share_groups`."""
    return await delete_groups(operations, group_ids, noun="share group")


def _coordinator(group_id: str) -> Coordinator:
    return Coordinator(enums.CoordinatorType.GROUP, group_id)


def _check(code: int, detail: str) -> None:
    """Raise the error of a whole request, which is repeated if the error passes."""
    if code != ErrorCode.NONE:
        error = BrokerError(code, detail)
        error.retriable = error.retriable or error.code in _PASSING
        raise error


def _item_results(
    response: Message, items: Iterable[Item], results: Iterable[_Result[Item]], what: str
) -> ItemResults[Item, None]:
    """Return the results of a change, item by item; an item that the response leaves out has failed."""
    found = {item: (code, message) for item, code, message in results}
    values: dict[Item, None] = {}
    errors: dict[Item, KafkaWireError] = {}
    for item in items:
        code, message = found.get(item, (None, None))
        if code is None:
            errors[item] = lacking(response, f"{item}")
        elif code == ErrorCode.NONE:
            values[item] = None
        else:
            errors[item] = BrokerError(code, error_text(f"{what} {item}", message))
    return ItemResults(values, errors)


def _description(group: messages.ShareGroupDescribeResponse.DescribedGroup) -> ShareGroupDescription:
    members = (
        ShareMemberDescription(
            member.member_id,
            member.rack_id,
            member.client_id,
            member.client_host,
            tuple(member.subscribed_topic_names),
            tuple(
                TopicPartition(topic.topic_name, number)
                for topic in member.assignment.topic_partitions
                for number in topic.partitions
            ),
            member.member_epoch,
        )
        for member in group.members
    )
    return ShareGroupDescription(
        group.group_id,
        group.group_state,
        group.assignor_name,
        tuple(members),
        group.group_epoch,
        group.assignment_epoch,
        authorized_operations(group.authorized_operations),
    )


def _offset(
    data: messages.DescribeShareGroupOffsetsResponse.DescribeShareGroupOffsetsResponsePartition,
) -> SharePartitionOffset | None:
    if data.start_offset < 0:
        return None
    leader_epoch = None if data.leader_epoch < 0 else data.leader_epoch
    return SharePartitionOffset(data.start_offset, leader_epoch, None if data.lag < 0 else data.lag)
