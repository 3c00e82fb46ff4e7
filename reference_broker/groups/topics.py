"""What the group coordinator knows of topics."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from kafkawire.sdk.records import crc32c

__all__ = ["TopicFacts", "Topics", "metadata_hash"]


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


def metadata_hash(names: Iterable[str], topics: Mapping[str, TopicFacts]) -> int:
    """Return a number that changes with the topics of these names; 0 if there are none."""
    facts = [(name, *topics[name]) for name in sorted(names) if name in topics]
    return crc32c(repr(facts).encode()) if facts else 0
