"""`kafkawire.metrics` works for real clients connected to a real broker."""

from __future__ import annotations

import asyncio
import re

import pytest

from kafkawire import Admin, Consumer, Producer
from kafkawire.errors import Closed
from kafkawire.metrics import CONTENT_TYPE, MetricName, openmetrics
from kafkawire.testing import Broker


def test_clients_of_a_broker() -> None:
    async def run(bootstrap: str) -> None:
        async with (
            Admin(bootstrap) as admin,
            Producer(bootstrap) as producer,
            Consumer(bootstrap, "t", group_id="g", auto_offset_reset="earliest") as consumer,
        ):
            await admin.create_topics("t")
            for number in range(100):
                producer.send("t", str(number))
            await producer.flush()
            seen = 0
            while seen < 100:
                seen += sum(map(len, (await consumer.getmany(60_000)).values()))
            await consumer.commit()
            text = openmetrics(admin, producer, consumer)
            assert producer.metrics()[MetricName("producer-metrics", "record-send-total")] == 100
            found = dict(re.findall(r'^(\w+)\{client_id="kafkawire"\} (\S+)$', text, re.MULTILINE))
            assert float(found["kafka_producer_record_send_total"]) == 100
            assert float(found["kafka_consumer_fetch_manager_records_consumed_total"]) == 100
            assert float(found["kafka_consumer_coordinator_commit_total"]) >= 1
            assert float(found["kafka_consumer_coordinator_assigned_partitions"]) == 1
            assert float(found["kafka_consumer_coordinator_rebalance_total"]) >= 1
            assert float(found["kafka_admin_client_request_total"]) >= 2
            assert 'kafka_consumer_fetch_manager_records_lag{client_id="kafkawire",topic="t",partition="0"} 0.0' in text
        for client in (admin, producer, consumer):
            with pytest.raises(Closed):
                client.metrics()

    with Broker() as broker:
        asyncio.run(run(broker.bootstrap))
    assert CONTENT_TYPE.startswith("application/openmetrics-text")
