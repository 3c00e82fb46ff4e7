"""A membership in a group whose members register in ZooKeeper; each member computes the assignment and claims its part.

    OUTSIDE ─> REGISTERING ─> READING ─> REVOKING ─> RELEASING ─> CLAIMING ─> ADOPTING ─> STABLE
                                 ^──── WAITING <─ another owner ─────┘                      │
                                 └──────────── members, brokers or topics have changed ─────┘

A rebalance is the path from READING to STABLE, and only one runs at a time. A change during a rebalance is noted, and
another rebalance follows. A partition is read only while its owner node in the registry belongs to this session.

Source: `ZookeeperConsumerConnector` in Apache Kafka 1.1; decision 47 lists the differences.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from enum import Enum
from functools import partial
from typing import Any, Final, NamedTuple, TypeVar

from kafkawire.sdk.errors import EncodeError, KafkaWireError, LocalProtocolError, RequestTimedOut
from kafkawire.sdk.groups.assignment_changes import AssignmentChanges, MemberCommits
from kafkawire.sdk.groups.departure import Departure
from kafkawire.sdk.groups.poll_interval import PollInterval
from kafkawire.sdk.groups.protocol import Event, GroupMetadata, GroupSettings, MemberReader, Notify, OnFailure
from kafkawire.sdk.groups.rebalance_metrics import RebalanceMetrics
from kafkawire.sdk.groups.refusal import ReportedErrors, unresolved
from kafkawire.sdk.groups.registry_work import RegistryWork, Work
from kafkawire.sdk.groups.subscription import Subscription
from kafkawire.sdk.groups.topic_filter import TopicFilter, filter_of
from kafkawire.sdk.groups.zookeeper_assignors import THREAD_ASSIGNORS
from kafkawire.sdk.groups.zookeeper_ownership import Ownership
from kafkawire.sdk.groups.zookeeper_view import STATIC, GroupView, read_group
from kafkawire.sdk.log_limit import LogLimit
from kafkawire.sdk.protocol.tables.znodes import ConsumerRegistration
from kafkawire.sdk.registry.consumer_ids import ConsumerThread
from kafkawire.sdk.registry.registry import Registry, RegistryCode, RegistryError, SessionListener, Watcher, WatchEvent
from kafkawire.sdk.registry.steps import Steps
from kafkawire.sdk.routing.call import Call
from kafkawire.sdk.routing.partitions import TopicPartition
from kafkawire.sdk.routing.retry import Attempts, Backoff
from kafkawire.sdk.routing.router import Router
from kafkawire.sdk.states import Edges
from kafkawire.sdk.transport.promise import Promise

__all__ = ["MEMBERSHIP_EDGES", "State", "ZookeeperGroup", "ZookeeperSettings"]

logger = logging.getLogger("kafkawire.group")

R = TypeVar("R")

#: A lost connection costs the member its partitions after the session timeout divided by this number. A client notices
#: a silent connection after two thirds of the session timeout, so a third is left.
_SUSPENDED_SHARES: Final = 3


class State(Enum):
    """The state of a member."""

    #: The member is outside the group, and is not about to join.
    OUTSIDE = "outside"
    #: It creates or replaces its registration.
    REGISTERING = "registering"
    #: It reads the group, and sets watches.
    READING = "reading"
    #: It is giving up partitions that other members should read.
    REVOKING = "revoking"
    #: It deletes the owner nodes of those partitions.
    RELEASING = "releasing"
    #: It creates the owner nodes of its new partitions.
    CLAIMING = "claiming"
    #: It will read the group again because a partition has another owner, or because the registry rejected an
    #: operation.
    WAITING = "waiting"
    #: It is applying its new assignment.
    ADOPTING = "adopting"
    #: It reads its partitions, or the consumer is being closed.
    STABLE = "stable"
    #: Its session has expired, or may have; the listener is handling the loss of all partitions.
    LOST = "lost"


_LOSES = "the session has expired, or the connection was lost for too long"
_REFUSED = "the registry refuses an operation"

MEMBERSHIP_EDGES: Final = Edges(
    "a member of a group in ZooKeeper",
    (State.OUTSIDE,),
    {
        State.OUTSIDE: {State.REGISTERING: "it wants to join"},
        State.REGISTERING: {State.READING: "its registration exists", State.LOST: _LOSES},
        State.READING: {
            State.REVOKING: "it has another assignment",
            State.STABLE: "its assignment is the same, or no broker is alive",
            State.WAITING: f"its registration is gone, or {_REFUSED}",
            State.LOST: _LOSES,
        },
        State.REVOKING: {State.RELEASING: "the partitions are given up", State.LOST: _LOSES},
        State.RELEASING: {
            State.CLAIMING: "their owners are deleted",
            State.WAITING: _REFUSED,
            State.LOST: _LOSES,
        },
        State.CLAIMING: {
            State.ADOPTING: "it owns its partitions",
            State.WAITING: f"a partition has another owner, or {_REFUSED}",
            State.LOST: _LOSES,
        },
        State.WAITING: {
            State.READING: "the pause has ended, or something has changed",
            State.REGISTERING: "likewise, and its registration must be checked",
            State.LOST: _LOSES,
        },
        State.ADOPTING: {State.STABLE: "the assignment is applied", State.LOST: _LOSES},
        State.STABLE: {
            State.READING: "members, brokers or topics have changed",
            State.REGISTERING: "the subscription has changed",
            State.LOST: _LOSES,
        },
        State.LOST: {State.REGISTERING: "the listener has handled the loss", State.LOST: _LOSES},
    },
    from_any={State.OUTSIDE: "it leaves the group, temporarily or permanently"},
)


class ZookeeperSettings(NamedTuple):
    """How a member takes part in a group in ZooKeeper; these settings complement its `GroupSettings`.

    Attributes:
        consumer_id: the id of the member; see `new_consumer_id`.
        started_ms: when the member started, in ms since the epoch; other members can see this.
        assignor: "range" or "roundrobin"; all members must use the same one.
        excludes_internal: whether a pattern leaves out Kafka's own topics.
        rebalance_backoff_ms: the pause before the group is read again if a partition still has another owner.
        rebalance_max_retries: after this many attempts, the application is informed; Kafka's consumer gives up at that
            point.
    """

    consumer_id: str
    started_ms: int
    assignor: str = "range"
    excludes_internal: bool = True
    rebalance_backoff_ms: int = 2_000
    rebalance_max_retries: int = 4


class _Session(SessionListener):
    """Tells the member about its session at its next poll."""

    def __init__(self, work: RegistryWork, group: ZookeeperGroup) -> None:
        self._work = work
        self._group = group

    def opened(self) -> None:
        self._work.note(self._group.connected)

    def suspended(self) -> None:
        self._work.note(self._group.suspended)

    def connected(self) -> None:
        self._work.note(self._group.connected)

    def expired(self) -> None:
        self._work.note(self._group.expired)

    def refused(self, error: RegistryError) -> None:
        self._work.note(partial(self._group.refused, error))


class ZookeeperGroup:
    """A member of a group in ZooKeeper; see `GroupProtocol`.

    Args:
        registry: contains the nodes of the group. The caller starts the registry, and closes it after `stop`.
        router: the member tells the router's metadata which topics to keep up to date, and counts rebalances in its
            metrics.
        backoff: the pauses after the registry has rejected an operation.
        settings: how the member takes part; settings that concern a coordinator have no effect.
        zookeeper: the settings that are specific to this protocol.
        subscription: the topics that the member wants to read.
        reader: reads the assigned partitions.
        offsets: commits on revocation, and from now on signs commits with this membership.
        notify: receives the events, whose generation is the number of this member's rebalances.
        on_failure: called with an error that ends the membership permanently.
    """

    def __init__(
        self,
        registry: Registry,
        router: Router,
        backoff: Backoff,
        settings: GroupSettings,
        zookeeper: ZookeeperSettings,
        subscription: Subscription,
        reader: MemberReader,
        offsets: MemberCommits,
        notify: Notify,
        on_failure: OnFailure,
    ) -> None:
        self._registry = registry
        self._router = router
        self._settings = settings
        self._zookeeper = zookeeper
        self._subscription = subscription
        self._reader = reader
        self._on_failure = on_failure
        self._reports = ReportedErrors(reader)
        self._lines = LogLimit(logger)
        self._interval = PollInterval(reader, settings)
        self._changes = AssignmentChanges(settings.group_id, reader, offsets, notify, auto_commit=settings.auto_commit)
        self._attempts = Attempts(backoff)
        self._rebalances = RebalanceMetrics(router.metrics)
        self._registry_work = RegistryWork(registry)
        self._session = _Session(self._registry_work, self)
        self._watcher: Watcher = self._note_change
        self.state = State.OUTSIDE
        self.failure: KafkaWireError | None = None
        self.last_heartbeat_ms: int | None = None
        self._is_started = False
        self._ownership: Ownership | None = None
        self._filter: TopicFilter | None = None
        self._work: Work[Any] | None = None
        self._departure: Departure | None = None
        self._left: Promise[None] | None = None
        self._left_by_ms = 0
        self._must_register = True
        self._may_be_registered = False
        self._change: str | None = None
        self._generation = 0
        self._session_id = 0
        self._is_connected = False
        self._suspended_ms: int | None = None
        self._target: Mapping[TopicPartition, ConsumerThread] = {}
        #: Partitions whose owner node belongs to this session, and partitions for which that is uncertain because work
        #: on them was cancelled.
        self._held: set[TopicPartition] = set()
        self._doubtful: set[TopicPartition] = set()
        self._conflicts = 0
        self._wait_until_ms = 0
        offsets.member = self

    # GroupProtocol.

    @property
    def trouble(self) -> KafkaWireError | None:
        return unresolved(self._attempts)

    def start(self, now_ms: int) -> None:
        try:
            self._ownership = Ownership(
                self._settings.group_id, self._zookeeper.consumer_id, lambda: self._registry.session_id
            )
        except EncodeError as error:
            self._fail(error, now_ms)
            return
        if self._follow(self._subscription, now_ms):
            self._is_started = True
            self._session_id = self._registry.session_id
            self._is_connected = bool(self._session_id)
            self._registry.add_listener(self._session)

    def subscribe(self, subscription: Subscription, now_ms: int) -> None:
        self._subscription = subscription
        if self._follow(subscription, now_ms):
            self._reports.forget()
            self._must_register = True
            self._keep_to_topics()

    def acknowledge(self, event: Event, now_ms: int) -> None:
        self._changes.acknowledge(event, now_ms)

    def sign(self) -> GroupMetadata | None:
        # Kafka's coordinator does not know the members of this group, so a commit names no member.
        return None if self.state in (State.OUTSIDE, State.LOST) else GroupMetadata(self._settings.group_id)

    def is_current(self, generation: int) -> bool:
        return generation == self._generation and self.sign() is not None

    def rejected(self, signature: GroupMetadata, error: KafkaWireError, now_ms: int) -> None:
        text = "group %s: a commit was refused because the group also has members in Kafka: %s"
        self._lines.warning("rejected", now_ms, text, self._settings.group_id, error)

    def stop(self, deadline_ms: int, promise: Promise[None], now_ms: int) -> None:
        if self._departure is not None:
            assert self._left is not None, "there is a promise for each departure"
            self._left.add_done_callback(lambda: promise.keep(None))
            return
        self._cancel_work()
        self._left, self._left_by_ms = promise, deadline_ms
        given_up: Promise[None] = Promise()
        self._departure = Departure(
            self._router, self._changes, self._reader, self._begin_leaving, deadline_ms, given_up, now_ms
        )
        self._departure.begin(self._generation, now_ms)

    def poll(self, now_ms: int) -> None:
        self._registry_work.poll(now_ms)
        if self._is_connected and self.last_heartbeat_ms is not None:
            self.last_heartbeat_ms = now_ms  # the registry reports a lost connection if pings fail
        self._check_connection(now_ms)
        if self._departure is not None:
            self._poll_departure(now_ms)
            return
        if not self._is_started or self.failure is not None:
            return
        if self._interval.has_passed(now_ms):
            if self.state is not State.OUTSIDE:
                self._go_idle(now_ms)
            return
        if self.state is State.OUTSIDE and self._work is None and not self._changes.busy:
            self._must_register = True
            self._enter(State.REGISTERING)
        if self.state is State.WAITING and now_ms >= self._wait_ends_ms(now_ms) and not self._reports.waits:
            self._go_on(now_ms)
        if self.state is State.STABLE and (self._change is not None or self._must_register):
            self._go_on(now_ms)
        if self.state is State.REGISTERING and self._may_register() and now_ms >= self._attempts.not_before_ms:
            self._register()

    def due_ms(self, now_ms: int) -> int | None:
        if self._registry_work.has_news:
            return now_ms
        times = []
        if self._departure is not None:
            departure_ms = self._departure.due_ms()
            if departure_ms is not None:
                times.append(departure_ms)
            if self._left is not None and not self._left.done:
                times.append(self._left_by_ms)
        elif self._is_started and self.failure is None and self.state is not State.OUTSIDE:
            times += self._due_times(now_ms)
        lost_ms = self._lost_ms()
        if lost_ms is not None:
            times.append(lost_ms)
        return min(times, default=None)

    def fail(self, error: KafkaWireError, now_ms: int) -> None:
        self.failure = self.failure or error
        self._changes.forget()
        self._cancel_work()
        self._registry.remove_listener(self._session)
        self._enter(State.OUTSIDE)
        if self._departure is not None:
            self._departure.cancel()
        self._end(now_ms)

    # The session.

    def connected(self, now_ms: int) -> None:
        """Note that the previous session or a new one is connected."""
        self._is_connected = True
        self._suspended_ms = None
        self._session_id = self._registry.session_id
        self.last_heartbeat_ms = now_ms

    def suspended(self, now_ms: int) -> None:
        """Note that the connection is lost; the session may end before it is restored."""
        self._is_connected = False
        self._suspended_ms = now_ms

    def expired(self, now_ms: int) -> None:
        """Note that the session and this member's nodes are gone; other members may already own its partitions."""
        self._is_connected = False
        self._suspended_ms = None
        self._may_be_registered = False
        self._held.clear()
        self._doubtful.clear()
        if self._ownership is not None and self._session_id:
            self._ownership.former_sessions.add(self._session_id)
        if self.state is not State.OUTSIDE:
            self._lose(RegistryError(RegistryCode.SESSION_EXPIRED, "", self._registry.describe()), now_ms)

    def refused(self, error: RegistryError, now_ms: int) -> None:
        """Tell the application that the registry rejects its credentials."""
        self._reports.add(error)

    def _lost_ms(self) -> int | None:
        """Return when a lost connection costs the member its partitions."""
        has_nothing = self.state in (State.OUTSIDE, State.REGISTERING, State.LOST) and not self._reader.assigned
        if self._suspended_ms is None or has_nothing:
            return None
        return self._suspended_ms + self._registry.session_timeout_ms // _SUSPENDED_SHARES

    def _check_connection(self, now_ms: int) -> None:
        lost_ms = self._lost_ms()
        if lost_ms is None or now_ms < lost_ms:
            return
        self._suspended_ms = None
        text = f"the session with {self._registry.describe()} may have ended: the connection is lost"
        self._lose(RequestTimedOut(text), now_ms)

    # Registering.

    def _follow(self, subscription: Subscription, now_ms: int) -> bool:
        """Follow the topics of a subscription; return False if its pattern is not supported."""
        try:
            self._filter = filter_of(subscription, excludes_internal=self._zookeeper.excludes_internal)
        except KafkaWireError as error:
            self._fail(error, now_ms)
            return False
        subscription.keep_known(self._router.metadata)
        return True

    def _registration(self) -> ConsumerRegistration:
        started_ms = self._zookeeper.started_ms
        if self._filter is not None:
            return ConsumerRegistration({self._filter.expression: 1}, self._filter.kind.value, started_ms)
        return ConsumerRegistration(dict.fromkeys(sorted(self._subscription.names), 1), STATIC, started_ms)

    def _may_register(self) -> bool:
        return self._work is None and not self._reports.waits

    def _register(self) -> None:
        assert self._ownership is not None, "a member that has not started is OUTSIDE"
        self._must_register = False
        self._may_be_registered = True
        self._begin(self._ownership.register(self._registration()), self._registered)

    def _registered(self, _: None, now_ms: int) -> None:
        self.last_heartbeat_ms = now_ms
        self._read(now_ms)

    # A rebalance.

    def _note_change(self, event: WatchEvent) -> None:
        """Note that the group has to be read again; called by the registry."""
        self._change = f"{event.path} has changed"
        self._registry_work.note(lambda now_ms: None)  # so that the machine gets polled

    def _go_on(self, now_ms: int) -> None:
        """Begin another rebalance, with a new registration first if the current one is outdated or uncertain."""
        if self._must_register:
            self._enter(State.REGISTERING)
        else:
            self._read(now_ms)

    def _read(self, now_ms: int) -> None:
        self._enter(State.READING)
        self._change = None  # watches that are set now report later changes
        steps = read_group(
            self._settings.group_id,
            self._zookeeper.consumer_id,
            self._watcher,
            partial(self._warn_of_damage, now_ms),
            reads_all_topics=self._zookeeper.assignor == "roundrobin",
            excludes_internal=self._zookeeper.excludes_internal,
        )
        self._begin(steps, self._plan)

    def _plan(self, view: GroupView, now_ms: int) -> None:
        """Compute the assignment, and begin to give up partitions."""
        self.last_heartbeat_ms = now_ms
        if self._zookeeper.consumer_id not in view.members:  # an operator has deleted it
            self._wait(now_ms)
            self._must_register = True
            return
        self._attempts.succeeded()
        if not view.has_brokers:
            self._lines.warning("brokers", now_ms, "group %s: no broker is alive", self._settings.group_id)
            self._settle(now_ms)
            return
        assignment = THREAD_ASSIGNORS[self._zookeeper.assignor](view.threads, view.partitions)
        own = self._zookeeper.consumer_id
        self._target = {each: thread for each, thread in assignment.items() if thread.consumer_id == own}
        target = self._target.keys()
        if target == self._held == self._reader.assigned and not self._doubtful:
            self._settle(now_ms)
            return
        self._rebalances.begun(now_ms)
        self._enter(State.REVOKING)
        going = self._reader.assigned - target
        limit_ms = min(self._settings.api_timeout_ms, self._settings.max_poll_interval_ms)
        self._changes.revoke(going, self._generation, now_ms + limit_ms, now_ms, self._release)

    def _release(self, now_ms: int) -> None:
        self._enter(State.RELEASING)
        going = (self._held | self._doubtful) - self._target.keys()
        self._held -= going
        self._doubtful |= going
        if not going:
            self._claim(now_ms)
            return

        def released(_: None, now_ms: int) -> None:
            self._doubtful -= going
            self._claim(now_ms)

        assert self._ownership is not None
        self._begin(self._ownership.release(going), released)

    def _claim(self, now_ms: int) -> None:
        self._enter(State.CLAIMING)
        claimed = {each: thread for each, thread in self._target.items() if each not in self._held}
        self._doubtful |= claimed.keys()
        if not claimed:
            self._adopt(now_ms)
            return

        def done(taken: frozenset[TopicPartition], now_ms: int) -> None:
            self._doubtful -= claimed.keys()
            if taken:
                self._blocked(taken, now_ms)
            else:
                self._held |= claimed.keys()
                self._adopt(now_ms)

        self._begin(self._claim_all_or_none(claimed), done)

    def _claim_all_or_none(self, claimed: Mapping[TopicPartition, ConsumerThread]) -> Steps[frozenset[TopicPartition]]:
        """Claim partitions; if some have another owner, watch and return those, and release the rest."""
        assert self._ownership is not None
        taken = yield from self._ownership.claim(claimed)
        if taken:
            yield from self._ownership.release(claimed.keys() - taken)
            if (yield from self._ownership.watch(taken, self._watcher)):
                self._change = "a partition was released"
        return taken

    def _blocked(self, taken: frozenset[TopicPartition], now_ms: int) -> None:
        """Wait until the other owners give up their partitions, and tell the application if they do not.

        Kafka's consumer gives up after its retries, and reads nothing until the group changes again. This member keeps
        trying instead, and resumes reading as soon as it can; an application that would rather stop can do so when it
        gets the error.
        """
        self._conflicts += 1
        if self._conflicts > self._zookeeper.rebalance_max_retries:
            partition = min(taken)
            count = f"{len(taken)} partitions, including {partition},"
            text = f"group {self._settings.group_id}: {count} still have other owners"
            error = RequestTimedOut(f"{text} after {self._conflicts} attempts")
            self._lines.warning("blocked", now_ms, "%s; trying again", error)
            if self._conflicts == self._zookeeper.rebalance_max_retries + 1:
                self._rebalances.failed(now_ms)
                self._reader.report(error)  # further attempts do not wait for that read
        self._wait(now_ms + self._zookeeper.rebalance_backoff_ms)

    def _adopt(self, now_ms: int) -> None:
        self._enter(State.ADOPTING)
        self._conflicts = 0
        self._generation += 1
        self._changes.assign(self._target.keys(), self._generation, now_ms, self._settle)

    def _settle(self, now_ms: int) -> None:
        """End a rebalance."""
        self._enter(State.STABLE)
        self._rebalances.ended(now_ms)
        self._keep_to_topics()

    def _keep_to_topics(self) -> None:
        """Hand out no records from topics no longer subscribed to; those topics are given up in the next rebalance."""
        accepts = self._subscription.names.__contains__ if self._filter is None else self._filter.accepts
        self._changes.keep_to({each.topic for each in self._reader.assigned if accepts(each.topic)})

    def _wait(self, until_ms: int) -> None:
        self._enter(State.WAITING)
        self._wait_until_ms = until_ms

    def _wait_ends_ms(self, now_ms: int) -> int:
        """Return when to read the group again: at once after a change, unless the registry rejected an operation."""
        if self._change is not None and self._attempts.failures == 0:
            return now_ms
        return self._wait_until_ms

    # Leaving.

    def _begin_leaving(self, deadline_ms: int, on_done: Callable[[Call, int], None]) -> Call | None:
        """Delete all nodes; there is no coordinator to call."""
        self._leave(lambda _, now_ms: self._end(now_ms))
        return None

    def _leave(self, then: Callable[[None, int], None]) -> None:
        self._cancel_work()
        self._rebalances.left()
        self._change = None
        self._conflicts = 0
        self._enter(State.OUTSIDE)
        owned = self._held | self._doubtful
        self._held, self._doubtful = set(), set()
        is_registered, self._may_be_registered = self._may_be_registered, False

        def done(_: None, now_ms: int) -> None:
            logger.info("group %s: left", self._settings.group_id)
            self._work = None
            then(None, now_ms)

        def failed(error: KafkaWireError, now_ms: int) -> None:
            text = "group %s: could not delete the nodes of %s; they will disappear with the session: %s"
            logger.warning(text, self._settings.group_id, self._zookeeper.consumer_id, error)
            self._work = None
            then(None, now_ms)

        if self._ownership is None or not is_registered:
            self._registry_work.note(partial(then, None))
        else:
            self._work = self._registry_work.begin(self._ownership.leave(owned), done, failed)

    def _poll_departure(self, now_ms: int) -> None:
        if self._departure is not None and not self._departure.is_over:
            self._departure.poll(now_ms)
        if self._left is not None and not self._left.done and now_ms >= self._left_by_ms:
            self._cancel_work()
            self._end(now_ms)

    def _end(self, now_ms: int) -> None:
        if self._departure is not None and self._left is not None:
            self._registry.remove_listener(self._session)
            self._left.keep(None)

    def _go_idle(self, now_ms: int) -> None:
        """Leave until the application reads again."""
        generation, error = self._generation, self._interval.error()
        self._enter(State.OUTSIDE)
        self._changes.lose(generation, error, now_ms, lambda now_ms: None)
        self._leave(lambda _, now_ms: None)

    # Failures.

    def _begin(self, steps: Steps[R], then: Callable[[R, int], None]) -> None:
        """Begin steps on the registry; only one sequence may run at a time."""
        if self._work is not None:
            raise LocalProtocolError(
                f"group {self._settings.group_id}: other steps are still running; only one sequence may run at a time"
            )

        def done(result: R, now_ms: int) -> None:
            self._work = None
            then(result, now_ms)

        self._work = self._registry_work.begin(steps, done, self._hindered)

    def _hindered(self, error: KafkaWireError, now_ms: int) -> None:
        """Handle a failed sequence: after a pause, check and read everything again."""
        self._work = None
        code = error.code if isinstance(error, RegistryError) else None
        if code is RegistryCode.CLOSED:
            self._fail(error, now_ms)
            return
        self._must_register = True
        if code is RegistryCode.SESSION_EXPIRED:
            return  # the loss of the session is also reported separately
        self._lines.info("hindered", now_ms, "group %s: %s", self._settings.group_id, error)
        self._attempts.failed(error, now_ms)
        # If a node has appeared or disappeared in the meantime, the next attempt reads the new state.
        if code not in (RegistryCode.NO_NODE, RegistryCode.NODE_EXISTS, RegistryCode.BAD_VERSION):
            self._reports.add(error)
        if self.state is not State.REGISTERING:
            self._wait(self._attempts.not_before_ms)

    def _lose(self, error: KafkaWireError, now_ms: int) -> None:
        """Drop all partitions, since others may be reading them, and join again."""
        self._cancel_work()
        self._doubtful |= self._held
        self._held.clear()
        self._conflicts = 0
        self._rebalances.failed(now_ms)
        self._enter(State.LOST)

        def back(now_ms: int) -> None:
            if self._departure is not None:
                self._departure.leave(now_ms)
            else:
                self._must_register = True
                self._enter(State.REGISTERING)

        self._changes.lose(self._generation, error, now_ms, back)

    def _fail(self, error: KafkaWireError, now_ms: int) -> None:
        """End the membership permanently."""
        self._cancel_work()
        self._enter(State.OUTSIDE)
        self.failure = error

        def leave(now_ms: int) -> None:
            if self._departure is not None:
                self._departure.leave(now_ms)

        self._changes.lose(self._generation, error, now_ms, leave)
        self._leave(lambda _, now_ms: None)
        self._on_failure(error, now_ms)

    # Other methods.

    def _enter(self, state: State) -> None:
        self.state = MEMBERSHIP_EDGES.follow(self.state, state)

    def _cancel_work(self) -> None:
        if self._work is not None:
            self._work.cancel()
            self._work = None

    def _due_times(self, now_ms: int) -> list[int]:
        times = []
        idle_ms = self._interval.due_ms()
        if idle_ms is not None:
            times.append(idle_ms)
        if self.state is State.STABLE and self._must_register:
            times.append(now_ms)
        if self.state is State.WAITING and not self._reports.waits:
            times.append(self._wait_ends_ms(now_ms))
        if self.state is State.REGISTERING and self._may_register():
            times.append(max(now_ms, self._attempts.not_before_ms))
        return times

    def _warn_of_damage(self, now_ms: int, error: KafkaWireError) -> None:
        self._lines.warning("damage", now_ms, "group %s: ignored: %s", self._settings.group_id, error)
