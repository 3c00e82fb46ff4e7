"""Reads brokers and topics from the registry, with watches; what is damaged is logged and left out.

Source: `KafkaZkClient.getAllBrokerAndEpochsInCluster`, `getReplicaAssignmentAndTopicIdForTopics` in Apache Kafka.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import NamedTuple

from kafkawire.reference_broker.cluster.controller.context import ReplicaAssignment
from kafkawire.reference_broker.cluster.controller.live_brokers import LiveBroker, live_broker
from kafkawire.sdk.protocol.tables.znodes import BROKER, BROKER_IDS, TOPIC, TOPIC_DELETIONS, TOPICS
from kafkawire.sdk.registry.content import DamagedZnode
from kafkawire.sdk.registry.registry import Data, Watcher
from kafkawire.sdk.registry.steps import Steps, list_children, read, read_all

__all__ = ["ClusterReader", "StoredTopic"]

_log = logging.getLogger("kafkawire.broker")


class StoredTopic(NamedTuple):
    """A topic as the registry has it.

    Attributes:
        topic_id: None if a release before 2.8 created the topic.
        assignments: the replicas of each partition.
    """

    topic_id: bytes | None
    assignments: dict[int, ReplicaAssignment]


class ClusterReader:
    """Reads with one watcher, so that a node has at most one watch of the controller.

    Args:
        watcher: called when something that was read has changed.
    """

    def __init__(self, watcher: Watcher) -> None:
        self._watcher = watcher

    def brokers(self) -> Steps[dict[int, LiveBroker]]:
        """Read the registered brokers, and watch them."""
        children = yield from list_children(BROKER_IDS.path(), self._watcher)
        ids: list[int] = []
        for name in () if children is None else children.names:
            try:
                ids += BROKER.parameters(f"{BROKER_IDS.path()}/{name}")
            except DamagedZnode as error:
                _log.error("a registration is ignored: %s", error)
        ids.sort()
        found = yield from read_all([BROKER.path(broker_id) for broker_id in ids], self._watcher)
        brokers = {broker_id: _broker(broker_id, data) for broker_id, data in zip(ids, found, strict=True)}
        return {broker_id: broker for broker_id, broker in brokers.items() if broker is not None}

    def broker(self, broker_id: int) -> Steps[LiveBroker | None]:
        """Read a broker again, and watch it; None if it is gone or its registration is damaged."""
        return _broker(broker_id, (yield from read(BROKER.path(broker_id), self._watcher)))

    def topic_names(self) -> Steps[tuple[str, ...]]:
        """Read the names of all topics, and watch for other ones."""
        children = yield from list_children(TOPICS.path(), self._watcher)
        return () if children is None else children.names

    def topics(self, names: Iterable[str]) -> Steps[dict[str, StoredTopic]]:
        """Read topics, and watch each; those that are gone or damaged are left out."""
        listed = list(names)
        found = yield from read_all([TOPIC.path(name) for name in listed], self._watcher)
        topics = {name: _topic(name, data) for name, data in zip(listed, found, strict=True)}
        return {name: topic for name, topic in topics.items() if topic is not None}

    def deletions(self) -> Steps[tuple[str, ...]]:
        """Read the names of the topics that are to be deleted, and watch for other ones."""
        children = yield from list_children(TOPIC_DELETIONS.path(), self._watcher)
        return () if children is None else children.names


def _broker(broker_id: int, data: Data | None) -> LiveBroker | None:
    if data is None:
        return None
    try:
        registration = BROKER.decode(data.data, BROKER.path(broker_id))
        return live_broker(broker_id, registration, data.stat.czxid)
    except DamagedZnode as error:
        _log.error("broker %d is ignored, since its registration cannot be read: %s", broker_id, error)
        return None


def _topic(name: str, data: Data | None) -> StoredTopic | None:
    if data is None:
        return None
    try:
        stored = TOPIC.decode(data.data, TOPIC.path(name))
    except DamagedZnode as error:
        _log.error("topic %s is ignored, since its assignment cannot be read: %s", name, error)
        return None
    adding, removing = stored.adding_replicas, stored.removing_replicas
    assignments = {
        number: ReplicaAssignment(replicas, adding.get(number, ()), removing.get(number, ()))
        for number, replicas in sorted(stored.partitions.items())
    }
    return StoredTopic(stored.topic_id, assignments)
