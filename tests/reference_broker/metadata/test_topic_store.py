"""A single broker remembers its identity and its topics; changes to topics are atomic, and are made one after another.

Method: create directories, close them, tamper with them and reopen them; delay background work.
"""

import errno
from itertools import count

import pytest

from kafkawire.reference_broker.metadata.topic_store import open_alone
from kafkawire.reference_broker.storage.disk.disk import write_file
from kafkawire.reference_broker.storage.disk.machine import MachineDisk
from kafkawire.reference_broker.storage.disk.memory import MemoryDisk, PowerCut, cut_power_at, fail_at
from kafkawire.reference_broker.storage.services import LogServices
from kafkawire.sdk.errors import ConfigurationError
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from tests.reference_broker.replicas.leading import leading
from tests.reference_broker.storage.directories import append, create, create_logs, on
from tests.reference_broker.storage.held_work import HeldWork


@pytest.fixture
def reopen(tmp_path):
    numbers = count(1)

    last = []

    def reopen(node_id=1, **defaults):
        if last:
            last.pop().abandon()
        services = LogServices(MachineDisk(tmp_path))
        store = open_alone(services, node_id, lambda: next(numbers).to_bytes(16, "big"), defaults)
        last.append(store.directory)
        return store

    return reopen


def test_identity(reopen, tmp_path):
    cluster_id = reopen().cluster_id
    assert reopen().cluster_id == cluster_id
    assert f"cluster.id={cluster_id}\n" in (tmp_path / "meta.properties").read_text()
    with pytest.raises(ConfigurationError, match="belongs to node 1"):
        reopen(2)


def test_topics_come_back(reopen, tmp_path):
    store = reopen()
    made = create(store, "a.b-c_d", 2, {"segment.bytes": "2000000"})
    append(store.directory.of(made.name)[1], b"x")
    store.directory.close()
    assert (tmp_path / ".kafka_cleanshutdown").exists()
    again = reopen()
    assert again.directory.was_clean
    assert not (tmp_path / ".kafka_cleanshutdown").exists()
    topic = again.topics["a.b-c_d"]
    assert (topic.topic_id, topic.configs) == (made.topic_id, {"segment.bytes": "2000000"})
    assert again.topics_by_id[made.topic_id] is topic
    assert [log.next_offset for log in again.directory.of(topic.name).values()] == [0, 1]
    assert again.directory.of(topic.name)[0].config.segment_bytes == 2_000_000
    assert "topic_id: " in (tmp_path / "a.b-c_d-1" / "partition.metadata").read_text()


def test_defaults_of_the_broker(reopen):
    store = reopen(**{"segment.bytes": "3000000"})
    assert create_logs(store, "t", 1, {})[0].config.segment_bytes == 3_000_000


def test_defaults_that_change_while_logs_are_created():
    work, told = HeldWork(), []
    store = on(MemoryDisk(), work)
    store.create("t", 1, {"flush.ms": "9"}, told.append)
    store.change_defaults({"retention.ms": "5"})
    work.run()
    store.add_partitions(told[0], 2, told.append)
    store.change_defaults({"retention.ms": "6", "flush.ms": "8"})
    assert [log.config.retention_ms for log in store.directory.of("t").values()] == [6]
    work.run()
    configs = [log.config for log in store.directory.of("t").values()]
    assert [(config.retention_ms, config.flush_ms) for config in configs] == [(6, 9), (6, 9)]


def test_crash_between_topic_file_and_folders(reopen, tmp_path):
    create(reopen(), "t", 3, {})
    for path in (tmp_path / "t-2").iterdir():
        path.unlink()
    (tmp_path / "t-2").rmdir()
    assert len(reopen().directory.of("t")) == 3


def test_delete(reopen, tmp_path):
    store = reopen()
    topic = create(store, "t", 2, {})
    piece = None
    append(store.directory.of(topic.name)[0], b"x")
    piece = store.directory.of(topic.name)[0].read(0, 1000, at_least_one=True).records
    assert piece is not None
    deleted = []
    store.delete(topic, deleted.append)
    assert deleted == [None]
    assert not store.topics
    assert not store.topics_by_id
    assert not list(tmp_path.glob("t-*"))
    assert b"x" in piece.read(), "a fetch that is being sent continues"
    assert not reopen().topics


def test_start_that_fails_lets_go_of_the_directory(tmp_path):
    on(MachineDisk(tmp_path)).directory.close()
    for _ in range(2):
        with pytest.raises(ConfigurationError, match="belongs to node 1"):
            on(MachineDisk(tmp_path), node_id=2)


def test_start_with_another_id_does_not_make_the_next_one_unclean():
    disk = MemoryDisk()
    on(disk).directory.close()
    with pytest.raises(ConfigurationError, match="belongs to node 1"):
        on(disk, node_id=2)
    assert on(disk).directory.was_clean


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
    on(disk).directory.close()
    write_file(disk, "meta.properties", content)
    with pytest.raises(ConfigurationError, match=f"memory:meta.properties is damaged: .*{why}"):
        on(disk)


def test_missing_identity_of_a_directory_with_partitions_is_refused():
    disk = MemoryDisk()
    store = on(disk)
    create(store, "t")
    store.directory.close()
    disk.remove("meta.properties")
    with pytest.raises(ConfigurationError, match="the file is missing, although the data directory has partitions"):
        on(disk)


def test_first_start_may_be_interrupted_by_a_power_cut():
    disk = MemoryDisk()
    on(disk)
    for number in range(1, disk.calls + 1):
        for seed in range(4):
            disk = MemoryDisk()
            disk.plan = cut_power_at(number)
            with pytest.raises(PowerCut):
                on(disk)
            assert on(disk.crash(seed)).directory.producer_ids.reserve(1) == 0, "no ids have been reserved"


def test_creating_waits_for_the_disk():
    work = HeldWork()
    store = on(MemoryDisk(), work)
    made = []
    store.create("t", 2, {}, made.append)
    assert not store.topics
    work.run()
    assert made == [store.topics["t"]]
    assert len(store.directory.of("t")) == 2


def test_creating_that_fails_is_reported_and_leaves_nothing(caplog):
    disk, work = MemoryDisk(), HeldWork()
    store = on(disk, work)
    results = []
    store.create("t", 2, {}, results.append)
    disk.plan = fail_at(disk.calls + 12, errno.ENOSPC)
    work.run()
    (error,) = results
    assert error.code == ErrorCode.KAFKA_STORAGE_ERROR
    assert "could not create the topic t" in caplog.text
    assert not store.topics
    assert [name for name in disk.names("") if name.startswith("t-")] == []
    store.create("t", 1, {}, results.append)
    work.run()
    assert results[1] is store.topics["t"]


def test_steps_come_one_after_the_other():
    """A topic with the same name is created only after the folders of the old one have been moved away."""
    disk, work = MemoryDisk(), HeldWork()
    store = on(disk, work)
    results = []
    store.create("t", 1, {}, results.append)
    work.run()
    old = store.topics["t"]
    append(store.directory.of(old.name)[0], b"old")
    store.delete(old, results.append)
    store.create("other", 1, {}, results.append)
    assert len(work.pending) == 1
    work.run(1)
    assert results[1:] == [None]
    assert "t" not in store.topics
    store.create("t", 1, {}, results.append)
    work.run()
    new = store.topics["t"]
    assert (results[2].name, results[3]) == ("other", new)
    assert (store.directory.of(new.name)[0].next_offset, new.topic_id != old.topic_id) == (0, True)
    assert disk.names("topics") == ["other.topic", "t.topic"]
    assert not [name for name in disk.names("") if name.endswith(("-delete", "-stray"))]


def test_topics_are_gone_with_the_directory():
    store = on(MemoryDisk())
    for name in ("a", "b"):
        create(store, name)
    store.directory.abandon()
    store.abandon()
    assert (store.topics, store.topics_by_id, [*store.directory.logs()]) == ({}, {}, [])


def test_deleting_twice():
    work = HeldWork()
    store = on(MemoryDisk(), work)
    store.create("t", 1, {}, lambda result: None)
    work.run()
    results = []
    for _ in range(2):
        store.delete(store.topics["t"], results.append)
    work.run()
    assert results[0] is None
    assert results[1].code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_those_who_wait_for_a_deleted_topic_are_answered():
    work = HeldWork()
    store = on(MemoryDisk(), work)
    store.create("t", 1, {"flush.messages": "1"}, lambda result: None)
    work.run()
    (log,) = store.directory.of("t").values()
    replica = leading(log)
    append(log, b"x")
    told = []
    replica.when_reached(1, told.append)
    store.delete(store.topics["t"], lambda result: None)
    work.pending.popleft()  # the sync hangs
    work.run()
    assert told[0].code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_undecided_deletion_takes_the_topic_offline(caplog):
    disk = MemoryDisk()
    store = on(disk)
    topic = create(store, "t")

    def plan(call):
        if call.name == "sync_folder":
            raise OSError(5, "gone")

    disk.plan = plan
    results = []
    store.delete(topic, results.append)
    assert results[0].code == ErrorCode.KAFKA_STORAGE_ERROR
    assert store.directory.of(topic.name)[0].is_offline
    assert "the topic t cannot be deleted: [Errno 5] gone" in caplog.text


def test_files_of_a_deleted_topic_that_cannot_be_removed(caplog):
    disk = MemoryDisk()
    store = on(disk)
    topic = create(store, "t")

    def plan(call):
        if call.name == "rename" and call.path == "t-0":
            raise OSError(5, "stuck")

    disk.plan = plan
    results = []
    store.delete(topic, results.append)
    assert results == [None]
    assert "files of a deleted topic remain until the next startup: [Errno 5] stuck" in caplog.text
    disk.plan = None
    again = on(disk.crash())
    assert not again.topics


def test_configurations_of_a_topic_outlive_a_crash():
    disk = MemoryDisk()
    store = on(disk)
    topic = create(store, "t", 1, {"retention.ms": "5", "segment.bytes": "1048576"})
    told = []
    store.configure(topic, {"retention.ms": None, "flush.ms": "9"}, told.append)
    configs = {"segment.bytes": "1048576", "flush.ms": "9"}
    assert told == [topic._replace(configs=configs)]
    assert store.topics == {"t": told[0]}
    for seed in range(4):
        again = on(disk.crash(seed))
        assert again.topics["t"].configs == configs
        assert again.directory.of("t")[0].config.flush_ms == 9


def test_configurations_that_cannot_be_written_are_reported(caplog):
    disk, told = MemoryDisk(), []
    store = on(disk)
    topic = create(store, "t", 1, {"retention.ms": "5"})
    disk.plan = fail_at(disk.calls + 2)
    store.configure(topic, {"retention.ms": "6"}, told.append)
    assert [error.code for error in told] == [ErrorCode.KAFKA_STORAGE_ERROR]
    assert "the topic t cannot be configured" in caplog.text
    assert store.topics["t"].configs == on(disk.crash()).topics["t"].configs == {"retention.ms": "5"}


def test_changes_of_a_topic_come_one_after_the_other_and_not_after_its_deletion():
    work, told = HeldWork(), []
    store = on(MemoryDisk(), work)
    store.create("t", 1, {}, lambda made: None)
    work.run()
    topic = store.topics["t"]
    store.configure(topic, {"retention.ms": "5"}, told.append)
    store.configure(topic, {"flush.ms": "5"}, told.append)
    store.delete(topic, told.append)
    for _ in range(2000):
        store.configure(topic, {"flush.ms": "6"}, told.append)
    work.run()
    configs = [topic.configs for topic in told[:2]]
    assert (configs, told[2]) == ([{"retention.ms": "5"}, {"retention.ms": "5", "flush.ms": "5"}], None)
    assert {error.code for error in told[3:]} == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}


def test_more_partitions_outlive_a_crash_and_an_earlier_deletion_takes_all_of_them():
    disk = MemoryDisk()
    store = on(disk)
    topic = create(store, "t", 1, {"retention.ms": "5"})
    told = []
    store.add_partitions(topic, 3, told.append)
    assert told == [store.topics["t"]] == [topic._replace(partitions=3)]
    assert [log.folder for log in store.directory.of(topic.name).values()] == ["t-0", "t-1", "t-2"]
    assert {log.config.retention_ms for log in store.directory.of(topic.name).values()} == {5}
    assert {log.on_sealed for log in store.directory.of(topic.name).values()} == {store.directory.checkpoint}
    for seed in range(4):
        assert len(on(disk.crash(seed)).directory.of("t")) == 3
    store.delete(topic, told.append)
    assert disk.names("topics") == []
    assert not [name for name in disk.names("") if name.startswith("t-")]


def test_partitions_that_cannot_be_made_are_reported_and_leave_nothing(caplog):
    disk, told = MemoryDisk(), []
    store = on(disk)
    topic = create(store, "t", 1)
    disk.plan = fail_at(disk.calls + 12, errno.ENOSPC)
    store.add_partitions(topic, 3, told.append)
    assert [error.code for error in told] == [ErrorCode.KAFKA_STORAGE_ERROR]
    assert "the topic t cannot be given more partitions" in caplog.text
    assert store.topics["t"].partitions == 1
    assert [name for name in disk.names("") if name.startswith("t-")] == ["t-0"]
    store.add_partitions(topic, 2, told.append)
    assert store.topics["t"].partitions == len(on(disk.crash()).directory.of("t")) == 2
