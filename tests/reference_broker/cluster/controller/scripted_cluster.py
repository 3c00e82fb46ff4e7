"""A cluster for testing the controller: an in-memory registry, scripted brokers, and manually fired timers.

Nothing runs on its own: `settle` performs the pending work until none is left. A registry can be stopped after any
operation, as if its program had died at that point.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import TypeVar

from kafkawire.reference_broker.cluster.controller.broker_requests import ControlRequest
from kafkawire.reference_broker.cluster.controller.controller import Controller, ControllerSettings
from kafkawire.reference_broker.cluster.controller.live_brokers import LiveBroker
from kafkawire.reference_broker.cluster.embedded_registry import EmbeddedRegistry
from kafkawire.reference_broker.cluster.znode_tree import StoredNode
from kafkawire.sdk.protocol.codec import codec
from kafkawire.sdk.protocol.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse
from kafkawire.sdk.protocol.messages.leader_and_isr import LeaderAndIsrRequest, LeaderAndIsrResponse
from kafkawire.sdk.protocol.messages.stop_replica import StopReplicaRequest, StopReplicaResponse
from kafkawire.sdk.protocol.messages.update_metadata import UpdateMetadataRequest, UpdateMetadataResponse
from kafkawire.sdk.protocol.schema import Message
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.protocol.tables.znodes import (
    BROKER,
    PARTITION_REASSIGNMENTS,
    PARTITION_STATE,
    TOPIC,
    TOPIC_DELETION,
    ZNODES,
    BrokerRegistration,
    PartitionReassignments,
    PartitionReplicas,
    PartitionState,
    TopicAssignment,
)
from kafkawire.sdk.protocol.uuids import ZERO_UUID
from kafkawire.sdk.registry.paths import parent_of
from kafkawire.sdk.registry.registry import (
    Check,
    Children,
    Committed,
    Create,
    Created,
    CreateMode,
    Data,
    Delete,
    Deleted,
    EventKind,
    Exists,
    GetChildren,
    GetData,
    Operation,
    Outcome,
    Registry,
    RegistryCode,
    RegistryError,
    SessionListener,
    SetData,
    Stat,
    Transaction,
    TransactionFailed,
    VersionChecked,
    Watcher,
    WatchEvent,
    path_of,
)
from kafkawire.sdk.registry.steps import Steps, create_ephemeral, run
from kafkawire.sdk.routing.partitions import TopicPartition

T = TypeVar("T")

__all__ = ["Broker", "Cluster", "EmbeddedTree", "MemoryRegistry", "Tree", "check", "scenario"]


class _Node:
    def __init__(self, data: bytes, zxid: int, owner: int) -> None:
        self.data, self.zxid, self.owner, self.version, self.sequence = data, zxid, owner, 0, 0
        self.written_zxid = zxid


class Tree:
    """The nodes and the watches of all sessions."""

    def __init__(self) -> None:
        self.nodes = {"/": _Node(b"", 0, 0)}
        self.zxid = 0
        self.loop: deque[Callable[[], None]] = deque()
        self.watches: dict[tuple[str, str], dict[tuple[MemoryRegistry, Watcher], None]] = {}

    def registry(self) -> MemoryRegistry:
        return MemoryRegistry(self)

    def settle(self) -> None:
        """Perform all pending work."""
        for _ in range(1_000_000):
            if not self.loop:
                return
            self.loop.popleft()()
        raise AssertionError("the cluster did not settle")

    def children(self, path: str) -> tuple[str, ...]:
        return tuple(sorted(each.rpartition("/")[2] for each in self.nodes if each != "/" and parent_of(each) == path))

    def stat(self, path: str) -> Stat:
        node = self.nodes[path]
        children, zxids = len(self.children(path)), (node.zxid, node.written_zxid)
        return Stat(*zxids, 0, 0, node.version, 0, 0, node.owner, len(node.data), children, 0)

    def fire(self, kind: EventKind, path: str) -> None:
        parent = parent_of(path)
        lists = {EventKind.CREATED: "data", EventKind.CHANGED: "data", EventKind.DELETED: "data"}
        fired = [(kind, path, lists[kind])]
        if kind is EventKind.DELETED:
            fired.append((kind, path, "children"))
        if kind is not EventKind.CHANGED:
            fired.append((EventKind.CHILDREN_CHANGED, parent, "children"))
        for event_kind, node, list_ in fired:
            for registry, watcher in self.watches.pop((list_, node), {}):
                event = WatchEvent(node, event_kind)
                self.loop.append(lambda w=watcher, e=event, r=registry, s=registry.session_id: r.call(s, lambda: w(e)))

    def change(
        self, operation: Create | SetData | Delete | Check, session: int
    ) -> Created | Stat | Deleted | VersionChecked:
        path = operation.path
        if isinstance(operation, Create):
            parent = self.nodes.get(parent_of(path))
            if parent is None:
                raise RegistryError(RegistryCode.NO_NODE, path)
            if operation.mode.is_sequential:
                path += f"{parent.sequence:010d}"
            if path in self.nodes:
                raise RegistryError(RegistryCode.NODE_EXISTS, path)
            parent.sequence += 1
            self.zxid += 1
            owner = session if operation.mode is CreateMode.EPHEMERAL else 0
            self.nodes[path] = _Node(operation.data or b"", self.zxid, owner)
            self.fire(EventKind.CREATED, path)
            return Created(path)
        node = self.nodes.get(path)
        if node is None:
            raise RegistryError(RegistryCode.NO_NODE, path)
        if operation.version not in (-1, node.version):
            raise RegistryError(RegistryCode.BAD_VERSION, path)
        if isinstance(operation, Check):
            return VersionChecked(path)
        self.zxid += 1
        if isinstance(operation, SetData):
            node.data, node.version, node.written_zxid = operation.data or b"", node.version + 1, self.zxid
            self.fire(EventKind.CHANGED, path)
            return self.stat(path)
        if self.children(path):
            raise RegistryError(RegistryCode.NOT_EMPTY, path)
        del self.nodes[path]
        self.fire(EventKind.DELETED, path)
        return Deleted(path)

    def transaction(self, operations: Sequence[Create | SetData | Delete | Check], session: int) -> Outcome:
        nodes = {
            path: (node, node.data, node.version, node.sequence, node.written_zxid) for path, node in self.nodes.items()
        }
        watches, loop = {key: dict(each) for key, each in self.watches.items()}, deque(self.loop)
        results = []
        for index, operation in enumerate(operations):
            try:
                results.append(self.change(operation, session))
            except RegistryError as error:
                for node, data, version, sequence, zxid in nodes.values():
                    node.data, node.version, node.sequence, node.written_zxid = data, version, sequence, zxid
                self.nodes = {path: each[0] for path, each in nodes.items()}
                self.watches, self.loop = watches, loop
                codes = [RegistryCode.ROLLED_BACK] * index + [error.code]
                codes += [RegistryCode.RUNTIME_INCONSISTENCY] * (len(operations) - len(codes))
                return TransactionFailed(operations, codes)
        return Committed(tuple(results))


class MemoryRegistry:
    """The registry of one program."""

    _sessions = 0

    session_timeout_ms = 18_000

    def __init__(self, tree: Tree) -> None:
        self.tree = tree
        self.listeners: list[SessionListener] = []
        self.session_id = 0
        self.is_dead = False
        #: The program dies after the given number of operations; None for never.
        self.operations_left: int | None = None
        #: Returns the error with which an operation fails, or None to perform it.
        self.error_of: Callable[[Operation], RegistryCode | None] = lambda _: None
        self.writes = 0
        self.open()

    def open(self) -> None:
        MemoryRegistry._sessions += 1
        self.session_id = MemoryRegistry._sessions
        for listener in list(self.listeners):
            self.tree.loop.append(listener.opened)

    def expire(self) -> None:
        """End the session; `open` starts the next one."""
        ended, self.session_id = self.session_id, 0
        for watches in self.tree.watches.values():
            for key in [key for key in watches if key[0] is self]:
                del watches[key]
        for path in [path for path, node in self.tree.nodes.items() if node.owner == ended]:
            self.tree.change(Delete(path), 0)
        if not self.is_dead:
            for listener in list(self.listeners):
                listener.expired()

    def die(self) -> None:
        """Stop the program; its session stays until it expires."""
        self.is_dead = True

    def call(self, session: int, action: Callable[[], None]) -> None:
        if not self.is_dead and session == self.session_id:
            action()

    def describe(self) -> str:
        return "memory"

    def start(self) -> None:
        """Do nothing; the session already exists."""

    def add_listener(self, listener: SessionListener) -> None:
        self.listeners.append(listener)

    def remove_listener(self, listener: SessionListener) -> None:
        self.listeners = [each for each in self.listeners if each is not listener]

    def close(self, timeout_ms: int) -> None:
        self.expire()
        self.die()

    def begin_to_close(self, timeout_ms: int, closed: Callable[[], None]) -> None:
        self.close(timeout_ms)
        self.tree.loop.append(closed)

    def abandon(self) -> None:
        self.die()

    def submit(self, operations: Sequence[Operation], done: Callable[[tuple[Outcome, ...]], None]) -> None:
        session = self.session_id

        def carry_out() -> None:
            if self.is_dead:
                return
            if session != self.session_id:
                expired = RegistryError(RegistryCode.SESSION_EXPIRED, "")
                self.tree.loop.append(lambda: done(tuple(expired for _ in operations)))
                return
            outcomes = []
            for operation in operations:
                if self.operations_left is not None:
                    if self.operations_left == 0:
                        self.die()
                        return
                    self.operations_left -= 1
                outcomes.append(self._outcome(operation))
            self.tree.loop.append(lambda: None if self.is_dead else done(tuple(outcomes)))

        self.tree.loop.append(carry_out)

    def _outcome(self, operation: Operation) -> Outcome:
        tree = self.tree
        last = operation.operations[-1] if isinstance(operation, Transaction) else operation
        code = self.error_of(operation if isinstance(last, Check) else last)
        if code is not None and isinstance(operation, Transaction):
            codes = [RegistryCode.ROLLED_BACK] * (len(operation.operations) - 1)
            return TransactionFailed(operation.operations, [*codes, code])
        if code is not None:
            return RegistryError(code, path_of(operation))
        if isinstance(operation, Transaction):
            self.writes += 1
            return tree.transaction(operation.operations, self.session_id)
        if isinstance(operation, Create | SetData | Delete):
            self.writes += 1
            try:
                return tree.change(operation, self.session_id)
            except RegistryError as error:
                return error
        assert isinstance(operation, GetData | Exists | GetChildren)
        exists = operation.path in tree.nodes
        if operation.watcher is not None and (exists or isinstance(operation, Exists)):
            list_ = "children" if isinstance(operation, GetChildren) else "data"
            tree.watches.setdefault((list_, operation.path), {})[self, operation.watcher] = None
        if not exists:
            return RegistryError(RegistryCode.NO_NODE, operation.path)
        if isinstance(operation, GetChildren):
            return Children(tree.children(operation.path), tree.stat(operation.path))
        if isinstance(operation, GetData):
            return Data(tree.nodes[operation.path].data, tree.stat(operation.path))
        return tree.stat(operation.path)


class EmbeddedTree:
    """The embedded registry, in place of a `Tree`."""

    def __init__(self) -> None:
        self.loop: deque[Callable[[], None]] = deque()
        self.embedded = EmbeddedRegistry(lambda: 0)
        self._other = self.registry()

    @property
    def nodes(self) -> dict[str, StoredNode]:
        return {node.path: node for node in self.embedded.tree.nodes()}

    def settle(self) -> None:
        """Perform all pending work."""
        for _ in range(1_000_000):
            if not self.loop:
                return
            self.loop.popleft()()
        raise AssertionError("the cluster did not settle")

    def registry(self) -> EmbeddedProgram:
        return EmbeddedProgram(self)

    def change(self, operation: Create | SetData | Delete, session: int) -> None:
        """Have another program change a node."""
        self._other.submit((operation,), lambda _: None)

    def children(self, path: str) -> tuple[str, ...]:
        return tuple(sorted(each.rpartition("/")[2] for each in self.nodes if each != "/" and parent_of(each) == path))

    def stat(self, path: str) -> StoredNode:
        return self.nodes[path]


class EmbeddedProgram:
    """One program's session with the embedded registry."""

    def __init__(self, tree: EmbeddedTree) -> None:
        self.tree = tree
        self.is_dead = False
        self._session = tree.embedded.session(self._post)
        self._session.start()
        tree.settle()
        self.describe = self._session.describe
        self.start = self._session.start
        self.add_listener = self._session.add_listener
        self.remove_listener = self._session.remove_listener
        self.submit = self._session.submit
        self.close = self._session.close

    @property
    def session_id(self) -> int:
        return self._session.session_id

    def _post(self, action: Callable[[], None]) -> None:
        self.tree.loop.append(lambda: None if self.is_dead else action())

    def die(self) -> None:
        """Stop the program; its session stays until it expires."""
        self.is_dead = True

    def expire(self) -> None:
        """End the session; the next one starts automatically, unless the program is dead."""
        self.tree.embedded.expire(self.session_id)


class Broker:
    """A broker that records what it is told.

    Attributes:
        requests: the requests that it received, in order.
        states: the last state of each partition that it hosts.
        metadata: the last metadata of each partition.
        live: the brokers that it believes to be alive.
        failing: partitions in a failed log directory.
        undeletable: partitions that it cannot delete.
    """

    def __init__(self, broker_id: int, registry: MemoryRegistry) -> None:
        self.broker_id = broker_id
        self.registry = registry
        self.requests: list[Message] = []
        self.states: dict[TopicPartition, LeaderAndIsrRequest.LeaderAndIsrPartitionState] = {}
        self.metadata: dict[TopicPartition, UpdateMetadataRequest.UpdateMetadataPartitionState] = {}
        self.live: list[int] = []
        self.failing: set[TopicPartition] = set()
        self.undeletable: set[TopicPartition] = set()
        self.epoch = 0
        self.controller_epoch = 0
        self.controller: Controller | None = None

    def register(self) -> Steps[object]:
        endpoint = f"PLAINTEXT://host{self.broker_id}:9092"
        content = BROKER.encode(BrokerRegistration({}, {"PLAINTEXT": "PLAINTEXT"}, (endpoint,), timestamp_ms=1))
        path = BROKER.path(self.broker_id)
        stat = yield from create_ephemeral(path, content, lambda: self.registry.session_id)
        self.epoch = stat.czxid
        return stat

    def answer(self, request: Message) -> Message:
        self.requests.append(request)
        assert isinstance(request, LeaderAndIsrRequest | UpdateMetadataRequest | StopReplicaRequest)
        refused = None
        if request.controller_epoch < self.controller_epoch:
            refused = ErrorCode.STALE_CONTROLLER_EPOCH
        elif request.broker_epoch != self.epoch:
            refused = ErrorCode.STALE_BROKER_EPOCH
        self.controller_epoch = max(self.controller_epoch, request.controller_epoch)
        if isinstance(request, LeaderAndIsrRequest):
            return LeaderAndIsrResponse(error_code=refused) if refused else self._lead_or_follow(request)
        if isinstance(request, UpdateMetadataRequest):
            if not refused:
                self.live = sorted(each.id for each in request.live_brokers)
                for topic in request.topic_states:
                    for state in topic.partition_states:
                        partition = TopicPartition(topic.topic_name, state.partition_index)
                        if state.leader == -2:
                            self.metadata.pop(partition, None)
                        else:
                            self.metadata[partition] = state
            return UpdateMetadataResponse(refused or 0)
        return StopReplicaResponse(error_code=refused) if refused else self._stop(request)

    def _lead_or_follow(self, request: LeaderAndIsrRequest) -> Message:
        topics = []
        for topic in request.topic_states:
            errors = []
            for state in topic.partition_states:
                partition = TopicPartition(topic.topic_name, state.partition_index)
                code = ErrorCode.KAFKA_STORAGE_ERROR if partition in self.failing else ErrorCode.NONE
                known = self.states.get(partition)
                assert known is None or known.leader_epoch <= state.leader_epoch
                if not code:
                    self.states[partition] = state
                errors.append(LeaderAndIsrResponse.LeaderAndIsrPartitionError("", partition.partition, code))
            topics.append(LeaderAndIsrResponse.LeaderAndIsrTopicError(topic.topic_id, errors))
        return LeaderAndIsrResponse(topics=topics)

    def _stop(self, request: StopReplicaRequest) -> Message:
        errors = []
        for topic in request.topic_states:
            for state in topic.partition_states:
                partition = TopicPartition(topic.topic_name, state.partition_index)
                code = ErrorCode.KAFKA_STORAGE_ERROR if partition in self.undeletable else ErrorCode.NONE
                if state.delete_partition and not code:
                    self.states.pop(partition, None)
                errors.append(StopReplicaResponse.StopReplicaPartitionError(*partition, code))
        return StopReplicaResponse(partition_errors=errors)


class Cluster:
    """Brokers, each with a controller."""

    def __init__(self, *broker_ids: int, settings: ControllerSettings | None = None, tree: Tree | None = None) -> None:
        self.tree = Tree() if tree is None else tree
        self.settings = settings or ControllerSettings(0)
        self.brokers: dict[int, Broker] = {}
        self.timers: list[tuple[int, Callable[[], None]]] = []
        self.unreachable: set[int] = set()
        #: The channel methods that raise an error.
        self.broken: set[str] = set()
        self.topic_count = 0
        self.uncleanly = False
        for node in ZNODES.values():
            if node.is_made_at_startup:
                self.tree.change(Create(node.path()), 0)
        for broker_id in broker_ids:
            self.start(broker_id)

    # Brokers.

    def start(self, broker_id: int) -> Broker:
        """Start a broker, with a new program."""
        broker = Broker(broker_id, self.tree.registry())
        self.brokers[broker_id] = broker
        self.do(broker.registry, broker.register())
        broker.controller = self.controller_for(broker)
        broker.controller.begin()
        self.settle()
        return broker

    def controller_for(self, broker: Broker) -> Controller:
        return Controller(
            self.settings._replace(broker_id=broker.broker_id),
            broker.registry,
            _Channels(self, broker),
            later=self.later,
            now_ms=lambda: 1,
            register=broker.register,
            new_topic_id=self.new_topic_id,
            is_unclean_allowed=lambda: self.uncleanly,
        )

    def kill(self, broker_id: int) -> None:
        """End a broker and its session."""
        registry = self.brokers.pop(broker_id).registry
        registry.die()
        registry.expire()
        self.settle()

    @property
    def controller(self) -> Controller:
        """The active controller."""
        (active,) = (each.controller for each in self.brokers.values() if each.controller and each.controller.is_active)
        assert active is not None
        return active

    # Topics.

    def new_topic_id(self) -> bytes:
        self.topic_count += 1
        return self.topic_count.to_bytes(16, "big")

    def create(self, topic: str, *replicas: tuple[int, ...]) -> None:
        """Store a new topic, as an admin request does."""
        content = TOPIC.encode(TopicAssignment(dict(enumerate(replicas)), self.new_topic_id()))
        self.tree.change(Create(TOPIC.path(topic), content), 0)
        self.settle()

    def state(self, topic: str, partition: int = 0) -> PartitionState:
        """Return the stored state of a partition."""
        return PARTITION_STATE.decode(self.tree.nodes[PARTITION_STATE.path(topic, partition)].data)

    def assignment(self, topic: str) -> TopicAssignment:
        """Return the stored assignment of a topic."""
        return TOPIC.decode(self.tree.nodes[TOPIC.path(topic)].data)

    def alter_request(self, topic: str, isr: Sequence[int], partition: int = 0) -> AlterPartitionRequest:
        """Return a partition leader's request for a new ISR."""
        state = self.state(topic, partition)
        leader = self.brokers[state.leader]
        data = AlterPartitionRequest.PartitionData(
            partition_index=partition,
            leader_epoch=state.leader_epoch,
            new_isr_with_epochs=[AlterPartitionRequest.BrokerState(each) for each in isr],
            partition_epoch=self.tree.stat(PARTITION_STATE.path(topic, partition)).version,
        )
        topic_id = self.assignment(topic).topic_id or ZERO_UUID
        topics = [AlterPartitionRequest.TopicData(topic_id, [data])]
        return AlterPartitionRequest(leader.broker_id, leader.epoch, topics)

    def alter(self, topic: str, isr: Sequence[int], partition: int = 0) -> AlterPartitionResponse:
        """Have a partition's leader request a new ISR."""
        responses: list[AlterPartitionResponse] = []
        self.controller.alter_partitions(self.alter_request(topic, isr, partition), 3, responses.append)
        self.settle()
        (response,) = responses
        return response

    def sync(self, topic: str, *, shrinks: bool = False) -> None:
        """Have the leaders of a topic request the largest or the smallest possible ISR."""
        for number in sorted(self.assignment(topic).partitions):
            if PARTITION_STATE.path(topic, number) in self.tree.nodes:
                leader = self.state(topic, number).leader
                if leader in self.brokers:
                    # A leader that is recovering from an unclean election must first report that it has recovered.
                    self.alter(topic, [leader], number)
                    others = [each for each in self.assignment(topic).partitions[number] if each in self.brokers]
                    if not shrinks and others:
                        self.alter(topic, others, number)

    # Time.

    def later(self, delay_ms: int, action: Callable[[], None]) -> Callable[[], None]:
        timer = (delay_ms, action)
        self.timers.append(timer)
        return lambda: self.timers.remove(timer) if timer in self.timers else None

    def fire(self, delay_ms: int) -> None:
        """Fire the timers with a given delay."""
        due = [timer for timer in self.timers if timer[0] == delay_ms]
        self.timers = [timer for timer in self.timers if timer[0] != delay_ms]
        for _, action in due:
            action()
        self.settle()

    def settle(self) -> None:
        self.tree.settle()

    def do(self, registry: Registry, steps: Steps[T]) -> T:
        """Perform steps until they end; return their result or raise their error."""
        results: list[T] = []
        errors: list[Exception] = []
        run(registry, steps, results.append, errors.append)
        self.settle()
        for error in errors:
            raise error
        (result,) = results
        return result


class _Channels:
    def __init__(self, cluster: Cluster, owner: Broker) -> None:
        self._cluster = cluster
        self._owner = owner

    def connect(self, broker: LiveBroker) -> None:
        self._fail_if("connect")
        assert broker.endpoint("PLAINTEXT") is not None

    def disconnect(self, broker_id: int) -> None:
        """Do nothing: a late response is nevertheless delivered, and must be ignored."""
        self._fail_if("disconnect")

    def _fail_if(self, method: str) -> None:
        if method in self._cluster.broken:
            raise ConnectionError(f"{method} is broken")

    def send(self, broker_id: int, request: ControlRequest, done: Callable[[Message | Exception], None]) -> None:
        def deliver() -> None:
            broker = self._cluster.brokers.get(broker_id)
            if self._owner.registry.is_dead:
                return
            codec(type(request.message), request.version).encode(request.message)
            if broker is None or broker_id in self._cluster.unreachable:
                done(ConnectionError(f"broker {broker_id} is gone"))
            else:
                done(broker.answer(request.message))

        self._fail_if("send")
        self._cluster.tree.loop.append(deliver)


def scenario(cluster: Cluster) -> None:
    """Make the controller do everything that it can: creation, failover, reassignment, deletion, election."""
    cluster.create("t", (0, 1), (1, 2))
    cluster.create("gone", (0, 1, 2))
    cluster.kill(2)
    cluster.tree.change(Create(TOPIC_DELETION.path("gone")), 0)
    cluster.settle()
    cluster.start(2)
    moves = PartitionReassignments((PartitionReplicas("t", 0, (1, 2)), PartitionReplicas("t", 1, (1,))))
    cluster.tree.change(Create(PARTITION_REASSIGNMENTS.path(), PARTITION_REASSIGNMENTS.encode(moves)), 0)
    cluster.settle()


def check(cluster: Cluster) -> None:
    """Assert all invariants of a cluster at rest."""
    context = cluster.controller.context
    assert sorted(context.brokers) == sorted(cluster.brokers)
    for partition in context.partitions():
        state = cluster.state(*partition)
        assert state.controller_epoch <= context.epoch
        live = [each for each in state.isr if each in cluster.brokers]
        assert (state.leader in live) if live else (state.leader not in cluster.brokers)
        for broker_id in context.assignment(partition).replicas:
            if broker_id in cluster.brokers:
                told = cluster.brokers[broker_id].states[partition]
                assert (told.leader, told.leader_epoch) == (state.leader, state.leader_epoch)
        for broker in cluster.brokers.values():
            assert broker.metadata[partition].leader == state.leader
            assert broker.metadata[partition].leader_epoch == state.leader_epoch
            assert broker.live == sorted(cluster.brokers)
