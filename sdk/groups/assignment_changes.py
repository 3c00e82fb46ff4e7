"""Changes to a member's assignment: the steps taken, in order, when the member gains, gives up or loses partitions.

    revoke: withhold → commit finished positions → tell the listener → commit positions finished since → let go
    assign: add, but withhold records → tell the listener → hand out records
    lose:   let go → tell the listener

Operations run one at a time, each with at most one unacknowledged event. A loss does not wait for other
operations: the partitions are dropped immediately, and the listener is told once it has handled the previous event.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping
from functools import partial
from typing import Final, Protocol

from kafkawire.sdk.errors import KafkaWireError, LocalProtocolError
from kafkawire.sdk.groups.commit_outcome import Committed, OnDone, Outcome
from kafkawire.sdk.groups.pending_commits import Member
from kafkawire.sdk.groups.protocol import Assigned, Event, Lost, MemberReader, Notify, Revoking, Step
from kafkawire.sdk.log_limit import LogLimit
from kafkawire.sdk.routing.partitions import OffsetAndMetadata, TopicPartition

__all__ = ["AssignmentChanges", "Commits", "MemberCommits"]

logger = logging.getLogger("kafkawire.group")

#: How long the commit after the listener may take if the listener has used up the time: other members are waiting.
_LATE_COMMIT_MS: Final = 5_000

#: The maximum number of partitions named in a log line, for readability.
_NAMED: Final = 20


class Commits(Protocol):
    """The part of `Offsets` that assignment changes need."""

    def commit(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], deadline_ms: int, on_done: OnDone, now_ms: int
    ) -> None: ...

    def release(
        self, partitions: Collection[TopicPartition] | None, now_ms: int, cause: KafkaWireError | None = None
    ) -> None: ...


class MemberCommits(Commits, Protocol):
    """The offsets of a member, in one or two stores.

    Attributes:
        member: signs the commits.
    """

    @property
    def member(self) -> Member | None: ...

    @member.setter
    def member(self, member: Member | None) -> None: ...


class AssignmentChanges:
    """Apply changes to one member's assignment, one at a time.

    Args:
        group_id: the group, for the log.
        reader: reads the partitions.
        offsets: commits finished positions before partitions are revoked.
        notify: receives the events.
        auto_commit: whether to commit before partitions are revoked.

    Attributes:
        group_id: as given.
    """

    def __init__(
        self, group_id: str, reader: MemberReader, offsets: Commits, notify: Notify, *, auto_commit: bool
    ) -> None:
        self.group_id = group_id
        self._reader = reader
        self._offsets = offsets
        self._notify = notify
        self._auto_commit = auto_commit
        self._event: Event | None = None
        self._is_told = self._is_acknowledged = False
        self._deadline_ms = 0
        self._tried: Mapping[TopicPartition, OffsetAndMetadata] = {}
        self._lost: frozenset[TopicPartition] = frozenset()
        self._lost_generation = -1
        self._then: Step | None = None
        self._others: frozenset[TopicPartition] = frozenset()
        self._lines = LogLimit(logger)

    @property
    def busy(self) -> bool:
        """Whether an operation is running."""
        return self._event is not None

    def _check_idle(self) -> None:
        if self.busy:
            raise LocalProtocolError(
                f"group {self.group_id}: {self._event!r} is still running; only one event may run at a time"
            )

    def revoke(
        self, partitions: Iterable[TopicPartition], generation: int, deadline_ms: int, now_ms: int, then: Step
    ) -> None:
        """Give up partitions.

        Args:
            partitions: the partitions to give up; any that are not being read are ignored.
            generation: the current generation.
            deadline_ms: the deadline for the commits.
            now_ms: the time.
            then: called once the partitions are given up; immediately if there are none.
        """
        self._check_idle()
        going = frozenset(partitions) & self._reader.assigned
        if not going:
            then(now_ms)
            return
        logger.info("group %s, generation %d: revoking %s", self.group_id, generation, _listed(going))
        self._then = then
        event = self._event = Revoking(going, generation)
        self._is_told = self._is_acknowledged = False
        self._deadline_ms, self._tried = deadline_ms, {}
        self._reader.withhold(going)
        self._commit(event, partial(self._tell, event), now_ms)

    def assign(self, target: Iterable[TopicPartition], generation: int, now_ms: int, then: Step) -> None:
        """Read exactly these partitions, which include the current ones.

        Args:
            target: all partitions to read.
            generation: the current generation.
            now_ms: the time.
            then: called once the listener has handled the event; immediately if nothing was added.
        """
        self._check_idle()
        target = frozenset(target)
        added = target - self._reader.assigned
        self._reader.assign(target)
        if not added:
            then(now_ms)
            return
        logger.info("group %s, generation %d: assigned %s", self.group_id, generation, _listed(added))
        self._reader.withhold(added)
        self._then = then
        event = self._event = Assigned(added, generation)
        self._tell(event, now_ms)

    def lose(self, generation: int, cause: KafkaWireError, now_ms: int, then: Step) -> None:
        """Drop all partitions, even if another operation is running.

        Args:
            generation: the lost generation.
            cause: the reason; waiting commits fail with this error.
            now_ms: the time.
            then: called once the listener has handled the event; replaces the `then` of the running operation.
        """
        lost = self._reader.assigned
        self._then = then
        if self._event is not None and not self._is_told:
            self._event = None  # the listener has not been told yet that it may commit; it is told about a loss instead
        elif isinstance(self._event, Revoking):
            lost -= self._event.partitions
        if not lost:
            self._lines.info("lost", now_ms, "group %s: the membership was lost: %s", self.group_id, cause)
        else:
            logger.warning("group %s, generation %d: lost %s: %s", self.group_id, generation, _listed(lost), cause)
            self._lost |= lost
            self._lost_generation = generation
        self._reader.assign(())
        self._offsets.release(None, now_ms, cause)  # this may end the last commit, and with it the operation
        if self._event is None:
            self._go_on(now_ms)

    def after(self, step: Step, now_ms: int) -> None:
        """Call a function once the running operation has ended, instead of its `then`; call it immediately if idle."""
        self._then = step
        if not self.busy:
            self._go_on(now_ms)

    def keep_to(self, topics: Collection[str] | None) -> None:
        """Hand out only records from these topics; partitions of other topics are given up later.

        Records withheld by an earlier call are handed out again if their topic is included; None stands for all.
        """
        assigned = self._reader.assigned
        others = frozenset() if topics is None else frozenset(each for each in assigned if each.topic not in topics)
        if self._others - others and not self.busy:  # when an operation ends, the reader continues anyway
            self._reader.assign(assigned)
        self._others = others
        self._reader.withhold(others)

    def abandon(self, now_ms: int) -> None:
        """Drop everything immediately, without waiting."""
        self._event = self._then = None
        self._lost = frozenset()
        self._reader.assign(())
        self._offsets.release(None, now_ms)

    def forget(self) -> None:
        """Stop waiting without changing anything, because the client has ended."""
        self._event = self._then = None
        self._lost = frozenset()

    def acknowledge(self, event: Event, now_ms: int) -> None:
        """Continue after the listener has handled an event; see `GroupProtocol.acknowledge`."""
        if event is not self._event or not self._is_told or self._is_acknowledged:
            return
        if isinstance(event, Revoking):
            self._is_acknowledged = True
            self._commit(event, partial(self._let_go, event), now_ms)
            return
        self._event = None
        if isinstance(event, Assigned):
            self._reader.assign(self._reader.assigned)
        self._go_on(now_ms)

    def _commit(self, event: Event, then: Step, now_ms: int) -> None:
        """Commit the finished positions of revoked partitions that have not been tried before; then continue."""
        finished = self._reader.to_commit(event.partitions & self._reader.assigned) if self._auto_commit else {}
        offsets = {each: offset for each, offset in finished.items() if self._tried.get(each) != offset}
        if not offsets:
            then(now_ms)
            return

        def saved(outcome: Outcome | KafkaWireError, now_ms: int) -> None:
            if not isinstance(outcome, Committed):
                logger.warning("group %s: some offsets were not committed before revoking: %s", self.group_id, outcome)
            if self._event is event:
                then(now_ms)

        self._tried = finished
        least_ms = now_ms + _LATE_COMMIT_MS if self._is_acknowledged else 0
        self._offsets.commit(offsets, max(self._deadline_ms, least_ms), saved, now_ms)

    def _let_go(self, event: Event, now_ms: int) -> None:
        """End a revocation."""
        self._event = None
        self._offsets.release(event.partitions, now_ms)
        self._reader.assign(self._reader.assigned - event.partitions)
        self._go_on(now_ms)

    def _tell(self, event: Event, now_ms: int) -> None:
        self._is_told, self._is_acknowledged = True, False
        self._notify(event, now_ms)

    def _go_on(self, now_ms: int) -> None:
        if self._lost:
            lost, self._lost = self._lost, frozenset()
            event = self._event = Lost(lost, self._lost_generation)
            self._tell(event, now_ms)
            return
        then, self._then = self._then, None
        if then is not None:
            then(now_ms)


def _listed(partitions: Collection[TopicPartition]) -> str:
    """Return the number of partitions and the names of the first ones, for the log."""
    named = ", ".join(map(str, sorted(partitions)[:_NAMED]))
    more = ", …" if len(partitions) > _NAMED else ""
    return f"{len(partitions)} partition{'s' if len(partitions) != 1 else ''}: {named}{more}"
