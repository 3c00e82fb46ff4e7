"""The topics of a cluster on the embedded registry; the test publishes images in place of a controller."""

from __future__ import annotations

from collections.abc import Sequence

from kafkawire.reference_broker.cluster.controller.replica_assignment import Start
from kafkawire.reference_broker.cluster.registry_configs import RegistryConfigs
from kafkawire.reference_broker.cluster.registry_topics import (
    RandomChoices,
    RegistryTopics,
    ReplicationFactors,
)
from kafkawire.reference_broker.config.options import read_options
from kafkawire.reference_broker.metadata.image import (
    BrokerRegistration,
    MetadataImage,
    PartitionImage,
    TopicImage,
)
from kafkawire.reference_broker.metadata.metadata_cache import MetadataCache
from kafkawire.reference_broker.metadata.new_topics import NewTopic
from kafkawire.reference_broker.work.timers import Timers
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.protocol.tables.znodes import TOPIC
from kafkawire.sdk.protocol.uuids import ZERO_UUID
from tests.reference_broker.cluster.cluster_nodes import TOPIC_ID, ClusterBench

__all__ = ["Outcome", "TopicsBench"]

Outcome = TopicImage | BrokerError | None


class TopicsBench(ClusterBench):
    """The topics of a cluster.

    Args:
        racks: the rack of each broker; broker ids start at 0.
        options: broker options.

    Attributes:
        ended: the outcomes of changes.
        starts: the positions at which the assignments of the next topics start.
    """

    def __init__(self, racks: Sequence[str | None] = (None, None), **options: object) -> None:
        super().__init__()
        brokers = {number: BrokerRegistration(number, {}, rack) for number, rack in enumerate(racks)}
        self.metadata = MetadataCache(MetadataImage("cluster", 0, brokers, {}, {}))
        self.timers = Timers()
        self.configs = RegistryConfigs(self.one, 1)
        self.starts = [Start(0, 0)]
        self.ids = [TOPIC_ID]
        choices = RandomChoices(lambda: self.ids[0], lambda count: self.starts[0])
        self.topics = RegistryTopics(
            self.one,
            self.metadata,
            self.configs,
            read_options(options),
            ReplicationFactors(1, 1, 2),
            choices,
            self.timers,
            lambda: self.now_ms,
        )
        self.metadata.listen(self.topics.changed)
        self.ended: list[Outcome] = []

    def create(self, new: NewTopic, *, validate_only: bool = False) -> None:
        self.topics.create(new, self.ended.append, validate_only=validate_only)
        self.owner.run_all()

    def show(self, name: str, count: int | None = None, leader: int | None = None) -> None:
        """Publish the stored state of a topic.

        Args:
            name: the topic.
            count: the number of partitions to publish; None for all.
            leader: the leader of each partition; None for the first replica.
        """
        stored = TOPIC.decode((self.data(TOPIC.path(name)) or "").encode())
        partitions = [
            PartitionImage(replicas[0] if leader is None else leader, 0, replicas, replicas)
            for _, replicas in sorted(stored.partitions.items())
        ]
        self.metadata.publish([TopicImage(name, stored.topic_id or ZERO_UUID, tuple(partitions[:count]), {})])

    def hide(self, name: str) -> None:
        """Publish that a topic has been deleted."""
        self.metadata.publish(deleted=[name])

    def present(self, name: str) -> TopicImage:
        """Return a topic in the image."""
        return self.metadata.image.topics[name]

    def existing(self, name: str, *replicas: tuple[int, ...]) -> TopicImage:
        """Have another program create a topic, publish it, and return its image."""
        self.topic(name, dict(enumerate(replicas)))
        self.show(name)
        return self.present(name)

    def advance(self, milliseconds: int) -> None:
        self.now_ms += milliseconds
        self.timers.fire(self.now_ms)
        self.owner.run_all()

    def stored(self, name: str) -> dict[int, tuple[int, ...]]:
        """Return the stored replicas."""
        return dict(TOPIC.decode((self.data(TOPIC.path(name)) or "").encode()).partitions)

    def code(self) -> ErrorCode | None:
        """Return the code of the only error, or None if a change succeeded."""
        (outcome,) = self.ended
        self.ended.clear()
        return outcome.code if isinstance(outcome, BrokerError) else None
