"""Clients behave as documented when topics change, brokers hang, and applications are slow, wrong or interrupted.

Method: run each client with Apache Kafka and, where possible, the reference broker, in one case for each problem that
is known to affect clients.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from typing import Any

import pytest

from kafkawire import Admin, BrokerError, Consumer, Producer, TopicPartition
from kafkawire.errors import EncodeError, KafkaWireError, NoOffset
from kafkawire.sdk.protocol.messages import CreatePartitionsRequest, CreatePartitionsResponse
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.transport.connection import BrokerConnection, ConnectionSettings
from kafkawire.sdk.transport.stream import TcpNetwork
from kafkawire.sdk.transport.wire import Address
from tests.kafka.counting import CountingNetwork
from tests.kafka.servers import Server
from tests.kafka.troubles import create, on, values
from tests.sdk.transport.responses import response_to

GRACE_MS = 100 + 150

QUICK: dict[str, Any] = {"auto_offset_reset": "earliest", "metadata_max_age_ms": 300}

#: The protocols of group members, classic and KIP-848; None for a consumer without a group.
GROUPS = [None, "classic", "consumer"]


def grouped(topic: str, group: str | None) -> dict[str, Any]:
    """Return the options for a member of a group, or for a consumer without a group."""
    return QUICK if group is None else QUICK | {"group_id": topic, "group_protocol": group}


async def grow(bootstrap: str, topic: str, count: int) -> None:
    """Give a topic more partitions."""
    host, port = bootstrap.split(":")
    connection = await BrokerConnection.open(TcpNetwork(), Address(host, int(port)), ConnectionSettings())
    try:
        wanted = CreatePartitionsRequest.CreatePartitionsTopic(topic, count, None)
        response = await response_to(
            connection, CreatePartitionsRequest([wanted], timeout_ms=10_000), CreatePartitionsResponse
        )
        assert [each.error_code for each in response.results] == [ErrorCode.NONE]
    finally:
        connection.close()


# Creating and deleting topics and partitions.


@pytest.mark.parametrize("group", GROUPS)
def test_new_partitions_are_read(either: Server, group: str | None) -> None:
    async def test(bootstrap: str) -> None:
        topic = f"troubles-grow-{group}"
        await create(bootstrap, topic)
        quick = QUICK["metadata_max_age_ms"]
        async with (
            Producer(bootstrap, metadata_max_age_ms=quick) as producer,
            Consumer(bootstrap, topic, **grouped(topic, group)) as consumer,
        ):
            await producer.send(topic, b"old")
            assert await values(consumer, 1) == [b"old"]
            await grow(bootstrap, topic, 3)
            for partition in (1, 2):
                while True:
                    try:
                        await producer.send(topic, b"new", partition=partition)
                        break
                    except KafkaWireError:
                        await asyncio.sleep(0.1)
            # The old record is finished when the next one is requested; a rebalance before then delivers it again.
            new: list[int] = []
            async for record in consumer:
                new += [record.partition] if record.value == b"new" else []
                if len(new) == 2:
                    break
            assert sorted(new) == [1, 2]

    on(either, test)


@pytest.mark.parametrize("group", [None, "classic"])
def test_a_topic_that_is_deleted_holds_up_no_other(either: Server, group: str | None) -> None:
    async def test(bootstrap: str) -> None:
        kept, gone = topics = f"troubles-kept-{group}", f"troubles-gone-{group}"
        await create(bootstrap, *topics)
        reading, writing = CountingNetwork(), CountingNetwork()
        options: dict[str, Any] = grouped(kept, group) | {"metadata_max_age_ms": 60_000}
        async with (
            Producer(bootstrap, delivery_timeout_ms=2_000, request_timeout_ms=1_000, network=writing) as producer,
            Consumer(bootstrap, *topics, network=reading, **options) as consumer,
            Admin(bootstrap) as admin,
        ):
            for topic in topics:
                await producer.send(topic, b"before")
            assert await values(consumer, 2) == [b"before"] * 2
            known = time.monotonic()
            await admin.delete_topics(gone)
            sent = 0
            while sent <= 20 or time.monotonic() < known + 4:
                await producer.send(kept, b"after")
                assert await values(consumer, 1) == [b"after"]
                sent += 1
                await asyncio.sleep(0.02)
            if group is not None:
                await consumer.commit(timeout_ms=5_000)
        for network in (reading, writing):
            network.check_metadata(known)

    on(either, test)


@pytest.mark.parametrize("group", [None, "classic"])
def test_a_topic_that_is_created_again_is_read_anew(
    either: Server, group: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    async def test(bootstrap: str) -> None:
        topic = f"troubles-again-{group}"
        await create(bootstrap, topic)
        async with Consumer(bootstrap, topic, **grouped(topic, group)) as consumer, Admin(bootstrap) as admin:
            async with Producer(bootstrap) as producer:
                for number in range(5):
                    await producer.send(topic, b"first life %d" % number)
            assert len(await values(consumer, 5)) == 5
            await admin.delete_topics(topic)
            while topic in await admin.list_topics():
                await asyncio.sleep(0.05)
            await create(bootstrap, topic)
            async with Producer(bootstrap) as producer:
                await producer.send(topic, b"second life")
            assert await values(consumer, 1) == [b"second life"]

    with caplog.at_level(logging.WARNING, "kafkawire.consumer"):
        on(either, test)
    if group is None:  # a group reassigns its partitions
        assert "reset to earliest" in caplog.text


def test_a_missing_partition_holds_up_no_other(either: Server, caplog: pytest.LogCaptureFixture) -> None:
    async def test(bootstrap: str) -> None:
        topic = "troubles-missing"
        await create(bootstrap, topic)
        network = CountingNetwork()
        async with (
            Producer(bootstrap) as producer,
            Consumer(bootstrap, group_id=topic, auto_offset_reset="earliest", network=network) as consumer,
        ):
            consumer.assign([TopicPartition(topic, 0), TopicPartition(topic, 7), TopicPartition("troubles-never", 0)])
            await producer.send(topic, b"0")
            assert await values(consumer, 1) == [b"0"]
            known = time.monotonic()
            for number in range(100):
                await producer.send(topic, b"%d" % number)
            begun = time.monotonic()
            assert len(await values(consumer, 100)) == 100
            await consumer.commit(timeout_ms=2_000)
            assert time.monotonic() - begun < 2
            assert (await consumer.committed(TopicPartition(topic, 0)))[TopicPartition(topic, 0)].offset == 101
        network.check_metadata(known)

    with caplog.at_level(logging.WARNING, "kafkawire.consumer"):
        on(either, test)
    assert "troubles-missing-7 cannot be read now" in caplog.text


# Applications that are slow, wrong or interrupted.


@pytest.mark.parametrize("io", ["loop", "thread"])
def test_slow_records_are_no_missing_polls(either: Server, io: Any) -> None:
    """A batch takes three times `max_poll_interval_ms`, but each record takes only a fraction of it."""

    async def test(bootstrap: str) -> None:
        topic = f"troubles-slow-{io}"
        await create(bootstrap, topic)
        async with Producer(bootstrap, linger_ms=50) as producer:
            await asyncio.gather(*(producer.send(topic, b"%d" % number) for number in range(15)))
        options: dict[str, Any] = QUICK | {
            "max_poll_interval_ms": 1_000,
            "heartbeat_interval_ms": 200,
            "session_timeout_ms": 6_000,
        }
        found: Counter[bytes | None] = Counter()
        async with Consumer(bootstrap, topic, group_id=topic, io=io, **options) as consumer:
            async for record in consumer:
                found[record.value] += 1
                await asyncio.sleep(0.2)
                if len(found) == 15:
                    break
        assert set(found.values()) == {1}

    on(either, test)


def test_cancelled_reads_lose_nothing(either: Server) -> None:
    async def test(bootstrap: str) -> None:
        topic = "troubles-cancels"
        await create(bootstrap, topic, partitions=3)
        async with Producer(bootstrap) as producer:
            await asyncio.gather(*(producer.send(topic, b"%d" % number) for number in range(3_000)))
        found: Counter[bytes | None] = Counter()

        async def read(consumer: Consumer, number: int) -> None:
            if number % 2:
                for records in (await consumer.getmany(200, 20)).values():
                    found.update(record.value for record in records)
            else:
                found[(await anext(aiter(consumer))).value] += 1

        async with Consumer(bootstrap, topic, **grouped(topic, "classic")) as consumer:
            number = cancels = 0
            while len(found) < 3_000:
                number += 1
                task = asyncio.ensure_future(read(consumer, number))
                for _ in range(number % 5):
                    await asyncio.sleep(0)
                cancels += number % 3 == 0 and task.cancel()
                await asyncio.gather(task, return_exceptions=True)
            assert cancels > 10
        assert set(found.values()) == {1}

    on(either, test)


def test_bad_records_leave_no_trace_and_delay_no_good_one(either: Server) -> None:
    async def test(bootstrap: str) -> None:
        topic = "troubles-bad"
        configs: dict[str, Any] = {"max.message.bytes": "2000"}
        await create(bootstrap, topic, **configs)
        async with Producer(bootstrap, linger_ms=0) as producer:
            for _ in range(3):
                with pytest.raises(EncodeError):
                    producer.send(topic, b"v", headers=[("h", object())])  # type: ignore[list-item]  # that is the fault
            bad = []
            for _ in range(3):
                bad.append(producer.send(topic, b"x" * 4_000))
                await asyncio.sleep(0.01)
            begun = time.monotonic()
            place = await producer.send(topic, b"good")
            assert time.monotonic() - begun < 3
            assert place.offset == 0
            for delivery in bad:
                with pytest.raises(BrokerError, match="MESSAGE_TOO_LARGE"):
                    await delivery

    on(either, test)


def test_no_offset_is_raised_once(either: Server) -> None:
    async def test(bootstrap: str) -> None:
        topic = "troubles-none"
        await create(bootstrap, topic)
        async with Producer(bootstrap) as producer:
            await producer.send(topic, b"v")
        async with Consumer(bootstrap, topic, group_id=topic, auto_offset_reset="none") as consumer:
            with pytest.raises(NoOffset):
                await consumer.getmany(20_000)
            assert await consumer.getmany(500) == {}
            consumer.seek_to_beginning()
            assert await values(consumer, 1) == [b"v"]

    on(either, test)


class Listener:
    """A listener that seeks and commits."""

    def __init__(self) -> None:
        self.consumer: Consumer | None = None
        self.errors: list[Exception] = []

    async def on_assigned(self, partitions: frozenset[TopicPartition]) -> None:
        assert self.consumer is not None
        await asyncio.sleep(0.1)
        for partition in partitions:
            self.consumer.seek(partition, 5)

    async def on_revoked(self, partitions: frozenset[TopicPartition]) -> None:
        assert self.consumer is not None
        try:
            await self.consumer.commit(dict.fromkeys(partitions, 7))
        except KafkaWireError as error:
            self.errors.append(error)

    def on_lost(self, partitions: frozenset[TopicPartition]) -> None:
        raise AssertionError(partitions)


@pytest.mark.parametrize("io", ["loop", "thread"])
def test_a_listener_seeks_before_the_first_record_and_commits_at_close(either: Server, io: Any) -> None:
    async def test(bootstrap: str) -> None:
        topic = f"troubles-listener-{io}"
        await create(bootstrap, topic)
        async with Producer(bootstrap) as producer:
            for number in range(8):
                await producer.send(topic, b"%d" % number)
        listener = Listener()
        options = QUICK | {"group_id": topic, "enable_auto_commit": False, "io": io}
        async with Consumer(bootstrap, topic, listener=listener, **options) as consumer:
            listener.consumer = consumer
            assert await values(consumer, 3) == [b"5", b"6", b"7"]
        assert listener.errors == []
        async with Consumer(bootstrap, group_id=topic) as reader:
            assert [each.offset for each in (await reader.committed(TopicPartition(topic, 0))).values()] == [7]

    on(either, test)


def test_a_subscription_that_changes_during_a_join(either: Server) -> None:
    async def test(bootstrap: str) -> None:
        first, second = "troubles-first", "troubles-second"
        await create(bootstrap, first, second)
        async with Producer(bootstrap) as producer:
            await producer.send(first, b"first")
            await producer.send(second, b"second")
        for turns in (0, 3, 10):
            async with Consumer(bootstrap, first, group_id=f"{first}-{turns}", **QUICK) as consumer:
                for _ in range(turns):
                    await asyncio.sleep(0.005)
                await consumer.subscribe(second)
                reading = asyncio.ensure_future(values(consumer, 1))
                while await reading != [b"second"]:  # records from before the change may arrive first
                    reading = asyncio.ensure_future(values(consumer, 1))
                assert consumer.assignment == {TopicPartition(second, 0)}

    on(either, test)
