"""Metrics and health are served over HTTP, from before the broker is ready until it has stopped.

Method: run brokers on free ports, and read the pages over plain sockets and with Prometheus' own parsers.
"""

from __future__ import annotations

import asyncio

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_prometheus

from kafkawire import sync
from kafkawire.reference_broker.cluster.registration import RegistrationState
from kafkawire.reference_broker.server import BackgroundBroker, Broker
from kafkawire.reference_broker.storage.disk.memory import MemoryDisk
from tests.reference_broker.broker_cluster import BrokerCluster, until
from tests.reference_broker.http_client import ANY_PORT, get, status_of


@pytest.fixture(scope="module")
def broker():
    with BackgroundBroker(None, metrics_listen=ANY_PORT, offsets_topic_num_partitions=1) as broker:
        yield broker


def test_health(broker):
    assert get(broker, "/healthz")[::2] == (200, "alive\n")
    assert get(broker, "/readyz")[::2] == (200, "ready\n")
    assert get(broker, "/metrics/")[0] == 404


def test_both_formats(broker):
    with sync.Producer(broker.bootstrap) as producer:
        producer.send("t", b"x").result()
    _, head, body = get(broker, "/metrics", "Accept: application/openmetrics-text; version=1.0.0")
    assert "Content-Type: application/openmetrics-text; version=1.0.0; charset=utf-8" in head
    openmetrics = {family.name for family in parse_openmetrics(body)}
    _, head, body = get(broker, "/metrics?x=y")
    assert "Content-Type: text/plain; version=0.0.4; charset=utf-8" in head
    families = {family.name: family for family in parse_prometheus(body)}
    assert set(families) == openmetrics
    (appended,) = families["kafka_server_broker_topic_metrics_messages_in_by_topic"].samples
    assert (appended.labels, appended.value) == ({"topic": "t"}, 1)


def test_head_has_no_body(broker):
    status, head, body = get(broker, "/metrics", method="HEAD")
    assert (status, body) == (200, "")
    assert "Content-Length: 0" not in head


def test_a_broker_is_alive_before_it_is_ready(monkeypatch):
    async def run() -> None:
        broker, going_on = Broker(MemoryDisk(), metrics_listen=ANY_PORT), asyncio.Event()
        opened = broker._open

        async def slow(*arguments):
            await going_on.wait()
            return await opened(*arguments)

        monkeypatch.setattr(broker, "_open", slow)
        starting = asyncio.create_task(broker.start())
        await until(lambda: broker.metrics_address is not None, "it serves")
        assert (await status_of(broker, "/healthz")).endswith(b"alive\n")
        assert (await status_of(broker, "/readyz")).endswith(b"not ready: it is starting\n")
        assert b"process_cpu_seconds" in await status_of(broker, "/metrics")
        address = broker.metrics_address
        going_on.set()
        await starting
        assert (await status_of(broker, "/readyz")).endswith(b"ready\n")
        await broker.stop()
        assert broker.metrics_address is None
        await broker.start()
        assert broker.metrics_address == address
        assert b" 200 " in await status_of(broker, "/readyz")
        await broker.kill()
        assert broker.metrics_address is None

    asyncio.run(run())


def test_a_broker_that_is_not_registered_is_not_ready(monkeypatch):
    async def run() -> None:
        async with BrokerCluster(1, metrics_listen=ANY_PORT) as cluster:
            broker = cluster.brokers[1]
            assert (await status_of(broker, "/readyz")).endswith(b"ready\n")
            node = broker.node
            assert node is not None
            membership = node.membership
            assert membership is not None
            monkeypatch.setattr(membership.registration, "_state", RegistrationState.LOST)
            assert (await status_of(broker, "/readyz")).endswith(b"not ready: it is not registered in its cluster\n")
            monkeypatch.undo()

    asyncio.run(run())


def test_a_broker_with_a_failed_log_is_not_ready():
    with BackgroundBroker(None, metrics_listen=ANY_PORT) as broker:
        with sync.Producer(broker.bootstrap) as producer:
            producer.send("t", b"x").result()
        broker._broker.core.replicas.of("t")[0].log.fail(OSError("planted"))
        reason = "not ready: the logs of 1 partitions have failed; see the broker's log\n"
        assert get(broker, "/readyz")[::2] == (503, reason)
