"""What the group coordinator knows of topics."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

__all__ = ["TopicFacts", "Topics"]


class TopicFacts(NamedTuple):
    """A topic's id, and how many partitions it has."""

    topic_id: bytes
    partitions: int


#: The topics that exist, by name.
Topics = Mapping[str, TopicFacts]
