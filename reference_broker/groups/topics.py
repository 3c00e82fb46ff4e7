"""What the group coordinator knows of topics."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from kafkawire.sdk.records import crc32c

__all__ = ["TopicFacts", "Topics", "metadata_hash"]


class TopicFacts(NamedTuple):
    """A topic's id, and how many partitions it has."""

    topic_id: bytes
    partitions: int


#: The topics that exist, by name.
Topics = Mapping[str, TopicFacts]


def metadata_hash(names: Iterable[str], topics: Topics) -> int:
    """Return a number that changes with the topics of these names; 0 if there are none."""
    facts = [(name, *topics[name]) for name in sorted(names) if name in topics]
    return crc32c(repr(facts).encode()) if facts else 0
