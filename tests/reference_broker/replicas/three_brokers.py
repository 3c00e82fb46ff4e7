"""Three brokers that replicate two partitions: real leaders, sessions, followers and logs, without sockets.

Events are random: requests overtake one another, answers are lost, processes are killed, and disks fail; if each record
is synced, the power may be cut. The controller is a few lines of code, and its answers may be lost as well.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any, NamedTuple

from kafkawire.reference_broker.config.topic_configs import LogConfig, log_config
from kafkawire.reference_broker.replicas.cluster_replica import ClusterReplica, Surroundings
from kafkawire.reference_broker.replicas.fetcher import Fetcher, FetcherOptions, Planned
from kafkawire.reference_broker.replicas.isr_requests import AlterPartition
from kafkawire.reference_broker.replicas.replica import Replica
from kafkawire.reference_broker.replicas.replicas import CurrentLeader
from kafkawire.reference_broker.replicas.replication_quota import ReplicationQuota
from kafkawire.reference_broker.replicas.roles import Role, Term
from kafkawire.reference_broker.requests.delayed_operations import DelayedOperation
from kafkawire.reference_broker.storage.batches import parse_header
from kafkawire.reference_broker.storage.disk.memory import DiskCall, MemoryDisk
from kafkawire.reference_broker.storage.log.appends import Appended
from kafkawire.reference_broker.storage.log.partition_log import PartitionLog
from kafkawire.reference_broker.storage.services import LogServices
from kafkawire.reference_broker.work.timers import Timers
from kafkawire.sdk.errors import BrokerError, ConnectionLost
from kafkawire.sdk.protocol.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse
from kafkawire.sdk.protocol.schema import Message
from kafkawire.sdk.protocol.tables.enums import NO_LEADER_ID, NO_PARTITION_LEADER_EPOCH, Acks
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.routing.partitions import TopicPartition
from tests.reference_broker.broker_bench import NOW_MS, BrokerBench
from tests.reference_broker.storage.held_work import ShuffledWork
from tests.reference_broker.storage.produced_batches import produced
from tests.reference_broker.storage.replicated_logs import batches_of

__all__ = ["ThreeBrokers"]

BROKERS: tuple[int, ...] = (1, 2, 3)
PARTITIONS: tuple[int, ...] = (0, 1)
_LAG_MAX_MS = 3_000
_NEVER = str(2**63 - 1)

#: The number of rounds of 50 ms after which everything must have come to rest; a lost request takes the longest.
_ROUNDS = 120

PartitionData = AlterPartitionResponse.PartitionData
_Outcome = Message | Exception


class _Checkpoint(NamedTuple):
    """A log's entries in its broker's checkpoints."""

    high_watermark: int = 0
    log_start_offset: int = 0
    recovery_point: int = 0


class _State:
    """A partition as known to the controller."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.leader = 1 + number
        self.isr: tuple[int, ...] = BROKERS
        self.leader_epoch = self.partition_epoch = 0


class _Broker:
    """One of the brokers; it acts as `Replicas` for the handlers, and as the controller client for AlterPartition."""

    def __init__(self, brokers: ThreeBrokers, broker_id: int) -> None:
        self.brokers = brokers
        self.broker_id = broker_id
        self.epoch = 0
        self.disks: dict[int, MemoryDisk] = {number: MemoryDisk() for number in PARTITIONS}
        for number, disk in self.disks.items():
            disk.make_folder(f"t-{number}")
            disk.sync_folder("")
        self.checkpoints: dict[int, _Checkpoint] = {number: _Checkpoint() for number in PARTITIONS}
        self.start()

    def start(self) -> None:
        """Start the process."""
        brokers = self.brokers
        self.epoch += 1
        self.is_alive = True
        self.bench = BrokerBench(MemoryDisk())
        self.bench.now_ms = brokers.now_ms
        self.topic_id = self.bench.create("t", len(PARTITIONS))
        self.bench.use(replicas=self)
        self.work = ShuffledWork(brokers.chance.randrange(2**32))
        self.timers = Timers()
        self.pauses: list[Callable[[], None]] = []
        self.isr_requests = AlterPartition(
            self.broker_id, lambda: self.epoch, self, self._later, lambda: brokers.now_ms
        )
        self.fetchers: dict[int, Fetcher] = {}
        self.told: dict[int, tuple[int, int]] = dict.fromkeys(PARTITIONS, (NO_LEADER_ID, NO_PARTITION_LEADER_EPOCH))
        self.replicas: dict[int, ClusterReplica] = {number: self._open(number) for number in PARTITIONS}

    def _open(self, number: int) -> ClusterReplica:
        brokers, (high_watermark, log_start_offset, recovery_point) = self.brokers, self.checkpoints[number]
        log = PartitionLog(
            LogServices(self.disks[number], self.work, self.timers, lambda: brokers.now_ms),
            f"t-{number}",
            brokers.config,
            is_clean=False,
            high_watermark=high_watermark,
            log_start_offset=log_start_offset,
            recovery_point=recovery_point,
        )
        assert log.error is None, log.error
        if log.is_unsettled:
            log.settle()
        surroundings = Surroundings(
            self.broker_id,
            _LAG_MAX_MS,
            lambda: brokers.now_ms,
            brokers.is_alive,
            self.isr_requests,
            follower_moved=self._moved,
        )
        return ClusterReplica(("t", number), log, surroundings)

    def _moved(self, partition: tuple[str, int]) -> None:
        fetcher = self.fetcher_of(partition[1])
        if fetcher is not None:
            fetcher.moved(TopicPartition(*partition))

    def fetcher_of(self, number: int) -> Fetcher | None:
        """Return the fetcher of a partition; None if it is not followed."""
        found = (each for each in self.fetchers.values() if TopicPartition("t", number) in each.partitions)
        return next(found, None)

    # See `Replicas`.

    def get(self, topic: str, number: int) -> Replica | None:
        return self.replicas.get(number)

    def leader(self, topic: str, number: int, epoch: int = NO_PARTITION_LEADER_EPOCH) -> Replica:
        replica = self.replicas[number]
        replica.check(epoch)
        return replica

    def current_leader(self, topic: str, number: int) -> CurrentLeader:
        return CurrentLeader(*self.told[number], None)

    # See `Controller` in `isr_requests`.

    def ask(
        self, message: Message, done: Callable[[_Outcome], None], timeout_ms: int, version: int | None = None
    ) -> Callable[[], None]:
        assert isinstance(message, AlterPartitionRequest)
        self.brokers.asked.append((message, partial(self._answered, self.epoch, done)))
        return lambda: None

    def _answered(self, epoch: int, done: Callable[[_Outcome], None], outcome: _Outcome) -> None:
        if self.is_alive and self.epoch == epoch:
            done(outcome)

    def _later(self, delay_ms: int, callback: Callable[[], None]) -> Callable[[], None]:
        self.pauses.append(callback)
        return lambda: None

    # Roles.

    def tell(self, state: _State) -> None:
        """Tell the broker the term of a partition, as a LeaderAndIsr does, unless there is no leader."""
        number, known = state.number, (state.leader, state.leader_epoch)
        replica = self.replicas[number]
        if not self.is_alive or replica.error is not None or self.told[number] == known or known[0] == NO_LEADER_ID:
            return
        self.told[number] = known
        term = Term(*known, state.isr, BROKERS, state.partition_epoch, topic_id=self.topic_id)
        partition = TopicPartition("t", number)
        if (fetcher := self.fetcher_of(number)) is not None:
            fetcher.remove(partition)
        if state.leader == self.broker_id:
            replica.lead(term)
            return
        replica.follow(term)
        if state.leader not in self.fetchers:
            options = FetcherOptions(self.broker_id, 500, 1, self.brokers.max_bytes, 10 * 2**20, 100, 3_000)
            quota = ReplicationQuota(11, 1_000)
            self.fetchers[state.leader] = Fetcher(state.leader, options, lambda: self.epoch, lambda: None, quota)
        self.fetchers[state.leader].add(partition, replica, state.leader_epoch)


class _Sent(NamedTuple):
    """A follower's request: the sender, the run of the sender's process, and the content."""

    broker: _Broker
    epoch: int
    fetcher: Fetcher
    planned: Planned


class ThreeBrokers:
    """The brokers, their controller, and all messages in transit.

    Args:
        seed: determines all choices.

    Attributes:
        acknowledged: the values acknowledged as being on all in-sync replicas, keyed by partition and offset.
        committed: the batches seen below any high watermark, keyed by partition and base offset.
    """

    def __init__(self, seed: int) -> None:
        self.chance = chance = Random(seed)
        self.now_ms = NOW_MS
        self.config: LogConfig = dataclasses.replace(
            log_config(
                {
                    "min.insync.replicas": chance.choice(["1", "1", "2"]),
                    "flush.messages": chance.choice(["1", "3", _NEVER]),
                }
            ),
            segment_bytes=chance.choice([300, 600, 2_000]),
            index_interval_bytes=100,
        )
        self.max_bytes = chance.choice([1, 200, 2**20])
        self.fails = chance.choice([0, 0, 0.3])
        self.is_calm = False
        self.states = [_State(number) for number in PARTITIONS]
        self.asked: list[tuple[AlterPartitionRequest, Callable[[_Outcome], None]]] = []
        self.answers: list[tuple[_Outcome, Callable[[_Outcome], None]]] = []
        self.requests: list[_Sent] = []
        #: Requests that wait for records at a leader, each with that leader.
        self.waiting: dict[DelayedOperation, tuple[_Sent, _Broker]] = {}
        self.responses: list[tuple[_Sent, _Outcome]] = []
        self.acknowledged: list[dict[int, bytes]] = [{} for _ in PARTITIONS]
        self.committed: list[dict[int, bytes]] = [{} for _ in PARTITIONS]
        self._values = 0
        self.brokers: dict[int, _Broker] = {}
        for broker_id in BROKERS:
            self.brokers[broker_id] = _Broker(self, broker_id)

    def is_alive(self, broker_id: int) -> bool:
        """Return whether a broker is registered."""
        return self.brokers[broker_id].is_alive

    def _any(self) -> _Broker:
        return self.brokers[self.chance.choice(BROKERS)]

    def _has_luck(self, chance: float) -> bool:
        return not self.is_calm and self.chance.random() < chance

    # Clients.

    def produce(self) -> None:
        """Append a batch on any broker that accepts it."""
        broker, number = self._any(), self.chance.choice(PARTITIONS)
        replica, acks = broker.replicas[number], self.chance.choice([Acks.ALL, Acks.ALL, Acks.LEADER])
        if not broker.is_alive:
            return
        try:
            replica.check_acks(acks)
        except BrokerError:
            return
        self._values += 1
        value = b"%d," % self._values * self.chance.choice([1, 1, 10])
        data = produced(*[value] * self.chance.choice([1, 1, 3]))

        def appended(result: Appended | BrokerError) -> None:
            if isinstance(result, Appended):
                replica.when_acknowledged(acks, result.last_offset + 1, partial(reached, result.base_offset))

        def reached(offset: int, error: BrokerError | None) -> None:
            if error is None and acks == Acks.ALL:
                self.acknowledged[number][offset] = value

        replica.append(data, parse_header(data), self.now_ms, appended)

    def delete_records(self) -> None:
        """Make a leader's log begin at a later offset, perhaps in the middle of a batch."""
        broker = self._any()
        replica = broker.replicas[self.chance.choice(PARTITIONS)]
        log = replica.log
        if broker.is_alive and replica.role is Role.LEADER and log.error is None:
            log.begin_at(self.chance.randint(log.log_start_offset, log.high_watermark))

    # Requests.

    def plan(self) -> None:
        """Let the fetchers send the requests that are due."""
        for broker in self.brokers.values():
            for fetcher in broker.fetchers.values() if broker.is_alive else ():
                if (self.is_calm or self.chance.random() < 0.7) and (planned := fetcher.plan(self.now_ms)) is not None:
                    self.requests.append(_Sent(broker, broker.epoch, fetcher, planned))

    def serve(self) -> None:
        """Let a request arrive or get lost; its response may get lost as well."""
        if not self.requests:
            return
        sent = self.requests.pop(self.chance.randrange(len(self.requests)))
        leader = self.brokers[sent.fetcher.leader_id]
        if not leader.is_alive or self._has_luck(0.05):
            self.responses.append((sent, ConnectionLost("the request was lost")))
            return
        response = leader.bench.ask(sent.planned.request, sent.planned.version)
        if isinstance(response, DelayedOperation):
            self.waiting[response] = sent, leader
            response.then(partial(self._responded, response))
        else:
            self._respond(sent, response)

    def _responded(self, delayed: DelayedOperation, response: Message) -> None:
        sent, leader = self.waiting.pop(delayed)
        self._respond(sent, leader.bench.through(response, sent.planned.version))

    def _respond(self, sent: _Sent, response: Message) -> None:
        is_lost = self._has_luck(0.05)
        self.responses.append((sent, ConnectionLost("the response was lost") if is_lost else response))

    def deliver(self) -> None:
        """Deliver a response."""
        if self.responses:
            sent, outcome = self.responses.pop(self.chance.randrange(len(self.responses)))
            if sent.broker.is_alive and sent.broker.epoch == sent.epoch:
                sent.fetcher.answered(outcome, self.now_ms)

    # Time and background work.

    def run(self) -> None:
        """Perform some of the background work."""
        for broker in self.brokers.values():
            if broker.is_alive:
                broker.work.run(None if self.is_calm else self.chance.choice([0, 1, 3]))

    def wait(self) -> None:
        """Let time pass."""
        milliseconds = 50 if self.is_calm else self.chance.choice([1, 20, 100, 600])
        self.now_ms += milliseconds
        for broker in self.brokers.values():
            if broker.is_alive:
                broker.bench.advance(milliseconds)
                broker.timers.fire(self.now_ms)
                for replica in broker.replicas.values():
                    replica.check_in_sync(self.now_ms)
                pauses, broker.pauses = broker.pauses, []
                for end in pauses:
                    end()

    # The controller.

    def control(self) -> None:
        """Change ISRs as requested, and answer; requests and answers may be lost."""
        if self.asked:
            request, done = self.asked.pop(0)
            lost = ConnectionLost("no answer from the controller")
            is_taken = not self._has_luck(0.1)
            answer = self._alter(request) if is_taken else lost
            self.answers.append((lost if self._has_luck(0.1) else answer, done))
        if self.answers and (self.is_calm or self.chance.random() < 0.7):
            outcome, done = self.answers.pop(0)
            done(outcome)

    def _alter(self, request: AlterPartitionRequest) -> AlterPartitionResponse:
        return AlterPartitionResponse(
            topics=[
                AlterPartitionResponse.TopicData(
                    topic_id=topic.topic_id, partitions=[*map(self._changed, topic.partitions)]
                )
                for topic in request.topics
            ]
        )

    def _changed(self, wanted: AlterPartitionRequest.PartitionData) -> PartitionData:
        state = self.states[wanted.partition_index]
        isr = tuple(each.broker_id for each in wanted.new_isr_with_epochs)
        if wanted.leader_epoch != state.leader_epoch:
            return PartitionData(state.number, ErrorCode.FENCED_LEADER_EPOCH)
        if isr != state.isr and wanted.partition_epoch != state.partition_epoch:
            return PartitionData(state.number, ErrorCode.INVALID_UPDATE_VERSION)
        if not all(map(self.is_alive, isr)):
            return PartitionData(state.number, ErrorCode.INELIGIBLE_REPLICA)
        state.partition_epoch += isr != state.isr
        state.isr = isr
        return PartitionData(
            state.number,
            leader_id=state.leader,
            leader_epoch=state.leader_epoch,
            isr=isr,
            partition_epoch=state.partition_epoch,
        )

    def tell(self) -> None:
        """Tell a broker the latest term of a partition."""
        self._any().tell(self.chance.choice(self.states))

    def elect(self) -> None:
        """Move a partition to another leader."""
        self._elect(self.chance.choice(self.states), NO_LEADER_ID)

    def _elect(self, state: _State, preferred: int) -> None:
        eligible = [each for each in state.isr if self.is_alive(each)]
        state.leader = self.chance.choice(eligible) if eligible else NO_LEADER_ID
        if preferred in eligible:
            state.leader = preferred
        state.leader_epoch += 1
        state.partition_epoch += 1

    # Deaths.

    def fail_disk(self) -> None:
        """Make a later change on a disk fail."""
        broker = self._any()
        if not broker.is_alive:
            return
        left = [self.chance.randint(1, 8)]

        def plan(call: DiskCall) -> None:
            left[0] -= call.name != "read"
            if left[0] == 0 and call.name != "read":
                raise OSError(5, f"planned: {call.name}")

        broker.disks[self.chance.choice(PARTITIONS)].plan = plan

    def kill(self, broker: _Broker | None = None) -> None:
        """Kill a process, or cut the power if records are acknowledged only after a sync."""
        broker = self._any() if broker is None else broker
        if not broker.is_alive:
            return
        broker.is_alive = False
        broker.isr_requests.close()
        is_cut = self.config.flush_messages == 1 and self.chance.random() < 0.5
        for number, replica in broker.replicas.items():
            log, disk, before = replica.log, broker.disks[number], broker.checkpoints[number]
            high_watermark = self.chance.choice([log.high_watermark, self.chance.randint(0, log.high_watermark)])
            recovery_point = self.chance.choice([log.stored_to, min(before.recovery_point, log.stored_to)])
            broker.checkpoints[number] = _Checkpoint(high_watermark, log.log_start_offset, recovery_point)
            disk.plan = None
            if is_cut:
                broker.disks[number] = disk.crash(self.chance.randrange(2**20))
        for delayed, (sent, leader) in list(self.waiting.items()):
            if broker in (leader, sent.broker):
                del self.waiting[delayed]
                delayed.cancel()
                self.responses.append((sent, ConnectionLost("a broker died")))
        for state in self.states:
            if len(state.isr) > 1:
                state.isr = tuple(each for each in state.isr if each != broker.broker_id)
            self._elect(state, state.leader)

    def revive(self) -> None:
        """Start a broker that was killed."""
        dead = next((each for each in self.brokers.values() if not each.is_alive), None)
        if dead is not None:
            dead.start()
            for state in self.states:
                if state.leader == NO_LEADER_ID:
                    self._elect(state, NO_LEADER_ID)

    # Histories.

    def step(self) -> None:
        """Make one random event happen, and check the invariants."""
        steps: list[tuple[Callable[[], None], float]] = [
            (self.produce, 10),
            (self.plan, 8),
            (self.serve, 12),
            (self.deliver, 12),
            (self.run, 8),
            (self.wait, 4),
            (self.control, 6),
            (self.tell, 5),
            (self.elect, 0.5),
            (self.delete_records, 0.5),
            (self.kill, 0.3),
            (self.revive, 1),
            (self.fail_disk, self.fails),
        ]
        self.chance.choices([step for step, _ in steps], [weight for _, weight in steps])[0]()
        self._look()

    def _look(self) -> None:
        """Kill brokers whose logs have failed, and compare committed batches with those seen before."""
        for broker in self.brokers.values():
            for number, replica in broker.replicas.items() if broker.is_alive else ():
                if replica.error is not None:
                    assert self.fails, replica.error
                    self.kill(broker)
                    break
                if replica.role in (Role.LEADER, Role.FOLLOWER) and self.chance.random() < 0.03:
                    self._compare(broker, number)

    def _compare(self, broker: _Broker, number: int) -> None:
        log, disk = broker.replicas[number].log, broker.disks[number]
        if log.is_unsettled:
            return
        plan, disk.plan = disk.plan, None
        for base_offset, data in batches_of(log).items():
            if base_offset >= log.log_start_offset and parse_header(data).last_offset < log.high_watermark:
                seen = self.committed[number].setdefault(base_offset, bytes(data))
                assert seen == data, f"t-{number} of broker {broker.broker_id} differs at offset {base_offset}"
        disk.plan = plan

    def settle(self) -> None:
        """Let everything come to rest without further faults; then all replicas must be in sync and identical."""
        self.is_calm = True
        for broker in self.brokers.values():
            for disk in broker.disks.values():
                disk.plan = None
        for _ in range(_ROUNDS):
            self._look()
            self.revive()
            for broker in self.brokers.values():
                for state in self.states:
                    broker.tell(state)
            self.run()
            self.plan()
            while self.requests:
                self.serve()
            while self.responses:
                self.deliver()
            for _ in range(6):
                self.control()
            self.wait()
        for state in self.states:
            self._check_end(state)

    def _check_end(self, state: _State) -> None:
        number = state.number
        assert {*state.isr} == {*BROKERS}, f"t-{number}: the ISR is {state.isr}"
        logs = [broker.replicas[number].log for broker in self.brokers.values()]
        ends: Any = {(log.next_offset, log.high_watermark) for log in logs}
        ((next_offset, high_watermark),) = ends
        assert next_offset == high_watermark
        first = max(log.log_start_offset for log in logs)
        contents = [{base: data for base, data in batches_of(log).items() if base >= first} for log in logs]
        assert contents[0] == contents[1] == contents[2]
        for offset, data in self.committed[number].items():
            assert offset < first or contents[0][offset] == data, f"t-{number} has a different batch at {offset}"
        for offset, value in self.acknowledged[number].items():
            assert offset < first or value in contents[0][offset], f"t-{number} has lost offset {offset}"
