"""One machine for everything a consumer does in its group: membership, commits and lookups of committed offsets.

A consumer with partitions assigned by hand has no membership, and commits from outside the group.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Final

from kafkawire.sdk.client.options import ConsumerOptions
from kafkawire.sdk.consumer.reading.assignment import Assignment
from kafkawire.sdk.errors import BrokerError, KafkaWireError
from kafkawire.sdk.groups.assignments import ConsumerAssignments
from kafkawire.sdk.groups.auto_group import AutoGroup
from kafkawire.sdk.groups.classic_group import ClassicGroup
from kafkawire.sdk.groups.commit_outcome import Committed, Fenced, Outcome
from kafkawire.sdk.groups.committed_offsets import CommittedOffsets, Found
from kafkawire.sdk.groups.consumer_group import ConsumerGroup
from kafkawire.sdk.groups.offsets import Offsets
from kafkawire.sdk.groups.protocol import Event, GroupMetadata, GroupProtocol, GroupSettings, OnFailure, Step
from kafkawire.sdk.groups.subscription import Subscription
from kafkawire.sdk.protocol.tables.enums import CoordinatorType
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.routing.call import Coordinator
from kafkawire.sdk.routing.partitions import OffsetAndMetadata, TopicPartition
from kafkawire.sdk.routing.retry import Backoff
from kafkawire.sdk.routing.router import Router
from kafkawire.sdk.transport.promise import Promise

if TYPE_CHECKING:
    from kafkawire.sdk.consumer.zookeeper import RegistrySession
    from kafkawire.sdk.groups.dual_offsets import CommitStore, LookUpStore

__all__ = ["Group"]

logger = logging.getLogger("kafkawire.group")

#: The time limit of `stop`, divided by this number, is reserved for ending a ZooKeeper session.
_SESSION_SHARE: Final = 5


class Group:
    """The machines of a consumer's group; call the methods on the driver's thread.

    Args:
        options: the consumer's options.
        router: sends the requests.
        backoff: the pauses between attempts.
        assignment: the consumer's assignment.
        on_failure: called with an error that ends the membership permanently.
        post: runs a step on the driver's thread.

    Attributes:
        coordinator: the group's coordinator.
        notify: called with the membership's events; None to acknowledge them immediately. Set it before `subscribe`.
        protocol: the membership; None if the consumer has not subscribed to topics.

    Raises:
        ConfigurationError: the group's protocol needs a package that is not installed.
    """

    def __init__(
        self,
        options: ConsumerOptions,
        router: Router,
        backoff: Backoff,
        assignment: Assignment,
        on_failure: OnFailure,
        post: Callable[[Step], None],
    ) -> None:
        assert options.group_id is not None
        self._options = options
        self._router = router
        self._backoff = backoff
        self._assignment = assignment
        self._on_failure = on_failure
        self._group_id = options.group_id
        self._session: RegistrySession | None = None
        self._offsets: CommitStore
        self._committed: LookUpStore
        if options.group_protocol == "zookeeper":
            from kafkawire.sdk.consumer import zookeeper  # few programs need it

            self._session = zookeeper.RegistrySession(options, zookeeper.posting(post))
            places = self._session.registry, router, backoff
            self._offsets, self._committed = zookeeper.stores(options, self._group_id, *places, assignment)
        else:
            interval_ms = options.auto_commit_interval_ms if options.enable_auto_commit else None
            self._offsets = Offsets(router, backoff, self._group_id, assignment, interval_ms, options.api_timeout_ms)
            self._committed = CommittedOffsets(router, backoff, self._group_id)
        self.coordinator = Coordinator(CoordinatorType.GROUP, self._group_id)
        self.notify: Callable[[Event], None] | None = None
        self.protocol: GroupProtocol | None = None

    def last_heartbeat_ms(self) -> int | None:
        """Return when the coordinator last confirmed the membership; None if it has not done so yet."""
        return None if self.protocol is None else self.protocol.last_heartbeat_ms

    def has_coordinator(self) -> bool:
        """Return whether the place where the members meet is known, which is the coordinator or ZooKeeper."""
        return self._router.knows(self.coordinator) if self._session is None else self._session.trouble() is None

    def trouble(self) -> KafkaWireError | None:
        """Return the latest unresolved problem with the coordinator, ZooKeeper or the membership; None without one."""
        session_trouble = None if self._session is None else self._session.trouble()
        member_trouble = None if self.protocol is None else self.protocol.trouble
        return session_trouble or self._router.coordinator_trouble(self.coordinator) or member_trouble

    def open(self, promise: Promise[None], now_ms: int) -> None:
        """Connect to ZooKeeper if the group uses it; the promise fails if that takes too long."""
        if self._session is None:
            promise.keep(None)
        else:
            self._session.open(now_ms + self._options.api_timeout_ms, promise)

    def subscribe(self, subscription: Subscription, now_ms: int) -> None:
        """Join the group, or change the member's subscription."""
        if self.protocol is None:
            self.protocol = self._member(subscription)
            self.protocol.start(now_ms)
        else:
            self.protocol.subscribe(subscription, now_ms)

    def acknowledge(self, event: Event, now_ms: int) -> None:
        """Continue after the listener has handled an event."""
        if self.protocol is not None:
            self.protocol.acknowledge(event, now_ms)

    def metadata(self) -> GroupMetadata:
        """Return the consumer's identity in its group.

        Raises:
            BrokerError: the consumer is not a member at the moment.
        """
        if self.protocol is None:
            return GroupMetadata(self._group_id)
        signature = self.protocol.sign()
        if signature is None:
            raise BrokerError(ErrorCode.REBALANCE_IN_PROGRESS, f"not a member of group {self._group_id} at the moment")
        return signature

    def commit(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata],
        timeout_ms: int,
        promise: Promise[None],
        now_ms: int,
    ) -> None:
        """Commit offsets, as the group member if there is one; see `Consumer.commit` for the errors."""

        def done(outcome: Outcome | KafkaWireError, now_ms: int) -> None:
            error = outcome if isinstance(outcome, KafkaWireError) else self._error(outcome)
            if error is None:
                promise.keep(None)
            else:
                promise.fail(error)

        self._offsets.commit(offsets, now_ms + timeout_ms, done, now_ms)

    def look_up(
        self,
        partitions: Collection[TopicPartition],
        promise: Promise[dict[TopicPartition, OffsetAndMetadata]],
        now_ms: int,
    ) -> None:
        """Look up the group's committed offsets; partitions without one are left out. The first error is the result."""
        left = set(partitions)
        offsets: dict[TopicPartition, OffsetAndMetadata] = {}

        def found(results: Found, now_ms: int) -> None:
            left.difference_update(results)
            for partition, result in results.items():
                if isinstance(result, KafkaWireError):
                    promise.fail(result)
                elif result is not None:
                    offsets[partition] = result
            if not left:
                promise.keep(offsets)

        if left:
            self._committed.find(left.copy(), now_ms + self._options.api_timeout_ms, found)
        else:
            promise.keep(offsets)

    def find(self, partitions: Collection[TopicPartition], on_found: Callable[[Found, int], None], now_ms: int) -> None:
        """Look up the group's committed offset of each partition, and report each one as soon as it is known."""
        self._committed.find(partitions, now_ms + self._options.api_timeout_ms, on_found)
        self._committed.poll(now_ms)

    def stop(self, timeout_ms: int, promise: Promise[None], now_ms: int) -> None:
        """Commit finished records (with `enable_auto_commit`) and leave; the promise is kept within the time limit."""
        session = self._session
        if session is None:
            self._leave(now_ms + timeout_ms, promise, now_ms)
            return
        left: Promise[None] = Promise()
        close_ms = timeout_ms // _SESSION_SHARE
        left.add_done_callback(lambda: session.close(close_ms, promise))
        self._leave(now_ms + timeout_ms - close_ms, left, now_ms)

    def _leave(self, deadline_ms: int, promise: Promise[None], now_ms: int) -> None:
        if self.protocol is not None:
            self.protocol.stop(deadline_ms, promise, now_ms)
            return
        offsets = self._assignment.to_commit() if self._options.enable_auto_commit else {}

        def done(outcome: Outcome | KafkaWireError, now_ms: int) -> None:
            if not isinstance(outcome, Committed):
                logger.warning("group %s: some offsets were not committed on closing: %s", self._group_id, outcome)
            promise.keep(None)

        self._offsets.commit(offsets, deadline_ms, done, now_ms)

    # Machine.

    def poll(self, now_ms: int) -> None:
        """Do the work that is due, starting with the membership, which withdraws commits that it may no longer make."""
        if self._session is not None:
            self._session.poll(now_ms)
        if self.protocol is not None:
            self.protocol.poll(now_ms)
        self._offsets.poll(now_ms)
        self._committed.poll(now_ms)

    def due_ms(self, now_ms: int) -> int | None:
        """Return when to poll again if nothing happens before then."""
        times = [self._offsets.due_ms(now_ms), self._committed.due_ms(now_ms)]
        if self.protocol is not None:
            times.append(self.protocol.due_ms(now_ms))
        if self._session is not None:
            times.append(self._session.due_ms(now_ms))
        return min((due_ms for due_ms in times if due_ms is not None), default=None)

    def fail(self, error: KafkaWireError, now_ms: int) -> None:
        """End the membership, all commits and all lookups."""
        if self.protocol is not None:
            self.protocol.fail(error, now_ms)
        self._offsets.fail(error, now_ms)
        self._committed.fail(error, now_ms)
        if self._session is not None:
            self._session.fail(error, now_ms)

    def _member(self, subscription: Subscription) -> GroupProtocol:
        kind = self._options.group_protocol
        if kind == "auto":
            return AutoGroup(self._consumer, self._classic, subscription, self._on_failure)
        make = {"consumer": self._consumer, "classic": self._classic, "zookeeper": self._in_zookeeper}[kind]
        return make(subscription, self._on_failure)

    def _in_zookeeper(self, subscription: Subscription, on_failure: OnFailure) -> GroupProtocol:
        from kafkawire.sdk.consumer.zookeeper import zookeeper_member

        assert self._session is not None, "made with the group"
        return zookeeper_member(
            self._options,
            self._session.registry,
            self._router,
            self._backoff,
            self._settings(),
            subscription,
            self._assignment,
            self._offsets,
            self._notify,
            on_failure,
        )

    def _classic(self, subscription: Subscription, on_failure: OnFailure) -> GroupProtocol:
        return ClassicGroup(
            self._router,
            self._backoff,
            self._settings(),
            ConsumerAssignments(self._options.assignors),
            subscription,
            self._assignment,
            self._offsets,
            self._notify,
            on_failure,
        )

    def _consumer(self, subscription: Subscription, on_failure: OnFailure) -> GroupProtocol:
        return ConsumerGroup(
            self._router,
            self._backoff,
            self._settings(),
            str(uuid.uuid4()),
            subscription,
            self._assignment,
            self._offsets,
            self._notify,
            on_failure,
        )

    def _settings(self) -> GroupSettings:
        options = self._options
        return GroupSettings(
            self._group_id,
            options.group_instance_id,
            options.session_timeout_ms,
            options.heartbeat_interval_ms,
            options.max_poll_interval_ms,
            options.api_timeout_ms,
            options.client_rack or None,
            options.enable_auto_commit,
            options.group_remote_assignor,
        )

    def _notify(self, event: Event, now_ms: int) -> None:
        if self.notify is None:
            self.acknowledge(event, now_ms)
        else:
            self.notify(event)

    def _error(self, outcome: Outcome) -> KafkaWireError | None:
        """Return the error, with Kafka's codes, for a commit that did not commit every offset."""
        if isinstance(outcome, Committed):
            return None
        text = f"commit of {', '.join(map(str, sorted(outcome.partitions)))} in group {self._group_id}"
        if not isinstance(outcome, Fenced):
            return BrokerError(ErrorCode.REBALANCE_IN_PROGRESS, text)
        code = outcome.cause.code if isinstance(outcome.cause, BrokerError) else ErrorCode.UNKNOWN_MEMBER_ID
        error = BrokerError(code, text)
        error.__cause__ = outcome.cause
        return error
