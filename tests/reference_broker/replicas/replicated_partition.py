"""A partition on three brokers: broker 1 is real, and the test plays brokers 2 and 3, the controller and the network.

Whenever broker 1 begins to lead, another replica is rebuilt from the records alone. It then gets the same requests,
answers and times as the real replica, and the two are compared.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

from kafkawire.reference_broker.config.topic_configs import log_config
from kafkawire.reference_broker.replicas.cluster_replica import ClusterReplica, IsrKeeper, Surroundings
from kafkawire.reference_broker.replicas.follower_positions import Follower
from kafkawire.reference_broker.replicas.follower_reads import FollowerRead, read_for_follower
from kafkawire.reference_broker.replicas.in_sync import CommittedIsr
from kafkawire.reference_broker.replicas.isr_requests import AlterPartition, Answered, IsrChange
from kafkawire.reference_broker.replicas.roles import Role, Term
from kafkawire.reference_broker.storage.batches import parse_header
from kafkawire.reference_broker.storage.disk.disk import FileSlice
from kafkawire.reference_broker.storage.disk.memory import MemoryDisk
from kafkawire.reference_broker.storage.log.partition_log import PartitionLog
from kafkawire.reference_broker.storage.services import LogServices
from kafkawire.sdk.errors import BrokerError, ConnectionLost, PartialBatch
from kafkawire.sdk.protocol.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse
from kafkawire.sdk.protocol.messages.fetch import FetchRequest
from kafkawire.sdk.protocol.schema import Message
from kafkawire.sdk.protocol.tables.enums import Acks
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.records import walk
from kafkawire.sdk.storage.partitions import Partition
from tests.reference_broker.storage.produced_batches import NOW_MS, produced

__all__ = ["BROKERS", "LAG_MAX_MS", "ReplicatedPartition"]

BROKERS = (1, 2, 3)
LAG_MAX_MS = 1_000
TOPIC_ID = b"i" * 16
NO_LEADER = -1

#: A record: the epoch in which it was written, and its value.
Record = tuple[int, bytes]
Answering = tuple[Message | Exception, Callable[[Message | Exception], None]]


class Known(NamedTuple):
    """The term that a broker was last told."""

    leader: int = NO_LEADER
    leader_epoch: int = -1


class SharedAnswers:
    """The real replica's keeper: it sends changes to AlterPartition, and answers to the rebuilt replica as well."""

    def __init__(self, partition: ReplicatedPartition, machine: IsrKeeper) -> None:
        self._partition = partition
        self._machine = machine

    def submit(self, change: IsrChange, done: Answered) -> None:
        def answered(answer: CommittedIsr | ErrorCode) -> None:
            rebuilt_change = self._partition.rebuilt_change
            if self._partition.rebuilt is not None and rebuilt_change is not None:
                self._partition.rebuilt_change = None
                assert rebuilt_change[0] == change
                rebuilt_change[1](answer)
            done(answer)

        self._machine.submit(change, answered)

    def withdraw(self, partition: Partition) -> None:
        self._machine.withdraw(partition)


class RebuiltKeeper:
    """Holds the rebuilt replica's change until the real one gets its answer."""

    def __init__(self, partition: ReplicatedPartition) -> None:
        self._partition = partition

    def submit(self, change: IsrChange, done: Answered) -> None:
        self._partition.rebuilt_change = change, done

    def withdraw(self, partition: Partition) -> None:
        self._partition.rebuilt_change = None


class ReplicatedPartition:
    """The partition on its three brokers.

    Attributes:
        isr, leader, leader_epoch, partition_epoch: the values that the controller has stored.
        acknowledged: the records that all in-sync replicas acknowledged, keyed by offset.
        refused: the number of records whose producers got an error.
    """

    def __init__(self, min_insync_replicas: int) -> None:
        self._config = log_config({"min.insync.replicas": str(min_insync_replicas)})
        self.now_ms = NOW_MS
        self.alive: set[int] = set(BROKERS)
        self.leader, self.leader_epoch, self.partition_epoch = 1, 1, 1
        self.isr: tuple[int, ...] = BROKERS
        self.known: dict[int, Known] = dict.fromkeys(BROKERS, Known())
        self.logs: dict[int, list[Record]] = {2: [], 3: []}
        self.requests: list[tuple[AlterPartitionRequest, Callable[[Message | Exception], None]]] = []
        self.answers: list[Answering] = []
        self.pauses: list[Callable[[], None]] = []
        self.acknowledged: dict[int, bytes] = {}
        self.refused = 0
        self._values = 0
        self._disk = MemoryDisk()
        self._disk.make_folder("t-0")
        self.rebuilt: ClusterReplica | None = None
        self.rebuilt_change: tuple[IsrChange, Answered] | None = None
        self._highest = 0
        self._open(0)
        for broker_id in BROKERS:
            self.tell(broker_id)

    def _open(self, high_watermark: int) -> None:
        self.alter_partition = AlterPartition(1, lambda: 1, self, self._later, lambda: self.now_ms)
        log = self._new_log(self._disk, high_watermark)
        self.replica = ClusterReplica(("t", 0), log, self._surroundings(SharedAnswers(self, self.alter_partition)))

    def _new_log(self, disk: MemoryDisk, high_watermark: int) -> PartitionLog:
        services = LogServices(disk, clock=lambda: self.now_ms)
        return PartitionLog(services, "t-0", self._config, is_clean=False, high_watermark=high_watermark)

    def _surroundings(self, keeper: IsrKeeper) -> Surroundings:
        return Surroundings(1, LAG_MAX_MS, lambda: self.now_ms, lambda each: each in self.alive, keeper)

    @property
    def leads(self) -> bool:
        """Whether the real replica believes that it leads."""
        return self.replica.role is Role.LEADER

    def records_of(self, broker_id: int) -> list[Record]:
        """Return the records in the log of a broker."""
        return self.logs[broker_id] if broker_id in self.logs else records_in(self.replica.log)

    # Broker 1: its clients and its time.

    def produce(self, acks: int) -> None:
        """Append a record to broker 1 as Produce does."""
        self._values += 1
        value = b"%d" % self._values
        try:
            self.replica.check_acks(acks)
        except BrokerError:
            self.refused += 1
            return
        for replica in filter(None, (self.replica, self.rebuilt)):
            data = produced(value)
            replica.append(data, parse_header(data), self.now_ms, lambda result: None)
        offset = self.replica.log.next_offset - 1

        def acknowledged(error: BrokerError | None) -> None:
            if error is not None:
                self.refused += 1
            elif acks == Acks.ALL:
                assert offset < self.replica.log.high_watermark
                self.acknowledged[offset] = value

        self.replica.when_acknowledged(acks, offset + 1, acknowledged)

    def pass_time(self, milliseconds: int) -> None:
        """Let time pass, then have broker 1 check its followers."""
        self.now_ms += milliseconds
        for replica in filter(None, (self.replica, self.rebuilt)):
            replica.check_in_sync(self.now_ms)

    # Followers.

    def fetch(self, broker_id: int, max_bytes: int, *, is_lost: bool) -> None:
        """Fetch from broker 1 as another broker, if it was told to follow; the response may be lost."""
        if broker_id not in self.alive or self.known[broker_id].leader != 1:
            return
        own = self.logs[broker_id]
        wanted = FetchRequest.FetchPartition(
            0,
            current_leader_epoch=self.known[broker_id].leader_epoch,
            fetch_offset=len(own),
            last_fetched_epoch=own[-1][0] if own else -1,
            log_start_offset=0,
            partition_max_bytes=max_bytes,
        )
        reads = [
            read_for_follower(
                replica, Follower(broker_id, 50 + broker_id), wanted, 2**20, at_least_one=True, arrived_ms=self.now_ms
            )
            for replica in filter(None, (self.replica, self.rebuilt))
        ]
        assert len({_comparable(each) for each in reads}) == 1
        data = reads[0].data
        if is_lost or data.error_code:
            return
        if data.diverging_epoch.end_offset >= 0:
            epoch, end_offset = data.diverging_epoch.epoch, data.diverging_epoch.end_offset
            own_end = sum(record_epoch <= epoch for record_epoch, _ in own)
            del own[min(own_end, end_offset) :]
        else:
            own += records_by(_bytes_of(data.records))

    def copy(self, broker_id: int) -> None:
        """Copy everything from a leader other than broker 1, if the broker follows it."""
        leader = self.leader
        if {broker_id, leader} - self.alive or leader in (1, broker_id, NO_LEADER):
            return
        if self.known[broker_id] != Known(leader, self.leader_epoch) or self.known[leader] != self.known[broker_id]:
            return
        theirs, own = self.logs[leader], self.records_of(broker_id)
        pairs = enumerate(zip(theirs, own, strict=False))
        common = next((at for at, (one, other) in pairs if one != other), min(len(theirs), len(own)))
        if broker_id != 1:
            self.logs[broker_id] = list(theirs)
            return
        log = self.replica.log
        if common < log.next_offset:
            log.truncate_to(common, lambda error: None)
        for offset, (epoch, value) in list(enumerate(theirs))[common:]:
            log.append_as_follower(_batch(offset, epoch, value), offset, self.leader_epoch, self.now_ms, lambda _: None)
        self.replica.followed(min(len(self.records_of(each)) for each in self.isr), 0)

    def append_elsewhere(self) -> None:
        """Append a record to the log of another leader, which will never acknowledge it."""
        if self.leader in self.logs and self.known[self.leader] == Known(self.leader, self.leader_epoch):
            self._values += 1
            self.logs[self.leader].append((self.leader_epoch, b"%d" % self._values))

    # The controller.

    def ask(
        self, message: Message, done: Callable[[Message | Exception], None], timeout_ms: int, version: int | None = None
    ) -> Callable[[], None]:
        assert isinstance(message, AlterPartitionRequest)
        self.requests.append((message, done))
        return lambda: None

    def _later(self, delay_ms: int, callback: Callable[[], None]) -> Callable[[], None]:
        self.pauses.append(callback)
        return lambda: None

    def end_pause(self) -> None:
        """End a pause of AlterPartition."""
        if self.pauses:
            self.pauses.pop(0)()

    def take_request(self, error: ErrorCode | None) -> None:
        """Handle a request, or answer it with an error; the answer is then in transit."""
        if self.requests:
            message, done = self.requests.pop(0)
            (data,) = message.topics[0].partitions
            answer = self._alter(data) if error is None else AlterPartitionResponse.PartitionData(0, error)
            topics = [AlterPartitionResponse.TopicData(TOPIC_ID, [answer])]
            self.answers.append((AlterPartitionResponse(topics=topics), done))

    def lose_request(self, error: ErrorCode | None) -> None:
        """Lose a request, or refuse it as a whole."""
        if self.requests:
            _, done = self.requests.pop(0)
            lost = ConnectionLost("gone") if error is None else AlterPartitionResponse(error_code=error)
            self.answers.append((lost, done))

    def deliver(self, *, is_lost: bool) -> None:
        """Deliver an answer, or lose it."""
        if self.answers:
            answer, done = self.answers.pop(0)
            done(ConnectionLost("gone") if is_lost else answer)

    def lose_answer(self, error: ErrorCode | None) -> None:
        """Make a change but lose the answer; then answer the retry, either with an error or correctly."""
        if self.requests and not self.answers:
            self.take_request(None)
            self.deliver(is_lost=True)
            self.end_pause()
            self.take_request(error)
            self.deliver(is_lost=False)

    def _alter(self, data: AlterPartitionRequest.PartitionData) -> AlterPartitionResponse.PartitionData:
        isr = tuple(each.broker_id for each in data.new_isr_with_epochs)
        if data.leader_epoch != self.leader_epoch:
            return AlterPartitionResponse.PartitionData(0, ErrorCode.FENCED_LEADER_EPOCH)
        if isr != self.isr:
            if data.partition_epoch != self.partition_epoch:
                return AlterPartitionResponse.PartitionData(0, ErrorCode.INVALID_UPDATE_VERSION)
            if not set(isr) <= self.alive:
                return AlterPartitionResponse.PartitionData(0, ErrorCode.INELIGIBLE_REPLICA)
            self.isr = isr
            self.partition_epoch += 1
        return AlterPartitionResponse.PartitionData(
            leader_id=1, leader_epoch=self.leader_epoch, isr=self.isr, partition_epoch=self.partition_epoch
        )

    def elect(self, broker_id: int | None = None) -> None:
        """Elect a leader among the live in-sync replicas, beginning a new epoch."""
        eligible = [each for each in self.isr if each in self.alive]
        self.leader = broker_id if broker_id in eligible else next(iter(eligible), NO_LEADER)
        self.leader_epoch += 1
        self.partition_epoch += 1

    def change_elsewhere(self, broker_id: int) -> None:
        """Let a leader other than broker 1 remove a follower from the ISR, or add one that has all records."""
        if self.leader in (1, NO_LEADER) or self.known[self.leader] != Known(self.leader, self.leader_epoch):
            return
        if broker_id in self.isr and broker_id != self.leader:
            self.isr = tuple(each for each in self.isr if each != broker_id)
        elif broker_id in self.alive and self.records_of(broker_id) == self.logs[self.leader]:
            self.isr = (*dict.fromkeys((*self.isr, broker_id)),)
        self.partition_epoch += 1

    def tell(self, broker_id: int) -> None:
        """Send a broker the controller's current term."""
        known = Known(self.leader, self.leader_epoch)
        if broker_id not in self.alive or self.known[broker_id] == known:
            return
        self.known[broker_id] = known
        if broker_id != 1:
            return
        term = Term(self.leader, self.leader_epoch, self.isr, BROKERS, self.partition_epoch, topic_id=TOPIC_ID)
        if self.leader != 1:
            self.replica.follow(term)
            self.rebuilt = self.rebuilt_change = None
            return
        if not self.leads:
            self._highest = self.replica.log.high_watermark
            self._rebuild()
        self.replica.lead(term)
        if self.rebuilt is not None:
            self.rebuilt.lead(term)

    def tell_again(self) -> None:
        """Send broker 1 the term that it already knows, as happens when a topic is given an id."""
        term = self.replica.term
        if self.leads and term is not None:
            for replica in filter(None, (self.replica, self.rebuilt)):
                replica.lead(term)

    def _rebuild(self) -> None:
        """Build a replica from the records of the real replica."""
        disk = MemoryDisk()
        disk.make_folder("t-0")
        log = self._new_log(disk, 0)
        for offset, (epoch, value) in enumerate(records_in(self.replica.log)):
            log.append_as_follower(_batch(offset, epoch, value), offset, epoch, self.now_ms, lambda result: None)
        log.set_high_watermark(self.replica.log.high_watermark)
        self.rebuilt_change = None
        self.rebuilt = ClusterReplica(("t", 0), log, self._surroundings(RebuiltKeeper(self)))

    # Deaths.

    def kill(self, broker_id: int, kept: int) -> None:
        """Kill a broker; the controller removes it from the ISR unless it is the last in-sync replica.

        Args:
            broker_id: the broker.
            kept: the number of records by which the stored high watermark lags behind when broker 1 restarts.
        """
        if broker_id not in self.alive:
            return
        self.alive.remove(broker_id)
        self.known[broker_id] = Known()
        if broker_id == 1:
            self.alter_partition.close()
            self.pauses.clear()
            self.rebuilt = self.rebuilt_change = None
            self._open(max(self.replica.log.high_watermark - kept, 0))
        if broker_id in self.isr and len(self.isr) > 1:
            self.isr = tuple(each for each in self.isr if each != broker_id)
        self.elect(self.leader)

    def revive(self, broker_id: int) -> None:
        """Start a broker that was killed."""
        if broker_id not in self.alive:
            self.alive.add(broker_id)
            if self.leader == NO_LEADER:
                self.elect()

    def restart(self, kept: int) -> None:
        """Kill broker 1 and restart it immediately; see `kill`."""
        self.kill(1, kept)
        self.revive(1)
        self.tell(1)

    def settle(self) -> None:
        """Let everything pending happen, without further faults; in the end, broker 1 leads."""
        for broker_id in BROKERS:
            self.revive(broker_id)
        for _ in range(2):
            self.elect(1)
            for _ in range(4):
                self._go_on()
            for broker_id in set(BROKERS) - set(self.isr):
                self.change_elsewhere(broker_id)

    def _go_on(self) -> None:
        while self.requests or self.answers or self.pauses:
            self.take_request(None)
            self.deliver(is_lost=False)
            self.end_pause()
        for broker_id in BROKERS:
            self.tell(broker_id)
            self.copy(broker_id)
            if broker_id != 1:
                for _ in range(4):
                    self.fetch(broker_id, 2**20, is_lost=False)

    # The invariants.

    def check(self) -> None:
        """Check the invariants after each step."""
        for broker_id in self.isr:
            records = self.records_of(broker_id)
            for offset, value in self.acknowledged.items():
                assert len(records) > offset, f"broker {broker_id} lacks the acknowledged offset {offset}"
                assert records[offset][1] == value, f"broker {broker_id} has a different record at offset {offset}"
        if self.leads:
            self._check_leader()
        if self.rebuilt is not None:
            assert _state_of(self.rebuilt) == _state_of(self.replica)

    def _check_leader(self) -> None:
        replica, high_watermark = self.replica, self.replica.log.high_watermark
        assert high_watermark >= self._highest, "the high watermark has moved back within an epoch"
        if high_watermark > self._highest:
            ends = [each.end_offset for each in map(replica.position, replica.maximal_isr - {1}) if each is not None]
            assert len(ends) == len(replica.maximal_isr) - 1
            assert high_watermark <= min([*ends, replica.log.acknowledged_to])
        self._highest = high_watermark


def _state_of(replica: ClusterReplica) -> tuple[object, ...]:
    positions = [replica.position(each) for each in BROKERS[1:]]
    return (
        replica.isr,
        replica.maximal_isr,
        replica.epoch_start,
        replica.log.high_watermark,
        replica.log.next_offset,
        [each and (each.end_offset, each.caught_up_ms, each.fetched_ms, each.leader_end_offset) for each in positions],
    )


def _comparable(read: FollowerRead) -> tuple[object, ...]:
    data = read.data
    diverging = data.diverging_epoch.epoch, data.diverging_epoch.end_offset
    return data.error_code, data.high_watermark, diverging, _bytes_of(data.records), read.is_at_end


def _bytes_of(records: object) -> bytes:
    return records.read() if isinstance(records, FileSlice) else b""


def _batch(offset: int, epoch: int, value: bytes) -> bytes:
    data = produced(value)
    data[0:8] = offset.to_bytes(8, "big")
    data[12:16] = epoch.to_bytes(4, "big")
    return bytes(data)


def records_by(data: bytes) -> list[Record]:
    """Return the records of complete batches, each with the epoch of its batch; the last batch may be partial."""
    found: list[Record] = []
    with suppress(PartialBatch):
        for batch in walk(data):
            found += [(batch.partition_leader_epoch, bytes(record.value or b"")) for record in batch.records()]
    return found


def records_in(log: PartitionLog) -> list[Record]:
    """Return the records of a log in which each batch has one record."""
    found: list[Record] = []
    for file, header in log.headers():
        found += records_by(bytes(file.read(header.position, header.size_bytes)))
    return found
