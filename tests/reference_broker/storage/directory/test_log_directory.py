"""A data directory remembers its broker and its topics, and cleans up after crashes.

Method: directories that are created, closed, tampered with and reopened; background work that the test holds back.
"""

import errno
import os
from itertools import count

import pytest

from kafkawire.reference_broker.replicas.replica import Replica
from kafkawire.reference_broker.storage.directory.log_directory import LogDirectory
from kafkawire.reference_broker.storage.disk.disk import read_file, remove_tree, write_file
from kafkawire.reference_broker.storage.disk.machine import MachineDisk
from kafkawire.reference_broker.storage.disk.memory import MemoryDisk, PowerCut, cut_power_at, fail_at
from kafkawire.reference_broker.storage.services import LogServices
from kafkawire.reference_broker.work.background import one_by_one
from kafkawire.sdk.errors import ConfigurationError
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.storage.partition_metadata import partition_metadata_content
from tests.reference_broker.storage.directories import append, create, create_logs, on
from tests.reference_broker.storage.held_work import HeldWork
from tests.reference_broker.storage.produced_batches import produced


@pytest.fixture
def reopen(tmp_path):
    numbers = count(1)

    last = []

    def reopen(node_id=1, **defaults):
        if last:
            last.pop().abandon()
        services = LogServices(MachineDisk(tmp_path))
        directory = LogDirectory(services, node_id, lambda: next(numbers).to_bytes(16, "big"), defaults)
        last.append(directory)
        return directory

    return reopen


def test_identity(reopen, tmp_path):
    cluster_id = reopen().cluster_id
    assert reopen().cluster_id == cluster_id
    assert f"cluster.id={cluster_id}\n" in (tmp_path / "meta.properties").read_text()
    with pytest.raises(ConfigurationError, match="belongs to node 1"):
        reopen(2)


def test_topics_come_back(reopen, tmp_path):
    directory = reopen()
    made = create(directory, "a.b-c_d", 2, {"segment.bytes": "2000000"})
    append(directory.of(made.name)[1], b"x")
    directory.close()
    assert (tmp_path / ".kafka_cleanshutdown").exists()
    again = reopen()
    assert again.was_clean
    assert not (tmp_path / ".kafka_cleanshutdown").exists()
    topic = again.topics["a.b-c_d"]
    assert (topic.topic_id, topic.configs) == (made.topic_id, {"segment.bytes": "2000000"})
    assert again.topics_by_id[made.topic_id] is topic
    assert [log.next_offset for log in again.of(topic.name).values()] == [0, 1]
    assert again.of(topic.name)[0].config.segment_bytes == 2_000_000
    assert "topic_id: " in (tmp_path / "a.b-c_d-1" / "partition.metadata").read_text()


def test_defaults_of_the_broker(reopen):
    directory = reopen(**{"segment.bytes": "3000000"})
    assert create_logs(directory, "t", 1, {})[0].config.segment_bytes == 3_000_000


def test_without_closing_it_was_not_clean(reopen):
    append(create_logs(reopen(), "t", 1, {})[0], b"x")
    again = reopen()
    assert not again.was_clean
    assert again.of("t")[0].next_offset == 1


def test_crash_between_topic_file_and_folders(reopen, tmp_path):
    create(reopen(), "t", 3, {})
    for path in (tmp_path / "t-2").iterdir():
        path.unlink()
    (tmp_path / "t-2").rmdir()
    assert len(reopen().of("t")) == 3


def test_delete(reopen, tmp_path):
    directory = reopen()
    topic = create(directory, "t", 2, {})
    piece = None
    append(directory.of(topic.name)[0], b"x")
    piece = directory.of(topic.name)[0].read(0, 1000, at_least_one=True).records
    assert piece is not None
    deleted = []
    directory.delete(topic, deleted.append)
    assert deleted == [None]
    assert not directory.topics
    assert not directory.topics_by_id
    assert not list(tmp_path.glob("t-*"))
    assert b"x" in piece.read(), "a fetch that is being sent goes on"
    assert not reopen().topics


@pytest.mark.parametrize("is_ending", [False, True])
def test_start_and_stop_wait_for_no_folder_of_a_deleted_topic(is_ending):
    disk, work = MemoryDisk(), HeldWork()
    disk.make_folder("AAAA.0-delete")
    disk.open("AAAA.0-delete/x", create=True)
    directory = on(disk, work)
    directory.create("t", 1, {}, lambda result: None)
    if is_ending:
        directory.begin_end()
    work.run()
    assert list(directory.topics) == ["t"]
    assert ("AAAA.0-delete" in disk.names("")) is is_ending


def test_log_and_logs(reopen):
    directory = reopen()
    create(directory, "t", 2, {})
    assert directory.log("t", 1) is directory.of("t")[1]
    assert [directory.log(*place) for place in (("t", 2), ("t", -1), ("none", 0))] == [None] * 3
    assert [(name, number) for name, number, _ in directory.logs()] == [("t", 0), ("t", 1)]


def test_two_brokers_cannot_share_a_directory(tmp_path):
    """Two brokers in one directory once lost three of four acknowledged records."""
    first = on(MachineDisk(tmp_path))
    with pytest.raises(ConfigurationError, match="another broker uses it"):
        on(MachineDisk(tmp_path))
    first.close()
    on(MachineDisk(tmp_path)).abandon()


def test_start_that_fails_lets_go_of_the_directory(tmp_path):
    on(MachineDisk(tmp_path)).close()
    for _ in range(2):
        with pytest.raises(ConfigurationError, match="belongs to node 1"):
            on(MachineDisk(tmp_path), node_id=2)


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "it has no cluster.id and no node.id"),
        (b"node.id=1\n", "it has no cluster.id"),
        (b"nonsense", "no name and value in the line 'nonsense'"),
        (b"\xff", "not UTF-8"),
    ],
)
def test_damaged_identity_is_refused(content, why):
    disk = MemoryDisk()
    on(disk).close()
    write_file(disk, "meta.properties", content)
    with pytest.raises(ConfigurationError, match=f"memory:meta.properties is damaged: .*{why}"):
        on(disk)


def test_missing_identity_of_a_directory_with_partitions_is_refused():
    disk = MemoryDisk()
    directory = on(disk)
    create(directory, "t")
    directory.close()
    disk.remove("meta.properties")
    with pytest.raises(ConfigurationError, match="it is missing, although there are partitions"):
        on(disk)


@pytest.mark.parametrize("content", [b"", b"0\n5\n", b"\0" * 20])
def test_damaged_recovery_points_let_everything_be_checked(content, caplog):
    disk = MemoryDisk()
    directory = on(disk)
    log = create_logs(directory, "t", 1, {"segment.bytes": str(4 * len(produced(b"a")))})[0]
    for _ in range(6):
        append(log, b"a")
    directory.close()
    write_file(disk, "recovery-point-offset-checkpoint", content)
    first = f"t-0/{0:020}.log"
    records = read_file(disk, first)
    assert records is not None
    write_file(disk, first, records[:-1] + b"?")
    again = on(disk)
    assert (again.of("t")[0].next_offset, again.was_clean) == (3, True)
    assert "recovery-point-offset-checkpoint is damaged" in caplog.text
    assert "all segments are checked" in caplog.text


def test_first_start_may_be_interrupted_by_a_power_cut():
    disk = MemoryDisk()
    on(disk)
    for number in range(1, disk.calls + 1):
        for seed in range(4):
            disk = MemoryDisk()
            disk.plan = cut_power_at(number)
            with pytest.raises(PowerCut):
                on(disk)
            assert on(disk.crash(seed)).producer_ids.reserve(1) == 0, "nobody has had any"


def test_mark_of_a_clean_shutdown_is_gone_before_anything_is_written():
    """Otherwise a later power cut would leave torn files that count as cleanly closed."""
    disk = MemoryDisk()
    directory = on(disk)
    create(directory, "t")
    directory.close()
    directory = on(disk)
    for seed in range(30):
        assert ".kafka_cleanshutdown" not in disk.crash(seed).names("")


def test_shutdown_with_a_log_offline_is_not_clean():
    disk = MemoryDisk()
    directory = on(disk)
    log = create_logs(directory, "t")[0]
    log.fail(OSError(5, "broken"))
    directory.close()
    assert ".kafka_cleanshutdown" not in disk.names("")


def test_shutdown_makes_every_log_durable():
    disk = MemoryDisk()
    directory = on(disk)
    for name in "tu":
        append(create_logs(directory, name)[0], b"x")
    directory.close()
    again = on(disk.crash())
    assert again.was_clean
    assert [again.of(name)[0].next_offset for name in "tu"] == [1, 1]


def test_no_step_begins_while_the_logs_are_closed():
    directory, told = on(MemoryDisk()), []

    def each(works):
        directory.queue.do(lambda: lambda: told.append("a step"), lambda error: None)
        one_by_one(works)

    directory.close(each)
    assert told == []


def test_failing_shutdown_is_reported(caplog):
    disk = MemoryDisk()
    directory = on(disk)
    disk.plan = fail_at(disk.calls + 3)
    directory.close()
    assert "the shutdown is not clean" in caplog.text
    disk.plan = None
    assert not on(disk).was_clean


def test_creating_waits_for_the_disk():
    work = HeldWork()
    directory = on(MemoryDisk(), work)
    made = []
    directory.create("t", 2, {}, made.append)
    assert not directory.topics
    work.run()
    assert made == [directory.topics["t"]]
    assert len(directory.of("t")) == 2


def test_creating_that_fails_is_reported_and_leaves_nothing(caplog):
    disk, work = MemoryDisk(), HeldWork()
    directory = on(disk, work)
    results = []
    directory.create("t", 2, {}, results.append)
    disk.plan = fail_at(disk.calls + 12, errno.ENOSPC)
    work.run()
    (error,) = results
    assert error.code == ErrorCode.KAFKA_STORAGE_ERROR
    assert "the topic t cannot be created" in caplog.text
    assert not directory.topics
    assert [name for name in disk.names("") if name.startswith("t-")] == []
    directory.create("t", 1, {}, results.append)
    work.run()
    assert results[1] is directory.topics["t"]


def test_steps_come_one_after_the_other():
    """A topic of the same name is created only after the folders of the old one have been moved away."""
    disk, work = MemoryDisk(), HeldWork()
    directory = on(disk, work)
    results = []
    directory.create("t", 1, {}, results.append)
    work.run()
    old = directory.topics["t"]
    append(directory.of(old.name)[0], b"old")
    directory.delete(old, results.append)
    directory.create("other", 1, {}, results.append)
    assert len(work.pending) == 1
    work.run(1)
    assert results[1:] == [None]
    assert "t" not in directory.topics
    directory.create("t", 1, {}, results.append)
    work.run()
    new = directory.topics["t"]
    assert (results[2].name, results[3]) == ("other", new)
    assert (directory.of(new.name)[0].next_offset, new.topic_id != old.topic_id) == (0, True)
    assert disk.names("topics") == ["other.topic", "t.topic"]
    assert not [name for name in disk.names("") if name.endswith(("-delete", "-stray"))]


def test_checkpoints_forget_each_topic_that_is_deleted():
    disk = MemoryDisk()
    directory = on(disk)
    for name in ("a", "b", "c"):
        append(create_logs(directory, name)[0], b"x")
    directory.checkpoint()
    for name in ("a", "b"):
        directory.delete(directory.topics[name], lambda error: None)
    assert read_file(disk, "recovery-point-offset-checkpoint") == b"0\n1\nc 0 0\n"


def test_topics_are_gone_with_the_directory():
    directory = on(MemoryDisk())
    for name in ("a", "b"):
        create(directory, name)
    directory.abandon()
    assert (directory.topics, directory.topics_by_id) == ({}, {})


def test_deleting_twice():
    work = HeldWork()
    directory = on(MemoryDisk(), work)
    directory.create("t", 1, {}, lambda result: None)
    work.run()
    results = []
    for _ in range(2):
        directory.delete(directory.topics["t"], results.append)
    work.run()
    assert results[0] is None
    assert results[1].code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_those_who_wait_for_a_deleted_topic_are_answered():
    work = HeldWork()
    directory = on(MemoryDisk(), work)
    directory.create("t", 1, {"flush.messages": "1"}, lambda result: None)
    work.run()
    (log,) = directory.of("t").values()
    replica = Replica(log)
    append(log, b"x")
    told = []
    replica.when_reached(1, told.append)
    directory.delete(directory.topics["t"], lambda result: None)
    work.pending.popleft()  # the sync hangs
    work.run()
    assert told[0].code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_undecided_deletion_takes_the_topic_offline(caplog):
    disk = MemoryDisk()
    directory = on(disk)
    topic = create(directory, "t")

    def plan(call):
        if call.name == "sync_folder":
            raise OSError(5, "gone")

    disk.plan = plan
    results = []
    directory.delete(topic, results.append)
    assert results[0].code == ErrorCode.KAFKA_STORAGE_ERROR
    assert directory.of(topic.name)[0].is_offline
    assert "the topic t cannot be deleted: [Errno 5] gone" in caplog.text


def test_files_of_a_deleted_topic_that_cannot_be_removed(caplog):
    disk = MemoryDisk()
    directory = on(disk)
    topic = create(directory, "t")

    def plan(call):
        if call.name == "rename" and call.path == "t-0":
            raise OSError(5, "stuck")

    disk.plan = plan
    results = []
    directory.delete(topic, results.append)
    assert results == [None]
    assert "files of a deleted topic stay until the next startup: [Errno 5] stuck" in caplog.text
    disk.plan = None
    again = on(disk.crash())
    assert not again.topics


def test_partition_whose_folder_belongs_to_another_topic(caplog):
    disk = MemoryDisk()
    directory = on(disk)
    append(create_logs(directory, "t")[0], b"x")
    directory.close()
    write_file(disk, "t-0/partition.metadata", partition_metadata_content(b"z" * 16))
    again = on(disk)
    assert again.of("t")[0].next_offset == 0, "old records do not appear under a new id"
    assert "memory:t-0 is missing: the partition is empty" in caplog.text
    assert [name for name in disk.names("") if name.endswith("-stray")]


def test_partition_whose_folder_is_missing(caplog):
    disk = MemoryDisk()
    directory = on(disk)
    create(directory, "t", 2)
    directory.close()
    remove_tree(disk, "t-1")
    again = on(disk)
    append(again.of("t")[1], b"x")
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
        on(disk).abandon()
        counts.append(synced.count(""))
    assert counts[1] == counts[0] + 1


def test_checkpoint_that_fails_is_reported_and_written_next_time(caplog):
    disk = MemoryDisk()
    directory = on(disk)
    disk.plan = fail_at(disk.calls + 2)
    directory.checkpoint()
    assert "checkpoints cannot be written" in caplog.text
    directory.checkpoint()
    assert read_file(disk, "recovery-point-offset-checkpoint") == b"0\n0\n"


def test_checkpoints_are_not_queued_up():
    disk, work = MemoryDisk(), HeldWork()
    directory = on(disk, work)
    for _ in range(10):
        directory.checkpoint()
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
    directory = on(MachineDisk(tmp_path))
    topic = create(directory, "t", 50, config)
    for number in range(6 * 50):
        append(directory.of(topic.name)[number % 50], b"x")
    running = descriptors()
    directory.close()
    del directory, topic
    assert descriptors() == 0
    again = on(MachineDisk(tmp_path))
    started = descriptors()
    assert 0 < started <= running
    assert started <= 50 + 2
    again.abandon()


def test_configurations_of_a_topic_outlive_a_crash():
    disk = MemoryDisk()
    directory = on(disk)
    topic = create(directory, "t", 1, {"retention.ms": "5", "segment.bytes": "1048576"})
    told = []
    directory.configure(topic, {"retention.ms": None, "flush.ms": "9"}, told.append)
    assert told == [topic]
    assert topic.configs == {"segment.bytes": "1048576", "flush.ms": "9"}
    for seed in range(4):
        again = on(disk.crash(seed))
        assert again.topics["t"].configs == topic.configs
        assert again.of("t")[0].config.flush_ms == 9


def test_configurations_that_cannot_be_written_are_reported(caplog):
    disk, told = MemoryDisk(), []
    directory = on(disk)
    topic = create(directory, "t", 1, {"retention.ms": "5"})
    disk.plan = fail_at(disk.calls + 2)
    directory.configure(topic, {"retention.ms": "6"}, told.append)
    assert [error.code for error in told] == [ErrorCode.KAFKA_STORAGE_ERROR]
    assert "the topic t cannot be configured" in caplog.text
    assert topic.configs == on(disk.crash()).topics["t"].configs == {"retention.ms": "5"}


def test_changes_of_a_topic_come_one_after_the_other_and_not_after_its_deletion():
    work, told = HeldWork(), []
    directory = on(MemoryDisk(), work)
    directory.create("t", 1, {}, lambda made: None)
    work.run()
    topic = directory.topics["t"]
    directory.configure(topic, {"retention.ms": "5"}, told.append)
    directory.configure(topic, {"flush.ms": "5"}, told.append)
    directory.delete(topic, told.append)
    for _ in range(2000):
        directory.configure(topic, {"flush.ms": "6"}, told.append)
    work.run()
    assert (told[:3], topic.configs) == ([topic, topic, None], {"retention.ms": "5", "flush.ms": "5"})
    assert {error.code for error in told[3:]} == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}


def test_more_partitions_outlive_a_crash_and_an_earlier_deletion_takes_all_of_them():
    disk = MemoryDisk()
    directory = on(disk)
    topic = create(directory, "t", 1, {"retention.ms": "5"})
    told = []
    directory.add_partitions(topic, 3, told.append)
    assert told == [topic]
    assert [log.folder for log in directory.of(topic.name).values()] == ["t-0", "t-1", "t-2"]
    assert {log.config.retention_ms for log in directory.of(topic.name).values()} == {5}
    assert {log.on_sealed for log in directory.of(topic.name).values()} == {directory.checkpoint}
    for seed in range(4):
        assert len(on(disk.crash(seed)).of("t")) == 3
    directory.delete(topic, told.append)
    assert disk.names("topics") == []
    assert not [name for name in disk.names("") if name.startswith("t-")]


def test_partitions_that_cannot_be_made_are_reported_and_leave_nothing(caplog):
    disk, told = MemoryDisk(), []
    directory = on(disk)
    topic = create(directory, "t", 1)
    disk.plan = fail_at(disk.calls + 12, errno.ENOSPC)
    directory.add_partitions(topic, 3, told.append)
    assert [error.code for error in told] == [ErrorCode.KAFKA_STORAGE_ERROR]
    assert "the topic t cannot be given more partitions" in caplog.text
    assert topic.partitions == 1
    assert [name for name in disk.names("") if name.startswith("t-")] == ["t-0"]
    directory.add_partitions(topic, 2, told.append)
    assert topic.partitions == len(on(disk.crash()).of("t")) == 2
