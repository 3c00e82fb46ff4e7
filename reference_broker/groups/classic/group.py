"""A classic group: its members, its state, and derived properties.

`members.py` and `rebalances.py` change its state; this module does no I/O and reads no clock. Members are kept in the
order in which they joined, which determines the leader.

Source: KIP-62, KIP-345 (static members), KIP-394 (member ids); `ClassicGroup` in Apache Kafka.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from kafkawire.reference_broker.work.timers import Timer
from kafkawire.sdk.errors import BrokerError, DecodeError
from kafkawire.sdk.protocol.java_order import java_order, string_hash
from kafkawire.sdk.protocol.messages.groups.consumer_protocol_subscription import ConsumerProtocolSubscription
from kafkawire.sdk.protocol.messages.join_group import JoinGroupResponse
from kafkawire.sdk.protocol.messages.sync_group import SyncGroupResponse
from kafkawire.sdk.protocol.programs import program
from kafkawire.sdk.protocol.tables.enums import CONSUMER_PROTOCOL_TYPE
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.states import Edges

__all__ = ["CLASSIC_GROUP_EDGES", "ClassicGroup", "GroupState", "JoinReply", "Member", "Protocols", "SyncReply"]

JoinReply = Callable[[JoinGroupResponse], None]
SyncReply = Callable[[SyncGroupResponse], None]

#: Assignors in order of preference: pairs of a name and the member's metadata for it.
Protocols = Sequence[tuple[str, bytes]]

_SUBSCRIPTION = program(ConsumerProtocolSubscription, 0)

#: Size of the version prefix of a subscription.
_VERSION_BYTES = 2


class GroupState(StrEnum):
    """The state of a group; the values are those in DescribeGroups."""

    #: The group has no members, but may have offsets.
    EMPTY = "Empty"
    #: Members are joining.
    PREPARING_REBALANCE = "PreparingRebalance"
    #: The leader is computing the assignment, or it is being written.
    COMPLETING_REBALANCE = "CompletingRebalance"
    #: The members have their assignments.
    STABLE = "Stable"
    #: The group was removed; no request reaches it.
    DEAD = "Dead"

    @property
    def is_joined(self) -> bool:
        """Whether all members of the current generation have joined; if one then leaves, the others must rejoin."""
        return self in (GroupState.COMPLETING_REBALANCE, GroupState.STABLE)


#: A group that is replayed, or used to be a consumer group, starts out empty or stable.
CLASSIC_GROUP_EDGES: Final = Edges(
    "a classic group",
    (GroupState.EMPTY, GroupState.STABLE),
    {
        GroupState.EMPTY: {
            GroupState.PREPARING_REBALANCE: "the first member joins",
            GroupState.DEAD: "deleted, or no longer used",
        },
        GroupState.PREPARING_REBALANCE: {
            GroupState.COMPLETING_REBALANCE: "all have joined, or the timeout has passed",
            GroupState.EMPTY: "the last member has left",
            GroupState.DEAD: "becomes a consumer group",
        },
        GroupState.COMPLETING_REBALANCE: {
            GroupState.STABLE: "the leader's assignment is committed",
            GroupState.PREPARING_REBALANCE: "a member joins, changes, leaves or does not sync",
            GroupState.DEAD: "becomes a consumer group",
        },
        GroupState.STABLE: {
            GroupState.PREPARING_REBALANCE: "a member joins, changes or leaves",
            GroupState.DEAD: "becomes a consumer group",
        },
    },
)


@dataclass(slots=True)
class Member:
    """A member of a group.

    Attributes:
        member_id: the id assigned by the coordinator.
        instance_id: the id of a static member, or None for a dynamic one.
        client_id: the client's own name.
        client_host: the host from which the client connects.
        session_timeout_ms: the maximum time between heartbeats.
        rebalance_timeout_ms: the maximum time allowed for rejoining.
        protocols: the protocols that the member supports.
        assignment: the member's assignment in the current generation, from the leader.
        is_new: whether the member is joining for the first time, in which case it cannot send heartbeats yet, and
            removing it is harmless.
        awaiting_join: completes the member's delayed JoinGroup, which waits for the others.
        awaiting_sync: completes the member's delayed SyncGroup, which waits for the leader.
        session_deadline_ms: when the member is removed unless it sends a heartbeat, not counting clock jumps.
        session_timer: the timer that checks the deadline.
    """

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocols: Protocols
    assignment: bytes = b""
    is_new: bool = False
    awaiting_join: JoinReply | None = None
    awaiting_sync: SyncReply | None = None
    session_deadline_ms: int = 0
    session_timer: Timer | None = None

    def metadata(self, protocol: str | None) -> bytes:
        """Return the member's metadata for a protocol; empty if the protocol is unsupported."""
        return next((metadata for name, metadata in self.protocols if name == protocol), b"")


@dataclass(slots=True)
class ClassicGroup:
    """A classic group.

    Attributes:
        group_id: the group's id.
        state: see `GroupState`.
        generation_id: incremented by each rebalance.
        protocol_type: `consumer`, `connect`, …; None before the first member joins.
        protocol_name: the assignor of the current generation.
        leader_id: the member that computes the assignment.
        members: the members, keyed by id, in the order in which they joined.
        static_members: member ids, keyed by instance id.
        pending_members: assigned ids (KIP-394) whose owners have not rejoined yet, with their expiry times.
        pending_sync: members of the current generation that have not sent SyncGroup yet.
        rebalance_timer: limits the wait for members to join, then the wait for their SyncGroup; None when not waiting.
        is_first_rebalance: whether the group was empty, in which case the initial delay applies.
        member_added: whether a member has joined since the initial delay was last extended.
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
    def rebalance_timeout_ms(self) -> int:
        """The longest rebalance timeout of the members, which limits a rebalance."""
        return max((0, *(member.rebalance_timeout_ms for member in self.members.values())))

    @property
    def joined_count(self) -> int:
        """The number of members waiting in JoinGroup."""
        return sum(member.awaiting_join is not None for member in self.members.values())

    def add(self, member: Member) -> None:
        """Add a member; the first one becomes the leader."""
        if self.leader_id is None:
            self.leader_id = member.member_id
        self.members[member.member_id] = member
        if member.instance_id is not None:
            self.static_members[member.instance_id] = member.member_id

    def remove(self, member_id: str) -> Member:
        """Remove a member; the earliest remaining member becomes the leader."""
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
        """Replace the id of a static member that has rejoined with a new one; it keeps its position."""
        self.members = {(member_id if known is member else known_id): known for known_id, known in self.members.items()}
        if self.leader_id == member.member_id:
            self.leader_id = member_id
        self.pending_sync.discard(member.member_id)
        member.member_id = member_id
        if member.instance_id is not None:
            self.static_members[member.instance_id] = member_id

    def supports(self, protocol_type: str, protocols: Protocols) -> bool:
        """Return whether a member with these protocols is compatible with the current members."""
        names = {name for name, _ in protocols}
        if not names or not protocol_type:
            return False
        if not self.members:
            return True
        return protocol_type == self.protocol_type and bool(names & self._common_protocols())

    def select_protocol(self) -> str:
        """Return the protocol that all members support and most of them prefer."""
        common = self._common_protocols()
        votes = Counter(
            next(name for name, _ in member.protocols if name in common) for member in self.members.values()
        )
        return max(java_order(votes, string_hash), key=votes.__getitem__)

    def all_joined(self) -> bool:
        """Return whether every member, including pending ones, is waiting in JoinGroup."""
        return not self.pending_members and all(member.awaiting_join for member in self.members.values())

    def joined_result(self, member_id: str) -> JoinGroupResponse:
        """Return the JoinGroup response for a member of the current generation; only the leader's lists all members."""
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

    def member_of(self, member_id: str, instance_id: str | None) -> Member:
        """Return a member after checking its identity.

        Raises:
            BrokerError: UNKNOWN_MEMBER_ID, or FENCED_INSTANCE_ID if another member has taken over the instance id.
        """
        if instance_id is not None:
            if instance_id not in self.static_members:
                raise BrokerError(ErrorCode.UNKNOWN_MEMBER_ID, f"unknown instance id {instance_id!r}")
            if self.static_members[instance_id] != member_id:
                raise BrokerError(
                    ErrorCode.FENCED_INSTANCE_ID, f"the instance id {instance_id!r} belongs to another member"
                )
        if member_id not in self.members:
            raise BrokerError(ErrorCode.UNKNOWN_MEMBER_ID, f"unknown member id {member_id!r}")
        return self.members[member_id]

    def check_generation(self, generation_id: int) -> None:
        """Check that a request is for the current generation.

        Raises:
            BrokerError: ILLEGAL_GENERATION.
        """
        if generation_id != self.generation_id:
            raise BrokerError(
                ErrorCode.ILLEGAL_GENERATION,
                f"the request has generation {generation_id}, but the current generation is {self.generation_id}",
            )

    def enter(self, state: GroupState, now_ms: int) -> None:
        """Change the state."""
        self.state = CLASSIC_GROUP_EDGES.follow(self.state, state)
        self.state_changed_ms = now_ms

    def die(self) -> None:
        """Enter the state DEAD."""
        self.state = CLASSIC_GROUP_EDGES.follow(self.state, GroupState.DEAD)

    @property
    def uses_consumer_protocol(self) -> bool:
        """Whether the members are consumers, whose subscriptions can be read."""
        return self.protocol_type == CONSUMER_PROTOCOL_TYPE

    def subscribed_topics(self) -> set[str] | None:
        """Return the topics that members are subscribed to, or None if unknown."""
        if not self.uses_consumer_protocol:
            return None
        if not self.members:
            return set()
        if self.protocol_name is None:
            return None
        topics: set[str] = set()
        for member in self.members.values():
            metadata = member.metadata(self.protocol_name)
            if len(metadata) < _VERSION_BYTES:
                return None
            try:
                # Every version begins with the fields of version 0.
                subscription, _ = _SUBSCRIPTION.decode(metadata, _VERSION_BYTES)
            except DecodeError:
                return None
            topics.update(subscription.topics)
        return topics

    def _common_protocols(self) -> set[str]:
        return set.intersection(*({name for name, _ in member.protocols} for member in self.members.values()))
