"""The topology of a Kafka Streams application, as its members send it and as the group's record stores it.

A topology consists of subtopologies; a task runs one subtopology for one partition of its source topics.

Source: KIP-1071; `StreamsTopology` in Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from kafkawire.sdk.protocol.messages.coordinator.consumer_offsets.streams_group_topology import (
    StreamsGroupTopologyValue as TopologyValue,
)
from kafkawire.sdk.protocol.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequest

__all__ = ["CopartitionGroup", "InternalTopic", "Subtopology", "Topology", "topology_of", "topology_value"]


class InternalTopic(NamedTuple):
    """A topic that belongs to the application; the coordinator creates it.

    Attributes:
        name: the topic's name.
        partitions: the number of partitions; 0 lets the coordinator choose.
        replication_factor: the replication factor; 0 for the broker's default.
        configs: its configurations, by Kafka's names.
    """

    name: str
    partitions: int
    replication_factor: int
    configs: tuple[tuple[str, str], ...]


class CopartitionGroup(NamedTuple):
    """Topics of a subtopology that must have the same number of partitions.

    Attributes:
        sources, regexes, repartition_sources: indexes into the subtopology's lists.
    """

    sources: tuple[int, ...]
    regexes: tuple[int, ...]
    repartition_sources: tuple[int, ...]


class Subtopology(NamedTuple):
    """A connected part of a topology.

    Attributes:
        subtopology_id: its id.
        sources: topics that it reads and that the application did not create.
        source_regexes: regular expressions for more source topics, which are not supported yet.
        changelogs: topics from which its state stores are restored; with any, its tasks are stateful.
        repartition_sinks: repartition topics that it writes.
        repartition_sources: repartition topics that it reads.
        copartition_groups: see `CopartitionGroup`.
    """

    subtopology_id: str
    sources: tuple[str, ...]
    source_regexes: tuple[str, ...]
    changelogs: tuple[InternalTopic, ...]
    repartition_sinks: tuple[str, ...]
    repartition_sources: tuple[InternalTopic, ...]
    copartition_groups: tuple[CopartitionGroup, ...]

    @property
    def source_names(self) -> Iterator[str]:
        """The names of the topics that it reads."""
        yield from self.sources
        yield from (topic.name for topic in self.repartition_sources)

    @property
    def names(self) -> Iterator[str]:
        """The names of all topics that it reads or writes, except for the application's output."""
        yield from self.sources
        yield from self.repartition_sinks
        yield from (topic.name for topic in self.repartition_sources)
        yield from (topic.name for topic in self.changelogs)


@dataclass(frozen=True, slots=True)
class Topology:
    """A topology.

    Attributes:
        epoch: the application increases it with each change of its topology.
        subtopologies: the subtopologies.
        readers: the ids of the subtopologies that read each source topic, keyed by topic; the last one for a topic.
    """

    epoch: int
    subtopologies: tuple[Subtopology, ...]
    readers: Mapping[str, str] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        readers = {name: part.subtopology_id for part in self.subtopologies for name in part.source_names}
        object.__setattr__(self, "readers", readers)

    @property
    def names(self) -> list[str]:
        """The names of all topics of the subtopologies, each once, in order."""
        return list(dict.fromkeys(name for part in self.subtopologies for name in part.names))

    @property
    def required_topics(self) -> set[str]:
        """The names of the topics that must exist before tasks can be assigned."""
        return {
            name
            for part in self.subtopologies
            for name in (*part.source_names, *(changelog.name for changelog in part.changelogs))
        }


def topology_of(message: StreamsGroupHeartbeatRequest.Topology | TopologyValue) -> Topology:
    """Return the topology in a heartbeat or in a record."""
    return Topology(
        message.epoch,
        tuple(
            Subtopology(
                part.subtopology_id,
                tuple(part.source_topics),
                tuple(part.source_topic_regex),
                _internal_topics(part.state_changelog_topics),
                tuple(part.repartition_sink_topics),
                _internal_topics(part.repartition_source_topics),
                tuple(
                    CopartitionGroup(
                        tuple(group.source_topics),
                        tuple(group.source_topic_regex),
                        tuple(group.repartition_source_topics),
                    )
                    for group in part.copartition_groups
                ),
            )
            for part in message.subtopologies
        ),
    )


def _internal_topics(
    infos: Iterable[StreamsGroupHeartbeatRequest.TopicInfo] | Iterable[TopologyValue.TopicInfo],
) -> tuple[InternalTopic, ...]:
    return tuple(
        InternalTopic(
            info.name,
            info.partitions,
            info.replication_factor,
            tuple((config.key, config.value) for config in info.topic_configs),
        )
        for info in infos
    )


def topology_value(topology: Topology) -> TopologyValue:
    """Return the value of the record of a topology."""
    return TopologyValue(
        topology.epoch,
        [
            TopologyValue.Subtopology(
                part.subtopology_id,
                list(part.sources),
                list(part.source_regexes),
                [_info(topic) for topic in part.changelogs],
                list(part.repartition_sinks),
                [_info(topic) for topic in part.repartition_sources],
                [
                    TopologyValue.CopartitionGroup(
                        list(group.sources), list(group.regexes), list(group.repartition_sources)
                    )
                    for group in part.copartition_groups
                ],
            )
            for part in topology.subtopologies
        ],
    )


def _info(topic: InternalTopic) -> TopologyValue.TopicInfo:
    configs = [TopologyValue.TopicConfig(key, value) for key, value in topic.configs]
    return TopologyValue.TopicInfo(topic.name, topic.partitions, topic.replication_factor, configs)
