"""KIP-848 heartbeats, with which members join, follow the target assignment, change subscriptions, and leave.

A heartbeat is answered once its records are committed; only records change the group.

Source: KIP-848; `GroupMetadataManager.consumerGroupHeartbeat` in Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from kafkawire.reference_broker.groups.consumer.assignors import ASSIGNORS
from kafkawire.reference_broker.groups.consumer.changes import Change, Changes
from kafkawire.reference_broker.groups.consumer.group import NOTHING, ConsumerGroup, ConsumerMember, Partitions
from kafkawire.reference_broker.groups.consumer.records import current_record
from kafkawire.reference_broker.groups.deadlines import Deadline
from kafkawire.reference_broker.groups.outbox import Outbox
from kafkawire.reference_broker.groups.refusals import is_blank, wrong_epoch
from kafkawire.reference_broker.groups.requests import SUBSCRIBED_TOPICS_MAX, ConsumerHeartbeat, GroupLimits
from kafkawire.reference_broker.patterns.topic_pattern import TopicPattern
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse
from kafkawire.sdk.protocol.tables.enums import (
    JOIN_GROUP_MEMBER_EPOCH,
    LEAVE_GROUP_MEMBER_EPOCH,
    LEAVE_GROUP_STATIC_MEMBER_EPOCH,
)
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode

__all__ = ["Heartbeats", "check_heartbeat"]

#: Stands for a missing or unchanged timeout.
_UNCHANGED_MS = -1


class Heartbeats:
    """The members of consumer groups that use KIP-848.

    Args:
        changes: applies changes to groups.
        outbox: receives the records.
        new_id: returns a member id.
        limits: see `GroupLimits`.
    """

    def __init__(self, changes: Changes, outbox: Outbox, new_id: Callable[[], str], limits: GroupLimits) -> None:
        self._changes = changes
        self._outbox = outbox
        self._new_id = new_id
        self._limits = limits

    def beat(
        self, group: ConsumerGroup, request: ConsumerHeartbeat, now_ms: int, *, is_assigned: bool = True
    ) -> ConsumerGroupHeartbeatResponse:
        """Handle a heartbeat from a joining, staying or leaving member.

        Args:
            group: the group, which a joining member may have created.
            request: the heartbeat, checked by `check_heartbeat`.
            now_ms: the current time.
            is_assigned: whether all partitions are assigned; false if this heartbeat has just converted a classic group
                during a rebalance. In Kafka, this leaves partitions unassigned until the next change.

        Raises:
            BrokerError: the member must correct its request, rejoin, or give up.
        """
        if request.epoch < JOIN_GROUP_MEMBER_EPOCH:
            return self._leave(group, request, now_ms)
        self._changes.check_room(group, request.member_id)
        member, replaced = self._member(group, request)
        if request.regex:
            TopicPattern(request.regex)  # raises an error if the expression is not supported
        change = Change(group, member, _updated(member, request), replaced, request.may_describe)
        epoch = self._changes.write_member(change, now_ms, raises_epoch=not is_assigned)
        moved = self._changes.write_step(change, epoch, request.owned, now_ms)
        for deadline in (Deadline.JOIN, Deadline.SYNC):
            # If the member used the classic protocol before, it no longer sends these requests.
            self._changes.deadlines.done(deadline, group.group_id, moved.member_id)
        self._changes.expect_heard(group.group_id, moved, now_ms)
        return self._response(group.group_id, request, moved, has_moved=moved.assigned != member.assigned)

    def _response(
        self, group_id: str, request: ConsumerHeartbeat, member: ConsumerMember, *, has_moved: bool
    ) -> ConsumerGroupHeartbeatResponse:
        response = ConsumerGroupHeartbeatResponse(
            member_id=member.member_id,
            member_epoch=member.epoch,
            heartbeat_interval_ms=self._limits.consumer_heartbeat_interval_ms(group_id),
        )
        has_subscription = request.topics is not None or request.regex is not None
        is_full = request.rebalance_timeout_ms != _UNCHANGED_MS and has_subscription and request.owned is not None
        if has_moved or is_full or request.epoch == JOIN_GROUP_MEMBER_EPOCH:
            response.assignment = ConsumerGroupHeartbeatResponse.Assignment(
                [
                    ConsumerGroupHeartbeatResponse.TopicPartitions(topic_id, sorted(numbers))
                    for topic_id, numbers in sorted(member.assigned.items())
                ]
            )
        return response

    def _member(self, group: ConsumerGroup, request: ConsumerHeartbeat) -> tuple[ConsumerMember, str | None]:
        """Return the member that sent a heartbeat, and the id of the static member that it replaces."""
        member_id = request.member_id or self._new_id()
        if request.epoch != JOIN_GROUP_MEMBER_EPOCH:
            member = group.known(member_id, request.instance_id)
            _check_epoch(member, request)
            return member, None
        holder_id = group.static_members.get(request.instance_id) if request.instance_id is not None else None
        if holder_id is None:
            return group.members.get(member_id, ConsumerMember(member_id)), None
        holder = group.members[holder_id]
        if holder.classic is None and holder.epoch != LEAVE_GROUP_STATIC_MEMBER_EPOCH:
            text = f"Static member {member_id} with instance id {request.instance_id} cannot join the group because the"
            raise BrokerError(
                ErrorCode.UNRELEASED_INSTANCE_ID, f"{text} instance id is owned by {holder.member_id} member."
            )
        return self._changes.replace_static(group, holder, member_id), holder_id

    def _leave(self, group: ConsumerGroup, request: ConsumerHeartbeat, now_ms: int) -> ConsumerGroupHeartbeatResponse:
        member = group.known(request.member_id, request.instance_id)
        if request.epoch == LEAVE_GROUP_STATIC_MEMBER_EPOCH:
            # The partitions stay assigned until the session ends, since a member with the same instance id may join.
            epoch, since = LEAVE_GROUP_STATIC_MEMBER_EPOCH, dict.fromkeys(member.since, JOIN_GROUP_MEMBER_EPOCH)
            away = replace(member, epoch=epoch, revoking=NOTHING, since=since)
            self._outbox.add(current_record(group.group_id, away))
        else:
            self._changes.fence(group, [member.member_id], now_ms)
        return ConsumerGroupHeartbeatResponse(member_id=member.member_id, member_epoch=request.epoch)


def _updated(member: ConsumerMember, request: ConsumerHeartbeat) -> ConsumerMember:
    timeout_ms = request.rebalance_timeout_ms
    return replace(
        member,
        instance_id=member.instance_id if request.instance_id is None else request.instance_id,
        rack_id=member.rack_id if request.rack_id is None else request.rack_id,
        rebalance_timeout_ms=member.rebalance_timeout_ms if timeout_ms == _UNCHANGED_MS else timeout_ms,
        topics=member.topics if request.topics is None else tuple(sorted(set(request.topics))),
        regex=member.regex if request.regex is None else request.regex,
        assignor=member.assignor if request.assignor is None else request.assignor,
        client_id=request.client_id,
        client_host=request.client_host,
        classic=None,
    )


def _check_epoch(member: ConsumerMember, request: ConsumerHeartbeat) -> None:
    """Check a member's epoch; if it reports owned partitions, the previous epoch is valid too (a response was lost)."""
    if request.epoch == member.epoch:
        return
    is_behind = request.epoch == member.previous_epoch and request.epoch < member.epoch
    if is_behind and request.owned is not None and _is_part(request.owned, member.assigned):
        return
    raise wrong_epoch("consumer", request.epoch, member.epoch)


def _is_part(owned: Partitions, assigned: Partitions) -> bool:
    return all(numbers <= assigned.get(topic_id, frozenset()) for topic_id, numbers in owned.items())


def check_heartbeat(request: ConsumerHeartbeat) -> None:
    """Check the fields of a heartbeat in Kafka's order.

    Raises:
        BrokerError: INVALID_REQUEST, UNSUPPORTED_ASSIGNOR.
    """
    is_joining = request.epoch == JOIN_GROUP_MEMBER_EPOCH
    needs_id = (
        not request.may_lack_id or request.epoch > JOIN_GROUP_MEMBER_EPOCH or request.epoch == LEAVE_GROUP_MEMBER_EPOCH
    )
    faults = (
        (needs_id and is_blank(request.member_id), "MemberId can't be empty."),
        (is_blank(request.group_id), "GroupId can't be empty."),
        (is_blank(request.instance_id), "InstanceId can't be empty."),
        (is_blank(request.rack_id), "RackId can't be empty."),
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
        (request.epoch < LEAVE_GROUP_STATIC_MEMBER_EPOCH, "MemberEpoch is invalid."),
        (
            len(request.topics or ()) > SUBSCRIBED_TOPICS_MAX,
            f"SubscribedTopicNames can't have more than {SUBSCRIBED_TOPICS_MAX} names.",
        ),
    )
    for is_fault, text in faults:
        if is_fault:
            raise BrokerError(ErrorCode.INVALID_REQUEST, text)
    if request.assignor is not None and request.assignor not in ASSIGNORS:
        text = f"ServerAssignor {request.assignor} is not supported. Supported assignors: {', '.join(ASSIGNORS)}."
        raise BrokerError(ErrorCode.UNSUPPORTED_ASSIGNOR, text)
