"""Compaction leaves the same files as Apache Kafka's log cleaner, byte for byte unless they hold compressed batches.

Method: write records, tombstones and transactions to Apache Kafka while its cleaner is held back, and copy its
segments; then let Kafka clean them, let the reference broker's log clean the copies as of the same time, and compare.
There are two rounds, because tombstones and markers are removed in the second.
"""

from __future__ import annotations

import asyncio
import dataclasses
import random
import shutil
from pathlib import Path

import pytest

from kafkawire import Admin, NewTopic, Producer
from kafkawire.reference_broker.config.topic_configs import log_config
from kafkawire.reference_broker.storage.disk.machine import MachineDisk
from kafkawire.reference_broker.storage.log.partition_log import PartitionLog
from kafkawire.reference_broker.storage.services import LogServices
from kafkawire.sdk.records import Compression
from kafkawire.sdk.records.engine import RecordBatch
from tests.kafka.apache import ApacheKafka, run_tool
from tests.kafka.cleaning import alter, cleaned_to, until
from tests.reference_broker.storage.compacting import batches_of, compact

#: Each run of a tool starts a JVM, and some tests need a dozen.
pytestmark = pytest.mark.timeout(400)

SEGMENT_BYTES = 3000
CONFIGS = {"cleanup.policy": "compact", "delete.retention.ms": "1000", "retention.ms": "-1"}
#: The internal setting that Kafka's own tests use to get small segments.
SMALL = {"internal.segment.bytes": str(SEGMENT_BYTES)}
HELD = {"min.cleanable.dirty.ratio": "1"}
EAGER = {"min.cleanable.dirty.ratio": "0"}
SETTINGS = {"log.cleaner.backoff.ms": "300", "log.cleaner.threads": "1", "file.delete.delay.ms": "1000"}
RETENTION_MS = 1000
START_MS = 1_700_000_000_000


@pytest.fixture(scope="module")
def node():
    with ApacheKafka(settings=SETTINGS) as node:
        yield node


def bases_in(folder: Path) -> list[int]:
    return sorted(int(path.stem) for path in folder.glob("*.log"))


async def write(node: ApacheKafka, topic: str, seed: int, first_ms: int, compression: str) -> None:
    """Write random records with a few keys (plain, idempotent and in transactions), in segments of a few batches."""
    chance = random.Random(seed)
    codec = Compression[compression.upper()]
    name = f"{topic}-{seed}"
    async with (
        Producer(node.bootstrap, compression=codec) as plain,
        Producer(node.bootstrap, compression=codec, transactional_id=f"{name}-a") as first,
        Producer(node.bootstrap, compression=codec, transactional_id=f"{name}-b") as second,
    ):
        now_ms = first_ms
        for number in range(60):
            producer = chance.choice((plain, first, second))
            if producer is not plain:
                await producer.begin_transaction()
            for _ in range(chance.choice((1, 1, 2))):
                now_ms += chance.choice((1, 100, 400))
                sent = []
                for index in range(chance.randint(1, 4)):
                    key = b"key %d" % chance.randrange(40)
                    value = None if chance.random() < 0.2 else b"%d.%d " % (number, index) * chance.randint(1, 20)
                    sent.append(
                        producer.send(
                            topic, value, key=key, partition=0, timestamp_ms=now_ms, headers=[("n", b"%d" % number)]
                        )
                    )
                for delivery in sent:
                    await delivery
            if producer is not plain:
                if chance.random() < 0.5:
                    await producer.commit_transaction()
                else:
                    await producer.abort_transaction()


def copied(node: ApacheKafka, topic: str, to: Path) -> Path:
    """Once all transactions have ended, copy the segments of a partition, except those being removed."""
    folder = to / f"{topic}-0"

    def has_ended() -> bool:
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(node.data_dir / folder.name, folder, ignore=shutil.ignore_patterns("*.deleted"))
        shutil.rmtree(to / "look", ignore_errors=True)
        log = opened_copy(folder, to / "look")
        return log.last_stable_offset == log.next_offset

    until(has_ended, "a transaction has not ended")
    return folder


def opened(folder: Path) -> PartitionLog:
    services = LogServices(MachineDisk(folder.parent))
    config = dataclasses.replace(log_config(CONFIGS), segment_bytes=SEGMENT_BYTES)
    return PartitionLog(services, folder.name, config, is_clean=False, recovery_point=bases_in(folder)[-1])


def cleaning_time(before: list[RecordBatch], after: list[RecordBatch]) -> int:
    """Return the time at which Kafka cleaned, derived from the delete horizons that it set."""
    known = {batch.base_offset: batch.delete_horizon_ms for batch in before}
    found = {batch.delete_horizon_ms for batch in after if batch.delete_horizon_ms != known[batch.base_offset]}
    (horizon_ms,) = found - {None}
    assert horizon_ms is not None
    return horizon_ms - RETENTION_MS


@pytest.mark.parametrize("compression", ["none", "gzip", "lz4", "zstd", "snappy"])
def test_compacted_files_are_equal(node: ApacheKafka, tmp_path: Path, compression: str) -> None:
    topic = f"compacted-{compression}"

    async def create() -> None:
        async with Admin(node.bootstrap) as admin:
            await admin.create_topics(NewTopic(topic, 1, 1, configs=CONFIGS | SMALL | HELD))

    asyncio.run(create())
    clean_to = 0
    for seed in (1, 2):
        asyncio.run(write(node, topic, seed, START_MS + seed * 100_000, compression))
        dirty = copied(node, topic, tmp_path / f"dirty-{seed}")
        active = bases_in(dirty)[-1]
        assert len(bases_in(dirty)) > 5
        alter(node, topic, EAGER)
        until(lambda end=active: cleaned_to(node, topic) >= end, "Apache Kafka has not cleaned")
        alter(node, topic, HELD)
        theirs = copied(node, topic, tmp_path / f"theirs-{seed}")
        log = opened(dirty)
        now_ms = cleaning_time(batches_of(log), batches_of(opened_copy(theirs, tmp_path / f"look-{seed}")))
        compacted = compact(log, LogServices(MachineDisk(dirty.parent)), cleaned_to=clean_to, now_ms=now_ms)
        assert compacted.end_offset == cleaned_to(node, topic)
        assert bases_in(dirty) == bases_in(theirs)
        if compression == "none":
            for base in bases_in(theirs)[:-1]:
                for suffix in (".log", ".txnindex", ".index", ".timeindex"):
                    name = f"{base:020}{suffix}"
                    assert content_of(dirty / name) == content_of(theirs / name), name
        # Two compressors produce different bytes for the same records.
        assert said_by(dirty, tmp_path / f"ours-{seed}") == said_by(theirs, tmp_path / f"said-{seed}")
        clean_to = compacted.end_offset
    logs = ",".join(map(str, sorted(dirty.glob("*.log"))))
    result = run_tool("org.apache.kafka.tools.DumpLogSegments", "--deep-iteration", "--files", logs)
    assert result.returncode == 0
    assert "isvalid: false" not in result.stdout


def opened_copy(folder: Path, to: Path) -> PartitionLog:
    shutil.copytree(folder, to / folder.name)
    return opened(to / folder.name)


def said_by(folder: Path, to: Path) -> list[object]:
    """Return a description of a partition's batches, without their sizes and checksums."""
    log = opened_copy(folder, to)
    aborted = [entry for segment in log.segments for entry in segment.transactions]
    said: list[object] = [tuple(aborted)]
    said += [
        (
            batch.base_offset,
            batch.last_offset_delta,
            batch.attributes,
            batch.base_timestamp,
            batch.max_timestamp,
            batch.producer_id,
            batch.producer_epoch,
            batch.base_sequence,
            batch.partition_leader_epoch,
            [(r.offset, r.timestamp_ms, r.key, r.value, r.headers) for r in batch.records()],
        )
        for batch in batches_of(log)
    ]
    return said


def content_of(path: Path) -> bytes:
    """Return the content of a file; empty if it does not exist."""
    return path.read_bytes() if path.exists() else b""
