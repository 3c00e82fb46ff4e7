"""Transactions work on Apache Kafka in both versions of the protocol, with `read_committed` consumers, offsets in
transactions, fencing, timeouts, and killed coordinators.

Method: use a node with transaction.version 2 (the release's default), one formatted with version 1, and a cluster of
three.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from kafkawire import BrokerError, Consumer, GroupMetadata, NewTopic, Producer, TopicPartition
from kafkawire.errors import ProducerFenced, TransactionAborted
from kafkawire.sdk.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from kafkawire.sdk.protocol.tables.enums import TRANSACTION_VERSION_FEATURE, CoordinatorType
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.routing.requests import coordinator, find_coordinator
from kafkawire.sdk.transport.connection import BrokerConnection, ConnectionSettings
from kafkawire.sdk.transport.stream import TcpNetwork
from kafkawire.sdk.transport.wire import addresses
from tests.kafka import topics
from tests.kafka.apache import ApacheKafka
from tests.kafka.cluster import KafkaCluster
from tests.sdk.transport.responses import response_to

TIMEOUT_SECONDS = 90


@pytest.fixture(scope="module", params=[1, 2])
def node(request: pytest.FixtureRequest) -> Iterator[ApacheKafka]:
    """A node of either version; each test uses its own topics and ids."""
    with ApacheKafka(features={TRANSACTION_VERSION_FEATURE: request.param}) as kafka:
        yield kafka


async def created(bootstrap: str, name: str, partitions: int = 3, replicas: int = 1) -> None:
    await topics.create(bootstrap, NewTopic(name, partitions, replicas))


async def values(bootstrap: str, topic: str, isolation_level: Any = "read_committed") -> list[bytes]:
    """Return the values in a topic, sorted, once no transaction is open in it."""
    await topics.await_markers(bootstrap, topic)
    reader = Consumer(bootstrap, topic, isolation_level=isolation_level, auto_offset_reset="earliest")
    async with reader:
        return sorted([record.value or b"" async for record in reader.records(stop_at_end=True)])


async def version_of(bootstrap: str) -> int:
    (address, *_) = addresses(bootstrap)
    connection = await BrokerConnection.open(TcpNetwork(), address, ConnectionSettings())
    try:
        return connection.feature_level(TRANSACTION_VERSION_FEATURE)
    finally:
        connection.close()


def run(test: Any) -> None:
    async def limited() -> None:
        async with asyncio.timeout(TIMEOUT_SECONDS):
            await test

    asyncio.run(limited())


def test_the_nodes_have_either_version(node: ApacheKafka, request: pytest.FixtureRequest) -> None:
    assert asyncio.run(version_of(node.bootstrap)) == request.node.callspec.params["node"]


@pytest.mark.parametrize("io", ["loop", "thread"])
def test_readers_of_committed_records_see_no_other(node: ApacheKafka, io: Any) -> None:
    async def test() -> None:
        topic = f"visible-{io}"
        await created(node.bootstrap, topic)
        async with Producer(node.bootstrap, transactional_id=topic, io=io) as producer:
            for number in range(8):
                try:
                    async with producer.transaction():
                        for partition in range(3):
                            producer.send(topic, b"%d" % number, partition=partition)
                        if number % 2:
                            await producer.flush()
                            producer.send(topic, b"undrained")
                            raise ZeroDivisionError
                except ZeroDivisionError:
                    pass
        assert await values(node.bootstrap, topic) == sorted([b"0", b"2", b"4", b"6"] * 3)
        everything = await values(node.bootstrap, topic, "read_uncommitted")
        assert set(everything) >= {b"%d" % number for number in range(8)}

    run(test())


def test_explicit_calls(node: ApacheKafka) -> None:
    async def test() -> None:
        await created(node.bootstrap, "explicit")
        async with Producer(node.bootstrap, transactional_id="explicit") as producer:
            await producer.begin_transaction()
            await producer.send("explicit", b"aborted")
            await producer.abort_transaction()
            await producer.begin_transaction()
            await producer.send("explicit", b"committed")
            await producer.commit_transaction()
            await producer.begin_transaction()
            await producer.send("explicit", b"open at the end")
        assert await values(node.bootstrap, "explicit") == [b"committed"]

    run(test())


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_offsets_are_committed_with_the_transaction(node: ApacheKafka, protocol: Any) -> None:
    async def test() -> None:
        source, target = f"source-{protocol}", f"target-{protocol}"
        place = TopicPartition(source, 0)
        await created(node.bootstrap, source, 1)
        await created(node.bootstrap, target, 1)
        async with Producer(node.bootstrap) as producer:
            await producer.send_many(source, [b"%d" % number for number in range(4)], partition=0)
        consumer = Consumer(
            node.bootstrap,
            source,
            group_id=source,
            group_protocol=protocol,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        )
        async with consumer, Producer(node.bootstrap, transactional_id=source) as producer:
            group = GroupMetadata(source)
            async for record in consumer:
                group = consumer.group_metadata()
                try:
                    async with producer.transaction() as transaction:
                        producer.send(target, record.value)
                        await transaction.send_offsets({place: record.offset + 1}, group)
                        if record.offset == 3:
                            raise ZeroDivisionError
                except ZeroDivisionError:
                    break
            committed = await consumer.committed(place)
            assert committed[place].offset == 3
            await producer.begin_transaction()
            producer.send(target, b"not mine")
            stale = GroupMetadata(source, group.generation_id - 1, group.member_id)
            with pytest.raises(BrokerError) as refused:
                await producer.send_offsets({place: 4}, stale)
            assert refused.value.code is ErrorCode.ILLEGAL_GENERATION
            with pytest.raises(TransactionAborted, match="ILLEGAL_GENERATION"):
                await producer.commit_transaction()
            assert (await consumer.committed(place))[place].offset == 3
        assert await values(node.bootstrap, target) == [b"0", b"1", b"2"]

    run(test())


def test_a_second_producer_fences_the_first(node: ApacheKafka) -> None:
    async def test() -> None:
        await created(node.bootstrap, "fenced")
        first = Producer(node.bootstrap, transactional_id="fenced")
        await first.start()
        await first.begin_transaction()
        await first.send("fenced", b"first", partition=0)
        async with Producer(node.bootstrap, transactional_id="fenced") as second:
            async with second.transaction():
                second.send("fenced", b"second", partition=0)
            first.send("fenced", b"late", partition=0)
            with pytest.raises(ProducerFenced, match="transactional id fenced: another producer uses it"):
                await first.commit_transaction()
            with pytest.raises(ProducerFenced):
                first.send("fenced", b"later")
            with pytest.raises(ProducerFenced):
                await first.begin_transaction()
            await first.close()
            async with second.transaction():
                second.send("fenced", b"second again", partition=0)
        assert await values(node.bootstrap, "fenced") == [b"second", b"second again"]

    run(test())


@pytest.mark.parametrize("sends", [False, True])
def test_the_coordinator_ends_what_takes_too_long(
    node: ApacheKafka, request: pytest.FixtureRequest, sends: bool
) -> None:
    topic = f"slow-{sends}"

    async def test() -> None:
        await created(node.bootstrap, topic, 1)
        async with Producer(node.bootstrap, transactional_id=topic, transaction_timeout_ms=500) as producer:
            await producer.begin_transaction()
            await producer.send(topic, b"slow")
            await ended()
            if sends:
                producer.send(topic, b"late")
            if request.node.callspec.params["node"] == 1:
                with pytest.raises(ProducerFenced, match="or transaction_timeout_ms=500 has passed"):
                    await producer.commit_transaction()
                return
            with pytest.raises(TransactionAborted, match="INVALID_PRODUCER_EPOCH" if sends else "INVALID_TXN_STATE"):
                await producer.commit_transaction()
            async with producer.transaction():
                producer.send(topic, b"quick")
        assert await values(node.bootstrap, topic) == [b"quick"]

    async def ended() -> None:
        """Wait until the log contains the transaction's end: the marker takes up one offset."""
        place = TopicPartition(topic, 0)
        async with Consumer(node.bootstrap, topic) as reader:
            while (await reader.end_offsets([place]))[place] < 2:
                pass

    run(test())


def test_the_coordinator_is_killed(cluster: KafkaCluster) -> None:
    async def test() -> None:
        topic, group = "killed", "killed-group"
        await created(cluster.bootstrap, topic, 6, 3)
        expected, victim = [], 0
        async with Producer(cluster.bootstrap, transactional_id=topic) as producer:
            for number in range(12):
                value = b"%03d" % number
                async with producer.transaction() as transaction:
                    for partition in range(6):
                        producer.send(topic, value, partition=partition)
                    offsets = {TopicPartition(topic, 0): number}
                    await transaction.send_offsets(offsets, GroupMetadata(group))
                    if number == 4:
                        victim = await coordinator_of(cluster.bootstrap, topic)
                        await asyncio.to_thread(cluster.kill, victim)
                expected += [value] * 6
        assert await values(cluster.bootstrap, topic) == sorted(expected)
        await asyncio.to_thread(cluster.restart, victim)

    run(test())


async def coordinator_of(bootstrap: str, key: str) -> int:
    """Return the node that coordinates a transactional id."""
    for address in addresses(bootstrap):
        try:
            connection = await BrokerConnection.open(TcpNetwork(), address, ConnectionSettings())
        except Exception:
            continue
        try:
            version = connection.version_for(FindCoordinatorRequest)
            request = find_coordinator(key, version, CoordinatorType.TRANSACTION)
            response = await response_to(connection, request, FindCoordinatorResponse, version)
            return coordinator(response, key)[0]
        finally:
            connection.close()
    raise AssertionError("no node responds")
