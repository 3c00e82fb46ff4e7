"""Our own clients push what operators want, and learn the ids under which the broker knows them.

Method: run asyncio and blocking clients, and a broker on a socket in the same process.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

import kafkawire
import kafkawire.sync
from kafkawire import ConfigResourceType
from kafkawire.errors import LocalProtocolError, UnsupportedVersion
from kafkawire.reference_broker.server import Broker
from kafkawire.reference_broker.storage.disk.memory import MemoryDisk
from tests.reference_broker.broker_cluster import until

METRICS = "org.apache.kafka.producer."


def with_broker(test: Callable[[Broker], Awaitable[None]], **options: Any) -> None:
    async def run() -> None:
        broker = Broker(MemoryDisk(), **options)
        await broker.start()
        try:
            await test(broker)
        finally:
            await broker.stop()

    asyncio.run(run())


def test_metrics_reach_the_broker() -> None:
    async def test(broker: Broker) -> None:
        async with kafkawire.Admin(broker.bootstrap) as admin:
            await admin.create_topics("t")
            configs = {"metrics": METRICS, "interval.ms": "100", "match": "client_software_name=kafkawire"}
            await admin.incremental_alter_configs(ConfigResourceType.CLIENT_METRICS, "producers", configs)
        metrics = broker.core.client_metrics
        async with kafkawire.Producer(broker.bootstrap, client_id="shop") as producer:
            for _ in range(3):
                await producer.send("t", b"value")
            client_instance_id = await producer.client_instance_id(10_000)

            def sent() -> float:
                name = f"{METRICS}topic.record.send.total"
                return sum(sample.value for sample in metrics.samples() if sample.name == name)

            await until(lambda: sent() == 3, "the metrics were pushed")
            samples = [*metrics.samples()]
            assert {sample.name.startswith(METRICS) for sample in samples} == {True}
            assert {(dict(each.labels)["client_id"], dict(each.labels)["client_instance_id"]) for each in samples} == {
                ("shop", client_instance_id)
            }
        await until(lambda: not [*metrics.samples()], "the client was forgotten")

    with_broker(test, client_metrics_enable=True)


def test_instance_ids() -> None:
    async def test(broker: Broker) -> None:
        ids = set()
        kinds: Any = (kafkawire.Admin, kafkawire.Producer, kafkawire.Consumer)
        for kind in kinds:
            async with kind(broker.bootstrap) as client:
                ids.add(await client.client_instance_id(10_000))
                assert await client.client_instance_id(0) in ids

        def blocking() -> None:
            kinds: Any = (kafkawire.sync.Admin, kafkawire.sync.Producer, kafkawire.sync.Consumer)
            for kind in kinds:
                with kind(broker.bootstrap) as client:
                    ids.add(client.client_instance_id(10_000))

        await asyncio.to_thread(blocking)
        assert {len(each) for each in ids} == {22}
        assert len(ids) == 6

    with_broker(test, client_metrics_enable=True)


def test_a_broker_that_gives_no_ids() -> None:
    async def test(broker: Broker) -> None:
        async with kafkawire.Admin(broker.bootstrap) as admin:
            with pytest.raises(UnsupportedVersion, match="GetTelemetrySubscriptions"):
                await admin.client_instance_id(10_000)
        async with kafkawire.Admin(broker.bootstrap, enable_metrics_push=False) as admin:
            with pytest.raises(LocalProtocolError, match="enable_metrics_push=True"):
                await admin.client_instance_id(10_000)
            with pytest.raises(LocalProtocolError, match="timeout_ms"):
                await admin.client_instance_id(-1)

    with_broker(test)
