"""The controller's requests to brokers: LeaderAndIsr, UpdateMetadata, StopReplica.

A `RequestBatch` collects the state changes that each broker must be told about; sending it creates at most one request
of each kind per broker. `BrokerRequests` has a queue for each broker: one request is in flight, and the others wait in
order. A failed request is resent until it is answered or the broker is gone.

Source: `ControllerBrokerRequestBatch`, `RequestSendThread` in Apache Kafka.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Collection, Iterable
from typing import Final, NamedTuple, Protocol

from kafkawire.reference_broker.cluster.controller.context import Context, Leadership
from kafkawire.reference_broker.cluster.controller.live_brokers import LiveBroker
from kafkawire.sdk.protocol.messages.leader_and_isr import LeaderAndIsrRequest
from kafkawire.sdk.protocol.messages.stop_replica import StopReplicaRequest
from kafkawire.sdk.protocol.messages.update_metadata import UpdateMetadataRequest
from kafkawire.sdk.protocol.schema import Message
from kafkawire.sdk.protocol.tables.enums import LEADER_DURING_DELETION
from kafkawire.sdk.protocol.uuids import ZERO_UUID
from kafkawire.sdk.routing.partitions import TopicPartition

__all__ = [
    "CURRENT_VERSIONS",
    "RETRY_BACKOFF_MS",
    "WAITING_MAX",
    "WAITING_PARTITIONS_MAX",
    "WAITING_STATES_MAX",
    "BrokerRequests",
    "Channels",
    "ControlRequest",
    "RequestBatch",
    "RequestKind",
    "RequestVersions",
    "Timer",
]

_log = logging.getLogger("kafkawire.broker")

#: Pause before a request is resent, as in Apache Kafka.
RETRY_BACKOFF_MS: Final = 100

#: Maximum number of requests waiting for one broker. Without this limit, a registered broker that never answers would
#: take up unbounded memory. At the limit, the controller resigns, and its successor sends the whole state.
WAITING_MAX: Final = 10_000

#: Maximum number of partitions in the requests waiting for one broker, a few hundred bytes each: the number of
#: partitions in the cluster times the first constant, but at least the second. During a failover, each partition is
#: named about three times. A single request is always accepted, whatever its size.
WAITING_STATES_MAX: Final = 10
WAITING_PARTITIONS_MAX: Final = 1_000_000

#: The first version of StopReplica that groups partitions by topic, and the first with a separate deletion flag for
#: each partition.
_STOP_REPLICA_BY_TOPIC: Final = 1
_STOP_REPLICA_BY_PARTITION: Final = 3

#: Like `Later` in the broker's timers, but returns None if the timer could not be set.
Timer = Callable[[int, Callable[[], None]], Callable[[], None] | None]


class RequestVersions(NamedTuple):
    """The versions of the requests; the defaults suit an `inter.broker.protocol.version` of 3.4 or later.

    Attributes:
        leader_and_isr: version 2 or later, with topic states.
        update_metadata: version 5 or later, with topic states.
        stop_replica: any version.
    """

    leader_and_isr: int = 7
    update_metadata: int = 8
    stop_replica: int = 4


#: The versions that an Apache Kafka 3.9 controller uses for brokers running the same release.
CURRENT_VERSIONS: Final = RequestVersions()


class RequestKind(NamedTuple):
    """The purpose of a request, to the extent that the controller needs it to interpret the response.

    Attributes:
        deleted: the partitions that a StopReplica deletes.
    """

    deleted: tuple[TopicPartition, ...] = ()


class ControlRequest(NamedTuple):
    """A request from the controller.

    Attributes:
        message: the request's content.
        version: the version of the message.
        kind: tells how to interpret the response.
    """

    message: Message
    version: int
    kind: RequestKind = RequestKind()


class Channels(Protocol):
    """The controller's connections to brokers. No method invokes a callback before it returns."""

    def connect(self, broker: LiveBroker) -> None:
        """Record the endpoints of a broker to which requests will be sent."""
        ...

    def send(self, broker_id: int, request: ControlRequest, done: Callable[[Message | Exception], None]) -> None:
        """Send a request.

        Args:
            broker_id: a connected broker.
            request: the request; the next one is sent only after the response.
            done: called once, with the response or with an error if there is none.
        """
        ...

    def disconnect(self, broker_id: int) -> None:
        """Close the connection to a broker; a request in flight need not be answered."""
        ...


class BrokerRequests:
    """The queues of requests to all brokers.

    Args:
        controller_id: the id of the controller's broker.
        listener: the name of the inter-broker listener.
        context: supplies the content of the requests.
        channels: sends the requests.
        later: the timer for resending requests.
        answered: called with the broker, the request and the response.
        overflowed: called when too many requests are waiting for a broker.
        versions: the versions of the requests.
    """

    def __init__(
        self,
        controller_id: int,
        listener: str,
        context: Context,
        channels: Channels,
        later: Timer,
        answered: Callable[[int, ControlRequest, Message], None],
        overflowed: Callable[[int], None],
        versions: RequestVersions = CURRENT_VERSIONS,
    ) -> None:
        self._controller_id = controller_id
        self._listener = listener
        self._context = context
        self._channels = channels
        self._later = later
        self._answered = answered
        self._overflowed = overflowed
        self._versions = versions
        self._queues: dict[int, _Queue] = {}

    def connect(self, broker: LiveBroker) -> None:
        """Start sending requests to a broker, and close any connection for an earlier registration."""
        self.disconnect(broker.broker_id)
        self._channels.connect(broker)
        self._queues[broker.broker_id] = _Queue(broker.broker_id, self._channels, self._later, self._answered)

    def disconnect(self, broker_id: int) -> None:
        """Drop the requests waiting for a broker."""
        queue = self._queues.pop(broker_id, None)
        if queue is not None:
            queue.close()
            self._channels.disconnect(broker_id)

    def close(self) -> None:
        """Drop all requests."""
        for broker_id in list(self._queues):
            self.disconnect(broker_id)

    def batch(self) -> RequestBatch:
        """Return an empty batch for collecting requests."""
        return RequestBatch(self._context, self._controller_id, self._listener, self._versions, self._put)

    @property
    def _partitions_max(self) -> int:
        return max(WAITING_PARTITIONS_MAX, WAITING_STATES_MAX * len(self._context.leaderships))

    def _put(self, broker_id: int, request: ControlRequest) -> None:
        queue = self._queues.get(broker_id)
        if queue is None:
            _log.warning("dropping a request for broker %d, since there is no connection", broker_id)
        elif not queue.has_room(partitions := _partitions_in(request.message), self._partitions_max):
            text = "broker %d is not responding, and %d requests with %d partitions are waiting for it"
            _log.error(text, broker_id, queue.waiting, queue.partitions)
            self._overflowed(broker_id)
        else:
            queue.put(request, partitions)


class _Queue:
    """The requests to one broker; the first one is in flight."""

    def __init__(
        self,
        broker_id: int,
        channels: Channels,
        later: Timer,
        answered: Callable[[int, ControlRequest, Message], None],
    ) -> None:
        self._broker_id = broker_id
        self._channels = channels
        self._later = later
        self._answered = answered
        #: Each request, with its number of partitions.
        self._requests: deque[tuple[ControlRequest, int]] = deque()
        self._cancel_retry: Callable[[], None] | None = None
        self._attempts = 0
        #: Why the first request has no response yet; each reason is logged once, not on every attempt.
        self._trouble: str | None = None
        self._is_under_way = False
        self._is_closed = False
        #: The number of partitions in unanswered requests.
        self.partitions = 0

    @property
    def waiting(self) -> int:
        """The number of unanswered requests."""
        return len(self._requests)

    def has_room(self, partitions: int, partitions_max: int) -> bool:
        """Return whether a request with this many partitions may be queued, given the limit for the queue."""
        if not self._requests:
            return True
        return len(self._requests) < WAITING_MAX and self.partitions + partitions <= partitions_max

    def put(self, request: ControlRequest, partitions: int) -> None:
        """Queue a request that names this many partitions; requests are sent in the order in which they were queued."""
        self._requests.append((request, partitions))
        self.partitions += partitions
        # If no timer could be set to resend a request, it is resent when the next one is queued.
        if not self._is_under_way and self._cancel_retry is None:
            self._send()

    def close(self) -> None:
        """Stop sending, and ignore the response to the request in flight."""
        self._is_closed = True
        if self._cancel_retry is not None:
            self._cancel_retry()

    def _send(self) -> None:
        self._cancel_retry = None
        self._is_under_way = True
        self._attempts += 1
        attempt = self._attempts

        def done(response: Message | Exception) -> None:
            # Without this check, a second response to the same attempt would be mistaken for the next request's.
            if not self._is_closed and self._is_under_way and attempt == self._attempts:
                self._done(response)

        self._channels.send(self._broker_id, self._requests[0][0], done)

    def _done(self, response: Message | Exception) -> None:
        self._is_under_way = False
        if isinstance(response, Exception):
            if self._trouble != (trouble := str(response)):
                self._trouble = trouble
                _log.warning("repeating a request to broker %d until it is answered: %s", self._broker_id, trouble)
            self._cancel_retry = self._later(RETRY_BACKOFF_MS, self._send)
            return
        self._trouble = None
        request, partitions = self._requests.popleft()
        self.partitions -= partitions
        if self._requests:
            self._send()
        self._answered(self._broker_id, request, response)


class RequestBatch:
    """The requests resulting from one round of state changes.

    Args:
        context: supplies the content when requests are added, and the list of live brokers when they are sent.
        controller_id: the id of the controller's broker.
        listener: the name of the inter-broker listener.
        versions: the versions of the requests.
        put: queues a request.
    """

    def __init__(
        self,
        context: Context,
        controller_id: int,
        listener: str,
        versions: RequestVersions,
        put: Callable[[int, ControlRequest], None],
    ) -> None:
        self._context = context
        self._controller_id = controller_id
        self._listener = listener
        self._versions = versions
        self._put = put
        self._states: dict[int, dict[TopicPartition, LeaderAndIsrRequest.LeaderAndIsrPartitionState]] = {}
        self._recipients: dict[int, None] = {}
        self._metadata: dict[TopicPartition, None] = {}
        self._stops: dict[int, dict[TopicPartition, StopReplicaRequest.StopReplicaPartitionState]] = {}

    def add_leader_and_isr(self, broker_ids: Iterable[int], partition: TopicPartition, *, is_new: bool) -> None:
        """Send brokers the leader and ISR of a partition, and send its metadata to all brokers.

        Args:
            broker_ids: the brokers that host the partition.
            partition: a partition whose leadership is in the context.
            is_new: whether the brokers may create the replica even if a log directory has failed.
        """
        leadership = self._context.leaderships[partition]
        assignment = self._context.assignment(partition)
        for broker_id in broker_ids:
            if broker_id < 0:
                continue
            states = self._states.setdefault(broker_id, {})
            known = states.get(partition)
            states[partition] = LeaderAndIsrRequest.LeaderAndIsrPartitionState(
                topic_name=partition.topic,
                partition_index=partition.partition,
                controller_epoch=leadership.controller_epoch,
                leader=leadership.leader,
                leader_epoch=leadership.leader_epoch,
                isr=leadership.isr,
                partition_epoch=leadership.partition_epoch,
                replicas=assignment.replicas,
                adding_replicas=assignment.adding,
                removing_replicas=assignment.removing,
                is_new=is_new or (known is not None and known.is_new),
                leader_recovery_state=leadership.recovery_state,
            )
        self.add_metadata(self._context.brokers, (partition,))

    def add_metadata(self, broker_ids: Iterable[int], partitions: Iterable[TopicPartition] = ()) -> None:
        """Send brokers the list of live brokers and the metadata of partitions.

        Args:
            broker_ids: the brokers to tell; all recipients of the batch get the same content.
            partitions: the partitions; those whose leadership is not in the context are left out.
        """
        self._recipients.update((broker_id, None) for broker_id in broker_ids if broker_id >= 0)
        self._metadata.update((each, None) for each in partitions if each in self._context.leaderships)

    def add_stop_replica(self, broker_ids: Iterable[int], partition: TopicPartition, *, is_deleted: bool) -> None:
        """Tell brokers to stop their replicas of a partition.

        Args:
            broker_ids: the brokers to tell.
            partition: the partition.
            is_deleted: whether the brokers are to delete the replica.
        """
        for broker_id in broker_ids:
            if broker_id < 0:
                continue
            stops = self._stops.setdefault(broker_id, {})
            known = stops.get(partition)
            stops[partition] = StopReplicaRequest.StopReplicaPartitionState(
                partition_index=partition.partition,
                leader_epoch=self._context.epoch_to_stop(partition),
                delete_partition=is_deleted or (known is not None and known.delete_partition),
            )

    def send(self) -> None:
        """Queue the requests to live brokers: all LeaderAndIsr requests, then UpdateMetadata, then StopReplica."""
        for broker_id, states in self._states.items():
            if broker_id in self._context.brokers:
                self._put(broker_id, self._leader_and_isr(broker_id, states))
        recipients = [broker_id for broker_id in self._recipients if broker_id in self._context.brokers]
        if recipients:
            # All brokers get the same content, which is built only once.
            topics, live = self._topic_states(), [_described(broker) for broker in self._context.brokers.values()]
            for broker_id in recipients:
                self._put(broker_id, self._update_metadata(broker_id, topics, live))
        for broker_id, stops in self._stops.items():
            if broker_id in self._context.brokers:
                for request in self._stop_replica(broker_id, stops):
                    self._put(broker_id, request)
        self._states, self._recipients, self._metadata, self._stops = {}, {}, {}, {}

    def _leader_and_isr(
        self, broker_id: int, states: dict[TopicPartition, LeaderAndIsrRequest.LeaderAndIsrPartitionState]
    ) -> ControlRequest:
        message = LeaderAndIsrRequest(
            controller_id=self._controller_id,
            controller_epoch=self._context.epoch,
            broker_epoch=self._context.brokers[broker_id].epoch,
            topic_states=[
                LeaderAndIsrRequest.LeaderAndIsrTopicState(
                    topic, self._context.topic_ids.get(topic, ZERO_UUID), [states[each] for each in partitions]
                )
                for topic, partitions in _by_topic(states).items()
            ],
            live_leaders=self._live_leaders({state.leader for state in states.values()}),
        )
        return ControlRequest(message, self._versions.leader_and_isr)

    def _live_leaders(self, leaders: Collection[int]) -> list[LeaderAndIsrRequest.LeaderAndIsrLiveLeader]:
        live = []
        for broker_id, broker in self._context.brokers.items():
            endpoint = broker.endpoint(self._listener)
            if broker_id in leaders and endpoint is not None:
                live.append(LeaderAndIsrRequest.LeaderAndIsrLiveLeader(broker_id, endpoint.host, endpoint.port))
            elif broker_id in leaders:
                _log.error("broker %d has no listener %s, so no broker can follow it", broker_id, self._listener)
        return live

    def _topic_states(self) -> list[UpdateMetadataRequest.UpdateMetadataTopicState]:
        leaderships = self._context.leaderships
        return [
            UpdateMetadataRequest.UpdateMetadataTopicState(
                topic,
                self._context.topic_ids.get(topic, ZERO_UUID),
                [self._partition_state(each, leaderships[each]) for each in partitions if each in leaderships],
            )
            for topic, partitions in _by_topic(self._metadata).items()
        ]

    def _partition_state(
        self, partition: TopicPartition, leadership: Leadership
    ) -> UpdateMetadataRequest.UpdateMetadataPartitionState:
        is_deleted = partition.topic in self._context.deletions
        replicas = self._context.assignment(partition).replicas
        return UpdateMetadataRequest.UpdateMetadataPartitionState(
            topic_name=partition.topic,
            partition_index=partition.partition,
            controller_epoch=leadership.controller_epoch,
            leader=LEADER_DURING_DELETION if is_deleted else leadership.leader,
            leader_epoch=0 if is_deleted else leadership.leader_epoch,
            isr=leadership.isr,
            zk_version=0 if is_deleted else leadership.partition_epoch,
            replicas=replicas,
            offline_replicas=[each for each in replicas if not self._context.is_online(each, partition)],
        )

    def _update_metadata(
        self,
        broker_id: int,
        topics: list[UpdateMetadataRequest.UpdateMetadataTopicState],
        live: list[UpdateMetadataRequest.UpdateMetadataBroker],
    ) -> ControlRequest:
        message = UpdateMetadataRequest(
            controller_id=self._controller_id,
            controller_epoch=self._context.epoch,
            broker_epoch=self._context.brokers[broker_id].epoch,
            topic_states=topics,
            live_brokers=live,
        )
        return ControlRequest(message, self._versions.update_metadata)

    def _stop_replica(
        self, broker_id: int, stops: dict[TopicPartition, StopReplicaRequest.StopReplicaPartitionState]
    ) -> list[ControlRequest]:
        if self._versions.stop_replica >= _STOP_REPLICA_BY_PARTITION:
            message = self._stop_message(broker_id)
            message.topic_states = [
                StopReplicaRequest.StopReplicaTopicState(topic, [stops[each] for each in partitions])
                for topic, partitions in _by_topic(stops).items()
            ]
            deleted = tuple(partition for partition, stop in stops.items() if stop.delete_partition)
            return [ControlRequest(message, self._versions.stop_replica, RequestKind(deleted))]
        requests = []
        for is_deleted in (True, False):
            partitions = [each for each, stop in stops.items() if stop.delete_partition is is_deleted]
            if partitions:
                message = self._stop_message(broker_id)
                message.delete_partitions = is_deleted
                self._fill_old_stop(message, partitions)
                kind = RequestKind(tuple(partitions) if is_deleted else ())
                requests.append(ControlRequest(message, self._versions.stop_replica, kind))
        return requests

    def _fill_old_stop(self, message: StopReplicaRequest, partitions: list[TopicPartition]) -> None:
        if self._versions.stop_replica >= _STOP_REPLICA_BY_TOPIC:
            message.topics = [
                StopReplicaRequest.StopReplicaTopicV1(topic, [each.partition for each in grouped])
                for topic, grouped in _by_topic(partitions).items()
            ]
        else:
            message.ungrouped_partitions = [StopReplicaRequest.StopReplicaPartitionV0(*each) for each in partitions]

    def _stop_message(self, broker_id: int) -> StopReplicaRequest:
        return StopReplicaRequest(
            controller_id=self._controller_id,
            controller_epoch=self._context.epoch,
            broker_epoch=self._context.brokers[broker_id].epoch,
        )


def _partitions_in(message: Message) -> int:
    """Return the number of partitions that a request names."""
    if isinstance(message, LeaderAndIsrRequest | UpdateMetadataRequest):
        return sum(len(topic.partition_states) for topic in message.topic_states)
    if isinstance(message, StopReplicaRequest):
        by_topic = sum(len(topic.partition_indexes) for topic in message.topics)
        by_state = sum(len(topic.partition_states) for topic in message.topic_states)
        return by_state + by_topic + len(message.ungrouped_partitions)
    return 0


def _by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[TopicPartition]]:
    grouped: dict[str, list[TopicPartition]] = {}
    for partition in partitions:
        grouped.setdefault(partition.topic, []).append(partition)
    return grouped


def _described(broker: LiveBroker) -> UpdateMetadataRequest.UpdateMetadataBroker:
    return UpdateMetadataRequest.UpdateMetadataBroker(
        id=broker.broker_id,
        endpoints=[
            UpdateMetadataRequest.UpdateMetadataEndpoint(each.port, each.host, each.listener, each.security_protocol)
            for each in broker.endpoints
        ],
        rack=broker.rack,
    )
