"""The share partitions of a group whose state the share coordinator has, is about to begin, or is about to delete.

Only partitions with a state are assigned to members. The group coordinator asks the persister to begin the states of
subscribed partitions; if it gets no answer, it asks again later.

Source: `ShareGroupStatePartitionMetadataInfo`, `GroupMetadataManager.combineInitMaps` in Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from kafkawire.reference_broker.groups.consumer.group import Partitions
from kafkawire.reference_broker.groups.topics import TopicFacts

__all__ = ["INITIALIZE_AGAIN_MS", "StatePartitions", "TopicStates"]

#: How long to wait for the persister before it is asked again: the default of Kafka's internal
#: `group.share.initialize.retry.interval.ms`.
INITIALIZE_AGAIN_MS = 30_000


class TopicStates(NamedTuple):
    """The partitions of one topic.

    Attributes:
        name: the name of the topic.
        partitions: the numbers of the partitions.
        noted_ms: when the record about them was replayed.
    """

    name: str
    partitions: frozenset[int]
    noted_ms: int


class StatePartitions(NamedTuple):
    """The share partitions of a group, keyed by topic id.

    Attributes:
        initializing: those whose states the persister was asked to begin.
        initialized: those that have a state.
        deleting: the names of the topics whose states the persister was asked to delete.
    """

    initializing: Mapping[bytes, TopicStates] = {}
    initialized: Mapping[bytes, TopicStates] = {}
    deleting: Mapping[bytes, str] = {}

    @property
    def assignable(self) -> Partitions:
        """The partitions that have a state."""
        return {topic_id: known.partitions for topic_id, known in self.initialized.items()}

    def missing(self, names: Iterable[str], topics: Mapping[str, TopicFacts], now_ms: int) -> dict[bytes, TopicStates]:
        """Return the subscribed partitions without a state, except those for which the persister was asked recently."""
        missing = {}
        for name in names:
            if name not in topics:
                continue
            topic_id, count = topics[name]
            known: frozenset[int] = frozenset()
            if topic_id in self.initialized:
                known |= self.initialized[topic_id].partitions
            asked = self.initializing.get(topic_id)
            if asked is not None and now_ms - asked.noted_ms < INITIALIZE_AGAIN_MS:
                known |= asked.partitions
            if len(known) < count:
                missing[topic_id] = TopicStates(name, frozenset(range(count)) - known, now_ms)
        return missing

    def begin(self, asked: Mapping[bytes, TopicStates]) -> StatePartitions:
        """Return the group's partitions once the persister is asked to begin states."""
        initializing = _joined(self.initializing, asked)
        deleting = {topic_id: name for topic_id, name in self.deleting.items() if topic_id not in initializing}
        return self._replace(initializing=initializing, deleting=deleting)

    def begun(self, states: Mapping[bytes, TopicStates]) -> StatePartitions:
        """Return the group's partitions once the persister has begun states."""
        return self._replace(
            initializing=_without(self.initializing, states), initialized=_joined(self.initialized, states)
        )

    def refused(self, partitions: Partitions) -> StatePartitions:
        """Return the group's partitions once the persister has refused to begin states."""
        states = {topic_id: TopicStates("", numbers, 0) for topic_id, numbers in partitions.items()}
        return self._replace(initializing=_without(self.initializing, states))

    def forget(self, topic_ids: frozenset[bytes]) -> StatePartitions:
        """Return the group's partitions without those of deleted topics."""
        return StatePartitions(
            {topic_id: states for topic_id, states in self.initializing.items() if topic_id not in topic_ids},
            {topic_id: states for topic_id, states in self.initialized.items() if topic_id not in topic_ids},
            {topic_id: name for topic_id, name in self.deleting.items() if topic_id not in topic_ids},
        )

    def to_delete(self) -> dict[bytes, TopicStates]:
        """Return everything that may have a state."""
        return _joined(self.initialized, self.initializing)

    def assigned_all(self, targets: Iterable[Partitions], names: frozenset[str]) -> bool:
        """Return whether members have all partitions of the subscribed topics that have a state, and no others."""
        assigned: dict[bytes, set[int]] = {}
        for target in targets:
            for topic_id, numbers in target.items():
                assigned.setdefault(topic_id, set()).update(numbers)
        return all(
            assigned.get(topic_id) == set(known.partitions)
            for topic_id, known in self.initialized.items()
            if known.name in names
        )


def _joined(known: Mapping[bytes, TopicStates], added: Mapping[bytes, TopicStates]) -> dict[bytes, TopicStates]:
    joined = dict(known)
    for topic_id, states in added.items():
        before = known.get(topic_id)
        partitions = states.partitions if before is None else before.partitions | states.partitions
        joined[topic_id] = states._replace(partitions=partitions)
    return joined


def _without(known: Mapping[bytes, TopicStates], gone: Mapping[bytes, TopicStates]) -> dict[bytes, TopicStates]:
    left = {}
    for topic_id, states in known.items():
        partitions = states.partitions - gone[topic_id].partitions if topic_id in gone else states.partitions
        if partitions:
            left[topic_id] = states._replace(partitions=partitions)
    return left
