"""A broker's replicas, through which request handlers access the partitions that the broker leads.

A replica gets its role from one of two sources: the metadata image of a single broker (`local_roles.py`), or the
requests of a cluster's controller. In the other direction, listeners are told about each step, and `lost` is told about
logs that have gone offline.

Source: `ReplicaManager` in Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import NamedTuple

from kafkawire.reference_broker.metadata.image import UNKNOWN_PARTITION, BrokerRegistration
from kafkawire.reference_broker.metadata.metadata_cache import MetadataCache
from kafkawire.reference_broker.replicas.replica import Replica, RoleChanged
from kafkawire.reference_broker.replicas.roles import Role, Term
from kafkawire.reference_broker.storage.directory.log_directory import LogDirectory
from kafkawire.reference_broker.storage.log.partition_log import PartitionLog
from kafkawire.reference_broker.work.background import call
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.tables.enums import NO_PARTITION_LEADER_EPOCH
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.storage.partitions import Partition

__all__ = ["CurrentLeader", "NewReplica", "Replicas", "RoleListener", "sole_replica"]

#: Called with a partition, its replica, and the replica's former role (see `RoleChanged`). This lets a coordinator
#: resign before the end of its role could be mistaken for a failure of its log.
RoleListener = Callable[[Partition, Replica, Role], None]

#: Creates the replica of a partition, given the log and the callback for role changes.
NewReplica = Callable[[Partition, PartitionLog, RoleChanged], Replica]


def sole_replica(partition: Partition, log: PartitionLog, on_role: RoleChanged) -> Replica:
    """Return the only replica of a partition; see `NewReplica`."""
    return Replica(log, on_role)


class CurrentLeader(NamedTuple):
    """The leader of a partition, to this broker's knowledge (KIP-951).

    Attributes:
        leader_id: the id of the leader's broker; `NO_LEADER_ID` if unknown.
        leader_epoch: the epoch in which it leads; `NO_PARTITION_LEADER_EPOCH` if unknown.
        broker: the leader's broker; None if it is not alive.
    """

    leader_id: int
    leader_epoch: int
    broker: BrokerRegistration | None


class Replicas:
    """The replicas of one broker.

    Args:
        directory: holds the logs of the replicas.
        metadata: what the broker knows about its cluster.
        lost: called with the topic and the number of a partition whose log has gone offline.
        new_replica: creates the replicas.
    """

    def __init__(
        self,
        directory: LogDirectory,
        metadata: MetadataCache,
        lost: Callable[[str, int], None],
        new_replica: NewReplica = sole_replica,
    ) -> None:
        self._directory = directory
        self._metadata = metadata
        self._lost = lost
        self._new_replica = new_replica
        #: Keyed by topic and partition number.
        self._hosted: dict[str, dict[int, Replica]] = {}
        self._listeners: list[RoleListener] = []

    def of(self, topic: str) -> list[Replica]:
        """Return the replicas of a topic in order of partition number; empty for an unknown topic."""
        hosted = self._hosted.get(topic, {})
        return [hosted[number] for number in sorted(hosted)]

    def all(self) -> Iterator[tuple[Partition, Replica]]:
        """Yield all partitions with their replicas."""
        for topic, hosted in self._hosted.items():
            for number, replica in hosted.items():
                yield (topic, number), replica

    def get(self, topic: str, number: int) -> Replica | None:
        """Return the replica of a partition in any role, or None if there is none."""
        hosted = self._hosted.get(topic)
        return None if hosted is None else hosted.get(number)

    def leader(self, topic: str, number: int, epoch: int = NO_PARTITION_LEADER_EPOCH) -> Replica:
        """Return the replica of a partition that this broker leads.

        Args:
            topic: the name of the topic.
            number: number of the partition.
            epoch: the leader epoch known to the client; `NO_PARTITION_LEADER_EPOCH` if it sent none.

        Raises:
            BrokerError: see `missing` and `Replica.check`.
        """
        replica = self.get(topic, number)
        if replica is None:
            raise self.missing(topic, number)
        replica.check(epoch)
        return replica

    def missing(self, topic: str, number: int) -> BrokerError:
        """Return the error for a partition without a replica here.

        Returns:
            NOT_LEADER_OR_FOLLOWER if other brokers have the partition, so that clients look for them; otherwise
            UNKNOWN_TOPIC_OR_PARTITION.
        """
        known = self._metadata.image.topics.get(topic)
        if known is None or known.partition(number) is UNKNOWN_PARTITION:
            return BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return BrokerError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"this broker has no replica of {topic}-{number}")

    def current_leader(self, topic: str, number: int) -> CurrentLeader:
        """Return what to tell clients about the leader of a partition that this broker does not lead.

        Args:
            topic: the name of the topic.
            number: number of the partition.
        """
        image, replica = self._metadata.image, self.get(topic, number)
        known = image.topics.get(topic)
        if replica is not None and replica.term is not None:
            leader_id, leader_epoch = replica.term.leader, replica.term.leader_epoch
        else:
            partition = UNKNOWN_PARTITION if known is None else known.partition(number)
            leader_id, leader_epoch = partition.leader, partition.leader_epoch
        return CurrentLeader(leader_id, leader_epoch, image.brokers.get(leader_id))

    def checkpoint(self, done: Callable[[BrokerError | None], None]) -> None:
        """Make the start offsets of the logs durable; see `LogDirectory.checkpoint`."""
        self._directory.checkpoint(done)

    def abandon(self) -> None:
        """Release all logs."""
        self._hosted.clear()

    # Roles.

    def listen(self, listener: RoleListener) -> None:
        """Add a listener for every later step of every replica; it is called after earlier listeners."""
        self._listeners.append(listener)

    def host(self, topic: str, number: int) -> Replica | None:
        """Return the replica of a partition, creating it if it is new; None if the directory has no log for it."""
        replica = self.get(topic, number)
        if replica is None and (log := self._directory.log(topic, number)) is not None:
            replica = self._new_replica((topic, number), log, partial(self._changed_role, (topic, number)))
            self._hosted.setdefault(topic, {})[number] = replica
        return replica

    def lead(self, topic: str, number: int, term: Term) -> None:
        """Lead a partition whose log is in the directory; see `Replica.lead`.

        Raises:
            BrokerError: KAFKA_STORAGE_ERROR if its log has failed; UNKNOWN_TOPIC_OR_PARTITION if it has no log.
            LocalProtocolError: the log has records from a later epoch.
        """
        self._online(topic, number).lead(term)

    def follow(self, topic: str, number: int, term: Term) -> None:
        """Follow the leader of a partition whose log is in the directory; see `Replica.follow`.

        Raises:
            BrokerError: see `lead`.
        """
        self._online(topic, number).follow(term)

    def stop(self, topic: str, number: int) -> None:
        """Stop leading or following a partition; see `Replica.stop`.

        Raises:
            BrokerError: see `lead`.
        """
        self._online(topic, number).stop()

    def delete(self, topic: str, number: int, error: BrokerError) -> None:
        """End the log of a partition that is deleted from this broker, and forget its replica, if there is one.

        Args:
            topic: the name of the topic.
            number: number of the partition.
            error: see `Replica.delete`.
        """
        replica = self.get(topic, number)
        if replica is None:
            return
        # Callbacks run while the replica can still be found, so that they can also learn the reason here.
        replica.delete(error)
        hosted = self._hosted.get(topic, {})
        if hosted.get(number) is replica:
            del hosted[number]
        if not hosted:
            self._hosted.pop(topic, None)

    def configure(self, topic: str, configs: Mapping[str, str]) -> None:
        """Apply new configurations to the logs of a topic, including those whose replicas have no role yet.

        Args:
            topic: the name of the topic.
            configs: configurations that differ from the defaults, keyed by Kafka's names.
        """
        config = self._directory.config_of(configs)
        for log in self._directory.of(topic).values():
            log.configure(config)

    def _online(self, topic: str, number: int) -> Replica:
        replica = self.host(topic, number)
        if replica is None:
            raise BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"this broker has no log for {topic}-{number}")
        if replica.error is not None:
            raise replica.error.again()
        return replica

    def _changed_role(self, partition: Partition, replica: Replica, before: Role) -> None:
        for listener in self._listeners:
            call(listener, partition, replica, before)
        if replica.role is Role.OFFLINE:
            self._lost(*partition)
