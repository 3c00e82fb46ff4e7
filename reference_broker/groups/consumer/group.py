"""A consumer group of KIP-848: members, the target assignment, and who owns which partition.

Changes come from records alone, so that a loaded group equals the one that wrote them.

Source: KIP-848; `ConsumerGroup`, `ConsumerGroupMember`, `ModernGroup` in Apache Kafka.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Set
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from typing import Final, NamedTuple

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

#: Partition numbers by topic id.
Partitions = Mapping[bytes, frozenset[int]]

NOTHING: Partitions = {}

#: Names of topics, and an expression for further ones, which may be empty.
Subscription = tuple[tuple[str, ...], str]

#: What a producer says that knows nothing of a member.
_NO_EPOCH = -1

#: The epoch of a new group and of its target assignment, as in Kafka; its first subscription raises it.
_FIRST_EPOCH = 1


class ConsumerGroupState(StrEnum):
    """The state of a group; the values are those of ConsumerGroupDescribe."""

    #: It has no members.
    EMPTY = "Empty"
    #: The target assignment is older than the group: it is being computed.
    ASSIGNING = "Assigning"
    #: Not every member has what the target assignment gives it.
    RECONCILING = "Reconciling"
    #: Every member has what the target assignment gives it.
    STABLE = "Stable"
    #: It does not exist; only a request that asks for it is told so.
    DEAD = "Dead"


#: The state follows from the members, the epoch of the group and that of the target assignment: `ConsumerGroup.state`.
CONSUMER_GROUP_EDGES: Final = Edges(
    "a consumer group",
    (ConsumerGroupState.EMPTY,),
    {
        ConsumerGroupState.EMPTY: {
            ConsumerGroupState.STABLE: "the first member joins, and gets everything",
            ConsumerGroupState.ASSIGNING: "the first member joins, its topics are not known yet",
        },
        ConsumerGroupState.ASSIGNING: {
            ConsumerGroupState.RECONCILING: "a heartbeat computes the target, and partitions move",
            ConsumerGroupState.STABLE: "a heartbeat computes the target, and nobody has to wait",
            ConsumerGroupState.EMPTY: "the last member goes",
        },
        ConsumerGroupState.RECONCILING: {
            ConsumerGroupState.STABLE: "the last member has what it is to own",
            ConsumerGroupState.ASSIGNING: "members, subscriptions or topics change",
            ConsumerGroupState.EMPTY: "the last member goes",
        },
        ConsumerGroupState.STABLE: {
            ConsumerGroupState.ASSIGNING: "members, subscriptions or topics change",
            ConsumerGroupState.RECONCILING: "they change by a heartbeat, which computes the target",
            ConsumerGroupState.EMPTY: "the last member goes",
        },
    },
    is_derived=True,
)


class MemberState(IntEnum):
    """How far a member is; the values are those of its record. A later release may write others."""

    #: It has what the target assignment gives it.
    STABLE = 0
    #: It has to give partitions up before it gets others.
    UNREVOKED_PARTITIONS = 1
    #: It waits for partitions that other members still have.
    UNRELEASED_PARTITIONS = 2
    #: A later release wrote a state that is not known here.
    UNKNOWN = 127

    @classmethod
    def _missing_(cls, value: object) -> MemberState:
        return cls.UNKNOWN


#: A member that is read from its record, or comes from a classic group, may be in any of these states.
MEMBER_EDGES: Final = Edges(
    "a member of a consumer group",
    (MemberState.STABLE,),
    {
        MemberState.STABLE: {
            MemberState.STABLE: "it gets all that it is to own, or nothing changes",
            MemberState.UNREVOKED_PARTITIONS: "it has what it is not to own any more",
            MemberState.UNRELEASED_PARTITIONS: "others still have what it is to own",
        },
        MemberState.UNREVOKED_PARTITIONS: {
            MemberState.STABLE: "it has revoked, and gets all that it is to own",
            MemberState.UNREVOKED_PARTITIONS: "there is more to revoke",
            MemberState.UNRELEASED_PARTITIONS: "it has revoked, and others still have what it is to own",
        },
        MemberState.UNRELEASED_PARTITIONS: {
            MemberState.STABLE: "the others have revoked",
            MemberState.UNREVOKED_PARTITIONS: "the next target assignment takes something away",
            MemberState.UNRELEASED_PARTITIONS: "some of the others have revoked",
        },
        MemberState.UNKNOWN: {
            MemberState.STABLE: "it joins again, owning nothing, and gets all that it is to own",
            MemberState.UNRELEASED_PARTITIONS: "it joins again, owning nothing, and others have what it is to own",
        },
    },
)


class Resolved(NamedTuple):
    """What a regular expression stands for.

    Attributes:
        topics: the names that it matches.
        version: of the topics among which they were found: a topic that comes raises it.
        resolved_ms: when they were found.
    """

    topics: frozenset[str]
    version: int
    resolved_ms: int


class ClassicProtocol(NamedTuple):
    """What is known of a member that speaks the classic protocol, while its group changes from one to the other.

    Attributes:
        session_timeout_ms: how long it may go without a heartbeat.
        protocols: the assignors it supports, with its metadata for each.
    """

    session_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]


@dataclass(frozen=True, slots=True)
class ConsumerMember:
    """A member of a consumer group.

    Attributes:
        member_id: of the member.
        instance_id: the id of a static member, None for a dynamic one.
        rack_id: where it runs, None if not known.
        client_id: the client's name for itself.
        client_host: the host it connects from.
        rebalance_timeout_ms: how long it may take to revoke partitions.
        topics: the names it is subscribed to, sorted.
        assignor: the one it asks for, None for the group's.
        epoch: the group epoch that it has reached.
        previous_epoch: the one before, which it still has if a response was lost.
        state: see `MemberState`.
        assigned: what it owns and may keep.
        revoking: what it owns until it says that it does not.
        since: the epoch at which it was given each of these partitions, by topic id and number (KIP-1251).
        regex: an expression for further names that it is subscribed to; empty for none.
        classic: set if it speaks the classic protocol, where its epoch is called a generation.
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
        """What it owns, whether it may keep it or not."""
        return {
            topic_id: self.assigned.get(topic_id, frozenset()) | self.revoking.get(topic_id, frozenset())
            for topic_id in {**self.assigned, **self.revoking}
        }

    @property
    def subscription(self) -> Subscription:
        """The names that it is subscribed to, and the expression."""
        return self.topics, self.regex

    def is_reconciled_to(self, epoch: int) -> bool:
        """Return whether it has exactly what an assignment of this epoch gives it."""
        return self.state is MemberState.STABLE and self.epoch == epoch


@dataclass(slots=True)
class ConsumerGroup:
    """A consumer group.

    Attributes:
        group_id: its id.
        epoch: grows with members, subscriptions and topics.
        metadata_hash: of the topics that members are subscribed to, when they were last looked at.
        members: by member id.
        static_members: member ids by instance id.
        target: what each member is to own.
        assignment_epoch: the group epoch of the target assignment.
        assigned_ms: when that was computed, 0 if never.
        owners: the member that owns a partition, by topic id and number.
        resolved: what regular expressions stand for; not there yet if that is still to be found out.
        subscriptions: how many members have each of them, so that a heartbeat need not look at all members.
        classic_count: how many members speak the classic protocol.
        looked_at: see `has_looked_at`; no part of what the log says.
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
        """How far the group is."""
        if not self.members:
            return ConsumerGroupState.EMPTY
        if self.epoch > self.assignment_epoch:
            return ConsumerGroupState.ASSIGNING
        if all(member.is_reconciled_to(self.assignment_epoch) for member in self.members.values()):
            return ConsumerGroupState.STABLE
        return ConsumerGroupState.RECONCILING

    @property
    def is_classic(self) -> bool:
        """Whether all members speak the classic protocol, as when the group may not become a classic one."""
        return self.classic_count == len(self.members)

    def is_subscribed_to(self, topic: str) -> bool:
        """Return whether a member is subscribed to a topic, by name or by a regular expression."""
        return any(
            topic in names or (regex in self.resolved and topic in self.resolved[regex].topics)
            for names, regex in self.subscriptions
        )

    def has_looked_at(self, changes: int) -> bool:
        """Return whether the topics of its members are known to be those of `metadata_hash`.

        Args:
            changes: see `Topics`; the epoch that was written then must have come into the log.
        """
        return self.looked_at[0] == changes and self.looked_at[1] <= self.epoch

    def subscriptions_after(
        self, leaving: Iterable[ConsumerMember], coming: ConsumerMember | None = None
    ) -> Collection[Subscription]:
        """Return the subscriptions of all members once some have left and one has come or changed."""
        gone = Counter(member.subscription for member in leaving)
        left = [each for each, count in self.subscriptions.items() if count > gone[each]]
        return left if coming is None else {*left, coming.subscription}

    def supports_classic(self, names: Collection[str]) -> bool:
        """Return whether the members that speak the classic protocol have one of these assignors in common."""
        classic = [member.classic for member in self.members.values() if member.classic is not None]
        return any(all(name in dict(each.protocols) for each in classic) for name in names)

    def waits_for_release(self, member: ConsumerMember) -> bool:
        """Return whether another member still owns what a member is to own."""
        return any(
            number not in member.assigned.get(topic_id, ()) and (topic_id, number) in self.owners
            for topic_id, numbers in self.target.get(member.member_id, NOTHING).items()
            for number in numbers
        )

    def put(self, member: ConsumerMember) -> None:
        """Add a member, or replace what was known of it."""
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
        """Forget who has an instance id, unless a member that replaces the static one has taken it over."""
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
        member = self.members.get(member_id)
        if member is None:
            raise BrokerError(
                ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} is not a member of group {self.group_id}."
            )
        return member

    def check_commit(
        self,
        member_id: str,
        epoch: int,
        partitions: Collection[tuple[bytes, int]] = (),
        *,
        knows_epochs: bool = True,
    ) -> None:
        """Check that offsets may be committed.

        Args:
            member_id: of the member.
            epoch: the one that it knows.
            partitions: what it commits, by topic id and number; an epoch that has passed will do for what it has had
                since then (KIP-1251), or for nothing.
            knows_epochs: see `Commit`.

        Raises:
            BrokerError: UNKNOWN_MEMBER_ID; UNSUPPORTED_VERSION; STALE_MEMBER_EPOCH, which the member overcomes by a
                heartbeat, or ILLEGAL_GENERATION if it speaks the classic protocol.
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
            BrokerError: UNKNOWN_MEMBER_ID; STALE_MEMBER_EPOCH, or ILLEGAL_GENERATION if it speaks the classic protocol.
        """
        _check_epoch(self.known(member_id, None), epoch)

    def check_commit_in_transaction(self, commit: Commit, partitions: Collection[tuple[bytes, int]]) -> None:
        """Check that offsets may be committed with a transaction, by a member, or by a producer that names none.

        Args:
            commit: by whom, and what is known of the group.
            partitions: see `check_commit`.

        Raises:
            BrokerError: UNKNOWN_MEMBER_ID, or ILLEGAL_GENERATION, the only name for another epoch that producers know.
        """
        if commit.generation_id == _NO_EPOCH and not commit.member_id and commit.instance_id is None:
            return
        try:
            self.check_commit(commit.member_id, commit.generation_id, partitions)
        except BrokerError as error:
            if error.code is not ErrorCode.STALE_MEMBER_EPOCH:
                raise
            raise BrokerError(ErrorCode.ILLEGAL_GENERATION, error.detail) from None


def regexes_of(subscriptions: Iterable[Subscription]) -> Set[str]:
    """Return the expressions of subscriptions."""
    return {regex for _, regex in subscriptions if regex}


def topics_of(subscriptions: Iterable[Subscription], resolved: Mapping[str, Resolved]) -> Set[str]:
    """Return the names of subscriptions, of the topics that exist or not."""
    found: set[str] = set()
    for names, regex in subscriptions:
        found.update(names)
        if regex in resolved:
            found |= resolved[regex].topics
    return found


def _check_epoch(member: ConsumerMember, epoch: int) -> None:
    if epoch != member.epoch:
        code = ErrorCode.STALE_MEMBER_EPOCH if member.classic is None else ErrorCode.ILLEGAL_GENERATION
        raise BrokerError(code, f"epoch {epoch}, the member's is {member.epoch}")
