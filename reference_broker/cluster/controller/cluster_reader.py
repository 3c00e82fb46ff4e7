"""Reads brokers and topics from the registry, with watches; what is damaged is logged and left out.

Source: `KafkaZkClient.getAllBrokerAndEpochsInCluster`, `getReplicaAssignmentAndTopicIdForTopics` in Apache Kafka.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from kafkawire.reference_broker.cluster.controller.context import ReplicaAssignment
from kafkawire.reference_broker.cluster.controller.live_brokers import LiveBroker, live_broker
from kafkawire.reference_broker.cluster.controller.lookout import Lookout
from kafkawire.sdk.protocol.tables.znodes import BROKER, BROKER_IDS, TOPIC, TOPIC_DELETIONS, TOPICS
from kafkawire.sdk.registry.content import DamagedZnode
from kafkawire.sdk.registry.registry import Data, RegistryError
from kafkawire.sdk.registry.steps import Steps, list_children

__all__ = ["ClusterReader", "StoredTopic", "stored_topic"]

_log = logging.getLogger("kafkawire.broker")


class StoredTopic(NamedTuple):
    """A topic as the registry has it.

    Attributes:
        topic_id: None if a release before 2.8 created the topic.
        assignments: the replicas of each partition.
        version: of the node.
    """

    topic_id: bytes | None
    assignments: dict[int, ReplicaAssignment]
    version: int


class ClusterReader:
    """Reads with one watcher, so that a node has at most one watch of the controller.

    Args:
        lookout: called when something that was read has changed.
    """

    def __init__(self, lookout: Lookout) -> None:
        self._lookout = lookout

    def brokers(self, known: Mapping[int, LiveBroker]) -> Steps[dict[int, LiveBroker]]:
        """Read the registered brokers, and watch them.

        Args:
            known: brokers as they were read before; one whose registration exists and cannot be read stays as it was.

        Raises:
            RegistryError: the brokers cannot be listed.
        """
        children = yield from list_children(BROKER_IDS.path(), self._lookout)
        ids: list[int] = []
        for name in () if children is None else children.names:
            try:
                ids += BROKER.parameters(f"{BROKER_IDS.path()}/{name}")
            except DamagedZnode as error:
                _log.error("a registration is ignored: %s", error)
        ids.sort()
        found = yield from self._lookout.read_each([BROKER.path(broker_id) for broker_id in ids])
        brokers: dict[int, LiveBroker] = {}
        for broker_id, data in zip(ids, found, strict=True):
            broker = _broker(broker_id, data)
            if broker is None and data is not None and broker_id in known:
                # A registration of another epoch is a broker that has restarted.
                is_same = not isinstance(data, Data) or data.stat.czxid == known[broker_id].epoch
                broker = known[broker_id] if is_same else None
            if broker is not None:
                brokers[broker_id] = broker
        return brokers

    def broker(self, broker_id: int) -> Steps[LiveBroker | None]:
        """Read a broker again, and watch it; None if it is gone or its registration cannot be read."""
        (data,) = yield from self._lookout.read_each((BROKER.path(broker_id),))
        return _broker(broker_id, data)

    def topic_names(self) -> Steps[tuple[str, ...]]:
        """Read the names of all topics, and watch for other ones.

        Raises:
            RegistryError: the topics cannot be listed.
        """
        children = yield from list_children(TOPICS.path(), self._lookout)
        return () if children is None else children.names

    def topics(self, names: Iterable[str]) -> Steps[dict[str, StoredTopic]]:
        """Read topics, and watch each; those that are gone or cannot be read are left out."""
        listed = list(names)
        found = yield from self._lookout.read_each([TOPIC.path(name) for name in listed])
        topics = {name: stored_topic(name, data) for name, data in zip(listed, found, strict=True)}
        return {name: topic for name, topic in topics.items() if topic is not None}

    def deletions(self) -> Steps[tuple[str, ...] | None]:
        """Read the names of the topics that are to be deleted, and watch for other ones; None if this failed."""
        return (yield from self._lookout.names(TOPIC_DELETIONS.path()))


def _broker(broker_id: int, data: Data | RegistryError | None) -> LiveBroker | None:
    if not isinstance(data, Data):
        return None
    try:
        registration = BROKER.decode(data.data, BROKER.path(broker_id))
        return live_broker(broker_id, registration, data.stat.czxid)
    except DamagedZnode as error:
        _log.error("broker %d is ignored, since its registration cannot be read: %s", broker_id, error)
        return None


def stored_topic(name: str, data: Data | RegistryError | None) -> StoredTopic | None:
    """Return the topic that a read of its node has found; None if it was not found, or is damaged."""
    if not isinstance(data, Data):
        return None
    try:
        stored = TOPIC.decode(data.data, TOPIC.path(name))
    except DamagedZnode as error:
        _log.error("topic %s is ignored, since its assignment cannot be read: %s", name, error)
        return None
    adding, removing = stored.adding_replicas, stored.removing_replicas
    assignments = {
        number: ReplicaAssignment(*map(_unique, (replicas, adding.get(number, ()), removing.get(number, ()))))
        for number, replicas in sorted(stored.partitions.items())
    }
    return StoredTopic(stored.topic_id, assignments, data.stat.version)


def _unique(broker_ids: Iterable[int]) -> tuple[int, ...]:
    """Return broker ids without repetitions, which other programs may have written."""
    return tuple(dict.fromkeys(broker_ids))
