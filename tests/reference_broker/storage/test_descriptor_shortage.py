"""A process with too many open files refuses requests for a while, but loses nothing, and no log goes offline.

Method: use a log on an in-memory disk that runs out of file descriptors for a while, starting at each call that needs
one; afterwards, everything must work, and acknowledged records must survive a power cut. Also count this process's
descriptors.
"""

from __future__ import annotations

import dataclasses
import errno
import os
import resource
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from kafkawire.reference_broker.config.topic_configs import log_config
from kafkawire.reference_broker.network.descriptors import open_descriptors
from kafkawire.reference_broker.storage.batches import parse_header
from kafkawire.reference_broker.storage.disk.machine import MachineDisk
from kafkawire.reference_broker.storage.disk.memory import DiskCall, MemoryDisk
from kafkawire.reference_broker.storage.log.partition_log import PartitionLog
from kafkawire.reference_broker.storage.services import LogServices
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from tests.reference_broker.broker_bench import BrokerBench
from tests.reference_broker.storage.directories import append, create, on
from tests.reference_broker.storage.held_work import HeldWork
from tests.reference_broker.storage.produced_batches import NOW_MS, produced, records_in

BATCH_BYTES = len(produced(b"00", producer_id=7, producer_epoch=0, base_sequence=0))

#: A configuration that rolls after every second batch, and syncs each batch.
CONFIG = dataclasses.replace(log_config({}), segment_bytes=2 * BATCH_BYTES, flush_messages=1)

#: The calls that need a descriptor.
OPENING = ("open", "create", "names", "sync_folder")


class Shortage:
    """A plan for a disk: starting with one of the calls that need a descriptor, there are none until the shortage ends.

    Attributes:
        is_on: whether there is currently a shortage.
    """

    def __init__(self, first: int) -> None:
        self._left = first
        self._is_over = False

    def __call__(self, call: DiskCall) -> None:
        if call.name in OPENING and not self._is_over:
            self._left -= 1
            if self._left <= 0:
                raise OSError(errno.EMFILE, os.strerror(errno.EMFILE), call.path)

    @property
    def is_on(self) -> bool:
        return self._left <= 0 and not self._is_over

    def end(self) -> None:
        self._is_over = True


class Bench:
    """A log, and a producer that resends each record until it is acknowledged."""

    def __init__(self, disk: MemoryDisk) -> None:
        self.work = HeldWork()
        self.now_ms = NOW_MS
        self.services = LogServices(disk, self.work, clock=lambda: self.now_ms)
        disk.make_folder("t-0")
        disk.sync_folder("")
        self.log = PartitionLog(self.services, "t-0", CONFIG)
        self.sequence = 0

    def send(self) -> bool:
        """Send the next record; return whether it was eventually acknowledged."""
        data = produced(b"%02d" % self.sequence, producer_id=7, producer_epoch=0, base_sequence=self.sequence)
        results: list[object] = []
        self.log.append(data, parse_header(data), self.now_ms, results.append)
        self.work.run()
        (result,) = results
        if isinstance(result, BrokerError):
            assert (result.code, self.log.error) == (ErrorCode.KAFKA_STORAGE_ERROR, None)
            return False
        self.sequence += 1
        return self.log.high_watermark == self.sequence

    def wait(self) -> None:
        self.now_ms += 1_000
        self.services.timers.fire(self.now_ms)
        self.work.run()


@pytest.mark.parametrize("first", range(1, 15))
def test_log_goes_on_when_there_are_descriptors_again(first: int, caplog: pytest.LogCaptureFixture) -> None:
    disk = MemoryDisk()
    bench = Bench(disk)
    disk.plan = shortage = Shortage(first)
    while not shortage.is_on:
        bench.send()
    sent = [bench.send() for _ in range(5)]
    assert not all(sent)
    assert len(caplog.messages) == 1, "the line is not repeated"
    assert "too few file descriptors" in caplog.messages[0]
    bench.wait()
    shortage.end()
    bench.wait()
    acknowledged = bench.sequence
    assert bench.log.high_watermark == acknowledged, "everything that waited for a sync has been synced"
    for _ in range(4):
        assert bench.send()
    bench.wait()
    assert all(segment.is_stored for segment in bench.log.segments if segment.is_sealed), "indexes are durable as well"
    values = [b"%02d" % number for number in range(acknowledged + 4)]
    assert [value for _, value in records_in(bench.log)] == values
    for seed in range(3):
        after = PartitionLog(LogServices(disk.crash(seed)), "t-0", CONFIG, is_clean=False)
        assert [value for _, value in records_in(after)] == values


def test_empty_log_whose_file_is_not_open_yet() -> None:
    disk = MemoryDisk()
    Bench(disk)
    bench = Bench(disk)
    disk.plan = shortage = Shortage(1)
    assert not bench.send()
    shortage.end()
    assert bench.send()


def test_roll_without_an_append_gives_up_for_now() -> None:
    disk = MemoryDisk()
    bench = Bench(disk)
    assert bench.send()
    disk.plan = shortage = Shortage(1)
    told: list[int] = []
    bench.log.roll(lambda: told.append(len(bench.log.segments)))
    bench.work.run()
    shortage.end()
    bench.log.roll(lambda: told.append(len(bench.log.segments)))
    bench.work.run()
    assert told == [1, 2]


def test_topic_that_cannot_be_deleted_for_now_stays():
    disk = MemoryDisk()
    store = on(disk)
    topic = create(store, "t")
    results: list[BrokerError | None] = []
    disk.plan = shortage = Shortage(1)
    store.delete(topic, results.append)
    (refused,) = results
    assert refused is not None
    assert (refused.code, store.directory.of(topic.name)[0].error) == (ErrorCode.KAFKA_STORAGE_ERROR, None)
    shortage.end()
    store.delete(topic, results.append)
    assert results[1:] == [None]


def test_log_is_compacted_when_there_are_descriptors_again(caplog):
    disk = MemoryDisk()
    bench = BrokerBench(disk)
    rolling: Any = {"index_interval_bytes": "0", "segment_index_bytes": "24"}
    bench.create(cleanup_policy="compact", min_cleanable_dirty_ratio="0.1", **rolling)
    for number in range(12):
        bench.produce(produced(b"%d" % number, key=b"k"))
    log = bench.core.directory.log("t", 0)
    assert log is not None
    disk.plan = shortage = Shortage(1)
    bench.advance(15_000)
    assert [message for message in caplog.messages if "upkeep will be retried later" in message]
    assert (log.error, len(list(records_in(log)))) == (None, 12)
    shortage.end()
    bench.advance(15_000)
    assert len(list(records_in(log))) < 6


def test_files_are_open_only_while_they_are_needed(tmp_path):
    store = on(MachineDisk(tmp_path))
    before = open_descriptors() or 0
    topic = create(store, "t", 20)
    assert open_descriptors() == before, "nothing has been appended yet"
    for log in store.directory.of(topic.name).values():
        append(log, b"x")
    assert open_descriptors() == before + 20
    left: list[int] = []

    def each(works: Iterable[Callable[[], None]]) -> None:
        for work in works:
            work()
            left.append((open_descriptors() or 0) - before)

    store.directory.close(each)
    assert left == list(range(19, -1, -1)), "stopping needs descriptors, which it gets by closing the first logs"
    store = on(MachineDisk(tmp_path))
    assert open_descriptors() == before
    assert [len(list(records_in(log))) for log in store.directory.of("t").values()] == [1] * 20


def test_partition_can_be_made_although_no_file_may_stay_open(tmp_path, monkeypatch):
    store = on(MachineDisk(tmp_path))
    os.close(lowest := os.dup(0))
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    monkeypatch.setattr("resource.getrlimit", lambda which: (lowest, lowest))
    topic = create(store, "t")
    results: list[object] = []
    data = produced(b"x")
    store.directory.of(topic.name)[0].append(data, parse_header(data), NOW_MS, results.append)
    (refused,) = results
    assert isinstance(refused, BrokerError)
    assert (refused.code, store.directory.of(topic.name)[0].error) == (ErrorCode.KAFKA_STORAGE_ERROR, None)
    assert f"of {lowest} file descriptors are reserved for connections" in str(refused)
    monkeypatch.setattr("resource.getrlimit", lambda which: limits)
    append(store.directory.of(topic.name)[0], b"x")
    assert len(list(records_in(store.directory.of(topic.name)[0]))) == 1
