"""A broker without sockets, the first of three brokers that host the only partition of topic `t`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from kafkawire.reference_broker.metadata.image import BrokerRegistration
from kafkawire.reference_broker.replicas.replica import Replica
from kafkawire.reference_broker.replicas.replicas import CurrentLeader
from kafkawire.reference_broker.requests.delayed_operations import DelayedOperation
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.messages.fetch import FetchRequest, FetchResponse
from kafkawire.sdk.protocol.tables.enums import NO_LEADER_ID, NO_PARTITION_LEADER_EPOCH
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.transport.wire import Address
from tests.reference_broker.broker_bench import BrokerBench
from tests.reference_broker.replicas.leader_bench import LeaderBench

__all__ = ["ClusterBench", "partition_in"]


class _Replicas:
    """The broker's replicas: that of its partition, and those that tests add to `others`."""

    def __init__(self, replica: Replica) -> None:
        self._replica = replica
        self.others: dict[tuple[str, int], Replica] = {}
        self.checkpoints: list[Callable[[BrokerError | None], None]] = []

    def get(self, topic: str, number: int) -> Replica | None:
        return self._replica if (topic, number) == ("t", 0) else self.others.get((topic, number))

    def leader(self, topic: str, number: int, epoch: int = NO_PARTITION_LEADER_EPOCH) -> Replica:
        replica = self.get(topic, number)
        if replica is None:
            raise self.missing(topic, number)
        replica.check(epoch)
        return replica

    def missing(self, topic: str, number: int) -> BrokerError:
        return BrokerError(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def current_leader(self, topic: str, number: int) -> CurrentLeader:
        term = self._replica.term
        if term is None:
            return CurrentLeader(NO_LEADER_ID, NO_PARTITION_LEADER_EPOCH, None)
        broker = BrokerRegistration(term.leader, {"PLAINTEXT": Address(f"host{term.leader}", 9000)}, "b")
        return CurrentLeader(term.leader, term.leader_epoch, broker if term.leader == 2 else None)

    def checkpoint(self, done: Callable[[BrokerError | None], None]) -> None:
        done(None)


class ClusterBench(BrokerBench):
    """The broker.

    Args:
        folder: the data directory.
        arguments: see `LeaderBench`.

    Attributes:
        leader: the replica and its surroundings.
        topic_id: the topic's id.
        replicas: all replicas.
    """

    def __init__(self, folder: Path, **arguments: Any) -> None:
        super().__init__(folder)
        self.topic_id = self.create("t", 2)
        self.leader = LeaderBench(**arguments)
        self.leader.topic_id = self.topic_id
        self.replicas = _Replicas(self.leader.replica)
        self.use(replicas=self.replicas)

    def advance(self, milliseconds: int) -> None:
        """Let time pass."""
        self.leader.now_ms += milliseconds
        super().advance(milliseconds)

    def follow(self, offset: int, broker_id: int = 2, **fields: Any) -> Any:
        """Fetch as a follower, in version 17; return the response, or a delayed operation."""
        given = {"session_epoch": -1, "session_id": 0, "max_wait_ms": 500, "min_bytes": 1, "partition": 0, **fields}
        number = given.pop("partition")
        wanted = {
            "current_leader_epoch": self.leader.replica.leader_epoch,
            "log_start_offset": 0,
            **{name: given.pop(name) for name in ("last_fetched_epoch", "current_leader_epoch") if name in given},
        }
        partition = FetchRequest.FetchPartition(number, fetch_offset=offset, partition_max_bytes=2**20, **wanted)
        topics = [FetchRequest.FetchTopic(topic_id=self.topic_id, partitions=[partition])] if offset >= 0 else []
        state = FetchRequest.ReplicaState(broker_id, 100 + broker_id)
        return self.ask(FetchRequest(replica_state=state, topics=topics, **given), 17)

    def consume(self, offset: int, version: int = 17, **fields: Any) -> Any:
        """Fetch as a consumer; return the partition in the response."""
        named = ("current_leader_epoch", "last_fetched_epoch")
        wanted = {"current_leader_epoch": -1, **{name: fields.pop(name) for name in named if name in fields}}
        partition = FetchRequest.FetchPartition(0, fetch_offset=offset, partition_max_bytes=2**20, **wanted)
        topic = FetchRequest.FetchTopic("" if version > 12 else "t", partitions=[partition])
        if version > 12:
            topic.topic_id = fields.pop("topic_id", self.topic_id)
        return partition_in(self.ask(FetchRequest(topics=[topic], session_epoch=-1, **fields), version))


def partition_in(response: Any) -> FetchResponse.PartitionData:
    """Return the only partition in a response, which may have been delayed."""
    if isinstance(response, DelayedOperation):
        response = response.response
    ((partition,),) = ([*topic.partitions] for topic in response.responses)
    assert isinstance(partition, FetchResponse.PartitionData)
    return partition
