"""Share groups in a log written by Apache Kafka. This broker does not serve them, but keeps their ids.

Their records contain what requests for other groups need: the type of each id, and whether the group has members.
    Members cannot send heartbeats to this broker, so all sessions end one session timeout after loading, as in Apache
    Kafka if no member returns. The records are kept, and the next broker that serves the groups starts new sessions for
    their members.

Source: `ShareGroup`, `GroupMetadataManager` in Apache Kafka.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from kafkawire.reference_broker.coordinators.records import types_by_key
from kafkawire.reference_broker.coordinators.shard import CoordinatorRecord, ShardTimers
from kafkawire.sdk.protocol.messages.coordinator.consumer_offsets.share_group_current_member_assignment import (
    ShareGroupCurrentMemberAssignmentKey,
    ShareGroupCurrentMemberAssignmentValue,
)
from kafkawire.sdk.protocol.messages.coordinator.consumer_offsets.share_group_member_metadata import (
    ShareGroupMemberMetadataKey,
    ShareGroupMemberMetadataValue,
)
from kafkawire.sdk.protocol.messages.coordinator.consumer_offsets.share_group_metadata import (
    ShareGroupMetadataKey,
    ShareGroupMetadataValue,
)
from kafkawire.sdk.protocol.messages.coordinator.consumer_offsets.share_group_state_partition_metadata import (
    ShareGroupStatePartitionMetadataKey,
    ShareGroupStatePartitionMetadataValue,
)
from kafkawire.sdk.protocol.messages.coordinator.consumer_offsets.share_group_target_assignment_member import (
    ShareGroupTargetAssignmentMemberKey,
    ShareGroupTargetAssignmentMemberValue,
)
from kafkawire.sdk.protocol.messages.coordinator.consumer_offsets.share_group_target_assignment_metadata import (
    ShareGroupTargetAssignmentMetadataKey,
    ShareGroupTargetAssignmentMetadataValue,
)
from kafkawire.sdk.protocol.schema import Message

__all__ = ["UNSERVED_RECORD_TYPES", "UNSERVED_TYPE", "UnservedGroup", "UnservedGroups"]

#: The type, and the protocol type, of these groups in ListGroups.
UNSERVED_TYPE: Final = "share"

#: The record types of these groups.
UNSERVED_RECORD_TYPES = types_by_key(
    (ShareGroupCurrentMemberAssignmentKey, ShareGroupCurrentMemberAssignmentValue),
    (ShareGroupMemberMetadataKey, ShareGroupMemberMetadataValue),
    (ShareGroupMetadataKey, ShareGroupMetadataValue),
    (ShareGroupStatePartitionMetadataKey, ShareGroupStatePartitionMetadataValue),
    (ShareGroupTargetAssignmentMemberKey, ShareGroupTargetAssignmentMemberValue),
    (ShareGroupTargetAssignmentMetadataKey, ShareGroupTargetAssignmentMetadataValue),
)


@dataclass(slots=True)
class UnservedGroup:
    """A share group.

    Attributes:
        group_id: the group's id.
        keys: the keys of all the group's records, in order.
        members: the ids of the members with a session.
    """

    group_id: str
    keys: dict[tuple[type[Message], str], Message] = field(default_factory=dict)
    members: set[str] = field(default_factory=set)

    @property
    def state(self) -> str:
        """The group's state, as reported by ListGroups."""
        return "Stable" if self.members else "Empty"

    def tombstones(self) -> list[CoordinatorRecord]:
        """Return the records that remove the group, ending with that of the group itself."""
        keys = sorted(self.keys.values(), key=lambda key: isinstance(key, ShareGroupMetadataKey))
        return [CoordinatorRecord(key, None) for key in keys]


class UnservedGroups(dict[str, UnservedGroup]):
    """The share groups of a shard, keyed by id, as replayed.

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
        key = record.key
        group_id: str = key.group_id  # type: ignore[attr-defined]  # all of these keys have it
        member_id: str = getattr(key, "member_id", "")
        if record.value is None:
            self._remove(group_id, member_id, key)
            return group_id
        group = self.setdefault(group_id, UnservedGroup(group_id))
        group.keys[type(key), member_id] = key
        if member_id:
            group.members.add(member_id)
        return group_id

    def _remove(self, group_id: str, member_id: str, key: Message) -> None:
        group = self.get(group_id)
        if group is None:
            return
        group.keys.pop((type(key), member_id), None)
        if isinstance(key, ShareGroupMemberMetadataKey):
            group.members.discard(member_id)
        elif isinstance(key, ShareGroupMetadataKey):
            del self[group_id]
