"""Requests from members of classic groups: joining, fetching assignments, heartbeats, leaving and committing.

This is a state machine. Requests arrive with the current time, responses to JoinGroup and SyncGroup are passed to the
requests' callbacks, and records go to the outbox.

Source: KIP-62, KIP-345 (static members), KIP-394 (member ids), KIP-814 (skipped assignment); `GroupMetadataManager` in
Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kafkawire.reference_broker.coordinators.shard import CoordinatorRecord, ShardTimers
from kafkawire.reference_broker.groups.classic.group import ClassicGroup, GroupState, JoinReply, Member, SyncReply
from kafkawire.reference_broker.groups.classic.rebalances import (
    Rebalances,
    assigned,
    respond_to_join,
    respond_to_sync,
)
from kafkawire.reference_broker.groups.classic.unused_groups import UnusedGroups
from kafkawire.reference_broker.groups.outbox import Outbox
from kafkawire.reference_broker.groups.records import group_record
from kafkawire.reference_broker.groups.requests import Commit, GroupLimits, Join, Sync
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.messages.join_group import JoinGroupResponse
from kafkawire.sdk.protocol.messages.sync_group import SyncGroupResponse
from kafkawire.sdk.protocol.primitives import MAX_STRING_BYTES
from kafkawire.sdk.protocol.tables.enums import UNKNOWN_MEMBER_ID
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode

__all__ = ["ClassicMembers"]


class ClassicMembers:
    """The members of all classic groups of a shard.

    Args:
        groups: the groups, keyed by id.
        timers: timers for deadlines.
        outbox: receives the records of groups.
        new_id: returns the random part of a member id.
        limits: see `GroupLimits`.
        has_offsets: returns whether a group has committed offsets.
        endings_of_other: returns the records that remove an empty group of another type; none if there is no such
            group.
    """

    def __init__(
        self,
        groups: dict[str, ClassicGroup],
        timers: ShardTimers,
        outbox: Outbox,
        new_id: Callable[[], str],
        limits: GroupLimits,
        has_offsets: Callable[[str], bool],
        endings_of_other: Callable[[str], Sequence[CoordinatorRecord]],
    ) -> None:
        self._groups = groups
        self._outbox = outbox
        self._new_id = new_id
        self._limits = limits
        self._endings_of_other = endings_of_other
        self._rebalances = Rebalances(timers, outbox, limits)
        self._sessions = self._rebalances.sessions
        self._unused = UnusedGroups(groups, has_offsets, outbox)

    def loaded(self, now_ms: int) -> None:
        """Start a new session for each loaded member."""
        for group in list(self._groups.values()):
            for member in group.members.values():
                self._sessions.extend(group, member, now_ms)
            if len(group.members) > self._limits.group_max_size:
                self._rebalances.start(group, now_ms)

    def unloaded(self) -> None:
        """Answer all waiting JoinGroup and SyncGroup requests."""
        for group in self._groups.values():
            self._end(group, ErrorCode.NOT_COORDINATOR)

    # Joining.

    def join(self, request: Join, reply: JoinReply, now_ms: int) -> Join | None:
        """Add a member, immediately or once the others have joined too.

        Args:
            request: the member's request.
            reply: called once with the response, immediately or later.
            now_ms: the current time.

        Returns:
            The request to retry once the records are committed; None if it was processed. For a missing group, only the
            group's record is written at first, so a failure needs no rollback.
        """
        try:
            response = self._join(request, reply, now_ms)
        except BrokerError as error:
            response = JoinGroupResponse(error_code=error.code, member_id=request.member_id)
        if isinstance(response, Join):
            return response
        if response is not None:
            reply(response)
        return None

    def _join(self, request: Join, reply: JoinReply, now_ms: int) -> JoinGroupResponse | Join | None:
        """Return the response, None if it is delayed, or the request to retry."""
        group = self._groups.get(request.group_id)
        if group is None:
            if request.member_id != UNKNOWN_MEMBER_ID:
                raise BrokerError(ErrorCode.UNKNOWN_MEMBER_ID)
            group = ClassicGroup(request.group_id, state_changed_ms=now_ms)
        if not self._has_room(group, request.member_id):
            self._turn_away(group, request.member_id, now_ms)
            return JoinGroupResponse(error_code=ErrorCode.GROUP_MAX_SIZE_REACHED)
        if not group.supports(request.protocol_type, request.protocols):
            raise BrokerError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        request.check_size()
        if request.member_id != UNKNOWN_MEMBER_ID:
            return self._join_known(group, request, reply, now_ms)
        member_id = request.new_member_id or f"{request.instance_id or request.client_id}-{self._new_id()}"
        if (size := len(member_id.encode())) > MAX_STRING_BYTES:
            text = f"a member id based on this client id would have {size} bytes; the limit is {MAX_STRING_BYTES}"
            raise BrokerError(ErrorCode.INVALID_REQUEST, text)
        if request.group_id not in self._groups:
            self._outbox.add_all(self._endings_of_other(request.group_id))
            self._outbox.add(group_record(group)._replace(is_held=False))
            return request._replace(new_member_id=member_id)
        return self._join_unknown(group, request, member_id, reply, now_ms)

    def _has_room(self, group: ClassicGroup, member_id: str) -> bool:
        """Return whether a member may join; a group over its size limit accepts those members that rejoin first."""
        size_max = self._limits.group_max_size
        if group.state is GroupState.EMPTY:
            return True
        member = group.members.get(member_id)
        if group.state is GroupState.PREPARING_REBALANCE:
            return (member is not None and member.awaiting_join is not None) or group.joined_count < size_max
        return member is not None or len(group.members) < size_max

    def _turn_away(self, group: ClassicGroup, member_id: str, now_ms: int) -> None:
        if member_id in group.members:
            self._rebalances.dismiss(group, group.members[member_id])
        self._sessions.forget_pending(group, member_id)
        self._rebalances.continue_joining(group, now_ms)

    def _join_unknown(
        self, group: ClassicGroup, request: Join, member_id: str, reply: JoinReply, now_ms: int
    ) -> JoinGroupResponse | None:
        if request.instance_id in group.static_members:
            return self._replace_static(group, request, member_id, reply, now_ms)
        if request.instance_id is None and request.needs_member_id:
            self._sessions.await_pending(group, member_id, request.session_timeout_ms, now_ms)
            self._unused.note(group)
            return JoinGroupResponse(error_code=ErrorCode.MEMBER_ID_REQUIRED, member_id=member_id)
        self._add(group, request, member_id, reply, now_ms)
        return None

    def _join_known(
        self, group: ClassicGroup, request: Join, reply: JoinReply, now_ms: int
    ) -> JoinGroupResponse | None:
        if request.instance_id is None and self._sessions.forget_pending(group, request.member_id):
            self._add(group, request, request.member_id, reply, now_ms)
            return None
        member = group.member_of(request.member_id, request.instance_id)
        same = [tuple(entry) for entry in member.protocols] == [tuple(entry) for entry in request.protocols]
        is_leader = member.member_id == group.leader_id
        if same and (
            group.state is GroupState.COMPLETING_REBALANCE or (group.state is GroupState.STABLE and not is_leader)
        ):
            self._sessions.extend(group, member, now_ms)
            return group.joined_result(member.member_id)
        _update(member, request)
        _await_join(member, reply)
        self._rebalances.start(group, now_ms)
        return None

    def _add(self, group: ClassicGroup, request: Join, member_id: str, reply: JoinReply, now_ms: int) -> None:
        member = Member(
            member_id,
            request.instance_id,
            request.client_id,
            request.client_host,
            request.session_timeout_ms,
            request.rebalance_timeout_ms,
            request.protocols,
            awaiting_join=reply,
        )
        if not group.members:
            group.protocol_type = request.protocol_type
        self._unused.remove(group.group_id)
        group.add(member)
        group.member_added = True
        self._sessions.begin(group, member, now_ms)
        self._rebalances.start(group, now_ms)

    # Static members.

    def _replace_static(
        self, group: ClassicGroup, request: Join, member_id: str, reply: JoinReply, now_ms: int
    ) -> JoinGroupResponse | None:
        """Let a static member that lost its id rejoin; a client that still uses the old id is fenced."""
        member = group.members[group.static_members[request.instance_id or ""]]
        old_id, before = member.member_id, _updated_fields(member)
        respond_to_join(member, JoinGroupResponse(error_code=ErrorCode.FENCED_INSTANCE_ID, member_id=old_id))
        respond_to_sync(group, member, ErrorCode.FENCED_INSTANCE_ID)
        was_leader = old_id == group.leader_id
        group.rename(member, member_id)
        _update(member, request)
        member.is_new = False
        self._sessions.extend(group, member, now_ms)
        member.awaiting_join = reply
        if group.state is not GroupState.STABLE or group.select_protocol() != group.protocol_name:
            self._rebalances.start(group, now_ms)
            return None

        # Nothing but the id changes, and only once it is committed.
        def committed(error: BrokerError | None) -> None:
            if group.members.get(member_id) is not member or member.awaiting_join is not reply:
                return  # in the meantime, the member has been replaced again, or removed
            if error is not None:
                group.rename(member, old_id)
                for name, value in before.items():
                    setattr(member, name, value)
                respond_to_join(member, JoinGroupResponse(error_code=error.code))
            elif group.state is GroupState.STABLE:
                respond_to_join(member, _replaced(group, member_id, old_id if was_leader else None, request))

        self._outbox.add(group_record(group), committed)
        return None

    # Assigning.

    def sync(self, request: Sync, reply: SyncReply, now_ms: int) -> None:
        """Answer a member with its assignment, immediately or once the leader has sent it.

        Args:
            request: the member's request; that of the leader carries the assignments of all members.
            reply: called once with the response, immediately or later.
            now_ms: the current time.
        """
        try:
            response = self._sync(request, reply, now_ms)
        except BrokerError as error:
            response = SyncGroupResponse(error_code=error.code)
        if response is not None:
            reply(response)

    def _sync(self, request: Sync, reply: SyncReply, now_ms: int) -> SyncGroupResponse | None:
        group = self._group_of_member(request.group_id)
        member = group.member_of(request.member_id, request.instance_id)
        group.check_generation(request.generation_id)
        if request.protocol_type not in (None, group.protocol_type) or request.protocol_name not in (
            None,
            group.protocol_name,
        ):
            raise BrokerError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        if group.state is GroupState.PREPARING_REBALANCE:
            raise BrokerError(ErrorCode.REBALANCE_IN_PROGRESS)
        self._sessions.extend(group, member, now_ms)
        self._rebalances.synced(group, member)
        if group.state is GroupState.STABLE:
            return assigned(group, member)
        # An earlier SyncGroup of the member fails, since the client has given up waiting for it.
        respond_to_sync(group, member, ErrorCode.REBALANCE_IN_PROGRESS)
        member.awaiting_sync = reply
        if member.member_id == group.leader_id:
            self._rebalances.assign(group, request.assignments, now_ms)
        return None

    # Staying and leaving.

    def heartbeat(
        self, group_id: str, generation_id: int, member_id: str, instance_id: str | None, now_ms: int
    ) -> None:
        """Extend a member's session.

        Raises:
            BrokerError: the id is unknown, the generation is outdated, or the member has to rejoin
                (REBALANCE_IN_PROGRESS).
        """
        group = self._group_of_member(group_id)
        member = group.member_of(member_id, instance_id)
        group.check_generation(generation_id)
        self._extend(group, member, now_ms)
        if group.state is GroupState.PREPARING_REBALANCE:
            raise BrokerError(ErrorCode.REBALANCE_IN_PROGRESS)

    def leave(self, group_id: str, members: Sequence[tuple[str, str | None]], now_ms: int) -> list[ErrorCode]:
        """Remove members at their own request, or static members at an administrator's request.

        Args:
            group_id: the group.
            members: pairs of member id and instance id. The member id may be empty if there is an instance id; the
                instance id is None for dynamic members.
            now_ms: the current time.

        Returns:
            An error code for each member.
        """
        group = self._groups.get(group_id)
        if group is None:
            return [ErrorCode.UNKNOWN_MEMBER_ID for _ in members]
        codes = [self._leave(group, member_id, instance_id) for member_id, instance_id in members]
        if ErrorCode.NONE in codes:
            if group.state.is_joined:
                self._rebalances.start(group, now_ms)
            else:
                self._rebalances.continue_joining(group, now_ms)
        return codes

    def _leave(self, group: ClassicGroup, member_id: str, instance_id: str | None) -> ErrorCode:
        if self._sessions.forget_pending(group, member_id):
            return ErrorCode.NONE
        if member_id == UNKNOWN_MEMBER_ID and instance_id in group.static_members:
            member_id = group.static_members[instance_id]
        try:
            self._rebalances.dismiss(group, group.member_of(member_id, instance_id))
        except BrokerError as error:
            return error.code
        return ErrorCode.NONE

    def check_commit(self, commit: Commit, now_ms: int) -> None:
        """Check an offset commit, which a non-member may send only if the group is empty.

        As in Kafka, the group with the empty id may have offsets, but no members.

        Raises:
            BrokerError: the commit is refused.
        """
        group = self._groups.get(commit.group_id)
        if group is None:
            if commit.generation_id >= 0:
                # Before KIP-848, clients knew only ILLEGAL_GENERATION for a missing group.
                code = ErrorCode.GROUP_ID_NOT_FOUND if commit.knows_epochs else ErrorCode.ILLEGAL_GENERATION
                raise BrokerError(code, f"Group {commit.group_id} not found.")
            return
        if commit.generation_id < 0 and group.state is GroupState.EMPTY:
            return
        member = group.member_of(commit.member_id, commit.instance_id)
        group.check_generation(commit.generation_id)
        if group.state is GroupState.COMPLETING_REBALANCE:
            raise BrokerError(ErrorCode.REBALANCE_IN_PROGRESS)
        self._extend(group, member, now_ms)

    def check_commit_in_transaction(self, commit: Commit) -> None:
        """Check an offset commit in a transaction.

        A producer that sends no member data, as before KIP-447, may always commit.

        Raises:
            BrokerError: the member is unknown, or its generation is not the current one.
        """
        group = self._groups.get(commit.group_id)
        if group is None:
            if commit.generation_id >= 0:
                raise BrokerError(ErrorCode.ILLEGAL_GENERATION, f"group {commit.group_id!r} does not exist")
            return
        if commit.generation_id < 0 and group.state is GroupState.EMPTY:
            return
        if commit.generation_id >= 0 or commit.member_id != UNKNOWN_MEMBER_ID or commit.instance_id is not None:
            group.member_of(commit.member_id, commit.instance_id)
            group.check_generation(commit.generation_id)

    def _extend(self, group: ClassicGroup, member: Member, now_ms: int) -> None:
        """Extend a member's session; a new member keeps the time limit for its first join."""
        if not member.is_new:
            self._sessions.extend(group, member, now_ms)

    def _group_of_member(self, group_id: str) -> ClassicGroup:
        group = self._groups.get(group_id)
        if group is None:
            raise BrokerError(ErrorCode.UNKNOWN_MEMBER_ID, f"group {group_id!r} does not exist")
        return group

    def forget(self, group_id: str) -> None:
        """Drop the state of a group that was removed, or that has become a consumer group; its members must rejoin."""
        self._unused.remove(group_id)
        group = self._groups.pop(group_id, None)
        if group is not None:
            self._end(group, ErrorCode.REBALANCE_IN_PROGRESS)

    def adopt(self, group: ClassicGroup, now_ms: int, *, is_rebalancing: bool) -> None:
        """Take over a group that used to be a consumer group."""
        self._groups[group.group_id] = group
        for member in group.members.values():
            self._sessions.extend(group, member, now_ms)
        if is_rebalancing:
            self._rebalances.start(group, now_ms)

    def _end(self, group: ClassicGroup, error_code: ErrorCode) -> None:
        """Cancel a group's timers and answer all its waiting requests."""
        group.die()
        self._rebalances.cancel_timer(group)
        for member_id in list(group.pending_members):
            self._sessions.forget_pending(group, member_id)
        for member in group.members.values():
            self._sessions.end(member)
            respond_to_join(member, JoinGroupResponse(error_code=error_code, member_id=member.member_id))
            respond_to_sync(group, member, error_code)


def _replaced(group: ClassicGroup, member_id: str, led_as: str | None, request: Join) -> JoinGroupResponse:
    """Return the response for a static member that was replaced in a stable group.

    A leader must not compute another assignment, since no member would adopt it. If its client supports
    `skip_assignment`, the response sets that flag; otherwise, the response names another member as the leader.
    """
    response = group.joined_result(member_id)
    if not request.may_skip_assignment:
        response.leader, response.members = led_as or response.leader, ()
    elif led_as is not None:
        response.skip_assignment = True
    return response


def _updated_fields(member: Member) -> dict[str, object]:
    names = ("protocols", "session_timeout_ms", "rebalance_timeout_ms", "client_id", "client_host")
    return {name: getattr(member, name) for name in names}


def _update(member: Member, request: Join) -> None:
    member.protocols = request.protocols
    member.session_timeout_ms = request.session_timeout_ms
    member.rebalance_timeout_ms = request.rebalance_timeout_ms
    member.client_id = request.client_id
    member.client_host = request.client_host


def _await_join(member: Member, reply: JoinReply) -> None:
    """Delay a member's join. An earlier join that is still waiting fails, since its client has given up on it."""
    respond_to_join(member, JoinGroupResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID, member_id=member.member_id))
    member.awaiting_join = reply
