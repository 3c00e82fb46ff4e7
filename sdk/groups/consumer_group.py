"""A membership in a KIP-848 group, in which the coordinator makes the assignment.

Heartbeats carry all the information: the member reports the partitions it owns, and the coordinator returns the epoch
and the partitions that the member should own (the target). The member gives up and adds partitions until it owns its
target, and reports that it does. A field that has not changed since the last confirmed heartbeat is left out.

Source: KIP-848; Apache Kafka, `ConsumerMembershipManager`, `ConsumerHeartbeatRequestManager`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from enum import Enum
from functools import partial
from typing import Final

from kafkawire.sdk.errors import BrokerError, Closed, KafkaWireError
from kafkawire.sdk.groups.assignment_changes import AssignmentChanges, MemberCommits
from kafkawire.sdk.groups.consumer_heartbeat import HeartbeatContent, heartbeat
from kafkawire.sdk.groups.departure import Departure
from kafkawire.sdk.groups.poll_interval import PollInterval
from kafkawire.sdk.groups.protocol import Event, GroupMetadata, GroupSettings, MemberReader, Notify, OnFailure
from kafkawire.sdk.groups.rebalance_metrics import RebalanceMetrics
from kafkawire.sdk.groups.refusal import ReportedErrors, is_final, refusal_of, unresolved
from kafkawire.sdk.groups.subscription import Subscription
from kafkawire.sdk.log_limit import LogLimit
from kafkawire.sdk.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from kafkawire.sdk.protocol.schema import Message
from kafkawire.sdk.protocol.tables.enums import (
    JOIN_GROUP_MEMBER_EPOCH,
    LEAVE_GROUP_MEMBER_EPOCH,
    LEAVE_GROUP_STATIC_MEMBER_EPOCH,
    CoordinatorType,
)
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.routing.call import Call, Coordinator, Purpose
from kafkawire.sdk.routing.partitions import TopicPartition
from kafkawire.sdk.routing.requests import carries
from kafkawire.sdk.routing.retry import Attempts, Backoff
from kafkawire.sdk.routing.router import Router
from kafkawire.sdk.states import Edges
from kafkawire.sdk.transport.driver_interface import Versions
from kafkawire.sdk.transport.promise import Promise

__all__ = ["MEMBERSHIP_EDGES", "ConsumerGroup", "State"]

logger = logging.getLogger("kafkawire.group")

#: Codes after which the member gives up all partitions and joins as a new member.
_FENCED = frozenset({ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID})

#: How long a static member waits for its instance id: longer than Kafka's default session timeout, because a killed
#: process holds the id until its session times out.
_UNRELEASED_LIMIT_MS = 60_000

#: How long the coordinator may take to answer a heartbeat; it never delays the answer deliberately.
_HEARTBEAT_TIMEOUT_MS = 10_000


class State(Enum):
    """The state of a member."""

    #: The member is outside the group, and is not about to join.
    OUTSIDE = "outside"
    #: Its next heartbeat joins the group.
    JOINING = "joining"
    #: Its heartbeats report the partitions that it owns and return the ones that it should own.
    MEMBER = "member"
    #: The listener is handling the loss of all partitions; the member joins afterwards.
    FENCED = "fenced"


MEMBERSHIP_EDGES: Final = Edges(
    "a member of a KIP-848 group",
    (State.OUTSIDE,),
    {
        State.OUTSIDE: {State.JOINING: "it wants to join, and no change to its assignment is under way"},
        State.JOINING: {State.MEMBER: "the coordinator confirms a heartbeat"},
        State.MEMBER: {State.FENCED: "the coordinator has fenced or refused it"},
        State.FENCED: {State.JOINING: "the listener has handled the loss"},
    },
    from_any={State.OUTSIDE: "it leaves the group, temporarily or permanently"},
)


class ConsumerGroup:
    """A member of a KIP-848 group; see `GroupProtocol`.

    Args:
        router: sends the requests; the member tells the router's metadata which topics to keep up to date.
        backoff: the pauses between attempts.
        settings: how the member takes part.
        member_id: a new UUID, as text.
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
        member_id: str,
        subscription: Subscription,
        reader: MemberReader,
        offsets: MemberCommits,
        notify: Notify,
        on_failure: OnFailure,
    ) -> None:
        self._router = router
        self._settings = settings
        self._member_id = member_id
        self._subscription = subscription
        self._reader = reader
        self._reports = ReportedErrors(reader)
        self._on_failure = on_failure
        self._interval = PollInterval(reader, settings)
        self._assignment_changes = AssignmentChanges(
            settings.group_id, reader, offsets, notify, auto_commit=settings.auto_commit
        )
        self._attempts = Attempts(backoff)
        self._lines = LogLimit(logger)
        self._rebalances = RebalanceMetrics(router.metrics)
        self.state = State.OUTSIDE
        self.failure: KafkaWireError | None = None
        self.last_heartbeat_ms: int | None = None
        self._is_started = False
        self._departure: Departure | None = None
        self._epoch = LEAVE_GROUP_MEMBER_EPOCH
        self._target: frozenset[tuple[bytes, int]] | None = None
        self._target_waits = False
        self._ids: dict[TopicPartition, bytes] = {}
        self._heartbeat: Call | None = None
        self._leaving: Call | None = None
        self._beat_due_ms = 0
        self._said: HeartbeatContent | None = None
        self._has_news = False
        self._matches_itself = False
        self._seen_changes = -1
        self._unreleased_since_ms: int | None = None
        offsets.member = self

    # GroupProtocol.

    @property
    def trouble(self) -> KafkaWireError | None:
        return unresolved(self._attempts)

    def start(self, now_ms: int) -> None:
        self._is_started = True
        self._subscription.keep_known(self._router.metadata)

    def subscribe(self, subscription: Subscription, now_ms: int) -> None:
        subscription.keep_known(self._router.metadata)
        self._reports.forget()
        self._subscription = subscription
        self._apply_subscription(now_ms)

    def acknowledge(self, event: Event, now_ms: int) -> None:
        self._assignment_changes.acknowledge(event, now_ms)

    def sign(self) -> GroupMetadata | None:
        if self._epoch <= JOIN_GROUP_MEMBER_EPOCH:
            return None
        settings = self._settings
        return GroupMetadata(settings.group_id, self._epoch, self._member_id, settings.group_instance_id)

    def is_current(self, generation: int) -> bool:
        return generation == self._epoch > JOIN_GROUP_MEMBER_EPOCH

    def rejected(self, signature: GroupMetadata, error: KafkaWireError, now_ms: int) -> None:
        if signature == self.sign():
            self._beat_due_ms = now_ms  # a heartbeat will show whether the member was fenced or has a newer epoch

    def stop(self, deadline_ms: int, promise: Promise[None], now_ms: int) -> None:
        if self._departure is not None:
            self._departure.followed_by(promise)
            return
        self._departure = Departure(
            self._router, self._assignment_changes, self._reader, self._leave_call, deadline_ms, promise, now_ms
        )
        self._departure.begin(self._epoch, now_ms)

    def poll(self, now_ms: int) -> None:
        departure = self._departure
        if departure is not None and not departure.is_over:
            departure.poll(now_ms)
        if not self._is_started or self.failure is not None:
            return
        if departure is None:
            if self._interval.has_passed(now_ms):
                if self.state is not State.OUTSIDE:
                    self._go_idle(now_ms)
                return
            if self.state is State.OUTSIDE and not self._assignment_changes.busy:
                self._become(State.JOINING)
            self._reconcile(now_ms)
        if self._heartbeat is None and (due_ms := self._heartbeat_due_ms(now_ms)) is not None and due_ms <= now_ms:
            self._send(now_ms)

    def due_ms(self, now_ms: int) -> int | None:
        departure_ms = None if self._departure is None else self._departure.due_ms()
        times = [] if departure_ms is None else [departure_ms]
        if self.failure is None and self._is_started:
            if self._heartbeat is None and (beat_ms := self._heartbeat_due_ms(now_ms)) is not None:
                times.append(beat_ms)
            idle_ms = self._interval.due_ms()
            if self._departure is None and self.state is not State.OUTSIDE and idle_ms is not None:
                times.append(idle_ms)
        return min(times, default=None)

    def fail(self, error: KafkaWireError, now_ms: int) -> None:
        self.failure = self.failure or error
        self._assignment_changes.forget()
        if self._departure is not None:
            self._departure.cancel()
        self._become(State.OUTSIDE)

    # Heartbeats.

    def _heartbeat_due_ms(self, now_ms: int) -> int | None:
        """Return when the next heartbeat is due: now if there is something to say, None if none is needed."""
        if self.state is State.MEMBER:
            due_ms = now_ms if self._has_news else self._beat_due_ms
        elif self.state is State.JOINING and self._departure is None and not self._reports.waits:
            due_ms = now_ms
        else:
            return None
        return max(due_ms, self._attempts.not_before_ms)

    def _says(self) -> HeartbeatContent:
        pattern = self._subscription.pattern
        owned = frozenset(
            (self._ids[partition], partition.partition) for partition in self._reader.assigned if partition in self._ids
        )
        if pattern is not None and not self._matches_itself:
            return HeartbeatContent(None, pattern, owned)
        return HeartbeatContent(tuple(sorted(self._subscription.topics(self._router.metadata))), None, owned)

    def _send(self, now_ms: int) -> None:
        joins = self.state is State.JOINING
        sent: list[HeartbeatContent] = []

        def request(versions: Versions) -> tuple[Message, int]:
            version = versions.version_for(ConsumerGroupHeartbeatRequest)
            self._matches_itself = not carries(ConsumerGroupHeartbeatRequest, "subscribed_topic_regex", version)
            sent.append(self._says())
            epoch = JOIN_GROUP_MEMBER_EPOCH if joins else self._epoch
            return heartbeat(self._settings, self._member_id, epoch, self._said, sent[-1]), version

        def answered(call: Call[ConsumerGroupHeartbeatResponse], now_ms: int) -> None:
            self._heartbeat = None
            if call.error is not None:
                self._refused(call.error, now_ms)
                return
            self._confirmed(call.answer, sent[-1], now_ms)

        self._heartbeat = self._call(request, now_ms + _HEARTBEAT_TIMEOUT_MS, answered, retries=False)
        self._router.submit(self._heartbeat, now_ms)

    def _confirmed(self, response: ConsumerGroupHeartbeatResponse, said: HeartbeatContent, now_ms: int) -> None:
        self._attempts.succeeded()
        self._unreleased_since_ms = None
        if self.state is State.JOINING:
            where = self._settings.group_id, response.member_epoch
            logger.info("group %s, generation %d: joined as %s", *where, response.member_id or self._member_id)
            self._enter(State.MEMBER)
        self._member_id = response.member_id or self._member_id
        self._epoch = response.member_epoch
        self._said, self._has_news = said, said != self._says()
        self._beat_due_ms = now_ms + response.heartbeat_interval_ms
        self.last_heartbeat_ms = now_ms
        if response.assignment is not None:
            self._target_waits = False
            self._target = frozenset(
                (topic.topic_id, number)
                for topic in response.assignment.topic_partitions
                for number in topic.partitions
            )

    def _reconcile(self, now_ms: int) -> None:
        """Take the next step from the owned partitions to the target: first give up partitions, then add some."""
        metadata = self._router.metadata
        if metadata.changes != self._seen_changes:
            self._seen_changes = metadata.changes
            self._target_waits = False
            self._has_news = self._has_news or self._matches_itself
        if (
            self.state is not State.MEMBER
            or self._target is None
            or self._target_waits
            or self._assignment_changes.busy
        ):
            return
        target: dict[TopicPartition, bytes] = {}
        is_known = True
        names = {topic_id: partition.topic for partition, topic_id in self._ids.items()}
        for topic_id, number in self._target:
            # Because of a transient error, the metadata may lack a topic for a while; the member keeps its partitions.
            name = metadata.name_of(topic_id) or names.get(topic_id)
            if name is None:
                is_known = False
            else:
                target[TopicPartition(name, number)] = topic_id
        owned = self._reader.assigned
        going = frozenset(partition for partition in owned if target.get(partition) != self._ids.get(partition))
        if is_known and not going and owned == target.keys():
            self._target = None
            self._rebalances.ended(now_ms)
            return
        self._rebalances.begun(now_ms)
        if going:
            limit_ms = min(self._settings.api_timeout_ms, self._settings.max_poll_interval_ms)
            self._assignment_changes.revoke(going, self._epoch, now_ms + limit_ms, now_ms, self._apply_subscription)
        elif owned != target.keys():
            self._ids = target
            self._has_news = True
            self._assignment_changes.assign(target, self._epoch, now_ms, self._apply_subscription)
        else:
            metadata.expire()  # the metadata does not list a topic of the target yet
            self._target_waits = True

    # Leaving.

    def _leave_call(self, deadline_ms: int, on_done: Callable[[Call, int], None]) -> Call | None:
        """Return the call that leaves the group (temporarily, for a static member); None if the member never joined."""
        is_leaving = self._leaving is not None and not self._leaving.done
        joined = self.sign() is not None or self._heartbeat is not None or is_leaving
        self._become(State.OUTSIDE)
        if not joined:
            return None
        settings = self._settings
        instance_id = settings.group_instance_id
        epoch = LEAVE_GROUP_MEMBER_EPOCH if instance_id is None else LEAVE_GROUP_STATIC_MEMBER_EPOCH
        request = ConsumerGroupHeartbeatRequest(settings.group_id, self._member_id, epoch, instance_id)
        return self._call(lambda _: (request, None), deadline_ms, on_done, retries=True)

    def _go_idle(self, now_ms: int) -> None:
        """Leave until the application reads again."""
        epoch = self._epoch
        self._leaving = self._leave_call(now_ms + self._settings.api_timeout_ms, lambda call, now_ms: None)
        if self._leaving is not None:
            self._router.submit(self._leaving, now_ms)
        self._rebalances.left()
        self._assignment_changes.lose(epoch, self._interval.error(), now_ms, lambda now_ms: None)

    # Failures.

    def _refused(self, error: KafkaWireError, now_ms: int) -> None:
        """Handle a failed heartbeat."""
        code = error.code if isinstance(error, BrokerError) else None
        if code in _FENCED and self.state is State.MEMBER:
            self._lose(error, now_ms)
        elif code is ErrorCode.UNRELEASED_INSTANCE_ID and not self._is_unreleased_for_long(now_ms):
            text = "group %s: waiting for the instance id to be released: %s"
            self._lines.warning("id", now_ms, text, self._settings.group_id, error)
            self._attempts.failed(error, now_ms)
        elif is_final(error):
            self._fail(error, now_ms)
        elif not isinstance(error, Closed):  # the client has ended, and its membership with it
            self._lines.info("heartbeat", now_ms, "group %s: %s", self._settings.group_id, error)
            # The coordinator may not have received the last heartbeat, so the next one contains all fields.
            self._said = None
            self._attempts.failed(error, now_ms)
            self._reports.add(error)
            if code is ErrorCode.GROUP_AUTHORIZATION_FAILED and self.state is State.MEMBER:
                self._lose(error, now_ms)

    def _is_unreleased_for_long(self, now_ms: int) -> bool:
        if self._unreleased_since_ms is None:
            self._unreleased_since_ms = now_ms
        return now_ms - self._unreleased_since_ms >= _UNRELEASED_LIMIT_MS

    def _lose(self, error: KafkaWireError, now_ms: int) -> None:
        self._rebalances.failed(now_ms)
        epoch = self._epoch
        self._become(State.FENCED)

        def join(now_ms: int) -> None:
            if self._departure is None:
                self._become(State.JOINING)
            else:
                self._departure.leave(now_ms)

        self._assignment_changes.lose(epoch, error, now_ms, join)

    def _fail(self, error: KafkaWireError, now_ms: int) -> None:
        """End the membership permanently."""
        epoch = self._epoch
        self._become(State.OUTSIDE)

        def leave(now_ms: int) -> None:
            if self._departure is not None:
                self._departure.leave(now_ms)

        self.failure = error
        self._assignment_changes.lose(epoch, error, now_ms, leave)
        self._on_failure(error, now_ms)

    # Other methods.

    def _enter(self, state: State) -> None:
        self.state = MEMBERSHIP_EDGES.follow(self.state, state)

    def _become(self, state: State) -> None:
        """Reset to a state outside the group, and drop all data about the previous membership."""
        for call in (self._heartbeat, self._leaving):  # a repeated leave would end the next membership
            if call is not None:
                call.cancel()
        self._heartbeat = self._leaving = None
        self._enter(state)
        self._epoch = JOIN_GROUP_MEMBER_EPOCH if state is State.JOINING else LEAVE_GROUP_MEMBER_EPOCH
        self._target = self._said = self._unreleased_since_ms = None
        self._ids = {}

    def _call(
        self,
        request: Callable[[Versions], tuple[Message, int | None]],
        deadline_ms: int,
        on_done: Callable[[Call[ConsumerGroupHeartbeatResponse], int], None],
        *,
        retries: bool,
    ) -> Call[ConsumerGroupHeartbeatResponse]:
        return Call(
            Coordinator(CoordinatorType.GROUP, self._settings.group_id),
            request,
            ConsumerGroupHeartbeatResponse,
            deadline_ms,
            on_done,
            check=partial(refusal_of, self._settings.group_id),
            retries=retries,
            timeout_ms=_HEARTBEAT_TIMEOUT_MS,
            purpose=Purpose.GROUP,
        )

    def _apply_subscription(self, now_ms: int) -> None:
        """Report the subscription; withhold records of abandoned topics, unless only the coordinator matches topics."""
        self._has_news = self._said != self._says()
        is_matched_there = self._subscription.pattern is not None and not self._matches_itself
        self._assignment_changes.keep_to(None if is_matched_there else self._subscription.topics(self._router.metadata))
