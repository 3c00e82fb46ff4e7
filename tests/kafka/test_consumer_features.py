"""A consumer's features beyond plain reading work on Apache Kafka: patterns, assignors, positions, changing topics.

Method: run all tests on one node; each uses its own topics and groups, and waits for the expected records.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

import pytest

from kafkawire import (
    Admin,
    Assignor,
    BrokerError,
    Consumer,
    KafkaWireError,
    NewTopic,
    PartitionCounts,
    Producer,
    Record,
    ReplicaRacks,
    Subscriptions,
    TopicPartition,
    WaitsFor,
)
from kafkawire.sdk.clock import now_ms
from tests.kafka import topics
from tests.kafka.apache import run_tool
from tests.kafka.servers import Server

TIMEOUT_SECONDS = 60


def on(either: Server, test: Callable[[str], Awaitable[None]]) -> None:
    """Run a test with the address of a node."""

    async def run() -> None:
        async with asyncio.timeout(TIMEOUT_SECONDS):
            await test(either.bootstrap)

    asyncio.run(run())


async def create(bootstrap: str, topic: str, partitions: int = 1) -> list[TopicPartition]:
    """Create a topic and return its partitions."""
    await topics.create(bootstrap, NewTopic(topic, partitions))
    return [TopicPartition(topic, number) for number in range(partitions)]


async def produce(bootstrap: str, topic: str, *values: str, partition: int = 0, **more: Any) -> None:
    """Write one record for each value."""
    async with Producer(bootstrap) as producer:
        for value in values:
            producer.send(topic, value, partition=partition, **more)


async def read(consumer: Consumer, count: int) -> list[Record]:
    """Return the next records."""
    found: list[Record] = []
    async for record in consumer:
        found.append(record)
        if len(found) == count:
            return found
    raise AssertionError("the consumer ended")


def values(records: Sequence[Record]) -> list[str]:
    """Return the values, sorted."""
    return sorted((record.value or b"").decode() for record in records)


# Patterns.


@pytest.mark.parametrize("protocol", ["classic", "consumer", "auto"])
def test_a_pattern_finds_topics_that_come_later(either: Server, protocol: str) -> None:
    """With server-side patterns, a new topic appears after ten seconds; "auto" does the same and is not tested."""
    prefix = f"features-pattern-{protocol}"

    async def test(bootstrap: str) -> None:
        await create(bootstrap, f"{prefix}-a")
        await create(bootstrap, f"other-{prefix}-a")
        await produce(bootstrap, f"{prefix}-a", "first")
        await produce(bootstrap, f"other-{prefix}-a", "not this")
        given: dict[str, Any] = {"group_id": prefix, "group_protocol": protocol, "metadata_max_age_ms": 500}
        async with Consumer(bootstrap, auto_offset_reset="earliest", **given) as consumer:
            await consumer.subscribe(pattern=f"{prefix}-[a-z]")
            assert values(await read(consumer, 1)) == ["first"]
            if protocol == "auto":
                return
            waiting = asyncio.ensure_future(read(consumer, 1))  # "first" is finished, so no rebalance redelivers it
            await create(bootstrap, f"{prefix}-b", 2)
            await produce(bootstrap, f"{prefix}-b", "second", partition=1)
            assert values(await waiting) == ["second"]
            assert {partition.topic for partition in consumer.assignment} == {f"{prefix}-a", f"{prefix}-b"}

    on(either, test)


def test_a_pattern_that_matches_nothing_yet(either: Server) -> None:
    topic = "features-nothing"

    async def test(bootstrap: str) -> None:
        options: dict[str, Any] = {"auto_offset_reset": "earliest", "metadata_max_age_ms": 500}
        async with Consumer(bootstrap, group_id=topic, **options) as consumer:
            await consumer.subscribe(pattern=f"{topic}.*")
            assert await consumer.getmany(500) == {}
            await create(bootstrap, topic)
            await produce(bootstrap, topic, "first")
            assert values(await read(consumer, 1)) == ["first"]

    on(either, test)


def test_a_pattern_without_a_group(either: Server) -> None:
    async def test(bootstrap: str) -> None:
        async with Consumer(bootstrap, auto_offset_reset="earliest", metadata_max_age_ms=500) as consumer:
            await consumer.subscribe(pattern="features-alone-.")
            await create(bootstrap, "features-alone-x")
            await produce(bootstrap, "features-alone-x", "first")
            assert values(await read(consumer, 1)) == ["first"]

    on(either, test)


def test_a_pattern_that_the_brokers_refuse_ends_the_membership(either: Server) -> None:
    async def test(bootstrap: str) -> None:
        async with Consumer(bootstrap, group_id="features-refused", group_protocol="consumer") as consumer:
            await consumer.subscribe(pattern="(")
            with pytest.raises(BrokerError, match="INVALID_REGULAR_EXPRESSION"):
                await consumer.getmany(30_000)
            assert consumer.health().waits_for is WaitsFor.NOTHING

    on(either, test)


# The application's own assignors.


class OneForAll(Assignor):
    """Assigns all partitions to the member with the first id."""

    name = "one-for-all"

    def __init__(self, error: Exception | None = None) -> None:
        self._error = error

    def assign(
        self, subscriptions: Subscriptions, partition_counts: PartitionCounts, replica_racks: ReplicaRacks | None = None
    ) -> Mapping[str, Sequence[TopicPartition]]:
        if self._error is not None:
            raise self._error
        chosen = min(subscriptions)
        return {
            chosen: [
                TopicPartition(topic, number)
                for topic in subscriptions[chosen].topics
                for number in range(partition_counts[topic])
            ]
        }


def test_an_assignor_of_the_application(either: Server) -> None:
    topic = "features-assignor"

    async def test(bootstrap: str) -> None:
        partitions = set(await create(bootstrap, topic, 3))
        given: dict[str, Any] = {"group_id": topic, "heartbeat_interval_ms": 100, "assignors": [OneForAll()]}
        async with Consumer(bootstrap, topic, **given) as one, Consumer(bootstrap, topic, **given) as two:
            async with Admin(bootstrap) as admin:
                while (topic, "Stable") not in {(each.group_id, each.state) for each in await admin.list_groups()}:
                    await asyncio.sleep(0)
                while (
                    len((group := (await admin.describe_groups(topic))[topic]).members) < 2 or group.state != "Stable"
                ):
                    await asyncio.sleep(0)
            assert group.protocol == "one-for-all"
            assert sorted(len(member.assignment) for member in group.members) == [0, 3]
            while partitions not in (one.assignment, two.assignment) or one.assignment & two.assignment:
                await asyncio.sleep(0)

    on(either, test)


def test_an_assignor_that_raises(either: Server) -> None:
    topic = "features-raises"

    async def test(bootstrap: str) -> None:
        await create(bootstrap, topic)
        async with Consumer(bootstrap, topic, group_id=topic, assignors=OneForAll(ValueError("nobody"))) as consumer:
            with pytest.raises(KafkaWireError, match=r"assignor one-for-all: ValueError\('nobody'\)"):
                await consumer.getmany(30_000)

    on(either, test)


# Commits.


def test_records_finished_in_any_order(either: Server) -> None:
    topic = "features-finish"

    async def test(bootstrap: str) -> None:
        await create(bootstrap, topic)
        await produce(bootstrap, topic, *map(str, range(10)))
        given: dict[str, Any] = {"group_id": topic, "auto_offset_reset": "earliest", "enable_auto_finish": False}
        async with Consumer(bootstrap, topic, **given) as consumer:
            records = await read(consumer, 10)
            for number in (9, 0, 1, 3, 2, 6):
                consumer.finish(records[number])
        async with Consumer(bootstrap, topic, **given) as consumer:
            again = await read(consumer, 6)
            assert [record.offset for record in again] == [4, 5, 6, 7, 8, 9]
            consumer.finish(*again)
            await consumer.commit()
        async with Admin(bootstrap) as admin:
            (offset,) = (await admin.list_group_offsets(topic)).values()
        assert offset.offset == 10

    on(either, test)


def test_records_and_batches_are_committed(either: Server) -> None:
    topic = "features-commit"

    async def test(bootstrap: str) -> None:
        (partition,) = await create(bootstrap, topic)
        await produce(bootstrap, topic, *map(str, range(10)))
        given: dict[str, Any] = {"group_id": topic, "auto_offset_reset": "earliest", "enable_auto_commit": False}
        async with Consumer(bootstrap, topic, **given) as consumer:
            record, *_ = await read(consumer, 3)
            await consumer.commit(record)
            assert (await consumer.committed(partition))[partition].offset == 1
            (batch,) = await consumer.getbatches(10_000)
            await consumer.commit(batch)
            committed = (await consumer.committed(partition))[partition]
            assert (committed.offset, committed.leader_epoch) == (10, 0)

    on(either, test)


def test_a_topic_that_is_missing_holds_up_nothing(either: Server, caplog: pytest.LogCaptureFixture) -> None:
    topic = "features-present"

    async def test(bootstrap: str) -> None:
        (partition,) = await create(bootstrap, topic)
        await produce(bootstrap, topic, "first")
        given: dict[str, Any] = {"group_id": topic, "auto_offset_reset": "earliest", "metadata_max_age_ms": 500}
        async with asyncio.timeout(20), Consumer(bootstrap, topic, "features-absent", **given) as consumer:
            assert "topic features-absent cannot be read now: UNKNOWN_TOPIC_OR_PARTITION" in caplog.messages
            assert values(await read(consumer, 1)) == ["first"]
            await consumer.commit()
            assert (await consumer.committed(partition))[partition].offset == 1
            await create(bootstrap, "features-absent")
            await produce(bootstrap, "features-absent", "second")
            assert values(await read(consumer, 1)) == ["second"]

    on(either, test)


# Positions.


def test_times(either: Server) -> None:
    async def test(bootstrap: str) -> None:
        (partition,) = await create(bootstrap, "features-times")
        start = datetime.now(UTC) - timedelta(hours=2)
        async with Producer(bootstrap) as producer:
            for minutes in range(0, 120, 10):
                time_ms = int((start + timedelta(minutes=minutes)).timestamp() * 1000)
                producer.send(partition.topic, str(minutes), timestamp_ms=time_ms)
        async with Consumer(bootstrap, partition.topic, auto_offset_reset=timedelta(minutes=75)) as consumer:
            assert values(await read(consumer, 1)) == ["50"]
            consumer.seek(partition, start + timedelta(minutes=25))
            assert values(await read(consumer, 1)) == ["30"]
            consumer.seek_to_time(start + timedelta(minutes=20))
            assert values(await read(consumer, 1)) == ["20"]
            assert await consumer.position(partition) == 3
            assert consumer.lag(partition) == 9
            consumer.seek_to_time(now_ms() + 60_000, partition)
            assert await consumer.position(partition) == 12
            consumer.seek_to_beginning()
            until = start + timedelta(minutes=25)
            assert [record.offset async for record in consumer.records(until=until)] == [0, 1, 2]
            consumer.seek_to_end()
            assert await consumer.position(partition) == 12
            assert await consumer.partitions_for(partition.topic) == [partition]

    on(either, test)


def test_the_position_passes_control_records(either: Server) -> None:
    topic = "features-control"

    async def test(bootstrap: str) -> None:
        (partition,) = await create(bootstrap, topic)
        tool = await asyncio.to_thread(
            run_tool,
            "org.apache.kafka.tools.ProducerPerformance",
            *("--topic", topic, "--num-records", "5", "--record-size", "10", "--throughput", "-1"),
            *("--transactional-id", topic, "--transaction-duration-ms", "1000"),
            *("--producer-props", f"bootstrap.servers={bootstrap}"),
        )
        assert tool.returncode == 0, tool.stderr
        given: dict[str, Any] = {"auto_offset_reset": "earliest", "isolation_level": "read_committed"}
        async with Consumer(bootstrap, topic, **given) as consumer:
            assert [record.offset for record in await read(consumer, 5)] == [0, 1, 2, 3, 4]
            while await consumer.getmany(100):
                pass
            assert await consumer.position(partition) == 6
            assert consumer.lag(partition) == 0

    on(either, test)


def test_pause_and_resume(either: Server) -> None:
    async def test(bootstrap: str) -> None:
        one, two = await create(bootstrap, "features-pause", 2)
        await produce(bootstrap, one.topic, "one")
        await produce(bootstrap, one.topic, "two", partition=1)
        async with Consumer(bootstrap, one.topic, auto_offset_reset="earliest") as consumer:
            consumer.pause(one)
            assert values(await read(consumer, 1)) == ["two"]
            assert await consumer.getmany(300) == {}
            assert consumer.health().partitions == {one: WaitsFor.RESUME, two: WaitsFor.RECORDS}
            consumer.resume(one)
            assert values(await read(consumer, 1)) == ["one"]

    on(either, test)


# Changing topics.


@pytest.mark.parametrize("group", [False, True])
def test_a_topic_that_is_created_again(either: Server, group: bool, caplog: pytest.LogCaptureFixture) -> None:
    topic = f"features-again-{group}"
    given: dict[str, Any] = {"group_id": topic, "heartbeat_interval_ms": 100} if group else {}

    async def test(bootstrap: str) -> None:
        await create(bootstrap, topic)
        await produce(bootstrap, topic, "a", "b", "c")
        options: dict[str, Any] = {"auto_offset_reset": "earliest", "metadata_max_age_ms": 300, **given}
        async with Consumer(bootstrap, topic, **options) as consumer, Admin(bootstrap) as admin:
            await read(consumer, 3)
            waiting = asyncio.ensure_future(read(consumer, 2))
            await admin.delete_topics([topic])
            while topic in await admin.list_topics():
                pass  # the topic is being deleted in the background
            await topics.create(bootstrap, NewTopic(topic, 1))
            await produce(bootstrap, topic, "d", "e")
            records = await waiting
            assert [(record.offset, record.value) for record in records] == [(0, b"d"), (1, b"e")]

    on(either, test)
    if not group:
        assert any("was deleted and created again: reset to earliest" in message for message in caplog.messages)


@pytest.mark.parametrize("kind", ["no group", "classic", "consumer", "by hand"])
def test_new_partitions_are_read(either: Server, kind: str) -> None:
    topic = f"features-growth-{kind.replace(' ', '-')}"

    async def test(bootstrap: str) -> None:
        await create(bootstrap, topic)
        options: dict[str, Any] = {"auto_offset_reset": "earliest", "metadata_max_age_ms": 300}
        if kind in ("classic", "consumer"):
            options |= {"group_id": topic, "group_protocol": kind}
        topics = () if kind == "by hand" else (topic,)
        async with Consumer(bootstrap, *topics, **options) as consumer:
            if kind == "by hand":
                consumer.assign([TopicPartition(topic, number) for number in range(3)])
            await produce(bootstrap, topic, "first")
            assert values(await read(consumer, 1)) == ["first"]
            waiting = asyncio.ensure_future(read(consumer, 1))  # "first" is finished, so no rebalance redelivers it
            tool = await asyncio.to_thread(
                run_tool,
                "org.apache.kafka.tools.TopicCommand",
                *("--bootstrap-server", bootstrap, "--alter", "--topic", topic, "--partitions", "3"),
            )
            assert tool.returncode == 0, tool.stderr
            await produce(bootstrap, topic, "second", partition=2)
            assert values(await waiting) == ["second"]

    on(either, test)


# Listeners and health.


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_listener_closes_its_consumer(either: Server, protocol: Literal["classic", "consumer"]) -> None:
    topic = f"features-close-{protocol}"
    told: list[str] = []

    class Closing:
        consumer: Consumer

        async def on_assigned(self, partitions: frozenset[TopicPartition]) -> None:
            told.append("assigned")
            await self.consumer.close()

        def on_revoked(self, partitions: frozenset[TopicPartition]) -> None:
            told.append("revoked")

        on_lost = on_revoked

    async def test(bootstrap: str) -> None:
        await create(bootstrap, topic)
        listener = Closing()
        listener.consumer = Consumer(bootstrap, topic, listener=listener, group_id=topic, group_protocol=protocol)
        await listener.consumer.start()
        assert [record async for record in listener.consumer] == []
        while len(told) < 2:
            await asyncio.sleep(0)
        assert told == ["assigned", "revoked"]
        async with Admin(bootstrap) as admin:
            while not {(topic, "Empty")} & {(each.group_id, each.state) for each in await admin.list_groups()}:
                await asyncio.sleep(0)

    on(either, test)


def test_health(either: Server) -> None:
    topic = "features-health"

    async def test(bootstrap: str) -> None:
        (partition,) = await create(bootstrap, topic)
        async with Consumer(bootstrap, topic, group_id=topic, auto_offset_reset="earliest") as consumer:
            await produce(bootstrap, topic, "first")
            while (health := consumer.health()).waits_for is not WaitsFor.APPLICATION:
                await asyncio.sleep(0)
            assert health.error is None
            assert health.since_heartbeat_ms is not None
            reading = asyncio.ensure_future(read(consumer, 2))
            while consumer.health().partitions != {partition: WaitsFor.RECORDS}:
                await asyncio.sleep(0)
            await produce(bootstrap, topic, "second")
            await reading

    on(either, test)
