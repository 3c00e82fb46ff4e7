"""A cluster's state as reported by its brokers: controller, leaders, in-sync replicas, and the lag of followers.

Each broker is asked for the log end offsets of its own replicas, using the debugging replica id (-2). A follower's lag
is the distance from its own log end to that of its leader. A broker that does not answer in time is left out.

Source: `ReplicaVerificationTool`, `ListOffsetsRequest.DEBUGGING_REPLICA_ID` in Apache Kafka.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from kafkawire.local_cluster.known_brokers import ANSWER_MS, answer_of
from kafkawire.sdk.protocol.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from kafkawire.sdk.protocol.messages.metadata import MetadataRequest, MetadataResponse
from kafkawire.sdk.protocol.tables.enums import NO_CONTROLLER_ID, NO_LEADER_ID, OffsetTimestamp
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.transport.connection import BrokerConnection, ConnectionSettings
from kafkawire.sdk.transport.stream import TcpNetwork
from kafkawire.sdk.transport.wire import Address

__all__ = ["ClusterView", "PartitionView", "look_at"]

#: The replica id of tools that may read from any replica.
_DEBUGGING_REPLICA_ID: Final = -2

#: A paused broker does not answer, which the table should show soon.
_SETTINGS: Final = ConnectionSettings("kafkawire-cluster", ANSWER_MS, ANSWER_MS)

#: A partition: its topic and its number.
Partition = tuple[str, int]


class PartitionView(NamedTuple):
    """A partition.

    Attributes:
        topic: its topic.
        number: its number.
        leader: the id of its leader; None if it has none.
        replicas: the ids of its replicas, the preferred leader first.
        in_sync: the ids of its in-sync replicas.
        lags: for each follower that answered, how many records it is behind its leader.
    """

    topic: str
    number: int
    leader: int | None
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]
    lags: Mapping[int, int]


class ClusterView(NamedTuple):
    """A cluster.

    Attributes:
        controller: the id of its controller; None if no broker knows one.
        partitions: the partitions, ordered by topic and number.
    """

    controller: int | None
    partitions: tuple[PartitionView, ...]


async def look_at(addresses: Mapping[int, str]) -> ClusterView | None:
    """Return the state that the brokers report; None if none of them answers.

    Args:
        addresses: the brokers that are expected to answer: `host:port`, keyed by id.
    """
    network = TcpNetwork()
    places = {broker_id: Address.parse("address", address) for broker_id, address in addresses.items()}
    opened = await asyncio.gather(
        *(BrokerConnection.open(network, place, _SETTINGS) for place in places.values()), return_exceptions=True
    )
    connections = {
        broker_id: connection
        for broker_id, connection in zip(places, opened, strict=True)
        if isinstance(connection, BrokerConnection)
    }
    try:
        metadata = await _metadata(connections.values())
        if metadata is None:
            return None
        ends = await asyncio.gather(*(_ends(each, metadata, broker) for broker, each in connections.items()))
    finally:
        for connection in connections.values():
            connection.close()
    return _view(metadata, dict(zip(connections, ends, strict=True)))


async def _metadata(connections: Iterable[BrokerConnection]) -> MetadataResponse | None:
    """Return the metadata from the first broker that knows a controller, or else from any."""
    found = None
    for connection in connections:
        request = MetadataRequest(topics=None, allow_auto_topic_creation=False)
        answer = await answer_of(connection, request, MetadataResponse)
        if answer is not None:
            found = answer
            if answer.controller_id != NO_CONTROLLER_ID:
                break
    return found


async def _ends(connection: BrokerConnection, metadata: MetadataResponse, broker_id: int) -> dict[Partition, int]:
    """Return the log end offset of each replica on a broker."""
    topics = [
        ListOffsetsRequest.ListOffsetsTopic(
            topic.name or "",
            [
                ListOffsetsRequest.ListOffsetsPartition(each.partition_index, timestamp=OffsetTimestamp.LATEST)
                for each in topic.partitions
                if broker_id in each.replica_nodes
            ],
        )
        for topic in metadata.topics
    ]
    request = ListOffsetsRequest(_DEBUGGING_REPLICA_ID, topics=[topic for topic in topics if topic.partitions])
    answer = await answer_of(connection, request, ListOffsetsResponse) if request.topics else None
    return {
        (topic.name, each.partition_index): each.offset
        for topic in (() if answer is None else answer.topics)
        for each in topic.partitions
        if each.error_code == ErrorCode.NONE
    }


def _view(metadata: MetadataResponse, ends: Mapping[int, Mapping[Partition, int]]) -> ClusterView:
    partitions = []
    for topic in metadata.topics:
        name = topic.name or ""
        for each in topic.partitions:
            key = name, each.partition_index
            leader = None if each.leader_id == NO_LEADER_ID else each.leader_id
            end = None if leader is None else ends.get(leader, {}).get(key)
            lags = {
                replica: max(0, end - ends[replica][key])
                for replica in each.replica_nodes
                if end is not None and replica != leader and key in ends.get(replica, {})
            }
            replicas, in_sync = tuple(each.replica_nodes), tuple(each.isr_nodes)
            partitions.append(PartitionView(name, each.partition_index, leader, replicas, in_sync, lags))
    controller = None if metadata.controller_id == NO_CONTROLLER_ID else metadata.controller_id
    return ClusterView(controller, tuple(sorted(partitions, key=lambda each: (each.topic, each.number))))
