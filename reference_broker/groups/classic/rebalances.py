"""Rebalances of classic groups: wait for the members to join, then for the leader's assignment.

Source: KIP-62, KIP-134 (initial delay); `GroupMetadataManager` in Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from kafkawire.reference_broker.coordinators.shard import ShardTimers
from kafkawire.reference_broker.groups.classic.group import ClassicGroup, GroupState, Member
from kafkawire.reference_broker.groups.classic.sessions import Sessions
from kafkawire.reference_broker.groups.outbox import Outbox
from kafkawire.reference_broker.groups.records import group_record
from kafkawire.reference_broker.groups.requests import GroupLimits
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.messages.join_group import JoinGroupResponse
from kafkawire.sdk.protocol.messages.sync_group import SyncGroupResponse
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode

__all__ = ["Rebalances", "assigned", "respond_to_join", "respond_to_sync"]


class Rebalances:
    """Moves a group from one generation to the next.

    Args:
        timers: timers for deadlines.
        outbox: receives the records of groups.
        limits: see `GroupLimits`.

    Attributes:
        sessions: the session timeouts of members.
    """

    def __init__(self, timers: ShardTimers, outbox: Outbox, limits: GroupLimits) -> None:
        self._timers = timers
        self._outbox = outbox
        self._limits = limits
        self.sessions = Sessions(timers, self._session_expired, self._continue_without)

    # Joining.

    def start(self, group: ClassicGroup, now_ms: int) -> None:
        """Start a rebalance, or continue one whose members are still joining."""
        if group.state is GroupState.PREPARING_REBALANCE:
            self.continue_joining(group, now_ms)
            return
        if group.state is GroupState.COMPLETING_REBALANCE:
            for member in group.members.values():
                member.assignment = b""
                respond_to_sync(group, member, ErrorCode.REBALANCE_IN_PROGRESS)
        group.pending_sync.clear()
        group.is_first_rebalance = group.state is GroupState.EMPTY
        group.enter(GroupState.PREPARING_REBALANCE, now_ms)
        if group.is_first_rebalance:
            delay_ms = self._limits.group_initial_rebalance_delay_ms
            self._await_first_members(group, delay_ms, max(group.rebalance_timeout_ms - delay_ms, 0), now_ms)
        elif group.all_joined():
            self._end_joining(group, now_ms)
        else:
            self._set_timer(group, now_ms + group.rebalance_timeout_ms, partial(self._end_joining, group))

    def continue_joining(self, group: ClassicGroup, now_ms: int) -> None:
        """End the joining phase if all members have joined; the first members of a group wait for the initial delay."""
        if group.state is not GroupState.PREPARING_REBALANCE or group.is_first_rebalance:
            return
        if group.all_joined():
            self._end_joining(group, now_ms)
        elif group.rebalance_timer is None and group.joined_count:
            self._set_timer(group, now_ms + group.rebalance_timeout_ms, partial(self._end_joining, group))

    def dismiss(self, group: ClassicGroup, member: Member) -> None:
        """Remove a member and answer its waiting request; the caller continues the rebalance."""
        respond_to_join(member, JoinGroupResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID))
        respond_to_sync(group, member, ErrorCode.UNKNOWN_MEMBER_ID)
        group.remove(member.member_id)

    def _session_expired(self, group: ClassicGroup, member: Member, now_ms: int) -> None:
        self.dismiss(group, member)
        if group.state.is_joined:
            self.start(group, now_ms)
        else:
            self._continue_without(group, now_ms)

    def _continue_without(self, group: ClassicGroup, now_ms: int) -> None:
        """Continue without a member that has timed out; as in Kafka, this cuts short even the initial delay."""
        if group.state is GroupState.PREPARING_REBALANCE and group.all_joined():
            self._end_joining(group, now_ms)

    def _await_first_members(self, group: ClassicGroup, delay_ms: int, remaining_ms: int, now_ms: int) -> None:
        """Wait for the initial delay, and extend it while more members join, up to the rebalance timeout."""
        group.member_added = False
        if delay_ms == 0:
            self._end_joining(group, now_ms)
            return

        def delay_ends(now_ms: int) -> None:
            if group.member_added and remaining_ms > 0:
                again_ms = min(self._limits.group_initial_rebalance_delay_ms, remaining_ms)
                self._await_first_members(group, again_ms, max(remaining_ms - delay_ms, 0), now_ms)
            else:
                self._end_joining(group, now_ms)

        self._set_timer(group, now_ms + delay_ms, delay_ends)

    def _end_joining(self, group: ClassicGroup, now_ms: int) -> None:
        """Start the next generation with the members that have joined; static members stay until their session ends."""
        for member in list(group.members.values()):
            if member.awaiting_join is None and member.instance_id is None:
                group.remove(member.member_id)
        joined = [member for member in group.members.values() if member.awaiting_join]
        group.is_first_rebalance = False
        self.cancel_timer(group)
        if group.members and not joined:
            # Only silent static members are left. The first one to join waits for the others; if none joins, their
            # sessions end. Retrying, as Kafka does, would be a busy loop if the rebalance timeout is 0.
            return
        group.generation_id += 1
        if not group.members:
            group.protocol_name = None
            group.enter(GroupState.EMPTY, now_ms)
            # Do not wait for this write: if it fails, the next load restores the logged generation, which then times
            # out.
            self._outbox.add(group_record(group))
            return
        if group.leader_id not in {member.member_id for member in joined}:
            group.leader_id = joined[0].member_id
        group.protocol_name = group.select_protocol()
        group.enter(GroupState.COMPLETING_REBALANCE, now_ms)
        group.pending_sync = set(group.members)
        self._set_timer(group, now_ms + group.rebalance_timeout_ms, partial(self._end_syncing, group))
        for member in joined:
            member.is_new = False
            self.sessions.extend(group, member, now_ms)
            respond_to_join(member, group.joined_result(member.member_id))

    # Assigning.

    def synced(self, group: ClassicGroup, member: Member) -> None:
        """Record a member's SyncGroup; the wait ends once every member has sent one."""
        group.pending_sync.discard(member.member_id)
        if not group.pending_sync:
            self.cancel_timer(group)

    def assign(self, group: ClassicGroup, assignments: Mapping[str, bytes], now_ms: int) -> None:
        """Store the leader's assignments; once these are committed, each member receives its own."""
        committed = partial(self._assigned, group, group.generation_id, assignments, now_ms)
        self._outbox.add(group_record(group, assignments), committed)

    def _assigned(
        self,
        group: ClassicGroup,
        generation_id: int,
        assignments: Mapping[str, bytes],
        now_ms: int,
        error: BrokerError | None,
    ) -> None:
        if group.state is not GroupState.COMPLETING_REBALANCE or group.generation_id != generation_id:
            return  # another rebalance has started and has answered all members
        if error is not None:
            for member in group.members.values():
                member.assignment = b""
                respond_to_sync(group, member, error.code)
            self.start(group, now_ms)
            return
        for member in group.members.values():
            member.assignment = assignments.get(member.member_id, b"")
        group.enter(GroupState.STABLE, now_ms)
        for member in group.members.values():
            if member.awaiting_sync is not None:
                # The session may have been extended while the assignment was being written.
                self.sessions.extend(
                    group, member, max(now_ms, self.sessions.deadline_ms(member) - member.session_timeout_ms)
                )
                respond_to_sync(group, member, ErrorCode.NONE)

    def _end_syncing(self, group: ClassicGroup, now_ms: int) -> None:
        """Rebalance without the members that did not send SyncGroup in time."""
        if not group.pending_sync:
            return  # the last missing member has been replaced
        for member_id in list(group.pending_sync):
            group.remove(member_id)
        self.start(group, now_ms)

    # Timers.

    def _set_timer(self, group: ClassicGroup, deadline_ms: int, action: Callable[[int], None]) -> None:
        self.cancel_timer(group)
        group.rebalance_timer = self._timers.at(deadline_ms, action)

    def cancel_timer(self, group: ClassicGroup) -> None:
        """Cancel the wait for members."""
        if group.rebalance_timer is not None:
            group.rebalance_timer.cancel()
            group.rebalance_timer = None


def assigned(group: ClassicGroup, member: Member) -> SyncGroupResponse:
    """Return the SyncGroup response with a member's assignment."""
    return SyncGroupResponse(
        protocol_type=group.protocol_type, protocol_name=group.protocol_name, assignment=member.assignment
    )


def respond_to_join(member: Member, response: JoinGroupResponse) -> None:
    """Answer a member's JoinGroup, if it is waiting."""
    if (reply := member.awaiting_join) is not None:
        member.awaiting_join = None
        reply(response)


def respond_to_sync(group: ClassicGroup, member: Member, error_code: ErrorCode) -> None:
    """Answer a member's SyncGroup, if it is waiting, with the assignment or an error."""
    if (reply := member.awaiting_sync) is not None:
        member.awaiting_sync = None
        reply(assigned(group, member) if error_code is ErrorCode.NONE else SyncGroupResponse(error_code=error_code))
