"""How far a group is behind: its committed offsets, compared with the ends of the partitions.

The partitions are those that the group has committed and those that are assigned to its members, as for
kafka-consumer-groups.sh.

Source: Apache Kafka, `ConsumerGroupCommand`.
"""

from __future__ import annotations

from kafkawire.sdk.admin.descriptions import GroupLag, GroupMemberDescription, PartitionLag
from kafkawire.sdk.admin.group_offsets import list_group_offsets
from kafkawire.sdk.admin.groups import describe_groups
from kafkawire.sdk.admin.records import list_offsets
from kafkawire.sdk.client.operations import Operations
from kafkawire.sdk.protocol.tables.enums import IsolationLevel, OffsetTimestamp
from kafkawire.sdk.routing.partitions import TopicPartition

__all__ = ["group_lag"]


async def group_lag(
    operations: Operations, group_id: str, *, isolation_level: IsolationLevel, timeout_ms: int
) -> GroupLag:
    """Return how far a group is behind; see `Admin.lag`."""

    described = (await describe_groups(operations, [group_id], include_authorized_operations=False)).all()[group_id]
    offsets = (await list_group_offsets(operations, {group_id: None}, require_stable=False)).all()[group_id]
    members: dict[TopicPartition, GroupMemberDescription] = {}
    for member in described.members:
        members |= dict.fromkeys(member.assignment, member)
    partitions = sorted({*offsets, *members})
    ends = await list_offsets(
        operations,
        dict.fromkeys(partitions, int(OffsetTimestamp.LATEST)),
        isolation_level=isolation_level,
        timeout_ms=timeout_ms,
    )
    found: dict[TopicPartition, PartitionLag] = {}
    for partition in partitions:
        offset, end = offsets.get(partition), ends.values.get(partition)
        lag = None if offset is None or end is None else end.offset - offset.offset
        end_offset = None if end is None else end.offset
        found[partition] = PartitionLag(offset, end_offset, lag, members.get(partition), ends.errors.get(partition))
    return GroupLag(described, found)
