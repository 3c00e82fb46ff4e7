"""A share group: members, the target assignment, and the share partitions that have a state.

Only records change the group, so a group loaded from its records equals the one that wrote them.

Source: KIP-932; `ShareGroup`, `ShareGroupMember`, `ModernGroup` in Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from kafkawire.reference_broker.groups.consumer.group import NOTHING, Partitions
from kafkawire.reference_broker.groups.refusals import known_member
from kafkawire.reference_broker.groups.share.state_partitions import StatePartitions
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.states import Edges

__all__ = ["SHARE_GROUP_EDGES", "SHARE_GROUP_TYPE", "ShareGroup", "ShareGroupState", "ShareMember"]

#: The type, and the protocol type, of share groups in ListGroups.
SHARE_GROUP_TYPE: Final = "share"

#: The epoch of a new group and of its target assignment, as in Kafka; the group's first subscription increases it.
_FIRST_EPOCH: Final = 1

#: The previous epoch of a new member, which no request has.
_NO_EPOCH: Final = -1


class ShareGroupState(StrEnum):
    """The state of a group; the values are those in ShareGroupDescribe."""

    #: It has no members.
    EMPTY = "Empty"
    #: It has members.
    STABLE = "Stable"


#: The state is derived from the members: see `ShareGroup.state`.
SHARE_GROUP_EDGES: Final = Edges(
    "a share group",
    (ShareGroupState.EMPTY,),
    {
        ShareGroupState.EMPTY: {ShareGroupState.STABLE: "the first member joins"},
        ShareGroupState.STABLE: {ShareGroupState.EMPTY: "the last member leaves"},
    },
    is_derived=True,
)


@dataclass(frozen=True, slots=True)
class ShareMember:
    """A member of a share group.

    Attributes:
        member_id: the member's id.
        rack_id: the member's rack, or None if unknown.
        client_id: the client's own name.
        client_host: the host from which the client connects.
        topics: the topic names that the member is subscribed to, sorted.
        epoch: the group epoch that the member has reached.
        previous_epoch: the previous epoch, which the member still uses if a response was lost.
        assigned: the partitions that the member fetches.
    """

    member_id: str
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topics: tuple[str, ...] = ()
    epoch: int = 0
    previous_epoch: int = _NO_EPOCH
    assigned: Partitions = field(default_factory=dict)


@dataclass(slots=True)
class ShareGroup:
    """A share group.

    Attributes:
        group_id: the group's id.
        epoch: increases when members, subscriptions or topics change.
        metadata_hash: hash of the subscribed topics at the last check.
        members: the members, keyed by id.
        target: the target assignment, keyed by member id.
        assignment_epoch: the group epoch of the target assignment.
        assigned_ms: when the target assignment was computed; 0 if never.
        states: the share partitions that have a state, or will have one.
        looked_at: the topics' change counter and the epoch with which `metadata_hash` was last checked; this is not
            part of the state in the log.
    """

    group_id: str
    epoch: int = _FIRST_EPOCH
    metadata_hash: int = 0
    members: dict[str, ShareMember] = field(default_factory=dict)
    target: dict[str, Partitions] = field(default_factory=dict)
    assignment_epoch: int = _FIRST_EPOCH
    assigned_ms: int = 0
    states: StatePartitions = field(default_factory=StatePartitions)
    looked_at: tuple[int, int] = field(default=(-1, 0), compare=False)

    @property
    def state(self) -> ShareGroupState:
        """The state of the group."""
        return ShareGroupState.STABLE if self.members else ShareGroupState.EMPTY

    def has_looked_at(self, changes: int) -> bool:
        """Return whether the topics of the group's members are known to match `metadata_hash`.

        Args:
            changes: the counter in `Topics`; the epoch written at this count must have reached the log.
        """
        return self.looked_at[0] == changes and self.looked_at[1] <= self.epoch

    def target_of(self, member_id: str) -> Partitions:
        """Return the target assignment of a member."""
        return self.target.get(member_id, NOTHING)

    def topics_after(self, gone: str, coming: ShareMember | None = None) -> frozenset[str]:
        """Return the subscribed topics after a member has left or changed.

        Args:
            gone: the id of the member.
            coming: its new state, if it stays.
        """
        members: Iterable[ShareMember] = (member for name, member in self.members.items() if name != gone)
        names = {name for member in members for name in member.topics}
        return frozenset(names if coming is None else names.union(coming.topics))

    def known(self, member_id: str) -> ShareMember:
        """Return a member.

        Raises:
            BrokerError: UNKNOWN_MEMBER_ID.
        """
        return known_member(self.group_id, self.members, member_id)

    def check_empty(self) -> None:
        """Check that the group has no members.

        Raises:
            BrokerError: NON_EMPTY_GROUP.
        """
        if self.members:
            raise BrokerError(ErrorCode.NON_EMPTY_GROUP, "The group is not empty.")
