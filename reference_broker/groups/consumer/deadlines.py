"""What members of consumer groups have to do in time: be heard, revoke partitions, rejoin, ask for their assignment.

A timer that has become meaningless, because its member is gone or has done what was asked, does nothing. One whose
consequence could not be written fires again.

Source: KIP-848; `GroupMetadataManager` in Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum, auto

from kafkawire.reference_broker.coordinators.shard import ShardTimers
from kafkawire.reference_broker.groups.consumer.group import ConsumerGroup, ConsumerMember
from kafkawire.reference_broker.groups.outbox import Outbox
from kafkawire.reference_broker.work.timers import Timer
from kafkawire.sdk.errors import BrokerError

__all__ = ["Deadline", "Deadlines"]

#: When to fence a member again whose fencing could not be written.
_RETRY_MS = 500

#: Fences a member.
Fence = Callable[[ConsumerGroup, ConsumerMember, int], None]


class Deadline(Enum):
    """What a member has to do."""

    #: To be heard.
    SESSION = auto()
    #: To revoke partitions, before it goes on to the next epoch.
    REVOCATION = auto()
    #: To send JoinGroup, after a heartbeat has told it so.
    JOIN = auto()
    #: To send SyncGroup, after JoinGroup.
    SYNC = auto()


class Deadlines:
    """The deadlines of all members of a shard.

    Args:
        groups: the groups by id.
        timers: where deadlines are set.
        outbox: gets the records of fencing.
        fence: fences a member that missed one.
    """

    def __init__(self, groups: dict[str, ConsumerGroup], timers: ShardTimers, outbox: Outbox, fence: Fence) -> None:
        self._groups = groups
        self._timers = timers
        self._outbox = outbox
        self._fence = fence
        #: By group and member id.
        self._set: dict[tuple[str, str], dict[Deadline, Timer]] = {}

    def set(
        self, deadline: Deadline, group_id: str, member_id: str, timeout_ms: int, now_ms: int, epoch: int | None = None
    ) -> None:
        """Expect something of a member, instead of what was expected before.

        Args:
            deadline: what.
            group_id, member_id: of whom.
            timeout_ms: how long it may take; nothing if negative.
            now_ms: the current time.
            epoch: the member's, if reaching another one is what is expected.
        """

        def expire(now_ms: int) -> None:
            self.done(deadline, group_id, member_id)
            group = self._groups.get(group_id)
            member = None if group is None else group.members.get(member_id)
            if group is None or member is None or epoch not in (None, member.epoch):
                return

            def committed(error: BrokerError | None) -> None:
                # A member that was removed for all that, and has come back since, has a deadline of its own.
                if error is not None and not self.is_set(deadline, group_id, member_id):
                    self.set(deadline, group_id, member_id, _RETRY_MS, now_ms, epoch)

            self._outbox.on_committed(committed)
            try:
                self._fence(group, member, now_ms)
            except Exception:
                # A member that nobody expects anything of would stay for ever.
                self.set(deadline, group_id, member_id, _RETRY_MS, now_ms, epoch)
                raise

        self.done(deadline, group_id, member_id)
        timer = self._timers.at(now_ms + max(timeout_ms, 0), expire)
        self._set.setdefault((group_id, member_id), {})[deadline] = timer

    def is_set(self, deadline: Deadline, group_id: str, member_id: str) -> bool:
        """Return whether something is expected of a member."""
        return deadline in self._set.get((group_id, member_id), ())

    def done(self, deadline: Deadline, group_id: str, member_id: str) -> None:
        """Expect something no longer."""
        timers = self._set.get((group_id, member_id), {})
        timer = timers.pop(deadline, None)
        if timer is not None:
            timer.cancel()
            if not timers:
                del self._set[group_id, member_id]

    def forget(self, group_id: str, member_id: str) -> None:
        """Expect nothing of a member that is gone."""
        for timer in self._set.pop((group_id, member_id), {}).values():
            timer.cancel()

    def cancel(self) -> None:
        """Expect nothing of anybody."""
        for group_id, member_id in list(self._set):
            self.forget(group_id, member_id)
