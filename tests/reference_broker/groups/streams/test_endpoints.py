"""Each endpoint is listed with the partitions of its tasks, in every topic that their subtopologies read.

Method: list the endpoints of members with given tasks.
"""

from __future__ import annotations

from kafkawire.reference_broker.groups.streams.configured_topology import ConfiguredTopology, configured
from kafkawire.reference_broker.groups.streams.endpoints import partitions_by_endpoint
from kafkawire.reference_broker.groups.streams.group import StreamsMember
from kafkawire.reference_broker.groups.streams.topology import Topology
from kafkawire.reference_broker.groups.topics import TopicFacts
from kafkawire.sdk.protocol.messages.streams_group_heartbeat import StreamsGroupHeartbeatResponse as Response
from tests.reference_broker.groups.streams.streams_bench import internal, subtopology, tasks

TOPICS = {name: TopicFacts(name.encode() * 16, count) for name, count in (("t", 3), ("u", 1), ("r", 3))}
TOPOLOGY = Topology(0, (subtopology("0", "t", "u"), subtopology("1", repartition=(internal("r", 3),))))
TWO = StreamsMember("m", user_endpoint=("h", 1), assigned=tasks({"0": (1, 2), "1": (0,)}, {"1": (2,)}))


def found(*members: StreamsMember) -> list[Response.EndpointToPartitions]:
    return partitions_by_endpoint(members, configured(TOPOLOGY, TOPICS), TOPICS)


def test_partitions_of_tasks() -> None:
    Part = Response.TopicPartition
    (endpoint,) = found(StreamsMember("n"), TWO)
    assert endpoint.user_endpoint == Response.Endpoint("h", 1)
    assert endpoint.active_partitions == [Part("t", [1, 2]), Part("u", [1]), Part("r", [0])]
    assert endpoint.standby_partitions == [Part("r", [2])]


def test_topics_that_are_gone() -> None:
    assert found(StreamsMember("n")) == []
    unknown = ConfiguredTopology(0, {}, {}, None)
    assert partitions_by_endpoint([TWO], unknown, TOPICS) == [Response.EndpointToPartitions(Response.Endpoint("h", 1))]
    (endpoint,) = partitions_by_endpoint([TWO], configured(TOPOLOGY, TOPICS), {})
    assert endpoint.active_partitions == []
