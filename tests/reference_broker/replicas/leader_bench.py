"""The replica on broker 1 of a cluster, with followers and a controller scripted by the test."""

from __future__ import annotations

from typing import Any

from kafkawire.reference_broker.config.topic_configs import log_config
from kafkawire.reference_broker.replicas.cluster_replica import ClusterReplica, Surroundings
from kafkawire.reference_broker.replicas.follower_positions import Follower
from kafkawire.reference_broker.replicas.follower_reads import FollowerRead, read_for_follower
from kafkawire.reference_broker.replicas.in_sync import CommittedIsr
from kafkawire.reference_broker.replicas.isr_requests import Answered, IsrChange
from kafkawire.reference_broker.replicas.replication_quota import ReplicationQuota
from kafkawire.reference_broker.replicas.roles import Role, Term
from kafkawire.reference_broker.storage.batches import parse_header
from kafkawire.reference_broker.storage.disk.memory import MemoryDisk
from kafkawire.reference_broker.storage.log.partition_log import PartitionLog
from kafkawire.reference_broker.storage.services import LogServices
from kafkawire.reference_broker.work.background import Background, at_once
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.messages.fetch import FetchRequest
from kafkawire.sdk.protocol.tables.enums import Acks
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.storage.partitions import Partition
from tests.reference_broker.storage.produced_batches import NOW_MS, produced

__all__ = ["EPOCH", "LAG_MAX_MS", "TOPIC_ID", "LeaderBench"]

LAG_MAX_MS = 30_000
TOPIC_ID = b"i" * 16

#: The first leader epoch, and the broker epoch of follower 2; the broker epoch of follower n is higher by n - 2.
EPOCH = 5
_BROKER_EPOCHS = 100


class LeaderBench:
    """The replica and its surroundings.

    Args:
        replicas: the brokers that host the partition.
        isr: the replicas that are in sync at first.
        background: see `Background`.
        configs: the configurations of the topic.

    Attributes:
        now_ms: the current time.
        alive: the registered brokers.
        topic_id: the topic id in the replica's terms.
        racks: the racks of the brokers.
        quota: the quota on data sent to followers; nothing is throttled at first.
        asked: the unanswered change, if there is one.
        withdrawn: the number of withdrawn changes.
        roles: the roles that have ended.
        acknowledged: the result of each append by `produce`; None until there is one.
    """

    def __init__(
        self,
        replicas: tuple[int, ...] = (1, 2, 3),
        isr: tuple[int, ...] = (1, 2, 3),
        background: Background = at_once,
        **configs: str,
    ) -> None:
        self.now_ms = NOW_MS
        self.replicas, self.isr = replicas, isr
        self.topic_id = TOPIC_ID
        self.racks: dict[int, str] = {}
        self.alive = set(replicas)
        self.asked: list[tuple[IsrChange, Answered]] = []
        self.withdrawn = 0
        self.roles: list[Role] = []
        self.acknowledged: list[ErrorCode | None] = []
        self.disk = MemoryDisk()
        self.disk.make_folder("t-0")
        named = {name.replace("_", "."): value for name, value in configs.items()}
        services = LogServices(self.disk, background, clock=lambda: self.now_ms)
        self.log = PartitionLog(services, "t-0", log_config(named), high_watermark=0)
        self.quota = ReplicationQuota(11, 1_000)
        surroundings = Surroundings(
            1,
            LAG_MAX_MS,
            lambda: self.now_ms,
            lambda each: each in self.alive,
            self,
            self._rack_of,
            quota=self.quota,
        )
        self.replica = ClusterReplica(("t", 0), self.log, surroundings, lambda _, before: self.roles.append(before))

    def _rack_of(self, broker_id: int) -> str | None:
        return self.racks.get(broker_id) if broker_id in self.alive else None

    def submit(self, change: IsrChange, done: Answered) -> None:
        self.asked = [(change, done)]

    def withdraw(self, partition: Partition) -> None:
        self.withdrawn += len(self.asked)
        self.asked = []

    def term(self, leader_epoch: int = EPOCH, leader: int = 1, **fields: Any) -> Term:
        """Return a term whose partition epoch follows from the leader epoch."""
        given = {
            "isr": self.isr,
            "replicas": self.replicas,
            "partition_epoch": 10 * leader_epoch,
            "topic_id": self.topic_id,
            **fields,
        }
        return Term(leader, leader_epoch, **given)

    def lead(self, leader_epoch: int = EPOCH, **fields: Any) -> LeaderBench:
        """Lead in a term."""
        self.replica.lead(self.term(leader_epoch, **fields))
        return self

    def append(self, count: int = 1) -> int:
        """Append records in batches of one record, and return the end of the log."""
        for _ in range(count):
            data = produced(b"v")
            self.replica.append(data, parse_header(data), self.now_ms, lambda result: None)
        return self.log.next_offset

    def produce(self, acks: int = Acks.ALL) -> None:
        """Append a record as Produce does."""
        number = len(self.acknowledged)
        self.acknowledged.append(None)

        def reached(error: BrokerError | None) -> None:
            self.acknowledged[number] = ErrorCode.NONE if error is None else error.code

        try:
            self.replica.check_acks(acks)
        except BrokerError as error:
            reached(error)
            return
        data = produced(b"v")
        self.replica.append(data, parse_header(data), self.now_ms, lambda result: None)
        self.replica.when_acknowledged(acks, self.log.next_offset, reached)

    def fetch(
        self,
        broker_id: int,
        offset: int,
        *,
        arrives: bool = True,
        last_fetched_epoch: int = -1,
        max_bytes: int = 2**20,
        **fields: Any,
    ) -> FollowerRead:
        """Fetch as a follower."""
        given = {"current_leader_epoch": self.replica.leader_epoch, "log_start_offset": 0, **fields}
        wanted = FetchRequest.FetchPartition(
            0, fetch_offset=offset, last_fetched_epoch=last_fetched_epoch, partition_max_bytes=max_bytes, **given
        )
        follower = Follower(broker_id, _BROKER_EPOCHS + broker_id)
        return read_for_follower(
            self.replica, follower, wanted, 2**20, at_least_one=True, arrived_ms=self.now_ms if arrives else None
        )

    def fetch_all(self, *broker_ids: int) -> None:
        """Fetch from the end of the log."""
        for broker_id in broker_ids:
            assert not self.fetch(broker_id, self.log.next_offset).data.error_code

    def wanted(self) -> tuple[int, ...]:
        """Return the ISR that the replica asks for, or an empty one if it asks for no change."""
        return self.asked[0][0].proposed.isr if self.asked else ()

    def answer(self, answer: ErrorCode | tuple[int, ...]) -> None:
        """Answer the change with an error or the resulting ISR."""
        ((change, done),) = self.asked
        self.asked = []
        _, leader_epoch, partition_epoch = change.proposed
        done(answer if isinstance(answer, ErrorCode) else CommittedIsr(answer, leader_epoch, partition_epoch + 1))

    def pass_time(self, milliseconds: int) -> None:
        """Let time pass, then have the replica check its followers."""
        self.now_ms += milliseconds
        self.replica.check_in_sync(self.now_ms)
