"""Old segments are removed from the log at once, from the folder later; a power cut at any time removes nothing else.

Method: use a directory on an in-memory disk with a log of many segments, and cut the power at every call of a removal.
"""

import dataclasses

import pytest

from kafkawire.reference_broker.metadata.topic_store import open_alone
from kafkawire.reference_broker.storage.batches import parse_header
from kafkawire.reference_broker.storage.cleaning.background_jobs import BackgroundJobs
from kafkawire.reference_broker.storage.cleaning.removal import remove_files, remove_old
from kafkawire.reference_broker.storage.disk.disk import read_file
from kafkawire.reference_broker.storage.disk.memory import MemoryDisk, PowerCut, cut_power_at, fail_at
from kafkawire.reference_broker.storage.services import LogServices
from kafkawire.sdk.errors import BrokerError
from tests.reference_broker.storage.held_work import HeldWork
from tests.reference_broker.storage.produced_batches import NOW_MS, produced, records_in

BATCHES = 20
BATCH_BYTES = len(produced(b"00"))


def store_on(disk, background=None):
    services = LogServices(disk) if background is None else LogServices(disk, background)
    return open_alone(services, 1, lambda: bytes(15) + b"\x01", {"retention.bytes": "0"})


def opened(disk, background=None):
    return store_on(disk, background).directory


def append(log, value):
    data = produced(value, producer_id=7, producer_epoch=0, base_sequence=log.next_offset)
    log.append(data, parse_header(data), NOW_MS, lambda result: None)


def filled(disk, start=0):
    """Return a directory that has a log of twenty batches in five segments."""
    store = store_on(disk)
    store.create("t", 1, {}, lambda topic: None)
    directory = store.directory
    (log,) = directory.of("t").values()
    log.config = dataclasses.replace(log.config, segment_bytes=4 * BATCH_BYTES)
    for segment in log.segments:
        segment._config = log.config
    for number in range(BATCHES):
        append(log, b"%02d" % number)
    log.begin_at(start)
    return directory, log


def remove(directory, log, failures=None):
    retired = []
    jobs = BackgroundJobs()
    failed = [].append if failures is None else failures.append
    jobs.add(remove_old(directory, log, retired.extend, NOW_MS), failed)
    return retired


def bases(disk, suffix=".log"):
    return [int(name[:20]) for name in disk.names("t-0") if name.endswith(suffix)]


def values(log):
    return [bytes(value) for _, value in records_in(log) if value is not None]


def test_first_segments_go():
    disk = MemoryDisk()
    directory, log = filled(disk)
    log.config = dataclasses.replace(log.config, retention_bytes=8 * BATCH_BYTES)
    before = bases(disk)
    retired = remove(directory, log)
    first = log.log_start_offset
    assert first == log.segments.first.base_offset == 12
    assert bases(disk) == [base for base in before if base >= first]
    assert bases(disk, ".log.deleted") == bases(disk, ".index.deleted") == [0, 4, 8]
    assert bases(disk, ".snapshot") == [12, 16]
    assert bases(disk, ".snapshot.deleted") == [4, 8]
    assert values(log) == [b"%02d" % number for number in range(12, 20)]
    assert read_file(disk, "log-start-offset-checkpoint") == b"0\n1\nt 0 12\n"
    assert read_file(disk, "t-0/leader-epoch-checkpoint") == b"0\n1\n0 12\n"
    with pytest.raises(BrokerError, match="OFFSET_OUT_OF_RANGE"):
        log.read(11, 100, at_least_one=True)
    remove_files(disk, retired)
    remove_files(disk, retired)
    assert not [name for name in disk.names("t-0") if name.endswith(".deleted")]


def test_nothing_to_remove_changes_nothing():
    disk = MemoryDisk()
    directory, log = filled(disk)
    log.config = dataclasses.replace(log.config, retention_bytes=-1)
    names = disk.names("t-0")
    assert remove(directory, log) == []
    assert disk.names("t-0") == names
    assert log.log_start_offset == 0


def test_last_segment_goes_after_a_roll():
    disk = MemoryDisk()
    directory, log = filled(disk)
    remove(directory, log)
    assert (log.log_start_offset, log.next_offset, len(log.segments), log.size_bytes) == (20, 20, 1, 0)
    assert bases(disk) == [20]
    append(log, b"more")
    assert values(log) == [b"more"]
    again = opened(disk.crash())
    (log,) = again.of("t").values()
    assert (log.log_start_offset, log.next_offset, values(log)) == (20, 21, [b"more"])
    producer = log.producers.get(7)
    assert producer is not None
    assert producer.last_sequence == 20, "producers outlive their records"


def test_records_that_come_while_old_ones_are_looked_for_stay():
    disk, work = MemoryDisk(), HeldWork()
    filled(disk)[0].close()
    directory = opened(disk, work)
    (log,) = directory.of("t").values()
    log.config = dataclasses.replace(log.config, retention_bytes=-1, retention_ms=1000)
    jobs = BackgroundJobs()
    jobs.add(remove_old(directory, log, lambda paths: None, NOW_MS + 10_000), [].append)
    look, done = work.pending.popleft()
    look()
    append(log, b"fresh")
    done(None)
    work.run()
    assert values(log)[-1] == b"fresh"
    assert log.log_start_offset == log.segments.last.base_offset == 16


def test_roll_waits_for_the_sync_and_meets_appends():
    disk, work = MemoryDisk(), HeldWork()
    filled(disk)[0].close()
    directory = opened(disk, work)
    (log,) = directory.of("t").values()
    retired = remove(directory, log)
    work.run(1)
    append(log, b"meanwhile")
    work.run()
    assert retired
    assert (log.log_start_offset, log.next_offset) == (20, 21)
    assert values(log) == [b"meanwhile"]


def test_segments_go_once_a_sync_has_stored_their_indexes():
    """If a sync came after the removal of the files, it would write an index without a segment."""
    disk, work = MemoryDisk(), HeldWork()
    filled(disk)[0].close()
    directory = opened(disk, work)
    (log,) = directory.of("t").values()
    log.config = dataclasses.replace(log.config, segment_bytes=4 * BATCH_BYTES)
    for segment in log.segments:
        segment._config = log.config
    append(log, b"20")
    work.run(1)
    assert [segment.is_stored for segment in log.segments] == [True] * 4 + [False] * 2
    ((sync, synced),) = work.pending
    work.pending.clear()
    retired = remove(directory, log)
    work.run()
    assert (retired, log.log_start_offset) == ([], 0), "the sync is still in flight"
    sync()
    synced(None)
    work.run()
    assert log.log_start_offset == 21
    remove_files(disk, retired)
    assert bases(disk) == [21]
    assert bases(disk, ".index") == bases(disk, ".timeindex") == []


def test_segments_found_after_a_crash_are_stored_before_they_go():
    disk = MemoryDisk()
    filled(disk)[0].abandon()
    directory = opened(disk)
    (log,) = directory.of("t").values()
    retired = remove(directory, log)
    assert (log.log_start_offset, len(log.segments)) == (20, 1)
    remove_files(disk, retired)
    assert bases(disk) == [20]
    assert bases(disk, ".index") == bases(disk, ".timeindex") == []


def test_deleted_topic_is_left_alone():
    disk, work = MemoryDisk(), HeldWork()
    filled(disk)[0].close()
    store = store_on(disk, work)
    topic = store.topics["t"]
    store.delete(topic, lambda error: None)
    store.create("t", 1, {}, lambda topic: None)
    retired = remove(store.directory, store.directory.of(topic.name)[0])
    work.run()
    assert retired == []
    assert bases(disk) == [0], "this is the new topic's segment"


@pytest.mark.parametrize("start", [0, 6])
def test_power_goes_at_every_call(start):
    def cut(number):
        disk = MemoryDisk()
        directory, log = filled(disk, start)
        directory.checkpoint()
        log.config = dataclasses.replace(log.config, retention_bytes=8 * BATCH_BYTES)
        disk.sync_folder("")
        log._syncs.sync_in_place(log)
        disk.plan = cut_power_at(disk.calls + number)
        try:
            remove_files(disk, remove(directory, log))
        except PowerCut:
            return disk, False
        return disk, True

    number, is_done, seen = 1, False, set()
    expected = [b"%02d" % value for value in range(20)]
    while not is_done:
        disk, is_done = cut(number)
        for seed in (None, *range(4)):
            again = opened(disk.crash(seed))
            (log,) = again.of("t").values()
            assert log.log_start_offset in (start, 4, 8, 12)
            assert log.log_start_offset >= start
            assert [v for v in values(log) if int(v) >= log.log_start_offset] == expected[log.log_start_offset :]
            assert not bases(again.services.disk, ".log.deleted")
            seen.add(log.log_start_offset)
        number += 1
    assert number > 20
    assert {start, 12} <= seen


def test_failed_checkpoint_keeps_nobody_from_making_room(caplog):
    disk = MemoryDisk()
    directory, log = filled(disk)
    log.config = dataclasses.replace(log.config, retention_bytes=8 * BATCH_BYTES)
    failures = []
    disk.plan = lambda call: fail_at(call.number)(call) if "checkpoint" in call.path else None
    remove(directory, log, failures)
    assert failures == []
    assert bases(disk)[0] == 12
    assert "could not write the checkpoints" in caplog.text


def test_failed_rename_is_reported_and_the_files_go_at_the_next_start():
    disk = MemoryDisk()
    directory, log = filled(disk)
    log.config = dataclasses.replace(log.config, retention_bytes=8 * BATCH_BYTES)
    failures = []
    disk.plan = lambda call: fail_at(call.number)(call) if call.path.endswith("4.log") else None
    remove(directory, log, failures)
    assert [type(error) for error in failures] == [OSError]
    assert values(log)[0] == b"12"
    disk.plan = None
    again = opened(disk.crash())
    (log,) = again.of("t").values()
    assert log.log_start_offset == 12
    assert bases(again.services.disk)[0] == 12


@pytest.mark.parametrize("seed", range(4))
def test_no_offset_before_the_start_of_a_log_is_given_again(seed):
    disk = MemoryDisk()
    store = store_on(disk)
    store.create("t", 1, {}, lambda topic: None)
    (log,) = store.directory.of("t").values()
    append(log, b"a")
    append(log, b"b")
    log.begin_at(2)
    store.directory.checkpoint()
    disk = disk.crash(seed)  # the records had not been synced, but the log's start offset had
    (log,) = opened(disk).of("t").values()
    assert (log.log_start_offset, log.next_offset) == (2, 2)
    append(log, b"c")
    (log,) = opened(disk.crash()).of("t").values()
    assert (log.log_start_offset, log.next_offset, values(log)) == (2, 3, [b"c"])


@pytest.mark.parametrize("end", [2, 9, 15, 40])
def test_truncation_in_the_meantime(end):
    """Whatever is truncated while segments are being removed, the files match the log, and nothing fails."""
    for pieces in range(12):
        disk = MemoryDisk()
        filled(disk)[0].close()
        work = HeldWork()
        directory = opened(disk.crash(), work)
        (log,) = directory.of("t").values()
        log.config = dataclasses.replace(log.config, retention_bytes=8 * BATCH_BYTES)
        failures, told = [], []
        remove(directory, log, failures)
        work.run(pieces)
        if end < BATCHES:
            log.truncate_to(end, told.append)
        else:
            log.start_at(end, told.append)
        work.run()
        assert (failures, told, log.error) == ([], [None], None)
        files = directory.services.disk
        assert isinstance(files, MemoryDisk)
        assert bases(files) == log.segments.base_offsets
        assert log.log_start_offset <= log.high_watermark == log.next_offset <= end
        assert values(log) == [b"%02d" % number for number in range(log.segments.first.base_offset, log.next_offset)]


def test_count_of_old_segments_does_not_apply_to_new_ones():
    disk = MemoryDisk()
    filled(disk)[0].close()
    work = HeldWork()
    directory = opened(disk.crash(), work)
    (log,) = directory.of("t").values()
    log.config = dataclasses.replace(log.config, retention_bytes=8 * BATCH_BYTES)
    remove(directory, log)
    log.truncate_to(13, lambda error: None)
    work.run()
    assert (log.log_start_offset, log.next_offset) == (0, 13), "removing three segments would leave less than it should"


def test_log_that_is_being_truncated_waits_for_the_next_check():
    disk = MemoryDisk()
    filled(disk)[0].close()
    work = HeldWork()
    directory = opened(disk.crash(), work)
    (log,) = directory.of("t").values()
    log.truncate_to(19, lambda error: None)
    pending = len(work.pending)
    remove(directory, log)
    assert len(work.pending) == pending
