"""Members of consumer groups that use the classic protocol while their group is being migrated.

Such a member's generation is its epoch. Its JoinGroup performs its next step, and its SyncGroup returns its assignment;
there is no leader. When a member has a step to take, the response to its heartbeat tells it to rejoin. Partitions that
a joining member does not list as owned are considered revoked: cooperative consumers list those that they keep, and all
other consumers have revoked everything.

Source: KIP-848; `GroupMetadataManager.classicGroupJoinToConsumerGroup` and related methods in Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from kafkawire.reference_broker.groups.classic.group import JoinReply, SyncReply
from kafkawire.reference_broker.groups.consumer.changes import Change, Changes
from kafkawire.reference_broker.groups.consumer.group import ClassicProtocol, ConsumerGroup, ConsumerMember, MemberState
from kafkawire.reference_broker.groups.deadlines import Deadline
from kafkawire.reference_broker.groups.embedded_protocol import (
    Subscription,
    read_subscription,
    readable_version,
    write_assignment,
)
from kafkawire.reference_broker.groups.migration import Migration
from kafkawire.reference_broker.groups.outbox import Outbox
from kafkawire.reference_broker.groups.requests import Join, Sync
from kafkawire.reference_broker.groups.topics import Topics
from kafkawire.sdk.errors import BrokerError, DecodeError
from kafkawire.sdk.protocol.messages.join_group import JoinGroupResponse
from kafkawire.sdk.protocol.messages.sync_group import SyncGroupResponse
from kafkawire.sdk.protocol.tables.enums import CONSUMER_PROTOCOL_TYPE, UNKNOWN_MEMBER_ID
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode

__all__ = ["ClassicProtocolMembers"]


class ClassicProtocolMembers:
    """The members of consumer groups that use the classic protocol.

    Args:
        changes: applies changes to groups.
        migration: converts groups to classic ones.
        outbox: receives the records.
        new_id: returns a member id.
        topics: see `Topics`.
    """

    def __init__(
        self, changes: Changes, migration: Migration, outbox: Outbox, new_id: Callable[[], str], topics: Topics
    ) -> None:
        self._changes = changes
        self._deadlines = changes.deadlines
        self._migration = migration
        self._outbox = outbox
        self._new_id = new_id
        self._topics = topics

    # Joining.

    def join(self, group: ConsumerGroup, request: Join, reply: JoinReply, now_ms: int) -> None:
        """Add a member, or perform its next step.

        Args:
            group: a group that has members.
            request: the member's request.
            reply: called with the response once the records are committed.
            now_ms: the current time.

        Raises:
            BrokerError: the member may not join.
        """
        member_id = request.member_id or self._new_id()
        self._changes.check_room(group, member_id)
        names = [name for name, _ in request.protocols]
        request.check_size()
        if request.protocol_type != CONSUMER_PROTOCOL_TYPE or not group.supports_classic(names):
            raise BrokerError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, f"{request.protocol_type} {names}")
        if request.needs_member_id and request.member_id == UNKNOWN_MEMBER_ID and request.instance_id is None:
            # The id is not stored; a client that returns with any id becomes a member.
            reply(JoinGroupResponse(error_code=ErrorCode.MEMBER_ID_REQUIRED, member_id=member_id))
            return
        try:
            subscription = read_subscription(request.protocols[0][1], self._topics)
        except DecodeError as error:
            raise BrokerError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, f"malformed subscription: {error}") from None
        member, replaced = self._member(group, member_id, request)
        change = Change(group, member, _updated(member, request, subscription), replaced, request.may_describe)
        holder = group.static_members.get(request.instance_id) if request.instance_id is not None else None
        epoch = self._changes.write_member(change, now_ms)
        is_last = holder is not None and group.members[holder].classic is None
        is_downgraded = is_last and self._migration.may_downgrade(group, [holder or ""], joining=1)
        if is_downgraded:
            moved = self._downgrade(change, epoch, subscription, now_ms)
        else:
            moved = self._changes.write_step(change, epoch, subscription.owned, now_ms)
        if not is_downgraded:
            # Start the session even if the reply fails, since a member without a session would never be removed.
            self._changes.expect_heard(group.group_id, moved, now_ms)
        response = JoinGroupResponse(
            generation_id=moved.epoch,
            protocol_type=CONSUMER_PROTOCOL_TYPE,
            protocol_name=names[0],
            member_id=moved.member_id,
        )

        def committed(error: BrokerError | None) -> None:
            if error is not None:
                return
            if not is_downgraded:
                self._deadlines.done(Deadline.JOIN, group.group_id, moved.member_id)
                timeout_ms = request.rebalance_timeout_ms
                self._deadlines.set(Deadline.SYNC, group.group_id, moved.member_id, timeout_ms, now_ms)
            reply(response)

        self._outbox.on_committed(committed)

    def _downgrade(self, change: Change, epoch: int, subscription: Subscription, now_ms: int) -> ConsumerMember:
        """Write the conversion once a classic member has replaced the last KIP-848 one; return the classic member."""
        group, moved = change.group, change.updated
        is_rebalancing = epoch > group.assignment_epoch
        if not is_rebalancing:
            target = change.target_of(moved.member_id)
            moved = self._changes.write_reconciled(change, group.assignment_epoch, target, subscription.owned, now_ms)
        holder = group.static_members[moved.instance_id or ""]
        self._migration.downgrade(group, [holder], moved, now_ms, is_rebalancing=is_rebalancing)
        return moved

    def _member(self, group: ConsumerGroup, member_id: str, request: Join) -> tuple[ConsumerMember, str | None]:
        """Return the joining member, and the id of the static member that it replaces."""
        if request.instance_id is None:
            return group.members.get(member_id, ConsumerMember(member_id)), None
        if request.member_id != UNKNOWN_MEMBER_ID:
            return group.known(member_id, request.instance_id), None
        holder = group.static_members.get(request.instance_id)
        if holder is None:
            return ConsumerMember(member_id), None
        return self._changes.replace_static(group, group.members[holder], member_id), holder

    # Assigning.

    def sync(self, group: ConsumerGroup, request: Sync, reply: SyncReply, now_ms: int) -> None:
        """Answer a member with its assignment.

        Args:
            group: the group.
            request: the member's request; assignments from a leader are ignored.
            reply: called with the response.
            now_ms: the current time.

        Raises:
            BrokerError: the id is unknown, the generation is outdated, or the member has to rejoin
                (REBALANCE_IN_PROGRESS).
        """
        member, classic = _known(group, request.member_id, request.instance_id, request.generation_id)
        name, metadata = classic.protocols[0]
        if request.protocol_type not in (None, CONSUMER_PROTOCOL_TYPE) or request.protocol_name not in (None, name):
            raise BrokerError(
                ErrorCode.INCONSISTENT_GROUP_PROTOCOL, f"the request's protocol must match the group's protocol, {name}"
            )
        awaited = self._changes.awaited_epoch(group, now_ms)
        if awaited > member.epoch and member.state is not MemberState.UNREVOKED_PARTITIONS:
            self._expect_join(group, member, now_ms)
            raise BrokerError(ErrorCode.REBALANCE_IN_PROGRESS, f"the group's epoch is {group.epoch}")
        assignment = write_assignment(readable_version(metadata), member.assigned, member.topics, self._topics)

        def committed(error: BrokerError | None) -> None:
            if error is None:
                self._deadlines.done(Deadline.SYNC, group.group_id, member.member_id)
                self._changes.expect_heard(group.group_id, member, now_ms)
                reply(
                    SyncGroupResponse(
                        protocol_type=request.protocol_type,
                        protocol_name=request.protocol_name,
                        assignment=assignment,
                    )
                )

        self._outbox.on_committed(committed)

    # Staying and leaving.

    def heartbeat(
        self, group: ConsumerGroup, generation_id: int, member_id: str, instance_id: str | None, now_ms: int
    ) -> None:
        """Extend a member's session.

        Raises:
            BrokerError: the id is unknown, the generation is outdated, or the member has to rejoin
                (REBALANCE_IN_PROGRESS).
        """
        member, _ = _known(group, member_id, instance_id, generation_id)
        self._changes.expect_heard(group.group_id, member, now_ms)
        if (
            member.epoch < self._changes.awaited_epoch(group, now_ms)
            or (group.is_classic and self._changes.is_outdated(group))
            or member.state is MemberState.UNREVOKED_PARTITIONS
            or (member.state is MemberState.UNRELEASED_PARTITIONS and not group.waits_for_release(member))
        ):
            self._expect_join(group, member, now_ms)
            raise BrokerError(ErrorCode.REBALANCE_IN_PROGRESS, f"the group's epoch is {group.epoch}")

    def leave(self, group: ConsumerGroup, members: Sequence[tuple[str, str | None]], now_ms: int) -> list[ErrorCode]:
        """Remove members of either protocol at their own request, or static members at an administrator's request.

        Args:
            group: the group.
            members: pairs of member id and instance id. The member id may be empty if there is an instance id; the
                instance id is None for dynamic members.
            now_ms: the current time.

        Returns:
            An error code for each member.
        """
        codes: list[ErrorCode] = []
        leaving: dict[str, None] = {}
        for member_id, instance_id in members:
            holder = None
            if member_id == UNKNOWN_MEMBER_ID and instance_id is not None:
                holder = group.static_members.get(instance_id)
            try:
                leaving[group.known(member_id if holder is None else holder, instance_id).member_id] = None
                codes.append(ErrorCode.NONE)
            except BrokerError as error:
                codes.append(error.code)
        if leaving:
            self._changes.fence(group, leaving, now_ms)
        return codes

    def _expect_join(self, group: ConsumerGroup, member: ConsumerMember, now_ms: int) -> None:
        """Expect a member to rejoin within a time limit, which starts when the member is first told to rejoin."""
        if not self._deadlines.is_set(Deadline.JOIN, group.group_id, member.member_id):
            timeout_ms = member.rebalance_timeout_ms
            self._deadlines.set(Deadline.JOIN, group.group_id, member.member_id, timeout_ms, now_ms)


def _known(
    group: ConsumerGroup, member_id: str, instance_id: str | None, generation_id: int
) -> tuple[ConsumerMember, ClassicProtocol]:
    member = group.known(member_id, instance_id)
    if member.classic is None:
        raise BrokerError(ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} does not use the classic protocol.")
    if generation_id != member.epoch:
        text = f"The request generation id {generation_id} is not equal to the member epoch {member.epoch}"
        raise BrokerError(ErrorCode.ILLEGAL_GENERATION, f"{text} of member {member_id}.")
    return member, member.classic


def _updated(member: ConsumerMember, request: Join, subscription: Subscription) -> ConsumerMember:
    timeout_ms = request.rebalance_timeout_ms
    return replace(
        member,
        instance_id=member.instance_id if request.instance_id is None else request.instance_id,
        rack_id=subscription.rack_id or member.rack_id,
        rebalance_timeout_ms=member.rebalance_timeout_ms if timeout_ms < 0 else timeout_ms,
        topics=tuple(sorted(set(subscription.topics))),
        regex="",
        client_id=request.client_id,
        client_host=request.client_host,
        classic=ClassicProtocol(
            request.session_timeout_ms, tuple((name, bytes(data)) for name, data in request.protocols)
        ),
    )
