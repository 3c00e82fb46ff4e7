"""The replicas that a broker has: handlers ask here for a partition, as its leader.

Source: `ReplicaManager` in Apache Kafka.
"""

from __future__ import annotations

from kafkawire.reference_broker.replicas.replica import Replica
from kafkawire.reference_broker.storage.directory.log_directory import LogDirectory, Topic
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.tables.enums import NO_PARTITION_LEADER_EPOCH
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode

__all__ = ["Replicas"]


class Replicas:
    """The replicas of one broker.

    Args:
        directory: has their logs; it tells when topics come and go.
    """

    def __init__(self, directory: LogDirectory) -> None:
        #: By topic, in order of partition number.
        self._hosted: dict[str, list[Replica]] = {}
        for topic in directory.topics.values():
            self.came(topic)
        directory.listener = self

    def of(self, topic: str) -> list[Replica]:
        """Return the replicas of a topic, in order of partition number; none of a topic that is not here."""
        return self._hosted.get(topic, [])

    def get(self, topic: str, number: int) -> Replica | None:
        """Return the replica of a partition, None if it is not here."""
        replicas = self._hosted.get(topic)
        return replicas[number] if replicas is not None and 0 <= number < len(replicas) else None

    def leader(self, topic: str, number: int, epoch: int = NO_PARTITION_LEADER_EPOCH) -> Replica:
        """Return the replica of a partition that this broker leads.

        Args:
            topic: its name.
            number: of the partition.
            epoch: the leader epoch known to the client; `NO_PARTITION_LEADER_EPOCH` if it sent none.

        Raises:
            BrokerError: UNKNOWN_TOPIC_OR_PARTITION; or see `Replica.check`.
        """
        replica = self.get(topic, number)
        if replica is None:
            raise BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        replica.check(epoch)
        return replica

    # What the directory tells, see `TopicListener`.

    def came(self, topic: Topic) -> None:
        self._hosted[topic.name] = [Replica(log) for log in topic.logs]

    def gone(self, topic: Topic) -> None:
        replicas = self._hosted.get(topic.name)
        if replicas and replicas[0].log is topic.logs[0]:  # not one that was created with its name meanwhile
            del self._hosted[topic.name]

    def abandoned(self) -> None:
        self._hosted.clear()
