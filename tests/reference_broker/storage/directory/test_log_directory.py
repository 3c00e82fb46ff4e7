"""A data directory opens, creates and drops the logs of its partitions, and cleans up after crashes.

Method: create directories, close them, tamper with them and reopen them; hold back background work.
"""

import os

import pytest

from kafkawire.reference_broker.config.topic_configs import log_config
from kafkawire.reference_broker.storage.directory.log_directory import LogDirectory, LogPlace, lock_directory
from kafkawire.reference_broker.storage.directory.partition_folders import PartitionFolders
from kafkawire.reference_broker.storage.disk.disk import read_file, remove_tree, write_file
from kafkawire.reference_broker.storage.disk.machine import MachineDisk
from kafkawire.reference_broker.storage.disk.memory import MemoryDisk, PowerCut, cut_power_at, fail_at
from kafkawire.reference_broker.storage.log.truncation import TRUNCATION, Truncation, begin_truncation
from kafkawire.reference_broker.storage.services import LogServices
from kafkawire.reference_broker.work.background import at_once, one_by_one
from kafkawire.sdk.errors import BrokerError, ConfigurationError
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.protocol.uuids import ZERO_UUID
from kafkawire.sdk.storage.partition_metadata import partition_metadata_content
from tests.reference_broker.storage.directories import append, create, create_logs, on
from tests.reference_broker.storage.held_work import HeldWork
from tests.reference_broker.storage.produced_batches import produced


def test_without_closing_it_was_not_clean():
    disk = MemoryDisk()
    append(create_logs(on(disk), "t", 1, {})[0], b"x")
    again = on(disk.crash())
    assert not again.directory.was_clean
    assert again.directory.of("t")[0].next_offset == 1


@pytest.mark.parametrize("is_ending", [False, True])
def test_start_and_stop_wait_for_no_folder_of_a_deleted_topic(is_ending):
    disk, work = MemoryDisk(), HeldWork()
    disk.make_folder("AAAA.0-delete")
    disk.open("AAAA.0-delete/x", create=True)
    store = on(disk, work)
    store.create("t", 1, {}, lambda result: None)
    if is_ending:
        store.directory.begin_end()
    work.run()
    assert list(store.topics) == ["t"]
    assert ("AAAA.0-delete" in disk.names("")) is is_ending


def test_log_and_logs():
    store = on(MemoryDisk())
    create(store, "t", 2, {})
    assert store.directory.log("t", 1) is store.directory.of("t")[1]
    assert [store.directory.log(*place) for place in (("t", 2), ("t", -1), ("none", 0))] == [None] * 3
    assert [(name, number) for name, number, _ in store.directory.logs()] == [("t", 0), ("t", 1)]


def test_two_brokers_cannot_share_a_directory(tmp_path):
    """Two brokers in one directory once lost three of four acknowledged records."""
    first = on(MachineDisk(tmp_path))
    with pytest.raises(ConfigurationError, match="the data directory is in use by another broker"):
        on(MachineDisk(tmp_path))
    first.directory.close()
    on(MachineDisk(tmp_path)).directory.abandon()


@pytest.mark.parametrize("content", [b"", b"0\n5\n", b"\0" * 20])
def test_damaged_recovery_points_let_everything_be_checked(content, caplog):
    disk = MemoryDisk()
    store = on(disk)
    log = create_logs(store, "t", 1, {"segment.bytes": str(4 * len(produced(b"a")))})[0]
    for _ in range(6):
        append(log, b"a")
    store.directory.close()
    write_file(disk, "recovery-point-offset-checkpoint", content)
    first = f"t-0/{0:020}.log"
    records = read_file(disk, first)
    assert records is not None
    write_file(disk, first, records[:-1] + b"?")
    again = on(disk)
    assert (again.directory.of("t")[0].next_offset, again.directory.was_clean) == (3, True)
    assert "recovery-point-offset-checkpoint is damaged" in caplog.text
    assert "all segments are checked" in caplog.text


def test_mark_of_a_clean_shutdown_is_gone_before_anything_is_written():
    """Otherwise, a later power cut would leave torn files that seem to have been closed cleanly."""
    disk = MemoryDisk()
    store = on(disk)
    create(store, "t")
    store.directory.close()
    store = on(disk)
    for seed in range(30):
        assert ".kafka_cleanshutdown" not in disk.crash(seed).names("")


def test_shutdown_with_a_log_offline_is_not_clean():
    disk = MemoryDisk()
    store = on(disk)
    log = create_logs(store, "t")[0]
    log.fail(OSError(5, "broken"))
    store.directory.close()
    assert ".kafka_cleanshutdown" not in disk.names("")


def test_shutdown_makes_every_log_durable():
    disk = MemoryDisk()
    store = on(disk)
    for name in "tu":
        append(create_logs(store, name)[0], b"x")
    store.directory.close()
    again = on(disk.crash())
    assert again.directory.was_clean
    assert [again.directory.of(name)[0].next_offset for name in "tu"] == [1, 1]


def test_no_step_begins_while_the_logs_are_closed():
    store, told = on(MemoryDisk()), []

    def each(works):
        store.directory.queue.do(lambda: lambda: told.append("a step"), lambda error: None)
        one_by_one(works)

    store.directory.close(each)
    assert told == []


def test_failing_shutdown_is_reported(caplog):
    disk = MemoryDisk()
    store = on(disk)
    disk.plan = fail_at(disk.calls + 3)
    store.directory.close()
    assert "the shutdown is not clean" in caplog.text
    disk.plan = None
    assert not on(disk).directory.was_clean


def test_checkpoints_forget_each_topic_that_is_deleted():
    disk = MemoryDisk()
    store = on(disk)
    for name in ("a", "b", "c"):
        append(create_logs(store, name)[0], b"x")
    store.directory.checkpoint()
    for name in ("a", "b"):
        store.delete(store.topics[name], lambda error: None)
    assert read_file(disk, "recovery-point-offset-checkpoint") == b"0\n1\nc 0 0\n"


def test_partition_whose_folder_belongs_to_another_topic(caplog):
    disk = MemoryDisk()
    store = on(disk)
    append(create_logs(store, "t")[0], b"x")
    store.directory.close()
    write_file(disk, "t-0/partition.metadata", partition_metadata_content(b"z" * 16))
    again = on(disk)
    assert again.directory.of("t")[0].next_offset == 0, "old records do not appear under a new id"
    assert "memory:t-0 is missing, so the partition starts out empty" in caplog.text
    assert [name for name in disk.names("") if name.endswith("-stray")]


def test_partition_whose_folder_is_missing(caplog):
    disk = MemoryDisk()
    store = on(disk)
    create(store, "t", 2)
    store.directory.close()
    remove_tree(disk, "t-1")
    again = on(disk)
    append(again.directory.of("t")[1], b"x")
    assert "memory:t-1 is missing, so the partition starts out empty" in caplog.text
    assert "t-1" in disk.crash().names(""), "the folder created at startup is durable"


def test_start_syncs_the_directory_for_new_folders_alone():
    disk, counts = MemoryDisk(), []
    create(on(disk), "t", 2)
    for lost in ((), ("t-0",)):  # the second partition, created later, has a folder
        synced = []
        disk = disk.crash()
        for folder in lost:
            remove_tree(disk, folder)
        disk.plan = lambda call, synced=synced: synced.append(call.path) if call.name == "sync_folder" else None
        on(disk).directory.abandon()
        counts.append(synced.count(""))
    assert counts[1] == counts[0] + 1


def test_checkpoint_that_fails_is_reported_and_written_next_time(caplog):
    disk = MemoryDisk()
    store = on(disk)
    disk.plan = fail_at(disk.calls + 2)
    store.directory.checkpoint()
    assert "could not write the checkpoints" in caplog.text
    store.directory.checkpoint()
    assert read_file(disk, "recovery-point-offset-checkpoint") == b"0\n0\n"


def test_checkpoints_are_not_queued_up():
    disk, work = MemoryDisk(), HeldWork()
    store = on(disk, work)
    for _ in range(10):
        store.directory.checkpoint()
    count = 0
    while work.pending:
        work.run(1)
        count += 1
    assert count == 2, "one sync was in flight, and another covers everything that arrived in the meantime"


def test_restart_needs_no_more_descriptors_than_running(tmp_path):
    """A broker with 300 partitions and 400 descriptors could once run, but not restart."""

    def descriptors():
        links = (f"/proc/self/fd/{number}" for number in os.listdir("/proc/self/fd"))
        return sum(os.readlink(link).startswith(str(tmp_path)) for link in links if os.path.islink(link))

    config = {"index.interval.bytes": "0", "segment.index.bytes": "24"}
    store = on(MachineDisk(tmp_path))
    topic = create(store, "t", 50, config)
    for number in range(6 * 50):
        append(store.directory.of(topic.name)[number % 50], b"x")
    running = descriptors()
    store.directory.close()
    del store, topic
    assert descriptors() == 0
    again = on(MachineDisk(tmp_path))
    started = descriptors()
    assert 0 < started <= running
    assert started <= 50 + 2
    again.directory.abandon()


# Individual partitions, as on a broker in a cluster.

FIRST, SECOND = b"1" * 16, b"2" * 16
CONFIG = log_config({"flush.messages": "1"})
GONE = BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "gone")


def place(number, topic_id=FIRST, topic="t"):
    return LogPlace(topic, number, topic_id, CONFIG)


def opened(disk, work=at_once, expected=None):
    """Open a directory with the partitions `expected`; None stands for every partition with valid metadata."""
    if expected is None:
        found = PartitionFolders(disk).found().items()
        expected = [LogPlace(*partition, topic_id, CONFIG) for partition, topic_id in found if topic_id is not None]
    directory = LogDirectory(LogServices(disk, work), lock_directory(disk), is_replicated=True)
    directory.open(expected)
    return directory


def created(disk, *places):
    directory, told = opened(disk), []
    directory.create(places, told.append)
    assert told == [{}]
    return directory


def hosted(directory):
    return [(topic, number) for topic, number, _ in directory.logs()]


def test_wanted_partitions_are_created_durably_with_one_sync_of_the_directory():
    disk, synced = MemoryDisk(), []
    directory = opened(disk)
    disk.plan = lambda call: synced.append(call.path) if call.name == "sync_folder" else None
    told = []
    directory.create([place(4), place(1), place(0, SECOND, "u")], told.append)
    assert told == [{}]
    assert ({*synced}, synced.count(""), synced[-1]) == ({"t-1", "t-4", "u-0", ""}, 1, "")
    assert hosted(directory) == [("t", 4), ("t", 1), ("u", 0)]
    assert {log.on_sealed for _, _, log in directory.logs()} == {directory.checkpoint}
    assert directory.of("t")[4].is_replicated
    for seed in range(8):
        left = disk.crash(seed)
        assert PartitionFolders(left).found() == {("t", 1): FIRST, ("t", 4): FIRST, ("u", 0): SECOND}
        assert {log.is_offline for _, _, log in opened(left).logs()} == {False}


def test_partition_that_has_a_log_stays_as_it_is():
    work, told = HeldWork(), []
    directory = opened(MemoryDisk(), work)
    for _ in range(2):
        directory.create([place(0)], told.append)
    work.run(1)
    log = directory.of("t")[0]
    work.run()
    assert (told, directory.log("t", 0)) == ([{}, {}], log)


def test_power_goes_at_every_call_of_creating():
    disk = MemoryDisk()
    opened(disk)
    before = disk.calls
    created(disk := MemoryDisk(), place(0), place(3))
    for number in range(before + 1, disk.calls + 1):
        for seed in range(6):
            disk = MemoryDisk()
            directory = opened(disk)
            disk.plan = cut_power_at(number)
            with pytest.raises(PowerCut):
                directory.create([place(0), place(3)], lambda errors: None)
            disk = disk.crash(seed)
            assert set(PartitionFolders(disk).found().values()) <= {FIRST, None}
            directory, told = opened(disk), []
            directory.create([place(0), place(3)], told.append)
            assert told == [{}]
            append(directory.log("t", 3), b"x")
            assert opened(disk.crash(seed)).of("t")[3].next_offset == 1


def test_every_call_of_creating_fails(caplog):
    disk = MemoryDisk()
    opened(disk)
    before = disk.calls
    created(disk := MemoryDisk(), place(0), place(3))
    failed = set()
    for number in range(before + 1, disk.calls + 1):
        disk = MemoryDisk()
        directory, told = opened(disk), []
        disk.plan = fail_at(number)
        directory.create([place(0), place(3)], told.append)
        disk.plan = None
        (errors,) = told
        assert {("t", 0), ("t", 3)} == {*errors, *hosted(directory)}
        assert {error.code for error in errors.values()} <= {ErrorCode.KAFKA_STORAGE_ERROR}
        failed.add(tuple(errors))
        directory.create([place(0), place(3)], told.append)
        assert told[1:] == [{}]
        append(directory.log("t", 0), b"x")
        assert opened(disk.crash()).of("t")[0].next_offset == 1
    assert failed >= {(("t", 0),), (("t", 3),), (("t", 0), ("t", 3))}
    assert "could not create the partition t-3: KAFKA_STORAGE_ERROR" in caplog.text


@pytest.mark.parametrize(("topic_id", "records"), [(FIRST, 2), (SECOND, 0)])
def test_folder_that_was_not_expected_is_untouched_until_its_partition_is_created(topic_id, records, caplog):
    disk = MemoryDisk()
    directory = created(disk, place(0), place(1))
    for log in directory.of("t").values():
        append(log, b"x")
        append(log, b"y")
    directory.close()
    files = {name: read_file(disk, f"t-1/{name}") for name in disk.names("t-1")}
    directory = opened(disk, expected=[place(0)])
    assert (hosted(directory), directory.of("t")[0].next_offset) == ([("t", 0)], 2)
    assert files == {name: read_file(disk, f"t-1/{name}") for name in disk.names("t-1")}
    assert "memory:t-1 does not belong to any topic, and is left alone" in caplog.text
    told = []
    directory.create([place(1, topic_id)], told.append)
    assert (told, directory.of("t")[1].next_offset) == ([{}], records)
    assert bool([name for name in disk.names("") if name.endswith("-stray")]) is not bool(records)
    assert PartitionFolders(disk).found() == {("t", 0): FIRST, ("t", 1): topic_id}


def test_folder_that_is_used_again_is_checked_like_one_after_a_crash():
    disk = MemoryDisk()
    directory = created(disk, place(0))
    append(directory.log("t", 0), b"x")
    append(directory.log("t", 0), b"y")
    directory.close()
    path = f"t-0/{0:020}.log"
    records = read_file(disk, path)
    assert records is not None
    write_file(disk, path, records[:-1] + b"?")
    directory = opened(disk, expected=[])
    assert directory.was_clean
    directory.create([place(0)], lambda errors: None)
    assert directory.of("t")[0].next_offset == 1


def test_folder_that_is_used_again_may_need_its_truncation_completed():
    """Until the truncation ends, the log could neither lead nor be appended to."""
    disk = MemoryDisk()
    directory = created(disk, place(0))
    for value in (b"x", b"y", b"z"):
        append(directory.log("t", 0), value)
    begin_truncation(disk, "t-0", Truncation(0, 2))
    disk = disk.crash()
    directory = opened(disk, expected=[])
    directory.create([place(0)], lambda errors: None)
    log = directory.of("t")[0]
    assert (log.next_offset, log.is_unsettled, TRUNCATION in disk.names("t-0")) == (2, False, False)
    log.lead(1)
    append(log, b"z")
    assert opened(disk.crash()).of("t")[0].next_offset == 3


def test_folder_whose_metadata_cannot_be_read_is_not_set_aside():
    """The folder may hold acknowledged records."""
    disk, told = MemoryDisk(), []
    created(disk, place(0)).close()
    directory = opened(disk, expected=[])

    def plan(call):
        if call.path == "t-0/partition.metadata":
            raise OSError(5, "unreadable")

    disk.plan = plan
    directory.create([place(0), place(1)], told.append)
    assert [error.code for error in told[0].values()] == [ErrorCode.KAFKA_STORAGE_ERROR]
    assert hosted(directory) == [("t", 1)]
    disk.plan = None
    directory.create([place(0)], told.append)
    assert (told[1], hosted(directory)) == ({}, [("t", 1), ("t", 0)])
    assert not [name for name in disk.names("") if name.endswith("-stray")]


def test_folder_that_is_used_again_has_its_checkpoints():
    """Opening without the folder keeps its checkpoints: a follower may lead immediately, and must not begin at 0."""
    disk = MemoryDisk()
    directory = created(disk, place(0), place(1))
    for log in directory.of("t").values():
        for value in (b"a", b"b", b"c"):
            append(log, value)
        log.commit_to(2)
        log.begin_at(1)
    directory.close()
    for _ in range(2):
        directory = opened(disk, expected=[place(0)])
        directory.checkpoint()
        directory.close()
    directory, told = opened(disk.crash(), expected=[place(0)]), []
    directory.create([place(1)], told.append)
    log = directory.of("t")[1]
    assert (told, log.log_start_offset, log.high_watermark, log.next_offset) == ([{}], 1, 2, 3)
    assert directory.checkpoints.recovery_points["t", 1] == 3


def test_folder_that_is_set_aside_leaves_no_checkpoints():
    disk = MemoryDisk()
    directory = created(disk, place(0))
    for _ in range(3):
        append(directory.log("t", 0), b"a")
    log = directory.of("t")[0]
    log.commit_to(3)
    log.begin_at(2)
    directory.close()
    directory = opened(disk, expected=[])
    directory.create([place(0, SECOND)], lambda errors: None)
    log = opened(disk.crash()).of("t")[0]
    assert (log.log_start_offset, log.high_watermark, log.next_offset) == (0, 0, 0)


def test_folder_that_is_not_open_is_deleted():
    """The folder's checkpoints must not apply to the next partition of that name."""
    disk, told = MemoryDisk(), []
    directory = created(disk, place(0), place(1))
    append(directory.log("t", 1), b"a")
    directory.close()
    directory = opened(disk, expected=[place(0)])
    directory.delete([("t", 1), ("t", 2)], GONE, told.append)
    assert (told, hosted(directory)) == ([{}], [("t", 0)])
    assert [name for name in disk.names("") if name.endswith(("-1", "-delete", "-stray"))] == []
    assert b"t 1" not in (read_file(disk, "recovery-point-offset-checkpoint") or b"")
    directory.create([place(1)], told.append)
    assert directory.of("t")[1].next_offset == 0


def test_folder_that_is_being_opened_is_not_deleted():
    disk, work, told = MemoryDisk(), HeldWork(), []
    created(disk, place(0)).close()
    directory = opened(disk, work, expected=[])
    work.run()
    directory.create([place(0)], told.append)
    directory.delete([("t", 0)], GONE, told.append)
    work.run()
    assert (told[0], [*told[1]]) == ({}, [("t", 0)])
    assert (hosted(directory), "t-0" in disk.names("")) == ([("t", 0)], True)


def test_topic_that_gets_an_id():
    disk, told = MemoryDisk(), []
    directory = created(disk, place(0, ZERO_UUID))
    append(directory.log("t", 0), b"a")
    assert "partition.metadata" not in disk.names("t-0"), "Kafka rejects an id of zeros"
    directory.identify({("t", 0): FIRST}, told.append)
    assert told == [{}]
    directory = opened(disk.crash(), expected=[place(0)])
    assert directory.of("t")[0].next_offset == 1


def test_topic_without_an_id_keeps_its_folder():
    disk, told = MemoryDisk(), []
    directory = created(disk, place(0, ZERO_UUID))
    append(directory.log("t", 0), b"a")
    directory.close()
    assert opened(disk.crash(), expected=[place(0, ZERO_UUID)]).of("t")[0].next_offset == 1
    directory = opened(disk, expected=[])
    directory.create([place(0, ZERO_UUID), place(1, ZERO_UUID)], told.append)
    assert (told, directory.of("t")[0].next_offset, directory.of("t")[1].next_offset) == ([{}], 1, 0)


def test_log_whose_id_cannot_be_noted_is_offline():
    disk, told = MemoryDisk(), []
    directory = created(disk, place(0, ZERO_UUID), place(1, ZERO_UUID))

    def plan(call):
        if call.path.startswith("t-0/partition.metadata"):
            raise OSError(5, "broken")

    disk.plan = plan
    directory.identify({("t", 0): FIRST, ("t", 1): FIRST}, told.append)
    assert [(place, error.code) for place, error in told[0].items()] == [(("t", 0), ErrorCode.KAFKA_STORAGE_ERROR)]
    assert (directory.of("t")[0].is_offline, directory.of("t")[1].is_offline) == (True, False)


def test_deleted_partitions_are_gone_and_no_others():
    disk = MemoryDisk()
    directory = created(disk, place(0), place(1), place(2))
    for log in directory.of("t").values():
        append(log, b"x")
    directory.checkpoint()
    disk.make_folder("left-0")
    log, told, removed = directory.of("t")[1], [], []

    def plan(call):
        if call.name == "remove_folder":
            removed.append(list(told))

    disk.plan = plan
    directory.delete([("t", 1), ("t", 1), ("left", 0), ("unknown", 0)], GONE, told.append)
    assert (told, log.error, hosted(directory)) == ([{}], GONE, [("t", 0), ("t", 2)])
    assert removed == [[{}]] * 2, "nothing waits for the removal of files"
    assert {"t-0", "t-2"} == {name for name in disk.names("") if "-" in name and name[-1].isdigit()}
    assert read_file(disk, "recovery-point-offset-checkpoint") == b"0\n2\nt 0 0\nt 2 0\n"
    assert hosted(opened(disk.crash())) == [("t", 0), ("t", 2)]


def test_deletion_is_durable_when_it_is_told():
    disk, told = MemoryDisk(), []
    directory = created(disk, place(0), place(1))

    def deleted(errors):
        told.append(errors)
        for seed in range(8):
            assert PartitionFolders(disk.crash(seed)).found() == {}

    directory.delete([("t", 0), ("t", 1)], GONE, deleted)
    assert told == [{}]


def test_partition_is_created_again_after_the_work_on_its_former_log():
    disk, work, told = MemoryDisk(), HeldWork(), []
    directory = opened(disk, work)
    directory.create([place(0)], told.append)
    work.run()
    append(directory.log("t", 0), b"old")
    sync = work.pending.popleft()
    directory.delete([("t", 0)], GONE, told.append)
    directory.create([place(0)], told.append)
    work.run()
    assert told == [{}], "a sync is still running in the folder"
    sync[0]()
    sync[1](None)
    work.run()
    assert (told, directory.of("t")[0].next_offset) == ([{}, {}, {}], 0)


@pytest.mark.parametrize(("name", "path", "failed"), [("rename", "t-0", [0]), ("sync_folder", "", [0, 1])])
def test_folders_that_cannot_be_deleted_are_reported(name, path, failed, caplog):
    disk, told = MemoryDisk(), []
    directory = created(disk, place(0), place(1))

    def plan(call):
        if (call.name, call.path) == (name, path):
            raise OSError(5, "stuck")

    disk.plan = plan
    directory.delete([("t", 0), ("t", 1)], GONE, told.append)
    (errors,) = told
    assert {partition: error.code for partition, error in errors.items()} == {
        ("t", number): ErrorCode.KAFKA_STORAGE_ERROR for number in failed
    }
    assert (
        "could not remove the folder of the deleted partition t-0: KAFKA_STORAGE_ERROR: [Errno 5] stuck" in caplog.text
    )
    assert hosted(directory) == []


def test_listeners_of_a_deletion_find_no_log_but_the_log_has_not_ended():
    directory, seen = created(MemoryDisk(), place(0)), []
    log = directory.of("t")[0]
    logs = directory.drop([("t", 0)], GONE, lambda: seen.append((directory.log("t", 0), log.error)))
    assert (seen, logs, log.error) == ([(None, None)], [log], GONE)


def test_log_that_is_closed_during_a_truncation_does_not_make_the_others_unclean():
    disk, work = MemoryDisk(), HeldWork()
    directory = opened(disk, work)
    directory.create([place(0), place(1)], lambda errors: None)
    work.run()
    for log in directory.of("t").values():
        for value in (b"a", b"b", b"c"):
            append(log, value)
    work.run()
    log = directory.of("t")[0]
    log.truncate_to(2, lambda error: None)
    work.run(1)
    assert log.is_unsettled
    directory.close()
    directory = opened(disk.crash())
    assert directory.was_clean
    assert [log.next_offset for log in directory.of("t").values()] == [2, 3]
    assert not any(log.is_unsettled for log in directory.of("t").values())
