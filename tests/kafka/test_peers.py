"""Other Python clients list topics, produce, and consume in a group on the reference broker.

Method: take the same steps with kafka-python, aiokafka and confluent-kafka, each through its own API and with its
defaults.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from importlib import import_module
from typing import Any, Protocol, TypeVar

import pytest

from kafkawire import Admin, NewTopic, Producer
from kafkawire.sdk.records import Compression
from kafkawire.testing import Broker

# kafka-python reads its own files in a way that Python 3.11 deprecates.
pytestmark = pytest.mark.filterwarnings("ignore:(read|open)_text is deprecated:DeprecationWarning")

TIMEOUT_SECONDS = 60

PARTITIONS = 3

#: A record's key, value and headers.
Content = tuple[bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]

RECORDS: list[Content] = [
    (b"tombstone", None, ()),
    (b"headers", b"two of one name", (("name", b"1"), ("name", b"2"))),
    *((b"key-%d" % number, b"value %d " % number * 20, ()) for number in range(300)),
]

Result = TypeVar("Result")


class Peer(Protocol):
    """The steps that each client takes through its own API."""

    def topics(self, bootstrap: str) -> set[str]:
        """Return the names of all topics."""
        ...

    def produce(self, bootstrap: str, topic: str, codec: str) -> None:
        """Store `RECORDS` and wait until they are stored."""
        ...

    def consume(self, bootstrap: str, topic: str, count: int) -> list[Content]:
        """Return the next records of a topic for the group of the same name, and commit them."""
        ...


class KafkaPython:
    """kafka-python, whose calls block."""

    def __init__(self) -> None:
        self._kafka: Any = import_module("kafka")

    def topics(self, bootstrap: str) -> set[str]:
        consumer = self._kafka.KafkaConsumer(bootstrap_servers=bootstrap)
        try:
            return set(consumer.topics())
        finally:
            consumer.close()

    def produce(self, bootstrap: str, topic: str, codec: str) -> None:
        compression = None if codec == "none" else codec
        producer = self._kafka.KafkaProducer(bootstrap_servers=bootstrap, compression_type=compression)
        try:
            sent = [producer.send(topic, value, key=key, headers=list(headers)) for key, value, headers in RECORDS]
            for future in sent:
                future.get(TIMEOUT_SECONDS)
        finally:
            producer.close()

    def consume(self, bootstrap: str, topic: str, count: int) -> list[Content]:
        consumer = self._kafka.KafkaConsumer(
            topic,
            bootstrap_servers=bootstrap,
            group_id=topic,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            consumer_timeout_ms=TIMEOUT_SECONDS * 1000,
        )
        try:
            found = [
                (record.key, record.value, tuple(record.headers))
                for _, record in zip(range(count), consumer, strict=False)
            ]
            consumer.commit()
            return found
        finally:
            consumer.close()


class AioKafka:
    """aiokafka, which runs on asyncio."""

    def __init__(self) -> None:
        self._aiokafka: Any = import_module("aiokafka")

    def topics(self, bootstrap: str) -> set[str]:
        async def ask() -> set[str]:
            async with self._aiokafka.AIOKafkaConsumer(bootstrap_servers=bootstrap) as consumer:
                return set(await consumer.topics())

        return _run(ask())

    def produce(self, bootstrap: str, topic: str, codec: str) -> None:
        async def send() -> None:
            compression = None if codec == "none" else codec
            producer = self._aiokafka.AIOKafkaProducer(bootstrap_servers=bootstrap, compression_type=compression)
            async with producer:
                sent = [
                    await producer.send(topic, value, key=key, headers=list(headers)) for key, value, headers in RECORDS
                ]
                await asyncio.gather(*sent)

        _run(send())

    def consume(self, bootstrap: str, topic: str, count: int) -> list[Content]:
        async def read() -> list[Content]:
            consumer = self._aiokafka.AIOKafkaConsumer(
                topic,
                bootstrap_servers=bootstrap,
                group_id=topic,
                auto_offset_reset="earliest",
                enable_auto_commit=False,
            )
            async with consumer:
                records = [await consumer.getone() for _ in range(count)]
                await consumer.commit()
            return [(record.key, record.value, tuple(record.headers)) for record in records]

        return _run(read())


class ConfluentKafka:
    """confluent-kafka, the C client."""

    def __init__(self) -> None:
        self._confluent: Any = import_module("confluent_kafka")

    def topics(self, bootstrap: str) -> set[str]:
        admin: Any = import_module("confluent_kafka.admin")
        return set(admin.AdminClient({"bootstrap.servers": bootstrap}).list_topics(timeout=TIMEOUT_SECONDS).topics)

    def produce(self, bootstrap: str, topic: str, codec: str) -> None:
        producer = self._confluent.Producer({"bootstrap.servers": bootstrap, "compression.type": codec})
        for key, value, headers in RECORDS:
            producer.produce(topic, value, key, headers=list(headers))
        assert producer.flush(TIMEOUT_SECONDS) == 0

    def consume(self, bootstrap: str, topic: str, count: int) -> list[Content]:
        consumer = self._confluent.Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": topic,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
            }
        )
        try:
            consumer.subscribe([topic])
            found: list[Content] = []
            while len(found) < count:
                message = consumer.poll(TIMEOUT_SECONDS)
                assert message is not None, f"no further record arrived after {len(found)}"
                assert message.error() is None
                found.append((message.key(), message.value(), tuple(message.headers() or ())))
            consumer.commit(asynchronous=False)
            return found
        finally:
            consumer.close()


def _run(work: Awaitable[Result]) -> Result:
    async def limited() -> Result:
        return await asyncio.wait_for(work, TIMEOUT_SECONDS)

    return asyncio.run(limited())


@pytest.fixture(params=[KafkaPython, AioKafka, ConfluentKafka])
def peer(request: pytest.FixtureRequest) -> Peer:
    """Each client in turn; the environment for `make test-kafka` has them all."""
    client: Peer = request.param()
    return client


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_produce_and_consume_in_a_group(broker: Broker, peer: Peer, codec: str) -> None:
    topic = f"peers-{type(peer).__name__}-{codec}"

    async def create() -> None:
        async with Admin(broker.bootstrap) as admin:
            await admin.create_topics(NewTopic(topic, PARTITIONS))

    _run(create())
    assert topic in peer.topics(broker.bootstrap)
    peer.produce(broker.bootstrap, topic, codec)
    first = peer.consume(broker.bootstrap, topic, 100)
    rest = peer.consume(broker.bootstrap, topic, len(RECORDS) - 100)
    assert sorted(first + rest, key=str) == sorted(RECORDS, key=str)


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_consume_what_ours_wrote(broker: Broker, peer: Peer, codec: str) -> None:
    topic = f"peers-{type(peer).__name__}-ours-{codec}"

    async def produce() -> None:
        async with Producer(broker.bootstrap, compression=Compression[codec.upper()]) as producer:
            for key, value, headers in RECORDS:
                producer.send(topic, value, key=key, headers=headers)

    _run(produce())
    assert peer.consume(broker.bootstrap, topic, len(RECORDS)) == RECORDS
