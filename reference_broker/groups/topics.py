"""What the group coordinator knows of topics: names, ids and numbers of partitions, and how often they have changed."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from kafkawire.reference_broker.metadata.image import MetadataDelta
from kafkawire.reference_broker.metadata.metadata_cache import MetadataCache
from kafkawire.sdk.records import crc32c

__all__ = ["ClusterTopics", "TopicFacts", "Topics", "metadata_hash"]


class TopicFacts(NamedTuple):
    """A topic's id, and how many partitions it has."""

    topic_id: bytes
    partitions: int


class Topics(Mapping[str, TopicFacts]):
    """The topics that exist, by name.

    What was looked up among all of them holds until a counter has moved.
    """

    @property
    @abstractmethod
    def came(self) -> int:
        """How many topics have come so far."""

    @property
    @abstractmethod
    def changes(self) -> int:
        """How often topics have come, grown or gone so far."""


class ClusterTopics(Topics):
    """The topics of the metadata image.

    Args:
        metadata: see `MetadataCache`; `changed` is to be told of its deltas.
    """

    def __init__(self, metadata: MetadataCache) -> None:
        self._metadata = metadata
        self._came = self._changes = len(metadata.image.topics)

    def __getitem__(self, name: str) -> TopicFacts:
        topic = self._metadata.image.topics[name]
        return TopicFacts(topic.topic_id, len(topic.partitions))

    def __contains__(self, name: object) -> bool:
        return name in self._metadata.image.topics  # which costs a tenth of asking for what is not there

    def __iter__(self) -> Iterator[str]:
        return iter(self._metadata.image.topics)

    def __len__(self) -> int:
        return len(self._metadata.image.topics)

    @property
    def came(self) -> int:
        return self._came

    @property
    def changes(self) -> int:
        return self._changes

    def changed(self, delta: MetadataDelta) -> None:
        """Count the topics that have come, grown or gone."""
        for change in delta.topics:
            self._came += change.before is None
            self._changes += change.is_deletion or change.new_partitions > 0


def metadata_hash(names: Iterable[str], topics: Mapping[str, TopicFacts]) -> int:
    """Return a number that changes with the topics of these names; 0 if there are none."""
    facts = [(name, *topics[name]) for name in sorted(names) if name in topics]
    return crc32c(repr(facts).encode()) if facts else 0
