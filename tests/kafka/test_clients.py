"""Producer, consumer and admin work on Apache Kafka.

Method: run each client on a real node, and read the records that it wrote with another client or Kafka's own tool.
"""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Awaitable, Callable
from typing import Any, Literal

import pytest

from kafkawire import (
    Admin,
    BrokerError,
    Consumer,
    NewTopic,
    OffsetAndMetadata,
    OffsetAndTimestamp,
    Producer,
    Record,
    TopicPartition,
)
from kafkawire.errors import LocalProtocolError
from kafkawire.sdk.clock import now_ms
from kafkawire.sdk.protocol.tables.enums import ConfigResourceType
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.records import Compression
from tests.kafka import topics
from tests.kafka.apache import run_tool
from tests.kafka.servers import Server

TIMEOUT_SECONDS = 60

Content = tuple[bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]

RECORDS: list[Content] = [
    (None, b"no key", ()),
    (b"", b"", ()),
    (b"tombstone", None, ()),
    (None, None, (("only", b"headers"),)),
    (b"headers", b"two of one name", (("name", b"1"), ("name", None), ("\u00e9", b""))),
    *((b"key-%d" % number, b"value %d " % number * 50, ()) for number in range(500)),
]


def on(either: Server, test: Callable[[str], Awaitable[None]]) -> None:
    """Run a test with the node's address, within the time limit."""

    async def limited() -> None:
        await asyncio.wait_for(test(either.bootstrap), TIMEOUT_SECONDS)

    asyncio.run(limited())


async def create(bootstrap: str, topic: str, partitions: int = 1) -> list[TopicPartition]:
    """Create a topic and return its partitions."""
    await topics.create(bootstrap, NewTopic(topic, partitions, 1))
    return [TopicPartition(topic, number) for number in range(partitions)]


async def read(consumer: Consumer, count: int) -> list[Record]:
    """Return the next records."""
    found: list[Record] = []
    async for record in consumer:
        found.append(record)
        if len(found) == count:
            break
    return found


async def read_all(bootstrap: str, partition: TopicPartition, count: int) -> list[Record]:
    """Return the first records of a partition."""
    async with Consumer(bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([partition])
        return await read(consumer, count)


@pytest.mark.parametrize("codec", Compression, ids=lambda codec: codec.name.lower())
def test_records_come_back_as_they_were(either: Server, codec: Compression) -> None:
    async def test(bootstrap: str) -> None:
        (partition,) = await create(bootstrap, f"clients-{codec.name.lower()}")
        async with Producer(bootstrap, compression=codec, batch_size=4096) as producer:
            deliveries = [
                producer.send(partition.topic, value, key=key, headers=headers) for key, value, headers in RECORDS
            ]
            places = [await delivery for delivery in deliveries]
        assert [(place.partition, place.offset) for place in places] == [(0, n) for n in range(len(RECORDS))]

        found: list[Record] = []
        async with Consumer(bootstrap, auto_offset_reset="earliest") as consumer:
            consumer.assign([partition])
            async for batch in consumer.batches():
                assert batch.batch.compression == codec
                found += batch
                if len(found) >= len(RECORDS):
                    break
        assert [(record.key, record.value, record.headers) for record in found] == RECORDS
        assert [(record.offset, record.timestamp_ms) for record in found] == [
            (place.offset, place.timestamp_ms) for place in places
        ]

    on(either, test)


@pytest.mark.parametrize(("acks", "offsets"), [(0, {-1}), (1, set(range(100))), ("all", set(range(100)))])
def test_acks(either: Server, acks: Literal["all", 0, 1], offsets: set[int]) -> None:
    async def test(bootstrap: str) -> None:
        (partition,) = await create(bootstrap, f"clients-acks-{acks}")
        async with Producer(bootstrap, acks=acks) as producer:
            deliveries = [producer.send(partition.topic, b"%d" % number) for number in range(100)]
            assert {(await delivery).offset for delivery in deliveries} == offsets
        found = await read_all(bootstrap, partition, 100)
        assert [record.value for record in found] == [b"%d" % number for number in range(100)]

    on(either, test)


@pytest.mark.smoke
def test_keys_go_where_kafka_sends_them(either: Server) -> None:
    keys = [f"key-{number}" for number in range(200)] + ["a", "ab", "abc", "abcd", "\u20ac", "\U0001f600 and more"]

    async def places(bootstrap: str, topic: str) -> dict[bytes | None, int]:
        found: dict[bytes | None, int] = {}
        async with Consumer(bootstrap, topic, auto_offset_reset="earliest") as consumer:
            async for batch in consumer.batches():
                found |= dict.fromkeys((record.key for record in batch), batch.partition.partition)
                if len(found) == len(keys):
                    return found
        raise AssertionError("the consumer ended")

    async def test(bootstrap: str) -> None:
        for topic in ("clients-keys-ours", "clients-keys-theirs"):
            await create(bootstrap, topic, 7)
        async with Producer(bootstrap) as producer:
            for key in keys:
                producer.send("clients-keys-ours", "", key=key)
        tool = await asyncio.to_thread(
            run_tool,
            "org.apache.kafka.tools.ConsoleProducer",
            *("--bootstrap-server", bootstrap, "--topic", "clients-keys-theirs"),
            *("--reader-property", "parse.key=true"),
            stdin="".join(f"{key}\t\n" for key in keys),
        )
        assert tool.returncode == 0, tool.stderr
        assert await places(bootstrap, "clients-keys-ours") == await places(bootstrap, "clients-keys-theirs")

    on(either, test)


class Partitions:
    """A listener that tracks a member's partitions, and lets a test wait until there is a given number of them."""

    def __init__(self) -> None:
        self.owned: set[TopicPartition] = set()
        self._changed = asyncio.Condition()

    async def on_assigned(self, partitions: frozenset[TopicPartition]) -> None:
        await self._change(self.owned | partitions)

    async def on_revoked(self, partitions: frozenset[TopicPartition]) -> None:
        await self._change(self.owned - partitions)

    on_lost = on_revoked

    async def has(self, count: int) -> None:
        """Wait until the member has this many partitions."""
        async with self._changed:
            await self._changed.wait_for(lambda: len(self.owned) == count)

    async def _change(self, owned: set[TopicPartition]) -> None:
        async with self._changed:
            self.owned = owned
            self._changed.notify_all()


@pytest.mark.parametrize("assignor", ["range", "roundrobin", "sticky", "cooperative-sticky"])
def test_group_of_two(either: Server, assignor: str) -> None:
    topic = f"clients-group-{assignor}"

    async def test(bootstrap: str) -> None:
        partitions = set(await create(bootstrap, topic, 4))
        options: dict[str, Any] = {
            "group_id": topic,
            "assignors": assignor,
            "auto_offset_reset": "earliest",
            "heartbeat_interval_ms": 100,
        }
        one, two = Partitions(), Partitions()
        async with Consumer(bootstrap, topic, listener=one, **options) as first:
            await one.has(4)
            async with Consumer(bootstrap, topic, listener=two, **options) as second:
                await two.has(2)
                await one.has(2)
                assert one.owned | two.owned == partitions
                assert (first.assignment, second.assignment) == (one.owned, two.owned)
                async with Admin(bootstrap) as admin:
                    described = (await admin.describe_groups(topic))[topic]
                assert (described.state, described.protocol) == ("Stable", assignor)
                assert {frozenset(member.assignment) for member in described.members} == {
                    first.assignment,
                    second.assignment,
                }
                async with Producer(bootstrap) as producer:
                    for number in range(40):
                        producer.send(topic, b"%d" % number, partition=number % 4)
                values = [record.value or b"" for each in (first, second) for record in await read(each, 20)]
                assert sorted(map(int, values)) == list(range(40))
                await first.commit()  # also the last record, which is not finished until the next one is requested
                # The second member has committed its records and left.
            await one.has(4)
            async with Producer(bootstrap) as producer:
                for number in range(4):
                    producer.send(topic, b"last", partition=number)
            assert [record.value for record in await read(first, 4)] == [b"last"] * 4

    on(either, test)


@pytest.mark.parametrize("leader", ["ours", "theirs"])
def test_group_with_a_member_in_java(either: Server, leader: str) -> None:
    """The first member leads the group, and assigns partitions to the Java member."""
    topic = f"clients-java-{leader}"
    options: dict[str, Any] = {"group_id": topic, "auto_offset_reset": "earliest", "heartbeat_interval_ms": 100}

    async def test(bootstrap: str) -> None:
        partitions = set(await create(bootstrap, topic, 4))
        java = asyncio.to_thread(
            run_tool,
            "org.apache.kafka.tools.consumer.ConsoleConsumer",
            *("--bootstrap-server", bootstrap, "--topic", topic, "--group", topic, "--from-beginning"),
            *("--max-messages", "20", "--timeout-ms", "30000"),
        )
        ours = Partitions()
        theirs: asyncio.Task[subprocess.CompletedProcess[str]] | None = None
        if leader == "theirs":
            theirs = asyncio.create_task(java)
            async with Admin(bootstrap) as admin:
                while (topic, "Stable") not in {(each.group_id, each.state) for each in await admin.list_groups()}:
                    pass  # the other program may start slowly
        async with Consumer(bootstrap, topic, listener=ours, **options) as consumer:
            if theirs is None:
                await ours.has(4)
                theirs = asyncio.create_task(java)
            await ours.has(2)
            assert len(partitions - ours.owned) == 2
            async with Producer(bootstrap) as producer:
                for number in range(40):
                    producer.send(topic, b"%d" % number, partition=number % 4)
            found = [int(record.value or b"") for record in await read(consumer, 20)]
            tool = await theirs
            assert tool.returncode == 0, tool.stderr
            assert sorted([*found, *map(int, tool.stdout.split())]) == list(range(40))
            await ours.has(4)

    on(either, test)


@pytest.mark.smoke
def test_group_goes_on_where_it_committed(either: Server) -> None:
    async def test(bootstrap: str) -> None:
        (partition,) = await create(bootstrap, "clients-commit")
        async with Producer(bootstrap) as producer:
            for number in range(100):
                producer.send(partition.topic, b"%d" % number)
        options: dict[str, Any] = {
            "group_id": "clients-commit",
            "auto_offset_reset": "earliest",
            "enable_auto_commit": False,
        }
        async with Consumer(bootstrap, partition.topic, **options) as consumer:
            await read(consumer, 30)
            await consumer.commit()
            await read(consumer, 10)
        async with Consumer(bootstrap, partition.topic, **options) as consumer:
            (record,) = await read(consumer, 1)
            assert (record.offset, record.value) == (30, b"30")
            await consumer.commit({partition: OffsetAndMetadata(70, "a note")})
            assert (await consumer.committed(partition))[partition][:2] == (70, "a note")
        async with Admin(bootstrap) as admin:
            assert (await admin.list_group_offsets("clients-commit"))[partition][:2] == (70, "a note")
        async with Consumer(bootstrap, partition.topic, **options) as consumer:
            assert [record.offset for record in await read(consumer, 30)] == list(range(70, 100))

    on(either, test)


def test_offsets_for_times(either: Server) -> None:
    async def test(bootstrap: str) -> None:
        (partition,) = await create(bootstrap, "clients-times")
        start_ms = now_ms() - 60_000
        async with Producer(bootstrap, compression="zstd") as producer:
            for number in range(50):
                producer.send(partition.topic, b"", timestamp_ms=start_ms + number * 100)
        async with Consumer(bootstrap, auto_offset_reset="earliest") as consumer:
            consumer.assign([partition])
            for time_ms, offset in [(start_ms - 1, 0), (start_ms + 100, 1), (start_ms + 101, 2), (start_ms + 4900, 49)]:
                expected = OffsetAndTimestamp(offset, start_ms + offset * 100, 0)
                assert await consumer.offsets_for_times({partition: time_ms}) == {partition: expected}
            assert await consumer.offsets_for_times({partition: start_ms + 4901}) == {partition: None}
            assert await consumer.beginning_offsets([partition]) == {partition: 0}
            assert await consumer.end_offsets([partition]) == {partition: 50}
            consumer.seek(partition, 48)
            assert [record.offset for record in await read(consumer, 2)] == [48, 49]
            consumer.seek_to_beginning()
            assert [record.offset for record in await read(consumer, 1)] == [0]

    on(either, test)


@pytest.mark.smoke
def test_admin(either: Server) -> None:
    async def test(bootstrap: str) -> None:
        ids = await topics.create(bootstrap, NewTopic("clients-admin", 3, 1, {"retention.ms": "-1"}), "clients-default")
        async with Admin(bootstrap) as admin:
            described = await admin.describe_topics(ids)
            assert {name: topic.topic_id for name, topic in described.items()} == ids
            assert set(described["clients-admin"].partitions) == {0, 1, 2}
            assert {part.leader for part in described["clients-admin"].partitions.values()} == {1}
            listed = await admin.list_topics()
            assert {"clients-admin", "clients-default"} <= listed.keys()
            configs = await admin.describe_configs(ConfigResourceType.TOPIC, "clients-admin", ["retention.ms"])
            assert configs["retention.ms"].value == "-1"
            broker = await admin.describe_configs(ConfigResourceType.BROKER, "1", ["log.segment.bytes"])
            assert broker["log.segment.bytes"].value == "1073741824"
            cluster = await admin.describe_cluster()
            assert str(cluster.brokers[1].address) == bootstrap
            await admin.delete_topics(ids)
            while ids.keys() & (await admin.list_topics()).keys():
                pass  # brokers delete a topic shortly after the controller does

    on(either, test)


def test_refusals(either: Server) -> None:
    async def test(bootstrap: str) -> None:
        async def refused(call: Awaitable[object]) -> tuple[ErrorCode, bool]:
            with pytest.raises(BrokerError) as caught:
                await call
            return caught.value.code, "clients-" in str(caught.value) or "clients " in str(caught.value)

        unknown = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, True)
        too_wide = (ErrorCode.INVALID_REPLICATION_FACTOR, True)
        await create(bootstrap, "clients-taken")
        async with Admin(bootstrap) as admin:
            taken = await refused(admin.create_topics("clients-taken"))
            assert taken == (ErrorCode.TOPIC_ALREADY_EXISTS, True)
            assert await refused(admin.create_topics(NewTopic("clients-wide", replication_factor=2))) == too_wide
            with pytest.raises(LocalProtocolError, match="topic 'clients are': expected"):  # without a request
                await admin.create_topics("clients are")
            assert await refused(admin.describe_topics("clients-absent")) == unknown
            assert await refused(admin.delete_topics("clients-absent")) == unknown
        async with Producer(bootstrap) as producer:
            with pytest.raises(LocalProtocolError, match="topic 'clients are': expected"):  # without a request
                producer.send("clients are", b"")

    on(either, test)


@pytest.mark.parametrize("group", [None, "clients-later"])
def test_topic_that_comes_later(either: Server, group: str | None) -> None:
    async def test(bootstrap: str) -> None:
        topic = f"clients-later-{group is not None}"
        async with Consumer(bootstrap, topic, group_id=group, auto_offset_reset="earliest") as consumer:
            reading = asyncio.create_task(read(consumer, 1))
            await create(bootstrap, topic)
            async with Producer(bootstrap) as producer:
                await producer.send(topic, b"first")
            assert [record.value for record in await reading] == [b"first"]

    on(either, test)


def test_asking_for_a_topic_makes_it(either: Server) -> None:
    async def test(bootstrap: str) -> None:
        async with Producer(bootstrap) as producer:
            place = await producer.send("clients-made", b"first")
        assert (place.partition, place.offset) == (0, 0)

    on(either, test)
