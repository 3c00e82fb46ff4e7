"""The share groups of one shard: heartbeats, sessions, assignments, and the share partitions that have a state.

An operation that needs the persister is done in two steps: the first one writes what is about to happen and returns
what the persister has to do (see `ShareGroups`); the second one writes the outcome.

Source: KIP-932; `GroupMetadataManager`, `GroupCoordinatorShard` in Apache Kafka, whose order of checks and texts are
kept.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace

from kafkawire.reference_broker.coordinators.shard import CoordinatorRecord, ShardTimers
from kafkawire.reference_broker.groups.consumer.group import Partitions
from kafkawire.reference_broker.groups.deadlines import Deadline, Deadlines
from kafkawire.reference_broker.groups.outbox import Outbox
from kafkawire.reference_broker.groups.refusals import full_group, missing_group, other_type, wrong_epoch
from kafkawire.reference_broker.groups.share.group import ShareGroup, ShareMember
from kafkawire.reference_broker.groups.share.records import (
    current_record,
    epoch_record,
    group_tombstones,
    group_value_record,
    member_record,
    member_tombstones,
    replay,
    states_record,
    target_record,
)
from kafkawire.reference_broker.groups.share.requests import (
    NO_ERROR,
    Beat,
    NewStates,
    OffsetAlteration,
    Refusal,
    ShareHeartbeat,
    StateDeletion,
)
from kafkawire.reference_broker.groups.share.simple_assignor import ShareSubscriber, simple_assignment
from kafkawire.reference_broker.groups.share.state_partitions import StatePartitions, TopicStates
from kafkawire.reference_broker.groups.topics import Topics, metadata_hash
from kafkawire.reference_broker.shares.limits import ShareLimits
from kafkawire.sdk.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatResponse
from kafkawire.sdk.protocol.tables.enums import JOIN_GROUP_MEMBER_EPOCH, LEAVE_GROUP_MEMBER_EPOCH, UNKNOWN_OFFSET
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode

__all__ = ["ShareOperations"]

_UNKNOWN_PARTITION = Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition.")

#: The name in a record of a topic that was deleted in the meantime, as in Kafka.
_UNKNOWN_NAME = "<UNKNOWN>"


class ShareOperations:
    """The share groups of a shard.

    Args:
        timers: timers for sessions.
        outbox: receives the records.
        limits: see `ShareLimits`.
        topics: see `Topics`.
        is_other: returns whether a group of another type has an id.

    Attributes:
        groups: the groups, keyed by id; only replaying records changes them.
    """

    def __init__(
        self,
        timers: ShardTimers,
        outbox: Outbox,
        limits: ShareLimits,
        topics: Topics,
        is_other: Callable[[str], bool],
    ) -> None:
        self.groups: dict[str, ShareGroup] = {}
        self._outbox = outbox
        self._limits = limits
        self._topics = topics
        self._is_other = is_other
        self._deadlines: Deadlines[ShareGroup, ShareMember] = Deadlines(
            self.groups, timers, outbox, lambda group, member, now_ms: self._fence(group, member)
        )
        #: When the last operation began. After loading, states that were asked for long ago are asked for again.
        self._now_ms = 0

    # Called by the shard.

    def replay(self, record: CoordinatorRecord) -> str:
        """Replay a record; return the group's id."""
        group_id = replay(self.groups, record, self._now_ms)
        member_id: str = getattr(record.key, "member_id", "")
        group = self.groups.get(group_id)
        if member_id and (group is None or member_id not in group.members):
            self._deadlines.forget(group_id, member_id)
        return group_id

    def loaded(self, now_ms: int) -> None:
        """Expect a heartbeat from every member."""
        for group in self.groups.values():
            for member_id in group.members:
                self._expect_heard(group.group_id, member_id, now_ms)

    def unloaded(self) -> None:
        """Cancel all timers."""
        self._deadlines.cancel()

    def end(self, group: ShareGroup) -> None:
        """Write the removal of an empty group."""
        self._outbox.add_all(group_tombstones(group.group_id, group.members))

    # Heartbeats.

    def beat(self, request: ShareHeartbeat, now_ms: int) -> Beat:
        """Handle a heartbeat from a joining, staying or leaving member, whose fields have been checked.

        Raises:
            BrokerError: GROUP_ID_NOT_FOUND, GROUP_MAX_SIZE_REACHED, UNKNOWN_MEMBER_ID, FENCED_MEMBER_EPOCH.
        """
        self._now_ms = now_ms
        if request.epoch == LEAVE_GROUP_MEMBER_EPOCH:
            group = self.find(request.group_id)
            self._fence(group, group.known(request.member_id))
            return Beat(ShareGroupHeartbeatResponse(member_id=request.member_id, member_epoch=request.epoch), None)
        is_joining = request.epoch == JOIN_GROUP_MEMBER_EPOCH
        group = self._group(request.group_id, may_create=is_joining)
        self._check_room(group, request.member_id)
        member = group.members.get(request.member_id)
        if member is None:
            member = ShareMember(request.member_id) if is_joining else group.known(request.member_id)
        _check_epoch(member, request.epoch)
        updated = _updated(member, request)
        epoch, names, has_changed = self._write_member(group, member, updated)
        updated = self._write_step(group, updated, epoch, now_ms, has_changed=has_changed)
        self._expect_heard(group.group_id, member.member_id, now_ms)
        response = ShareGroupHeartbeatResponse(
            member_id=updated.member_id,
            member_epoch=updated.epoch,
            heartbeat_interval_ms=self._limits.heartbeat_interval_ms(group.group_id),
        )
        if is_joining or request.topics is not None or updated.assigned != member.assigned:
            response.assignment = ShareGroupHeartbeatResponse.Assignment(
                [
                    ShareGroupHeartbeatResponse.TopicPartitions(topic_id, sorted(numbers))
                    for topic_id, numbers in sorted(updated.assigned.items())
                ]
            )
        return Beat(response, self._new_states(group, epoch, names, now_ms))

    def _group(self, group_id: str, *, may_create: bool) -> ShareGroup:
        group = self.groups.get(group_id)
        if group is not None:
            return group
        if self._is_other(group_id):
            raise other_type(group_id, "share")
        if not may_create:
            raise missing_group(group_id, "Share group")
        return ShareGroup(group_id)

    def _check_room(self, group: ShareGroup, member_id: str) -> None:
        if len(group.members) >= self._limits.size_max and member_id not in group.members:
            raise full_group("share", self._limits.size_max)

    def _write_member(
        self, group: ShareGroup, member: ShareMember, updated: ShareMember
    ) -> tuple[int, frozenset[str], bool]:
        """Write a member's new state; return the group's epoch, its subscribed topics, and whether the epoch is new."""
        if updated != member:
            self._outbox.add(member_record(group.group_id, updated))
        names = group.topics_after(member.member_id, updated)
        raises_epoch = updated.topics != member.topics
        if group.assignment_epoch >= group.epoch:
            raises_epoch |= bool(group.members) and not group.states.assigned_all(group.target.values(), names)
        changes = self._topics.changes
        if not raises_epoch and group.has_looked_at(changes):
            return group.epoch, names, False
        new_hash = metadata_hash(names, self._topics)
        raises_epoch |= new_hash != group.metadata_hash
        epoch = group.epoch + raises_epoch
        if raises_epoch:
            self._outbox.add(group_value_record(group.group_id, epoch, new_hash))
        group.looked_at = changes, epoch
        return epoch, names, raises_epoch

    def _write_step(
        self, group: ShareGroup, member: ShareMember, epoch: int, now_ms: int, *, has_changed: bool
    ) -> ShareMember:
        """Write the target assignment for a new epoch, if one is due, and give the member its part of it."""
        target_epoch, target = group.assignment_epoch, group.target_of(member.member_id)
        if epoch > target_epoch and self._may_assign(group, now_ms):
            target_epoch, target = epoch, self._assign(group, member, epoch, now_ms)
        if not has_changed and member.epoch == target_epoch:
            return member
        topic_ids = {self._topics[name].topic_id for name in member.topics if name in self._topics}
        moved = replace(member, assigned={topic_id: target[topic_id] for topic_id in target if topic_id in topic_ids})
        if moved.epoch != target_epoch:
            moved = replace(moved, epoch=target_epoch, previous_epoch=moved.epoch)
        if moved != member:
            self._outbox.add(current_record(group.group_id, moved))
        return moved

    def _may_assign(self, group: ShareGroup, now_ms: int) -> bool:
        """Return whether changes since the last assignment have been collected for long enough."""
        interval_ms = self._limits.assignment_interval_ms(group.group_id)
        return not group.assigned_ms or not interval_ms or now_ms - group.assigned_ms >= interval_ms

    def _assign(self, group: ShareGroup, updated: ShareMember, epoch: int, now_ms: int) -> Partitions:
        """Compute the target assignment for a new epoch, write the changes, and return the member's part."""
        subscribers = {
            member_id: ShareSubscriber(
                frozenset(self._topics[name].topic_id for name in member.topics if name in self._topics),
                group.target_of(member_id),
            )
            for member_id, member in {**group.members, updated.member_id: updated}.items()
        }
        assignment = simple_assignment(subscribers, group.states.assignable)
        for member_id, target in assignment.items():
            if member_id not in group.target or group.target[member_id] != target:
                self._outbox.add(target_record(group.group_id, member_id, target))
        self._outbox.add(epoch_record(group.group_id, epoch, now_ms))
        return assignment[updated.member_id]

    def _new_states(self, group: ShareGroup, epoch: int, names: Collection[str], now_ms: int) -> NewStates | None:
        """Write which states are about to begin; return them, or None if all subscribed partitions have one."""
        missing = group.states.missing(names, self._topics, now_ms)
        if not missing:
            return None
        self._outbox.add(states_record(group.group_id, group.states.begin(missing)))
        offsets = {
            topic_id: dict.fromkeys(sorted(states.partitions), UNKNOWN_OFFSET) for topic_id, states in missing.items()
        }
        return NewStates(group.group_id, epoch, offsets)

    # Sessions.

    def _expect_heard(self, group_id: str, member_id: str, now_ms: int) -> None:
        timeout_ms = self._limits.session_timeout_ms(group_id)
        self._deadlines.set(Deadline.SESSION, group_id, member_id, timeout_ms, now_ms)

    def _fence(self, group: ShareGroup, member: ShareMember) -> None:
        """Write the removal of a member; the others get its partitions with their next heartbeats."""
        self._outbox.add_all(member_tombstones(group.group_id, member.member_id))
        new_hash = metadata_hash(group.topics_after(member.member_id), self._topics)
        self._outbox.add(group_value_record(group.group_id, group.epoch + 1, new_hash))

    # States.

    def states_begun(self, group_id: str, partitions: Partitions, now_ms: int) -> None:
        """Write that the persister has begun states."""
        self._now_ms = now_ms
        group = self.groups.get(group_id)
        if group is None:
            return
        states = {}
        for topic_id, numbers in partitions.items():
            asked = group.states.initializing.get(topic_id) or group.states.initialized.get(topic_id)
            states[topic_id] = TopicStates(_UNKNOWN_NAME if asked is None else asked.name, numbers, now_ms)
        self._outbox.add(states_record(group_id, group.states.begun(states)))

    def states_refused(self, group_id: str, partitions: Partitions, now_ms: int) -> None:
        """Write that the persister has refused to begin states; the next heartbeat asks again."""
        self._now_ms = now_ms
        group = self.groups.get(group_id)
        if group is not None and group.states.initializing:
            self._outbox.add(states_record(group_id, group.states.refused(partitions)))

    def forget_topics(self, topic_ids: frozenset[bytes]) -> None:
        """Write that deleted topics have no states."""
        for group_id, group in self.groups.items():
            left = group.states.forget(topic_ids)
            if left != group.states:
                self._outbox.add(states_record(group_id, left))

    # Groups.

    def find(self, group_id: str) -> ShareGroup:
        """Return a group.

        Raises:
            BrokerError: GROUP_ID_NOT_FOUND.
        """
        group = self.groups.get(group_id)
        if group is None:
            is_other = self._is_other(group_id)
            raise other_type(group_id, "share") if is_other else missing_group(group_id)
        return group

    def states_to_delete(self, group_id: str) -> Partitions:
        """Write that the states of an empty group are about to be deleted; return their partitions.

        Nothing is returned for a group that does not exist or is of another type, whose deletion has its own errors.

        Raises:
            BrokerError: NON_EMPTY_GROUP.
        """
        group = self.groups.get(group_id)
        if group is None:
            return {}
        group.check_empty()
        states = group.states
        if states == StatePartitions():
            return {}
        doomed = states.to_delete()
        for topic_id, name in states.deleting.items():
            # An earlier deletion has failed; the share coordinator does not mind another one.
            if name in self._topics and self._topics[name].topic_id == topic_id:
                every = frozenset(range(self._topics[name].partitions))
                doomed[topic_id] = TopicStates(name, every, 0)
        deleting = {topic_id: known.name for topic_id, known in doomed.items()}
        self._outbox.add(states_record(group_id, StatePartitions(deleting=deleting)))
        return {topic_id: known.partitions for topic_id, known in doomed.items()}

    # Offsets.

    def alter_offsets(self, group_id: str, wanted: Mapping[str, Mapping[int, int]], now_ms: int) -> OffsetAlteration:
        """Write that new states are about to begin in an empty group, which need not exist.

        Args:
            group_id: the group.
            wanted: the new start offsets, keyed by topic name and partition number.
            now_ms: the current time.

        Raises:
            BrokerError: GROUP_ID_NOT_FOUND, NON_EMPTY_GROUP.
        """
        self._now_ms = now_ms
        group = self._group(group_id, may_create=True)
        group.check_empty()
        results: dict[str, dict[int, Refusal]] = {}
        topic_ids: dict[str, bytes] = {}
        offsets: dict[bytes, dict[int, int]] = {}
        asked: dict[bytes, TopicStates] = {}
        for name, partitions in wanted.items():
            if name not in self._topics:
                results[name] = dict.fromkeys(partitions, _UNKNOWN_PARTITION)
                continue
            topic_id, count = self._topics[name]
            topic_ids[name] = topic_id
            results[name] = {number: NO_ERROR if number < count else _UNKNOWN_PARTITION for number in partitions}
            known = {number: offset for number, offset in partitions.items() if number < count}
            asked[topic_id] = TopicStates(name, frozenset(known), now_ms)
            if known:
                offsets[topic_id] = known
        if asked:
            self._outbox.add(states_record(group_id, group.states.begin(asked)))
        return OffsetAlteration(results, topic_ids, NewStates(group_id, group.epoch, offsets))

    def delete_offsets(self, group_id: str, names: Sequence[str]) -> StateDeletion:
        """Write that the states of topics are about to be deleted from an empty group.

        Raises:
            BrokerError: GROUP_ID_NOT_FOUND, NON_EMPTY_GROUP.
        """
        group = self.find(group_id)
        group.check_empty()
        results: dict[str, Refusal] = {}
        found: dict[bytes, str] = {}
        partitions: dict[bytes, frozenset[int]] = {}
        for name in names:
            if name not in self._topics:
                results[name] = _UNKNOWN_PARTITION
                continue
            topic_id, count = self._topics[name]
            if topic_id in group.states.initialized:
                partitions[topic_id] = group.states.initialized[topic_id].partitions
            elif topic_id in group.states.deleting:
                partitions[topic_id] = frozenset(range(count))
            else:
                text = "There is no offset information to delete."
                results[name] = Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, text)
                continue
            found[topic_id] = name
        initialized = {each: known for each, known in group.states.initialized.items() if each not in found}
        deleting = {**group.states.deleting, **found}
        self._outbox.add(states_record(group_id, group.states._replace(initialized=initialized, deleting=deleting)))
        return StateDeletion(results, found, partitions)

    def offsets_deleted(self, group_id: str, topic_ids: Collection[bytes]) -> None:
        """Write that the persister has deleted the states of topics."""
        group = self.groups.get(group_id)
        if group is not None:
            deleting = {each: name for each, name in group.states.deleting.items() if each not in topic_ids}
            self._outbox.add(states_record(group_id, group.states._replace(deleting=deleting)))


def _updated(member: ShareMember, request: ShareHeartbeat) -> ShareMember:
    return replace(
        member,
        rack_id=member.rack_id if request.rack_id is None else request.rack_id,
        topics=member.topics if request.topics is None else tuple(sorted(set(request.topics))),
        client_id=request.client_id,
        client_host=request.client_host,
    )


def _check_epoch(member: ShareMember, epoch: int) -> None:
    """Check a member's epoch; the previous one is valid too, since a response may have been lost."""
    if epoch in (JOIN_GROUP_MEMBER_EPOCH, member.epoch):
        return
    if epoch > member.epoch:
        raise wrong_epoch("share", epoch, member.epoch)
    if epoch != member.previous_epoch:
        detail = f", and it does not match the previous member epoch ({member.previous_epoch})"
        raise wrong_epoch("share", epoch, member.epoch, detail)
