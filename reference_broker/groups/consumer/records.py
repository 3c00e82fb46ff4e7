"""Records of consumer groups in `__consumer_offsets`: encoding and replay.

Source: `GroupCoordinatorRecordHelpers`, `GroupMetadataManager.replay` in Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from typing import Any

from kafkawire.reference_broker.coordinators.records import types_by_key
from kafkawire.reference_broker.coordinators.shard import CoordinatorRecord
from kafkawire.reference_broker.groups.consumer.group import (
    ClassicProtocol,
    ConsumerGroup,
    ConsumerMember,
    MemberState,
    Partitions,
    Resolved,
)
from kafkawire.sdk.protocol.messages.coordinator.consumer_offsets.consumer_group_current_member_assignment import (
    ConsumerGroupCurrentMemberAssignmentKey as CurrentKey,
)
from kafkawire.sdk.protocol.messages.coordinator.consumer_offsets.consumer_group_current_member_assignment import (
    ConsumerGroupCurrentMemberAssignmentValue as CurrentValue,
)
from kafkawire.sdk.protocol.messages.coordinator.consumer_offsets.consumer_group_member_metadata import (
    ConsumerGroupMemberMetadataKey as MemberKey,
)
from kafkawire.sdk.protocol.messages.coordinator.consumer_offsets.consumer_group_member_metadata import (
    ConsumerGroupMemberMetadataValue as MemberValue,
)
from kafkawire.sdk.protocol.messages.coordinator.consumer_offsets.consumer_group_metadata import (
    ConsumerGroupMetadataKey as GroupKey,
)
from kafkawire.sdk.protocol.messages.coordinator.consumer_offsets.consumer_group_metadata import (
    ConsumerGroupMetadataValue as GroupValue,
)
from kafkawire.sdk.protocol.messages.coordinator.consumer_offsets.consumer_group_partition_metadata import (
    ConsumerGroupPartitionMetadataKey as PartitionsKey,
)
from kafkawire.sdk.protocol.messages.coordinator.consumer_offsets.consumer_group_partition_metadata import (
    ConsumerGroupPartitionMetadataValue as PartitionsValue,
)
from kafkawire.sdk.protocol.messages.coordinator.consumer_offsets.consumer_group_regular_expression import (
    ConsumerGroupRegularExpressionKey as RegexKey,
)
from kafkawire.sdk.protocol.messages.coordinator.consumer_offsets.consumer_group_regular_expression import (
    ConsumerGroupRegularExpressionValue as RegexValue,
)
from kafkawire.sdk.protocol.messages.coordinator.consumer_offsets.consumer_group_target_assignment_member import (
    ConsumerGroupTargetAssignmentMemberKey as TargetKey,
)
from kafkawire.sdk.protocol.messages.coordinator.consumer_offsets.consumer_group_target_assignment_member import (
    ConsumerGroupTargetAssignmentMemberValue as TargetValue,
)
from kafkawire.sdk.protocol.messages.coordinator.consumer_offsets.consumer_group_target_assignment_metadata import (
    ConsumerGroupTargetAssignmentMetadataKey as EpochKey,
)
from kafkawire.sdk.protocol.messages.coordinator.consumer_offsets.consumer_group_target_assignment_metadata import (
    ConsumerGroupTargetAssignmentMetadataValue as EpochValue,
)
from kafkawire.sdk.protocol.schema import Message

__all__ = [
    "CONSUMER_RECORD_TYPES",
    "NOTED_RECORD_TYPES",
    "current_record",
    "epoch_record",
    "group_tombstones",
    "group_value_record",
    "member_record",
    "member_tombstones",
    "regex_record",
    "regex_tombstones",
    "replay",
    "target_record",
]

#: Apache Kafka's records for topics and expressions, of which only the keys are used.
NOTED_RECORD_TYPES = types_by_key((PartitionsKey, PartitionsValue), (RegexKey, RegexValue))

#: The types of records of consumer groups.
CONSUMER_RECORD_TYPES = {
    **NOTED_RECORD_TYPES,
    **types_by_key(
        (GroupKey, GroupValue),
        (MemberKey, MemberValue),
        (EpochKey, EpochValue),
        (TargetKey, TargetValue),
        (CurrentKey, CurrentValue),
    ),
}


def group_value_record(group_id: str, epoch: int, metadata_hash: int) -> CoordinatorRecord:
    """Return the record for a group's epoch."""
    return CoordinatorRecord(GroupKey(group_id), GroupValue(epoch, metadata_hash))


def member_record(group_id: str, member: ConsumerMember) -> CoordinatorRecord:
    """Return the record for a member's subscription and properties."""
    value = MemberValue(
        member.instance_id,
        member.rack_id,
        member.client_id,
        member.client_host,
        list(member.topics),
        member.regex,
        member.rebalance_timeout_ms,
        member.assignor,
        None if member.classic is None else _classic_metadata(member.classic),
    )
    return CoordinatorRecord(MemberKey(group_id, member.member_id), value)


def _classic_metadata(classic: ClassicProtocol) -> MemberValue.ClassicMemberMetadata:
    protocols = [MemberValue.ClassicProtocol(name, data) for name, data in classic.protocols]
    return MemberValue.ClassicMemberMetadata(classic.session_timeout_ms, protocols)


def epoch_record(group_id: str, assignment_epoch: int, now_ms: int) -> CoordinatorRecord:
    """Return the record for the target assignment's epoch."""
    return CoordinatorRecord(EpochKey(group_id), EpochValue(assignment_epoch, now_ms))


def target_record(group_id: str, member_id: str, target: Partitions) -> CoordinatorRecord:
    """Return the record for a member's target assignment."""
    value = TargetValue([TargetValue.TopicPartition(topic_id, sorted(part)) for topic_id, part in target.items()])
    return CoordinatorRecord(TargetKey(group_id, member_id), value)


def current_record(group_id: str, member: ConsumerMember) -> CoordinatorRecord:
    """Return the record for a member's current assignment and state."""
    value = CurrentValue(
        member.epoch,
        member.previous_epoch,
        member.state,
        _with_epochs(member, member.assigned),
        _with_epochs(member, member.revoking),
    )
    return CoordinatorRecord(CurrentKey(group_id, member.member_id), value)


def _with_epochs(member: ConsumerMember, partitions: Partitions) -> list[CurrentValue.TopicPartitions]:
    return [
        CurrentValue.TopicPartitions(
            topic_id, numbers, [member.since.get((topic_id, number), member.epoch) for number in numbers]
        )
        for topic_id, numbers in ((topic_id, sorted(part)) for topic_id, part in partitions.items())
    ]


def member_tombstones(group_id: str, member_id: str) -> list[CoordinatorRecord]:
    """Return the records that remove a member."""
    keys = (CurrentKey(group_id, member_id), TargetKey(group_id, member_id), MemberKey(group_id, member_id))
    return [CoordinatorRecord(key, None) for key in keys]


def regex_record(group_id: str, regex: str, resolved: Resolved) -> CoordinatorRecord:
    """Return the record for a resolved regular expression."""
    value = RegexValue(sorted(resolved.topics), resolved.version, resolved.resolved_ms)
    return CoordinatorRecord(RegexKey(group_id, regex), value)


def regex_tombstones(group_id: str, regexes: Iterable[str]) -> list[CoordinatorRecord]:
    """Return the records that remove resolved regular expressions."""
    return [CoordinatorRecord(RegexKey(group_id, regex), None) for regex in regexes]


def group_tombstones(
    group_id: str, member_ids: Collection[str], regexes: Iterable[str] = ()
) -> list[CoordinatorRecord]:
    """Return the records that remove a group, its members, and its resolved regular expressions.

    Kafka releases before 4.1 also wrote metadata about the group's topics.
    """
    keys: list[Message] = [CurrentKey(group_id, member_id) for member_id in member_ids]
    keys += [TargetKey(group_id, member_id) for member_id in member_ids]
    keys.append(EpochKey(group_id))
    keys += [MemberKey(group_id, member_id) for member_id in member_ids]
    keys += [RegexKey(group_id, regex) for regex in regexes]
    keys += [PartitionsKey(group_id), GroupKey(group_id)]
    return [CoordinatorRecord(key, None) for key in keys]


def replay(groups: dict[str, ConsumerGroup], record: CoordinatorRecord) -> str:
    """Replay a consumer group's record; return the group's id."""
    key, value = record.key, record.value
    if isinstance(key, GroupKey):
        if isinstance(value, GroupValue):
            group = _group(groups, key.group_id)
            group.epoch, group.metadata_hash = value.epoch, value.metadata_hash
        else:
            groups.pop(key.group_id, None)
    elif isinstance(key, MemberKey):
        _replay_member(groups, key, value)
    elif isinstance(key, EpochKey):
        if isinstance(value, EpochValue):
            group = _group(groups, key.group_id)
            group.assignment_epoch, group.assigned_ms = value.assignment_epoch, value.assignment_timestamp
    elif isinstance(key, TargetKey):
        if isinstance(value, TargetValue):
            _group(groups, key.group_id).target[key.member_id] = _partitions(value.topic_partitions)
        elif key.group_id in groups:
            groups[key.group_id].target.pop(key.member_id, None)
    elif isinstance(key, RegexKey):
        if isinstance(value, RegexValue):
            resolved = Resolved(frozenset(value.topics), value.version, value.timestamp)
            _group(groups, key.group_id).resolved[key.regular_expression] = resolved
        elif key.group_id in groups:
            groups[key.group_id].resolved.pop(key.regular_expression, None)
    elif isinstance(key, CurrentKey) and isinstance(value, CurrentValue):
        group = _group(groups, key.group_id)
        member = group.members.get(key.member_id, ConsumerMember(key.member_id))
        group.put(
            replace(
                member,
                epoch=value.member_epoch,
                previous_epoch=value.previous_member_epoch,
                state=MemberState(value.state),
                assigned=_partitions(value.assigned_partitions),
                revoking=_partitions(value.partitions_pending_revocation),
                since=_since(value),
            )
        )
    group_id: str = key.group_id  # type: ignore[attr-defined]  # all of these keys have it
    return group_id


def _since(value: CurrentValue) -> dict[tuple[bytes, int], int]:
    """Return the epoch since which a member has owned each partition; for older records, the member's epoch."""
    since: dict[tuple[bytes, int], int] = {}
    for part in (*value.assigned_partitions, *value.partitions_pending_revocation):
        since.update(dict.fromkeys(((part.topic_id, number) for number in part.partitions), value.member_epoch))
        for number, epoch in zip(part.partitions, part.assignment_epochs or (), strict=False):
            since[part.topic_id, number] = epoch
    return since


def _replay_member(groups: dict[str, ConsumerGroup], key: MemberKey, value: object) -> None:
    if isinstance(value, MemberValue):
        group = _group(groups, key.group_id)
        member = group.members.get(key.member_id, ConsumerMember(key.member_id))
        group.put(
            replace(
                member,
                instance_id=value.instance_id,
                rack_id=value.rack_id,
                client_id=value.client_id,
                client_host=value.client_host,
                rebalance_timeout_ms=value.rebalance_timeout_ms,
                topics=tuple(sorted(value.subscribed_topic_names)),
                regex=value.subscribed_topic_regex or "",
                assignor=value.server_assignor,
                classic=_classic_protocol(value),
            )
        )
    elif key.group_id in groups:
        groups[key.group_id].remove(key.member_id)


def _classic_protocol(value: MemberValue) -> ClassicProtocol | None:
    classic = value.classic_member_metadata
    if classic is None:
        return None
    protocols = tuple((protocol.name, bytes(protocol.metadata)) for protocol in classic.supported_protocols)
    return ClassicProtocol(classic.session_timeout_ms, protocols)


def _group(groups: dict[str, ConsumerGroup], group_id: str) -> ConsumerGroup:
    return groups.setdefault(group_id, ConsumerGroup(group_id))


def _partitions(entries: Sequence[Any]) -> Partitions:
    return {bytes(entry.topic_id): frozenset(entry.partitions) for entry in entries}
