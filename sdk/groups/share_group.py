"""A membership in a share group, whose members read from the same partitions.

As in a KIP-848 group, heartbeats carry all the information. But a member does not own its partitions, and therefore
neither reports them nor gives them up in steps: it adopts every assignment as soon as it arrives. A record belongs to a
member only while the broker holds it for that member (`sdk/consumer/sharing/`).

Source: KIP-932; Apache Kafka, `ShareMembershipManager`, `ShareHeartbeatRequestManager`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from enum import Enum
from functools import partial
from typing import Final

from kafkawire.sdk.errors import BrokerError, Closed, KafkaWireError, UnsupportedVersion
from kafkawire.sdk.groups.poll_interval import PollInterval
from kafkawire.sdk.groups.protocol import GroupSettings, OnFailure, Reads
from kafkawire.sdk.groups.refusal import ReportedErrors, is_final, refusal_of
from kafkawire.sdk.groups.subscription import Subscription
from kafkawire.sdk.log_limit import LogLimit
from kafkawire.sdk.metrics.catalogue import SHARE_COORDINATOR
from kafkawire.sdk.protocol.messages.share_group_heartbeat import (
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)
from kafkawire.sdk.protocol.tables.enums import JOIN_GROUP_MEMBER_EPOCH, LEAVE_GROUP_MEMBER_EPOCH, CoordinatorType
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.routing.call import Call, Coordinator, Purpose
from kafkawire.sdk.routing.partitions import TopicPartition
from kafkawire.sdk.routing.retry import Attempts, Backoff
from kafkawire.sdk.routing.router import Router
from kafkawire.sdk.states import Edges
from kafkawire.sdk.transport.promise import Promise

__all__ = ["SHARE_MEMBERSHIP_EDGES", "Adopt", "ShareGroup", "ShareMemberState"]

logger = logging.getLogger("kafkawire.group")

#: Receives the assigned partitions with the ids of their topics, and the time.
Adopt = Callable[[Mapping[TopicPartition, bytes], int], None]

#: Codes after which the member gives up all partitions and joins again.
_FENCED: Final = frozenset({ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID})

#: How long the coordinator may take to answer a heartbeat; it never delays the answer deliberately.
_HEARTBEAT_TIMEOUT_MS: Final = 10_000

_NOT_SUPPORTED: Final = "the cluster does not support share groups, which need Apache Kafka 4.1 or later"


class ShareMemberState(Enum):
    """The state of a member."""

    #: The member is outside the group, and is not about to join.
    OUTSIDE = "outside"
    #: Its next heartbeat joins the group.
    JOINING = "joining"
    #: Its heartbeats return the partitions from which it should read.
    MEMBER = "member"


SHARE_MEMBERSHIP_EDGES: Final = Edges(
    "a member of a share group",
    (ShareMemberState.OUTSIDE,),
    {
        ShareMemberState.OUTSIDE: {ShareMemberState.JOINING: "it wants to join"},
        ShareMemberState.JOINING: {ShareMemberState.MEMBER: "the coordinator confirms a heartbeat"},
        ShareMemberState.MEMBER: {ShareMemberState.JOINING: "the coordinator has fenced or refused it"},
    },
    from_any={ShareMemberState.OUTSIDE: "it leaves the group, temporarily or permanently"},
)


class ShareGroup:
    """A member of a share group; a `Machine`.

    Args:
        router: sends the requests; the member tells the router's metadata which topics to keep up to date.
        backoff: the pauses between attempts.
        settings: how the member takes part.
        member_id: a new UUID, as text; the member keeps it for as long as it exists.
        reads: the application's reads.
        adopt: called with every new assignment.
        on_failure: called with an error that ends the membership permanently.

    Attributes:
        state: the member's state.
        member_id: as given.
        failure: why the membership has ended permanently; None if it has not.
        last_heartbeat_ms: when the coordinator last confirmed the membership; None if it has not done so yet.
        coordinator: the group's coordinator.
    """

    def __init__(
        self,
        router: Router,
        backoff: Backoff,
        settings: GroupSettings,
        member_id: str,
        reads: Reads,
        adopt: Adopt,
        on_failure: OnFailure,
    ) -> None:
        self._router = router
        self._settings = settings
        self._adopt = adopt
        self._on_failure = on_failure
        self._reports = ReportedErrors(reads)
        self._interval = PollInterval(reads, settings)
        self._attempts = Attempts(backoff)
        self._lines = LogLimit(logger)
        self._rebalances = router.metrics.sensor(SHARE_COORDINATOR, "rebalance")
        self.state = ShareMemberState.OUTSIDE
        self.member_id = member_id
        self.failure: KafkaWireError | None = None
        self.last_heartbeat_ms: int | None = None
        self.coordinator = Coordinator(CoordinatorType.GROUP, settings.group_id)
        self._subscription: Subscription | None = None
        self._is_stopped = False
        self._epoch = LEAVE_GROUP_MEMBER_EPOCH
        self._assigned: Mapping[TopicPartition, bytes] = {}
        self._target: frozenset[tuple[bytes, int]] = frozenset()
        self._is_resolved = True
        self._heartbeat: Call | None = None
        self._leaving: Call | None = None
        self._beat_due_ms = 0
        self._said: frozenset[str] | None = None
        self._seen_changes = -1

    def subscribe(self, subscription: Subscription, now_ms: int) -> None:
        """Join the group, or change the topics to read."""
        subscription.keep_known(self._router.metadata)
        self._reports.forget()
        self._subscription = subscription

    def stop(self, deadline_ms: int, promise: Promise[None], now_ms: int) -> None:
        """Leave the group; the promise is kept no later than `deadline_ms`."""
        self._is_stopped = True

        def left(call: Call[ShareGroupHeartbeatResponse], now_ms: int) -> None:
            group_id = self._settings.group_id
            if call.error is None:
                logger.info("group %s: left", group_id)
            else:
                logger.warning("group %s: could not tell the coordinator that it left: %s", group_id, call.error)
            promise.keep(None)

        call = self._leave_call(deadline_ms, left)
        if call is None:
            promise.keep(None)
            return
        try:
            self._router.submit(call, now_ms)
        except Closed:  # the client has ended in the meantime
            promise.keep(None)

    # Machine.

    def poll(self, now_ms: int) -> None:
        """Adopt a new assignment, and send the heartbeat that is due."""
        if self._subscription is None or self._is_stopped or self.failure is not None:
            return
        if self._interval.has_passed(now_ms):
            if self.state is not ShareMemberState.OUTSIDE:
                self._go_idle(now_ms)
            return
        if self.state is ShareMemberState.OUTSIDE:
            self._become(ShareMemberState.JOINING)
        self._resolve(now_ms)
        if self._heartbeat is None and (due_ms := self._heartbeat_due_ms(now_ms)) is not None and due_ms <= now_ms:
            self._send(now_ms)

    def due_ms(self, now_ms: int) -> int | None:
        """Return when to poll again if nothing happens before then."""
        if self._subscription is None or self._is_stopped or self.failure is not None:
            return None
        times = []
        if self._heartbeat is None and (beat_ms := self._heartbeat_due_ms(now_ms)) is not None:
            times.append(beat_ms)
        if self.state is not ShareMemberState.OUTSIDE and (idle_ms := self._interval.due_ms()) is not None:
            times.append(idle_ms)
        return min(times, default=None)

    def fail(self, error: KafkaWireError, now_ms: int) -> None:
        """End the membership, because the client has ended."""
        self.failure = self.failure or error
        self._become(ShareMemberState.OUTSIDE)

    # Heartbeats.

    def _heartbeat_due_ms(self, now_ms: int) -> int | None:
        """Return when the next heartbeat is due: now if there is something to say, None if none is needed."""
        if self.state is ShareMemberState.MEMBER:
            assert self._subscription is not None, "a member has subscribed"
            due_ms = now_ms if self._said != self._subscription.names else self._beat_due_ms
        elif self.state is ShareMemberState.JOINING and not self._reports.waits:
            due_ms = now_ms
        else:
            return None
        return max(due_ms, self._attempts.not_before_ms)

    def _send(self, now_ms: int) -> None:
        assert self._subscription is not None, "a member has subscribed"
        says = self._subscription.names
        request = ShareGroupHeartbeatRequest(self._settings.group_id, self.member_id, self._epoch)
        if self._said is None:
            request.rack_id = self._settings.rack
        if self._said != says:
            request.subscribed_topic_names = sorted(says)

        def answered(call: Call[ShareGroupHeartbeatResponse], now_ms: int) -> None:
            self._heartbeat = None
            if call.error is not None:
                self._refused(call.error, now_ms)
            else:
                self._confirmed(call.answer, says, now_ms)

        self._heartbeat = self._call(request, now_ms + _HEARTBEAT_TIMEOUT_MS, answered, retries=False)
        self._router.submit(self._heartbeat, now_ms)

    def _confirmed(self, response: ShareGroupHeartbeatResponse, said: frozenset[str], now_ms: int) -> None:
        self._attempts.succeeded()
        if self.state is ShareMemberState.JOINING:
            where = self._settings.group_id, response.member_epoch
            logger.info("group %s, epoch %d: joined as %s", *where, self.member_id)
            self.state = SHARE_MEMBERSHIP_EDGES.follow(self.state, ShareMemberState.MEMBER)
        self._epoch = response.member_epoch
        self._said = said
        self._beat_due_ms = now_ms + response.heartbeat_interval_ms
        self.last_heartbeat_ms = now_ms
        if response.assignment is not None:
            self._target = frozenset(
                (topic.topic_id, number)
                for topic in response.assignment.topic_partitions
                for number in topic.partitions
            )
            self._is_resolved = False
            self._seen_changes = -1

    def _resolve(self, now_ms: int) -> None:
        """Adopt the partitions of the target whose topics the metadata lists; the others follow with the metadata."""
        metadata = self._router.metadata
        if self._is_resolved or metadata.changes == self._seen_changes:
            return
        self._seen_changes = metadata.changes
        found: dict[TopicPartition, bytes] = {}
        names = {topic_id: partition.topic for partition, topic_id in self._assigned.items()}
        for topic_id, number in self._target:
            # Because of a transient error, the metadata may lack a topic for a while; the member keeps its partitions.
            name = metadata.name_of(topic_id) or names.get(topic_id)
            if name is not None:
                found[TopicPartition(name, number)] = topic_id
        self._is_resolved = len(found) == len(self._target)
        if not self._is_resolved:
            metadata.expire()
        if found != self._assigned:
            self._rebalances.record(1, now_ms)
            self._take(found, now_ms)

    def _take(self, partitions: Mapping[TopicPartition, bytes], now_ms: int) -> None:
        self._assigned = partitions
        self._adopt(partitions, now_ms)

    # Leaving.

    def _leave_call(
        self, deadline_ms: int, on_done: Callable[[Call[ShareGroupHeartbeatResponse], int], None]
    ) -> Call[ShareGroupHeartbeatResponse] | None:
        """Return the call that leaves the group; None if the member never joined."""
        is_leaving = self._leaving is not None and not self._leaving.done
        has_joined = self._epoch > JOIN_GROUP_MEMBER_EPOCH or self._heartbeat is not None or is_leaving
        self._become(ShareMemberState.OUTSIDE)
        if not has_joined:
            return None
        request = ShareGroupHeartbeatRequest(self._settings.group_id, self.member_id, LEAVE_GROUP_MEMBER_EPOCH)
        return self._call(request, deadline_ms, on_done, retries=True)

    def _go_idle(self, now_ms: int) -> None:
        """Leave until the application reads again."""
        self._interval.error()  # logs it
        self._leaving = self._leave_call(now_ms + self._settings.api_timeout_ms, lambda call, now_ms: None)
        if self._leaving is not None:
            self._router.submit(self._leaving, now_ms)
        self._take({}, now_ms)

    # Failures.

    def _refused(self, error: KafkaWireError, now_ms: int) -> None:
        """Handle a failed heartbeat."""
        code = error.code if isinstance(error, BrokerError) else None
        if isinstance(error, UnsupportedVersion) or code is ErrorCode.UNSUPPORTED_VERSION:
            unsupported = UnsupportedVersion(f"group {self._settings.group_id}: {_NOT_SUPPORTED}")
            unsupported.__cause__ = error
            self._fail(unsupported, now_ms)
        elif code in _FENCED and self.state is ShareMemberState.MEMBER:
            self._lines.info("fenced", now_ms, "group %s: joining again: %s", self._settings.group_id, error)
            self._lose(now_ms)
        elif is_final(error):
            self._fail(error, now_ms)
        elif not isinstance(error, Closed):  # the client has ended, and its membership with it
            self._lines.info("heartbeat", now_ms, "group %s: %s", self._settings.group_id, error)
            self._said = None  # the coordinator may not have received it, so the next one contains all fields
            self._attempts.failed(error, now_ms)
            self._reports.add(error)
            if code is ErrorCode.GROUP_AUTHORIZATION_FAILED and self.state is ShareMemberState.MEMBER:
                self._lose(now_ms)

    def _lose(self, now_ms: int) -> None:
        """Give up all partitions, and join again."""
        self._become(ShareMemberState.JOINING)
        self._take({}, now_ms)

    def _fail(self, error: KafkaWireError, now_ms: int) -> None:
        """End the membership permanently."""
        self.failure = error
        self._become(ShareMemberState.OUTSIDE)
        self._take({}, now_ms)
        self._on_failure(error, now_ms)

    def _become(self, state: ShareMemberState) -> None:
        """Move to a state outside the group, and drop all data about the previous membership."""
        for call in (self._heartbeat, self._leaving):  # a repeated leave would end the next membership
            if call is not None:
                call.cancel()
        self._heartbeat = self._leaving = None
        self.state = SHARE_MEMBERSHIP_EDGES.follow(self.state, state)
        is_joining = state is ShareMemberState.JOINING
        self._epoch = JOIN_GROUP_MEMBER_EPOCH if is_joining else LEAVE_GROUP_MEMBER_EPOCH
        self._target, self._is_resolved = frozenset(), True
        self._said = None

    def _call(
        self,
        request: ShareGroupHeartbeatRequest,
        deadline_ms: int,
        on_done: Callable[[Call[ShareGroupHeartbeatResponse], int], None],
        *,
        retries: bool,
    ) -> Call[ShareGroupHeartbeatResponse]:
        return Call(
            self.coordinator,
            lambda _: (request, None),
            ShareGroupHeartbeatResponse,
            deadline_ms,
            on_done,
            check=partial(refusal_of, self._settings.group_id),
            retries=retries,
            timeout_ms=_HEARTBEAT_TIMEOUT_MS,
            purpose=Purpose.GROUP,
        )
