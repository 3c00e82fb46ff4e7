"""Connections, requests and their latencies are counted by client and by node.

Method: use a simulated cluster with its own latency, and an in-memory connection for the bytes.
"""

from __future__ import annotations

import asyncio
from math import isnan

import pytest

from kafkawire.sdk.client.core import ClientCore
from kafkawire.sdk.client.options import AdminOptions, ClientOptions, ConsumerOptions, read_options
from kafkawire.sdk.errors import AuthenticationFailed
from kafkawire.sdk.metrics.names import MetricName
from kafkawire.sdk.metrics.registry import Registry
from kafkawire.sdk.protocol.messages.fetch import FetchRequest, FetchResponse
from kafkawire.sdk.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kafkawire.sdk.protocol.messages.metadata import MetadataRequest
from kafkawire.sdk.routing.call import ANY_BROKER, Call, Node
from kafkawire.sdk.routing.request_metrics import TrafficMetrics
from kafkawire.sdk.routing.router import Router
from tests.sdk.routing.routed import heartbeat
from tests.sdk.scripted_broker import BROKER, ScriptedBroker
from tests.sdk.simulation import Simulation, backoff, cluster, options


def simulation(kind: type[ClientOptions] = AdminOptions) -> Simulation:
    """Return a client with three brokers that answer after 7 ms."""
    simulation = Simulation(Router(options(kind, metadata_max_age_ms=3_600_000), backoff()), latency_ms=7)
    simulation.handlers[MetadataRequest] = cluster([1, 2, 3], {"t": [1]})
    simulation.handlers[HeartbeatRequest] = lambda request, version: HeartbeatResponse()
    simulation.handlers[FetchRequest] = lambda request, version: FetchResponse(throttle_time_ms=30)
    simulation.run(100)
    return simulation


def value(simulation: Simulation, name: str, group: str = "admin-client-metrics", **tags: str) -> float:
    """Return the current value of a metric."""
    key = MetricName(group, name, tuple((tag.replace("_", "-"), each) for tag, each in tags.items()))
    return simulation.router.metrics.read(simulation.now_ms)[key]


def test_connections() -> None:
    client = simulation()
    client.call(heartbeat(Node(2)))
    assert (value(client, "connection-creation-total"), value(client, "connection-count")) == (2, 2)
    client.break_connections(2)
    assert (value(client, "connection-close-total"), value(client, "connection-count")) == (1, 1)
    client.call(heartbeat(Node(2)))
    client.run(600_000)  # both are idle for nine minutes
    assert (value(client, "connection-close-total"), value(client, "connection-count")) == (3, 0)


def test_refused_logins() -> None:
    client = Simulation(Router(options(AdminOptions), backoff()))
    client.down, client.refusal = {1}, AuthenticationFailed
    client.run(1_000)
    assert value(client, "failed-authentication-total") == 1
    assert value(client, "connection-close-total") == 0
    assert isnan(value(client, "metadata-age"))


def test_latencies_by_node() -> None:
    client = simulation()
    for _ in range(3):
        client.call(heartbeat(Node(2)))
    found = {name: value(client, name, "admin-client-node-metrics", node_id="node-2") for name in ("response-total",)}
    assert found == {"response-total": 3}
    assert value(client, "request-latency-avg", "admin-client-node-metrics", node_id="node-2") == 7
    client.run(5_000)
    assert value(client, "metadata-age") == (client.now_ms - client.router.metadata.refreshed_ms) / 1_000 >= 5


def test_kinds_of_requests_and_throttling() -> None:
    client = simulation(ConsumerOptions)
    fetch = Call(ANY_BROKER, lambda _: (FetchRequest(), None), FetchResponse, 60_000, lambda call, now_ms: None)
    client.call(fetch)
    client.call(heartbeat(Node(1)))
    group = "consumer-fetch-manager-metrics"
    assert [value(client, name, group) for name in ("fetch-total", "fetch-latency-max", "fetch-throttle-time-avg")] == [
        1,
        7,
        30,
    ]
    group = "consumer-coordinator-metrics"
    assert (value(client, "heartbeat-total", group), value(client, "commit-total", group)) == (1, 0)


def test_lengths_of_requests_and_responses_count() -> None:
    registry = Registry("admin")
    traffic = TrafficMetrics(registry)
    traffic.sent([b"length", b"content"], 0)
    traffic.received(100, 0)
    found = {name.name: value for name, value in registry.read(0).items()}
    assert (found["outgoing-byte-total"], found["incoming-byte-total"]) == (13, 104)


@pytest.mark.parametrize("io", ["loop", "thread"])
def test_bytes(io: str) -> None:
    """The lengths of requests and responses are counted, except before the login."""

    async def run() -> None:
        broker = ScriptedBroker({"t": 3})
        client = ClientCore("admin", read_options(AdminOptions, str(BROKER), {"io": io}), broker.network)
        await client.start()
        metrics = client.metrics()
        await client.finish()
        found = {name.name: value for name, value in metrics.items() if name.group == "admin-client-metrics"}
        assert (found["request-total"], found["response-total"]) == (1, 1)
        assert found["outgoing-byte-total"] == found["request-size-max"] > 20
        assert found["incoming-byte-total"] > 40

    asyncio.run(run())
