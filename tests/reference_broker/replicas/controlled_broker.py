"""The replicas of a broker in a cluster, on in-memory disks, and requests from the controller."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import cast

from kafkawire.reference_broker.cluster.controller.broker_requests import ControlRequest
from kafkawire.reference_broker.config.topic_configs import LogConfig, log_config
from kafkawire.reference_broker.metadata.cluster_metadata import ClusterMetadata
from kafkawire.reference_broker.replicas.control_requests import ControlRequests, PartitionLogs
from kafkawire.reference_broker.replicas.replica import Replica
from kafkawire.reference_broker.replicas.replicas import Replicas
from kafkawire.reference_broker.replicas.roles import Role
from kafkawire.reference_broker.storage.directory.log_directory import LogDirectory, LogPlace
from kafkawire.reference_broker.storage.disk.memory import MemoryDisk
from kafkawire.reference_broker.storage.log.partition_log import PartitionLog
from kafkawire.reference_broker.storage.services import LogServices
from kafkawire.reference_broker.work.timers import Timers
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.messages.leader_and_isr import LeaderAndIsrRequest
from kafkawire.sdk.protocol.messages.stop_replica import StopReplicaRequest
from kafkawire.sdk.protocol.messages.update_metadata import UpdateMetadataRequest
from kafkawire.sdk.protocol.schema import Message
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.storage.partitions import Partition, folder_of

__all__ = [
    "BROKER_EPOCH",
    "BROKER_ID",
    "ID",
    "Controlled",
    "alive",
    "leader_and_isr",
    "state",
    "stop_by_partition",
]

BROKER_ID = 1
BROKER_EPOCH = 50
#: The id of the topic `t`.
ID = b"t" * 16

State = LeaderAndIsrRequest.LeaderAndIsrPartitionState


class Logs:
    """The logs of a broker; see `PartitionLogs`, and `LogDirectory` as `Replicas` uses it.

    Attributes:
        hosted: the logs, keyed by partition.
        created, deleted, identified: the requested operations, in order.
        broken: the partitions whose logs cannot be created, deleted or identified.
        held: the callbacks of creations and deletions while they are held back; None to call them immediately.
    """

    def __init__(self) -> None:
        self.hosted: dict[Partition, PartitionLog] = {}
        self.created: list[LogPlace] = []
        self.deleted: list[Partition] = []
        self.identified: list[Mapping[Partition, bytes]] = []
        self.broken: set[Partition] = set()
        self.held: list[Callable[[], None]] | None = None

    def add(self, partition: Partition) -> PartitionLog:
        """Open the log of a partition."""
        disk, folder = MemoryDisk(), folder_of(*partition)
        disk.make_folder(folder)
        log = PartitionLog(LogServices(disk), folder, log_config({}), high_watermark=0)
        self.hosted[partition] = log
        return log

    def log(self, topic: str, partition: int) -> PartitionLog | None:
        return self.hosted.get((topic, partition))

    def of(self, topic: str) -> Mapping[int, PartitionLog]:
        return {number: log for (name, number), log in self.hosted.items() if name == topic}

    def config_of(self, configs: Mapping[str, str]) -> LogConfig:
        return log_config(configs)

    def create(self, places: Collection[LogPlace], done: Callable[[Mapping[Partition, BrokerError]], None]) -> None:
        self.created += places
        partitions = [place.partition for place in places]
        for partition in partitions:
            if partition not in self.broken:
                self.add(partition)
        self._answer(partitions, done)

    def identify(
        self, topic_ids: Mapping[Partition, bytes], done: Callable[[Mapping[Partition, BrokerError]], None]
    ) -> None:
        self.identified.append(dict(topic_ids))
        self._answer(topic_ids, done)

    def delete(
        self,
        partitions: Collection[Partition],
        end: BrokerError,
        done: Callable[[Mapping[Partition, BrokerError]], None],
    ) -> None:
        self.deleted += partitions
        for partition in partitions:
            log = self.hosted.pop(partition, None)
            if log is not None:
                log.end(end)
        self._answer(partitions, done)

    def _answer(self, partitions: Iterable[Partition], done: Callable[[Mapping[Partition, BrokerError]], None]) -> None:
        failed = {each: BrokerError(ErrorCode.KAFKA_STORAGE_ERROR) for each in partitions if each in self.broken}
        if self.held is None:
            done(failed)
        else:
            self.held.append(lambda: done(failed))


class Controlled:
    """A broker in a cluster.

    Args:
        topic_ids: see `ControlRequests`.
        directory: holds the logs; None for `Logs`.

    Attributes:
        heard: the events so far, in order: role changes, reads of configurations, calls to fetchers.
        responses: the responses so far.
        broker_epoch: the epoch of the broker's registration.
    """

    def __init__(
        self, topic_ids: Mapping[Partition, bytes] | None = None, directory: LogDirectory | None = None
    ) -> None:
        self.broker_epoch = BROKER_EPOCH
        self.heard: list[object] = []
        self.responses: list[Message | Exception] = []
        self.timers = Timers()
        self.logs = Logs()
        self.topic_configs: dict[str, Mapping[str, str]] = {}
        self.cluster = ClusterMetadata("cluster", BROKER_ID, self.of)
        logs: PartitionLogs = directory or self.logs
        self.replicas = Replicas(cast(LogDirectory, logs), self.cluster.metadata, lambda topic, number: None)
        self.replicas.listen(self._stepped)
        self.requests = ControlRequests(
            BROKER_ID,
            lambda: self.broker_epoch,
            self.replicas,
            logs,
            self,
            self.cluster,
            self,
            self.timers,
            lambda: 0,
            topic_ids or {},
        )

    def _stepped(self, partition: Partition, replica: Replica, before: Role) -> None:
        self.heard.append((replica.role.name, partition))

    # Configurations (see `TopicConfigs`).

    def read(self, topics: Collection[str], done: Callable[[], None]) -> None:
        self.heard.append(("read", list(topics)))
        done()

    def of(self, topic: str) -> Mapping[str, str]:
        return self.topic_configs.get(topic, {})

    # Fetchers (see `Fetchers`).

    def follow(self, partition: Partition, leader_id: int, leader_epoch: int) -> None:
        self.heard.append(("fetch", partition, leader_id, leader_epoch))

    def forget(self, partitions: Collection[Partition]) -> None:
        self.heard.append(("forget", list(partitions)))

    # Requests.

    def send(self, message: Message, version: int) -> None:
        """Send a request."""
        self.requests.take(ControlRequest(message, version), self.responses.append)

    def ask(self, message: Message, version: int) -> Message:
        """Send a request, and return its response."""
        before = len(self.responses)
        self.send(message, version)
        self.run()
        (response,) = self.responses[before:]
        assert isinstance(response, Message), response
        return response

    def run(self) -> int:
        """Run everything that is due, and return the number of turns."""
        turns = 0
        while self.timers.next_deadline_ms is not None:
            self.timers.fire(0)
            turns += 1
        return turns

    def take(self) -> list[object]:
        """Return the events since the last call."""
        heard, self.heard = self.heard, []
        return heard

    def role(self, number: int = 0, topic: str = "t") -> Role | None:
        """Return the role of a replica, or None if there is none."""
        replica = self.replicas.get(topic, number)
        return None if replica is None else replica.role


def state(
    number: int = 0,
    leader: int = BROKER_ID,
    leader_epoch: int = 3,
    replicas: Collection[int] = (1, 2),
    partition_epoch: int = 0,
) -> State:
    """Return the state of a partition for a LeaderAndIsr request."""
    return State("t", number, 7, leader, leader_epoch, [1, 2], partition_epoch, list(replicas))


def leader_and_isr(
    *states: State, topic_id: bytes = ID, controller_epoch: int = 7, broker_epoch: int = BROKER_EPOCH, topic: str = "t"
) -> LeaderAndIsrRequest:
    """Return a LeaderAndIsr request for partitions of a topic."""
    return LeaderAndIsrRequest(
        controller_id=9,
        controller_epoch=controller_epoch,
        broker_epoch=broker_epoch,
        topic_states=[LeaderAndIsrRequest.LeaderAndIsrTopicState(topic, topic_id, list(states))],
    )


def stop_by_partition(
    *stops: tuple[int, int, bool], controller_epoch: int = 7, broker_epoch: int = BROKER_EPOCH
) -> StopReplicaRequest:
    """Return a StopReplica request for partitions of topic `t`, each with its leader epoch and whether to delete it."""
    states = [StopReplicaRequest.StopReplicaPartitionState(*stop) for stop in stops]
    return StopReplicaRequest(
        controller_id=9,
        controller_epoch=controller_epoch,
        broker_epoch=broker_epoch,
        topic_states=[StopReplicaRequest.StopReplicaTopicState("t", states)],
    )


def alive(
    *broker_ids: int, controller_epoch: int = 7, broker_epoch: int = BROKER_EPOCH, topics: Collection[str] = ()
) -> UpdateMetadataRequest:
    """Return an UpdateMetadata request with the live brokers, and some topics with one partition each."""
    partition = UpdateMetadataRequest.UpdateMetadataPartitionState(leader=2, replicas=[2])
    Topic = UpdateMetadataRequest.UpdateMetadataTopicState
    return UpdateMetadataRequest(
        controller_id=9,
        controller_epoch=controller_epoch,
        broker_epoch=broker_epoch,
        topic_states=[Topic(name, name.encode() * 16, [partition]) for name in topics],
        live_brokers=[UpdateMetadataRequest.UpdateMetadataBroker(each) for each in broker_ids],
    )
