"""The controller of a cluster: elects leaders, creates and deletes replicas, and informs all brokers.

One broker is the controller; every broker has this state machine and stands for election. Everything that happens
becomes an event, and events are processed one at a time (`events.py`). When elected, the controller reads its whole
state from the registry. When it is deposed, or when an event fails halfway, it resigns and forgets everything.

Source: `KafkaController` in Apache Kafka.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeVar

from kafkawire.reference_broker.cluster.controller.broker_changes import BrokerChanges
from kafkawire.reference_broker.cluster.controller.broker_requests import (
    BrokerRequests,
    Channels,
    ControlRequest,
)
from kafkawire.reference_broker.cluster.controller.cluster_reader import ClusterReader
from kafkawire.reference_broker.cluster.controller.context import Context, Replica, ReplicaAssignment
from kafkawire.reference_broker.cluster.controller.election import Incumbent, elect, incumbent, last_epoch
from kafkawire.reference_broker.cluster.controller.events import Answer, Event, Events
from kafkawire.reference_broker.cluster.controller.feature_updates import FeatureUpdate, update_features
from kafkawire.reference_broker.cluster.controller.isr_changes import IsrChanges
from kafkawire.reference_broker.cluster.controller.leader_changes import LeaderChanges
from kafkawire.reference_broker.cluster.controller.leadership_store import LeadershipStore, StoredLeadership
from kafkawire.reference_broker.cluster.controller.lookout import Lookout, delete_each, raise_if_of_all
from kafkawire.reference_broker.cluster.controller.noticed_topics import NoticedTopics
from kafkawire.reference_broker.cluster.controller.outward_calls import GuardedChannels, call_out, guarded_timer
from kafkawire.reference_broker.cluster.controller.partition_states import PartitionStates
from kafkawire.reference_broker.cluster.controller.producer_ids import allocate
from kafkawire.reference_broker.cluster.controller.reassignments import Reassignments
from kafkawire.reference_broker.cluster.controller.refusals import Refusal, Refused, refusal_of, tell_refusal
from kafkawire.reference_broker.cluster.controller.replica_states import ReplicaStates
from kafkawire.reference_broker.cluster.controller.restarted_replicas import replace_restarted
from kafkawire.reference_broker.cluster.controller.topic_deletions import TopicDeletions
from kafkawire.reference_broker.work.timers import Later
from kafkawire.sdk.errors import KafkaWireError
from kafkawire.sdk.protocol.messages.allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)
from kafkawire.sdk.protocol.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse
from kafkawire.sdk.protocol.messages.controlled_shutdown import ControlledShutdownRequest, ControlledShutdownResponse
from kafkawire.sdk.protocol.messages.leader_and_isr import LeaderAndIsrRequest, LeaderAndIsrResponse
from kafkawire.sdk.protocol.messages.stop_replica import StopReplicaRequest, StopReplicaResponse
from kafkawire.sdk.protocol.messages.update_metadata import UpdateMetadataResponse
from kafkawire.sdk.protocol.schema import Message
from kafkawire.sdk.protocol.tables.enums import NO_CONTROLLER_ID, ElectionType
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.protocol.tables.znodes import (
    BROKER,
    BROKER_IDS,
    CONTROLLER,
    FEATURE,
    ISR_CHANGES,
    LOG_DIR_EVENTS,
    PARTITION_REASSIGNMENTS,
    PREFERRED_REPLICA_ELECTION,
    TOPIC,
    TOPIC_DELETIONS,
    TOPICS,
    FinalizedFeatures,
)
from kafkawire.sdk.registry.acls import OPEN_ACL, Acl
from kafkawire.sdk.registry.content import DamagedZnode
from kafkawire.sdk.registry.paths import child_path, parent_of
from kafkawire.sdk.registry.registry import (
    SESSION_ENDED,
    EventKind,
    Registry,
    RegistryCode,
    RegistryError,
    SessionListener,
    WatchEvent,
)
from kafkawire.sdk.registry.steps import ATTEMPTS_MAX, CheckFailed, Steps, create_with_parents, read, set_data
from kafkawire.sdk.routing.partitions import TopicPartition

__all__ = [
    "FIRST_REBALANCE_DELAY_MS",
    "LOOK_AGAIN_DELAY_MS",
    "REELECTION_DELAY_MS",
    "Controller",
    "ControllerSettings",
]

T = TypeVar("T")

_log = logging.getLogger("kafkawire.broker")

#: Delay between the failover and the first rebalance of leaders, as in Apache Kafka.
FIRST_REBALANCE_DELAY_MS: Final = 5_000

#: Pause before a node that could not be read is read again.
LOOK_AGAIN_DELAY_MS: Final = 2_000

#: After resigning because an event failed, a controller pauses. Others can then stand for election first, and a
#: permanent failure does not recur in a tight loop.
REELECTION_DELAY_MS: Final = 1_000


class ControllerSettings(NamedTuple):
    """The configuration of a controller.

    Attributes:
        broker_id: the id of this broker.
        listener: the name of the inter-broker listener.
        deletes_topics: `delete.topic.enable`.
        rebalances_leaders: `auto.leader.rebalance.enable`.
        imbalance_percentage: `leader.imbalance.per.broker.percentage`.
        imbalance_check_interval_ms: `leader.imbalance.check.interval.seconds`.
        acl: the access control list for the nodes that the controller creates.
    """

    broker_id: int
    listener: str = "PLAINTEXT"
    deletes_topics: bool = True
    rebalances_leaders: bool = True
    imbalance_percentage: int = 10
    imbalance_check_interval_ms: int = 300_000
    acl: tuple[Acl, ...] = OPEN_ACL


class Controller(SessionListener):
    """Stands for election, and controls the cluster while it is elected.

    All methods are called on the thread that owns the registry. Each answer is given once, during the call or later.

    Args:
        settings: the configuration.
        registry: the cluster's registry; its session is the broker's.
        channels: connections to the brokers.
        later: a timer.
        now_ms: returns the wall-clock time, for the registration.
        register: registers this broker again in a new session.
        new_topic_id: returns a random id of 16 bytes.
        is_unclean_allowed: returns the current value of this broker's `unclean.leader.election.enable`.
    """

    def __init__(
        self,
        settings: ControllerSettings,
        registry: Registry,
        channels: Channels,
        *,
        later: Later,
        now_ms: Callable[[], int],
        register: Callable[[], Steps[object]],
        new_topic_id: Callable[[], bytes],
        is_unclean_allowed: Callable[[], bool] = bool,
    ) -> None:
        self._settings = settings
        self._registry = registry
        self._later = guarded_timer(later)
        self._now_ms = now_ms
        self._register = register
        self._is_active = False
        self._incumbent: Incumbent | None = None
        self._is_registered = True
        #: Why the last event failed. The same error is not logged again until this broker has been elected.
        self._failure: str | None = None
        self._waits_for_reelection = False
        self._cancel_rebalance: Callable[[], None] | None = None
        self._cancel_reelection: Callable[[], None] | None = None
        self._looks_later: set[str] = set()
        self._events = Events(registry, self._event_failed)
        self._lookout = Lookout(self._watched, self._look_later)
        self.context = Context()
        self._assemble(GuardedChannels(channels), new_topic_id, is_unclean_allowed)

    def _assemble(
        self, channels: Channels, new_topic_id: Callable[[], bytes], is_unclean_allowed: Callable[[], bool]
    ) -> None:
        """Create the parts in the order of their dependencies."""
        settings, context, later = self._settings, self.context, self._later
        self._reader = ClusterReader(self._lookout)
        self._requests = BrokerRequests(
            settings.broker_id, settings.listener, context, channels, later, self._answered, self._overflowed
        )
        self._store = LeadershipStore(context, settings.acl)
        self._partition_states = PartitionStates(
            context,
            self._requests,
            self._store,
            lambda: bool(call_out("unclean.leader.election.enable", is_unclean_allowed)),
        )
        self._replica_states = ReplicaStates(context, self._requests, self._store)
        self._deletions = TopicDeletions(
            context, self._requests, self._partition_states, self._replica_states, is_enabled=settings.deletes_topics
        )
        self._reassignments = Reassignments(
            context,
            self._requests,
            self._store,
            self._partition_states,
            self._replica_states,
            self._deletions,
            self._lookout,
        )
        self._brokers = BrokerChanges(
            context,
            self._reader,
            self._requests,
            self._partition_states,
            self._replica_states,
            self._deletions,
            self._reassignments,
            self._lookout,
        )
        self._topics = NoticedTopics(
            context,
            self._reader,
            self._partition_states,
            self._replica_states,
            self._deletions,
            self._lookout,
            new_topic_id,
            deletes_topics=settings.deletes_topics,
        )
        self._isr_changes = IsrChanges(context, self._store, self._brokers, self._reassignments, self._lookout)
        self._leader_changes = LeaderChanges(
            context, self._partition_states, settings.imbalance_percentage, self._lookout
        )
        self._by_node: Mapping[str, Callable[[], Steps[None]]] = {
            BROKER_IDS.path(): self._brokers.compare,
            TOPICS.path(): self._topics.compare,
            TOPIC_DELETIONS.path(): self._topics.take_deletions,
            LOG_DIR_EVENTS.path(): self._brokers.take_log_dir_events,
            ISR_CHANGES.path(): self._isr_changes.take_announcements,
            PARTITION_REASSIGNMENTS.path(): self._take_reassignments,
            PREFERRED_REPLICA_ELECTION.path(): self._leader_changes.take_order,
        }

    # Lifecycle.

    @property
    def is_active(self) -> bool:
        """Whether this broker is the controller."""
        return self._is_active

    @property
    def controller_id(self) -> int:
        """The id of the broker known to be the controller, or `NO_CONTROLLER_ID` if there is none."""
        return NO_CONTROLLER_ID if self._incumbent is None else self._incumbent.broker_id

    @property
    def is_idle(self) -> bool:
        """Whether the event queue is idle."""
        return self._events.is_idle

    def begin(self) -> None:
        """Stand for election. The broker must already be registered."""
        self._registry.add_listener(self)
        self._put("start", self._stand, needs_controller=False)

    def close(self) -> None:
        """Stop immediately; clients get NOT_CONTROLLER. When the session ends, another broker becomes controller."""
        self._registry.remove_listener(self)
        self._resign()
        self._events.close()
        if self._cancel_reelection is not None:
            self._cancel_reelection()

    def expired(self) -> None:
        """Resign, since the session has ended, and with it the registrations of the broker and the controller."""
        self._incumbent = None
        self._is_registered = False
        self._resign()
        self._events.preempt()

    def opened(self) -> None:
        """Register the broker in the new session, and stand for election."""
        self._is_registered = False
        self._put("new session", self._stand, needs_controller=False)

    # Requests.

    def alter_partitions(
        self, request: AlterPartitionRequest, version: int, done: Callable[[AlterPartitionResponse], None]
    ) -> None:
        """Change the ISRs of partitions on behalf of their leader.

        Args:
            request: the leader's request.
            version: the request's version.
            done: called with the response.
        """

        def steps(answer: Answer[AlterPartitionResponse]) -> Steps[None]:
            response, in_sync = yield from self._isr_changes.alter(request, version)
            answer.give(response)
            yield from self._reassignments.complete_if_in_sync(in_sync)

        answer = Answer(done, lambda code: AlterPartitionResponse(error_code=code))
        self._ask("AlterPartition", steps, answer)

    def shut_down_broker(
        self, request: ControlledShutdownRequest, done: Callable[[ControlledShutdownResponse], None]
    ) -> None:
        """Move leaders away from a broker that is about to stop.

        Args:
            request: the broker's request.
            done: called with the response, which lists the partitions that the broker still leads.
        """

        def steps(answer: Answer[ControlledShutdownResponse]) -> Steps[None]:
            try:
                led = yield from self._brokers.shut_down(request.broker_id, request.broker_epoch)
            except Refused as error:
                _log.info("refusing a controlled shutdown: %s", error)
                answer.refuse(error.refusal.error_code)
                return
            remaining = [ControlledShutdownResponse.RemainingPartition(*partition) for partition in led]
            answer.give(ControlledShutdownResponse(remaining_partitions=remaining))

        answer = Answer(done, lambda code: ControlledShutdownResponse(error_code=code))
        self._ask("ControlledShutdown", steps, answer)

    def allocate_producer_ids(
        self, request: AllocateProducerIdsRequest, done: Callable[[AllocateProducerIdsResponse], None]
    ) -> None:
        """Hand out producer ids to a broker.

        Args:
            request: the broker's request.
            done: called with the response.
        """

        def steps(answer: Answer[AllocateProducerIdsResponse]) -> Steps[None]:
            try:
                answer.give((yield from allocate(self.context, request)))
            except (Refused, DamagedZnode, RegistryError) as error:
                if isinstance(error, RegistryError):
                    raise_if_of_all(error)
                _log.error("could not hand out producer ids: %s", error)
                answer.refuse(ErrorCode.UNKNOWN_SERVER_ERROR)

        answer = Answer(done, lambda code: AllocateProducerIdsResponse(error_code=code))
        self._ask("AllocateProducerIds", steps, answer)

    def elect_leaders(
        self,
        partitions: Sequence[TopicPartition] | None,
        kind: ElectionType,
        done: Callable[[Mapping[TopicPartition, int | Refusal] | Refusal], None],
    ) -> None:
        """Elect leaders.

        Args:
            partitions: the partitions; None for all.
            kind: preferred or unclean.
            done: called with each partition's new leader, or the reason why none was elected; or with one refusal for
                all.
        """

        def steps(answer: Answer[Mapping[TopicPartition, int | Refusal] | Refusal]) -> Steps[None]:
            answer.give((yield from self._leader_changes.elect(partitions, kind)))

        answer: Answer[Mapping[TopicPartition, int | Refusal] | Refusal] = Answer(done, refusal_of)
        self._ask("ElectLeaders", steps, answer)

    def alter_reassignments(
        self,
        wanted: Mapping[TopicPartition, Sequence[int] | None],
        done: Callable[[Mapping[TopicPartition, Refusal] | Refusal], None],
    ) -> None:
        """Start, replace or cancel reassignments.

        Args:
            wanted: the new replicas of each partition; None to cancel its reassignment.
            done: called with the result for each partition, or with one result for all.
        """

        def steps(answer: Answer[Mapping[TopicPartition, Refusal] | Refusal]) -> Steps[None]:
            answer.give((yield from self._reassignments.alter(wanted)))

        answer: Answer[Mapping[TopicPartition, Refusal] | Refusal] = Answer(done, refusal_of)
        self._ask("AlterPartitionReassignments", steps, answer)

    def list_reassignments(
        self,
        partitions: Collection[TopicPartition] | None,
        done: Callable[[Mapping[TopicPartition, ReplicaAssignment] | Refusal], None],
    ) -> None:
        """List reassignments in progress.

        Args:
            partitions: the partitions; None for all.
            done: called with the assignments, or with an error.
        """

        def steps(answer: Answer[Mapping[TopicPartition, ReplicaAssignment] | Refusal]) -> Steps[None]:
            answer.give(self._reassignments.listed(partitions))
            yield from ()

        answer: Answer[Mapping[TopicPartition, ReplicaAssignment] | Refusal] = Answer(done, refusal_of)
        self._ask("ListPartitionReassignments", steps, answer)

    def update_features(
        self,
        updates: Sequence[FeatureUpdate],
        done: Callable[[Mapping[str, Refusal] | Refusal], None],
        *,
        validate_only: bool,
    ) -> None:
        """Change the finalized features of the cluster.

        Args:
            updates: the changes that a client wants; only the first one for each feature is used.
            done: called with the result for each feature, or with one result for all.
            validate_only: whether to check the changes without making them.
        """

        def steps(answer: Answer[Mapping[str, Refusal] | Refusal]) -> Steps[None]:
            answer.give((yield from update_features(self.context, updates, validate_only=validate_only)))

        answer: Answer[Mapping[str, Refusal] | Refusal] = Answer(done, refusal_of)
        self._ask("UpdateFeatures", steps, answer)

    def allow_unclean_elections(self, topic: str | None = None) -> None:
        """Elect leaders that are not in sync, now that the configuration allows it.

        Args:
            topic: the topic whose configuration has changed; None if the broker's configuration has changed.
        """

        def steps() -> Steps[None]:
            yield from self._partition_states.bring_online(topic)

        self._put(f"unclean elections for {'all topics' if topic is None else topic}", steps, is_from_registry=False)

    # Events.

    def _ask(self, name: str, steps: Callable[[Answer[T]], Steps[None]], answer: Answer[T]) -> None:
        def guarded() -> Steps[None]:
            if self._is_active:
                yield from steps(answer)
            else:
                answer.refuse(ErrorCode.NOT_CONTROLLER)

        erased: Answer[Any] = answer
        self._events.put(Event(name, guarded, erased))

    def _put(
        self,
        name: str,
        steps: Callable[[], Steps[None]],
        *,
        needs_controller: bool = True,
        is_from_registry: bool = True,
    ) -> None:
        def guarded() -> Steps[None]:
            if self._is_active or not needs_controller:
                yield from steps()

        self._events.put(Event(name, guarded, is_from_registry=is_from_registry))

    def _watched(self, event: WatchEvent) -> None:
        """Turn a fired watch into an event."""
        path = event.path
        if path == CONTROLLER.path():
            # The elected controller may be gone before the node is read, so the broker stands for election in any case.
            self._put("another controller", self._stand, needs_controller=False)
        elif path in self._by_node or event.kind is EventKind.CHANGED:
            self._look_at(path)

    def _look_at(self, path: str) -> None:
        """Act on the current content of a node."""
        if path in self._by_node:
            self._put(path, self._by_node[path])
        elif parent_of(path) == BROKER_IDS.path():
            (broker_id,) = BROKER.parameters(path)
            self._put(path, lambda: self._brokers.refresh(broker_id))
        elif parent_of(path) == TOPICS.path():
            (topic,) = TOPIC.parameters(path)
            self._put(path, lambda: self._topics.refresh(topic))

    def _look_later(self, path: str) -> None:
        def look() -> None:
            self._looks_later.discard(path)
            self._look_at(path)

        if path not in self._looks_later and self._later(LOOK_AGAIN_DELAY_MS, look) is not None:
            self._looks_later.add(path)

    def _answered(self, broker_id: int, request: ControlRequest, response: Message) -> None:
        """Turn a broker's response into an event."""
        if isinstance(response, LeaderAndIsrResponse):
            self._put(
                f"LeaderAndIsr response from {broker_id}",
                lambda: self._if_current(broker_id, request, self._brokers.take_response(broker_id, response)),
                is_from_registry=False,
            )
        elif isinstance(response, UpdateMetadataResponse):
            if response.error_code != ErrorCode.NONE:
                tell_refusal(broker_id, "UpdateMetadata", response.error_code)
        elif isinstance(response, StopReplicaResponse):
            started = self.context.deletions_started
            deleted = [partition for partition in request.kind.deleted if partition.topic in started]
            if deleted:
                self._put(
                    f"StopReplica response from {broker_id}",
                    lambda: self._if_current(
                        broker_id, request, self._take_stop_response(broker_id, response, deleted)
                    ),
                    is_from_registry=False,
                )

    def _if_current(self, broker_id: int, request: ControlRequest, steps: Steps[None]) -> Steps[None]:
        """Act on a response, unless the broker has registered again since it received the request."""
        broker, message = self.context.brokers.get(broker_id), request.message
        epoch = message.broker_epoch if isinstance(message, LeaderAndIsrRequest | StopReplicaRequest) else None
        if broker is not None and broker.epoch == epoch:
            yield from steps

    def _take_stop_response(
        self, broker_id: int, response: StopReplicaResponse, deleted: Iterable[TopicPartition]
    ) -> Steps[None]:
        errors = {(each.topic_name, each.partition_index): each.error_code for each in response.partition_errors}
        failed: list[Replica] = []
        done: list[Replica] = []
        for partition in deleted:
            # A partition that the response does not name was not deleted.
            is_done = response.error_code == ErrorCode.NONE and errors.get(partition) == ErrorCode.NONE
            (done if is_done else failed).append(Replica(partition, broker_id))
        if failed:
            _log.error("broker %d could not delete replicas: %d %s", broker_id, response.error_code, errors)
        yield from self._deletions.fail(failed)
        if done:
            yield from self._deletions.complete(done)

    def _overflowed(self, broker_id: int) -> None:
        def steps() -> Steps[None]:
            _log.error("the controller is resigning, since broker %d is not responding", broker_id)
            yield from self._give_up()

        self._put(f"requests to broker {broker_id}", steps)

    def _event_failed(self, event: Event, error: Exception) -> None:
        """Resign, so that no other event sees what the failed event left half-finished."""
        was_active, version = self._is_active, self.context.epoch_version
        self._resign()
        if isinstance(error, CheckFailed) or (isinstance(error, RegistryError) and error.code in SESSION_ENDED):
            _log.info("this broker is no longer the controller: %s: %s", event.name, error)
            if event.answer is not None:
                event.answer.refuse(ErrorCode.NOT_CONTROLLER)
            if isinstance(error, CheckFailed):
                self._put("another controller", self._stand, needs_controller=False)
            return
        self._log_failure(event, error)
        if was_active:
            self._put("resignation", lambda: self._leave(version), needs_controller=False)
        elif not self._waits_for_reelection:
            self._stand_later()

    def _log_failure(self, event: Event, error: Exception) -> None:
        # Without this check, every attempt to be elected, about one per second, would log a line.
        if self._failure != (failure := repr(error)):
            self._failure = failure
            exc_info = None if isinstance(error, KafkaWireError) else error
            _log.error("a controller event failed: %s: %s", event.name, error, exc_info=exc_info)

    # Election.

    def _stand(self) -> Steps[None]:
        """Become the controller if there is none."""
        yield from self._look()
        if not self._is_registered:
            # If this fails, it is retried after a pause, even if another broker has become controller by then.
            yield from self._register()
            self._is_registered = True
        if self._waits_for_reelection or self._incumbent is not None or self._is_active:
            return
        settings = self._settings
        session_id = self._registry.session_id
        elected = yield from elect(settings.broker_id, session_id, self._now_ms(), settings.acl)
        if elected is None:
            yield from self._look()
            if self._incumbent is None and not self._waits_for_reelection:
                self._stand_later()  # the other controller is already gone
            return
        self.context.epoch, self.context.epoch_version = elected
        self._incumbent = Incumbent(settings.broker_id, session_id)
        self._is_active = True
        _log.info("broker %d is the controller in epoch %d", settings.broker_id, elected.epoch)
        yield from self._take_over()
        self._failure = None

    def _look(self) -> Steps[None]:
        """Check who the controller is, and resign if it is no longer this broker."""
        self._incumbent = yield from incumbent(self._watched)
        own = Incumbent(self._settings.broker_id, self._registry.session_id)
        if self._is_active and self._incumbent != own:
            self._resign()
        elif self._incumbent == own and not self._is_active:
            # An election or event has failed halfway.
            yield from self._leave_unfinished(own)

    def _leave_unfinished(self, own: Incumbent) -> Steps[None]:
        # If another broker is elected after this read, the epoch changes, and that broker's registration is not
        # deleted.
        _, version = yield from last_epoch(self._settings.acl)
        self._incumbent = yield from incumbent(self._watched)
        if self._incumbent == own:
            yield from self._leave(version)
            self._incumbent = None

    def _resign(self) -> None:
        """Forget everything that a controller knows."""
        self._is_active = False
        self.context.reset()
        cancel, self._cancel_rebalance = self._cancel_rebalance, None
        if cancel is not None:
            cancel()
        self._requests.close()

    def _give_up(self) -> Steps[None]:
        """Resign, and let another broker be elected."""
        version = self.context.epoch_version
        self._resign()
        yield from self._leave(version)

    def _leave(self, epoch_version: int) -> Steps[None]:
        """Delete the controller registration after a resignation."""
        if not self._waits_for_reelection:
            self._stand_later()
        check = self.context.check._replace(version=epoch_version)
        try:
            yield from delete_each(check, (CONTROLLER.path(),))
        except CheckFailed as error:
            _log.info("another controller has already been elected: %s", error)

    def _stand_later(self) -> None:
        def stand() -> None:
            self._waits_for_reelection = False
            self._put("no controller", self._stand, needs_controller=False)

        self._cancel_reelection = self._later(REELECTION_DELAY_MS, stand)
        self._waits_for_reelection = self._cancel_reelection is not None

    def _take_over(self) -> Steps[None]:
        """Read the cluster, inform all brokers, and complete what an earlier controller started."""
        context = self.context
        yield from self._enable_features()
        yield from self._drop_announcements()
        stored = yield from self._read_cluster()
        marked = (yield from self._reader.deletions()) or ()
        offline = {
            partition.topic
            for partition, broker_id in context.replicas_of(context.partitions())
            if not context.is_online(broker_id, partition)
        }
        yield from self._deletions.start(marked, offline | {partition.topic for partition in context.reassigned})
        yield from replace_restarted(context, self._store, stored)
        # Brokers need the list of brokers before they are told whom to follow.
        self._brokers.tell()
        yield from self._replica_states.start()
        yield from self._partition_states.start()
        yield from self._reassignments.start()
        yield from self._deletions.proceed()
        yield from self._leader_changes.take_order()
        if self._settings.rebalances_leaders:
            self._cancel_rebalance = self._later(FIRST_REBALANCE_DELAY_MS, self._rebalance_due)

    def _read_cluster(self) -> Steps[dict[TopicPartition, StoredLeadership]]:
        """Fill the context; return the leadership of all partitions as stored in the registry."""
        context = self.context
        context.brokers.update((yield from self._reader.brokers({})))
        yield from self._topics.load((yield from self._reader.topic_names()))
        read = yield from self._store.read_stored(list(context.partitions()))
        stored = {partition: each for partition, each in read.items() if isinstance(each, StoredLeadership)}
        context.leaderships.update((partition, each.leadership) for partition, each in stored.items())
        for broker in context.brokers.values():
            self._requests.connect(broker)
        return stored

    def _enable_features(self) -> Steps[None]:
        """Create the node that holds the cluster's features, or bring it up to date."""
        try:
            for _ in range(ATTEMPTS_MAX):
                if (yield from self._are_features_current()):
                    return
        except DamagedZnode as error:
            _log.error("the cluster's features cannot be read: %s", error)
        except RegistryError as error:
            raise_if_of_all(error)
            _log.error("the cluster's features were not updated: %s", error)

    def _are_features_current(self) -> Steps[bool]:
        """Bring the features node up to date if needed; return False if another program wrote it in the meantime."""
        path = FEATURE.path()
        data = yield from read(path)
        if data is None:
            return (yield from create_with_parents(path, FEATURE.encode(FinalizedFeatures({})), self._settings.acl))
        stored = FEATURE.decode(data.data, path)
        current = FinalizedFeatures(stored.features if stored.status else {})
        if stored == current:
            return True
        try:
            yield from set_data(path, FEATURE.encode(current), data.stat.version)
        except RegistryError as error:
            if error.code is not RegistryCode.BAD_VERSION:
                raise
            return False
        return True

    def _drop_announcements(self) -> Steps[None]:
        """Delete announcements meant for an earlier controller, since this one has just read everything."""
        for parent in (LOG_DIR_EVENTS.path(), ISR_CHANGES.path()):
            names = (yield from self._lookout.names(parent)) or ()
            yield from delete_each(self.context.check, [child_path(parent, name) for name in names])

    def _take_reassignments(self) -> Steps[None]:
        yield from self._reassignments.take_orders()

    def _rebalance_due(self) -> None:
        def steps() -> Steps[None]:
            yield from self._leader_changes.rebalance()
            interval_ms = self._settings.imbalance_check_interval_ms
            self._cancel_rebalance = self._later(interval_ms, self._rebalance_due)

        self._put("leader imbalance", steps)
