"""Deadlines for members of groups: for heartbeats, for revoking partitions or tasks, for rejoining, and for SyncGroup.

A timer that fires has no effect if its member is gone or has met the deadline. If the resulting record cannot be
written, the timer is set again.

Source: KIP-848; `GroupMetadataManager` in Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum, auto
from typing import Any, Generic, Protocol, TypeVar

from kafkawire.reference_broker.coordinators.shard import ShardTimers
from kafkawire.reference_broker.groups.outbox import Outbox
from kafkawire.reference_broker.work.timers import Timer
from kafkawire.sdk.errors import BrokerError

__all__ = ["Deadline", "Deadlines"]

#: The delay before another attempt to fence a member after a failed write.
_RETRY_MS = 500


class _Member(Protocol):
    """A member of any type of group."""

    @property
    def epoch(self) -> int: ...


class _Group(Protocol):
    """A group of any type."""

    @property
    def members(self) -> Mapping[str, Any]: ...


G = TypeVar("G", bound=_Group)
M = TypeVar("M", bound=_Member)


class Deadline(Enum):
    """The kinds of member deadlines."""

    #: The deadline for a heartbeat.
    SESSION = auto()
    #: The deadline for revoking partitions, after which the member moves to the next epoch.
    REVOCATION = auto()
    #: The deadline for a JoinGroup that a heartbeat response has requested.
    JOIN = auto()
    #: The deadline for SyncGroup after JoinGroup.
    SYNC = auto()


class Deadlines(Generic[G, M]):
    """The deadlines of all members of a shard's groups of one type.

    Args:
        groups: the groups, keyed by id.
        timers: timers for deadlines.
        outbox: receives the records that fence members.
        fence: fences a member that has missed a deadline.
    """

    def __init__(
        self, groups: Mapping[str, G], timers: ShardTimers, outbox: Outbox, fence: Callable[[G, M, int], None]
    ) -> None:
        self._groups = groups
        self._timers = timers
        self._outbox = outbox
        self._fence = fence
        #: The timers, keyed by group id and member id.
        self._set: dict[tuple[str, str], dict[Deadline, Timer]] = {}

    def set(
        self, deadline: Deadline, group_id: str, member_id: str, timeout_ms: int, now_ms: int, epoch: int | None = None
    ) -> None:
        """Set a deadline for a member; it replaces the member's previous deadline of the same kind.

        Args:
            deadline: the kind of deadline.
            group_id, member_id: the member.
            timeout_ms: the time left; if negative, there is no deadline.
            now_ms: the current time.
            epoch: if given, the deadline lapses once the member leaves this epoch.
        """

        def expire(now_ms: int) -> None:
            self.done(deadline, group_id, member_id)
            group = self._groups.get(group_id)
            member = None if group is None else group.members.get(member_id)
            if group is None or member is None or epoch not in (None, member.epoch):
                return

            def committed(error: BrokerError | None) -> None:
                # A member that was removed by other means and has since rejoined has its own deadline.
                if error is not None and not self.is_set(deadline, group_id, member_id):
                    self.set(deadline, group_id, member_id, _RETRY_MS, now_ms, epoch)

            self._outbox.on_committed(committed)
            try:
                self._fence(group, member, now_ms)
            except Exception:
                # A member without a deadline would never be removed.
                self.set(deadline, group_id, member_id, _RETRY_MS, now_ms, epoch)
                raise

        self.done(deadline, group_id, member_id)
        timer = self._timers.at(now_ms + max(timeout_ms, 0), expire)
        self._set.setdefault((group_id, member_id), {})[deadline] = timer

    def is_set(self, deadline: Deadline, group_id: str, member_id: str) -> bool:
        """Return whether a member has a deadline of a given kind."""
        return deadline in self._set.get((group_id, member_id), ())

    def done(self, deadline: Deadline, group_id: str, member_id: str) -> None:
        """Remove a deadline."""
        timers = self._set.get((group_id, member_id), {})
        timer = timers.pop(deadline, None)
        if timer is not None:
            timer.cancel()
            if not timers:
                del self._set[group_id, member_id]

    def forget(self, group_id: str, member_id: str) -> None:
        """Drop all deadlines of a removed member."""
        for timer in self._set.pop((group_id, member_id), {}).values():
            timer.cancel()

    def cancel(self) -> None:
        """Cancel all deadlines."""
        for group_id, member_id in list(self._set):
            self.forget(group_id, member_id)
