"""A node of Apache Kafka that has files of every kind, for tests that read them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from kafkawire import Consumer, NewTopic, Producer
from kafkawire.sdk.records import Compression
from tests.kafka.apache import ApacheKafka
from tests.kafka.cleaning import until
from tests.kafka.tools import run
from tests.kafka.topics import await_markers, create

__all__ = ["COMPRESSED", "filled_node"]

START_MS = 1_700_000_000_000
#: The setting that Kafka's own tests use to get small segments.
SMALL = {"internal.segment.bytes": "20000", "retention.ms": "-1", "index.interval.bytes": "1000"}
COMPRESSED = {compression: f"of-{compression.name.lower()}" for compression in Compression}

SETTINGS = {
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "share.coordinator.state.topic.num.partitions": "1",
    # By default, Kafka rewrites a share group's state after five minutes and deletes the old state; in a long run, that
    # could happen between two tests.
    "share.coordinator.cold.partition.snapshot.interval.ms": "86400000",
    "share.coordinator.state.topic.prune.interval.ms": "86400000",
    # Kafka writes a small metadata snapshot after one second.
    "metadata.log.max.snapshot.interval.ms": "1000",
    "metadata.log.max.record.bytes.between.snapshots": "100",
}


@contextmanager
def filled_node() -> Iterator[ApacheKafka]:
    """Start a node and make it write every kind of file."""
    with ApacheKafka(settings=SETTINGS) as node:
        asyncio.run(_fill(node.bootstrap))
        groups = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
        run(node, groups, "--delete", "--group", "classic-group")
        _share(node)
        metadata = node.data_dir / "__cluster_metadata-0"
        until(lambda: any(path.stem > "0" * 20 + "-9" for path in metadata.glob("*.checkpoint")), "no snapshot")
        yield node


async def _fill(bootstrap: str) -> None:
    stamped = NewTopic("stamped", 1, 1, configs={**SMALL, "message.timestamp.type": "LogAppendTime"})
    names = [*COMPRESSED.values(), "moved"]
    await create(bootstrap, stamped, *(NewTopic(name, 1, 1, configs=SMALL) for name in names))
    for compression, topic in COMPRESSED.items():
        async with Producer(bootstrap, compression=compression, batch_size=4000) as producer:
            for number in range(300):
                headers = (("one", b"1"), ("two", None)) if number % 3 == 0 else ()
                value = None if number % 7 == 0 else f"value {number} ".encode() * (number % 20)
                key = None if number % 5 == 0 else b"key-%d" % number
                producer.send(topic, value, key=key, headers=headers, timestamp_ms=START_MS + number)
    async with Producer(bootstrap) as producer:
        await producer.send_many("stamped", [b"a", b"b", b"c"])
    async with Producer(bootstrap, transactional_id="mover") as producer:
        for number in range(40):
            await producer.begin_transaction()
            await producer.send("moved", b"x" * 1000)
            await (producer.commit_transaction() if number % 2 else producer.abort_transaction())
    await await_markers(bootstrap, "moved")
    for protocol in ("classic", "consumer"):
        group = f"{protocol}-group"
        async with Consumer(
            bootstrap, "stamped", group_id=group, group_protocol=protocol, auto_offset_reset="earliest"
        ) as consumer:
            await anext(aiter(consumer))
            await consumer.commit()


def _share(node: ApacheKafka) -> None:
    """Read a topic in a share group with Kafka's own consumer."""
    change = ["--alter", "--entity-type", "groups", "--entity-name", "sharers"]
    run(node, "kafka.admin.ConfigCommand", *change, "--add-config", "share.auto.offset.reset=earliest")
    reader = "org.apache.kafka.tools.consumer.ConsoleShareConsumer"
    limits = ["--max-messages", "3", "--timeout-ms", "30000"]
    assert run(node, reader, "--topic", "stamped", "--group", "sharers", *limits).split() == ["a", "b", "c"]
