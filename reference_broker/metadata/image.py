"""The metadata image: an immutable snapshot of what a broker knows about its cluster.

A change creates a new image, which shares all unchanged parts with the previous one, and a delta that names the changed
topics, so listeners need to look at those alone.

Source: `MetadataImage`, `MetadataDelta`, `TopicImage`, `PartitionRegistration` in Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from kafkawire.sdk.protocol.tables.enums import NO_LEADER_ID, NO_PARTITION_LEADER_EPOCH
from kafkawire.sdk.protocol.uuids import ZERO_UUID
from kafkawire.sdk.transport.wire import Address

__all__ = [
    "NO_FEATURES",
    "UNKNOWN_PARTITION",
    "BrokerRegistration",
    "FinalizedFeatures",
    "MetadataDelta",
    "MetadataImage",
    "PartitionImage",
    "TopicChange",
    "TopicImage",
]


class BrokerRegistration(NamedTuple):
    """A broker in the cluster.

    Attributes:
        broker_id: the broker's id.
        listeners: the advertised address of each listener, keyed by listener name.
        rack: the broker's rack, or None if not configured.
    """

    broker_id: int
    listeners: Mapping[str, Address]
    rack: str | None = None


class FinalizedFeatures(NamedTuple):
    """The features that a cluster has agreed to use (KIP-584).

    Attributes:
        levels: the level of each feature, keyed by feature name.
        epoch: incremented whenever a level changes; -1 if the cluster has never agreed on any features.
    """

    levels: Mapping[str, int]
    epoch: int


#: The features of a cluster that has never agreed on any; its epoch is -1, as in Apache Kafka.
NO_FEATURES: Final = FinalizedFeatures({}, -1)


class PartitionImage(NamedTuple):
    """A partition.

    Attributes:
        leader: the id of the broker that leads it, or `NO_LEADER_ID` if it has no leader.
        leader_epoch: incremented whenever a broker becomes leader of the partition.
        isr: the ids of the brokers whose replicas are in sync.
        replicas: the ids of the brokers that host it, the preferred leader first.
        offline_replicas: the ids of the brokers whose replicas cannot be used.
        eligible_leader_replicas: the ids of brokers whose replicas are no longer in sync, but have all committed
            records (KIP-966).
        last_known_elr: the partition's last leader, while it has no leader.
    """

    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    replicas: tuple[int, ...]
    offline_replicas: tuple[int, ...] = ()
    eligible_leader_replicas: tuple[int, ...] = ()
    last_known_elr: tuple[int, ...] = ()

    @property
    def has_leader(self) -> bool:
        """Whether the partition has a leader."""
        return self.leader != NO_LEADER_ID


#: Stands for a partition that this broker has not been told about, although it knows one with a higher number: an
#: Apache Kafka 3 controller does not announce a partition until it has had a leader. Compare it by identity.
UNKNOWN_PARTITION: Final = PartitionImage(NO_LEADER_ID, NO_PARTITION_LEADER_EPOCH, (), ())


class TopicImage(NamedTuple):
    """A topic.

    Attributes:
        name: unique among existing topics.
        topic_id: 16 bytes, never reused; zeros if the topic has no id, as in topics created before Apache Kafka 2.8.
        partitions: in order of their numbers; `UNKNOWN_PARTITION` fills gaps.
        configs: configurations that differ from the defaults, keyed by Kafka's names.
    """

    name: str
    topic_id: bytes
    partitions: tuple[PartitionImage, ...]
    configs: Mapping[str, str]

    def partition(self, number: int) -> PartitionImage:
        """Return a partition, or `UNKNOWN_PARTITION` if the topic has no partition with this number."""
        return self.partitions[number] if 0 <= number < len(self.partitions) else UNKNOWN_PARTITION


class TopicChange(NamedTuple):
    """A topic before and after a change.

    Attributes:
        before: None if the topic is new.
        after: None if it was deleted.
    """

    before: TopicImage | None
    after: TopicImage | None

    @property
    def name(self) -> str:
        """The name of the topic."""
        known = self.after or self.before
        return "" if known is None else known.name

    @property
    def is_deletion(self) -> bool:
        """Whether the topic was deleted."""
        return self.after is None

    @property
    def has_new_id(self) -> bool:
        """Whether the topic has gained or lost its id."""
        return self.before is not None and self.after is not None and self.before.topic_id != self.after.topic_id

    @property
    def new_partitions(self) -> int:
        """The number of partitions added to the topic."""
        before, after = (len(each.partitions) if each is not None else 0 for each in self)
        return max(after - before, 0)


class MetadataImage(NamedTuple):
    """The state of a cluster.

    Attributes:
        cluster_id: in Kafka's text form.
        controller_id: the id of the controller, or `NO_CONTROLLER_ID` if unknown.
        brokers: the live brokers, keyed by id.
        topics: the topics in order of creation, keyed by name.
        topics_by_id: the same topics keyed by id, except those without one.
        features: see `FinalizedFeatures`.
    """

    cluster_id: str
    controller_id: int
    brokers: Mapping[int, BrokerRegistration]
    topics: Mapping[str, TopicImage]
    topics_by_id: Mapping[bytes, TopicImage]
    features: FinalizedFeatures = NO_FEATURES

    def reachable(self, listener: str) -> list[tuple[BrokerRegistration, Address]]:
        """Return the brokers that clients of a listener can reach, with their addresses.

        Args:
            listener: the listener's name.
        """
        return [(each, each.listeners[listener]) for each in self.brokers.values() if listener in each.listeners]

    def address(self, broker_id: int, listener: str) -> Address | None:
        """Return the address of a broker for clients of a listener, or None if they cannot reach it."""
        broker = self.brokers.get(broker_id)
        return None if broker is None else broker.listeners.get(listener)

    def with_changes(
        self,
        present: Iterable[TopicImage] = (),
        deleted: Iterable[str] = (),
        *,
        brokers: Mapping[int, BrokerRegistration] | None = None,
        controller_id: int | None = None,
        features: FinalizedFeatures | None = None,
    ) -> MetadataDelta:
        """Return the delta that leads to a changed image.

        Args:
            present: the new states of added and changed topics.
            deleted: names of deleted topics; if a name is also in `present`, that entry is a new topic.
            brokers: all brokers that are alive now, or None if they have not changed.
            controller_id: the id of the new controller, or None if it has not changed.
            features: the newly finalized features, or None if they have not changed.
        """
        topics, topics_by_id, changes = self._changed_topics(present, deleted)
        after = MetadataImage(
            self.cluster_id,
            self.controller_id if controller_id is None else controller_id,
            self.brokers if brokers is None or brokers == self.brokers else brokers,
            topics,
            topics_by_id,
            self.features if features is None else features,
        )
        return MetadataDelta(self, after, changes)

    def _changed_topics(
        self, present: Iterable[TopicImage], deleted: Iterable[str]
    ) -> tuple[Mapping[str, TopicImage], Mapping[bytes, TopicImage], list[TopicChange]]:
        present, deleted = tuple(present), tuple(deleted)
        changes: list[TopicChange] = []
        if not (present or deleted):
            return self.topics, self.topics_by_id, changes
        # This copies two tables of references, which takes 30 µs each with 5,000 topics. Everything unchanged is
        # shared.
        topics, topics_by_id = dict(self.topics), dict(self.topics_by_id)
        for name in deleted:
            if (gone := topics.pop(name, None)) is not None:
                _forget_id(topics_by_id, gone)
                changes.append(TopicChange(gone, None))
        for topic in present:
            before = topics.get(topic.name)
            if before is not None and before.topic_id != topic.topic_id:
                _forget_id(topics_by_id, before)
            changes.append(TopicChange(before, topic))
            topics[topic.name] = topic
            if topic.topic_id != ZERO_UUID:
                topics_by_id[topic.topic_id] = topic
        return topics, topics_by_id, changes


def _forget_id(topics_by_id: dict[bytes, TopicImage], topic: TopicImage) -> None:
    """Forget the id of a topic, unless another topic has the same id, which only happens with a faulty controller."""
    if topics_by_id.get(topic.topic_id) is topic:
        del topics_by_id[topic.topic_id]


class MetadataDelta(NamedTuple):
    """A change to the metadata.

    Attributes:
        before: the image before the change.
        after: the image after the change.
        topics: the changed topics, in the order in which the changes are to be applied.
    """

    before: MetadataImage
    after: MetadataImage
    topics: Sequence[TopicChange]

    def deletes(self, name: str) -> bool:
        """Return whether a topic with this name is deleted."""
        return any(change.is_deletion and change.name == name for change in self.topics)
