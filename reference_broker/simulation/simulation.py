"""One run: a cluster, its clients and a plan; at the end, everything is repaired and checked."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Final, NamedTuple

from kafkawire.reference_broker.simulation.checkers import LOSSY, Checkers, Violation
from kafkawire.reference_broker.simulation.client import Ask, Client, Pause, Script, ask
from kafkawire.reference_broker.simulation.cluster import BROKERS, SimulatedCluster
from kafkawire.reference_broker.simulation.committers import Committer
from kafkawire.reference_broker.simulation.consumers import Consumer
from kafkawire.reference_broker.simulation.faults import Faults
from kafkawire.reference_broker.simulation.group import Group
from kafkawire.reference_broker.simulation.members import Member
from kafkawire.reference_broker.simulation.operations import Operations
from kafkawire.reference_broker.simulation.plain_producers import PlainProducer
from kafkawire.reference_broker.simulation.plan import DURATION_MS, Plan, Step
from kafkawire.reference_broker.simulation.producers import IdempotentProducer
from kafkawire.reference_broker.simulation.scheduler import Host, Scheduler
from kafkawire.reference_broker.simulation.transformers import Transformer
from kafkawire.reference_broker.storage.checkpoints import DamagedFile
from kafkawire.reference_broker.storage.disk.memory import PowerCut
from kafkawire.sdk.errors import KafkaWireError
from kafkawire.sdk.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from kafkawire.sdk.protocol.tables.enums import IsolationLevel
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.routing.call import CONTROLLER
from kafkawire.sdk.routing.partitions import TopicPartition
from kafkawire.sdk.transport.log_lines import LOGGERS
from kafkawire.sdk.transport.wire import Address

_INPUT: Final = (TopicPartition("in", 0), TopicPartition("in", 1))
_OUTPUT: Final = (TopicPartition("out", 0), TopicPartition("out", 1))
_INTERNAL: Final = (TopicPartition("__consumer_offsets", 0), TopicPartition("__transaction_state", 0))

_LOSSY_CONFIGS: Final = {"unclean.leader.election.enable": "true", "min.insync.replicas": "1"}

#: How many batches each producer writes to each partition, and the maximum pause between them.
_BATCHES: Final = 8
_PRODUCER_PAUSE_MS: Final = 700

#: The number of members of the group.
_MEMBERS: Final = 2

_REQUEST_MS: Final = 2_000

__all__ = ["Outcome", "Simulation", "quiet", "simulate"]

#: How long everything may take to finish after the last fault, and how often that is checked.
_REST_MS: Final = 60_000
_LOOK_MS: Final = 100

_NEVER: Final = 2**63 - 1

_OPTIONS: Final = {
    "offsets_topic_num_partitions": 1,
    "transaction_state_log_num_partitions": 1,
    "default_replication_factor": 3,
    "min_insync_replicas": 2,
    "group_initial_rebalance_delay_ms": 0,
    "group_min_session_timeout_ms": 100,
    "log_cleaner_enable": False,
    "log_index_interval_bytes": 300,
    "auto_create_topics": False,
    "zookeeper_session_timeout_ms": 600,
    "replica_lag_time_max_ms": 600,
    "replica_fetch_wait_max_ms": 250,
    "replica_fetch_backoff_ms": 100,
    "replica_socket_timeout_ms": 700,
    "request_timeout_ms": 700,
    "controller_socket_timeout_ms": 700,
    "controlled_shutdown_max_retries": 2,
    "controlled_shutdown_retry_backoff_ms": 100,
    "leader_imbalance_check_interval_seconds": 1,
    "replica_high_watermark_checkpoint_interval_ms": 500,
    "transaction_abort_timed_out_transaction_cleanup_interval_ms": 1_000,
}


class Outcome(NamedTuple):
    """The result of a run.

    Attributes:
        violation: the invariant that did not hold; empty if all held.
        digest: the digest of everything that has happened.
        steps: how many events have happened.
        trace: the lines that describe what has happened.
    """

    violation: str
    digest: int
    steps: int
    trace: tuple[str, ...]


class _Defects(logging.Handler):
    """Collects errors logged with a traceback, which come from defects."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.found: list[str] = []
        self._formatter = logging.Formatter()

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a log line with its traceback, unless a fault explains it."""
        if record.exc_info and not isinstance(record.exc_info[1], KafkaWireError | OSError | PowerCut):
            self.found.append(f"{record.getMessage()}\n{self._formatter.formatException(record.exc_info)}")


@contextmanager
def quiet() -> Iterator[_Defects]:
    """Collect defects, and suppress log output."""
    defects = _Defects()
    loggers = [logging.getLogger(name) for name in LOGGERS]
    before = [(logger.level, logger.propagate) for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.ERROR)
        logger.propagate = False
        logger.addHandler(defects)
    try:
        yield defects
    finally:
        for logger, (level, propagate) in zip(loggers, before, strict=True):
            logger.removeHandler(defects)
            logger.setLevel(level)
            logger.propagate = propagate


class Simulation:
    """A run from its beginning to its end.

    Args:
        plan: see `Plan`.
        defects: collects the defects that brokers log.

    Attributes:
        scheduler, cluster, checkers: see `Scheduler`, `SimulatedCluster` and `Checkers`.
        producers, consumers, committers: the clients that are checked.
        group, members: a group, and its members that are alive.
        transformer: the current transformer; None until the topics exist.
    """

    def __init__(self, plan: Plan, defects: _Defects) -> None:
        self._plan = plan
        self._defects = defects
        self.scheduler = Scheduler(plan.seed)
        chance = self.scheduler.chance("options")
        drawn = {
            "log_flush_interval_messages": 1 if plan.is_synced else _NEVER,
            "log_roll_ms": chance.choice([400, 2_000, 2**40]),
            "log_index_size_max_bytes": chance.choice([24, 120, 2**20]),
            "replica_fetch_max_bytes": chance.choice([200, 2**20]),
        }
        self.cluster = SimulatedCluster(self.scheduler, {**_OPTIONS, **drawn})
        self.checkers = Checkers(self.cluster)
        self.scheduler.after_step = self._after_step
        self._addresses = tuple(Address(f"b{broker_id}", 9092) for broker_id in BROKERS)
        self._clients: list[Client] = []
        self.producers: list[IdempotentProducer] = []
        self.consumers: list[Consumer] = []
        self.committers: list[Committer] = []
        self.group = Group("shared", (*_INPUT, *_OUTPUT))
        self.members: list[Member] = []
        self.transformer: Transformer | None = None
        self._incarnations = 0
        self._memberships = 0
        self._workers: list[Client] = []

    def _after_step(self, host: Host) -> None:
        self.checkers.after_step(host)
        if self._defects.found:
            raise Violation(f"a defect: {self._defects.found[0]}")

    def client(self, name: str, *topics: str) -> Client:
        """Return a new client."""
        client = Client(self.cluster, name, self._addresses, set(topics))
        self._clients.append(client)
        return client

    def run(self) -> None:
        """Run the simulation.

        Raises:
            Violation: an invariant does not hold.
        """
        scheduler, cluster = self.scheduler, self.cluster
        for broker_id in BROKERS:
            cluster.start(broker_id)
        admin = self.client("admin", "out")
        admin.run(self._create(admin), self._begin)
        partitions = (*_INPUT, *_OUTPUT, *_INTERNAL, LOSSY)
        operations = Operations(admin, self.checkers, partitions, _OUTPUT)
        faults = Faults(
            cluster, self._clients, self.checkers.note_call, self._replace_transformer, self._replace_member
        )
        for step in self._plan.steps:
            cluster.outside.later_us(step.time_ms * 1_000, partial(self._take, step, faults, operations, admin))
        self._run_to(DURATION_MS * 1_000)
        scheduler.note("the faults end")
        faults.end()
        self._run_until(self._unfinished)
        scheduler.note("the clients end")
        for client in self._clients:
            client.is_over = True
        for committer in self.committers:
            committer.client.run(committer.read())
        admin.run(self.group.read(self.group.partitions))
        self._run_until(self._unsettled)
        self.checkers.check_end()
        self._check_output()

    def _run_until(self, left: Callable[[], str]) -> None:
        """Run until nothing is left to do."""
        deadline_us = self.scheduler.now_us + _REST_MS * 1_000
        while reason := left():
            if self.scheduler.now_us >= deadline_us:
                raise Violation(f"still not at rest {_REST_MS} ms after the last fault: {reason}")
            self._run_to(self.scheduler.now_us + _LOOK_MS * 1_000)

    def _run_to(self, end_us: int) -> None:
        """Run up to a given time; a power cut ends the broker that it hits."""
        while True:
            try:
                self.scheduler.run_to(end_us)
            except PowerCut:
                self.cluster.lose_power()
            else:
                return

    def _take(self, step: Step, faults: Faults, operations: Operations, admin: Client) -> None:
        self.scheduler.note(str(step))
        if hasattr(operations, step.name):
            admin.run(getattr(operations, step.name)(*step.arguments))
        else:
            getattr(faults, step.name)(*step.arguments)

    def _unfinished(self) -> str:
        """Return what has not finished yet; empty at the end."""
        for producer in self.producers:
            if not producer.is_done:
                return f"{producer} is not done"
        if self.transformer is None:
            return "there is no transformer"
        for partition in _INPUT:
            committed = self.checkers.of_topic(partition.topic).get(partition.partition)
            end = 0 if committed is None else committed.end
            if self.transformer.offsets.get(partition, 0) < end:
                return f"{partition} is copied up to {self.transformer.offsets.get(partition)}, but has {end}"
        return self._unshared()

    def _unshared(self) -> str:
        """Return why the partitions of the group are not shared out; empty if its members have them all."""
        generations = {member.generation for member in self.members}
        owned = sorted(partition for member in self.members for partition in member.partitions)
        if generations != {self.group.generation} or owned != sorted(self.group.partitions):
            return f"the members of the group are in the generations {generations}, and have {owned}"
        return ""

    def _unsettled(self) -> str:
        """Return what is still in progress after the clients have ended; empty if nothing is."""
        if any(client.running for client in self._clients if client.host.is_alive):
            return "clients are running"
        return self.checkers.unsettled()

    def _check_output(self) -> None:
        """Compare the copied values with the produced ones."""
        for source, target in zip(_INPUT, _OUTPUT, strict=True):
            produced = self.checkers.of_topic(source.topic)[source.partition]
            copied = self.checkers.of_topic(target.topic)[target.partition]
            wanted = [value for _, value in produced.values()]
            found = [value for _, value in copied.values(is_committed=True)]
            if wanted != found:
                lost = [value for value in wanted if value not in found]
                twice = [value for value in found if found.count(value) > 1]
                raise Violation(f"{target} is not a copy of {source}: {lost} are lost, {twice} are duplicated")
            for producer in self.producers:
                if producer.partition == source:
                    stored = [value for value in wanted if value in producer.sent]
                    if stored != producer.sent:
                        raise Violation(f"{source} has {stored}, but {producer} sent {producer.sent}")
        for consumer in self.consumers:
            for partition, values in consumer.values.items():
                content = self.checkers.of_topic(partition.topic)[partition.partition]
                known = dict(content.values(is_committed=consumer.is_committed))
                for offset, value in values.items():
                    if known.get(offset) != value:
                        raise Violation(
                            f"{partition}: a consumer has read {value!r} at {offset}, not {known.get(offset)!r}"
                        )

    # Clients.

    def _create(self, admin: Client) -> Script:
        topics = [CreateTopicsRequest.CreatableTopic(name, 2, 3) for name in ("in", "out")]
        configs = [CreateTopicsRequest.CreatableTopicConfig(*each) for each in _LOSSY_CONFIGS.items()]
        topics.append(CreateTopicsRequest.CreatableTopic(LOSSY.topic, 1, 3, configs=configs))
        while True:
            response = yield from ask(Ask(CONTROLLER, CreateTopicsRequest(topics, _REQUEST_MS)), CreateTopicsResponse)
            codes = {topic.error_code for topic in response.topics} if response is not None else {-1}
            if codes <= {ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS}:
                return
            yield Pause(50)

    def _begin(self) -> None:
        """Start the clients, once the topics exist."""
        for number in range(2):
            client = self.client(f"p{number}", "in")
            for partition in _INPUT:
                producer = IdempotentProducer(client, self.checkers, partition, _BATCHES, _PRODUCER_PAUSE_MS)
                self.producers.append(producer)
                client.run(producer.script())
        for name, partitions, isolation in (
            ("c0", _INPUT, IsolationLevel.READ_UNCOMMITTED),
            ("c1", _OUTPUT, IsolationLevel.READ_COMMITTED),
        ):
            client = self.client(name, partitions[0].topic)
            consumer = Consumer(client, self.checkers, partitions, isolation)
            self.consumers.append(consumer)
            client.run(consumer.script())
        client = self.client("g0", "in")
        committer = Committer(client, "committer", _INPUT[0])
        self.committers.append(committer)
        client.run(committer.script())
        client = self.client("l0", LOSSY.topic)
        client.run(PlainProducer(client, LOSSY).script())
        for _ in range(_MEMBERS):
            self._start_member()
        self._workers.append(self._start_transformer())

    def _start_member(self) -> None:
        self._memberships += 1
        name = f"m{self._memberships}"
        self.scheduler.note(f"member {name} starts")
        member = Member(self.client(name), self.group)
        self.members.append(member)
        member.client.run(member.script())

    def _replace_member(self) -> None:
        """Kill the oldest member, and start another."""
        if self.members:
            self.members.pop(0).client.kill()
            self._start_member()

    def _start_transformer(self) -> Client:
        self._incarnations += 1
        name = f"x{self._incarnations}"
        self.scheduler.note(f"transformer {name} starts")
        client = self.client(name, "in", "out")
        transformer = self.transformer = Transformer(client, _INPUT, _OUTPUT)
        client.run(transformer.script())
        return client

    def _replace_transformer(self, pause_ms: int) -> None:
        """Start another transformer; the old one is dead or only paused."""
        if not self._workers:
            return
        old = self._workers[-1]
        if pause_ms:
            old.host.pause(pause_ms * 1_000)
        else:
            old.kill()
        self._workers.append(self._start_transformer())


def simulate(plan: Plan) -> Outcome:
    """Carry out a plan."""
    with quiet() as defects:
        simulation = Simulation(plan, defects)
        violation = ""
        try:
            simulation.run()
        except (Violation, DamagedFile) as error:  # no planned fault may damage a file that ends a broker for good
            violation = str(error)
            simulation.scheduler.note(f"violation: {violation}")
    scheduler = simulation.scheduler
    return Outcome(violation, scheduler.digest, scheduler.steps, tuple(scheduler.trace))
