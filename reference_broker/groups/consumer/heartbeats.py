"""Heartbeats of KIP-848: members join, follow the target assignment, change what they read, and leave by them.

A heartbeat is answered when the records that it caused are committed, and those alone change the group.

Source: KIP-848; `GroupMetadataManager.consumerGroupHeartbeat` in Apache Kafka.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import NamedTuple

from kafkawire.reference_broker.coordinators.shard import ShardTimers
from kafkawire.reference_broker.groups.consumer.assignors import ASSIGNORS, DEFAULT_ASSIGNOR, Subscriber
from kafkawire.reference_broker.groups.consumer.group import (
    NOTHING,
    ConsumerGroup,
    ConsumerMember,
    MemberState,
    Partitions,
)
from kafkawire.reference_broker.groups.consumer.reconciliation import reconciled
from kafkawire.reference_broker.groups.consumer.records import (
    current_record,
    epoch_record,
    group_value_record,
    member_record,
    member_tombstones,
    target_record,
)
from kafkawire.reference_broker.groups.consumer.topic_pattern import topic_pattern
from kafkawire.reference_broker.groups.outbox import Outbox
from kafkawire.reference_broker.groups.requests import Beat, GroupLimits
from kafkawire.reference_broker.timers import Timer
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse
from kafkawire.sdk.protocol.tables.enums import LEAVE_GROUP_STATIC_MEMBER_EPOCH
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.records import crc32c

__all__ = ["Heartbeats", "TopicFacts", "Topics", "preferred_assignor"]

_JOIN_EPOCH = 0

#: A timeout that is not given, or unchanged.
_UNCHANGED_MS = -1


class TopicFacts(NamedTuple):
    """What the coordinator knows of a topic: its id, and how many partitions it has."""

    topic_id: bytes
    partitions: int


#: The topics that exist, by name.
Topics = Mapping[str, TopicFacts]


class Heartbeats:
    """The members of all consumer groups of a shard.

    Args:
        groups: the groups by id, which change by replayed records only.
        timers: where deadlines are set.
        outbox: gets the records.
        new_id: returns a member id.
        limits: see `GroupLimits`.
        topics: see `Topics`.
    """

    def __init__(
        self,
        groups: dict[str, ConsumerGroup],
        timers: ShardTimers,
        outbox: Outbox,
        new_id: Callable[[], str],
        limits: GroupLimits,
        topics: Topics,
    ) -> None:
        self._groups = groups
        self._timers = timers
        self._outbox = outbox
        self._new_id = new_id
        self._limits = limits
        self._topics = topics
        #: By group and member id.
        self._sessions: dict[tuple[str, str], Timer] = {}
        self._revocations: dict[tuple[str, str], Timer] = {}

    def loaded(self, now_ms: int) -> None:
        """Give members that were loaded a full session timeout, and those that revoke a full rebalance timeout."""
        for group in self._groups.values():
            for member in group.members.values():
                self._expect_heartbeat(group.group_id, member.member_id, now_ms)
                if member.state is MemberState.UNREVOKED_PARTITIONS:
                    self._expect_revocation(group.group_id, member, now_ms)

    def unloaded(self) -> None:
        """Cancel all timers."""
        for timer in (*self._sessions.values(), *self._revocations.values()):
            timer.cancel()

    # Heartbeats.

    def beat(self, request: Beat, now_ms: int) -> ConsumerGroupHeartbeatResponse:
        """Handle a heartbeat of a member that joins, stays or leaves.

        Raises:
            BrokerError: the member must correct its request, join again, or give up.
        """
        _check(request)
        group = self._groups.get(request.group_id)
        if group is None:
            if request.epoch != _JOIN_EPOCH:
                raise BrokerError(ErrorCode.GROUP_ID_NOT_FOUND, f"Consumer group {request.group_id} not found.")
            group = ConsumerGroup(request.group_id)
        if request.epoch < _JOIN_EPOCH:
            return self._leave(group, request)
        size_max = self._limits.group_consumer_max_size
        if len(group.members) >= size_max and request.member_id not in group.members:
            text = f"The consumer group has reached its maximum capacity of {size_max} members."
            raise BrokerError(ErrorCode.GROUP_MAX_SIZE_REACHED, text)
        member, replaced = self._member(group, request)
        updated = _updated(member, request)
        if updated != member or member.member_id not in group.members:
            self._outbox.add(member_record(group.group_id, updated))
        members = {name: known for name, known in group.members.items() if name != replaced}
        members[updated.member_id] = updated
        is_new = replaced is None and updated.member_id not in group.members
        has_changed = (updated.topics, updated.regex) != (member.topics, member.regex)
        epoch = self._group_epoch(group, members, has_changed=is_new or has_changed)
        target_epoch, target = group.assignment_epoch, group.target.get(replaced or updated.member_id, NOTHING)
        if epoch > target_epoch:
            target_epoch = epoch
            target = self._assign(group, members, epoch, replaced, now_ms)[updated.member_id]
        moved = updated
        if not updated.is_reconciled_to(target_epoch):
            moved = reconciled(
                updated, target_epoch, target, request.owned, lambda *partition: partition in group.owners
            )
        if moved != updated:
            self._outbox.add(current_record(group.group_id, moved))
            self._note_revocation(group.group_id, moved, now_ms)
        self._expect_heartbeat(group.group_id, moved.member_id, now_ms)
        return self._response(request, moved, has_moved=moved.assigned != member.assigned)

    def _response(self, request: Beat, member: ConsumerMember, *, has_moved: bool) -> ConsumerGroupHeartbeatResponse:
        response = ConsumerGroupHeartbeatResponse(
            member_id=member.member_id,
            member_epoch=member.epoch,
            heartbeat_interval_ms=self._limits.group_consumer_heartbeat_interval_ms,
        )
        has_subscription = request.topics is not None or request.regex is not None
        is_full = request.rebalance_timeout_ms != _UNCHANGED_MS and has_subscription and request.owned is not None
        if has_moved or is_full or request.epoch == _JOIN_EPOCH:
            response.assignment = ConsumerGroupHeartbeatResponse.Assignment(
                [
                    ConsumerGroupHeartbeatResponse.TopicPartitions(topic_id, sorted(numbers))
                    for topic_id, numbers in sorted(member.assigned.items())
                ]
            )
        return response

    def _member(self, group: ConsumerGroup, request: Beat) -> tuple[ConsumerMember, str | None]:
        """Return the member of a heartbeat, and the id of the static member that it replaces."""
        member_id = request.member_id or self._new_id()
        if request.epoch != _JOIN_EPOCH:
            member = group.known(member_id, request.instance_id)
            _check_epoch(member, request)
            return member, None
        holder = group.static_members.get(request.instance_id) if request.instance_id is not None else None
        if holder is None:
            known = group.members.get(member_id)
            if known is None:
                return ConsumerMember(member_id, request.instance_id), None
            _check_epoch(known, request)
            return known, None
        old = group.members[holder]
        if old.epoch != LEAVE_GROUP_STATIC_MEMBER_EPOCH:
            text = (
                f"Static member {member_id} with instance id {request.instance_id} cannot join the group because the "
            )
            raise BrokerError(ErrorCode.UNRELEASED_INSTANCE_ID, f"{text}instance id is owned by member {holder}.")
        new = replace(old, member_id=member_id, epoch=0, previous_epoch=0)
        for record in member_tombstones(group.group_id, holder):
            self._outbox.add(record)
        self._cancel(group.group_id, holder)
        self._outbox.add(member_record(group.group_id, new))
        self._outbox.add(target_record(group.group_id, member_id, group.target.get(holder, NOTHING)))
        self._outbox.add(current_record(group.group_id, new))
        return new, holder

    # Epochs and assignments.

    def _group_epoch(self, group: ConsumerGroup, members: Mapping[str, ConsumerMember], *, has_changed: bool) -> int:
        """Return the group epoch, raised if subscriptions or their topics have changed."""
        metadata_hash = self._metadata_hash(members)
        if not has_changed and metadata_hash == group.metadata_hash:
            return group.epoch
        self._outbox.add(group_value_record(group.group_id, group.epoch + 1, metadata_hash))
        return group.epoch + 1

    def _metadata_hash(self, members: Mapping[str, ConsumerMember]) -> int:
        """Return a number that changes with the topics that members are subscribed to; 0 if there are none."""
        names = sorted({name for member in members.values() for name in member.subscribed_topics(self._topics)})
        facts = [(name, self._topics[name]) for name in names if name in self._topics]
        return crc32c(repr(facts).encode()) if facts else 0

    def _assign(
        self, group: ConsumerGroup, members: Mapping[str, ConsumerMember], epoch: int, replaced: str | None, now_ms: int
    ) -> dict[str, Partitions]:
        """Compute the target assignment of a new epoch and write what has changed."""
        counts: dict[bytes, int] = {}
        subscribers: dict[str, Subscriber] = {}
        for member_id, member in members.items():
            names = member.subscribed_topics(self._topics)
            facts = [self._topics[name] for name in names if name in self._topics]
            counts.update(facts)
            # Who replaces a static member has its assignment, which is not in the log yet.
            current = group.target.get(member_id, NOTHING)
            if replaced is not None and member_id not in group.members:
                current = group.target.get(replaced, NOTHING)
            topic_ids = frozenset(found.topic_id for found in facts)
            subscribers[member_id] = Subscriber(member.instance_id, topic_ids, current)
        assignment = ASSIGNORS[preferred_assignor(members)](subscribers, counts)
        for member_id, target in assignment.items():
            if group.target.get(member_id) != target:
                self._outbox.add(target_record(group.group_id, member_id, target))
        self._outbox.add(epoch_record(group.group_id, epoch, now_ms))
        return assignment

    # Leaving.

    def _leave(self, group: ConsumerGroup, request: Beat) -> ConsumerGroupHeartbeatResponse:
        member = group.known(request.member_id, request.instance_id)
        if request.epoch == LEAVE_GROUP_STATIC_MEMBER_EPOCH:
            # It keeps its partitions for whoever comes back with its instance id, until its session ends.
            away = replace(member, epoch=LEAVE_GROUP_STATIC_MEMBER_EPOCH, revoking=NOTHING)
            self._outbox.add(current_record(group.group_id, away))
        else:
            self._fence(group, member)
        return ConsumerGroupHeartbeatResponse(member_id=member.member_id, member_epoch=request.epoch)

    def _fence(self, group: ConsumerGroup, member: ConsumerMember) -> None:
        """Remove a member; the others get its partitions at their next heartbeats."""
        for record in member_tombstones(group.group_id, member.member_id):
            self._outbox.add(record)
        others = {name: known for name, known in group.members.items() if name != member.member_id}
        self._outbox.add(group_value_record(group.group_id, group.epoch + 1, self._metadata_hash(others)))
        self._cancel(group.group_id, member.member_id)

    # Timers.

    def _expect_heartbeat(self, group_id: str, member_id: str, now_ms: int) -> None:
        def expire(now_ms: int) -> None:
            group = self._groups.get(group_id)
            if group is not None and member_id in group.members:
                self._fence(group, group.members[member_id])

        self._cancel_in(self._sessions, group_id, member_id)
        deadline_ms = now_ms + self._limits.group_consumer_session_timeout_ms
        self._sessions[group_id, member_id] = self._timers.at(deadline_ms, expire)

    def _note_revocation(self, group_id: str, member: ConsumerMember, now_ms: int) -> None:
        if member.state is MemberState.UNREVOKED_PARTITIONS:
            self._expect_revocation(group_id, member, now_ms)
        else:
            self._cancel_in(self._revocations, group_id, member.member_id)

    def _expect_revocation(self, group_id: str, member: ConsumerMember, now_ms: int) -> None:
        def expire(now_ms: int) -> None:
            group = self._groups.get(group_id)
            known = None if group is None else group.members.get(member.member_id)
            if group is not None and known is not None and known.epoch == member.epoch:
                self._fence(group, known)

        self._cancel_in(self._revocations, group_id, member.member_id)
        deadline_ms = now_ms + max(member.rebalance_timeout_ms, 0)
        self._revocations[group_id, member.member_id] = self._timers.at(deadline_ms, expire)

    def _cancel(self, group_id: str, member_id: str) -> None:
        self._cancel_in(self._sessions, group_id, member_id)
        self._cancel_in(self._revocations, group_id, member_id)

    def _cancel_in(self, timers: dict[tuple[str, str], Timer], group_id: str, member_id: str) -> None:
        timer = timers.pop((group_id, member_id), None)
        if timer is not None:
            timer.cancel()


def preferred_assignor(members: Mapping[str, ConsumerMember]) -> str:
    """Return the assignor that most members ask for."""
    votes = Counter(member.assignor for member in members.values() if member.assignor is not None)
    return max(votes, key=votes.__getitem__) if votes else DEFAULT_ASSIGNOR


def _updated(member: ConsumerMember, request: Beat) -> ConsumerMember:
    timeout_ms = request.rebalance_timeout_ms
    return replace(
        member,
        rack_id=member.rack_id if request.rack_id is None else request.rack_id,
        rebalance_timeout_ms=member.rebalance_timeout_ms if timeout_ms == _UNCHANGED_MS else timeout_ms,
        topics=member.topics if request.topics is None else tuple(sorted(set(request.topics))),
        regex=member.regex if request.regex is None else request.regex,
        assignor=member.assignor if request.assignor is None else request.assignor,
        client_id=request.client_id,
        client_host=request.client_host,
    )


def _check_epoch(member: ConsumerMember, request: Beat) -> None:
    """Check a member's epoch; the previous one is accepted with what it owns, since a response may have been lost."""
    if request.epoch == member.epoch:
        return
    is_behind = request.epoch == member.previous_epoch and request.epoch < member.epoch
    if is_behind and request.owned is not None and _is_part(request.owned, member.assigned):
        return
    text = f"The member has epoch {request.epoch}, expected {member.epoch}."
    raise BrokerError(ErrorCode.FENCED_MEMBER_EPOCH, f"{text} It must abandon all its partitions and rejoin.")


def _is_part(owned: Partitions, assigned: Partitions) -> bool:
    return all(numbers <= assigned.get(topic_id, frozenset()) for topic_id, numbers in owned.items())


def _check(request: Beat) -> None:
    """Check a heartbeat by itself.

    Raises:
        BrokerError: INVALID_REQUEST, UNSUPPORTED_ASSIGNOR, INVALID_REGULAR_EXPRESSION.
    """
    is_joining = request.epoch == _JOIN_EPOCH
    faults = (
        (not request.group_id.strip(), "GroupId can't be empty."),
        (request.instance_id is not None and not request.instance_id.strip(), "InstanceId can't be empty."),
        (request.rack_id is not None and not request.rack_id.strip(), "RackId can't be empty."),
        (request.epoch < LEAVE_GROUP_STATIC_MEMBER_EPOCH, "MemberEpoch is invalid."),
        (not (is_joining and request.may_lack_id) and not request.member_id.strip(), "MemberId can't be empty."),
        (
            is_joining and request.rebalance_timeout_ms == _UNCHANGED_MS,
            "RebalanceTimeoutMs must be provided in first request.",
        ),
        (
            is_joining and (request.owned is None or bool(request.owned)),
            "TopicPartitions must be empty when (re-)joining.",
        ),
        (
            is_joining and request.topics is None and request.regex is None,
            "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.",
        ),
        (
            request.epoch == LEAVE_GROUP_STATIC_MEMBER_EPOCH and request.instance_id is None,
            "InstanceId can't be null.",
        ),
    )
    for is_fault, text in faults:
        if is_fault:
            raise BrokerError(ErrorCode.INVALID_REQUEST, text)
    if request.assignor is not None and request.assignor not in ASSIGNORS:
        text = f"ServerAssignor {request.assignor} is not supported. Supported assignors: {', '.join(ASSIGNORS)}."
        raise BrokerError(ErrorCode.UNSUPPORTED_ASSIGNOR, text)
    if request.regex:
        topic_pattern(request.regex)
