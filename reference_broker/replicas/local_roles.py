"""The roles of a single broker's replicas, which its metadata image determines.

    MetadataCache ──delta──▶ LocalRoles ──lead, configure, delete──▶ Replicas

In a cluster, the controller's requests do this instead.

Source: `ReplicaManager.applyDelta`, `TopicConfigHandler` in Apache Kafka.
"""

from __future__ import annotations

from kafkawire.reference_broker.metadata.image import MetadataDelta, MetadataImage, PartitionImage, TopicImage
from kafkawire.reference_broker.replicas.replicas import Replicas
from kafkawire.reference_broker.replicas.roles import Term
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode

__all__ = ["LocalRoles"]


class LocalRoles:
    """The roles that a metadata image gives to the replicas of one broker.

    Args:
        broker_id: the id of the broker.
        replicas: the broker's replicas; those in the image are created here.
        image: the metadata at startup.
    """

    def __init__(self, broker_id: int, replicas: Replicas, image: MetadataImage) -> None:
        self._broker_id = broker_id
        self._replicas = replicas
        for topic in image.topics.values():
            self._host(topic)

    def changed(self, delta: MetadataDelta) -> None:
        """Apply a change in the metadata."""
        for before, after in delta.topics:
            if after is not None:
                self._host(after)
                if before is not None and before.configs != after.configs:
                    self._replicas.configure(after.name, after.configs)
            elif before is not None:
                self._delete(before)

    def _host(self, topic: TopicImage) -> None:
        """Lead the new partitions of a topic that are assigned to this broker.

        Their logs exist already: a single broker makes them durable before the partitions appear in the image.
        """
        last: tuple[PartitionImage, Term] | None = None
        for number, partition in enumerate(topic.partitions):
            if self._broker_id not in partition.replicas or self._replicas.get(topic.name, number) is not None:
                continue
            if last is None or last[0] is not partition:  # most partitions of a topic have the same state
                last = partition, _term_of(topic, partition)
            replica = self._replicas.host(topic.name, number)
            if replica is not None and replica.error is None:
                replica.lead(last[1])

    def _delete(self, topic: TopicImage) -> None:
        end = BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"the topic {topic.name} was deleted")
        for number in range(len(topic.partitions)):
            self._replicas.delete(topic.name, number, end)


def _term_of(topic: TopicImage, partition: PartitionImage) -> Term:
    return Term(partition.leader, partition.leader_epoch, partition.isr, partition.replicas, topic_id=topic.topic_id)
