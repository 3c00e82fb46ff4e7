"""The replicas of a broker; handlers get partitions that the broker leads from here.

`changed` applies metadata changes: the broker leads a partition, a topic's configurations change, or a topic is
deleted. In the other direction, `lost` reports logs that have gone offline.

Source: `ReplicaManager.applyDelta`, `TopicConfigHandler` in Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from kafkawire.reference_broker.metadata.image import MetadataDelta, MetadataImage, PartitionImage, TopicImage
from kafkawire.reference_broker.replicas.replica import Replica
from kafkawire.reference_broker.storage.directory.log_directory import LogDirectory
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.tables.enums import NO_PARTITION_LEADER_EPOCH
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode

__all__ = ["Replicas"]


class Replicas:
    """The replicas of one broker.

    Args:
        broker_id: id of the broker.
        directory: holds their logs.
        image: the metadata at startup.
        lost: called with the topic and the number of a partition whose log has gone offline.
    """

    def __init__(
        self, broker_id: int, directory: LogDirectory, image: MetadataImage, lost: Callable[[str, int], None]
    ) -> None:
        self._broker_id = broker_id
        self._directory = directory
        self._lost = lost
        #: By topic and partition number, in order of the numbers.
        self._hosted: dict[str, dict[int, Replica]] = {}
        for topic in image.topics.values():
            self._host(topic)

    def of(self, topic: str) -> list[Replica]:
        """Return the replicas of a topic, in order of partition number; empty for an unknown topic."""
        return [*self._hosted.get(topic, {}).values()]

    def get(self, topic: str, number: int) -> Replica | None:
        """Return the replica of a partition, None if it is unknown."""
        hosted = self._hosted.get(topic)
        return None if hosted is None else hosted.get(number)

    def leader(self, topic: str, number: int, epoch: int = NO_PARTITION_LEADER_EPOCH) -> Replica:
        """Return the replica of a partition that this broker leads.

        Args:
            topic: its name.
            number: number of the partition.
            epoch: the leader epoch known to the client; `NO_PARTITION_LEADER_EPOCH` if it sent none.

        Raises:
            BrokerError: UNKNOWN_TOPIC_OR_PARTITION; or see `Replica.check`.
        """
        replica = self.get(topic, number)
        if replica is None:
            raise BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        replica.check(epoch)
        return replica

    def checkpoint(self, done: Callable[[BrokerError | None], None]) -> None:
        """Make the start offsets of the logs durable; see `LogDirectory.checkpoint`."""
        self._directory.checkpoint(done)

    def abandon(self) -> None:
        """Release all logs."""
        self._hosted.clear()

    # Metadata changes.

    def changed(self, delta: MetadataDelta) -> None:
        """Apply a change of the metadata."""
        for before, after in delta.topics:
            if after is None:
                self._delete(before)
            else:
                self._host(after)
                if before is not None and before.configs != after.configs:
                    self._configure(after)

    def _host(self, topic: TopicImage) -> None:
        """Create the replicas of a topic that are assigned to this broker."""
        hosted = self._hosted.setdefault(topic.name, {})
        for number, partition in enumerate(topic.partitions):
            if number not in hosted and self._broker_id in partition.replicas:
                self._lead(topic, number, partition)

    def _lead(self, topic: TopicImage, number: int, partition: PartitionImage) -> None:
        """Lead a partition in the epoch of the image.

        Its log exists: a single broker makes it durable before the partition is in the image.
        """
        log = self._directory.log(topic.name, number)
        if log is not None:
            lost = partial(self._lost, topic.name, number)
            self._hosted[topic.name][number] = Replica(log, partition.leader_epoch, lost)

    def _configure(self, topic: TopicImage) -> None:
        config = self._directory.config_of(topic.configs)
        for replica in self.of(topic.name):
            replica.log.configure(config)

    def _delete(self, topic: TopicImage | None) -> None:
        if topic is not None and topic.name in self._hosted:
            # Callbacks run while the replicas can still be found, so that they learn the reason here, too.
            end = BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"the topic {topic.name} was deleted")
            for replica in self.of(topic.name):
                replica.log.end(end)
            del self._hosted[topic.name]
