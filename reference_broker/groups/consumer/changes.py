"""What follows when members join, change or leave a consumer group: the member's records, the group's next epoch, the
target assignment, and the member's next step towards it.

Both member protocols, `heartbeats.py` and `classic_protocol.py`, share this code. Only records change a group.

Source: KIP-848; `GroupMetadataManager.updateSubscriptionMetadata`, `maybeUpdateTargetAssignment`, `maybeReconcile` in
Apache Kafka.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace

from kafkawire.reference_broker.coordinators.shard import ShardTimers
from kafkawire.reference_broker.groups.consumer.assignors import ASSIGNORS, DEFAULT_ASSIGNOR
from kafkawire.reference_broker.groups.consumer.group import (
    NOTHING,
    ConsumerGroup,
    ConsumerMember,
    MemberState,
    Partitions,
    Subscription,
    regexes_of,
    topics_of,
)
from kafkawire.reference_broker.groups.consumer.reconciliation import reconciled
from kafkawire.reference_broker.groups.consumer.records import (
    current_record,
    epoch_record,
    group_value_record,
    member_record,
    member_tombstones,
    regex_tombstones,
    target_record,
)
from kafkawire.reference_broker.groups.consumer.resolution import Resolution
from kafkawire.reference_broker.groups.consumer.subscribers import Subscriber
from kafkawire.reference_broker.groups.deadlines import Deadline, Deadlines
from kafkawire.reference_broker.groups.migration import Migration
from kafkawire.reference_broker.groups.outbox import Outbox
from kafkawire.reference_broker.groups.refusals import full_group
from kafkawire.reference_broker.groups.requests import GroupLimits
from kafkawire.reference_broker.groups.topics import Topics, metadata_hash
from kafkawire.reference_broker.work.computations import Computations

__all__ = ["Change", "Changes", "preferred_assignor"]


class Change:
    """A joining or changing member, and the resulting group.

    Args:
        group: the current group.
        member: the member's previous state, or an empty one.
        updated: the member's new state.
        replaced: the id of the static member that this member replaces.
        may_describe: tells whether the member may describe a topic; None if it may describe all of them.
    """

    def __init__(
        self,
        group: ConsumerGroup,
        member: ConsumerMember,
        updated: ConsumerMember,
        replaced: str | None,
        may_describe: Callable[[str], bool] | None = None,
    ) -> None:
        self.group = group
        self.member = member
        self.updated = updated
        self.replaced = replaced
        self.may_describe = may_describe
        self.is_known = updated == member
        #: A replacing member takes over, and the partitions of the replaced member become free.
        self.leaves_place = replaced not in (None, updated.member_id) and updated.member_id in group.members
        self.has_subscription_changed = updated.subscription != member.subscription
        places = [group.members.get(name) for name in {replaced or updated.member_id, updated.member_id}]
        self.subscriptions = group.subscriptions_after([each for each in places if each is not None], updated)
        #: Whether the subscribed topics change; those of an unresolved expression change once it is resolved.
        self.have_topics_changed = updated.topics != member.topics or (
            updated.regex != member.regex and (not updated.regex or updated.regex in group.resolved)
        )

    def members(self) -> dict[str, ConsumerMember]:
        """Return the members after the change."""
        members = {name: known for name, known in self.group.members.items() if name != self.replaced}
        members[self.updated.member_id] = self.updated
        return members

    def target_of(self, member_id: str) -> Partitions:
        """Return a member's partitions in the last target assignment."""
        if member_id == self.updated.member_id and self.replaced is not None:
            return self.group.target.get(self.replaced, NOTHING)
        return self.group.target.get(member_id, NOTHING)


class Changes:
    """Applies changes to the consumer groups of a shard.

    Args:
        groups: the groups, keyed by id; only replaying records changes them.
        timers: timers for deadlines.
        outbox: receives the records.
        limits: see `GroupLimits`.
        topics: see `Topics`.
        migration: converts groups to classic ones.
        computations: runs the matching of topic names.

    Attributes:
        deadlines: the deadlines of the groups' members.
        resolution: the resolution of the groups' expressions.
    """

    def __init__(
        self,
        groups: dict[str, ConsumerGroup],
        timers: ShardTimers,
        outbox: Outbox,
        limits: GroupLimits,
        topics: Topics,
        migration: Migration,
        computations: Computations,
    ) -> None:
        self._outbox = outbox
        self._limits = limits
        self._topics = topics
        self._migration = migration
        self.deadlines: Deadlines[ConsumerGroup, ConsumerMember] = Deadlines(
            groups, timers, outbox, lambda group, member, now_ms: self.fence(group, [member.member_id], now_ms)
        )

        self.resolution = Resolution(groups, timers, computations, outbox, limits, topics)

    # Joins and changes.

    def check_room(self, group: ConsumerGroup, member_id: str) -> None:
        """Check that a member may join.

        Raises:
            BrokerError: GROUP_MAX_SIZE_REACHED.
        """
        size_max = self._limits.group_consumer_max_size
        if len(group.members) >= size_max and member_id not in group.members:
            raise full_group("consumer", size_max)

    def replace_static(self, group: ConsumerGroup, holder: ConsumerMember, member_id: str) -> ConsumerMember:
        """Return the initial state of a member that replaces a static one."""
        new = replace(holder, member_id=member_id, epoch=0, previous_epoch=0)
        if member_id != holder.member_id:
            # Keep the timers of the replaced member until its removal is certain.
            self._outbox.add_all(member_tombstones(group.group_id, holder.member_id))
        self._outbox.add(member_record(group.group_id, new))
        self._outbox.add(target_record(group.group_id, member_id, group.target.get(holder.member_id, NOTHING)))
        self._outbox.add(current_record(group.group_id, new))
        return new

    def write_member(self, change: Change, now_ms: int, *, raises_epoch: bool = False) -> int:
        """Write a member's new state; return the group epoch, higher if subscriptions or topics have changed."""
        group = change.group
        if not change.is_known:
            self._outbox.add(member_record(group.group_id, change.updated))
        if not change.is_known or change.leaves_place:
            self._forget_regexes(group, change.subscriptions)
        self.resolution.begin_if_stale(group, regexes_of(change.subscriptions), now_ms, change.may_describe)
        raises_epoch = raises_epoch or change.leaves_place or change.have_topics_changed
        changes = self._topics.changes
        if not raises_epoch and group.has_looked_at(changes):
            return group.epoch
        metadata_hash = self._metadata_hash(group, change.subscriptions)
        epoch = group.epoch + (raises_epoch or metadata_hash != group.metadata_hash)
        if epoch > group.epoch:
            self._outbox.add(group_value_record(group.group_id, epoch, metadata_hash))
        group.looked_at = changes, epoch
        return epoch

    def write_step(self, change: Change, epoch: int, owned: Partitions | None, now_ms: int) -> ConsumerMember:
        """Write the target assignment for a new epoch, if one is due, and the member's next step towards it.

        Args:
            change: the member's change.
            epoch: the group epoch.
            owned: the partitions that the member reports as owned, or None if it does not report any.
            now_ms: the current time.

        Returns:
            The member after its step.
        """
        group, updated = change.group, change.updated
        target_epoch, target = group.assignment_epoch, change.target_of(updated.member_id)
        if epoch > target_epoch and self._may_assign(group, now_ms):
            target_epoch = epoch
            target = self._assign(change, epoch, now_ms)[updated.member_id]
        return self.write_reconciled(change, target_epoch, target, owned, now_ms)

    def write_reconciled(
        self, change: Change, target_epoch: int, target: Partitions, owned: Partitions | None, now_ms: int
    ) -> ConsumerMember:
        """Write a member's next step towards a target assignment; return the resulting member."""
        group, updated = change.group, change.updated
        if updated.is_reconciled_to(target_epoch) and not change.has_subscription_changed:
            return updated
        names = topics_of([updated.subscription], group.resolved)
        moved = reconciled(
            updated,
            target_epoch,
            target,
            owned,
            lambda *partition: partition in group.owners,
            {self._topics[name].topic_id for name in names if name in self._topics},
            has_changed=change.has_subscription_changed,
        )
        if moved != updated:
            self._outbox.add(current_record(group.group_id, moved))
            self._expect_revocation(group.group_id, moved, now_ms)
        return moved

    def _expect_revocation(self, group_id: str, member: ConsumerMember, now_ms: int) -> None:
        """Expect a member to revoke partitions; with the classic protocol, it does so by rejoining and syncing."""
        if member.classic is not None:
            return
        if member.state is MemberState.UNREVOKED_PARTITIONS:
            timeout_ms = member.rebalance_timeout_ms
            self.deadlines.set(Deadline.REVOCATION, group_id, member.member_id, timeout_ms, now_ms, member.epoch)
        else:
            self.deadlines.done(Deadline.REVOCATION, group_id, member.member_id)

    def expect_all(self, group: ConsumerGroup, now_ms: int) -> None:
        """Expect a heartbeat from every member of a group, and a revocation from those with partitions to revoke."""
        for member in group.members.values():
            self.expect_heard(group.group_id, member, now_ms)
            if member.state is MemberState.UNREVOKED_PARTITIONS:
                self._expect_revocation(group.group_id, member, now_ms)

    def expect_heard(self, group_id: str, member: ConsumerMember, now_ms: int) -> None:
        """Restart a member's session."""
        classic = member.classic
        limits = self._limits
        timeout_ms = limits.consumer_session_timeout_ms(group_id) if classic is None else classic.session_timeout_ms
        self.deadlines.set(Deadline.SESSION, group_id, member.member_id, timeout_ms, now_ms)

    # Leaving.

    def fence(self, group: ConsumerGroup, member_ids: Collection[str], now_ms: int) -> None:
        """Remove members; the other members get their partitions with their next heartbeats."""
        if self._migration.may_downgrade(group, member_ids):
            self._migration.downgrade(group, member_ids, None, now_ms, is_rebalancing=True)
            return
        for member_id in member_ids:
            self._outbox.add_all(member_tombstones(group.group_id, member_id))
        others = group.subscriptions_after(group.members[member_id] for member_id in {*member_ids})
        self._forget_regexes(group, others)
        self._outbox.add(group_value_record(group.group_id, group.epoch + 1, self._metadata_hash(group, others)))

    def _forget_regexes(self, group: ConsumerGroup, subscriptions: Iterable[Subscription]) -> None:
        """Write the removal of expressions that no longer have subscribers."""
        if group.resolved:
            used = regexes_of(subscriptions)
            self._outbox.add_all(
                regex_tombstones(group.group_id, [regex for regex in group.resolved if regex not in used])
            )

    # Epochs and assignments.

    def _metadata_hash(self, group: ConsumerGroup, subscriptions: Iterable[Subscription]) -> int:
        """Return a hash that changes when the subscribed topics do; 0 if there are none."""
        return metadata_hash(topics_of(subscriptions, group.resolved), self._topics)

    def is_outdated(self, group: ConsumerGroup) -> bool:
        """Return whether a group's topics have changed; this takes effect with the next join request of a member."""
        changes = self._topics.changes
        if group.has_looked_at(changes):
            return False
        if self._metadata_hash(group, group.subscriptions) != group.metadata_hash:
            return True
        group.looked_at = changes, group.epoch
        return False

    def awaited_epoch(self, group: ConsumerGroup, now_ms: int) -> int:
        """Return the epoch that requires members with the classic protocol to rejoin.

        A heartbeat of a KIP-848 member also computes a new target assignment. Without KIP-848 members, a rejoining
        member computes it, but only once a new assignment is allowed; until then, rejoining has no effect.
        """
        return group.epoch if group.is_classic and self._may_assign(group, now_ms) else group.assignment_epoch

    def _may_assign(self, group: ConsumerGroup, now_ms: int) -> bool:
        """Return whether changes since the last assignment have been collected for long enough."""
        interval_ms = self._limits.consumer_assignment_interval_ms(group.group_id)
        return not group.assigned_ms or not interval_ms or now_ms - group.assigned_ms >= interval_ms

    def _assign(self, change: Change, epoch: int, now_ms: int) -> dict[str, Partitions]:
        """Compute the target assignment for a new epoch, and write the changes."""
        group = change.group
        counts: dict[bytes, int] = {}
        subscribers: dict[str, Subscriber] = {}
        # Most members of a group have identical subscriptions.
        known: dict[Subscription, frozenset[bytes]] = {}
        for member_id, member in change.members().items():
            topic_ids = known.get(member.subscription)
            if topic_ids is None:
                names = sorted(topics_of([member.subscription], group.resolved))
                facts = [self._topics[name] for name in names if name in self._topics]
                counts.update((found.topic_id, found.partitions) for found in facts)
                topic_ids = known[member.subscription] = frozenset(found.topic_id for found in facts)
            subscribers[member_id] = Subscriber(member.instance_id, topic_ids, change.target_of(member_id))
        assignment = ASSIGNORS[_preferred_after(change)](
            subscribers, counts, is_homogeneous=_are_same(change.subscriptions)
        )
        for member_id, target in assignment.items():
            is_new = member_id not in group.target
            if is_new or change.target_of(member_id) != target:
                self._outbox.add(target_record(group.group_id, member_id, target))
        self._outbox.add(epoch_record(group.group_id, epoch, now_ms))
        return assignment


def _are_same(subscriptions: Collection[Subscription]) -> bool:
    """Return whether all members are subscribed to the same names, or all to the same expression alone."""
    return len(subscriptions) == 1 and not all(next(iter(subscriptions)))


def preferred_assignor(members: Mapping[str, ConsumerMember]) -> str:
    """Return the assignor that most members request."""
    return _first(_votes(members))


def _preferred_after(change: Change) -> str:
    """Return the assignor that most members request after a change; a tie goes to the one just requested."""
    votes = _votes(change.group.members)
    before, now = change.member.assignor, change.updated.assignor
    if before is not None:
        votes[before] -= 1
        if not votes[before]:
            del votes[before]
    if now is not None:
        votes = {now: 1, **votes} if now not in votes else {**votes, now: votes[now] + 1}
    return _first(votes)


def _votes(members: Mapping[str, ConsumerMember]) -> dict[str, int]:
    """Return the number of members that request each assignor, in tie-breaking order."""
    counts = Counter(member.assignor for member in members.values())
    return {name: counts[name] for name in ASSIGNORS if counts[name]}


def _first(votes: Mapping[str, int]) -> str:
    return max(votes, key=votes.__getitem__) if votes else DEFAULT_ASSIGNOR
