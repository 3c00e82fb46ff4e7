"""Requests from the cluster's controller to this broker: LeaderAndIsr, StopReplica and UpdateMetadata.

    controller ──▶ ControlRequests ──roles──▶ Replicas, Fetchers
                        │ topics, brokers
                        ▼
                   ClusterMetadata

There is a single queue; requests are carried out one at a time and in pieces, so that clients are served in between.
Requests from an earlier controller, or for an earlier registration of this broker, are refused.

Source: `KafkaApis.handleLeaderAndIsrRequest`, `handleStopReplicaRequest`, `handleUpdateMetadataRequest` and
`ReplicaManager` in Apache Kafka 3.9.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Collection, Generator, Mapping
from functools import partial
from typing import Final, Protocol, TypeVar

from kafkawire.reference_broker.cluster.controller.broker_requests import ControlRequest
from kafkawire.reference_broker.config.topic_configs import LogConfig
from kafkawire.reference_broker.metadata.cluster_metadata import ClusterMetadata
from kafkawire.reference_broker.replicas.replicas import Replicas
from kafkawire.reference_broker.replicas.role_changes import (
    KnownReplica,
    RoleChanges,
    Stops,
    decide_roles,
    decide_stops,
    states_of,
)
from kafkawire.reference_broker.replicas.roles import Fetchers, Role, Term
from kafkawire.reference_broker.storage.directory.log_directory import LogPlace
from kafkawire.reference_broker.storage.log.partition_log import PartitionLog
from kafkawire.reference_broker.work.pieces import Pieces, Work
from kafkawire.reference_broker.work.timers import Timers
from kafkawire.sdk.errors import BrokerError, RemoteProtocolError
from kafkawire.sdk.protocol.messages.leader_and_isr import LeaderAndIsrRequest, LeaderAndIsrResponse
from kafkawire.sdk.protocol.messages.stop_replica import StopReplicaRequest, StopReplicaResponse
from kafkawire.sdk.protocol.messages.update_metadata import UpdateMetadataRequest, UpdateMetadataResponse
from kafkawire.sdk.protocol.schema import Message
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.protocol.uuids import ZERO_UUID
from kafkawire.sdk.storage.partitions import Partition

__all__ = ["QUEUED_MAX", "ControlRequests", "Done", "PartitionLogs", "TopicConfigs"]

_log = logging.getLogger("kafkawire.broker")

R = TypeVar("R")

#: The maximum number of waiting requests. A controller sends one at a time and resends it after a timeout, and
#: controllers seldom change, so this many wait only if the disk or the registry hangs.
QUEUED_MAX: Final = 100

#: The number of partitions in a piece: changing their roles takes a few milliseconds.
_AT_A_TIME: Final = 500

#: The broker epoch for request versions that do not contain one; it is never stale.
_UNKNOWN_BROKER_EPOCH: Final = -1

#: The broker epoch of a broker that has not registered yet.
_NOT_REGISTERED: Final = -1

#: Called once with the response, or with an error if there is none and the controller should resend the request.
Done = Callable[[Message | Exception], None]

_Request = LeaderAndIsrRequest | StopReplicaRequest | UpdateMetadataRequest

#: Called once with the partitions that failed and their errors.
_Failed = Callable[[Mapping[Partition, BrokerError]], None]

#: Begins an operation that takes a while, and calls back when the operation has ended.
_Wait = Callable[[Callable[[], None]], None]

#: Work that may have to wait: it yields None where other work may take a turn, or an operation to wait for.
_Steps = Generator[_Wait | None, None, R]


class PartitionLogs(Protocol):
    """This broker's logs (see `LogDirectory`)."""

    def log(self, topic: str, partition: int) -> PartitionLog | None:
        """Return the log of a partition, or None if there is none."""
        ...

    def config_of(self, configs: Mapping[str, str]) -> LogConfig:
        """Return the log configuration of a topic that has these overrides."""
        ...

    def create(self, places: Collection[LogPlace], done: _Failed) -> None:
        """Create logs durably, or open existing ones; `done` is called once with the partitions that failed."""
        ...

    def identify(self, topic_ids: Mapping[Partition, bytes], done: _Failed) -> None:
        """Store newly assigned topic ids durably; `done` is called once with the partitions that failed."""
        ...

    def delete(self, partitions: Collection[Partition], end: BrokerError, done: _Failed) -> None:
        """Delete logs and folders.

        Args:
            partitions: topics and numbers; some may have no log, or not even a folder.
            end: the error for operations waiting for the logs.
            done: called once, when the deletion is durable, with the partitions that failed.
        """
        ...


class TopicConfigs(Protocol):
    """The configurations of topics, as stored in the cluster's registry."""

    def read(self, topics: Collection[str], done: Callable[[], None]) -> None:
        """Read the configurations of topics, then call back once; those that cannot be read stay unchanged."""
        ...

    def of(self, topic: str) -> Mapping[str, str]:
        """Return those of a topic's configurations that have been read so far, keyed by Kafka's names."""
        ...


class ControlRequests:
    """The queue of requests from controllers.

    Requests wait until this broker has registered, as in Apache Kafka. Before, it could not tell that a request was
    meant for its former process, which may have led partitions whose records it no longer has.

    Args:
        broker_id: the id of this broker.
        broker_epoch: returns the epoch of this broker's registration; -1 if it has not registered yet.
        replicas: the replicas, which get their roles from here.
        logs: the logs of the replicas.
        configs: the configurations of topics.
        metadata: the metadata image used to answer clients.
        fetchers: fetches records for the replicas that follow.
        timers: the broker's timers.
        now_ms: returns the current time.
        topic_ids: the topic ids of the logs opened at startup.

    Attributes:
        controller_epoch: the highest epoch of any controller that has sent a request.
    """

    def __init__(
        self,
        broker_id: int,
        broker_epoch: Callable[[], int],
        replicas: Replicas,
        logs: PartitionLogs,
        configs: TopicConfigs,
        metadata: ClusterMetadata,
        fetchers: Fetchers,
        timers: Timers,
        now_ms: Callable[[], int],
        topic_ids: Mapping[Partition, bytes],
    ) -> None:
        self.controller_epoch = 0
        self._broker_id = broker_id
        self._broker_epoch = broker_epoch
        self._replicas = replicas
        self._logs = logs
        self._configs = configs
        self._metadata = metadata
        self._fetchers = fetchers
        self._timers = timers
        self._now_ms = now_ms
        #: The known topic ids of this broker's logs; each term also has its own.
        self._topic_ids = dict(topic_ids)
        #: Whether the first request is being carried out.
        self._queue: deque[tuple[ControlRequest, Done]] = deque()
        self._steps: _Steps[Message] | None = None

    def take(self, request: ControlRequest, done: Done) -> None:
        """Carry out a request after all earlier ones.

        Args:
            request: LeaderAndIsr, StopReplica or UpdateMetadata, of any version.
            done: see `Done`; may be called before this returns.
        """
        if len(self._queue) >= QUEUED_MAX:
            done(RemoteProtocolError(f"more than {QUEUED_MAX} requests from controllers are waiting"))
            return
        self._queue.append((request, done))
        if len(self._queue) == 1:
            self._begin()

    def registered(self) -> None:
        """Begin with the requests that have waited for the registration of this broker."""
        self._begin()

    def close(self) -> None:
        """Drop all requests without a response: the broker is stopping, and its logs are closed next."""
        self._queue.clear()
        if self._steps is not None:
            self._steps.close()
            self._steps = None

    # The queue.

    def _begin(self, now_ms: int = 0) -> None:
        if self._queue and self._steps is None and self._broker_epoch() != _NOT_REGISTERED:
            self._steps = self._carry_out(self._queue[0][0])
            self._go_on(self._steps)

    def _go_on(self, steps: _Steps[Message], now_ms: int = 0) -> None:
        if steps is not self._steps:
            return  # closed in the meantime
        try:
            wait = next(steps)
            if wait is None:
                self._timers.at(self._now_ms(), partial(self._go_on, steps))
            else:
                wait(partial(self._go_on, steps))
        except StopIteration as end:
            self._end(end.value)
        except Exception:
            _log.exception("a request from the controller failed")
            if steps is self._steps:
                self._end(_refused(self._queue[0][0], ErrorCode.UNKNOWN_SERVER_ERROR))

    def _end(self, response: Message) -> None:
        self._steps = None
        _, done = self._queue.popleft()
        try:
            done(response)
        finally:
            if self._queue:  # in a later turn: a hundred requests without any waiting would recurse too deeply
                self._timers.at(self._now_ms(), self._begin)

    def _carry_out(self, request: ControlRequest) -> _Steps[Message]:
        message = request.message
        if not isinstance(message, _Request):
            raise TypeError(f"{type(message).__name__} is not a request that controllers send")
        refusal = self._refusal(message)
        if refusal is not None:
            return _refused(request, refusal)
        self.controller_epoch = message.controller_epoch
        if isinstance(message, LeaderAndIsrRequest):
            return (yield from self._change_roles(message, request.version))
        if isinstance(message, StopReplicaRequest):
            return (yield from self._stop(message))
        return (yield from self._update(message))

    def _refusal(self, request: _Request) -> ErrorCode | None:
        """Return an error code if this broker must refuse a request because of its controller or its epochs."""
        code, reason = None, ""
        broker_epoch = self._broker_epoch()
        if request.is_k_raft_controller:
            code, reason = ErrorCode.INVALID_REQUEST, "the sender is a KRaft controller"
        elif _UNKNOWN_BROKER_EPOCH != request.broker_epoch < broker_epoch:
            # A higher epoch belongs to a registration that this broker is about to learn of.
            code, reason = (
                ErrorCode.STALE_BROKER_EPOCH,
                f"the request has broker epoch {request.broker_epoch}, but the current epoch is {broker_epoch}",
            )
        elif request.controller_epoch < self.controller_epoch:
            code, reason = (
                ErrorCode.STALE_CONTROLLER_EPOCH,
                f"the controller epoch {request.controller_epoch} has ended",
            )
        if code is not None:
            name, controller_id = type(request).__name__, request.controller_id
            _log.warning("refusing %s from controller %d with %s: %s", name, controller_id, code.name, reason)
        return code

    def _known(self, partition: Partition) -> KnownReplica | None:
        replica = self._replicas.host(*partition)
        if replica is None:
            return None
        term = replica.term
        topic_id = self._topic_ids.get(partition, ZERO_UUID) if term is None else term.topic_id
        partition_epoch = 0 if term is None else term.partition_epoch
        return KnownReplica(replica.role is Role.OFFLINE, replica.leader_epoch, partition_epoch, topic_id)

    # LeaderAndIsr.

    def _change_roles(self, request: LeaderAndIsrRequest, version: int) -> _Steps[Message]:
        brokers = self._metadata.metadata.newest.brokers
        changes = yield from _in_pieces(
            decide_roles(self._broker_id, request, self._known, lambda broker_id: broker_id in brokers)
        )
        yield from self._note_ids(changes)
        yield from self._create(changes)
        yield from _in_pieces(self._apply(changes))
        _tell("LeaderAndIsr", request.controller_id, changes.codes)
        return _leader_and_isr_response(request, version, ErrorCode.NONE, changes.codes)

    def _note_ids(self, changes: RoleChanges) -> _Steps[None]:
        """Store the ids of topics that had none when their logs were created."""
        ids = dict(changes.identified)
        for partition, term in changes.terms():
            known = self._known(partition)
            if known is not None and ZERO_UUID == known.topic_id != term.topic_id:
                ids[partition] = term.topic_id
        if not ids:
            return
        self._topic_ids.update(ids)
        failed = yield from _failures_of(partial(self._logs.identify, ids))
        for partition, error in failed.items():
            changes.answer(partition, error.code)

    def _create(self, changes: RoleChanges) -> _Steps[None]:
        """Create the logs that are missing."""
        new = [(partition, term) for partition, term in changes.terms() if self._logs.log(*partition) is None]
        if not new:
            return
        topics = list(dict.fromkeys(topic for (topic, _), _ in new))
        yield partial(self._configs.read, topics)
        configs = {topic: self._logs.config_of(self._configs.of(topic)) for topic in topics}
        places = [LogPlace(*partition, term.topic_id, configs[partition[0]]) for partition, term in new]
        self._topic_ids.update((partition, term.topic_id) for partition, term in new)
        failed = yield from _failures_of(partial(self._logs.create, places))
        for partition, error in failed.items():
            changes.answer(partition, error.code)
        for topic in topics:  # their configurations may have changed before there was a log to configure
            if self._logs.config_of(self._configs.of(topic)) != configs[topic]:
                self._replicas.configure(topic, self._configs.of(topic))

    def _apply(self, changes: RoleChanges) -> Work[None]:
        """Change the roles; yield after each."""
        if changing := [*changes.leaders, *changes.followers]:
            self._fetchers.forget(changing)
        for partition, term in list(changes.leaders.items()):
            self._change(changes.codes, partition, partial(self._replicas.lead, *partition, term))
            yield
        for partition, term in list(changes.followers.items()):
            self._follow(changes.codes, partition, term)
            yield
        for partition, topic_id in list(changes.identified.items()):
            self._identify(partition, topic_id)
            yield
        for partition in list(changes.leaderless):
            self._replicas.host(*partition)
            yield

    def _follow(self, codes: dict[Partition, ErrorCode], partition: Partition, term: Term) -> None:
        if self._change(codes, partition, partial(self._replicas.follow, *partition, term)):
            self._fetchers.follow(partition, term.leader, term.leader_epoch)

    def _identify(self, partition: Partition, topic_id: bytes) -> None:
        """Continue a term whose topic has been given an id; a leader's ISR may have changed since the term began."""
        replica = self._replicas.get(*partition)
        if replica is None or replica.term is None:
            return
        replica.identify(topic_id)
        if replica.role is Role.FOLLOWER:
            self._fetchers.follow(partition, replica.term.leader, replica.term.leader_epoch)

    def _change(self, codes: dict[Partition, ErrorCode], partition: Partition, change: Callable[[], None]) -> bool:
        """Change a role, and return whether that succeeded. A failed change does not prevent other changes."""
        try:
            change()
        except BrokerError as error:
            codes[partition] = error.code
        except Exception:
            _log.exception("could not change the role of %s-%d", *partition)
            codes[partition] = ErrorCode.UNKNOWN_SERVER_ERROR
        return codes[partition] == ErrorCode.NONE

    # StopReplica.

    def _stop(self, request: StopReplicaRequest) -> _Steps[Message]:
        stops = yield from _in_pieces(decide_stops(request, self._known))
        yield from _in_pieces(self._end_roles(stops))
        if stops.deleted:
            for partition in stops.deleted:
                self._topic_ids.pop(partition, None)
            failed = yield from _failures_of(partial(self._logs.delete, list(stops.deleted), _DELETED))
            stops.codes.update((partition, error.code) for partition, error in failed.items())
        _tell("StopReplica", request.controller_id, stops.codes)
        return _stop_replica_response(ErrorCode.NONE, stops.codes)

    def _end_roles(self, stops: Stops) -> Work[None]:
        """End the roles; yield after each."""
        if stops.stopped:
            self._fetchers.forget(list(stops.stopped))
        for partition in list(stops.stopped):
            if partition in stops.deleted:
                self._replicas.delete(*partition, _DELETED)
            elif self._replicas.get(*partition) is not None:
                self._change(stops.codes, partition, partial(self._replicas.stop, *partition))
            yield

    # UpdateMetadata.

    def _update(self, request: UpdateMetadataRequest) -> _Steps[Message]:
        topics = yield from _in_pieces(self._metadata.new_topics(request))
        if topics:
            yield partial(self._configs.read, topics)
        yield from _in_pieces(self._metadata.apply(request))
        return UpdateMetadataResponse(ErrorCode.NONE)


#: The error for operations waiting for a partition when it is deleted from this broker.
_DELETED: Final = BrokerError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "the partition was deleted from this broker")


def _in_pieces(work: Work[R]) -> _Steps[R]:
    """Yield after each piece of work."""
    pieces = Pieces(_AT_A_TIME)
    while True:
        try:
            next(work)
        except StopIteration as end:
            result: R = end.value
            return result
        if pieces.ends():
            yield None


def _failures_of(begin: Callable[[_Failed], None]) -> _Steps[Mapping[Partition, BrokerError]]:
    """Wait for work on several partitions, and return the partitions that failed with their errors."""
    failed: dict[Partition, BrokerError] = {}

    def wait(go_on: Callable[[], None]) -> None:
        def ended(errors: Mapping[Partition, BrokerError]) -> None:
            failed.update(errors)
            go_on()

        begin(ended)

    yield wait
    return failed


def _tell(name: str, controller_id: int, codes: Mapping[Partition, ErrorCode]) -> None:
    """Log a single line about the partitions that were not changed.

    A new controller resends the states of all partitions. Those already known are answered as stale, and not logged.
    """
    expected = (ErrorCode.NONE, ErrorCode.STALE_CONTROLLER_EPOCH)
    refused = [(partition, code) for partition, code in codes.items() if code not in expected]
    if refused:
        (topic, number), code = refused[0]
        text = "%s from controller %d: refusing %d of %d partitions; the first is %s-%d, with %s"
        _log.warning(text, name, controller_id, len(refused), len(codes), topic, number, code.name)


# Responses.


def _refused(request: ControlRequest, code: ErrorCode) -> Message:
    """Return the response to a request that is refused as a whole; to a LeaderAndIsr, it names all partitions."""
    message = request.message
    if isinstance(message, LeaderAndIsrRequest):
        codes = {(topic, state.partition_index): code for topic, _, state in states_of(message)}
        return _leader_and_isr_response(message, request.version, code, codes)
    return _stop_replica_response(code, {}) if isinstance(message, StopReplicaRequest) else UpdateMetadataResponse(code)


def _leader_and_isr_response(
    request: LeaderAndIsrRequest, version: int, code: ErrorCode, codes: Mapping[Partition, ErrorCode]
) -> LeaderAndIsrResponse:
    """Return the response to a LeaderAndIsr, with the partitions in the order of the request.

    Args:
        request: see above.
        version: its version; early versions contain topic names, later ones topic ids.
        code: the outcome of the whole request.
        codes: the outcome of each partition.
    """
    Entry = LeaderAndIsrResponse.LeaderAndIsrPartitionError
    if version < _BY_ID_SINCE:
        entries = [Entry(topic, number, each) for (topic, number), each in codes.items()]
        return LeaderAndIsrResponse(code, partition_errors=entries)
    ids = {topic: topic_id for topic, topic_id, _ in states_of(request)}
    by_id: dict[bytes, list[LeaderAndIsrResponse.LeaderAndIsrPartitionError]] = {}
    for (topic, number), each in codes.items():
        by_id.setdefault(ids[topic], []).append(Entry("", number, each))
    topics = [LeaderAndIsrResponse.LeaderAndIsrTopicError(*entry) for entry in by_id.items()]
    return LeaderAndIsrResponse(code, topics=topics)


def _stop_replica_response(code: ErrorCode, codes: Mapping[Partition, ErrorCode]) -> StopReplicaResponse:
    Entry = StopReplicaResponse.StopReplicaPartitionError
    return StopReplicaResponse(code, [Entry(topic, number, each) for (topic, number), each in codes.items()])


#: The first version whose response has topic ids.
_BY_ID_SINCE: Final = next(each.versions.first for each in LeaderAndIsrResponse.FIELDS if each.name == "topics")
