"""A topology with the number of tasks of each subtopology, or what its topics lack.

The number of partitions of an internal topic follows from the topics that its subtopologies read: a repartition topic
without a number of its own has as many as the sources of the subtopology that writes it, topics of a copartition group
must have the same number, and a changelog has as many as its subtopology has tasks.

Source: KIP-1071; `InternalTopicManager`, `RepartitionTopics`, `CopartitionedTopicsEnforcer`, `ChangelogTopics` in
Apache Kafka, whose error texts are kept.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, MutableMapping
from typing import Final, NamedTuple

from kafkawire.reference_broker.groups.streams.topology import InternalTopic, Subtopology, Topology
from kafkawire.reference_broker.groups.topics import TopicFacts
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.tables.enums import StreamsGroupStatus
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode

__all__ = ["TASKS_MAX", "ConfiguredSubtopology", "ConfiguredTopology", "Obstacle", "configured"]

#: Maximum number of tasks of a topology: an assignment goes through all of them without interruption. The largest known
#: applications have some thousands.
TASKS_MAX: Final = 100_000

#: The number of topics that a text names.
_NAMED_MAX: Final = 3


class Obstacle(NamedTuple):
    """Why tasks cannot be assigned.

    Attributes:
        status: what members are told.
        detail: the text for it.
    """

    status: StreamsGroupStatus
    detail: str


class ConfiguredSubtopology(NamedTuple):
    """A subtopology whose number of tasks is known.

    Attributes:
        tasks: the number of tasks.
        sources: the topics that it reads and that the application did not create.
        repartition_sinks: repartition topics that it writes.
        repartition_sources: repartition topics that it reads, with their numbers of partitions.
        changelogs: its changelogs, with their numbers of partitions.
    """

    tasks: int
    sources: frozenset[str]
    repartition_sinks: frozenset[str]
    repartition_sources: tuple[InternalTopic, ...]
    changelogs: tuple[InternalTopic, ...]

    @property
    def source_names(self) -> list[str]:
        """The names of the topics that it reads, sorted."""
        return sorted({*self.sources, *(topic.name for topic in self.repartition_sources)})


class ConfiguredTopology(NamedTuple):
    """A topology whose topics have been checked.

    Attributes:
        epoch: the topology's epoch.
        subtopologies: the subtopologies in the order of their ids, keyed by id; empty if sources are missing.
        missing: the internal topics to create, keyed by name.
        obstacle: see `Obstacle`; None if tasks can be assigned.
    """

    epoch: int
    subtopologies: Mapping[str, ConfiguredSubtopology]
    missing: Mapping[str, InternalTopic]
    obstacle: Obstacle | None

    @property
    def is_ready(self) -> bool:
        """Whether tasks can be assigned."""
        return self.obstacle is None


class _WrongPartitions(Exception):
    """Topics have the wrong number of partitions."""


def configured(topology: Topology, topics: Mapping[str, TopicFacts]) -> ConfiguredTopology:
    """Return a topology with the number of tasks of each subtopology, or what its topics lack.

    Args:
        topology: the topology.
        topics: the existing topics.

    Raises:
        BrokerError: STREAMS_INVALID_TOPOLOGY if no topics could make it run; UNKNOWN_SERVER_ERROR, as in Kafka, if it
            contradicts itself.
    """
    missing = sorted({name for part in topology.subtopologies for name in part.sources if name not in topics})
    if missing:
        obstacle = Obstacle(StreamsGroupStatus.MISSING_SOURCE_TOPICS, f"Source topics {_some(missing)} are missing.")
        return ConfiguredTopology(topology.epoch, {}, {}, obstacle)
    try:
        counts = _Counts(topics)
        _count_repartition_topics(topology, counts)
        _copartition(topology, counts)
        _count_changelogs(topology, counts)
        parts = {part.subtopology_id: _configured(part, counts) for part in topology.subtopologies}
        if len(parts) < len(topology.subtopologies):
            raise BrokerError(ErrorCode.UNKNOWN_SERVER_ERROR, "several subtopologies have the same id")
        if (tasks := sum(part.tasks for part in parts.values())) > TASKS_MAX:
            text = f"The topology has {tasks} tasks; the limit is {TASKS_MAX}."
            raise BrokerError(ErrorCode.STREAMS_INVALID_TOPOLOGY, text)
        absent = _missing_topics(parts, topics)
    except _WrongPartitions as wrong:
        obstacle = Obstacle(StreamsGroupStatus.INCORRECTLY_PARTITIONED_TOPICS, str(wrong))
        return ConfiguredTopology(topology.epoch, {}, {}, obstacle)
    found = None
    if absent:
        text = f"Internal topics are missing: {_some(absent)}"
        found = Obstacle(StreamsGroupStatus.MISSING_INTERNAL_TOPICS, text)
    return ConfiguredTopology(topology.epoch, dict(sorted(parts.items())), absent, found)


class _Counts:
    """The numbers of partitions: of existing topics, and those decided for internal ones.

    Args:
        topics: the existing topics.

    Attributes:
        decided: the numbers decided for internal topics.
    """

    def __init__(self, topics: Mapping[str, TopicFacts]) -> None:
        self._topics = topics
        self.decided: MutableMapping[str, int] = {}

    def of(self, name: str) -> int:
        """Return the number of partitions of a topic.

        Raises:
            BrokerError: UNKNOWN_SERVER_ERROR, as in Kafka, if it is neither known nor decided.
        """
        if name in self._topics:
            return self._topics[name].partitions
        if name not in self.decided:
            raise BrokerError(ErrorCode.UNKNOWN_SERVER_ERROR, f"Number of partitions is not set for topic: {name}")
        return self.decided[name]


def _count_repartition_topics(topology: Topology, counts: _Counts) -> None:
    """Decide the number of partitions of each repartition topic."""
    found = {
        topic.name: topic.partitions
        for part in topology.subtopologies
        for topic in part.repartition_sources
        if topic.partitions
    }
    # A subtopology may read a repartition topic that another one writes, and so on.
    while True:
        waiting = has_progress = False
        for part in topology.subtopologies:
            for sink in part.repartition_sinks:
                if sink in found:
                    continue
                known = [found[topic.name] for topic in part.repartition_sources if topic.name in found]
                known += [counts.of(name) for name in part.sources]
                if known:
                    found[sink] = max(known)
                    has_progress = True
                else:
                    waiting = True
        if not waiting:
            break
        if not has_progress:
            text = (
                "Failed to compute number of partitions for all repartition topics. There may be loops in the topology "
                "that cannot be resolved."
            )
            raise BrokerError(ErrorCode.STREAMS_INVALID_TOPOLOGY, text)
    if any(topic.name not in found for part in topology.subtopologies for topic in part.repartition_sources):
        text = (
            "Failed to compute number of partitions for all repartition topics, because a repartition source topic is "
            "never used as a sink topic."
        )
        raise BrokerError(ErrorCode.STREAMS_INVALID_TOPOLOGY, text)
    counts.decided.update(found)


def _copartition(topology: Topology, counts: _Counts) -> None:
    """Give the repartition topics of each copartition group the same number of partitions."""
    repartition = [topic for part in topology.subtopologies for topic in part.repartition_sources]
    fixed = {topic.name: None for topic in repartition if topic.partitions}
    flexible = {topic.name for topic in repartition if not topic.partitions}
    for part in topology.subtopologies:
        for group in part.copartition_groups:
            try:
                names = {part.sources[index] for index in group.sources}
                names |= {part.repartition_sources[index].name for index in group.repartition_sources}
            except IndexError:
                text = f"a copartition group of the subtopology {part.subtopology_id} has a topic that does not exist"
                raise BrokerError(ErrorCode.UNKNOWN_SERVER_ERROR, text) from None
            internal = {name: counts.of(name) for name in names if name in fixed or name in flexible}
            external = {name: counts.of(name) for name in names if name not in internal}
            if not names:
                continue
            count = _shared_count(internal, external, fixed, counts)
            for name, current in internal.items():
                if name in fixed and current != count:
                    raise _WrongPartitions(
                        f"Number of partitions [{current}] of repartition topic [{name}] doesn't match number of "
                        f"partitions [{count}] of the source topic."
                    )
            counts.decided.update(dict.fromkeys(internal, count))


def _shared_count(
    internal: Mapping[str, int], external: Mapping[str, int], fixed: Collection[str], counts: _Counts
) -> int:
    """Return the number of partitions of the repartition topics of a copartition group."""
    if external:
        if len(set(external.values())) > 1:
            raise _WrongPartitions(_unequal(external))
        return next(iter(external.values()))
    if not fixed:
        return max(internal.values())
    # As in Kafka, all repartition topics of the topology with a fixed number are compared.
    numbers = [counts.of(name) for name in fixed]
    if len(set(numbers)) > 1:
        raise _WrongPartitions(_unequal(internal))
    return numbers[0]


def _unequal(numbers: Mapping[str, int]) -> str:
    shown = ", ".join(f"{name}={count}" for name, count in sorted(numbers.items()))
    return f"Following topics do not have the same number of partitions: [{{{shown}}}]"


def _count_changelogs(topology: Topology, counts: _Counts) -> None:
    """Decide the number of partitions of each changelog."""
    found: dict[str, int] = {}
    for part in topology.subtopologies:
        numbers = [counts.of(name) for name in part.source_names]
        if not numbers:
            text = f"No source topics found for subtopology {part.subtopology_id}"
            raise BrokerError(ErrorCode.STREAMS_INVALID_TOPOLOGY, text)
        found.update((topic.name, max(numbers)) for topic in part.changelogs)
    counts.decided.update(found)


def _configured(part: Subtopology, counts: _Counts) -> ConfiguredSubtopology:
    return ConfiguredSubtopology(
        max(counts.of(name) for name in part.source_names),
        frozenset(part.sources),
        frozenset(part.repartition_sinks),
        tuple(_with_count(topic, counts) for topic in part.repartition_sources),
        tuple(_with_count(topic, counts) for topic in part.changelogs),
    )


def _with_count(topic: InternalTopic, counts: _Counts) -> InternalTopic:
    count = topic.partitions or counts.decided[topic.name]
    if count < 1:
        raise BrokerError(ErrorCode.UNKNOWN_SERVER_ERROR, "Number of partitions must be at least 1.")
    return topic._replace(partitions=count)


def _missing_topics(
    parts: Mapping[str, ConfiguredSubtopology], topics: Mapping[str, TopicFacts]
) -> dict[str, InternalTopic]:
    """Return the internal topics that do not exist, after checking the others."""
    wanted = {
        topic.name: topic
        for _, part in sorted(parts.items())
        for topic in (*part.repartition_sources, *part.changelogs)
    }
    for name, topic in wanted.items():
        if name in topics and topics[name].partitions != topic.partitions:
            raise _WrongPartitions(
                f"Existing topic {name} has different number of partitions: expected {topic.partitions}, found "
                f"{topics[name].partitions}"
            )
    return {name: topic for name, topic in wanted.items() if name not in topics}


def _some(names: Iterable[str]) -> str:
    """Return the first of several names, and the number of others."""
    found = list(names)
    more = f" and {len(found) - _NAMED_MAX} additional topics" if len(found) > _NAMED_MAX else ""
    return ", ".join(found[:_NAMED_MAX]) + more
