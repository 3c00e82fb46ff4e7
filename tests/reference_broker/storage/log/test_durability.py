"""A request that waits until a log's files are durable or unused is answered in time, and no write follows the answer.

Method: use an in-memory disk, and background work that the test holds back or runs in any order.
"""

import dataclasses
from itertools import count

import pytest

from kafkawire.reference_broker.config.topic_configs import log_config
from kafkawire.reference_broker.metadata.topic_store import open_alone
from kafkawire.reference_broker.storage.batches import parse_header
from kafkawire.reference_broker.storage.disk.disk import read_file, write_file
from kafkawire.reference_broker.storage.disk.memory import MemoryDisk, fail_at
from kafkawire.reference_broker.storage.log.file_work import when_all_quiet
from kafkawire.reference_broker.storage.log.partition_log import PartitionLog
from kafkawire.reference_broker.storage.producers.producer_snapshots import decode_snapshot
from kafkawire.reference_broker.storage.segments.search_preparation import NotPrepared
from kafkawire.reference_broker.storage.services import LogServices
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.storage.partition_metadata import partition_metadata_content
from tests.reference_broker.storage.held_work import HeldWork, ShuffledWork
from tests.reference_broker.storage.produced_batches import NOW_MS, produced, records_in
from tests.thorough import sampled

#: A configuration that rolls after every second batch.
CONFIG = dataclasses.replace(log_config({}), segment_bytes=2 * len(produced(b"v")))

GONE = BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "gone")


def opened(work, disk=None, **arguments):
    disk = disk or MemoryDisk()
    disk.make_folder("t-0")
    return PartitionLog(LogServices(disk, work), "t-0", CONFIG, **arguments)


def append(log, value=b"v"):
    data = produced(value)
    log.append(data, parse_header(data), NOW_MS, lambda result: None)


def test_store_waits_for_the_sync_in_flight_and_stores_nothing_twice():
    work, told = HeldWork(), []
    log = opened(work)
    for _ in range(3):
        append(log)
    work.run(1)
    assert len(work.pending) == 1, "one sync is pending"
    log.store([log.segments.first], lambda: told.append("stored"))
    assert told == []
    work.run()
    assert told == ["stored"]
    assert len(read_file(log._services.disk, "t-0/00000000000000000000.timeindex") or b"") == 12
    log.store([log.segments.first], lambda: told.append("again"))
    assert (told, work.pending) == (["stored", "again"], work.pending)
    assert not work.pending


def test_store_begins_a_sync_of_segments_that_nobody_has_asked_for():
    disk, before = MemoryDisk(), HeldWork()
    log = opened(before, disk)
    for _ in range(3):
        append(log)
    before.run(1)
    work, told = HeldWork(), []
    log = opened(work, disk.crash())
    first = log.segments.first
    if first.is_sealed:
        first.is_stored = False  # as if an index were damaged
    log.store([first], lambda: told.append("stored"))
    work.run()
    assert (told, first.is_stored) == (["stored"], True)


@pytest.mark.parametrize("ends_by", ["failure", "deletion"])
def test_store_ends_with_the_log(ends_by):
    disk, work, told = MemoryDisk(), HeldWork(), []
    log = opened(work, disk)
    for _ in range(3):
        append(log)
    work.run(1)
    log.store([log.segments.first], lambda: told.append(log.error and log.error.code))
    if ends_by == "failure":
        disk.plan = fail_at(disk.calls + 1)
        work.run()
        assert told == [ErrorCode.KAFKA_STORAGE_ERROR]
    else:
        log.end(GONE)
        assert told == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    log.store([log.segments.first], lambda: told.append("at once"))
    assert told[1:] == ["at once"]


def test_log_is_quiet_after_roll_and_sync():
    work, told = HeldWork(), []
    log = opened(work)
    log.when_quiet(lambda: told.append("at once"))
    for _ in range(3):
        append(log)
    log.sync()
    log.end(GONE)
    assert len(work.pending) == 2, "the work consists of a roll and a sync"
    log.when_quiet(lambda: told.append("quiet"))
    when_all_quiet([log, opened(HeldWork())], lambda: told.append("all quiet"))
    work.run(1)
    assert told == ["at once"]
    work.run(1)
    assert told == ["at once", "quiet", "all quiet"]
    assert not work.pending
    when_all_quiet([], lambda: told.append("none"))
    assert told[-1] == "none"


def store_on(work, disk=None):
    numbers = count(1)
    configs = {"segment.index.bytes": "24", "index.interval.bytes": "0"}
    services = LogServices(disk or MemoryDisk(), work)
    return open_alone(services, 1, lambda: next(numbers).to_bytes(16, "big"), configs)


def test_files_of_a_deleted_topic_go_after_what_is_in_flight():
    work = HeldWork()
    store = store_on(work)
    store.create("t", 1, {}, lambda topic: None)
    work.run()
    (log,) = store.directory.of("t").values()
    append(log)
    append(log)
    log.sync()
    append(log)
    assert len(work.pending) == 2, "the work consists of a sync and a roll"
    in_flight = [work.pending.popleft(), work.pending.popleft()]
    store.delete(store.topics["t"], lambda error: None)
    store.create("t", 1, {}, lambda topic: None)
    work.run()
    assert "t" not in store.topics
    for do, done in in_flight:
        do()
        done(None)
    work.run()
    names = set(store.directory.services.disk.names("t-0"))
    assert names == {"00000000000000000000.log", "partition.metadata", "leader-epoch-checkpoint"}


@pytest.mark.parametrize("seed", sampled(range(10), 5))
def test_name_that_is_used_a_hundred_times(seed):
    """Syncs, rolls, deletions and creations interleave in every order; each topic has its own files and no others."""
    disk, work = MemoryDisk(), ShuffledWork(seed)
    store = store_on(work, disk)
    for number in range(100):
        made = []
        store.create("t", 2, {}, made.append)
        while not made:
            work.step()
        (topic,) = made
        assert store.topics["t"] is topic
        for log in store.directory.of(topic.name).values():
            folder = log.folder
            assert set(disk.names(folder)) == {
                "00000000000000000000.log",
                "partition.metadata",
                "leader-epoch-checkpoint",
            }
            metadata = partition_metadata_content(topic.topic_id)
            assert read_file(disk, f"{folder}/partition.metadata") == metadata
        for value in range(number % 7):
            for log in store.directory.of(topic.name).values():
                append(log, b"%d" % value)
            work.run(number % 3)
        for log in store.directory.of(topic.name).values():
            if number % 5 == 0:
                log.sync()
        store.directory.checkpoint()
        store.delete(topic, lambda error: None)
        work.run(number % 4)
    work.run()
    assert not [name for name in disk.names("") if name.startswith("t-") or name.endswith(("-delete", "-stray"))]
    store.create("t", 2, {}, lambda topic: None)
    work.run()
    log = store.directory.of("t")[1]
    append(log, b"last")
    assert [bytes(value or b"") for _, value in records_in(log)] == [b"last"]


@pytest.mark.parametrize("seed", range(8))
def test_snapshot_is_durable_with_the_segment_before_it(seed):
    """Once retention has removed the segment, no other file has the state of its producers."""
    disk, work = MemoryDisk(), HeldWork()
    log = opened(work, disk)
    disk.sync_folder("")
    for number in range(2):
        data = produced(b"v", producer_id=7, producer_epoch=0, base_sequence=number)
        log.append(data, parse_header(data), NOW_MS, lambda result: None)
    append(log)
    work.run()
    assert log.recovery_point == 2
    after = disk.crash(seed)
    (name,) = [name for name in after.names("t-0") if name.endswith(".snapshot")]
    (known,) = decode_snapshot(read_file(after, f"t-0/{name}") or b"")
    assert (int(name[:20]), known.producer_id, known.last_sequence) == (2, 7, 1)


@pytest.mark.parametrize("seed", range(8))
def test_snapshot_that_a_power_cut_took_is_written_again_at_once(seed):
    """Retention may remove the segment before the next roll."""
    disk, work = MemoryDisk(), HeldWork()
    log = opened(work, disk)
    for number in range(2):
        data = produced(b"v", producer_id=7, producer_epoch=0, base_sequence=number)
        log.append(data, parse_header(data), NOW_MS, lambda result: None)
    append(log)
    work.run()
    write_file(disk, "t-0/00000000000000000002.snapshot", b"what the power cut left of it")
    disk = disk.crash()
    disk.sync_folder("")
    opened(work, disk, is_clean=False)
    disk = disk.crash(seed)
    disk.remove("t-0/00000000000000000000.log")
    known = opened(work, disk, is_clean=False, log_start_offset=2).producers.get(7)
    assert known is not None
    assert known.last_sequence == 1


@pytest.mark.parametrize("is_rolled", [False, True])
def test_log_that_nobody_has_used_writes_nothing_when_it_is_closed(is_rolled):
    disk, work, calls = MemoryDisk(), HeldWork(), []
    log = opened(work, disk)
    append(log)
    if is_rolled:
        log.roll(lambda: None)
    work.run()
    log.close()
    log = opened(work, disk, recovery_point=1)
    disk.plan = lambda call: calls.append(call.name)
    log.close()
    assert not {"append", "truncate", "rename", "remove", "sync", "sync_folder"}.intersection(calls)


def test_store_waits_for_an_index_that_is_rebuilt_meanwhile():
    disk, work = MemoryDisk(), HeldWork()
    log = opened(work, disk)
    for _ in range(5):
        append(log)
        work.run()
    disk.remove("t-0/00000000000000000000.index")
    held, told = HeldWork(), []
    log = opened(held, disk.crash(), recovery_point=5)
    log.roll(lambda: None)
    held.run(1)
    assert len(held.pending) == 1, "one sync is pending"
    log.store(log.segments.first_of(3), lambda: told.append("stored"))
    with pytest.raises(NotPrepared):
        log.read(0, 1, at_least_one=True)
    held.pending.rotate()
    held.run(1)
    assert log.read(0, 1, at_least_one=True).is_first_whole
    assert not log.segments.first.is_stored, "the index was rebuilt"
    held.run()
    assert told == ["stored"]
