"""Records of streams groups in `__consumer_offsets`: encoding and replay.

Source: `StreamsCoordinatorRecordHelpers`, `GroupMetadataManager.replay` in Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from kafkawire.reference_broker.coordinators.records import types_by_key
from kafkawire.reference_broker.coordinators.shard import CoordinatorRecord
from kafkawire.reference_broker.groups.streams.group import (
    NO_TASKS,
    StreamsGroup,
    StreamsMember,
    StreamsMemberState,
    Task,
    TaskNumbers,
    Tasks,
)
from kafkawire.reference_broker.groups.streams.topology import Topology, topology_of, topology_value
from kafkawire.sdk.protocol.messages.coordinator.consumer_offsets.streams_group_current_member_assignment import (
    StreamsGroupCurrentMemberAssignmentKey as CurrentKey,
)
from kafkawire.sdk.protocol.messages.coordinator.consumer_offsets.streams_group_current_member_assignment import (
    StreamsGroupCurrentMemberAssignmentValue as CurrentValue,
)
from kafkawire.sdk.protocol.messages.coordinator.consumer_offsets.streams_group_member_metadata import (
    StreamsGroupMemberMetadataKey as MemberKey,
)
from kafkawire.sdk.protocol.messages.coordinator.consumer_offsets.streams_group_member_metadata import (
    StreamsGroupMemberMetadataValue as MemberValue,
)
from kafkawire.sdk.protocol.messages.coordinator.consumer_offsets.streams_group_metadata import (
    StreamsGroupMetadataKey as GroupKey,
)
from kafkawire.sdk.protocol.messages.coordinator.consumer_offsets.streams_group_metadata import (
    StreamsGroupMetadataValue as GroupValue,
)
from kafkawire.sdk.protocol.messages.coordinator.consumer_offsets.streams_group_target_assignment_member import (
    StreamsGroupTargetAssignmentMemberKey as TargetKey,
)
from kafkawire.sdk.protocol.messages.coordinator.consumer_offsets.streams_group_target_assignment_member import (
    StreamsGroupTargetAssignmentMemberValue as TargetValue,
)
from kafkawire.sdk.protocol.messages.coordinator.consumer_offsets.streams_group_target_assignment_metadata import (
    StreamsGroupTargetAssignmentMetadataKey as EpochKey,
)
from kafkawire.sdk.protocol.messages.coordinator.consumer_offsets.streams_group_target_assignment_metadata import (
    StreamsGroupTargetAssignmentMetadataValue as EpochValue,
)
from kafkawire.sdk.protocol.messages.coordinator.consumer_offsets.streams_group_topology import (
    StreamsGroupTopologyKey as TopologyKey,
)
from kafkawire.sdk.protocol.messages.coordinator.consumer_offsets.streams_group_topology import (
    StreamsGroupTopologyValue as TopologyValue,
)
from kafkawire.sdk.protocol.schema import Message
from kafkawire.sdk.protocol.tables.enums import LEAVE_GROUP_MEMBER_EPOCH

__all__ = [
    "STREAMS_GROUP_RECORD_TYPES",
    "current_record",
    "epoch_record",
    "group_tombstones",
    "group_value_record",
    "member_record",
    "member_tombstones",
    "replay",
    "target_record",
    "topology_record",
]

#: The types of records of streams groups.
STREAMS_GROUP_RECORD_TYPES = types_by_key(
    (GroupKey, GroupValue),
    (MemberKey, MemberValue),
    (EpochKey, EpochValue),
    (TargetKey, TargetValue),
    (CurrentKey, CurrentValue),
    (TopologyKey, TopologyValue),
)

#: The assignment epoch of a group whose target assignment has been removed.
_NO_ASSIGNMENT = -1


def group_value_record(
    group_id: str, epoch: int, metadata_hash: int, validated_topology_epoch: int, configs: Mapping[str, str]
) -> CoordinatorRecord:
    """Return the record for a group's epoch and what it depends on."""
    last = [GroupValue.LastAssignmentConfig(name, value) for name, value in sorted(configs.items())]
    return CoordinatorRecord(GroupKey(group_id), GroupValue(epoch, metadata_hash, validated_topology_epoch, last))


def topology_record(group_id: str, topology: Topology) -> CoordinatorRecord:
    """Return the record for a group's topology."""
    return CoordinatorRecord(TopologyKey(group_id), topology_value(topology))


def member_record(group_id: str, member: StreamsMember) -> CoordinatorRecord:
    """Return the record for a member's properties."""
    value = MemberValue(
        member.instance_id,
        member.rack_id,
        member.client_id,
        member.client_host,
        member.rebalance_timeout_ms,
        member.topology_epoch,
        member.process_id,
        None if member.user_endpoint is None else MemberValue.Endpoint(*member.user_endpoint),
        [MemberValue.KeyValue(name, value) for name, value in sorted(member.client_tags.items())],
    )
    return CoordinatorRecord(MemberKey(group_id, member.member_id), value)


def epoch_record(group_id: str, assignment_epoch: int, now_ms: int) -> CoordinatorRecord:
    """Return the record for the target assignment's epoch."""
    return CoordinatorRecord(EpochKey(group_id), EpochValue(assignment_epoch, now_ms))


def target_record(group_id: str, member_id: str, target: Tasks) -> CoordinatorRecord:
    """Return the record for a member's target assignment."""
    active, standby, warmup = (
        [TargetValue.TaskIds(subtopology_id, numbers) for subtopology_id, numbers in _sorted(tasks)] for tasks in target
    )
    value = TargetValue(active, standby, warmup)
    return CoordinatorRecord(TargetKey(group_id, member_id), value)


def current_record(group_id: str, member: StreamsMember) -> CoordinatorRecord:
    """Return the record for a member's current tasks and state."""
    assigned, revoking = member.assigned, member.revoking
    value = CurrentValue(
        member.epoch,
        member.previous_epoch,
        member.state,
        _with_epochs(member, assigned.active),
        _task_ids(assigned.standby),
        _task_ids(assigned.warmup),
        _with_epochs(member, revoking.active),
        _task_ids(revoking.standby),
        _task_ids(revoking.warmup),
    )
    return CoordinatorRecord(CurrentKey(group_id, member.member_id), value)


def _sorted(tasks: TaskNumbers) -> list[tuple[str, list[int]]]:
    return [(subtopology_id, sorted(numbers)) for subtopology_id, numbers in sorted(tasks.items())]


def _task_ids(tasks: TaskNumbers) -> list[CurrentValue.TaskIds]:
    return [CurrentValue.TaskIds(subtopology_id, numbers) for subtopology_id, numbers in _sorted(tasks)]


def _with_epochs(member: StreamsMember, tasks: TaskNumbers) -> list[CurrentValue.TaskIds]:
    return [
        CurrentValue.TaskIds(key, numbers, [member.since.get((key, number), member.epoch) for number in numbers])
        for key, numbers in _sorted(tasks)
    ]


def member_tombstones(group_id: str, member_id: str) -> list[CoordinatorRecord]:
    """Return the records that remove a member."""
    keys = (CurrentKey(group_id, member_id), TargetKey(group_id, member_id), MemberKey(group_id, member_id))
    return [CoordinatorRecord(key, None) for key in keys]


def group_tombstones(group_id: str, member_ids: Collection[str]) -> list[CoordinatorRecord]:
    """Return the records that remove a group and its members."""
    keys: list[Message] = [CurrentKey(group_id, member_id) for member_id in member_ids]
    keys += [TargetKey(group_id, member_id) for member_id in member_ids]
    keys.append(EpochKey(group_id))
    keys += [MemberKey(group_id, member_id) for member_id in member_ids]
    keys += [GroupKey(group_id), TopologyKey(group_id)]
    return [CoordinatorRecord(key, None) for key in keys]


def replay(groups: dict[str, StreamsGroup], record: CoordinatorRecord) -> str:
    """Replay a streams group's record; return the group's id."""
    key, value = record.key, record.value
    group_id: str = key.group_id  # type: ignore[attr-defined]  # all of these keys have it
    group = groups.get(group_id)
    if value is None:
        if group is not None:
            _remove(groups, group, key)
        return group_id
    if group is None:
        group = groups[group_id] = StreamsGroup(group_id)
    if isinstance(value, GroupValue):
        group.epoch, group.metadata_hash = value.epoch, value.metadata_hash
        group.validated_topology_epoch = value.validated_topology_epoch
        group.assignment_configs = {each.key: each.value for each in value.last_assignment_configs or ()}
    elif isinstance(value, TopologyValue):
        group.topology = topology_of(value)
    elif isinstance(value, EpochValue):
        group.assignment_epoch, group.assigned_ms = value.assignment_epoch, value.assignment_timestamp
    elif isinstance(key, TargetKey) and isinstance(value, TargetValue):
        group.target[key.member_id] = _tasks(value.active_tasks, value.standby_tasks, value.warmup_tasks)
    elif isinstance(key, MemberKey) and isinstance(value, MemberValue):
        group.put(_described(group.members.get(key.member_id, StreamsMember(key.member_id)), value))
    elif isinstance(key, CurrentKey) and isinstance(value, CurrentValue):
        group.put(_placed(group.members.get(key.member_id, StreamsMember(key.member_id)), value))
    return group_id


def _remove(groups: dict[str, StreamsGroup], group: StreamsGroup, key: Message) -> None:
    if isinstance(key, GroupKey):
        del groups[group.group_id]
    elif isinstance(key, TopologyKey):
        group.topology = None
    elif isinstance(key, EpochKey):
        group.assignment_epoch, group.assigned_ms = _NO_ASSIGNMENT, 0
    elif isinstance(key, TargetKey):
        group.target.pop(key.member_id, None)
    elif isinstance(key, MemberKey):
        group.remove(key.member_id)
    elif isinstance(key, CurrentKey) and key.member_id in group.members:
        left = LEAVE_GROUP_MEMBER_EPOCH
        member = group.members[key.member_id]
        group.put(replace(member, epoch=left, previous_epoch=left, assigned=NO_TASKS, revoking=NO_TASKS, since={}))


def _described(member: StreamsMember, value: MemberValue) -> StreamsMember:
    endpoint = value.user_endpoint
    return replace(
        member,
        instance_id=value.instance_id,
        rack_id=value.rack_id,
        client_id=value.client_id,
        client_host=value.client_host,
        rebalance_timeout_ms=value.rebalance_timeout_ms,
        topology_epoch=value.topology_epoch,
        process_id=value.process_id,
        user_endpoint=None if endpoint is None else (endpoint.host, endpoint.port),
        client_tags={tag.key: tag.value for tag in value.client_tags},
    )


def _placed(member: StreamsMember, value: CurrentValue) -> StreamsMember:
    return replace(
        member,
        epoch=value.member_epoch,
        previous_epoch=value.previous_member_epoch,
        state=StreamsMemberState(value.state),
        assigned=_tasks(value.active_tasks, value.standby_tasks, value.warmup_tasks),
        revoking=_tasks(
            value.active_tasks_pending_revocation,
            value.standby_tasks_pending_revocation,
            value.warmup_tasks_pending_revocation,
        ),
        since=_since((*value.active_tasks, *value.active_tasks_pending_revocation), value.member_epoch),
    )


def _since(parts: Iterable[CurrentValue.TaskIds], member_epoch: int) -> dict[Task, int]:
    """Return the epoch since which a member has owned each task; for older records, the member's epoch."""
    since: dict[Task, int] = {}
    for part in parts:
        epochs = part.assignment_epochs or ()
        if len(epochs) != len(part.partitions):
            epochs = [member_epoch] * len(part.partitions)
        for number, epoch in zip(part.partitions, epochs, strict=True):
            since[part.subtopology_id, number] = epoch
    return since


def _tasks(active: Sequence[Any], standby: Sequence[Any], warmup: Sequence[Any]) -> Tasks:
    return Tasks(
        *({part.subtopology_id: frozenset(part.partitions) for part in parts} for parts in (active, standby, warmup))
    )
