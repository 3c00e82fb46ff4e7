"""A consumer's subscription: the topics that it wants to read, looked up in the metadata.

Without a group, the consumer reads all partitions of its topics, including those added later; otherwise the group
decides. Topics that cannot be read are logged either way.
"""

from __future__ import annotations

import logging

from kafkawire.sdk.consumer.reading.assignment import Assignment
from kafkawire.sdk.errors import KafkaWireError
from kafkawire.sdk.groups.subscription import Subscription
from kafkawire.sdk.protocol.tables.enums import OffsetTimestamp
from kafkawire.sdk.routing.metadata import Metadata
from kafkawire.sdk.routing.partitions import TopicPartition
from kafkawire.sdk.transport.promise import Promise

__all__ = ["SubscribedTopics"]

logger = logging.getLogger("kafkawire.consumer")


class SubscribedTopics:
    """A machine that assigns the partitions of the subscribed topics whenever new partitions appear in the metadata.

    Args:
        metadata: the metadata that lists the partitions.
        assignment: receives the partitions; None if a group assigns them.
    """

    def __init__(self, metadata: Metadata, assignment: Assignment | None) -> None:
        self._metadata = metadata
        self._assignment = assignment
        self._subscription: Subscription | None = None
        self._seen: dict[str, bytes] = {}
        self._warned: set[str] = set()
        self._changes = -1
        self._waiting: list[Promise[None]] = []

    def subscribe(self, subscription: Subscription) -> None:
        """Read exactly these topics."""
        self._subscription = subscription
        self._changes = -1

    @property
    def is_active(self) -> bool:
        """Whether there is a subscription."""
        return self._subscription is not None

    def await_topics(self, promise: Promise[None], now_ms: int) -> None:
        """Keep the promise once each subscribed topic is assigned or known to be missing."""
        self._waiting.append(promise)
        self._changes = -1
        self.poll(now_ms)

    def poll(self, now_ms: int) -> None:
        """Assign newly created partitions."""
        if self._subscription is None or self._metadata.changes == self._changes:
            return
        self._changes = self._metadata.changes
        if self._assignment is not None and (self._subscription.pattern is None or self._metadata.is_complete):
            self._assign(self._assignment, self._subscription.topics(self._metadata))
        self._warn(self._subscription.names)
        if self._waiting and self._covers(self._subscription):
            waiting, self._waiting = self._waiting, []
            for promise in waiting:
                promise.keep(None)

    def due_ms(self, now_ms: int) -> int | None:
        """Return None, because work arises only from events."""
        return None

    def fail(self, error: KafkaWireError, now_ms: int) -> None:
        """Fail the waiting promises."""
        waiting, self._waiting = self._waiting, []
        for promise in waiting:
            promise.fail(error)

    def _covers(self, subscription: Subscription) -> bool:
        """Return whether the metadata says of each topic what it is or that it is missing."""
        metadata = self._metadata
        if subscription.pattern is not None:
            return metadata.is_complete
        return all(name in metadata.topics or name in metadata.errors for name in subscription.names)

    def _assign(self, assignment: Assignment, topics: frozenset[str]) -> None:
        self._seen = {name: topic_id for name, topic_id in self._seen.items() if name in topics}
        listed = {name: self._metadata.topics[name] for name in topics & self._metadata.topics.keys()}
        known = {TopicPartition(name, number) for name, topic in listed.items() for number in topic.partitions}
        # Fewer partitions than before indicate a new topic with the same name, or a broker that lags behind.
        replaced = {name for name, topic in listed.items() if self._seen.get(name, topic.topic_id) != topic.topic_id}
        assigned = assignment.assigned
        # A named topic that is missing temporarily, because it is being recreated, keeps its partitions.
        kept = {each for each in assigned if each.topic in topics and (each in known or each.topic not in replaced)}
        first = {each for each in known if each.topic not in self._seen}
        grown = known - kept - first
        if grown:  # all their records were written after reading began
            assignment.assign(kept | grown, OffsetTimestamp.EARLIEST)
        if first or kept != assigned:
            assignment.assign(kept | grown | first)
        self._seen.update((name, topic.topic_id) for name, topic in listed.items() if topic.partitions)

    def _warn(self, topics: frozenset[str]) -> None:
        """Log once for each topic that it cannot be read at the moment."""
        missing = {name: code for name in topics if (code := self._metadata.errors.get(name)) is not None}
        for name in sorted(missing.keys() - self._warned):
            logger.warning("topic %s cannot be read now: %s", name, missing[name].name)
        self._warned = set(missing)
