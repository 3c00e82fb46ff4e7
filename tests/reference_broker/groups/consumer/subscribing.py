"""Members for assignor tests."""

from __future__ import annotations

from collections.abc import Mapping

from kafkawire.reference_broker.groups.consumer.group import Partitions
from kafkawire.reference_broker.groups.consumer.subscribers import Subscriber

__all__ = ["partitions", "size", "subscriber"]


def subscriber(*topics: bytes, current: Partitions | None = None, instance: str | None = None) -> Subscriber:
    """Return a member."""
    return Subscriber(instance, frozenset(topics), current or {})


def partitions(assignment: Mapping[str, Partitions]) -> list[tuple[bytes, int]]:
    """Return all assigned partitions."""
    return sorted((topic, number) for owned in assignment.values() for topic in owned for number in owned[topic])


def size(owned: Partitions) -> int:
    """Return the number of assigned partitions."""
    return sum(len(numbers) for numbers in owned.values())
