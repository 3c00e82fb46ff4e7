"""With a hung broker, every call keeps its time limit, memory is bounded, and the outage is logged.

Method: stop an Apache Kafka node with a signal, which leaves its connections open.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest

from kafkawire import Consumer, Producer, TopicPartition
from kafkawire.errors import BufferFull, Closed, DeliveryTimedOut, KafkaWireError
from kafkawire.sdk.producer.engine import Delivery
from tests.kafka.apache import ApacheKafka
from tests.kafka.servers import Server
from tests.kafka.troubles import create, on, values

GRACE_MS = 100 + 150


@pytest.fixture(scope="module")
def hanging() -> Any:
    """A separate node for tests that stop it."""
    with ApacheKafka() as node:
        yield node


@asynccontextmanager
async def stopped(kafka: ApacheKafka) -> AsyncIterator[None]:
    """Pause the node for a while."""
    kafka.signal(signal.SIGSTOP)
    try:
        yield
    finally:
        kafka.signal(signal.SIGCONT)


async def timed(call: Awaitable[object], limit_ms: float) -> None:
    """Await a call that must keep its time limit; its own error is raised unchanged."""
    begun = time.monotonic()
    with suppress(KafkaWireError):
        await call
    assert (time.monotonic() - begun) * 1000 <= limit_ms + GRACE_MS


async def warmed(producer: Producer, topic: str) -> None:
    """Make a producer store a record, with no limit for a slow machine."""
    while True:
        with suppress(DeliveryTimedOut):
            await producer.send(topic, b"v")
            return


def test_against_a_broker_that_hangs_every_call_keeps_its_limit(
    hanging: ApacheKafka, caplog: pytest.LogCaptureFixture
) -> None:
    timeout_ms = 1_500

    async def test(bootstrap: str) -> None:
        topic = "troubles-hang"
        await create(bootstrap, topic)
        quick: dict[str, Any] = {"request_timeout_ms": 1_000, "api_timeout_ms": 1_000, "connect_timeout_ms": 500}
        settled: dict[int, float] = {}

        def settle(delivery: Delivery) -> None:
            settled[id(delivery)] = time.monotonic()

        producer = Producer(bootstrap, delivery_timeout_ms=timeout_ms, **quick)
        consumer = Consumer(bootstrap, topic, group_id=topic, auto_offset_reset="earliest", **quick)
        other = Producer(bootstrap, delivery_timeout_ms=timeout_ms, **quick)
        for client in (producer, consumer, other):
            await client.start()
        await asyncio.gather(warmed(producer, topic), warmed(other, topic))
        assert len(await values(consumer, 2)) == 2
        async with stopped(hanging):
            sent = [(producer.send(topic, b"v", on_delivery=settle), time.monotonic()) for _ in range(100)]
            await timed(consumer.getmany(300), 300)
            await timed(consumer.commit(timeout_ms=300), 300)
            await timed(consumer.end_offsets([TopicPartition(topic, 0)]), 1_000)
            await timed(consumer.committed(TopicPartition(topic, 0)), 1_000)
            await timed(producer.flush(), timeout_ms)
            assert all((settled[id(each)] - at) * 1000 <= timeout_ms + GRACE_MS for each, at in sent)
            for each, _ in sent:
                assert isinstance(each.exception(), DeliveryTimedOut)
            late = other.send(topic, b"v")
            await timed(other.close(timeout_ms=300), 300)
            assert isinstance(late.exception(), Closed)
            late = producer.send(topic, b"v")
            await timed(producer.close(flush=False), 0)
            assert isinstance(late.exception(), Closed)
            iterating = asyncio.ensure_future(values(consumer, 1))
            await asyncio.sleep(0)
            await timed(consumer.close(timeout_ms=500), 500)
            assert await iterating == []
        assert asyncio.all_tasks() == {asyncio.current_task()}

    with caplog.at_level(logging.WARNING, "kafkawire"):
        on(hanging, test)
    areas = Counter(record.name for record in caplog.records)
    assert areas["kafkawire.client"] >= 1
    assert areas["kafkawire.producer"] >= 1
    assert len(caplog.records) < 30, "an outage must cause only a few log lines"


@pytest.mark.parametrize("io", ["loop", "thread"])
def test_without_acknowledgements_memory_is_bounded(hanging: ApacheKafka, io: Any) -> None:
    limit_bytes = 4 << 20

    async def test(bootstrap: str) -> None:
        topic = f"troubles-acks-0-{io}"
        await create(bootstrap, topic)
        async with Producer(bootstrap, acks=0, buffer_memory=limit_bytes, linger_ms=0, io=io) as producer:
            await producer.send(topic, b"v")
            taken = 0
            async with stopped(hanging):
                full = 0
                while full < 20:
                    try:
                        producer.send(topic, b"x" * 10_000)
                        taken += 10_000
                    except BufferFull:
                        full += 1
                        await asyncio.sleep(0.02)
                # The accepted bytes are in the producer's buffer or in the two sockets' buffers.
                assert taken < limit_bytes + (12 << 20)
            await producer.flush()

    on(hanging, test)


@pytest.mark.parametrize("io", ["loop", "thread"])
def test_without_acknowledgements_close_sends_everything(either: Server, io: Any) -> None:
    async def test(bootstrap: str) -> None:
        topic = f"troubles-everything-{io}"
        await create(bootstrap, topic)
        async with Producer(bootstrap, acks=0, io=io) as producer:
            await producer.send(topic, b"v")
            for _ in range(20_000):
                producer.send(topic, b"x" * 1_000)
        place = TopicPartition(topic, 0)
        async with Consumer(bootstrap) as reader:
            while (await reader.end_offsets([place]))[place] != 20_001:
                await asyncio.sleep(0.05)

    on(either, test)
