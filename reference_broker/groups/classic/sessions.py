"""Session timeouts of members of classic groups.

A deadline that moves with every heartbeat is stored next to its timer and checked when the timer fires, which is
cheaper than creating a timer for each heartbeat.

Source: KIP-62, KIP-394; `GroupMetadataManager`, `ClassicGroupMember.hasSatisfiedHeartbeat` in Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Callable

from kafkawire.reference_broker.coordinators.shard import ShardTimers
from kafkawire.reference_broker.groups.classic.group import ClassicGroup, Member

__all__ = ["NEW_MEMBER_JOIN_TIMEOUT_MS", "PENDING_MEMBERS_MAX", "Sessions"]

#: How long the first JoinGroup of a member may wait. Its client cannot send heartbeats yet, and may have retried with a
#: different id; without a limit, such members would stay until the rebalance ends.
NEW_MEMBER_JOIN_TIMEOUT_MS = 5 * 60_000

#: Maximum number of assigned but unused ids in a group. Clients use their ids immediately, so the oldest ones have been
#: abandoned.
PENDING_MEMBERS_MAX = 1_000

#: Minimum interval between checks of a waiting member; without it, a session of 1 ms would be checked constantly.
_WAITING_MS_MIN = 1_000


class Sessions:
    """The session timeouts of members, and the expiry of assigned ids.

    Args:
        timers: timers for deadlines.
        expired: called with a member whose session has timed out.
        pending_expired: called with an id that was not used in time and is no longer pending.
    """

    def __init__(
        self,
        timers: ShardTimers,
        expired: Callable[[ClassicGroup, Member, int], None],
        pending_expired: Callable[[ClassicGroup, int], None],
    ) -> None:
        self._timers = timers
        self._expired = expired
        self._pending_expired = pending_expired

    def begin(self, group: ClassicGroup, member: Member, now_ms: int) -> None:
        """Start the session of a new member that is waiting in its first JoinGroup."""
        member.is_new = True
        self._set_deadline(group, member, now_ms + NEW_MEMBER_JOIN_TIMEOUT_MS)

    def extend(self, group: ClassicGroup, member: Member, now_ms: int) -> None:
        """Restart a member's session timeout."""
        self._set_deadline(group, member, now_ms + member.session_timeout_ms)

    def end(self, member: Member) -> None:
        """End a session without calling `expired`."""
        if member.session_timer is not None:
            member.session_timer.cancel()

    def deadline_ms(self, member: Member) -> int:
        """Return the time at which a session ends."""
        return member.session_deadline_ms + self._timers.jumped_ms

    def await_pending(self, group: ClassicGroup, member_id: str, timeout_ms: int, now_ms: int) -> None:
        """Add an assigned id that must be used in time; if there are too many, drop the oldest."""

        def expire(now_ms: int) -> None:
            del group.pending_members[member_id]
            self._pending_expired(group, now_ms)

        if len(group.pending_members) >= PENDING_MEMBERS_MAX:
            self.forget_pending(group, next(iter(group.pending_members)))
        group.pending_members[member_id] = self._timers.at(now_ms + timeout_ms, expire)

    def forget_pending(self, group: ClassicGroup, member_id: str) -> bool:
        """Drop an assigned id; return whether it was known."""
        timer = group.pending_members.pop(member_id, None)
        if timer is not None:
            timer.cancel()
        return timer is not None

    def _set_deadline(self, group: ClassicGroup, member: Member, deadline_ms: int) -> None:
        member.session_deadline_ms = deadline_ms - self._timers.jumped_ms
        timer = member.session_timer
        # A timer that fires early checks the deadline again; only one that would fire late must be replaced.
        if timer is None or not timer.is_pending or timer.deadline_ms > deadline_ms:
            if timer is not None:
                timer.cancel()
            self._watch(group, member)

    def _watch(self, group: ClassicGroup, member: Member) -> None:
        def look(now_ms: int) -> None:
            if group.members.get(member.member_id) is not member:
                return
            if not member.is_new and (member.awaiting_join or member.awaiting_sync):
                # The member is waiting for this coordinator, and cannot send heartbeats meanwhile.
                waiting_ms = max(member.session_timeout_ms, _WAITING_MS_MIN)
                member.session_deadline_ms = now_ms + waiting_ms - self._timers.jumped_ms
            if self.deadline_ms(member) > now_ms:
                self._watch(group, member)
            else:
                self._expired(group, member, now_ms)

        member.session_timer = self._timers.at(self.deadline_ms(member), look)
