"""Old segments are removed, and records deleted on request, as on Apache Kafka, with the same responses and log starts.

Method: send the same requests to both, which check their logs several times a second; every batch has its own segment.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from kafkawire import NewTopic, Producer
from kafkawire.sdk.protocol.messages.delete_records import DeleteRecordsRequest
from kafkawire.sdk.protocol.messages.fetch import FetchRequest
from kafkawire.sdk.protocol.messages.list_offsets import ListOffsetsRequest
from kafkawire.sdk.protocol.tables.enums import OffsetTimestamp
from kafkawire.testing import Broker
from tests.kafka import topics
from tests.kafka.apache import ApacheKafka
from tests.kafka.cleaning import until
from tests.kafka.line import Line

SETTINGS: dict[str, Any] = {"log.retention.check.interval.ms": "200", "log.initial.task.delay.ms": "100"}
START_MS = 1_700_000_000_000
BATCHES = 8
SEGMENTED = {"segment.ms": "1", "retention.ms": "-1"}

TOPICS = {
    "plain": SEGMENTED,
    "compacted": {**SEGMENTED, "cleanup.policy": "compact"},
    "both": {**SEGMENTED, "cleanup.policy": "compact,delete"},
    "old": {"segment.ms": "1"},
    "large": {**SEGMENTED, "retention.bytes": "1000"},
    "larger": {**SEGMENTED, "retention.bytes": "0"},
}


@pytest.fixture(scope="module")
def addresses() -> Iterator[list[str]]:
    """The addresses of Apache Kafka and of the reference broker."""
    with ApacheKafka(settings=SETTINGS) as kafka, Broker(**SETTINGS) as broker:
        found = [kafka.bootstrap, broker.bootstrap]
        for bootstrap in found:
            asyncio.run(fill(bootstrap))
        yield found


async def fill(bootstrap: str) -> None:
    """Create the topics, and write batches of one 100-byte record each, two milliseconds apart."""
    await topics.create(bootstrap, *(NewTopic(name, 1, 1, configs=configs) for name, configs in TOPICS.items()))
    async with Producer(bootstrap) as producer:
        for name in TOPICS:
            for number in range(BATCHES):
                at_ms = START_MS + 2 * number
                await producer.send(name, b"v" * 100, key=b"%d" % number, partition=0, timestamp_ms=at_ms)


def ask(bootstrap: str, message: Any, version: int) -> Any:
    host, port = bootstrap.rsplit(":", 1)
    line = Line((host, int(port)))
    try:
        line.send(message, version)
        return line.receive()
    finally:
        line.frames.close()


def delete(bootstrap: str, topic: str, offset: int, partition: int = 0) -> list[tuple[int, int, int]]:
    wanted = DeleteRecordsRequest.DeleteRecordsPartition(partition, offset)
    request = DeleteRecordsRequest([DeleteRecordsRequest.DeleteRecordsTopic(topic, [wanted])], 10_000)
    found = ask(bootstrap, request, 2).topics[0].partitions
    return [(entry.partition_index, entry.low_watermark, entry.error_code) for entry in found]


def offset_at(bootstrap: str, topic: str, timestamp: int) -> tuple[int, int, int, int]:
    partition = ListOffsetsRequest.ListOffsetsPartition(0, timestamp=timestamp)
    request = ListOffsetsRequest(-1, 0, [ListOffsetsRequest.ListOffsetsTopic(topic, [partition])])
    found = ask(bootstrap, request, 8).topics[0].partitions[0]
    return found.error_code, found.offset, found.timestamp, found.leader_epoch


def fetch_at(bootstrap: str, topic: str, offset: int) -> tuple[int, int, int]:
    partition = FetchRequest.FetchPartition(0, fetch_offset=offset, partition_max_bytes=2**20)
    request = FetchRequest(topics=[FetchRequest.FetchTopic(topic, partitions=[partition])], max_bytes=2**20)
    found = ask(bootstrap, request, 12).responses[0].partitions[0]
    return found.error_code, found.high_watermark, found.log_start_offset


def test_deleted_records(addresses: list[str]) -> None:
    offsets = (0, 3, 1, 9, -2, 8, -1, -1)
    said = [
        [
            (
                delete(bootstrap, topic, offset),
                offset_at(bootstrap, topic, OffsetTimestamp.EARLIEST),
                offset_at(bootstrap, topic, OffsetTimestamp.EARLIEST_LOCAL),
                offset_at(bootstrap, topic, OffsetTimestamp.LATEST),
                [fetch_at(bootstrap, topic, at) for at in (0, 2, 3, 8)],
            )
            for topic in ("plain", "compacted", "both")
            for offset in offsets
        ]
        for bootstrap in addresses
    ]
    assert said[0] == said[1]


def test_what_cannot_be_deleted(addresses: list[str]) -> None:
    said = [
        [delete(bootstrap, "nowhere", 0), delete(bootstrap, "plain", 0, 1), delete(bootstrap, "plain", 0, -1)]
        for bootstrap in addresses
    ]
    assert said[0] == said[1]


@pytest.mark.parametrize("topic", ["old", "large", "larger"])
def test_old_segments(addresses: list[str], topic: str) -> None:
    """The expected value is Apache Kafka's log start after it has moved."""
    kafka, broker = addresses

    def start_of(bootstrap: str) -> tuple[int, int, int, int]:
        return offset_at(bootstrap, topic, OffsetTimestamp.EARLIEST)

    goal = BATCHES - 1000 // 175 - 1 if topic == "large" else BATCHES
    until(lambda: start_of(kafka)[1] >= min(goal, 2), "Apache Kafka removes nothing")
    until(lambda: start_of(broker) == start_of(kafka), f"{start_of(broker)}, expected {start_of(kafka)}")
    for timestamp in (OffsetTimestamp.LATEST, OffsetTimestamp.MAX_TIMESTAMP, START_MS, START_MS + 13):
        assert offset_at(broker, topic, timestamp) == offset_at(kafka, topic, timestamp)
    assert [fetch_at(broker, topic, at) for at in range(9)] == [fetch_at(kafka, topic, at) for at in range(9)]
