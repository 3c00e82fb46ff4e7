"""Streams groups in a log written by Apache Kafka. This broker does not serve them, but keeps their ids.

Their records contain what requests for other groups need: the type of each id, whether the group has members, and its
    topics. Members cannot send heartbeats to this broker, so all sessions end one session timeout after loading, as in
    Apache Kafka if no member returns. The records are kept, and the next broker that serves the groups starts new
    sessions for their members.

Source: `StreamsGroup`, `GroupMetadataManager` in Apache Kafka.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from kafkawire.reference_broker.coordinators.records import types_by_key
from kafkawire.reference_broker.coordinators.shard import CoordinatorRecord, ShardTimers
from kafkawire.reference_broker.groups.requests import Commit
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.messages.coordinator.consumer_offsets.streams_group_current_member_assignment import (
    StreamsGroupCurrentMemberAssignmentKey,
    StreamsGroupCurrentMemberAssignmentValue,
)
from kafkawire.sdk.protocol.messages.coordinator.consumer_offsets.streams_group_member_metadata import (
    StreamsGroupMemberMetadataKey,
    StreamsGroupMemberMetadataValue,
)
from kafkawire.sdk.protocol.messages.coordinator.consumer_offsets.streams_group_metadata import (
    StreamsGroupMetadataKey,
    StreamsGroupMetadataValue,
)
from kafkawire.sdk.protocol.messages.coordinator.consumer_offsets.streams_group_target_assignment_member import (
    StreamsGroupTargetAssignmentMemberKey,
    StreamsGroupTargetAssignmentMemberValue,
)
from kafkawire.sdk.protocol.messages.coordinator.consumer_offsets.streams_group_target_assignment_metadata import (
    StreamsGroupTargetAssignmentMetadataKey,
    StreamsGroupTargetAssignmentMetadataValue,
)
from kafkawire.sdk.protocol.messages.coordinator.consumer_offsets.streams_group_topology import (
    StreamsGroupTopologyKey,
    StreamsGroupTopologyValue,
)
from kafkawire.sdk.protocol.schema import Message
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode

__all__ = ["UNSERVED_RECORD_TYPES", "GroupType", "UnservedGroup", "UnservedGroups"]

#: The record types of these groups.
UNSERVED_RECORD_TYPES = types_by_key(
    (StreamsGroupCurrentMemberAssignmentKey, StreamsGroupCurrentMemberAssignmentValue),
    (StreamsGroupMemberMetadataKey, StreamsGroupMemberMetadataValue),
    (StreamsGroupMetadataKey, StreamsGroupMetadataValue),
    (StreamsGroupTargetAssignmentMemberKey, StreamsGroupTargetAssignmentMemberValue),
    (StreamsGroupTargetAssignmentMetadataKey, StreamsGroupTargetAssignmentMetadataValue),
    (StreamsGroupTopologyKey, StreamsGroupTopologyValue),
)


class GroupType(StrEnum):
    """The type of a group; the values are those in ListGroups."""

    STREAMS = "streams"


@dataclass(slots=True)
class UnservedGroup:
    """A streams group.

    Attributes:
        group_id: the group's id.
        kind: see `GroupType`.
        keys: the keys of all the group's records, in order.
        members: the epochs of members with a session, keyed by member id.
        epoch: the group epoch.
        assignment_epoch: the epoch of the group's target assignment.
        topics: the group's topics.
    """

    group_id: str
    kind: GroupType
    keys: dict[tuple[type[Message], str], Message] = field(default_factory=dict)
    members: dict[str, int] = field(default_factory=dict)
    epoch: int = 0
    assignment_epoch: int = 0
    topics: frozenset[str] = frozenset()

    @property
    def state(self) -> str:
        """The group's state, as reported by ListGroups."""
        if not self.members:
            return "Empty"
        return "Assigning" if self.epoch > self.assignment_epoch else "Stable"

    def is_subscribed_to(self, topic: str) -> bool:
        """Return whether the group's members are subscribed to a topic."""
        return bool(self.members) and topic in self.topics

    def tombstones(self) -> list[CoordinatorRecord]:
        """Return the records that remove the group, ending with that of the group itself."""
        keys = sorted(self.keys.values(), key=lambda key: isinstance(key, StreamsGroupMetadataKey))
        return [CoordinatorRecord(key, None) for key in keys]

    def check_commit(self, member_id: str, epoch: int, *, knows_epochs: bool = True) -> None:
        """Check an offset commit, which is allowed from a member or while the group is empty.

        Raises:
            BrokerError: UNKNOWN_MEMBER_ID, UNSUPPORTED_VERSION, STALE_MEMBER_EPOCH.
        """
        if self.members or epoch >= 0:
            self.check_epoch(member_id, epoch, knows_epochs=knows_epochs)

    def check_epoch(self, member_id: str, epoch: int, *, knows_epochs: bool = True) -> None:
        """Check the epoch of a member.

        Raises:
            BrokerError: UNKNOWN_MEMBER_ID, UNSUPPORTED_VERSION, STALE_MEMBER_EPOCH.
        """
        known = self.members.get(member_id)
        if known is None:
            text = f"Member {member_id} is not a member of group {self.group_id}."
            raise BrokerError(ErrorCode.UNKNOWN_MEMBER_ID, text)
        if not knows_epochs:
            raise BrokerError(ErrorCode.UNSUPPORTED_VERSION, f"member {member_id} must use OffsetCommit 9 or above")
        if known != epoch:
            raise BrokerError(
                ErrorCode.STALE_MEMBER_EPOCH, f"the request has epoch {epoch}, but the member has epoch {known}"
            )

    def check_commit_in_transaction(self, commit: Commit) -> None:
        """Check an offset commit in a transaction, which may name a member.

        Raises:
            BrokerError: see `check_commit`; ILLEGAL_GENERATION, the only code that producers know for a wrong epoch.
        """
        is_anonymous = commit.generation_id < 0 and not commit.member_id and commit.instance_id is None
        if is_anonymous:
            return
        try:
            self.check_commit(commit.member_id, commit.generation_id)
        except BrokerError as error:
            if error.code is not ErrorCode.STALE_MEMBER_EPOCH:
                raise
            raise BrokerError(ErrorCode.ILLEGAL_GENERATION, error.detail) from None


class UnservedGroups(dict[str, UnservedGroup]):
    """The streams groups of a shard, keyed by id, as replayed.

    Args:
        timers: the shard's timers.
        session_timeout_ms: the session timeout of members.
    """

    def __init__(self, timers: ShardTimers, session_timeout_ms: int) -> None:
        super().__init__()
        self._timers = timers
        self._session_timeout_ms = session_timeout_ms

    def loaded(self, now_ms: int) -> None:
        """Start a session for each loaded member; it cannot be extended."""
        if self:
            self._timers.at(now_ms + self._session_timeout_ms, self._end_sessions)

    def _end_sessions(self, now_ms: int) -> None:
        for group in self.values():
            group.members.clear()

    def replay(self, record: CoordinatorRecord) -> str:
        """Replay a record; return the group's id."""
        key, value = record.key, record.value
        group_id: str = key.group_id  # type: ignore[attr-defined]  # all of these keys have it
        member_id: str = getattr(key, "member_id", "")
        if value is None:
            self._remove(group_id, member_id, key)
            return group_id
        group = self.get(group_id)
        if group is None:
            group = self[group_id] = UnservedGroup(group_id, GroupType.STREAMS)
        group.keys[type(key), member_id] = key
        if isinstance(value, StreamsGroupMetadataValue):
            group.epoch = value.epoch
        elif isinstance(value, StreamsGroupTargetAssignmentMetadataValue):
            group.assignment_epoch = value.assignment_epoch
        elif isinstance(value, StreamsGroupMemberMetadataValue):
            group.members.setdefault(member_id, 0)
        elif isinstance(value, StreamsGroupCurrentMemberAssignmentValue):
            group.members[member_id] = value.member_epoch
        elif isinstance(value, StreamsGroupTopologyValue):
            group.topics = _source_topics(value)
        return group_id

    def _remove(self, group_id: str, member_id: str, key: Message) -> None:
        group = self.get(group_id)
        if group is None:
            return
        group.keys.pop((type(key), member_id), None)
        if isinstance(key, StreamsGroupMemberMetadataKey):
            group.members.pop(member_id, None)
        elif isinstance(key, StreamsGroupMetadataKey):
            del self[group_id]


def _source_topics(topology: StreamsGroupTopologyValue) -> frozenset[str]:
    return frozenset(
        name
        for part in topology.subtopologies
        for name in (*part.source_topics, *(source.name for source in part.repartition_source_topics))
    )
