"""The checkpoints of a directory are correct, even for offline logs, and do not mention deleted topics.

Method: use a directory on an in-memory disk, and close it, or abandon it as in a crash.
"""

import errno

import pytest

from kafkawire.reference_broker.metadata.topic_store import TopicStore
from kafkawire.reference_broker.storage.batches import parse_header
from kafkawire.reference_broker.storage.cleaning.cleaner_checkpoint import CleanerCheckpoint
from kafkawire.reference_broker.storage.directory.identity import take_identity_alone
from kafkawire.reference_broker.storage.directory.log_directory import LogDirectory, lock_directory
from kafkawire.reference_broker.storage.disk.disk import read_file, write_file
from kafkawire.reference_broker.storage.disk.memory import MemoryDisk, PowerCut, cut_power_at, fail_at
from kafkawire.reference_broker.storage.log.recovery import open_segments
from kafkawire.reference_broker.storage.log.truncation import Truncation, begin_truncation
from kafkawire.reference_broker.storage.services import LogServices
from kafkawire.reference_broker.work.background import at_once
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.protocol.uuids import ZERO_UUID
from tests.reference_broker.storage.compacting import compact, entries_of
from tests.reference_broker.storage.directories import append, create, create_logs, on
from tests.reference_broker.storage.held_work import HeldWork
from tests.reference_broker.storage.produced_batches import NOW_MS, produced


def test_offline_log_keeps_its_place_in_the_checkpoints():
    disk = MemoryDisk()
    store = on(disk)
    topic = create(store, "t", 1, {"flush.messages": "1"})
    for _ in range(3):
        append(store.directory.of(topic.name)[0], b"x")
    store.directory.of(topic.name)[0].begin_at(2)
    store.directory.of(topic.name)[0].roll(lambda: None)
    store.directory.checkpoint()
    store.directory.of(topic.name)[0].fail(OSError("gone"))
    create(store, "other", 1)
    store.directory.checkpoint()
    assert read_file(disk, "recovery-point-offset-checkpoint") == b"0\n2\nother 0 0\nt 0 3\n"
    assert read_file(disk, "log-start-offset-checkpoint") == b"0\n1\nt 0 2\n"


def test_no_checkpoint_passes_indexes_that_are_not_durable():
    """Otherwise, the next startup would trust old files, and retention would derive a segment's age from them."""
    disk, configs = MemoryDisk(), {"flush.messages": "1", "retention.ms": "1000"}
    store = on(disk)
    append(create_logs(store, "t", 1, configs)[0], b"old")
    store.directory.close()
    disk, work = disk.crash(), HeldWork()
    store = on(disk, work)
    (log,) = store.directory.of("t").values()
    data = produced(b"young", timestamps=(NOW_MS + 10_000,))
    log.append(data, parse_header(data), NOW_MS, lambda appended: None)
    work.run()
    store.directory.checkpoint()
    work.run()
    log.roll(lambda: None)
    work.run(1)  # the file exists, but its sync has not begun
    (again,) = on(disk.crash()).directory.of("t").values()
    assert [segment.base_offset for segment in again.segments] == [0, 2]
    assert again.segments.first.highest_timestamp() == NOW_MS + 10_000


def test_topic_does_not_begin_where_one_of_its_name_did():
    disk, work = MemoryDisk(), HeldWork()
    store = on(disk)
    topic = create(store, "t", 1, {"flush.messages": "1"})
    for _ in range(3):
        append(store.directory.of(topic.name)[0], b"x")
    store.directory.of(topic.name)[0].begin_at(2)
    store.directory.checkpoint()
    store.directory.close()
    store = on(disk, work)
    store.delete(store.topics["t"], lambda error: None)
    made = []
    store.create("t", 1, {"flush.messages": "1"}, made.append)
    while not made:
        work.run(1)
    append(store.directory.of("t")[0], b"new")
    again = on(disk.crash())
    (log,) = again.directory.of("t").values()
    assert (log.log_start_offset, log.next_offset) == (0, 1)


FILES = ("log-start-offset-checkpoint", "recovery-point-offset-checkpoint", "cleaner-offset-checkpoint")


def with_entries(disk, work=at_once):
    """Return a directory with a topic that is in all files, as after a restart."""
    store = on(disk)
    topic = create(store, "t")
    for _ in range(3):
        append(store.directory.of(topic.name)[0], b"x")
    store.directory.of(topic.name)[0].begin_at(2)
    store.directory.close()
    write_file(disk, "cleaner-offset-checkpoint", b"0\n1\nt 0 3\n")
    return on(disk, work)


def entries(disk):
    return [path for path in FILES if b"t 0" in (read_file(disk, path) or b"")]


def full_for(path):
    def plan(call):
        if call.path == f"{path}.tmp" and call.name == "append":
            raise OSError(errno.ENOSPC, "No space left on device", call.path)

    return plan


def test_crash_right_after_a_deletion_leaves_no_entries():
    disk, work = MemoryDisk(), HeldWork()
    store = with_entries(disk, work)
    told = []
    store.delete(store.topics["t"], told.append)
    work.run(1)
    assert (told, entries(disk)) == ([None], list(FILES))
    disk = disk.crash()
    store = on(disk)
    assert entries(disk) == []
    append(create_logs(store, "t")[0], b"new")
    (log,) = on(disk.crash()).directory.of("t").values()
    assert (log.log_start_offset, log.next_offset) == (0, 1)


@pytest.mark.parametrize("path", FILES)
def test_entries_that_could_not_be_dropped_go_before_a_topic_of_their_name_comes(path, caplog):
    disk = MemoryDisk()
    store = with_entries(disk)
    disk.plan = full_for(path)
    told = []
    store.delete(store.topics["t"], told.append)
    assert (told, path in entries(disk)) == ([None], True)
    assert "could not remove the entries of deleted topics from the checkpoints: [Errno 28] No space" in caplog.text
    assert not [name for name in disk.names("") if name.startswith("t-")], "files are removed, which frees space"
    store.create("t", 1, {}, told.append)
    assert told[1].code == ErrorCode.KAFKA_STORAGE_ERROR
    append(create_logs(store, "other")[0], b"another name")
    store.directory.abandon()
    store = on(disk)
    assert store.topics.keys() == {"other"}, "this does not prevent startup"
    disk.plan = None
    create(store, "t")
    assert (entries(disk), store.directory.checkpoints.recovery_points.get(("t", 0))) == ([], None)
    append(store.directory.of("t")[0], b"new")
    (log,) = on(disk.crash()).directory.of("t").values()
    assert (log.log_start_offset, log.next_offset) == (0, 1)


@pytest.mark.parametrize("path", FILES)
@pytest.mark.parametrize("is_written", [False, True])
def test_write_of_which_nobody_knows_whether_it_is_durable_is_repeated(path, is_written):
    """The new file was renamed, but the sync failed, so a power cut may restore the old file."""
    disk = MemoryDisk()
    store = with_entries(disk)
    renamed = []

    def plan(call):
        if call.name == "rename" and call.path == f"{path}.tmp":
            renamed.append(call)
        elif call.name == "sync_folder" and call.path == "" and renamed:
            raise OSError(errno.EIO, "Input/output error", call.path)

    disk.plan = plan
    store.delete(store.topics["t"], lambda error: None)
    assert renamed
    if is_written:
        store.directory.checkpoint()
    disk.plan = None
    create(store, "t")
    for seed in range(10):
        assert entries(disk.crash(seed)) == []


def test_topics_that_are_deleted_together_are_dropped_together():
    disk, work = MemoryDisk(), HeldWork()
    store = on(disk)
    for number in range(20):
        append(create_logs(store, f"t{number}")[0], b"x")
    store.directory.close()
    store = on(disk, work)
    told, written = [], []
    disk.plan = lambda call: written.append(call) if call.path == "recovery-point-offset-checkpoint.tmp" else None
    for topic in list(store.topics.values())[:19]:
        store.delete(topic, told.append)
    work.run()
    assert told == [None] * 19
    assert len([call for call in written if call.name == "rename"]) <= 2
    assert read_file(disk, "recovery-point-offset-checkpoint") == b"0\n1\nt9 0 1\n"
    assert disk.names("topics") == ["t9.topic"]


def test_start_is_written_again_for_the_next_topic_of_a_name():
    disk = MemoryDisk()
    store = with_entries(disk)
    store.directory.checkpoint()
    store.delete(store.topics["t"], lambda error: None)
    log = create_logs(store, "t")[0]
    for _ in range(3):
        append(log, b"x")
    log.begin_at(2)
    store.directory.checkpoint()
    assert read_file(disk, "log-start-offset-checkpoint") == b"0\n1\nt 0 2\n"


def test_those_who_wait_for_a_checkpoint_are_told():
    disk, work = MemoryDisk(), HeldWork()
    store = on(disk, work)
    told = []
    for name in "abc":
        store.directory.checkpoint(lambda error, name=name: told.append((name, error and error.code)))
    work.run(1)
    assert told == [("a", None)]
    disk.plan = fail_at(disk.calls + 1)
    work.run()
    assert told[1:] == [("b", ErrorCode.KAFKA_STORAGE_ERROR), ("c", ErrorCode.KAFKA_STORAGE_ERROR)]


def with_a_gap(disk):
    """Return a directory with a compacted log in which a segment begins after a gap."""
    store = on(disk)
    configs = {"cleanup.policy": "compact", "flush.messages": "1"}
    small = {"segment.index.bytes": "12", "index.interval.bytes": "0"}  # else the remaining batches become one segment
    log = create_logs(store, "t", 1, configs | small)[0]
    for key in (b"a", b"b"):
        data = produced(b"v", key=key)
        log.append(data, parse_header(data), NOW_MS, lambda result: None)
    log.roll(lambda: None)
    data = produced(b"v", key=b"b")
    log.append(data, parse_header(data), NOW_MS, lambda result: None)
    log.roll(lambda: None)
    append(log, b"end")
    store.directory.checkpoint()
    compact(log, store.directory.services)
    assert [offset for offset, _, _ in entries_of(log)] == [0, 2, 3]
    return store


def test_recovery_points_do_not_go_back_where_indexes_are_made_anew():
    """Otherwise, the compacted log would be cut off at its first gap."""
    disk = MemoryDisk()
    store = with_a_gap(disk)
    (log,) = store.directory.of("t").values()
    for name in disk.names("t-0"):
        if name.endswith((".index", ".timeindex")):
            disk.remove(f"t-0/{name}")
    log.read(0, 1, at_least_one=True)
    assert not log.segments.first.is_stored
    store.directory.checkpoint()
    (log,) = on(disk.crash()).directory.of("t").values()
    assert [offset for offset, _, _ in entries_of(log)] == [0, 2, 3]


@pytest.mark.parametrize("policy", ["compact", "delete"])
@pytest.mark.parametrize("is_damaged", [False, True])
def test_gaps_outlive_lost_recovery_points_and_the_next_checkpoint(is_damaged, policy):
    disk = MemoryDisk()
    store = with_a_gap(disk)
    store.configure(store.topics["t"], {"cleanup.policy": policy}, lambda changed: None)
    path = "recovery-point-offset-checkpoint"
    write_file(disk, path, b"0\n") if is_damaged else disk.remove(path)
    for _ in range(2):
        disk = disk.crash()
        store = on(disk)
        store.directory.checkpoint()
        assert read_file(disk, path) == b"0\n1\nt 0 3\n"
        assert [offset for offset, _, _ in entries_of(store.directory.of("t")[0])] == [0, 2, 3]


def test_gaps_outlive_lost_recovery_points_of_a_log_that_is_offline():
    disk = MemoryDisk()
    with_a_gap(disk)
    disk.remove("recovery-point-offset-checkpoint")
    disk = disk.crash()
    store = on(disk)
    store.directory.of("t")[0].fail(OSError("gone"))
    append(create_logs(store, "other")[0], b"x")
    store.directory.close()
    store = on(disk.crash())
    assert [offset for offset, _, _ in entries_of(store.directory.of("t")[0])] == [0, 2, 3]
    assert store.directory.of("other")[0].next_offset == 1


@pytest.mark.parametrize("is_lost", [False, True])
def test_log_that_no_checkpoint_names_was_not_compacted(is_lost):
    """A gap in such a log is damage, as in any other log, unless the checkpoint file is missing."""
    disk = MemoryDisk()
    store = on(disk)
    log = create_logs(store, "t", 1, {"cleanup.policy": "compact"})[0]
    append(log, b"a")
    log.roll(lambda: None)
    append(log, b"b")
    write_file(disk, "t-0/00000000000000000000.log", b"")
    disk = disk.crash()
    write_file(disk, "recovery-point-offset-checkpoint", b"0\n0\n")
    if is_lost:
        disk.remove("recovery-point-offset-checkpoint")
    assert on(disk).directory.of("t")[0].next_offset == (2 if is_lost else 0)


def test_recovery_points_that_were_lost_once_are_written_again_whatever_new_log_goes_offline():
    disk = MemoryDisk()
    create(on(disk), "t", 1, {"flush.messages": "1"})
    disk.remove("recovery-point-offset-checkpoint")
    disk = disk.crash()
    store = on(disk)
    store.directory.checkpoint()
    create_logs(store, "other")[0].fail(OSError("gone"))
    (log,) = store.directory.of("t").values()
    append(log, b"x")
    log.roll(lambda: None)
    store.directory.checkpoint()
    assert read_file(disk, "recovery-point-offset-checkpoint") == b"0\n1\nt 0 1\n"


def test_new_directory_has_a_checkpoint_at_once():
    disk = MemoryDisk()
    on(disk)
    for seed in range(8):
        assert read_file(disk.crash(seed), "recovery-point-offset-checkpoint") == b"0\n0\n"


@pytest.mark.parametrize("name", ["log-start-offset-checkpoint", "recovery-point-offset-checkpoint"])
def test_offset_that_no_log_has_does_not_empty_it(name, caplog):
    """Such a log used to be deleted and restarted in a file whose name had 21 digits."""
    disk = MemoryDisk()
    store = on(disk)
    append(create_logs(store, "t")[0], b"x")
    store.directory.close()
    write_file(disk, name, b"0\n1\nt 0 %d\n" % 10**20)
    for _ in range(2):
        store = on(disk)
        (log,) = store.directory.of("t").values()
        assert (log.next_offset, log.segments.base_offsets) == (1, [0])
        store.directory.close()
    assert f"is too high; the limit is {2**63 - 1}" in caplog.text


@pytest.mark.defect
def test_defect_of_one_log_does_not_stop_the_start(monkeypatch, caplog):
    disk = MemoryDisk()
    store = on(disk)
    for name in ("good", "t"):
        append(create_logs(store, name)[0], b"x")
    store.directory.close()

    def fail_one(*arguments, **options):
        if arguments[1] == "t-0":
            raise OverflowError("a defect")
        return open_segments(*arguments, **options)

    monkeypatch.setattr("kafkawire.reference_broker.storage.log.opening.open_segments", fail_one)
    store = on(disk)
    logs = {name: log for name, _, log in store.directory.logs()}
    assert (logs["good"].next_offset, logs["t"].is_offline) == (1, True)
    append(logs["good"], b"y")
    assert "t-0: the log cannot be opened" in caplog.text
    assert "Traceback" in caplog.text
    store.directory.close()
    monkeypatch.undo()
    store = on(disk)
    assert {name: log.next_offset for name, _, log in store.directory.logs()} == {"good": 2, "t": 1}
    assert not store.directory.was_clean


def test_a_data_directory_of_its_own_has_no_strays(caplog):
    disk = MemoryDisk()
    for _ in range(2):
        store = on(disk)
        create(store, f"t{len(store.topics)}", 2)
        store.directory.producer_ids.reserve(1)
        store.directory.close()
    assert not caplog.records


# In a cluster.


def clustered(disk, work=at_once):
    """Return the topics of a cluster broker, whose logs are replicas, as if they were in a single broker's store."""
    services = LogServices(disk, work)
    lock = lock_directory(disk)
    identity = take_identity_alone(disk, 1, lambda: ZERO_UUID)
    directory = LogDirectory(services, lock, is_replicated=True)
    return TopicStore(directory, str(identity.cluster_id), lambda: bytes(15) + b"\1")


def test_high_watermarks_are_kept_in_a_cluster():
    disk = MemoryDisk()
    store = clustered(disk)
    (log,) = create_logs(store, "t", 1)
    log.lead(3)
    for _ in range(3):
        append(log, b"x")
    assert log.high_watermark == 0
    log.set_high_watermark(2)
    store.directory.checkpoint()
    assert read_file(disk, "replication-offset-checkpoint") == b"0\n1\nt 0 2\n"
    store = clustered(disk.crash())
    (log,) = store.directory.of("t").values()
    assert (log.high_watermark, log.next_offset, log.leader_epoch) == (2, 3, 3)
    store.directory.close()


def test_single_broker_has_no_high_watermarks():
    disk = MemoryDisk()
    store = on(disk)
    append(create_logs(store, "t", 1)[0], b"x")
    store.directory.checkpoint()
    assert "replication-offset-checkpoint" not in disk.names("")


def test_truncation_lowers_every_checkpoint():
    disk = MemoryDisk()
    store = clustered(disk)
    cleaner = CleanerCheckpoint(store.directory)
    (log,) = create_logs(store, "t", 1, {"segment.bytes": "200"})
    log.lead(0)
    for _ in range(9):
        append(log, b"x" * 30)
    log.set_high_watermark(9)
    store.directory.checkpoint()
    for _ in cleaner.note(log, 8):
        _(lambda error: None)
    assert read_file(disk, "cleaner-offset-checkpoint") == b"0\n1\nt 0 8\n"
    told = []
    log.truncate_to(5, told.append)
    assert told == [None]
    assert cleaner.offset_of(log) == 5
    assert read_file(disk, "cleaner-offset-checkpoint") == b"0\n1\nt 0 5\n"
    assert read_file(disk, "recovery-point-offset-checkpoint") == b"0\n1\nt 0 4\n"
    assert read_file(disk, "replication-offset-checkpoint") == b"0\n1\nt 0 5\n"


@pytest.mark.parametrize("seed", [None, 1, 2, 3])
def test_truncation_that_a_crash_has_interrupted_is_completed_with_all_checkpoints(seed):
    def begun():
        disk = MemoryDisk()
        store = clustered(disk)
        (log,) = create_logs(store, "t", 1, {"segment.bytes": "200", "flush.messages": "1"})
        log.lead(0)
        for _ in range(9):
            append(log, b"x" * 30)
        log.set_high_watermark(9)
        store.directory.checkpoint()
        return disk, log

    disk, log = begun()
    before = disk.calls
    log.truncate_to(3, lambda error: None)
    ends = set()
    for number in range(before + 1, disk.calls + 1):
        disk, log = begun()
        disk.plan = cut_power_at(number)
        with pytest.raises(PowerCut):
            log.truncate_to(3, lambda error: None)
        disk = disk.crash(seed)
        store = clustered(disk)
        (log,) = store.directory.of("t").values()
        ends.add(log.next_offset)
        points = read_file(disk, "recovery-point-offset-checkpoint")
        assert points is not None
        assert int(points.split()[-1]) <= log.next_offset
        assert ".truncation" not in disk.names("t-0")
        append(log, b"new")
        log.sync()
        disk = disk.crash(number)
        assert clustered(disk).directory.of("t")[0].next_offset == log.next_offset
    assert ends == {3, 9}


def test_logs_of_a_broker_that_was_alone_are_committed_when_it_joins_a_cluster():
    disk = MemoryDisk()
    store = on(disk)
    (log,) = create_logs(store, "t", 1)
    for _ in range(3):
        append(log, b"x")
    store.directory.close()
    (log,) = clustered(disk).directory.of("t").values()
    assert (log.high_watermark, log.next_offset, log.is_replicated) == (3, 3, True)


def test_first_checkpoint_of_a_cluster_never_says_that_followers_have_more():
    def begun():
        disk = MemoryDisk()
        store = clustered(disk)
        (log,) = create_logs(store, "t", 1, {"flush.messages": "1"})
        append(log, b"x")
        return disk, store

    disk, store = begun()
    before = disk.calls
    store.directory.checkpoint()
    for number in range(before + 1, disk.calls + 1):
        disk, store = begun()
        disk.plan = cut_power_at(number)
        with pytest.raises(PowerCut):
            store.directory.checkpoint()
        (log,) = clustered(disk.crash(number)).directory.of("t").values()
        assert (log.high_watermark, log.next_offset) == (0, 1)


def test_truncated_logs_share_a_checkpoint():
    disk, work = MemoryDisk(), HeldWork()
    store = clustered(disk, work)
    store.create("t", 9, {}, lambda topic: None)
    work.run()
    told: list[int] = []
    for number, log in store.directory.of("t").items():
        append(log, b"x")
        log.truncate_to(0, lambda error, number=number: told.append(number))
    work.run(9)
    writes = []
    disk.plan = lambda call: writes.append(call.path) if "recovery-point" in call.path else None
    work.run()
    assert told == list(range(9))
    assert len([path for path in writes if path.endswith("recovery-point-offset-checkpoint")]) <= 2


def test_full_disk_takes_only_truncated_logs_offline_at_startup():
    disk = MemoryDisk()
    store = clustered(disk)
    for log in create_logs(store, "t", 2):
        append(log, b"x")
        log.sync()
    store.directory.close()
    begin_truncation(disk, "t-0", Truncation(0, 0))

    def full(call):
        if call.path.startswith("recovery-point") and call.name == "create":
            raise OSError(28, "planned", call.path)

    disk.plan = full
    logs = [*clustered(disk).directory.of("t").values()]
    assert [log.is_offline for log in logs] == [True, False]
