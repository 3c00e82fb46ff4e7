"""A KIP-848 consumer group: members, the target assignment, and the owner of each partition.

Only records change the group, so a group loaded from its records equals the one that wrote them.

Source: KIP-848; `ConsumerGroup`, `ConsumerGroupMember`, `ModernGroup` in Apache Kafka.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Set
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from functools import partial
from typing import Final, NamedTuple

from kafkawire.reference_broker.groups.refusals import check_in_transaction, known_member
from kafkawire.reference_broker.groups.requests import Commit
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.states import Edges

__all__ = [
    "CONSUMER_GROUP_EDGES",
    "MEMBER_EDGES",
    "NOTHING",
    "ClassicProtocol",
    "ConsumerGroup",
    "ConsumerGroupState",
    "ConsumerMember",
    "MemberState",
    "Partitions",
    "Resolved",
    "Subscription",
    "regexes_of",
    "topics_of",
]

#: Partition numbers, keyed by topic id.
Partitions = Mapping[bytes, frozenset[int]]

NOTHING: Partitions = {}

#: Topic names, and a regular expression, which may be empty, for further names.
Subscription = tuple[tuple[str, ...], str]

#: The epoch of a new group and of its target assignment, as in Kafka; the group's first subscription increases it.
_FIRST_EPOCH = 1


class ConsumerGroupState(StrEnum):
    """The state of a group; the values are those in ConsumerGroupDescribe."""

    #: It has no members.
    EMPTY = "Empty"
    #: The target assignment is older than the group's epoch, and is being computed.
    ASSIGNING = "Assigning"
    #: Some members have not reached the target assignment.
    RECONCILING = "Reconciling"
    #: All members have reached the target assignment.
    STABLE = "Stable"
    #: The group does not exist; only a request that looks it up sees this state.
    DEAD = "Dead"


#: The state is derived from the members, the group's epoch, and the target assignment's epoch: see
#: `ConsumerGroup.state`.
CONSUMER_GROUP_EDGES: Final = Edges(
    "a consumer group",
    (ConsumerGroupState.EMPTY,),
    {
        ConsumerGroupState.EMPTY: {
            ConsumerGroupState.STABLE: "the first member joins and gets all partitions",
            ConsumerGroupState.ASSIGNING: "the first member joins, but its topics are not known yet",
        },
        ConsumerGroupState.ASSIGNING: {
            ConsumerGroupState.RECONCILING: "a heartbeat computes the target, and partitions move",
            ConsumerGroupState.STABLE: "a heartbeat computes the target, and no member has to wait",
            ConsumerGroupState.EMPTY: "the last member leaves",
        },
        ConsumerGroupState.RECONCILING: {
            ConsumerGroupState.STABLE: "the last member reaches the target",
            ConsumerGroupState.ASSIGNING: "members, subscriptions or topics change",
            ConsumerGroupState.EMPTY: "the last member leaves",
        },
        ConsumerGroupState.STABLE: {
            ConsumerGroupState.ASSIGNING: "members, subscriptions or topics change",
            ConsumerGroupState.RECONCILING: "a heartbeat changes members or subscriptions and computes the target",
            ConsumerGroupState.EMPTY: "the last member leaves",
        },
    },
    is_derived=True,
)


class MemberState(IntEnum):
    """The state of a member; the values are those in its record. A later release may write other values."""

    #: The member has reached the target assignment.
    STABLE = 0
    #: The member has to revoke partitions before it gets new ones.
    UNREVOKED_PARTITIONS = 1
    #: The member is waiting for partitions that other members still own.
    UNRELEASED_PARTITIONS = 2
    #: An unknown state, written by a later release.
    UNKNOWN = 127

    @classmethod
    def _missing_(cls, value: object) -> MemberState:
        return cls.UNKNOWN


#: A member that is replayed, or comes from a classic group, can be in any of these states.
MEMBER_EDGES: Final = Edges(
    "a member of a consumer group",
    (MemberState.STABLE,),
    {
        MemberState.STABLE: {
            MemberState.STABLE: "it gets its full target, or nothing changes",
            MemberState.UNREVOKED_PARTITIONS: "it owns partitions outside its target",
            MemberState.UNRELEASED_PARTITIONS: "others still own part of its target",
        },
        MemberState.UNREVOKED_PARTITIONS: {
            MemberState.STABLE: "it has revoked them, and gets its full target",
            MemberState.UNREVOKED_PARTITIONS: "there is more to revoke",
            MemberState.UNRELEASED_PARTITIONS: "it has revoked them, but others still own part of its target",
        },
        MemberState.UNRELEASED_PARTITIONS: {
            MemberState.STABLE: "the others have revoked theirs",
            MemberState.UNREVOKED_PARTITIONS: "the next target assignment takes partitions away",
            MemberState.UNRELEASED_PARTITIONS: "some of the others have revoked theirs",
        },
        MemberState.UNKNOWN: {
            MemberState.STABLE: "it rejoins without partitions, and gets its full target",
            MemberState.UNRELEASED_PARTITIONS: "it rejoins without partitions, but others own part of its target",
        },
    },
)


class Resolved(NamedTuple):
    """The resolved topics of a regular expression.

    Attributes:
        topics: the names that the expression matches.
        version: the version of the set of topics that was searched; each new topic increases it.
        resolved_ms: when the expression was resolved.
    """

    topics: frozenset[str]
    version: int
    resolved_ms: int


class ClassicProtocol(NamedTuple):
    """The state of a member that uses the classic protocol while its group is being migrated.

    Attributes:
        session_timeout_ms: the maximum time between heartbeats.
        protocols: the assignors that the member supports, with its metadata for each.
    """

    session_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]


@dataclass(frozen=True, slots=True)
class ConsumerMember:
    """A member of a consumer group.

    Attributes:
        member_id: the member's id.
        instance_id: the id of a static member, or None for a dynamic one.
        rack_id: the member's rack, or None if unknown.
        client_id: the client's own name.
        client_host: the host from which the client connects.
        rebalance_timeout_ms: how long it may take to revoke partitions.
        topics: the topic names that the member is subscribed to, sorted.
        assignor: the requested assignor, or None to use the group's.
        epoch: the group epoch that the member has reached.
        previous_epoch: the previous epoch, which the member still uses if a response was lost.
        state: see `MemberState`.
        assigned: owned partitions that the member may keep.
        revoking: partitions that the member owns until it reports having revoked them.
        since: for each owned partition, identified by topic id and number, the epoch in which the member received it
            (KIP-1251).
        regex: subscription pattern for further names; empty for none.
        classic: set if the member uses the classic protocol, in which its epoch is called a generation.
    """

    member_id: str
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout_ms: int = -1
    topics: tuple[str, ...] = ()
    assignor: str | None = None
    epoch: int = 0
    previous_epoch: int = 0
    state: MemberState = MemberState.STABLE
    assigned: Partitions = field(default_factory=dict)
    revoking: Partitions = field(default_factory=dict)
    since: Mapping[tuple[bytes, int], int] = field(default_factory=dict)
    regex: str = ""
    classic: ClassicProtocol | None = None

    @property
    def owned(self) -> Partitions:
        """The partitions that the member owns, including those to revoke."""
        return {
            topic_id: self.assigned.get(topic_id, frozenset()) | self.revoking.get(topic_id, frozenset())
            for topic_id in {**self.assigned, **self.revoking}
        }

    @property
    def subscription(self) -> Subscription:
        """The subscribed names and the expression."""
        return self.topics, self.regex

    def is_reconciled_to(self, epoch: int) -> bool:
        """Return whether the member owns exactly its partitions in an assignment of this epoch."""
        return self.state is MemberState.STABLE and self.epoch == epoch


@dataclass(slots=True)
class ConsumerGroup:
    """A consumer group.

    Attributes:
        group_id: the group's id.
        epoch: increases when members, subscriptions or topics change.
        metadata_hash: hash of the subscribed topics at the last check.
        members: the members, keyed by id.
        static_members: member ids by instance id.
        target: the target assignment, keyed by member id.
        assignment_epoch: the group epoch of the target assignment.
        assigned_ms: when the target assignment was computed; 0 if never.
        owners: the owner of each partition, keyed by topic id and number.
        resolved: resolved regular expressions; unresolved ones are absent.
        subscriptions: the number of members with each subscription, which saves a heartbeat from checking all members.
        classic_count: the number of members that use the classic protocol.
        looked_at: see `has_looked_at`; this is not part of the state in the log.
    """

    group_id: str
    epoch: int = _FIRST_EPOCH
    metadata_hash: int = 0
    members: dict[str, ConsumerMember] = field(default_factory=dict)
    static_members: dict[str, str] = field(default_factory=dict)
    target: dict[str, Partitions] = field(default_factory=dict)
    assignment_epoch: int = _FIRST_EPOCH
    assigned_ms: int = 0
    owners: dict[tuple[bytes, int], str] = field(default_factory=dict)
    resolved: dict[str, Resolved] = field(default_factory=dict)
    subscriptions: Counter[Subscription] = field(default_factory=Counter)
    classic_count: int = 0
    looked_at: tuple[int, int] = field(default=(-1, 0), compare=False)

    @property
    def state(self) -> ConsumerGroupState:
        """The state of the group."""
        if not self.members:
            return ConsumerGroupState.EMPTY
        if self.epoch > self.assignment_epoch:
            return ConsumerGroupState.ASSIGNING
        if all(member.is_reconciled_to(self.assignment_epoch) for member in self.members.values()):
            return ConsumerGroupState.STABLE
        return ConsumerGroupState.RECONCILING

    @property
    def is_classic(self) -> bool:
        """Whether all members use the classic protocol; they continue to if the group cannot become a classic one."""
        return self.classic_count == len(self.members)

    def is_subscribed_to(self, topic: str) -> bool:
        """Return whether any member is subscribed to a topic, by name or by regular expression."""
        return any(
            topic in names or (regex in self.resolved and topic in self.resolved[regex].topics)
            for names, regex in self.subscriptions
        )

    def has_looked_at(self, changes: int) -> bool:
        """Return whether the topics of the group's members are known to match `metadata_hash`.

        Args:
            changes: the counter in `Topics`; the epoch written at this count must have reached the log.
        """
        return self.looked_at[0] == changes and self.looked_at[1] <= self.epoch

    def subscriptions_after(
        self, leaving: Iterable[ConsumerMember], coming: ConsumerMember | None = None
    ) -> Collection[Subscription]:
        """Return the subscriptions of all members after some have left and one has joined or changed."""
        gone = Counter(member.subscription for member in leaving)
        left = [each for each, count in self.subscriptions.items() if count > gone[each]]
        return left if coming is None else {*left, coming.subscription}

    def supports_classic(self, names: Collection[str]) -> bool:
        """Return whether all members with the classic protocol support one of these assignors."""
        classic = [member.classic for member in self.members.values() if member.classic is not None]
        return any(all(name in dict(each.protocols) for each in classic) for name in names)

    def waits_for_release(self, member: ConsumerMember) -> bool:
        """Return whether another member still owns part of a member's target."""
        return any(
            number not in member.assigned.get(topic_id, ()) and (topic_id, number) in self.owners
            for topic_id, numbers in self.target.get(member.member_id, NOTHING).items()
            for number in numbers
        )

    def put(self, member: ConsumerMember) -> None:
        """Add or replace a member."""
        known = self.members.get(member.member_id)
        self._disown(known)
        self._count(known, -1)
        self._count(member, 1)
        if known is not None and known.instance_id != member.instance_id:
            self._free_instance(known)
        self.members[member.member_id] = member
        if member.instance_id is not None:
            self.static_members[member.instance_id] = member.member_id
        for owned in (member.assigned, member.revoking):
            for topic_id, numbers in owned.items():
                for number in numbers:
                    self.owners[topic_id, number] = member.member_id

    def remove(self, member_id: str) -> None:
        """Remove a member."""
        member = self.members.pop(member_id, None)
        self._disown(member)
        self._count(member, -1)
        if member is not None:
            self._free_instance(member)

    def _count(self, member: ConsumerMember | None, step: int) -> None:
        if member is None:
            return
        self.subscriptions[member.subscription] += step
        if not self.subscriptions[member.subscription]:
            del self.subscriptions[member.subscription]
        self.classic_count += step * (member.classic is not None)

    def _free_instance(self, member: ConsumerMember) -> None:
        """Release an instance id, unless a replacing member has taken it over."""
        if member.instance_id is not None and self.static_members.get(member.instance_id) == member.member_id:
            del self.static_members[member.instance_id]

    def _disown(self, member: ConsumerMember | None) -> None:
        if member is None:
            return
        for owned in (member.assigned, member.revoking):
            for topic_id, numbers in owned.items():
                for number in numbers:
                    if self.owners.get((topic_id, number)) == member.member_id:
                        del self.owners[topic_id, number]

    # Checks.

    def known(self, member_id: str, instance_id: str | None) -> ConsumerMember:
        """Return a member after checking its identity.

        Raises:
            BrokerError: UNKNOWN_MEMBER_ID, or FENCED_INSTANCE_ID if another member has the instance id.
        """
        if instance_id is not None:
            holder = self.static_members.get(instance_id)
            if holder is None:
                raise BrokerError(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {instance_id} is unknown.")
            if holder != member_id:
                raise BrokerError(
                    ErrorCode.FENCED_INSTANCE_ID,
                    f"Static member {member_id} with instance id {instance_id} was fenced by member {holder}.",
                )
        return known_member(self.group_id, self.members, member_id)

    def check_commit(
        self,
        member_id: str,
        epoch: int,
        partitions: Collection[tuple[bytes, int]] = (),
        *,
        knows_epochs: bool = True,
    ) -> None:
        """Check an offset commit.

        Args:
            member_id: the member's id.
            epoch: the epoch in the request.
            partitions: the partitions, identified by topic id and number; an old epoch suffices if the member has owned
                all of them since that epoch (KIP-1251), or if there are none.
            knows_epochs: see `Commit`.

        Raises:
            BrokerError: UNKNOWN_MEMBER_ID; UNSUPPORTED_VERSION; STALE_MEMBER_EPOCH, which a heartbeat of the member
                resolves, or ILLEGAL_GENERATION if the member uses the classic protocol.
        """
        if epoch < 0 and not self.members:
            return
        member = self.known(member_id, None)
        if member.classic is None and not knows_epochs:
            text = "OffsetCommit version 9 or above must be used by members using the consumer group protocol"
            raise BrokerError(ErrorCode.UNSUPPORTED_VERSION, text)
        if epoch < member.epoch and all(member.since.get(each, member.epoch) <= epoch for each in partitions):
            return
        _check_epoch(member, epoch)

    def check_fetch(self, member_id: str, epoch: int) -> None:
        """Check that a member may read offsets.

        Raises:
            BrokerError: UNKNOWN_MEMBER_ID; STALE_MEMBER_EPOCH, or ILLEGAL_GENERATION for the classic protocol.
        """
        _check_epoch(self.known(member_id, None), epoch)

    def check_commit_in_transaction(self, commit: Commit, partitions: Collection[tuple[bytes, int]]) -> None:
        """Check an offset commit in a transaction, from a member or from a producer without member data.

        Args:
            commit: the committer.
            partitions: see `check_commit`.

        Raises:
            BrokerError: UNKNOWN_MEMBER_ID, or ILLEGAL_GENERATION, the only code that producers know for a wrong epoch.
        """
        check_in_transaction(commit, partial(self.check_commit, commit.member_id, commit.generation_id, partitions))


def regexes_of(subscriptions: Iterable[Subscription]) -> Set[str]:
    """Return the expressions in subscriptions."""
    return {regex for _, regex in subscriptions if regex}


def topics_of(subscriptions: Iterable[Subscription], resolved: Mapping[str, Resolved]) -> Set[str]:
    """Return the topic names in subscriptions, including those of missing topics."""
    found: set[str] = set()
    for names, regex in subscriptions:
        found.update(names)
        if regex in resolved:
            found |= resolved[regex].topics
    return found


def _check_epoch(member: ConsumerMember, epoch: int) -> None:
    if epoch != member.epoch:
        code = ErrorCode.STALE_MEMBER_EPOCH if member.classic is None else ErrorCode.ILLEGAL_GENERATION
        raise BrokerError(code, f"the request has epoch {epoch}, but the member has epoch {member.epoch}")
