"""The progress of compaction is written to Kafka's checkpoint file, but only for existing logs.

Method: use a directory on an in-memory disk.
"""

from kafkawire.reference_broker.metadata.topic_store import open_alone
from kafkawire.reference_broker.storage.cleaning.background_jobs import BackgroundJobs
from kafkawire.reference_broker.storage.cleaning.cleaner_checkpoint import CleanerCheckpoint
from kafkawire.reference_broker.storage.disk.disk import read_file, write_file
from kafkawire.reference_broker.storage.disk.memory import MemoryDisk
from kafkawire.reference_broker.storage.services import LogServices
from kafkawire.reference_broker.work.background_queue import BackgroundQueue
from tests.reference_broker.storage.held_work import HeldWork

FILE = "cleaner-offset-checkpoint"


def filled():
    store = open_alone(LogServices(MemoryDisk()), 1, lambda: bytes(15) + b"\x01")
    store.create("t", 2, {}, lambda topic: None)
    return store, store.directory.services.disk


def note(checkpoint, log, offset):
    failed = []
    BackgroundJobs().add(checkpoint.note(log, offset), failed.append)
    return failed


def test_offsets_are_kept():
    store, disk = filled()
    first, second = store.directory.of("t").values()
    checkpoint = CleanerCheckpoint(store.directory)
    second.log_start_offset = 3
    first.next_offset, second.next_offset = 5, 8
    assert [checkpoint.offset_of(log) for log in (first, second)] == [0, 3]
    note(checkpoint, second, 7)
    note(checkpoint, first, 5)
    assert read_file(disk, FILE) == b"0\n2\nt 0 5\nt 1 7\n"
    again = CleanerCheckpoint(store.directory)
    assert [again.offset_of(log) for log in (first, second)] == [5, 7]


def test_topic_of_the_same_name_begins_anew():
    store, disk = filled()
    checkpoint = CleanerCheckpoint(store.directory)
    note(checkpoint, store.directory.of("t")[0], 5)
    store.delete(store.topics["t"], lambda error: None)
    store.create("t", 2, {}, lambda topic: None)
    first, second = store.directory.of("t").values()
    assert checkpoint.offset_of(first) == 0
    assert CleanerCheckpoint(store.directory).offset_of(first) == 0, "this is also true after a restart"
    note(checkpoint, second, 1)
    assert read_file(disk, FILE) == b"0\n1\nt 1 1\n"


def test_topic_that_goes_while_its_entry_waits_leaves_none():
    store, disk = filled()
    topic = store.topics["t"]
    checkpoint = CleanerCheckpoint(store.directory)
    work = HeldWork()
    store.directory.queue = BackgroundQueue(work)
    store.delete(topic, lambda error: None)
    note(checkpoint, store.directory.of(topic.name)[0], 5)
    store.create("t", 2, {}, lambda topic: None)
    work.run()
    assert store.topics["t"] is not topic
    assert read_file(disk, FILE) in (None, b"0\n0\n")


def test_entries_of_topics_that_are_gone_go_at_the_start():
    store, disk = filled()
    store.directory.abandon()
    write_file(disk, FILE, b"0\n2\ngone 0 5\nt 1 7\n")
    open_alone(store.directory.services, 1, lambda: bytes(15) + b"\x01")
    assert read_file(disk, FILE) == b"0\n1\nt 1 7\n"


def test_log_that_ends_before_what_was_compacted():
    store, disk = filled()
    write_file(disk, FILE, b"0\n1\nt 1 7\n")
    assert CleanerCheckpoint(store.directory).offset_of(store.directory.of("t")[1]) == 0


def test_damaged_file_lets_logs_be_compacted_again(caplog):
    store, disk = filled()
    write_file(disk, FILE, b"nonsense")
    assert CleanerCheckpoint(store.directory).offset_of(store.directory.of("t")[0]) == 0
    assert "logs are compacted again" in caplog.text
