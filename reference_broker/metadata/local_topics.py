"""The topics of a single broker, which manages them on its own: its data directory is the source of truth.

    request ──▶ LocalTopics ──files──▶ TopicStore
                     │ when they are durable
                     ▼
               MetadataCache ──delta──▶ replicas, coordinators, …

Source: `Topic`, `AutoTopicCreationManager` and `ReplicationControlManager` in Apache Kafka, whose error texts are kept
in substance.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from kafkawire.reference_broker.config.options import BrokerOptions
from kafkawire.reference_broker.metadata.config_store import Revise
from kafkawire.reference_broker.metadata.image import (
    BrokerRegistration,
    FinalizedFeatures,
    MetadataImage,
    PartitionImage,
    TopicImage,
)
from kafkawire.reference_broker.metadata.internal_topics import plan_topic
from kafkawire.reference_broker.metadata.metadata_cache import MetadataCache
from kafkawire.reference_broker.metadata.new_partitions import check_assignments, check_increase
from kafkawire.reference_broker.metadata.new_topics import NewTopic, check_characters, plan_configs, plan_partitions
from kafkawire.reference_broker.metadata.topic_controller import (
    WAIT_MS_MAX,
    Permit,
    TopicDone,
    TopicTexts,
    unlimited,
)
from kafkawire.reference_broker.metadata.topic_files import LocalTopic
from kafkawire.reference_broker.metadata.topic_store import TopicStore
from kafkawire.reference_broker.work.pieces import Work
from kafkawire.reference_broker.work.timers import Timers
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.tables.enums import CLUSTER_METADATA_TOPIC, NO_LEADER_ID
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.protocol.uuids import ZERO_UUID
from kafkawire.sdk.transport.wire import Address

__all__ = ["LocalTopics"]

#: The epoch of the features, which a single broker never changes.
_FEATURES_EPOCH = 0

#: The texts of Apache Kafka 4.
_TEXTS = TopicTexts("Duplicate topic name.", "Duplicate topic name.", missing="")


class LocalTopics:
    """The topics of a broker; see `TopicController`.

    Args:
        store: holds the topics.
        options: broker options.
        timers: timers of the broker.
        listeners: the advertised address of each of the broker's listeners, keyed by listener name.
        features: the level of each feature that the broker uses, keyed by feature name.
        forget: called with a deleted topic, a callback to invoke once all of its data has been removed, and the time.

    Attributes:
        acts_without_time: see `TopicController`.
        answers_each: see `TopicController`.
        deletes_topics: see `TopicController`.
        texts: see `TopicController`.
        metadata: the image of a cluster that consists of this broker alone.
    """

    def __init__(
        self,
        store: TopicStore,
        options: BrokerOptions,
        timers: Timers,
        listeners: Mapping[str, Address],
        features: Mapping[str, int],
        forget: Callable[[TopicImage, Callable[[], None], int], None],
    ) -> None:
        self.acts_without_time = self.answers_each = False  # as in Apache Kafka 4
        self.deletes_topics = True
        self.texts = _TEXTS
        self._store = store
        self._options = options
        self._timers = timers
        self._forget = forget
        #: Topics that are being created, with the callbacks waiting for them.
        self._creating: dict[str, list[TopicDone]] = {}
        #: The future number of partitions of each topic to which partitions are being added, keyed by id.
        self._growing: dict[bytes, int] = {}
        #: Topic names, keyed by the name with underscores for periods, since metrics cannot tell the two apart.
        self._similar_names = {_folded(name): name for name in store.topics}
        #: Images, keyed by leader epoch and whether the log is offline: most partitions are alike, so equal ones share
        #: an image.
        self._partitions: dict[tuple[int, bool], PartitionImage] = {}
        topics = [self._image_of(topic) for topic in store.topics.values()]
        self.metadata = MetadataCache(
            MetadataImage(
                store.cluster_id,
                options.node_id,
                {options.node_id: BrokerRegistration(options.node_id, listeners)},
                {topic.name: topic for topic in topics},
                {topic.topic_id: topic for topic in topics},
                FinalizedFeatures(features, _FEATURES_EPOCH),
            )
        )

    # Names.

    def check_name(self, name: str) -> None:
        if name == CLUSTER_METADATA_TOPIC:
            raise BrokerError(ErrorCode.INVALID_REQUEST, f"Creation of internal topic {name} is prohibited.")
        check_characters(name)
        if self._is_taken(name):
            raise BrokerError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
        if (other := self.similar(name)) is not None:
            text = f"Topic '{name}' collides with existing topic: {other}"
            raise BrokerError(ErrorCode.INVALID_TOPIC_EXCEPTION, text)

    def similar(self, name: str) -> str | None:
        """Return the topic, existing or being created, whose name differs at most in periods and underscores."""
        known = self._similar_names.get(_folded(name))
        return known if known is not None and self._is_taken(known) else None

    def _is_taken(self, name: str) -> bool:
        return name in self._store.topics or name in self._creating

    def _forget_name(self, name: str) -> None:
        """Forget a name that no topic has, since clients may try any number of names."""
        if self._similar_names.get(_folded(name)) == name and self.similar(name) is None:
            del self._similar_names[_folded(name)]

    # Creating and deleting.

    def create(
        self,
        new: NewTopic,
        done: TopicDone,
        *,
        wait_ms: int = WAIT_MS_MAX,
        validate_only: bool = False,
        permit: Permit = unlimited,
    ) -> None:
        # The order of `ReplicationControlManager.createTopics` in Apache Kafka 4.3.
        try:
            self.check_name(new.name)
            configs = plan_configs(self._options, new.configs)
            partitions = plan_partitions(self._options, new)
            permit(partitions)
        except BrokerError as error:
            done(error)
            return
        if validate_only:
            planned = (self._partition(0, is_offline=False),) * partitions
            done(TopicImage(new.name, ZERO_UUID, planned, configs))
        else:
            self._create(new.name, partitions, configs, done)

    def _create_planned(self, name: str, done: TopicDone) -> None:
        """Create a topic with the defaults, or wait for a creation already in progress."""
        planned = plan_topic(name, self._options)
        self._create(name, planned.partitions, plan_configs(self._options, planned.configs), done)

    def _create(self, name: str, partitions: int, configs: Mapping[str, str], done: TopicDone) -> None:
        if name in self._creating:
            self._creating[name].append(done)
            return
        self._creating[name] = [done]
        self._similar_names[_folded(name)] = name

        def created(made: LocalTopic | BrokerError) -> None:
            waiting = self._creating.pop(name)
            if isinstance(made, BrokerError):
                self._forget_name(name)
            result = made if isinstance(made, BrokerError) else self._publish(made)
            for each in waiting:
                each(result)

        self._store.create(name, partitions, configs, created)

    def create_by_default(self, name: str, done: TopicDone, permit: Permit = unlimited) -> None:
        if name not in self._creating:
            self.check_name(name)
            permit(plan_topic(name, self._options).partitions)
        self._create_planned(name, done)

    def ensure(self, name: str, done: TopicDone) -> None:
        topic = self.metadata.image.topics.get(name)
        if topic is not None:
            done(topic)
        else:
            self._create_planned(name, done)

    def size_of(self, topic: TopicImage) -> int:
        return len(topic.partitions)

    def delete(self, topic: TopicImage, now_ms: int, done: Callable[[BrokerError | None], None]) -> None:
        def gone() -> None:
            self._forget_name(topic.name)
            self.metadata.publish(deleted=[topic.name])  # this closes its logs

        def deleted(error: BrokerError | None) -> None:
            if error is not None:
                done(error)
            else:
                self._forget(topic, lambda: done(None), now_ms)

        if (present := self._store.topics_by_id.get(topic.topic_id)) is None:
            done(_not_here())
        else:
            self._store.delete(present, self._timers.as_of_now(deleted), gone)

    # Changes to a topic.

    def check_partitions(self, topic: TopicImage, count: int) -> int:
        present = self._growing.get(topic.topic_id, len(topic.partitions))
        check_increase(topic.name, present, count)
        return count - present

    def check_assignments(self, assignments: Sequence[Sequence[int]], additional: int) -> Work[None]:
        return check_assignments(assignments, additional, self.metadata.image.brokers)

    def add_partitions(
        self,
        topic: TopicImage,
        count: int,
        done: TopicDone,
        *,
        assignments: Sequence[Sequence[int]] | None = None,
        wait_ms: int = WAIT_MS_MAX,
        validate_only: bool = False,
        permit: Permit = unlimited,
    ) -> None:
        # The assignments have been checked: each names only this broker.
        if (present := self._store.topics_by_id.get(topic.topic_id)) is None:
            done(_not_here())
            return
        try:
            permit(count - self._growing.get(topic.topic_id, len(topic.partitions)))
        except BrokerError as error:
            done(error)
            return
        if validate_only:
            done(topic)
            return
        self._growing[topic.topic_id] = count

        def added(outcome: LocalTopic | BrokerError) -> None:
            if self._growing[topic.topic_id] == count:  # this number is the one requested most recently
                del self._growing[topic.topic_id]
            done(outcome if isinstance(outcome, BrokerError) else self._publish(outcome))

        self._store.add_partitions(present, count, added)

    def configure(self, topic: TopicImage, revise: Revise, done: TopicDone) -> None:
        def configured(outcome: LocalTopic | BrokerError) -> None:
            done(outcome if isinstance(outcome, BrokerError) else self._publish(outcome))

        if (present := self._store.topics_by_id.get(topic.topic_id)) is None:
            done(_not_here())
            return
        try:
            revised = revise(present.configs)
        except BrokerError as error:
            done(error)
            return
        changes: dict[str, str | None] = dict.fromkeys(present.configs.keys() - revised.keys())
        changes |= {name: value for name, value in revised.items() if present.configs.get(name) != value}
        if changes:
            self._store.configure(present, changes, configured)
        else:
            done(self._image_of(present))

    def lost(self, name: str, number: int) -> None:
        """Record that the log of a partition has gone offline: the partition no longer has a leader.

        Args:
            name: name of the topic.
            number: number of the partition.
        """
        topic = self.metadata.newest.topics.get(name)
        if topic is not None and topic.partitions[number].has_leader:
            partitions = list(topic.partitions)
            partitions[number] = self._partition(partitions[number].leader_epoch, is_offline=True)
            self.metadata.publish([topic._replace(partitions=tuple(partitions))])

    # The image.

    def _publish(self, topic: LocalTopic) -> TopicImage:
        """Publish the durable state of a topic, and return its image."""
        self.metadata.publish([self._image_of(topic)])
        return self.metadata.newest.topics[topic.name]

    def _image_of(self, topic: LocalTopic) -> TopicImage:
        logs = self._store.directory.of(topic.name).values()
        partitions = [self._partition(log.leader_epoch, is_offline=log.is_offline) for log in logs]
        return TopicImage(topic.name, topic.topic_id, tuple(partitions), topic.configs)

    def _partition(self, leader_epoch: int, *, is_offline: bool) -> PartitionImage:
        known = self._partitions.get((leader_epoch, is_offline))
        if known is None:
            node = (self._options.node_id,)
            known = PartitionImage(self._options.node_id, leader_epoch, isr=node, replicas=node)
            if is_offline:  # Kafka shows a replica on a failed disk in the same way, since it has all committed records
                known = PartitionImage(NO_LEADER_ID, leader_epoch, (), node, node, node, node)
            self._partitions[leader_epoch, is_offline] = known
        return known


def _not_here() -> BrokerError:
    return BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition.")


def _folded(name: str) -> str:
    return name.replace(".", "_")
