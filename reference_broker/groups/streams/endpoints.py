"""The partitions that can be queried at each member with an endpoint for interactive queries.

Source: KIP-1071; `EndpointToPartitionsManager` in Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kafkawire.reference_broker.groups.streams.configured_topology import ConfiguredTopology
from kafkawire.reference_broker.groups.streams.group import StreamsMember, TaskNumbers
from kafkawire.reference_broker.groups.topics import TopicFacts
from kafkawire.sdk.protocol.messages.streams_group_heartbeat import StreamsGroupHeartbeatResponse

__all__ = ["partitions_by_endpoint"]

Response = StreamsGroupHeartbeatResponse


def partitions_by_endpoint(
    members: Iterable[StreamsMember], topology: ConfiguredTopology, topics: Mapping[str, TopicFacts]
) -> list[Response.EndpointToPartitions]:
    """Return the partitions of the active and standby tasks of each member with an endpoint.

    Args:
        members: the members.
        topology: the topology; while its sources are missing, there are no partitions. Kafka then answers with
            UNKNOWN_SERVER_ERROR.
        topics: the existing topics.
    """
    return [
        Response.EndpointToPartitions(
            Response.Endpoint(*member.user_endpoint),
            _partitions(member.assigned.active, topology, topics),
            _partitions(member.assigned.standby, topology, topics),
        )
        for member in members
        if member.user_endpoint is not None
    ]


def _partitions(
    tasks: TaskNumbers, topology: ConfiguredTopology, topics: Mapping[str, TopicFacts]
) -> list[Response.TopicPartition]:
    found = []
    for subtopology_id, numbers in sorted(tasks.items()):
        part = topology.subtopologies.get(subtopology_id)
        for name in () if part is None else part.source_names:
            if name in topics:
                # As in Kafka, a topic with fewer partitions than tasks gets the lowest of the tasks' numbers.
                shown = sorted(numbers)
                found.append(Response.TopicPartition(name, shown[: max(topics[name].partitions, 0)]))
    return found
