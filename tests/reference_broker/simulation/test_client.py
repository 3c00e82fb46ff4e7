"""A client's scripts are sent responses and errors, and resume after pauses.

Method: run scripts that record what they are sent, in a cluster of three brokers.
"""

from __future__ import annotations

from kafkawire.reference_broker.simulation.client import Ask, Client, Pause, Script, ask
from kafkawire.reference_broker.simulation.cluster import BROKERS, SimulatedCluster
from kafkawire.reference_broker.simulation.scheduler import Scheduler
from kafkawire.sdk.errors import KafkaWireError
from kafkawire.sdk.protocol.messages.metadata import MetadataRequest, MetadataResponse
from kafkawire.sdk.protocol.messages.produce import ProduceResponse
from kafkawire.sdk.routing.call import Node
from kafkawire.sdk.routing.partitions import TopicPartition
from kafkawire.sdk.transport.wire import Address


def test_a_script() -> None:
    scheduler = Scheduler(1)
    cluster = SimulatedCluster(scheduler, {})
    for broker_id in BROKERS:
        cluster.start(broker_id)
    scheduler.run_to(1_000_000)
    client = Client(cluster, "c", (Address("b1", 9092),), set())
    sent: list[object] = []
    ended: list[int] = []

    def script() -> Script:
        sent.append((yield Ask(Node(2), MetadataRequest())))
        began_us = scheduler.now_us
        yield Pause(70)
        assert scheduler.now_us - began_us >= 70_000
        cluster.kill(2)
        sent.append((yield Ask(Node(2), MetadataRequest())))
        sent.append((yield from ask(Ask(Node(1), MetadataRequest()), ProduceResponse)))

    client.run(script(), lambda: ended.append(scheduler.now_us))
    assert client.running == 1
    scheduler.run_to(10_000_000)
    response, error, other = sent
    assert isinstance(response, MetadataResponse)
    assert [broker.node_id for broker in response.brokers] == [*BROKERS]
    assert isinstance(error, KafkaWireError)
    assert other is None
    assert len(ended) == 1
    assert client.running == 0
    assert client.leader(TopicPartition("t", 0)) is None


def test_a_dead_client_does_nothing_more() -> None:
    scheduler = Scheduler(1)
    cluster = SimulatedCluster(scheduler, {})
    client = Client(cluster, "c", (Address("b1", 9092),), set())
    sent: list[object] = []

    def script() -> Script:
        sent.append((yield Pause(10)))

    client.run(script())
    client.kill()
    scheduler.run_to(1_000_000)
    assert not sent
