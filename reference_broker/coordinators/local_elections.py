"""The elections of a broker that is alone: it leads every partition of the coordinators' topics.

They follow the metadata image: a coordinator is elected for the partitions of its topic once these have replicas, and
resigns before the replicas of a deleted topic end.

Source: `BrokerMetadataPublisher.updateCoordinator` in Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol

from kafkawire.reference_broker.coordinators.shard import CoordinatorLog
from kafkawire.reference_broker.coordinators.topic_log import TopicLog
from kafkawire.reference_broker.metadata.image import MetadataDelta
from kafkawire.reference_broker.metadata.metadata_cache import MetadataCache, MetadataListener
from kafkawire.reference_broker.replicas.replicas import Replicas

__all__ = ["Electable", "LocalElections"]


class Electable(Protocol):
    """A coordinator."""

    @property
    def topic(self) -> str:
        """The name of its topic."""
        ...

    def elected(self, number: int, log: CoordinatorLog, leader_epoch: int, now_ms: int) -> None:
        """Serve a partition; see `CoordinatorRuntime.elected`."""

    def resigned(self, number: int, epoch: int | None = None) -> None:
        """Stop serving a partition; see `CoordinatorRuntime.resigned`."""


class LocalElections:
    """The elections of the coordinators of one broker.

    Args:
        metadata: the metadata.
        replicas: the replicas of the broker.
        coordinators: the coordinators, each of another topic.
        clock: returns the time in milliseconds.
    """

    def __init__(
        self,
        metadata: MetadataCache,
        replicas: Replicas,
        coordinators: Iterable[Electable],
        clock: Callable[[], int],
    ) -> None:
        self._metadata = metadata
        self._replicas = replicas
        self._coordinators = {coordinator.topic: coordinator for coordinator in coordinators}
        self._clock = clock

    def elect(self, now_ms: int) -> None:
        """Elect all coordinators for all partitions that they do not serve yet."""
        for name in self._coordinators:
            self._elect(name, now_ms)

    def listen(self, replicas_changed: MetadataListener) -> None:
        """Follow the changes of the metadata: resign before the replicas get a change, and be elected after it.

        Args:
            replicas_changed: applies a change to the replicas.
        """
        for listener in (self._resign, replicas_changed, self._elect_changed):
            self._metadata.listen(listener)

    def _resign(self, delta: MetadataDelta) -> None:
        for before, after in delta.topics:
            if before is not None and after is None and before.name in self._coordinators:
                for number in range(len(before.partitions)):
                    self._coordinators[before.name].resigned(number)

    def _elect_changed(self, delta: MetadataDelta) -> None:
        for change in delta.topics:
            if change.after is not None and change.name in self._coordinators:
                self._elect(change.name, self._clock())

    def _elect(self, name: str, now_ms: int) -> None:
        topic = self._metadata.image.topics.get(name)
        for number in range(0 if topic is None else len(topic.partitions)):
            replica = self._replicas.get(name, number)
            if replica is not None:
                self._coordinators[name].elected(number, TopicLog(replica), replica.leader_epoch, now_ms)
