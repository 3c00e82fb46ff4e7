"""A data directory opens, makes and drops the logs of its partitions, and cleans up after crashes.

Method: directories that are created, closed, tampered with and reopened; background work that the test holds back.
"""

import os

import pytest

from kafkawire.reference_broker.storage.disk.disk import read_file, remove_tree, write_file
from kafkawire.reference_broker.storage.disk.machine import MachineDisk
from kafkawire.reference_broker.storage.disk.memory import MemoryDisk, fail_at
from kafkawire.reference_broker.work.background import one_by_one
from kafkawire.sdk.errors import ConfigurationError
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
    with pytest.raises(ConfigurationError, match="another broker uses it"):
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
    """Otherwise a later power cut would leave torn files that count as cleanly closed."""
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
    assert "memory:t-0 is missing: the partition is empty" in caplog.text
    assert [name for name in disk.names("") if name.endswith("-stray")]


def test_partition_whose_folder_is_missing(caplog):
    disk = MemoryDisk()
    store = on(disk)
    create(store, "t", 2)
    store.directory.close()
    remove_tree(disk, "t-1")
    again = on(disk)
    append(again.directory.of("t")[1], b"x")
    assert "memory:t-1 is missing: the partition is empty" in caplog.text
    assert "t-1" in disk.crash().names(""), "the folder that the start has made is durable"


def test_start_syncs_the_directory_for_new_folders_alone():
    disk, counts = MemoryDisk(), []
    create(on(disk), "t", 2)
    for lost in ((), ("t-0",)):  # the second partition, created later, has its folder
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
    assert "checkpoints cannot be written" in caplog.text
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
    assert count == 2, "one in flight, and one with what came meanwhile"


def test_restart_needs_no_more_descriptors_than_running(tmp_path):
    """A broker with 300 partitions and 400 descriptors once ran, but failed to restart."""

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
