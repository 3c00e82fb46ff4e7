"""Records in `__consumer_offsets`: committed offsets and classic groups, in the form that Kafka 4.3 writes.

Source: `GroupCoordinatorRecordHelpers`, `GroupMetadataManager.replay` in Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from kafkawire.reference_broker.coordinators.records import types_by_key
from kafkawire.reference_broker.coordinators.shard import CoordinatorRecord
from kafkawire.reference_broker.groups.classic.group import ClassicGroup, GroupState, Member
from kafkawire.sdk.protocol.messages.coordinator.consumer_offsets.group_metadata import (
    GroupMetadataKey,
    GroupMetadataValue,
)
from kafkawire.sdk.protocol.messages.coordinator.consumer_offsets.offset_commit import (
    OffsetCommitKey,
    OffsetCommitValue,
)

__all__ = [
    "NO_EXPIRY",
    "RECORD_TYPES",
    "Committed",
    "group_record",
    "group_tombstone",
    "offset_record",
    "offset_tombstone",
    "stored_group",
]

#: The types of records that are read; others are ignored.
RECORD_TYPES = types_by_key((OffsetCommitKey, OffsetCommitValue), (GroupMetadataKey, GroupMetadataValue))

#: No explicit expiry, in which case the offset is kept for the broker's retention time.
NO_EXPIRY = -1

#: The version in which Kafka 4.3 writes groups, which is the newest that older releases can read.
_GROUP_VERSION = 3

#: The only version that stores an expiry time.
_EXPIRING_OFFSET_VERSION = 1


class Committed(NamedTuple):
    """A committed offset.

    Attributes:
        offset: the offset of the next record to read.
        leader_epoch: the leader epoch of the last record read, or -1 if unknown.
        metadata: text stored by the consumer.
        commit_timestamp: when it was committed, in milliseconds since the epoch.
        topic_id: the topic's id, which distinguishes it from a later topic of the same name.
        expire_timestamp: when it expires, in milliseconds since the epoch; `NO_EXPIRY` to use the broker's retention.
    """

    offset: int
    leader_epoch: int
    metadata: str
    commit_timestamp: int
    topic_id: bytes
    expire_timestamp: int = NO_EXPIRY


def offset_record(group_id: str, topic: str, number: int, entry: Committed) -> CoordinatorRecord:
    """Return the record for a committed offset."""
    expires = entry.expire_timestamp != NO_EXPIRY
    value = OffsetCommitValue(
        entry.offset,
        entry.leader_epoch,
        entry.metadata,
        entry.commit_timestamp,
        entry.expire_timestamp,
        entry.topic_id,
    )
    version = _EXPIRING_OFFSET_VERSION if expires else OffsetCommitValue.SCHEMA.versions.last
    return CoordinatorRecord(OffsetCommitKey(group_id, topic, number), value, version)


def offset_tombstone(group_id: str, topic: str, number: int) -> CoordinatorRecord:
    """Return the record that deletes a committed offset."""
    return CoordinatorRecord(OffsetCommitKey(group_id, topic, number), None)


def group_record(group: ClassicGroup, assignments: Mapping[str, bytes] | None = None) -> CoordinatorRecord:
    """Return the record for a classic group in its current state.

    Args:
        group: the group.
        assignments: assignments, keyed by member id; None to use the members' current ones.
    """
    members = [
        GroupMetadataValue.MemberMetadata(
            member_id=member.member_id,
            group_instance_id=member.instance_id,
            client_id=member.client_id,
            client_host=member.client_host,
            rebalance_timeout=member.rebalance_timeout_ms,
            session_timeout=member.session_timeout_ms,
            subscription=member.metadata(group.protocol_name),
            assignment=member.assignment if assignments is None else assignments.get(member.member_id, b""),
        )
        for member in group.members.values()
    ]
    value = GroupMetadataValue(
        protocol_type=group.protocol_type or "",
        generation=group.generation_id,
        protocol=group.protocol_name,
        leader=group.leader_id,
        current_state_timestamp=group.state_changed_ms,
        members=members,
    )
    return CoordinatorRecord(GroupMetadataKey(group.group_id), value, _GROUP_VERSION, is_held=True)


def group_tombstone(group_id: str) -> CoordinatorRecord:
    """Return the record that deletes a group."""
    return CoordinatorRecord(GroupMetadataKey(group_id), None)


def stored_group(group_id: str, stored: GroupMetadataValue) -> ClassicGroup:
    """Return the group in a record; its state is stable if it has members."""
    group = ClassicGroup(
        group_id,
        state=GroupState.STABLE if stored.members else GroupState.EMPTY,
        generation_id=stored.generation,
        protocol_type=stored.protocol_type or None,
        protocol_name=stored.protocol,
        leader_id=stored.leader,
        state_changed_ms=stored.current_state_timestamp,
    )
    for member in stored.members:
        group.add(
            Member(
                member.member_id,
                member.group_instance_id,
                member.client_id,
                member.client_host,
                member.session_timeout,
                member.rebalance_timeout if member.rebalance_timeout >= 0 else member.session_timeout,
                ((stored.protocol or "", bytes(member.subscription)),),
                bytes(member.assignment),
            )
        )
    return group
