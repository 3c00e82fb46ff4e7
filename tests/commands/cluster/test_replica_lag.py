"""Leaders, in-sync replicas and lags are read from the brokers that answer; the others are left out.

Method: run a cluster of two brokers in this process, and kill one of them; then pass in responses without a broker.
"""

from __future__ import annotations

import asyncio
import socket

from kafkawire import Admin, NewTopic, Producer
from kafkawire.commands.cluster import replica_lag
from kafkawire.commands.cluster.replica_lag import ClusterView, PartitionView, look_at
from kafkawire.sdk.protocol.messages.metadata import MetadataResponse
from tests.reference_broker.broker_cluster import BrokerCluster

PATIENCE_SECONDS = 30


def test_a_cluster_that_loses_a_broker() -> None:
    async def run() -> None:
        async with BrokerCluster(2, default_replication_factor=2) as cluster:
            addresses = {broker_id: broker.bootstrap for broker_id, broker in cluster.brokers.items()}
            async with Admin(addresses[1]) as admin:
                await admin.create_topics(NewTopic("t", assignments={0: (1, 2), 1: (2, 1)}))
            async with Producer(addresses[1]) as producer:
                for partition in (0, 1, 1):
                    await producer.send("t", b"a", partition=partition)
            view = await look_at(addresses)
            assert view is not None
            assert view.controller in (1, 2)
            assert [each[:4] for each in view.partitions] == [("t", 0, 1, (1, 2)), ("t", 1, 2, (2, 1))]
            assert [set(each.in_sync) for each in view.partitions] == [{1, 2}, {1, 2}]
            assert [each.lags for each in view.partitions] == [{2: 0}, {1: 0}], "acks=all must wait for both"
            await cluster.kill(2)
            found = await look_at(addresses)
            assert found is not None
            assert all(each.lags == {} for each in found.partitions)

    asyncio.run(asyncio.wait_for(run(), PATIENCE_SECONDS))


def test_nobody_answers() -> None:
    with socket.socket() as unheard:
        unheard.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{unheard.getsockname()[1]}"
        assert asyncio.run(look_at({1: address})) is None
    assert asyncio.run(look_at({})) is None


def test_lags_of_replicas_that_are_known() -> None:
    """Data is read about a partition with a leader, one without, and one whose leader did not answer."""
    part = MetadataResponse.MetadataResponsePartition
    parts = [
        part(partition_index=index, leader_id=leader, replica_nodes=[1, 2, 3], isr_nodes=[1])
        for index, leader in enumerate((1, -1, 3))
    ]
    metadata = MetadataResponse(
        controller_id=-1, topics=[MetadataResponse.MetadataResponseTopic(name="t", partitions=parts)]
    )
    ends = {1: {("t", 0): 10, ("t", 1): 3, ("t", 2): 4}, 2: {("t", 0): 4, ("t", 1): 3, ("t", 2): 4}}
    assert replica_lag._view(metadata, ends) == ClusterView(
        None,
        (
            PartitionView("t", 0, 1, (1, 2, 3), (1,), {2: 6}),
            PartitionView("t", 1, None, (1, 2, 3), (1,), {}),
            PartitionView("t", 2, 3, (1, 2, 3), (1,), {}),
        ),
    )
