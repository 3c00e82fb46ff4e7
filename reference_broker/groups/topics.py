"""Topics, as the group coordinator sees them: names, ids, numbers of partitions, and change counters."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from kafkawire.reference_broker.metadata.image import MetadataDelta
from kafkawire.reference_broker.metadata.metadata_cache import MetadataCache
from kafkawire.sdk.records import crc32c

__all__ = ["ClusterTopics", "TopicFacts", "Topics", "metadata_hash"]


class TopicFacts(NamedTuple):
    """A topic's id and number of partitions."""

    topic_id: bytes
    partitions: int


class Topics(Mapping[str, TopicFacts]):
    """The existing topics, keyed by name.

    The result of a search remains valid until a counter changes.
    """

    @property
    @abstractmethod
    def came(self) -> int:
        """The number of topics added so far."""

    @property
    @abstractmethod
    def changes(self) -> int:
        """The number of times that a topic has been added, extended or deleted, or has received an id."""


class ClusterTopics(Topics):
    """The topics of the metadata image.

    Args:
        metadata: see `MetadataCache`; its deltas must be passed to `changed`.
    """

    def __init__(self, metadata: MetadataCache) -> None:
        self._metadata = metadata
        self._came = self._changes = len(metadata.image.topics)

    def __getitem__(self, name: str) -> TopicFacts:
        topic = self._metadata.image.topics[name]
        # A member may get a partition that is not known yet; it then waits for the leader, as for any partition without
        # one.
        return TopicFacts(topic.topic_id, len(topic.partitions))

    def __contains__(self, name: object) -> bool:
        return name in self._metadata.image.topics  # ten times cheaper than looking up a missing name

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
        """Count the topics that have been added, extended or deleted, or have received an id."""
        for change in delta.topics:
            self._came += change.before is None
            self._changes += change.is_deletion or change.has_new_id or change.new_partitions > 0


def metadata_hash(names: Iterable[str], topics: Mapping[str, TopicFacts]) -> int:
    """Return a hash that changes when the topics with these names do; 0 if none of the topics exist."""
    facts = [(name, *topics[name]) for name in sorted(names) if name in topics]
    return crc32c(repr(facts).encode()) if facts else 0
