"""A membership in a classic group, in which one member, the leader, makes the assignment.

    OUTSIDE ─> PREPARING ─> READY ─> JOINING ─> SYNCING ─> ADOPTING ─> STABLE
                   ^────────── a rebalance, a lost generation ──────────┘

A flag makes the member join again. It is cleared when a JoinGroup is written; if it is set later, another JoinGroup
follows.

Source: Apache Kafka, `AbstractCoordinator`, `ConsumerCoordinator`; KIP-62 (max.poll.interval.ms), KIP-345 (static
members), KIP-394 (member id first), KIP-429 (cooperative).
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from enum import Enum
from functools import partial
from typing import Final

from kafkawire.sdk.errors import BrokerError, ConfigurationError, KafkaWireError
from kafkawire.sdk.groups.assignment_changes import AssignmentChanges, MemberCommits
from kafkawire.sdk.groups.classic_protocol import AssignmentProtocol, Joining
from kafkawire.sdk.groups.departure import Departure
from kafkawire.sdk.groups.poll_interval import PollInterval
from kafkawire.sdk.groups.protocol import Event, GroupMetadata, GroupSettings, MemberReader, Notify, OnFailure
from kafkawire.sdk.groups.rebalance import Rebalance
from kafkawire.sdk.groups.refusal import ReportedErrors, is_final, is_news, refusal_of, unresolved
from kafkawire.sdk.groups.requests import leave_group
from kafkawire.sdk.groups.subscription import Subscription
from kafkawire.sdk.log_limit import LogLimit
from kafkawire.sdk.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kafkawire.sdk.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from kafkawire.sdk.protocol.schema import Message
from kafkawire.sdk.protocol.tables.enums import UNKNOWN_GENERATION_ID, UNKNOWN_MEMBER_ID, CoordinatorType
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.routing.call import Call, Coordinator, Purpose
from kafkawire.sdk.routing.partitions import TopicPartition
from kafkawire.sdk.routing.retry import Attempts, Backoff
from kafkawire.sdk.routing.router import Router
from kafkawire.sdk.states import Edges
from kafkawire.sdk.transport.driver_interface import Versions
from kafkawire.sdk.transport.promise import Promise

__all__ = ["MEMBERSHIP_EDGES", "ClassicGroup", "State"]

logger = logging.getLogger("kafkawire.group")

#: Codes that end the current generation; after ILLEGAL_GENERATION, the member keeps its id.
_LOST = frozenset({ErrorCode.ILLEGAL_GENERATION, ErrorCode.UNKNOWN_MEMBER_ID})


class State(Enum):
    """The state of a member."""

    #: The member is outside the group, and is not about to join.
    OUTSIDE = "outside"
    #: It is giving up partitions before a join.
    PREPARING = "preparing"
    #: It will send the next JoinGroup when its pause has ended.
    READY = "ready"
    #: Its JoinGroup waits for the other members.
    JOINING = "joining"
    #: It knows its generation, but not yet its assignment.
    SYNCING = "syncing"
    #: It is applying its new assignment after a join.
    ADOPTING = "adopting"
    #: It reads its assigned partitions; or the consumer is being closed, and heartbeats continue until the member
    #: leaves.
    STABLE = "stable"


_LOSES = "the generation is lost"
_CLOSES = "the consumer is closed"

MEMBERSHIP_EDGES: Final = Edges(
    "a member of a classic group",
    (State.OUTSIDE,),
    {
        State.OUTSIDE: {State.PREPARING: "it wants to join"},
        State.PREPARING: {
            State.READY: "the partitions are given up",
            State.PREPARING: _LOSES,
            State.STABLE: _CLOSES,
        },
        State.READY: {
            State.JOINING: "the pause has ended",
            State.PREPARING: _LOSES,
            State.STABLE: _CLOSES,
        },
        State.JOINING: {
            State.SYNCING: "the coordinator sends the generation",
            State.READY: "the join is refused",
            State.STABLE: _CLOSES,
        },
        State.SYNCING: {
            State.ADOPTING: "the assignment arrives",
            State.STABLE: f"no assignment arrives, or {_CLOSES}",
            State.PREPARING: _LOSES,
        },
        State.ADOPTING: {
            State.STABLE: f"the assignment is applied, or {_CLOSES}",
            State.PREPARING: _LOSES,
        },
        State.STABLE: {
            State.PREPARING: f"it wants to join again, or {_LOSES}",
            State.STABLE: _CLOSES,
        },
    },
    from_any={State.OUTSIDE: "it leaves the group, temporarily or permanently"},
)


class ClassicGroup:
    """A member of a classic group; see `GroupProtocol`.

    Args:
        router: sends the requests; the member watches the router's metadata, and tells it which topics to keep up to
            date.
        backoff: the pauses between attempts.
        settings: how the member takes part.
        protocol: the protocol between the members.
        subscription: the topics that the member wants to read.
        reader: reads the assigned partitions.
        offsets: commits on revocation, and from now on signs commits with this membership.
        notify: receives the events.
        on_failure: called with an error that ends the membership permanently.
    """

    def __init__(
        self,
        router: Router,
        backoff: Backoff,
        settings: GroupSettings,
        protocol: AssignmentProtocol,
        subscription: Subscription,
        reader: MemberReader,
        offsets: MemberCommits,
        notify: Notify,
        on_failure: OnFailure,
    ) -> None:
        self._router = router
        self._settings = settings
        self._is_cooperative = protocol.cooperative
        self._rebalance = Rebalance(router, settings, protocol, self)
        self._subscription = subscription
        self._reader = reader
        self._reports = ReportedErrors(reader)
        self._lines = LogLimit(logger)
        self._on_failure = on_failure
        self._interval = PollInterval(reader, settings)
        self._coordinator = Coordinator(CoordinatorType.GROUP, settings.group_id)
        self._assignment_changes = AssignmentChanges(
            settings.group_id, reader, offsets, notify, auto_commit=settings.auto_commit
        )
        self._join_attempts = Attempts(backoff)
        self._assign_attempts = Attempts(backoff)
        self._beat_attempts = Attempts(backoff)
        self.state = State.OUTSIDE
        self.failure: KafkaWireError | None = None
        self.last_heartbeat_ms: int | None = None
        self._is_started = False
        self._departure: Departure | None = None
        self._wants_join: str | None = "first join"
        self._reason = ""
        self._generation = UNKNOWN_GENERATION_ID
        self._member_id = UNKNOWN_MEMBER_ID
        self._heartbeat: Call | None = None
        self._beat_due_ms = 0
        self._topics: frozenset[str] = frozenset()
        self._seen_changes = -1
        self._last: tuple[frozenset[TopicPartition], int] = (frozenset(), UNKNOWN_GENERATION_ID)
        offsets.member = self

    # GroupProtocol.

    @property
    def trouble(self) -> KafkaWireError | None:
        return unresolved(self._join_attempts, self._assign_attempts, self._beat_attempts)

    def start(self, now_ms: int) -> None:
        self._is_started = self._keep_known(now_ms)

    def subscribe(self, subscription: Subscription, now_ms: int) -> None:
        self._subscription = subscription
        if self._keep_known(now_ms):
            self._reports.forget()
            topics = subscription.topics(self._router.metadata)
            self._assignment_changes.keep_to(topics)
            if topics != self._topics or self.state is State.OUTSIDE:
                self._wants_join = "the subscription changed"

    def acknowledge(self, event: Event, now_ms: int) -> None:
        self._assignment_changes.acknowledge(event, now_ms)

    def sign(self) -> GroupMetadata | None:
        if self._generation == UNKNOWN_GENERATION_ID:
            return None
        settings = self._settings
        return GroupMetadata(settings.group_id, self._generation, self._member_id, settings.group_instance_id)

    def is_current(self, generation: int) -> bool:
        return generation == self._generation != UNKNOWN_GENERATION_ID

    def rejected(self, signature: GroupMetadata, error: KafkaWireError, now_ms: int) -> None:
        # A JoinGroup in progress will reveal this; the coordinator may already have answered it.
        if signature == self.sign() and self.state is not State.JOINING and isinstance(error, BrokerError):
            self._refused(error, now_ms)

    def stop(self, deadline_ms: int, promise: Promise[None], now_ms: int) -> None:
        if self._departure is not None:
            self._departure.followed_by(promise)
            return
        self._rebalance.cancel()
        self._wants_join = None
        self._departure = departure = Departure(
            self._router,
            self._assignment_changes,
            self._reader,
            partial(self._leave_call, "the consumer was closed"),
            deadline_ms,
            promise,
            now_ms,
        )
        if self.state is not State.OUTSIDE and self._generation != UNKNOWN_GENERATION_ID:
            self._enter(State.STABLE)  # so that heartbeats continue
        departure.begin(self._generation, now_ms)

    def poll(self, now_ms: int) -> None:
        if not self._is_started or self.failure is not None:
            self._poll_departure(now_ms)
            return
        self._send_heartbeat(now_ms)
        if self._departure is not None:
            self._poll_departure(now_ms)
            return
        if self._interval.has_passed(now_ms):
            if self.state is not State.OUTSIDE:
                self._go_idle(now_ms)
            return
        self._watch_metadata()
        if (
            self._wants_join is not None
            and self.state in (State.OUTSIDE, State.STABLE)
            and not self._assignment_changes.busy
        ):
            self._prepare(now_ms)
        if self.state is State.READY and now_ms >= self._join_due_ms() and self._may_join():
            self._join(now_ms)
        self._rebalance.poll(now_ms)

    def due_ms(self, now_ms: int) -> int | None:
        departure_ms = None if self._departure is None else self._departure.due_ms()
        times = [] if departure_ms is None else [departure_ms]
        if self.failure is None and self._is_started:
            if self._has_heartbeats() and self._heartbeat is None:
                times.append(max(self._beat_due_ms, self._beat_attempts.not_before_ms))
            if self._departure is None and self.state is not State.OUTSIDE:
                times += self._due_times()
        return min(times, default=None)

    def fail(self, error: KafkaWireError, now_ms: int) -> None:
        self.failure = self.failure or error
        self._generation = UNKNOWN_GENERATION_ID
        self._assignment_changes.forget()
        if self._departure is not None:
            self._departure.cancel()
        self._cancel_calls()

    # Joining.

    def _prepare(self, now_ms: int) -> None:
        """Give up the partitions that must be gone before a join: all of them, or those no longer subscribed to."""
        self._enter(State.PREPARING)
        going = self._reader.assigned
        if self._is_cooperative:
            topics = self._subscription.topics(self._router.metadata)
            going = frozenset(partition for partition in going if partition.topic not in topics)
        self._assignment_changes.revoke(going, self._generation, self._commit_deadline_ms(now_ms), now_ms, self._ready)

    def _may_join(self) -> bool:
        """Return whether the topics that match a pattern are known, and a read has raised the last reported error."""
        return (self._subscription.pattern is None or self._router.metadata.is_complete) and not self._reports.waits

    def _join_due_ms(self) -> int:
        return max(self._join_attempts.not_before_ms, self._assign_attempts.not_before_ms)

    def _ready(self, now_ms: int) -> None:
        self._enter(State.READY)

    def _join(self, now_ms: int) -> None:
        self._enter(State.JOINING)
        self._reason, self._wants_join = self._wants_join or self._reason, None
        if self._heartbeat is not None:
            self._heartbeat.cancel()  # it belongs to the previous generation
            self._heartbeat = None
        self._topics = self._subscription.topics(self._router.metadata)
        joining = Joining(self._topics, self._reader.assigned, self._generation, self._settings.rack, *self._last)
        self._rebalance.begin(self._member_id, joining, self._reason, now_ms)

    def joined(self, member_id: str, generation: int, now_ms: int) -> None:
        self._subscription.keep_known(self._router.metadata)  # a leader will add the topics of the other members
        self._join_attempts.succeeded()
        self._enter(State.SYNCING)
        self._member_id, self._generation = member_id, generation
        self._confirmed(now_ms)

    def join_refused(self, error: KafkaWireError, member_id: str, now_ms: int) -> None:
        self._wants_join = self._wants_join or self._reason
        self._enter(State.READY)
        if isinstance(error, BrokerError) and error.code is ErrorCode.MEMBER_ID_REQUIRED:
            self._member_id = member_id
            return
        self._rejoin_refused(error, now_ms)

    def sync_refused(self, error: KafkaWireError, now_ms: int) -> None:
        self._wants_join = self._wants_join or f"no assignment arrived: {error}"
        self._enter(State.STABLE)  # the next poll prepares the next join
        self._rejoin_refused(error, now_ms)

    def _rejoin_refused(self, error: KafkaWireError, now_ms: int) -> None:
        self._join_attempts.failed(error, now_ms)
        if not self._refused(error, now_ms):
            self._reports.add(error)

    def assignor_failed(self, error: KafkaWireError, now_ms: int) -> None:
        # The other members need not wait: one of them becomes the leader. Another member may have sent the data that
        # caused the failure, and may leave.
        self._assign_attempts.failed(error, now_ms)
        self._reports.add(error)
        reason = "the assignor failed"
        self._leave_for_a_while(reason, reason, error, now_ms)

    def misassigned(self, error: KafkaWireError, now_ms: int) -> None:
        self._reader.report(error)  # the next join does not wait for that read: other members would have to wait, too

    def assigned(self, partitions: frozenset[TopicPartition], now_ms: int) -> None:
        """Adopt an assignment: give up the partitions that it leaves out, then add the new ones."""
        self._assign_attempts.succeeded()
        self._enter(State.ADOPTING)
        self._last = partitions, self._generation
        self._confirmed(now_ms)
        topics = self._subscription.topics(self._router.metadata)
        target = frozenset(partition for partition in partitions if partition.topic in topics)
        if others := {each.topic for each in partitions - target} - self._topics:
            text = "group %s: the leader assigned partitions of topics that this member does not read; ignored: %s"
            self._lines.warning("others", now_ms, text, self._settings.group_id, ", ".join(sorted(others)))
        going = self._reader.assigned - target
        generation = self._generation

        def revoked(now_ms: int) -> None:
            self._assignment_changes.assign(target, generation, now_ms, adopted)

        def adopted(now_ms: int) -> None:
            self._enter(State.STABLE)
            self._assignment_changes.keep_to(self._subscription.topics(self._router.metadata))

        if going:
            self._wants_join = self._wants_join or "partitions were revoked, so other members may get them now"
        self._assignment_changes.revoke(going, generation, self._commit_deadline_ms(now_ms), now_ms, revoked)

    # Heartbeats.

    def _has_heartbeats(self) -> bool:
        """Return whether the coordinator expects heartbeats; a member with a pending join need not send any."""
        leaves = self._departure is not None and self._departure.is_leaving
        return self._generation != UNKNOWN_GENERATION_ID and self.state is not State.JOINING and not leaves

    def _send_heartbeat(self, now_ms: int) -> None:
        due_ms = max(self._beat_due_ms, self._beat_attempts.not_before_ms)
        if not self._has_heartbeats() or self._heartbeat is not None or now_ms < due_ms:
            return
        settings = self._settings
        request = HeartbeatRequest(settings.group_id, self._generation, self._member_id, settings.group_instance_id)

        def answered(call: Call, now_ms: int) -> None:
            self._heartbeat = None
            if call.error is None:
                self._confirmed(now_ms)
                return
            code = call.error.code if isinstance(call.error, BrokerError) else None
            if code is ErrorCode.REBALANCE_IN_PROGRESS:
                self._confirmed(now_ms)
                if self.state is State.STABLE and self._departure is None:
                    self._wants_join = self._wants_join or "the group is rebalancing"
            elif not self._refused(call.error, now_ms):
                self._beat_attempts.failed(call.error, now_ms)
                if self._ends_session(call.error, now_ms):
                    self._lose(call.error, now_ms, keeps_id=True)

        self._heartbeat = Call(
            self._coordinator,
            lambda _: (request, None),
            HeartbeatResponse,
            now_ms + settings.session_timeout_ms,
            answered,
            check=partial(refusal_of, settings.group_id),
            retries=False,
            # Give up on an unresponsive coordinator early enough to reach another one before the session expires.
            timeout_ms=settings.session_timeout_ms // 2,
            purpose=Purpose.GROUP,
        )
        self._router.submit(self._heartbeat, now_ms)

    def _ends_session(self, error: KafkaWireError, now_ms: int) -> bool:
        """Return whether all heartbeats of a whole session timeout were rejected, so the partitions are reassigned."""
        assert self.last_heartbeat_ms is not None  # set when the member joined, or later
        return is_news(error) and now_ms - self.last_heartbeat_ms >= self._settings.session_timeout_ms

    def _confirmed(self, now_ms: int) -> None:
        """Record that the coordinator knows this member."""
        self._beat_attempts.succeeded()
        self._beat_due_ms = now_ms + self._settings.heartbeat_interval_ms
        self.last_heartbeat_ms = now_ms

    # Leaving.

    def _leave_call(self, reason: str, deadline_ms: int, on_done: Callable[[Call, int], None]) -> Call | None:
        """Return the call that leaves the group; None without a member id or for a static member, which may return."""
        self._cancel_calls()
        member_id, self._member_id = self._member_id, UNKNOWN_MEMBER_ID
        self._rebalance.left()
        self._generation = UNKNOWN_GENERATION_ID
        self._enter(State.OUTSIDE)
        settings = self._settings
        if settings.group_instance_id is not None or member_id == UNKNOWN_MEMBER_ID:
            return None

        def request(versions: Versions) -> tuple[Message, int]:
            version = versions.version_for(LeaveGroupRequest)
            return leave_group(settings.group_id, member_id, None, reason, version), version

        return Call(
            self._coordinator,
            request,
            LeaveGroupResponse,
            deadline_ms,
            on_done,
            check=partial(refusal_of, settings.group_id),
            purpose=Purpose.GROUP,
        )

    def _go_idle(self, now_ms: int) -> None:
        """Leave until the application reads again."""
        reason = "max.poll.interval.ms has passed"
        self._leave_for_a_while(reason, "reading has resumed", self._interval.error(), now_ms)

    def _leave_for_a_while(self, reason: str, back: str, error: KafkaWireError, now_ms: int) -> None:
        """Leave now and join again later; the broker logs the reasons for both."""
        generation = self._generation
        leave = self._leave_call(reason, now_ms + self._settings.api_timeout_ms, lambda call, now_ms: None)
        self._wants_join = back
        if leave is not None:
            self._router.submit(leave, now_ms)
        self._assignment_changes.lose(generation, error, now_ms, lambda now_ms: None)

    # Failures.

    def _refused(self, error: KafkaWireError, now_ms: int) -> bool:
        """Handle an error about the membership itself; return False for any other error."""
        code = error.code if isinstance(error, BrokerError) else None
        if code in _LOST:
            self._lose(error, now_ms, keeps_id=code is ErrorCode.ILLEGAL_GENERATION)
        elif is_final(error):
            self._fail(error, now_ms)
        else:
            return False
        return True

    def _lose(self, error: KafkaWireError, now_ms: int, *, keeps_id: bool) -> None:
        """Drop a generation that the coordinator no longer recognizes, and join again."""
        self._cancel_calls()
        generation, self._generation = self._generation, UNKNOWN_GENERATION_ID
        if not keeps_id:
            self._member_id = UNKNOWN_MEMBER_ID
        self._enter(State.PREPARING)
        self._reports.add(error)
        self._wants_join = self._wants_join or f"the generation was lost: {error}"
        then = self._ready if self._departure is None else self._leave_if_stopped
        self._assignment_changes.lose(generation, error, now_ms, then)

    def _leave_if_stopped(self, now_ms: int) -> None:
        if self._departure is not None:
            self._departure.leave(now_ms)

    def _fail(self, error: KafkaWireError, now_ms: int) -> None:
        """End the membership permanently."""
        self._cancel_calls()
        generation, self._generation = self._generation, UNKNOWN_GENERATION_ID
        self._enter(State.OUTSIDE)
        self.failure = error
        self._assignment_changes.lose(generation, error, now_ms, self._leave_if_stopped)
        self._on_failure(error, now_ms)

    # Other methods.

    def _enter(self, state: State) -> None:
        self.state = MEMBERSHIP_EDGES.follow(self.state, state)

    def _cancel_calls(self) -> None:
        self._rebalance.cancel()
        if self._heartbeat is not None:
            self._heartbeat.cancel()
            self._heartbeat = None

    def _poll_departure(self, now_ms: int) -> None:
        if self._departure is not None and not self._departure.is_over:
            self._departure.poll(now_ms)

    def _watch_metadata(self) -> None:
        """Join again if the pattern now matches other topics, or if this leader's assignment is outdated."""
        metadata = self._router.metadata
        if self.state is not State.STABLE or metadata.changes == self._seen_changes:
            return
        self._seen_changes = metadata.changes
        topics = self._subscription.topics(metadata)
        if topics != self._topics:
            self._assignment_changes.keep_to(topics)
            self._wants_join = self._wants_join or "other topics match the pattern"
        elif self._rebalance.is_outdated():
            self._wants_join = self._wants_join or "the partitions of the topics have changed"

    def _keep_known(self, now_ms: int) -> bool:
        """Keep the metadata of the topics up to date; return False if the pattern is invalid."""
        try:
            self._subscription.check()
        except ConfigurationError as error:
            self._fail(error, now_ms)
            return False
        self._subscription.keep_known(self._router.metadata)
        return True

    def _commit_deadline_ms(self, now_ms: int) -> int:
        """Return the deadline for the commit during a revocation, for which the other members are waiting."""
        return now_ms + min(self._settings.api_timeout_ms, self._settings.max_poll_interval_ms)

    def _due_times(self) -> list[int]:
        joins_ms = self._join_due_ms() if self.state is State.READY and self._may_join() else None
        times = [self._interval.due_ms(), self._rebalance.due_ms(), joins_ms]
        return [due_ms for due_ms in times if due_ms is not None]
