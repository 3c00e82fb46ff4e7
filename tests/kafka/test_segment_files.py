"""Kafka's own tool reads the reference broker's files, and `walk` reads Apache Kafka's.

Method: store records with every codec, with and without keys, values and headers, in several batches and segments.
DumpLogSegments reads the files of the reference broker, and its output is compared record by record; topics that Apache
Kafka compresses itself are read directly from its data folder. The same batches must result in the same files on both.
"""

from __future__ import annotations

import asyncio
import random
import re
from collections.abc import Awaitable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from kafkawire import Admin, Consumer, NewTopic, OffsetAndMetadata, Producer, TopicPartition
from kafkawire.sdk.records import Compression, RecordBatch, walk
from kafkawire.testing import Broker
from tests.kafka.apache import ApacheKafka
from tests.kafka.dumping import dump

TIMEOUT_SECONDS = 60

#: The smallest size that Kafka allows.
SEGMENT_BYTES = 1024 * 1024
BATCH_BYTES = 32 * 1024

START_MS = 1_700_000_000_000


class Given(NamedTuple):
    """A record to produce."""

    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()


ODD = [
    Given(None, b"no key"),
    Given(b"", b""),
    Given(b"tombstone", None),
    Given(b"headers", b"two of one name", (("name", b"1"), ("name", None), ("\u00e9", b""))),
    Given("\u043a\u043b\u044e\u0447".encode(), "\u20ac and \U0001f600".encode()),
]


def given(count: int) -> list[Given]:
    """Return odd records, then `count` plain ones of 2,000 characters that compress to half their size at best."""
    chance = random.Random(count)
    plain = [Given(b"key-%d" % number, chance.randbytes(1000).hex().encode()) for number in range(count)]
    return ODD + plain


async def produce(bootstrap: str, topic: str, records: list[Given], compression: str) -> None:
    """Store records in partition 0, one millisecond apart, and wait until they are stored."""
    async with Producer(bootstrap, compression=Compression[compression.upper()], batch_size=BATCH_BYTES) as producer:
        for number, record in enumerate(records):
            key, value, headers = record
            producer.send(topic, value, key=key, headers=headers, partition=0, timestamp_ms=START_MS + number)


async def create(bootstrap: str, topic: str, **configs: str) -> None:
    """Create a topic of one partition that accepts old timestamps."""
    settings = {name.replace("_", "."): value for name, value in configs.items()} | {"retention.ms": "-1"}
    async with Admin(bootstrap) as admin:
        await admin.create_topics(NewTopic(topic, 1, 1, configs=settings))


def finish(work: Awaitable[None]) -> None:
    """Run a coroutine within the time limit."""

    async def limited() -> None:
        await asyncio.wait_for(work, TIMEOUT_SECONDS)

    asyncio.run(limited())


class Written(NamedTuple):
    """The records that the broker received, and the folder of their partition."""

    records: list[tuple[str, Given]]
    folder: Path


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Written:
    """A partition of the reference broker after a clean shutdown."""
    data_dir = tmp_path_factory.mktemp("broker")
    records = given(400)
    codecs = [codec.name.lower() for codec in Compression]

    async def fill(bootstrap: str) -> None:
        await create(bootstrap, "segments", segment_bytes=str(SEGMENT_BYTES))
        for codec in codecs:
            await produce(bootstrap, "segments", records, codec)

    with Broker(data_dir) as broker:
        finish(fill(broker.bootstrap))
    return Written([(codec, record) for codec in codecs for record in records], data_dir / "segments-0")


def test_kafka_reads_the_segments_of_the_broker(written: Written) -> None:
    logs = sorted(written.folder.glob("*.log"))
    assert len(logs) > 2, "no segment was rolled"
    text = dump("--deep-iteration", "--print-data-log", files=logs)
    codec = ""
    batches = 0
    found: list[tuple[str, int, int, str]] = []
    for line in text.splitlines():
        if batch := re.match(r"baseOffset: .* magic: 2 compresscodec: (\w+) crc: \d+ isvalid: true$", line):
            codec = batch[1]
            batches += 1
        elif record := re.match(r"\| offset: (\d+) CreateTime: (\d+) keySize: .* (headerKeys: .*)$", line):
            found.append((codec, int(record[1]), int(record[2]), record[3]))
        else:
            assert re.match(r"Dumping |Log starting offset: ", line), line
    expected = [
        (codec, offset, START_MS + offset % (len(written.records) // len(Compression)), printed(record))
        for offset, (codec, record) in enumerate(written.records)
    ]
    assert found == expected
    assert batches > 2 * len(logs)


def printed(record: Given) -> str:
    """Return the names of headers, the key and the value as DumpLogSegments prints them."""
    text = f"headerKeys: [{','.join(name for name, _ in record.headers)}]"
    if record.key is not None:
        text += f" key: {record.key.decode()}"
    if record.value is not None:
        text += f" payload: {record.value.decode()}"
    return text


def test_kafka_finds_every_index_entry_right(written: Written) -> None:
    indexes = sorted([*written.folder.glob("*.index"), *written.folder.glob("*.timeindex")])
    text = dump(files=indexes)
    assert re.findall(r".*(?:[Mm]ismatch|error|empty|larger|out of order).*", text) == []
    assert len(re.findall(r"^offset: \d+ position: \d+$", text, re.MULTILINE)) > 2 * len(indexes)
    assert len(re.findall(r"^timestamp: \d+ offset: \d+$", text, re.MULTILINE)) >= len(indexes) // 2
    checked = dump("--index-sanity-check", files=indexes)
    assert checked.count("passed sanity check.") == len(indexes)


def test_kafka_reads_the_offsets_that_the_broker_keeps(tmp_path: Path) -> None:
    async def commit(bootstrap: str) -> None:
        await create(bootstrap, "committed")
        async with Consumer(bootstrap, group_id="dumped") as consumer:
            await consumer.commit({TopicPartition("committed", 0): OffsetAndMetadata(7, "a note")})

    with Broker(tmp_path) as broker:
        finish(commit(broker.bootstrap))
    text = dump("--offsets-decoder", files=sorted(tmp_path.glob("__consumer_offsets-*/*.log")))
    assert 'key: {"type":"1","data":{"group":"dumped","topic":"committed","partition":0}}' in text
    assert '"data":{"offset":7,"leaderEpoch":-1,"metadata":"a note"' in text


def test_same_batches_make_same_files(kafka: ApacheKafka, tmp_path: Path) -> None:
    async def fill(bootstrap: str) -> None:
        await create(bootstrap, "alike", segment_bytes=str(SEGMENT_BYTES))
        # With idempotence, the batches' producer ids would differ.
        options: dict[str, Any] = {"batch_size": BATCH_BYTES, "linger_ms": 10_000, "enable_idempotence": False}
        async with Producer(bootstrap, **options) as producer:
            for batch in range(80):
                for number in range(batch % 5 + 1):
                    # Timestamps go backwards in every fourth batch, and the time index omits that batch.
                    timestamp_ms = START_MS + (batch - 6 * (batch % 4 == 3)) * 1000 + number
                    value = b"%d" % batch * (5000 * (batch % 3))
                    producer.send("alike", value, key=b"key", partition=0, timestamp_ms=timestamp_ms)
                await producer.flush()

    with Broker(tmp_path) as broker:
        finish(fill(broker.bootstrap))
    finish(fill(kafka.bootstrap))
    ours, theirs = tmp_path / "alike-0", kafka.data_dir / "alike-0"
    names = sorted(path.name for suffix in ("log", "index", "timeindex") for path in theirs.glob(f"*.{suffix}"))
    assert len(names) > 6, "no segment was rolled"
    assert names == sorted(path.name for suffix in ("log", "index", "timeindex") for path in ours.glob(f"*.{suffix}"))
    active = max(names).partition(".")[0]
    for name in names:
        expected, found = (theirs / name).read_bytes(), (ours / name).read_bytes()
        if name.startswith(active) and name.endswith("index"):
            # Kafka preallocates room after the entries, and writes the time index's last entry when it rolls or stops.
            expected = expected.rstrip(b"\0")
            assert found[: len(expected)] == expected, name
        else:
            assert found == expected, name


@pytest.mark.parametrize("codec", ["uncompressed", "gzip", "snappy", "lz4", "zstd"])
def test_segments_of_kafka_are_read(kafka: ApacheKafka, codec: str) -> None:
    topic = f"segments-{codec}"
    records = given(200)

    async def fill() -> None:
        # The broker recompresses with its own codecs, into its own batches.
        await create(kafka.bootstrap, topic, compression_type=codec)
        await produce(kafka.bootstrap, topic, records, "gzip" if codec == "uncompressed" else "none")

    finish(fill())
    (log,) = (kafka.data_dir / f"{topic}-0").glob("*.log")
    batches = list(walk(log.read_bytes()))
    assert len(batches) > 2
    assert {type(batch) for batch in batches} == {RecordBatch}
    compression = Compression.NONE if codec == "uncompressed" else Compression[codec.upper()]
    assert {batch.compression for batch in batches} == {compression}
    found = [record for batch in batches for record in batch.records()]
    assert [(record.offset, record.timestamp_ms) for record in found] == [
        (number, START_MS + number) for number in range(len(records))
    ]
    assert [Given(record.key, record.value, record.headers) for record in found] == records
