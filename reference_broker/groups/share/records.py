"""The records of share groups in `__consumer_offsets`.

Source: `GroupCoordinatorRecordHelpers`, `GroupMetadataManager.replay` in Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from kafkawire.reference_broker.coordinators.records import types_by_key
from kafkawire.reference_broker.coordinators.shard import CoordinatorRecord
from kafkawire.reference_broker.groups.consumer.group import MemberState, Partitions
from kafkawire.reference_broker.groups.share.group import ShareGroup, ShareMember
from kafkawire.reference_broker.groups.share.state_partitions import StatePartitions, TopicStates
from kafkawire.sdk.protocol.messages.coordinator.consumer_offsets.share_group_current_member_assignment import (
    ShareGroupCurrentMemberAssignmentKey as CurrentKey,
)
from kafkawire.sdk.protocol.messages.coordinator.consumer_offsets.share_group_current_member_assignment import (
    ShareGroupCurrentMemberAssignmentValue as CurrentValue,
)
from kafkawire.sdk.protocol.messages.coordinator.consumer_offsets.share_group_member_metadata import (
    ShareGroupMemberMetadataKey as MemberKey,
)
from kafkawire.sdk.protocol.messages.coordinator.consumer_offsets.share_group_member_metadata import (
    ShareGroupMemberMetadataValue as MemberValue,
)
from kafkawire.sdk.protocol.messages.coordinator.consumer_offsets.share_group_metadata import (
    ShareGroupMetadataKey as GroupKey,
)
from kafkawire.sdk.protocol.messages.coordinator.consumer_offsets.share_group_metadata import (
    ShareGroupMetadataValue as GroupValue,
)
from kafkawire.sdk.protocol.messages.coordinator.consumer_offsets.share_group_state_partition_metadata import (
    ShareGroupStatePartitionMetadataKey as StatesKey,
)
from kafkawire.sdk.protocol.messages.coordinator.consumer_offsets.share_group_state_partition_metadata import (
    ShareGroupStatePartitionMetadataValue as StatesValue,
)
from kafkawire.sdk.protocol.messages.coordinator.consumer_offsets.share_group_target_assignment_member import (
    ShareGroupTargetAssignmentMemberKey as TargetKey,
)
from kafkawire.sdk.protocol.messages.coordinator.consumer_offsets.share_group_target_assignment_member import (
    ShareGroupTargetAssignmentMemberValue as TargetValue,
)
from kafkawire.sdk.protocol.messages.coordinator.consumer_offsets.share_group_target_assignment_metadata import (
    ShareGroupTargetAssignmentMetadataKey as EpochKey,
)
from kafkawire.sdk.protocol.messages.coordinator.consumer_offsets.share_group_target_assignment_metadata import (
    ShareGroupTargetAssignmentMetadataValue as EpochValue,
)
from kafkawire.sdk.protocol.schema import Message

__all__ = [
    "SHARE_GROUP_RECORD_TYPES",
    "current_record",
    "epoch_record",
    "group_tombstones",
    "group_value_record",
    "member_record",
    "member_tombstones",
    "replay",
    "states_record",
    "target_record",
]

#: The types of records of share groups.
SHARE_GROUP_RECORD_TYPES = types_by_key(
    (CurrentKey, CurrentValue),
    (EpochKey, EpochValue),
    (GroupKey, GroupValue),
    (MemberKey, MemberValue),
    (StatesKey, StatesValue),
    (TargetKey, TargetValue),
)


def group_value_record(group_id: str, epoch: int, metadata_hash: int) -> CoordinatorRecord:
    """Return the record for a group's epoch."""
    return CoordinatorRecord(GroupKey(group_id), GroupValue(epoch, metadata_hash))


def member_record(group_id: str, member: ShareMember) -> CoordinatorRecord:
    """Return the record for a member's subscription and properties."""
    value = MemberValue(member.rack_id, member.client_id, member.client_host, list(member.topics))
    return CoordinatorRecord(MemberKey(group_id, member.member_id), value)


def epoch_record(group_id: str, assignment_epoch: int, now_ms: int) -> CoordinatorRecord:
    """Return the record for the target assignment's epoch."""
    return CoordinatorRecord(EpochKey(group_id), EpochValue(assignment_epoch, now_ms))


def target_record(group_id: str, member_id: str, target: Partitions) -> CoordinatorRecord:
    """Return the record for a member's target assignment."""
    value = TargetValue([TargetValue.TopicPartition(topic_id, sorted(part)) for topic_id, part in target.items()])
    return CoordinatorRecord(TargetKey(group_id, member_id), value)


def current_record(group_id: str, member: ShareMember) -> CoordinatorRecord:
    """Return the record for a member's current assignment; the state is always stable."""
    assigned = [CurrentValue.TopicPartitions(topic_id, sorted(part)) for topic_id, part in member.assigned.items()]
    value = CurrentValue(member.epoch, member.previous_epoch, MemberState.STABLE, assigned)
    return CoordinatorRecord(CurrentKey(group_id, member.member_id), value)


def states_record(group_id: str, states: StatePartitions) -> CoordinatorRecord:
    """Return the record for the share partitions that have a state."""
    value = StatesValue(
        _infos(states.initializing),
        _infos(states.initialized),
        [StatesValue.TopicInfo(topic_id, name) for topic_id, name in states.deleting.items()],
    )
    return CoordinatorRecord(StatesKey(group_id), value)


def _infos(states: Mapping[bytes, TopicStates]) -> list[StatesValue.TopicPartitionsInfo]:
    return [
        StatesValue.TopicPartitionsInfo(topic_id, known.name, sorted(known.partitions))
        for topic_id, known in states.items()
    ]


def member_tombstones(group_id: str, member_id: str) -> list[CoordinatorRecord]:
    """Return the records that remove a member."""
    keys = (CurrentKey(group_id, member_id), TargetKey(group_id, member_id), MemberKey(group_id, member_id))
    return [CoordinatorRecord(key, None) for key in keys]


def group_tombstones(group_id: str, member_ids: Iterable[str]) -> list[CoordinatorRecord]:
    """Return the records that remove a group and its members."""
    ids = list(member_ids)
    keys: list[Message] = [CurrentKey(group_id, member_id) for member_id in ids]
    keys += [TargetKey(group_id, member_id) for member_id in ids]
    keys.append(EpochKey(group_id))
    keys += [MemberKey(group_id, member_id) for member_id in ids]
    keys += [StatesKey(group_id), GroupKey(group_id)]
    return [CoordinatorRecord(key, None) for key in keys]


def replay(groups: dict[str, ShareGroup], record: CoordinatorRecord, now_ms: int) -> str:
    """Replay a share group's record; return the group's id.

    Args:
        groups: the share groups of the shard.
        record: the record.
        now_ms: the current time; the persister's answer for new states is awaited from then on.
    """
    key, value = record.key, record.value
    group_id: str = key.group_id  # type: ignore[attr-defined]  # all of these keys have it
    if value is None:
        if group_id in groups:
            _remove(groups, groups[group_id], key)
        return group_id
    group = groups.setdefault(group_id, ShareGroup(group_id))
    if isinstance(value, GroupValue):
        group.epoch, group.metadata_hash = value.epoch, value.metadata_hash
    elif isinstance(value, EpochValue):
        group.assignment_epoch, group.assigned_ms = value.assignment_epoch, value.assignment_timestamp
    elif isinstance(value, StatesValue):
        group.states = StatePartitions(
            _states(value.initializing_topics, now_ms),
            _states(value.initialized_topics, now_ms),
            {bytes(info.topic_id): info.topic_name for info in value.deleting_topics},
        )
    elif isinstance(key, TargetKey) and isinstance(value, TargetValue):
        group.target[key.member_id] = _partitions(value.topic_partitions)
    elif isinstance(key, MemberKey) and isinstance(value, MemberValue):
        member = group.members.get(key.member_id, ShareMember(key.member_id))
        group.members[key.member_id] = replace(
            member,
            rack_id=value.rack_id,
            client_id=value.client_id,
            client_host=value.client_host,
            topics=tuple(sorted(value.subscribed_topic_names)),
        )
    elif isinstance(key, CurrentKey) and isinstance(value, CurrentValue):
        member = group.members.get(key.member_id, ShareMember(key.member_id))
        group.members[key.member_id] = replace(
            member,
            epoch=value.member_epoch,
            previous_epoch=value.previous_member_epoch,
            assigned=_partitions(value.assigned_partitions),
        )
    return group_id


def _remove(groups: dict[str, ShareGroup], group: ShareGroup, key: Message) -> None:
    """Replay a tombstone; those that precede the removal of a member or of a group change nothing else."""
    if isinstance(key, GroupKey):
        del groups[group.group_id]
    elif isinstance(key, MemberKey):
        group.members.pop(key.member_id, None)
    elif isinstance(key, TargetKey):
        group.target.pop(key.member_id, None)
    elif isinstance(key, StatesKey):
        group.states = StatePartitions()


def _states(infos: Iterable[StatesValue.TopicPartitionsInfo], now_ms: int) -> dict[bytes, TopicStates]:
    return {bytes(info.topic_id): TopicStates(info.topic_name, frozenset(info.partitions), now_ms) for info in infos}


def _partitions(entries: Sequence[Any]) -> Partitions:
    return {bytes(entry.topic_id): frozenset(entry.partitions) for entry in entries}
