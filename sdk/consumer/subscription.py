"""The subscription of a consumer without a group: all partitions of its topics, also those that come later."""

from __future__ import annotations

from collections.abc import Iterable

from kafkawire.sdk.client.metadata import Metadata
from kafkawire.sdk.client.partitions import TopicPartition
from kafkawire.sdk.consumer.assignment import Assignment
from kafkawire.sdk.errors import KafkaWireError
from kafkawire.sdk.protocol.tables.enums import OffsetTimestamp

__all__ = ["Subscription"]


class Subscription:
    """Assign the partitions of topics whenever the metadata shows new ones: a machine.

    Args:
        metadata: knows the partitions.
        assignment: takes them.
    """

    def __init__(self, metadata: Metadata, assignment: Assignment) -> None:
        self._metadata = metadata
        self._assignment = assignment
        self._topics: frozenset[str] = frozenset()
        self._seen: set[str] = set()
        self._changes = -1

    def subscribe(self, topics: Iterable[str]) -> None:
        """Read these topics, and no others."""
        self._topics = frozenset(topics)
        self._seen &= self._topics
        self._changes = -1

    def poll(self, now_ms: int) -> None:
        """Assign partitions that have come into being."""
        if not self._topics or self._metadata.changes == self._changes:
            return
        self._changes = self._metadata.changes
        topics = self._metadata.topics
        known = {
            TopicPartition(name, each) for name in self._topics & topics.keys() for each in topics[name].partitions
        }
        assigned = self._assignment.assigned
        # A topic that is missing for a while, because it is created again, keeps its partitions.
        kept = {each for each in assigned if each.topic in self._topics}
        first = {each for each in known if each.topic not in self._seen}
        grown = known - kept - first
        if grown:  # whatever they hold was written after reading began
            self._assignment.assign(kept | grown, OffsetTimestamp.EARLIEST)
        if first or kept != assigned:
            self._assignment.assign(kept | grown | first)
        self._seen.update(each.topic for each in known)

    def due_ms(self, now_ms: int) -> int | None:
        """Return nothing: only an event can change anything."""
        return None

    def fail(self, error: KafkaWireError, now_ms: int) -> None:
        """Do nothing: nobody waits for it."""
