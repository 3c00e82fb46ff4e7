"""A reader returns its measurements."""

from __future__ import annotations

import asyncio

from kafkawire import Admin, NewTopic, Producer
from kafkawire.testing import Broker
from tools.soak.scale import TOPIC_PARTITIONS, Reader, places


def test_partitions_are_of_as_many_topics_as_needed() -> None:
    assert places("n", TOPIC_PARTITIONS + 1)[-2:] == [("n-0", TOPIC_PARTITIONS - 1), ("n-1", 0)]


def test_a_reader_measures() -> None:
    async def prepare(bootstrap: str) -> None:
        async with Admin(bootstrap) as admin:
            await admin.create_topics(NewTopic("n-0", 2, 1))

    async def produce(bootstrap: str) -> None:
        async with Producer(bootstrap) as producer:
            await asyncio.gather(*(producer.send("n-0", b"v", partition=number) for number in range(2)))

    with Broker() as broker:
        asyncio.run(prepare(broker.bootstrap))
        reader = Reader(broker.bootstrap, "n", 2)
        try:
            assert 0 <= reader.ask("idle 0.1") < 1_000, "must use less than one core"
            reader.ask("mark")
            asyncio.run(produce(broker.bootstrap))
            assert reader.ask("read 2") > 0
            assert reader.ask("bytes")
        finally:
            reader.end()
