"""The sender looks up missing leaders, connects while it sends, and fails what cannot be delivered in time.

Method: a sender with its accumulator and cluster, without the producer around it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from kafkawire.sdk.client.cluster import Cluster
from kafkawire.sdk.client.options import ProducerOptions, read_options
from kafkawire.sdk.client.partitions import TopicPartition
from kafkawire.sdk.clock import monotonic_ms
from kafkawire.sdk.errors import DeliveryTimedOut
from kafkawire.sdk.producer.accumulator import Accumulator, ProducerBatch
from kafkawire.sdk.producer.delivery import settled
from kafkawire.sdk.producer.sender import Sender
from tests.sdk.scripted_broker import BROKER, StoringBroker

PARTITION = TopicPartition("t", 0)


class Setting:
    """A sender and what it works on."""

    def __init__(self, **options: object) -> None:
        self.broker = StoringBroker({"t": 1})
        given = {"retry_backoff_ms": 1, "retry_backoff_max_ms": 5, "linger_ms": 0, **options}
        read = read_options(ProducerOptions, str(BROKER), given)
        self.cluster = Cluster(read, self.broker.network)
        self.cluster.topics = {"t"}
        self.accumulator = Accumulator(read)
        self.progress = 0
        self.sender = Sender(read, self.cluster, self.accumulator, self.progressed)

    def progressed(self) -> None:
        self.progress += 1

    def put(self, value: bytes) -> ProducerBatch:
        """Append a record and wake the sender."""
        batch, _, _ = self.accumulator.append(PARTITION, None, value, (), 0, monotonic_ms())
        self.sender.wake()
        return batch


def sending(test: Callable[[Setting], Awaitable[None]], **options: object) -> None:
    """Run a test with a sender."""

    async def run() -> None:
        setting = Setting(**options)
        setting.sender.start()
        await test(setting)
        await setting.sender.close()
        await setting.cluster.close()

    asyncio.run(run())


def test_leaders_are_looked_for() -> None:
    """Nothing is known at first: the sender asks for the metadata itself."""

    async def test(setting: Setting) -> None:
        batch = setting.put(b"v")
        await settled(batch)
        assert (batch.error, batch.base_offset) == (None, 0)
        assert setting.progress > 0

    sending(test)


def test_nobody_there_until_the_time_is_over() -> None:
    async def test(setting: Setting) -> None:
        setting.broker.stop()
        batch = setting.put(b"v")
        await settled(batch)
        assert isinstance(batch.error, DeliveryTimedOut)

    sending(test, delivery_timeout_ms=30, request_timeout_ms=30)


def test_a_broker_that_comes_late() -> None:
    async def test(setting: Setting) -> None:
        await setting.cluster.refresh()
        setting.broker.stop()
        batch = setting.put(b"v")
        for _ in range(10):
            await asyncio.sleep(0)
        assert not batch.done
        setting.broker.start()
        await settled(batch)
        assert setting.broker.values("t") == [b"v"]

    sending(test)


def test_a_defect_fails_deliveries_instead_of_leaving_them() -> None:
    async def test(setting: Setting) -> None:
        def fail(now_ms: int) -> bool:
            raise ZeroDivisionError("a defect")

        setting.cluster.metadata.is_stale = fail  # type: ignore[method-assign]  # stands for any defect
        batch = setting.put(b"v")
        await settled(batch)
        assert "the producer's sender failed: ZeroDivisionError" in str(batch.error)

    sending(test)
