"""The replicas of a single broker, and the controller that changes its topics."""

from __future__ import annotations

from kafkawire.reference_broker.config.options import read_options
from kafkawire.reference_broker.metadata.image import MetadataImage
from kafkawire.reference_broker.metadata.local_topics import LocalTopics
from kafkawire.reference_broker.metadata.metadata_cache import MetadataCache
from kafkawire.reference_broker.metadata.new_topics import NewTopic
from kafkawire.reference_broker.metadata.topic_store import TopicStore
from kafkawire.reference_broker.replicas.local_roles import LocalRoles
from kafkawire.reference_broker.replicas.replicas import Replicas

__all__ = ["BROKER_ID", "Hosted"]

BROKER_ID = 1


class Hosted:
    """The replicas in a directory; their roles follow from its topics.

    Attributes:
        lost: the partitions whose logs have gone offline.
    """

    def __init__(self, store: TopicStore) -> None:
        self.directory = directory = store.directory
        self.lost: list[tuple[str, int]] = []
        self.topics = LocalTopics(
            store, read_options({}), directory.services.timers, {}, {}, lambda topic, done, now_ms: done()
        )
        self.replicas = Replicas(directory, self.topics.metadata, self._lost)
        self.topics.metadata.listen(LocalRoles(BROKER_ID, self.replicas, self.topics.metadata.image).changed)

    def _lost(self, topic: str, number: int) -> None:
        self.lost.append((topic, number))
        self.topics.lost(topic, number)

    def create(self, name: str, partitions: int = 1, **configs: str) -> None:
        """Create a topic."""
        named = {key.replace("_", "."): value for key, value in configs.items()}
        self.topics.create(NewTopic(name, partitions, configs=named), lambda made: None)

    def delete(self, name: str) -> None:
        """Delete a topic."""
        self.topics.delete(self.topics.metadata.image.topics[name], 0, lambda error: None)

    def begin(self, image: MetadataImage) -> Replicas:
        """Return the replicas in the same directory after a startup with another image."""
        replicas = Replicas(self.directory, MetadataCache(image), lambda topic, number: None)
        LocalRoles(BROKER_ID, replicas, image)
        return replicas
