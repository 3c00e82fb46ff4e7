"""The coordinator of classic groups: membership, rebalances, assignments.

A state machine: requests and deadlines come in with the time, responses leave through the callbacks given with the
requests. Committed offsets are in `offsets.py`; both persist their state in the `__consumer_offsets` log through a
`GroupStore`.

Source: KIP-62, KIP-134 (initial delay), KIP-345 (static members), KIP-394 (member ids), KIP-814 (skipped assignment).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from kafkawire.reference_broker.groups.group import Group, GroupState, JoinReply, Member, SyncReply
from kafkawire.reference_broker.groups.requests import GroupLimits, GroupStore, Join, Sync
from kafkawire.reference_broker.timers import Timers
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.messages.join_group import JoinGroupResponse
from kafkawire.sdk.protocol.messages.sync_group import SyncGroupResponse
from kafkawire.sdk.protocol.tables.enums import UNKNOWN_MEMBER_ID
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode

__all__ = ["GroupCoordinator"]


class GroupCoordinator:
    """All groups of a broker.

    Args:
        timers: where deadlines are set.
        store: where groups are persisted.
        new_id: returns the random part of a member id.
        limits: see `GroupLimits`.
    """

    def __init__(self, timers: Timers, store: GroupStore, new_id: Callable[[], str], limits: GroupLimits) -> None:
        self.groups: dict[str, Group] = {}
        self._timers = timers
        self._store = store
        self._new_id = new_id
        self._limits = limits

    def restore(self, groups: Iterable[Group], now_ms: int) -> None:
        """Restore groups read from the log; their members get a full session timeout to send a heartbeat."""
        for group in groups:
            self.groups[group.group_id] = group
            for member in group.members.values():
                self._expect_heartbeat(group, member, now_ms)

    # Joining.

    def join(self, request: Join, reply: JoinReply, now_ms: int) -> None:
        """Join a member, now or once the others have joined too.

        Args:
            request: the member's request.
            reply: called once with the response, immediately or later.
            now_ms: the current time.
        """
        try:
            response = self._join(request, reply, now_ms)
        except BrokerError as error:
            response = JoinGroupResponse(error_code=error.code, member_id=request.member_id)
        if response is not None:
            reply(response)

    def _join(self, request: Join, reply: JoinReply, now_ms: int) -> JoinGroupResponse | None:
        """Return the response, or None if it is delayed."""
        limits = self._limits
        _check_group_id(request.group_id)
        if not limits.group_min_session_timeout_ms <= request.session_timeout_ms <= limits.group_max_session_timeout_ms:
            raise BrokerError(ErrorCode.INVALID_SESSION_TIMEOUT, f"{request.session_timeout_ms} ms")
        group = self.groups.get(request.group_id)
        if group is None:
            if request.member_id != UNKNOWN_MEMBER_ID:
                raise BrokerError(ErrorCode.UNKNOWN_MEMBER_ID)
            group = Group(request.group_id)
        if not group.supports(request.protocol_type, request.protocols):
            raise BrokerError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        is_expected = request.member_id in group.members or request.member_id in group.pending_members
        if not is_expected and group.size >= limits.group_max_size and request.instance_id not in group.static_members:
            raise BrokerError(ErrorCode.GROUP_MAX_SIZE_REACHED, f"{group.size} members")
        self.groups[request.group_id] = group
        if request.member_id == UNKNOWN_MEMBER_ID:
            return self._join_unknown(group, request, reply, now_ms)
        return self._join_known(group, request, reply, now_ms)

    def _join_unknown(self, group: Group, request: Join, reply: JoinReply, now_ms: int) -> JoinGroupResponse | None:
        member_id = f"{request.instance_id or request.client_id}-{self._new_id()}"
        if request.instance_id in group.static_members:
            return self._replace_static(group, request, member_id, reply, now_ms)
        if request.instance_id is None and request.needs_member_id:
            group.pending_members[member_id] = self._timers.at(
                now_ms + request.session_timeout_ms, lambda now_ms: self._drop_pending(group, member_id, now_ms)
            )
            return JoinGroupResponse(error_code=ErrorCode.MEMBER_ID_REQUIRED, member_id=member_id)
        self._add(group, request, member_id, reply, now_ms)
        return None

    def _join_known(self, group: Group, request: Join, reply: JoinReply, now_ms: int) -> JoinGroupResponse | None:
        if (expiry := group.pending_members.pop(request.member_id, None)) is not None:
            expiry.cancel()
            self._add(group, request, request.member_id, reply, now_ms)
            return None
        member = _member(group, request.member_id, request.instance_id)
        same = [tuple(entry) for entry in member.protocols] == [tuple(entry) for entry in request.protocols]
        is_leader = member.member_id == group.leader_id
        if same and (
            group.state is GroupState.COMPLETING_REBALANCE or (group.state is GroupState.STABLE and not is_leader)
        ):
            self._expect_heartbeat(group, member, now_ms)
            return group.joined_result(member.member_id)
        _update(member, request)
        _await_join(member, reply)
        self._expect_heartbeat(group, member, now_ms)
        self._rebalance(group, now_ms)
        return None

    def _add(self, group: Group, request: Join, member_id: str, reply: JoinReply, now_ms: int) -> None:
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
        group.add(member)
        group.member_added = True
        self._expect_heartbeat(group, member, now_ms)
        self._rebalance(group, now_ms)

    def _replace_static(
        self, group: Group, request: Join, member_id: str, reply: JoinReply, now_ms: int
    ) -> JoinGroupResponse | None:
        """Rejoin a static member that lost its id; a client that still uses the old id is fenced."""
        member = group.members[group.static_members[request.instance_id or ""]]
        old_id, old_protocol = member.member_id, group.protocol_name
        if (waiting := member.awaiting_join) is not None:
            member.awaiting_join = None
            waiting(JoinGroupResponse(error_code=ErrorCode.FENCED_INSTANCE_ID, member_id=old_id))
        if (syncing := member.awaiting_sync) is not None:
            member.awaiting_sync = None
            syncing(SyncGroupResponse(error_code=ErrorCode.FENCED_INSTANCE_ID))
        was_leader = old_id == group.leader_id
        group.rename(member, member_id)
        _update(member, request)
        self._expect_heartbeat(group, member, now_ms)
        if group.state is not GroupState.STABLE or group.select_protocol() != old_protocol:
            _await_join(member, reply)
            self._rebalance(group, now_ms)
            return None
        # The group stays as it is. A leader must not assign again, since nobody would adopt its assignment: a client
        # that knows `skip_assignment` gets it, any other is told that another member leads.
        self._store.store_group(group, now_ms)
        response = group.joined_result(member_id)
        if was_leader and request.may_skip_assignment:
            response.skip_assignment = True
        elif was_leader:
            response.leader, response.members = old_id, ()
        return response

    # Rebalancing.

    def _rebalance(self, group: Group, now_ms: int) -> None:
        """Start a rebalance, or continue the one in progress."""
        if group.state is GroupState.PREPARING_REBALANCE:
            self._end_joining_when_complete(group, now_ms)
            return
        if group.state is GroupState.COMPLETING_REBALANCE:
            for member in group.members.values():
                member.assignment = b""
                _respond_to_sync(group, member, ErrorCode.REBALANCE_IN_PROGRESS)
        group.pending_sync.clear()
        group.is_first_rebalance = group.state is GroupState.EMPTY
        _enter(group, GroupState.PREPARING_REBALANCE, now_ms)
        if group.is_first_rebalance:
            self._await_first_members(group, group.rebalance_timeout_ms, now_ms)
        else:
            deadline_ms = now_ms + group.rebalance_timeout_ms
            self._set_rebalance_timer(group, deadline_ms, lambda now_ms: self._end_joining(group, now_ms))
            self._end_joining_when_complete(group, now_ms)

    def _await_first_members(self, group: Group, remaining_ms: int, now_ms: int) -> None:
        """Wait for the initial delay, and again while members keep joining, up to the rebalance timeout."""
        delay_ms = min(self._limits.group_initial_rebalance_delay_ms, remaining_ms)
        if delay_ms == 0:
            self._end_joining(group, now_ms)
            return
        group.member_added = False

        def delay_ends(now_ms: int) -> None:
            if group.member_added and remaining_ms > delay_ms:
                self._await_first_members(group, remaining_ms - delay_ms, now_ms)
            else:
                self._end_joining(group, now_ms)

        self._set_rebalance_timer(group, now_ms + delay_ms, delay_ends)

    def _end_joining_when_complete(self, group: Group, now_ms: int) -> None:
        if group.state is GroupState.PREPARING_REBALANCE and not group.is_first_rebalance and group.all_joined():
            self._end_joining(group, now_ms)

    def _end_joining(self, group: Group, now_ms: int) -> None:
        """Start the next generation with the members that joined; static members keep their place for their session."""
        group.is_first_rebalance = False
        for member in list(group.members.values()):
            if member.awaiting_join is None and member.instance_id is None:
                group.remove(member.member_id)
        joined = [member for member in group.members.values() if member.awaiting_join]
        if group.members and not joined:
            deadline_ms = now_ms + group.rebalance_timeout_ms
            self._set_rebalance_timer(group, deadline_ms, lambda now_ms: self._end_joining(group, now_ms))
            return
        if group.rebalance_timer is not None:
            group.rebalance_timer.cancel()
        group.generation_id += 1
        if not group.members:
            group.protocol_name = None
            _enter(group, GroupState.EMPTY, now_ms)
            self._store.store_group(group, now_ms)
            return
        if group.leader_id not in {member.member_id for member in joined}:
            group.leader_id = joined[0].member_id
        group.protocol_name = group.select_protocol()
        _enter(group, GroupState.COMPLETING_REBALANCE, now_ms)
        group.pending_sync = set(group.members)
        deadline_ms = now_ms + group.rebalance_timeout_ms
        self._set_rebalance_timer(group, deadline_ms, lambda now_ms: self._end_syncing(group, now_ms))
        for member in joined:
            self._expect_heartbeat(group, member, now_ms)
            _respond_to_join(member, group.joined_result(member.member_id))

    def _end_syncing(self, group: Group, now_ms: int) -> None:
        """Rebalance without the members that did not send SyncGroup in time."""
        if group.state in (GroupState.COMPLETING_REBALANCE, GroupState.STABLE) and group.pending_sync:
            for member_id in list(group.pending_sync):
                group.remove(member_id)
            self._rebalance(group, now_ms)

    def _set_rebalance_timer(self, group: Group, deadline_ms: int, action: Callable[[int], None]) -> None:
        if group.rebalance_timer is not None:
            group.rebalance_timer.cancel()
        group.rebalance_timer = self._timers.at(deadline_ms, action)

    # Assigning.

    def sync(self, request: Sync, reply: SyncReply, now_ms: int) -> None:
        """Return a member's assignment, now or once the leader has sent it.

        Args:
            request: the member's request; the leader's carries the assignments of all members.
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
        member = _member(group, request.member_id, request.instance_id)
        _check_generation(group, request.generation_id)
        if request.protocol_type not in (None, group.protocol_type) or request.protocol_name not in (
            None,
            group.protocol_name,
        ):
            raise BrokerError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        if group.state is GroupState.EMPTY:
            raise BrokerError(ErrorCode.UNKNOWN_MEMBER_ID)
        if group.state is GroupState.PREPARING_REBALANCE:
            raise BrokerError(ErrorCode.REBALANCE_IN_PROGRESS)
        group.pending_sync.discard(member.member_id)
        self._expect_heartbeat(group, member, now_ms)
        if group.state is GroupState.STABLE:
            return _assigned(group, member)
        member.awaiting_sync = reply
        if member.member_id == group.leader_id:
            self._assign(group, request.assignments, now_ms)
        return None

    def _assign(self, group: Group, assignments: Mapping[str, bytes], now_ms: int) -> None:
        for member in group.members.values():
            member.assignment = assignments.get(member.member_id, b"")
        try:
            self._store.store_group(group, now_ms)
        except BrokerError as error:
            for member in group.members.values():
                member.assignment = b""
                _respond_to_sync(group, member, error.code)
            self._rebalance(group, now_ms)
            return
        _enter(group, GroupState.STABLE, now_ms)
        for member in group.members.values():
            if member.awaiting_sync is not None:
                self._expect_heartbeat(group, member, now_ms)
                _respond_to_sync(group, member, ErrorCode.NONE)

    # Staying and leaving.

    def heartbeat(
        self, group_id: str, generation_id: int, member_id: str, instance_id: str | None, now_ms: int
    ) -> None:
        """Extend a member's session.

        Raises:
            BrokerError: it is not a member, is of an old generation, or has to rejoin (REBALANCE_IN_PROGRESS).
        """
        group = self._group_of_member(group_id)
        member = _member(group, member_id, instance_id)
        _check_generation(group, generation_id)
        if group.state is GroupState.EMPTY:
            raise BrokerError(ErrorCode.UNKNOWN_MEMBER_ID)
        self._expect_heartbeat(group, member, now_ms)
        if group.state is GroupState.PREPARING_REBALANCE:
            raise BrokerError(ErrorCode.REBALANCE_IN_PROGRESS)

    def leave(self, group_id: str, member_id: str, instance_id: str | None, now_ms: int) -> None:
        """Remove a member at its own request, or a static one at an administrator's.

        Args:
            group_id: the group.
            member_id: may be empty if there is an instance id.
            instance_id: the id of a static member, None for a dynamic one.
            now_ms: the current time.

        Raises:
            BrokerError: there is no such member.
        """
        group = self._group_of_member(group_id)
        if member_id in group.pending_members:
            if instance_id is not None:
                raise BrokerError(ErrorCode.UNKNOWN_MEMBER_ID)
            self._drop_pending(group, member_id, now_ms)
            return
        if member_id == UNKNOWN_MEMBER_ID and instance_id in group.static_members:
            member_id = group.static_members[instance_id]
        self._remove(group, _member(group, member_id, instance_id), now_ms)

    def check_commit(
        self, group_id: str, generation_id: int, member_id: str, instance_id: str | None, now_ms: int
    ) -> None:
        """Check that offsets may be committed: by a member of the current generation, or from outside an empty group.

        As in Kafka, the group with the empty id may have offsets, but no members.

        Raises:
            BrokerError: they may not.
        """
        group = self.groups.get(group_id)
        if group is None:
            if generation_id >= 0:
                raise BrokerError(ErrorCode.GROUP_ID_NOT_FOUND, f"group {group_id!r} does not exist")
            return
        if generation_id < 0 and group.state is GroupState.EMPTY:
            return
        if generation_id < 0 and member_id == UNKNOWN_MEMBER_ID and instance_id is None:
            raise BrokerError(ErrorCode.UNKNOWN_MEMBER_ID, "the group has members, only they can commit")
        member = _member(group, member_id, instance_id)
        _check_generation(group, generation_id)
        if group.state is GroupState.COMPLETING_REBALANCE:
            raise BrokerError(ErrorCode.REBALANCE_IN_PROGRESS)
        self._expect_heartbeat(group, member, now_ms)

    def group_for_commit(self, group_id: str, now_ms: int) -> Group:
        """Return a group, created if it does not exist: offsets may be committed without members."""
        group = self.groups.get(group_id)
        if group is None:
            group = self.groups[group_id] = Group(group_id, state_changed_ms=now_ms)
        return group

    def delete(self, group_id: str, now_ms: int) -> None:
        """Delete an empty group.

        Raises:
            BrokerError: there is no such group, or it has members.
        """
        group = self.groups.get(group_id)
        if group is None:
            raise BrokerError(ErrorCode.GROUP_ID_NOT_FOUND)
        if group.state is not GroupState.EMPTY:
            raise BrokerError(ErrorCode.NON_EMPTY_GROUP, f"state {group.state}")
        for timer in group.pending_members.values():
            timer.cancel()
        self._store.remove_group(group_id, now_ms)
        _enter(group, GroupState.DEAD, now_ms)
        del self.groups[group_id]

    def _group_of_member(self, group_id: str) -> Group:
        _check_group_id(group_id)
        group = self.groups.get(group_id)
        if group is None:
            raise BrokerError(ErrorCode.UNKNOWN_MEMBER_ID, f"group {group_id!r} does not exist")
        return group

    def _remove(self, group: Group, member: Member, now_ms: int) -> None:
        _respond_to_join(member, JoinGroupResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID))
        _respond_to_sync(group, member, ErrorCode.UNKNOWN_MEMBER_ID)
        group.remove(member.member_id)
        if group.state in (GroupState.STABLE, GroupState.COMPLETING_REBALANCE, GroupState.PREPARING_REBALANCE):
            self._rebalance(group, now_ms)

    def _drop_pending(self, group: Group, member_id: str, now_ms: int) -> None:
        if (timer := group.pending_members.pop(member_id, None)) is not None:
            timer.cancel()
        self._end_joining_when_complete(group, now_ms)

    def _expect_heartbeat(self, group: Group, member: Member, now_ms: int) -> None:
        """Restart a member's session timeout."""
        member.session_deadline_ms = now_ms + member.session_timeout_ms
        timer = member.session_timer
        # A timer that fires early checks the deadline again; only one that would fire late must be replaced.
        if timer is None or not timer.is_pending or timer.deadline_ms > member.session_deadline_ms:
            if timer is not None:
                timer.cancel()
            self._watch_session(group, member)

    def _watch_session(self, group: Group, member: Member) -> None:
        def look(now_ms: int) -> None:
            if group.members.get(member.member_id) is not member:
                return
            if member.awaiting_join or member.awaiting_sync:
                # It waits for this coordinator and cannot send heartbeats meanwhile.
                member.session_deadline_ms = now_ms + member.session_timeout_ms
            if member.session_deadline_ms > now_ms:
                self._watch_session(group, member)
            else:
                self._remove(group, member, now_ms)

        member.session_timer = self._timers.at(member.session_deadline_ms, look)


def _check_group_id(group_id: str) -> None:
    if not group_id:
        raise BrokerError(ErrorCode.INVALID_GROUP_ID, "the group id is empty")


def _check_generation(group: Group, generation_id: int) -> None:
    if generation_id != group.generation_id:
        raise BrokerError(
            ErrorCode.ILLEGAL_GENERATION, f"generation {generation_id}, the current one is {group.generation_id}"
        )


def _member(group: Group, member_id: str, instance_id: str | None) -> Member:
    """Return a member after checking its identity.

    Raises:
        BrokerError: UNKNOWN_MEMBER_ID, or FENCED_INSTANCE_ID if another member has taken over the instance id.
    """
    if instance_id is not None:
        if instance_id not in group.static_members:
            raise BrokerError(ErrorCode.UNKNOWN_MEMBER_ID, f"instance {instance_id!r} is unknown")
        if group.static_members[instance_id] != member_id:
            raise BrokerError(ErrorCode.FENCED_INSTANCE_ID, f"instance {instance_id!r} has another member id")
    if member_id not in group.members:
        raise BrokerError(ErrorCode.UNKNOWN_MEMBER_ID, f"member {member_id!r} is unknown")
    return group.members[member_id]


def _enter(group: Group, state: GroupState, now_ms: int) -> None:
    group.state = state
    group.state_changed_ms = now_ms


def _update(member: Member, request: Join) -> None:
    member.protocols = request.protocols
    member.session_timeout_ms = request.session_timeout_ms
    member.rebalance_timeout_ms = request.rebalance_timeout_ms
    member.client_id = request.client_id
    member.client_host = request.client_host


def _await_join(member: Member, reply: JoinReply) -> None:
    """Delay a member's join; an older pending one is failed, since its client has given up on it."""
    _respond_to_join(member, JoinGroupResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID, member_id=member.member_id))
    member.awaiting_join = reply


def _respond_to_join(member: Member, response: JoinGroupResponse) -> None:
    if (reply := member.awaiting_join) is not None:
        member.awaiting_join = None
        reply(response)


def _respond_to_sync(group: Group, member: Member, error_code: ErrorCode) -> None:
    if (reply := member.awaiting_sync) is not None:
        member.awaiting_sync = None
        reply(_assigned(group, member) if error_code is ErrorCode.NONE else SyncGroupResponse(error_code=error_code))


def _assigned(group: Group, member: Member) -> SyncGroupResponse:
    return SyncGroupResponse(
        protocol_type=group.protocol_type, protocol_name=group.protocol_name, assignment=member.assignment
    )
