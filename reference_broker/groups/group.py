"""A classic group: its members, its state, and what follows from them.

`coordinator.py` moves a group from state to state; nothing here does I/O or reads a clock. Members are kept in the
order in which they joined, which decides who leads.

Source: KIP-62, KIP-345 (static members), KIP-394 (member ids); `ClassicGroup` in Apache Kafka.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from kafkawire.reference_broker.timers import Timer
from kafkawire.sdk.protocol.messages.join_group import JoinGroupResponse
from kafkawire.sdk.protocol.messages.sync_group import SyncGroupResponse

__all__ = ["Group", "GroupState", "JoinReply", "Member", "Protocols", "SyncReply"]

JoinReply = Callable[[JoinGroupResponse], None]
SyncReply = Callable[[SyncGroupResponse], None]

#: Assignors in order of preference: (name, the member's metadata for it).
Protocols = Sequence[tuple[str, bytes]]


class GroupState(StrEnum):
    """The state of a group; the values are those of DescribeGroups."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


@dataclass(slots=True)
class Member:
    """A member of a group.

    Attributes:
        member_id: assigned by the coordinator.
        instance_id: the id of a static member, None for a dynamic one.
        client_id: the client's name for itself.
        client_host: the host it connects from.
        session_timeout_ms: how long it may go without a heartbeat.
        rebalance_timeout_ms: how long it may take to rejoin.
        protocols: the protocols it supports.
        assignment: its assignment in the current generation, from the leader.
        awaiting_join: completes its delayed JoinGroup, which waits for the others.
        awaiting_sync: completes its delayed SyncGroup, which waits for the leader.
        session_deadline_ms: when it is removed unless it sends a heartbeat first.
        session_timer: checks the deadline.
    """

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocols: Protocols
    assignment: bytes = b""
    awaiting_join: JoinReply | None = None
    awaiting_sync: SyncReply | None = None
    session_deadline_ms: int = 0
    session_timer: Timer | None = None

    def metadata(self, protocol: str | None) -> bytes:
        """Return the member's metadata for a protocol; empty for one that it does not support."""
        return next((metadata for name, metadata in self.protocols if name == protocol), b"")


@dataclass(slots=True)
class Group:
    """A classic group.

    Attributes:
        group_id: its id.
        state: see `GroupState`.
        generation_id: incremented by each rebalance.
        protocol_type: `consumer`, `connect`, …; None before the first member.
        protocol_name: the assignor of the current generation.
        leader_id: the member that performs the assignment.
        members: by member id, in the order of joining.
        static_members: member ids by instance id.
        pending_members: ids handed out (KIP-394) whose owner has not rejoined yet, with their expiry.
        pending_sync: members of the current generation that have not sent SyncGroup yet.
        rebalance_timer: limits the wait for members to join, then for their SyncGroup.
        is_first_rebalance: whether the group was empty, so that it waits for the initial delay instead.
        member_added: whether a member joined since the initial delay was last extended.
        state_changed_ms: when the state last changed.
    """

    group_id: str
    state: GroupState = GroupState.EMPTY
    generation_id: int = 0
    protocol_type: str | None = None
    protocol_name: str | None = None
    leader_id: str | None = None
    members: dict[str, Member] = field(default_factory=dict)
    static_members: dict[str, str] = field(default_factory=dict)
    pending_members: dict[str, Timer] = field(default_factory=dict)
    pending_sync: set[str] = field(default_factory=set)
    rebalance_timer: Timer | None = None
    is_first_rebalance: bool = False
    member_added: bool = False
    state_changed_ms: int = -1

    @property
    def size(self) -> int:
        """The number of members, including pending ones."""
        return len(self.members) + len(self.pending_members)

    @property
    def rebalance_timeout_ms(self) -> int:
        """How long a rebalance waits: the longest rebalance timeout of its members."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    def add(self, member: Member) -> None:
        """Add a member; the first one becomes the leader."""
        if self.leader_id is None:
            self.leader_id = member.member_id
        self.members[member.member_id] = member
        if member.instance_id is not None:
            self.static_members[member.instance_id] = member.member_id

    def remove(self, member_id: str) -> Member:
        """Remove a member; the lead passes to the one that joined next."""
        member = self.members.pop(member_id)
        self.pending_sync.discard(member_id)
        if member.instance_id is not None and self.static_members.get(member.instance_id) == member_id:
            del self.static_members[member.instance_id]
        if member.session_timer is not None:
            member.session_timer.cancel()
        if self.leader_id == member_id:
            self.leader_id = next(iter(self.members), None)
        return member

    def rename(self, member: Member, member_id: str) -> None:
        """Replace the id of a static member that rejoined under a new one, keeping its place."""
        self.members = {(member_id if known is member else known_id): known for known_id, known in self.members.items()}
        if self.leader_id == member.member_id:
            self.leader_id = member_id
        self.pending_sync.discard(member.member_id)
        member.member_id = member_id
        if member.instance_id is not None:
            self.static_members[member.instance_id] = member_id

    def supports(self, protocol_type: str, protocols: Protocols) -> bool:
        """Return whether a member with these protocols can join the present ones."""
        names = {name for name, _ in protocols}
        if not names or not protocol_type:
            return False
        if not self.members:
            return True
        return protocol_type == self.protocol_type and bool(names & self._common_protocols())

    def select_protocol(self) -> str:
        """Return the protocol that all members support and that most of them prefer."""
        common = self._common_protocols()
        votes = Counter(
            next(name for name, _ in member.protocols if name in common) for member in self.members.values()
        )
        return max(votes, key=votes.__getitem__)

    def all_joined(self) -> bool:
        """Return whether every member, including pending ones, waits in JoinGroup."""
        return not self.pending_members and all(member.awaiting_join for member in self.members.values())

    def joined_result(self, member_id: str) -> JoinGroupResponse:
        """Return the JoinGroup response for a member of the current generation; the leader's lists the members."""
        response = JoinGroupResponse(
            generation_id=self.generation_id,
            protocol_type=self.protocol_type,
            protocol_name=self.protocol_name,
            leader=self.leader_id or "",
            member_id=member_id,
        )
        if member_id == self.leader_id:
            response.members = self.member_list()
        return response

    def member_list(self) -> list[JoinGroupResponse.JoinGroupResponseMember]:
        """Return the members with their metadata for the selected protocol, for the leader."""
        return [
            JoinGroupResponse.JoinGroupResponseMember(
                member.member_id, member.instance_id, member.metadata(self.protocol_name)
            )
            for member in self.members.values()
        ]

    def _common_protocols(self) -> set[str]:
        return set.intersection(*({name for name, _ in member.protocols} for member in self.members.values()))
