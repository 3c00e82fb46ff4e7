"""The metadata image of a broker in a ZooKeeper-based cluster, built from the controller's UpdateMetadata requests.

    controller ──UpdateMetadata──▶ ClusterMetadata ──topics, brokers──▶ MetadataCache

A request names the controller, all live brokers, and only those partitions that have changed. The image serves only to
answer clients: LeaderAndIsr and StopReplica decide what this broker leads. Since a controller may be faulty, entries
that cannot be right are logged and ignored. A controller replaces a broken connection, and a request on the old one may
arrive last; a partition's entry is therefore ignored if the same controller has already sent a later state.

Source: `ZkMetadataCache.updateMetadata`, `UpdateMetadataRequest` in Apache Kafka 3.9, where the last arrival counts.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import repeat
from typing import Final

from kafkawire.reference_broker.metadata.image import (
    UNKNOWN_PARTITION,
    BrokerRegistration,
    MetadataImage,
    PartitionImage,
    TopicImage,
)
from kafkawire.reference_broker.metadata.metadata_cache import MetadataCache
from kafkawire.reference_broker.work.pieces import Work
from kafkawire.sdk.protocol.messages.update_metadata import UpdateMetadataRequest
from kafkawire.sdk.protocol.tables.configs import BROKER_CONFIGS
from kafkawire.sdk.protocol.tables.enums import (
    LEADER_DURING_DELETION,
    NO_CONTROLLER_ID,
    NO_LEADER_ID,
    NO_PARTITION_LEADER_EPOCH,
)
from kafkawire.sdk.protocol.uuids import ZERO_UUID
from kafkawire.sdk.transport.wire import Address

__all__ = ["GAPS_MAX", "ClusterMetadata"]

_log = logging.getLogger("kafkawire.broker")

#: Maximum total number of gaps (`UNKNOWN_PARTITION`) in all topics, which take 8 MB. Without a limit, a single
#: partition number could cause up to 2^31 gaps.
GAPS_MAX: Final = 1_000_000

State = UpdateMetadataRequest.UpdateMetadataPartitionState

#: Security protocols, in the order of their ids. Before version 3, endpoints have no listener name, so the name of the
#: security protocol is used instead.
_SECURITY_PROTOCOLS: Final = BROKER_CONFIGS["security.inter.broker.protocol"].one_of


class ClusterMetadata:
    """The metadata of a cluster.

    Args:
        cluster_id: the cluster's id, in Kafka's text form.
        broker_id: the id of this broker.
        configs: returns those configurations of a topic that have been read; see `new_topics`.

    Attributes:
        metadata: the image. Before the first request, it has no brokers and no topics.
    """

    def __init__(self, cluster_id: str, broker_id: int, configs: Callable[[str], Mapping[str, str]]) -> None:
        self.metadata = MetadataCache(MetadataImage(cluster_id, NO_CONTROLLER_ID, {}, {}, {}))
        self._broker_id = broker_id
        self._configs = configs
        #: The number of gaps in the image.
        self._gaps = 0
        #: The epoch of the controller that sent the last request; None before the first.
        self._controller_epoch: int | None = None
        #: The epochs of those partitions that this controller has sent, keyed by topic. The image does not have them,
        #: since clients are not told.
        self._partition_epochs: dict[str, dict[int, int]] = {}

    def new_topics(self, request: UpdateMetadataRequest) -> Work[list[str]]:
        """Return the names of topics that a request adds to the image; yield after each topic in the request.

        The configurations of these topics must be read before `apply`.
        """
        names: dict[str, None] = {}
        for name, topic_id, states in _topics_of(request):
            known = self.metadata.newest.topics.get(name)
            if (known is None or _are_different(known.topic_id, topic_id)) and not all(map(_is_deletion, states)):
                names[name] = None
            yield
        return list(names)

    def apply(self, request: UpdateMetadataRequest) -> Work[None]:
        """Apply a request as one change to the image, made at the end; yield after each partition, topic and broker.

        Requests must be applied one at a time, and their epochs must have been checked.
        """
        # Every controller begins with all partitions, and it alone knows their state.
        is_same = request.controller_epoch == self._controller_epoch
        update = _Update(self.metadata.newest.topics, self._partition_epochs if is_same else {}, self._gaps)
        yield from update.take_topics(request)
        brokers = yield from update.take_brokers(request)
        if update.refused:
            text = "UpdateMetadata from controller %d: ignoring %d entries; the first is %s"
            _log.warning(text, request.controller_id, update.refused, update.first_refusal)
        if not is_same:
            self._controller_epoch = request.controller_epoch
            self._partition_epochs = {}
        self._publish(request, update, brokers)

    def configure(self, name: str, configs: Mapping[str, str]) -> None:
        """Change the configurations of a topic, if the topic is in the image."""
        topic = self.metadata.newest.topics.get(name)
        if topic is not None and topic.configs != configs:
            self.metadata.publish([topic._replace(configs=configs)])

    def _publish(
        self, request: UpdateMetadataRequest, update: _Update, brokers: Mapping[int, BrokerRegistration]
    ) -> None:
        present: list[TopicImage] = []
        deleted: list[str] = []
        before = self.metadata.newest
        for name, draft in update.drafts.items():
            partitions = update.trimmed(draft)
            known = before.topics.get(name)
            if known is not None and (not partitions or _are_different(known.topic_id, draft.topic_id)):
                deleted.append(name)
                known = None
            self._partition_epochs.pop(name, None)
            if partitions:
                self._partition_epochs[name] = draft.partition_epochs
                configs = self._configs(name) if known is None else known.configs
                topic = TopicImage(name, draft.topic_id, partitions, configs)
                if topic != known:
                    present.append(topic)
        self._gaps = update.gaps
        controller_id = max(request.controller_id, NO_CONTROLLER_ID)
        has_other_brokers = brokers != before.brokers
        if present or deleted or has_other_brokers or controller_id != before.controller_id:
            self.metadata.publish(present, deleted, brokers=brokers, controller_id=controller_id)
        if has_other_brokers:
            self._compare_listeners(brokers)

    def _compare_listeners(self, brokers: Mapping[int, BrokerRegistration]) -> None:
        """Log an error if other brokers have different listeners, since this broker's clients cannot reach those."""
        own = brokers.get(self._broker_id)
        if own is not None:
            others = [each.broker_id for each in brokers.values() if each.listeners.keys() != own.listeners.keys()]
            if others:
                text = "%d brokers have different listeners from this broker, including broker %d"
                _log.error(text, len(others), others[0])


class _Draft:
    """The state of a topic while a request is being applied.

    Args:
        known: the topic's image before the request, or None if it is new.
        partition_epochs: the partition epochs before the request.

    Attributes:
        topic_id: zeros if unknown.
        partitions: the partitions, keyed by number.
        partition_epochs: the epochs of those partitions that this controller has sent, keyed by number.
    """

    __slots__ = ("partition_epochs", "partitions", "topic_id")

    def __init__(self, known: TopicImage | None, partition_epochs: Mapping[int, int]) -> None:
        self.partition_epochs = dict(partition_epochs)
        self.topic_id = ZERO_UUID if known is None else known.topic_id
        self.partitions: list[PartitionImage] = [] if known is None else list(known.partitions)


class _Update:
    """The changes made by one request. Each topic is copied once, however often the request names it.

    Args:
        topics: the topics before the request.
        partition_epochs: the epochs of those partitions that the same controller has already sent, keyed by topic.
        gaps: the number of gaps in these topics.

    Attributes:
        drafts: the topics that the request names.
        gaps: the number of gaps, including those of the drafts.
        refused: the number of ignored entries.
        first_refusal: the reason for ignoring the first entry.
    """

    def __init__(
        self, topics: Mapping[str, TopicImage], partition_epochs: Mapping[str, Mapping[int, int]], gaps: int
    ) -> None:
        self._topics = topics
        self._partition_epochs = partition_epochs
        #: Most partitions in a cluster are equal to some other partition, so equal ones share an image.
        self._shared: dict[PartitionImage, PartitionImage] = {}
        self.drafts: dict[str, _Draft] = {}
        self.gaps = gaps
        self.refused = 0
        self.first_refusal = ""

    def take_topics(self, request: UpdateMetadataRequest) -> Work[None]:
        """Update the drafts of topics; yield after each partition and topic."""
        for name, topic_id, states in _topics_of(request):
            if not name:
                self._refuse("a topic without a name")
            elif states:
                draft = self.drafts.get(name)
                if draft is None:
                    draft = self.drafts[name] = _Draft(self._topics.get(name), self._partition_epochs.get(name, {}))
                self._identify(draft, topic_id)
                for state in states:
                    self._take(name, draft, state)
                    yield
            yield

    def take_brokers(self, request: UpdateMetadataRequest) -> Work[dict[int, BrokerRegistration]]:
        """Return the live brokers; as in Kafka, the last of several with the same id wins."""
        brokers: dict[int, BrokerRegistration] = {}
        for broker in request.live_brokers:
            if broker.id < 0:  # as a leader id, -1 means that there is no leader
                self._refuse(f"broker {broker.id}")
            else:
                brokers[broker.id] = BrokerRegistration(broker.id, self._listeners(broker), broker.rack or None)
            yield
        return brokers

    def trimmed(self, draft: _Draft) -> tuple[PartitionImage, ...]:
        """Return the partitions of a draft without trailing gaps."""
        partitions = draft.partitions
        while partitions and partitions[-1] is UNKNOWN_PARTITION:
            partitions.pop()
            self.gaps -= 1
        return tuple(partitions)

    def _identify(self, draft: _Draft, topic_id: bytes | None) -> None:
        """Set the id of a topic; a different id belongs to a different topic, which has none of these partitions."""
        if topic_id is None:
            return
        if _are_different(draft.topic_id, topic_id):
            self.gaps -= sum(each is UNKNOWN_PARTITION for each in draft.partitions)
            draft.partitions.clear()
            draft.partition_epochs.clear()
        draft.topic_id = topic_id

    def _take(self, name: str, draft: _Draft, state: State) -> None:
        number, partitions = state.partition_index, draft.partitions
        gap = number - len(partitions)
        if _is_deletion(state):
            if 0 <= number < len(partitions) and partitions[number] is not UNKNOWN_PARTITION:
                partitions[number] = UNKNOWN_PARTITION
                draft.partition_epochs.pop(number, None)
                self.gaps += 1
        elif number < 0 or gap > GAPS_MAX - self.gaps:
            self._refuse(f"partition {number} of {name!r:.300}")
        elif gap >= 0:
            partitions.extend(repeat(UNKNOWN_PARTITION, gap))
            partitions.append(self._image_of(state))
            draft.partition_epochs[number] = state.zk_version
            self.gaps += gap
        elif not _is_outdated(draft, state):
            self.gaps -= partitions[number] is UNKNOWN_PARTITION
            partitions[number] = self._image_of(state)
            draft.partition_epochs[number] = state.zk_version

    def _image_of(self, state: State) -> PartitionImage:
        image = PartitionImage(
            max(state.leader, NO_LEADER_ID),
            max(state.leader_epoch, NO_PARTITION_LEADER_EPOCH),
            tuple(state.isr),
            tuple(state.replicas),
            tuple(state.offline_replicas),
        )
        return self._shared.setdefault(image, image)

    def _listeners(self, broker: UpdateMetadataRequest.UpdateMetadataBroker) -> dict[str, Address]:
        if not broker.endpoints and broker.v0_host:
            return {_SECURITY_PROTOCOLS[0]: Address(broker.v0_host, broker.v0_port)}
        listeners: dict[str, Address] = {}
        for endpoint in broker.endpoints:
            name = endpoint.listener
            if not name and endpoint.security_protocol in range(len(_SECURITY_PROTOCOLS)):
                name = _SECURITY_PROTOCOLS[endpoint.security_protocol]
            if name:
                listeners[name] = Address(endpoint.host, endpoint.port)
            else:
                self._refuse(f"a listener of broker {broker.id} with the protocol {endpoint.security_protocol}")
        return listeners

    def _refuse(self, entry: str) -> None:
        self.first_refusal = self.first_refusal or entry
        self.refused += 1


def _topics_of(request: UpdateMetadataRequest) -> Iterator[tuple[str, bytes | None, Sequence[State]]]:
    """Yield the topics in a request: name, id (None if the version has no ids), and partitions; a topic may recur.

    Versions before 5 list partitions without grouping them by topic.
    """
    for state in request.ungrouped_partition_states:
        yield state.topic_name, None, (state,)
    for topic in request.topic_states:
        yield topic.topic_name, bytes(topic.topic_id), topic.partition_states


def _is_deletion(state: State) -> bool:
    return state.leader == LEADER_DURING_DELETION


def _is_outdated(draft: _Draft, state: State) -> bool:
    """Return whether the same controller has already sent a later state of the partition.

    A topic without an id may be another one of the same name, whose epochs cannot be compared.
    """
    number = state.partition_index
    if number not in draft.partition_epochs or draft.topic_id == ZERO_UUID:
        return False
    known = draft.partitions[number].leader_epoch, draft.partition_epochs[number]
    return (state.leader_epoch, state.zk_version) < known


def _are_different(known: bytes, topic_id: bytes | None) -> bool:
    """Return whether two ids belong to different topics; a topic may be given its id later, or lose it."""
    return topic_id is not None and known != topic_id and ZERO_UUID not in (known, topic_id)
