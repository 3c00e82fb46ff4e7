"""Reads brokers and topics from the registry, with watches; damaged nodes are logged and left out.

Source: `KafkaZkClient.getAllBrokerAndEpochsInCluster`, `getReplicaAssignmentAndTopicIdForTopics` in Apache Kafka.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from kafkawire.reference_broker.cluster.controller.context import ReplicaAssignment
from kafkawire.reference_broker.cluster.controller.live_brokers import LiveBroker, live_broker
from kafkawire.reference_broker.cluster.controller.lookout import Lookout
from kafkawire.reference_broker.metadata.new_topics import check_characters
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.tables.znodes import (
    BROKER,
    BROKER_IDS,
    TOPIC,
    TOPIC_DELETIONS,
    TOPICS,
    TopicAssignment,
)
from kafkawire.sdk.registry.content import DamagedZnode
from kafkawire.sdk.registry.paths import child_path
from kafkawire.sdk.registry.registry import Data, RegistryError
from kafkawire.sdk.registry.steps import Steps, list_children

__all__ = ["ClusterReader", "StoredTopic", "stored_topic"]

_log = logging.getLogger("kafkawire.broker")


class StoredTopic(NamedTuple):
    """A topic as stored in the registry.

    Attributes:
        topic_id: None if a release before 2.8 created the topic.
        assignments: the replicas of each partition.
        version: the version of the topic's node.
    """

    topic_id: bytes | None
    assignments: dict[int, ReplicaAssignment]
    version: int


class ClusterReader:
    """Reads through a single watcher, so the controller has at most one watch on each node.

    Args:
        lookout: called when something that has been read changes.
    """

    def __init__(self, lookout: Lookout) -> None:
        self._lookout = lookout
        #: Why registrations are ignored, keyed by path. Each reason is logged once, however often the brokers are
        #: listed.
        self._ignored: dict[str, str] = {}

    def brokers(self, known: Mapping[int, LiveBroker]) -> Steps[dict[int, LiveBroker]]:
        """Read the registered brokers, and watch them.

        Args:
            known: the brokers as last read; a broker whose registration exists but cannot be read is kept as it was.

        Raises:
            RegistryError: the brokers cannot be listed.
        """
        children = yield from list_children(BROKER_IDS.path(), self._lookout)
        ids: list[int] = []
        ignored, self._ignored = self._ignored, {}
        for name in () if children is None else children.names:
            path = child_path(BROKER_IDS.path(), name)
            try:
                ids.append(_broker_id(path))
            except DamagedZnode as error:
                self._ignore(path, error, ignored)
        ids.sort()
        found = yield from self._lookout.read_each([BROKER.path(broker_id) for broker_id in ids])
        brokers: dict[int, LiveBroker] = {}
        for broker_id, data in zip(ids, found, strict=True):
            try:
                broker = _broker(broker_id, data)
            except DamagedZnode as error:
                self._ignore(BROKER.path(broker_id), error, ignored)
                broker = None
            if broker is None and data is not None and broker_id in known:
                # A registration with a different epoch belongs to a broker that has restarted.
                is_same = not isinstance(data, Data) or data.stat.czxid == known[broker_id].epoch
                broker = known[broker_id] if is_same else None
            if broker is not None:
                brokers[broker_id] = broker
        return brokers

    def broker(self, broker_id: int) -> Steps[LiveBroker | None]:
        """Re-read and watch a broker; return None if it is gone or its registration cannot be read."""
        path = BROKER.path(broker_id)
        (data,) = yield from self._lookout.read_each((path,))
        before = {path: self._ignored.pop(path)} if path in self._ignored else {}
        try:
            return _broker(broker_id, data)
        except DamagedZnode as error:
            self._ignore(path, error, before)
            return None

    def _ignore(self, path: str, error: DamagedZnode, before: Mapping[str, str]) -> None:
        self._ignored[path] = reason = str(error)
        if before.get(path) != reason:
            _log.error("ignoring a registration: %s", reason)

    def topic_names(self) -> Steps[tuple[str, ...]]:
        """Read the names of all topics, and watch the list for changes.

        Raises:
            RegistryError: the topics cannot be listed.
        """
        children = yield from list_children(TOPICS.path(), self._lookout)
        return () if children is None else children.names

    def topics(self, names: Iterable[str]) -> Steps[dict[str, StoredTopic]]:
        """Read topics and watch each of them; topics that are gone or cannot be read are left out."""
        listed = list(names)
        found = yield from self._lookout.read_each([TOPIC.path(name) for name in listed])
        topics = {name: stored_topic(name, data) for name, data in zip(listed, found, strict=True)}
        return {name: topic for name, topic in topics.items() if topic is not None}

    def deletions(self) -> Steps[tuple[str, ...] | None]:
        """Read the names of the topics to be deleted, and watch the list for changes; return None if that fails."""
        return (yield from self._lookout.names(TOPIC_DELETIONS.path()))


def _broker_id(path: str) -> int:
    (broker_id,) = BROKER.parameters(path)
    if broker_id < 0:  # as a leader id, -1 means that there is no leader
        raise DamagedZnode(path, "broker_id", f"the broker id must be 0 or higher, got {broker_id}")
    return broker_id


def _broker(broker_id: int, data: Data | RegistryError | None) -> LiveBroker | None:
    if not isinstance(data, Data):
        return None
    return live_broker(broker_id, BROKER.decode(data.data, BROKER.path(broker_id)), data.stat.czxid)


def stored_topic(name: str, data: Data | RegistryError | None) -> StoredTopic | None:
    """Return the topic that its node describes; None if the node does not exist or is damaged."""
    if not isinstance(data, Data):
        return None
    try:
        stored = _usable(name, TOPIC.decode(data.data, TOPIC.path(name)))
    except DamagedZnode as error:
        _log.error("ignoring topic %s, since its assignment cannot be read: %s", name, error)
        return None
    adding, removing = stored.adding_replicas, stored.removing_replicas
    assignments = {
        number: ReplicaAssignment(*map(_unique, (replicas, adding.get(number, ()), removing.get(number, ()))))
        for number, replicas in sorted(stored.partitions.items())
    }
    return StoredTopic(stored.topic_id, assignments, data.stat.version)


def _usable(name: str, stored: TopicAssignment) -> TopicAssignment:
    """Return the content of a topic, provided that brokers can host the topic.

    Raises:
        DamagedZnode: the topic's name or a partition's number is invalid; the partition's folder could then be that of
            another partition, or lie outside the data directory.
    """
    path = TOPIC.path(name)
    try:
        check_characters(name)
    except BrokerError as error:
        raise DamagedZnode(path, "", error.detail) from None
    if negative := [number for number in stored.partitions if number < 0]:
        raise DamagedZnode(
            path, f"partitions.{negative[0]}", f"the partition number must be 0 or higher, got {negative[0]}"
        )
    return stored


def _unique(broker_ids: Iterable[int]) -> tuple[int, ...]:
    """Return broker ids without the duplicates that other programs may have written."""
    return tuple(dict.fromkeys(broker_ids))
