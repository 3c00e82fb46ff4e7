"""Topics are created and deleted atomically, no matter which call fails or when the power is cut.

Method: test the files alone, on an in-memory disk; one file per partition stands in for its records.
"""

import errno

import pytest

from kafkawire.reference_broker.metadata.topic_files import LocalTopic, TopicFiles, UndecidedError
from kafkawire.reference_broker.storage.checkpoints import DamagedFile
from kafkawire.reference_broker.storage.directory.partition_folders import PartitionFolders
from kafkawire.reference_broker.storage.disk.disk import read_file, remove_tree, write_file
from kafkawire.reference_broker.storage.disk.machine import MachineDisk
from kafkawire.reference_broker.storage.disk.memory import MemoryDisk, PowerCut, cut_power_at, fail_at
from kafkawire.sdk.storage.partitions import folder_of

FIRST = LocalTopic("t", b"1" * 16, 2, {"retention.ms": "5"})
SECOND = LocalTopic("t", b"2" * 16, 2, {})


def opened(disk, folders=None):
    return TopicFiles(disk, folders or PartitionFolders(disk))


def making(disk, topic, *, has_records=True):
    """Return a function that creates the folder of a partition, with or without a file of records."""

    def make_partition(number):
        PartitionFolders(disk).make((topic.name, number), topic.topic_id)
        if has_records:
            write_file(disk, f"{folder_of(topic.name, number)}/records", topic.topic_id)

    return make_partition


def create(disk, topic, folders=None):
    files = opened(disk, folders)
    files.create(topic, making(disk, topic))
    return files


def delete(disk, topic):
    files = opened(disk)
    files.begin_delete(topic)
    files.finish_delete(topic)


def started(disk):
    """Return the files after startup and all of its background work."""
    files = opened(disk)
    folders = PartitionFolders(disk)
    folders.remove(folders.retired())
    return files


def state(disk):
    """Return the topics, and for each partition's folder, the topic whose records are in it."""
    topics = started(disk).topics()
    folders = [name for name in disk.names("") if name.startswith("t-")]
    return topics, {name: read_file(disk, f"{name}/records") for name in folders}


def test_create_and_delete():
    disk = MemoryDisk()
    create(disk, FIRST)
    assert state(disk) == ([FIRST], {"t-0": b"1" * 16, "t-1": b"1" * 16})
    assert read_file(disk, "t-1/partition.metadata") == b"version: 0\ntopic_id: MTExMTExMTExMTExMTExMQ"
    delete(disk, FIRST)
    assert state(disk) == ([], {})
    assert disk.names("") == ["topics"]
    assert disk.names("topics") == []


def test_a_stop_leaves_the_rest_of_a_deletion_to_the_next_start():
    disk = MemoryDisk()
    topic = FIRST._replace(partitions=5)
    folders = PartitionFolders(disk)
    files = create(disk, topic, folders)
    files.begin_delete(topic)

    def stop(call):
        folders.is_ending |= call.name == "remove_folder"

    disk.plan = stop
    files.finish_delete(topic)
    left = [name for name in disk.names("") if name != "topics"]
    assert len(left) == 4, "the folder that was being removed is gone"
    assert disk.names("topics") == []
    create(disk, SECOND)
    later = disk.crash(0)
    folders = PartitionFolders(later)
    assert (opened(later).topics(), folders.retired()) == ([SECOND], left)
    assert set(later.names("")) == {"topics", "t-0", "t-1", *left}
    folders.remove(folders.retired())
    assert later.names("") == ["t-0", "t-1", "topics"]


@pytest.mark.parametrize("name", ["u.creating", "u.topic.tmp"])
def test_what_a_crash_left_is_removed(name):
    disk = MemoryDisk()
    create(disk, FIRST)
    (whole,) = disk.names("topics")
    content = read_file(disk, f"topics/{whole}") or b""
    nameless = [line for line in content.splitlines() if b"name" not in line]
    disk.open(f"topics/{name}", create=True).append(b"\n".join(nameless))
    assert opened(disk).topics() == [FIRST]
    assert disk.names("topics") == [whole]


def workload(disk):
    create(disk, FIRST)
    delete(disk, FIRST)
    create(disk, SECOND)


def calls_of(action):
    disk, calls = MemoryDisk(), []
    disk.plan = calls.append
    action(disk)
    return len(calls)


def test_power_goes_at_every_call():
    """Deleted topics used to reappear after a crash, with old records under the new id."""
    seen = set()
    for number in range(1, calls_of(workload) + 1):
        for seed in range(8):
            disk = MemoryDisk()
            disk.plan = cut_power_at(number)
            with pytest.raises(PowerCut):
                workload(disk)
            topics, records = state(disk.crash(seed))
            seen.add(tuple(topic.topic_id for topic in topics))
            assert topics in ([], [FIRST], [SECOND])
            for topic in topics:
                # The content of the files was not synced, so it may be lost, but it never belongs to another topic.
                assert set(records) == {"t-0", "t-1"}
                assert {content for content in records.values() if content} <= {topic.topic_id}
            if not topics:
                assert not records
    assert seen == {(), (FIRST.topic_id,), (SECOND.topic_id,)}


def test_what_is_written_down_last_is_durable_last():
    """A topic exists only after its folders do, and stops existing before they are removed."""
    disk, calls, failed = MemoryDisk(), [], []

    def plan(call):
        calls.append((call.name, call.path))
        is_renamed = len(calls) > 1 and calls[-2][0] == "rename" and calls[-2][1].endswith(".creating")
        if is_renamed and not failed:
            failed.append(len(calls))
            raise OSError(errno.EIO, "planned")

    disk.plan = plan
    with pytest.raises(OSError, match="planned"):
        create(disk, FIRST)
    (at,) = failed
    (synced, renamed, _), (removed, *after) = calls[at - 3 : at], calls[at : at + 2]
    assert (synced, renamed[0]) == (("sync_folder", ""), "rename")
    assert (removed[0], after) == ("remove", [("sync_folder", "topics")])


def test_every_call_of_creating_fails():
    count = calls_of(lambda disk: create(disk, FIRST))
    for number in range(calls_of(opened) + 1, count + 1):
        disk = MemoryDisk()
        disk.plan = fail_at(number)
        with pytest.raises(OSError, match="planned"):
            create(disk, FIRST)
        assert state(disk) == ([], {})
        assert disk.names("topics") == []
        for seed in range(4):
            assert state(disk.crash(seed)) == ([], {}), number
        create(disk, SECOND)
        assert state(disk)[0] == [SECOND]


def test_every_call_of_deleting_fails():
    kept = deleted = 0
    for number in range(1, 50):
        disk = MemoryDisk()
        files = create(disk, FIRST)
        disk.plan = fail_at(disk.calls + number)
        try:
            files.begin_delete(FIRST)
        except OSError:
            kept += 1
            for left in (disk, *(disk.crash(seed) for seed in range(4))):
                assert state(left)[0] == [FIRST], number
            continue
        try:
            files.finish_delete(FIRST)
        except OSError:
            deleted += 1
        disk.plan = None
        # Leftover folders are removed at the next startup, and are harmless until then.
        files.create(SECOND, making(disk, SECOND, has_records=False))
        for left in (disk, *(disk.crash(seed) for seed in range(4))):
            topics, records = state(left)
            assert topics == [SECOND], number
            assert set(records.values()) <= {None}, number
            assert not [name for name in left.names("") if name.endswith("-delete")]
    assert kept > 4
    assert deleted > 8


def test_deletion_that_can_neither_be_finished_nor_undone_is_reported():
    disk = MemoryDisk()
    files = create(disk, FIRST)

    def plan(call):
        if call.name == "sync_folder":
            raise OSError(5, "gone")

    disk.plan = plan
    with pytest.raises(UndecidedError):
        files.begin_delete(FIRST)


def test_folder_of_no_topic_is_put_aside_not_removed(caplog):
    disk = MemoryDisk()
    disk.make_folder("t-0")
    write_file(disk, "t-0/records", b"somebody's")
    create(disk, FIRST)
    stray = "MTExMTExMTExMTExMTExMQ.0-stray"
    assert read_file(disk, f"{stray}/records") == b"somebody's"
    assert f"memory:t-0 does not belong to any topic, and will be renamed to memory:{stray}" in caplog.text


def test_topic_made_anew_before_the_folders_of_the_former_are_gone():
    """Startup assigns each folder to the topic named in its file, although neither topic exists."""
    disk = MemoryDisk()
    files = create(disk, FIRST)
    files.begin_delete(FIRST)
    disk.plan = lambda call: fail_at(call.number)(call) if call.name == "sync_folder" else None
    with pytest.raises(OSError, match="planned"):
        files.finish_delete(FIRST)
    assert "MTExMTExMTExMTExMTExMQ.0-deleted" not in (left := disk.names(""))

    def cut(call):
        if call.name == "rename" and call.path.endswith(".creating"):
            raise PowerCut(call)

    disk.plan = cut
    with pytest.raises(PowerCut):
        create(disk, SECOND)
    disk.plan = None
    assert {"t-0", *left} < {*disk.names("")}
    assert state(disk) == ([], {})
    assert disk.names("") == ["topics"]


@pytest.mark.parametrize("length", [1, 245, 246, 247, 248, 249])
def test_long_names(tmp_path, length):
    """For names of 246 or more characters, the name of the temporary file used to be too long for the file system."""
    disk = MachineDisk(tmp_path)
    topic = LocalTopic("x" * length, b"1" * 16, 2, {})
    files = create(disk, topic)
    assert files.topics() == [topic]
    delete(disk, topic)
    assert opened(disk).topics() == []


@pytest.mark.parametrize("value", ["1\n2", "topic.id=x\n", "a=b", " ", "\\"])
def test_no_value_of_a_configuration_can_break_the_file(value):
    """A newline used to prevent the broker from starting."""
    disk = MemoryDisk()
    topic = FIRST._replace(configs={"leader.replication.throttled.replicas": value})
    assert create(disk, topic).topics() == [topic]


def test_file_of_an_earlier_release_has_no_name_inside():
    disk = MemoryDisk()
    opened(disk)
    write_file(disk, "topics/t.topic", b"partitions=2\nretention.ms=5\ntopic.id=MTExMTExMTExMTExMTExMQ\n")
    assert opened(disk).topics() == [FIRST]
    delete(disk, FIRST)
    assert opened(disk).topics() == []


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "KeyError: 'topic.id'"),
        (b"topic.id=MTExMTExMTExMTExMTExMQ\n", "KeyError: 'partitions'"),
        (b"topic.id=x\npartitions=1\n", "topic.topic is damaged"),
        (b"topic.id=MTExMTExMTExMTExMTExMQ\npartitions=some\n", "ValueError"),
    ],
)
def test_damaged_file_is_refused(content, why):
    disk = MemoryDisk()
    opened(disk)
    write_file(disk, "topics/topic.topic", content)
    with pytest.raises(DamagedFile, match=why):
        opened(disk).topics()


def test_folder_that_is_half_removed_goes(caplog):
    disk = MemoryDisk()
    create(disk, FIRST)
    disk.rename("t-1", "MTExMTExMTExMTExMTExMQ.1-delete")
    remove_tree(disk, "t-0")
    started(disk)
    assert disk.names("") == ["topics"]


#: Changes to `FIRST`: other configurations, one more partition, or both.
CHANGES = [
    FIRST._replace(configs={"retention.ms": "7"}),
    FIRST._replace(partitions=3),
    FIRST._replace(partitions=4, configs={}),
]


def change(disk, after, files=None):
    (files or opened(disk)).change(FIRST, after, making(disk, after))


@pytest.mark.parametrize("after", CHANGES)
def test_a_change_is_written_down_with_its_partitions(after):
    disk = MemoryDisk()
    create(disk, FIRST)
    change(disk, after)
    for left in (disk, *(disk.crash(seed) for seed in range(4))):
        topics, records = state(left)
        assert topics == [after]
        assert set(records) == {f"t-{number}" for number in range(after.partitions)}
        assert left.names("topics") == ["t.topic"]


@pytest.mark.parametrize("after", CHANGES)
def test_power_goes_at_every_call_of_a_change(after):
    seen = set()

    def prepared():
        disk = MemoryDisk()
        return disk, create(disk, FIRST)

    disk, files = prepared()
    before = disk.calls
    change(disk, after, files)
    for number in range(before + 1, disk.calls + 1):
        for seed in range(30):
            disk, files = prepared()
            disk.plan = cut_power_at(number)
            with pytest.raises(PowerCut):
                change(disk, after, files)
            left = disk.crash(seed)
            (topic,), records = state(left)
            seen.add(topic == after)
            assert topic in (FIRST, after)
            assert set(records) == {f"t-{number}" for number in range(topic.partitions)}
            assert left.names("topics") == ["t.topic"]
            assert not [name for name in left.names("") if name.endswith(("-delete", "-stray"))]
    assert seen == {True, False}


@pytest.mark.parametrize("after", CHANGES)
def test_every_call_of_a_change_fails(after):
    disk = MemoryDisk()
    files = create(disk, FIRST)
    before = disk.calls
    change(disk, after, files)
    for number in range(1, disk.calls - before + 1):
        disk = MemoryDisk()
        files = create(disk, FIRST)
        disk.plan = fail_at(disk.calls + number)
        with pytest.raises(OSError, match="planned"):
            change(disk, after, files)
        for left in (disk, *(disk.crash(seed) for seed in range(4))):
            topics, records = state(left)
            assert topics == [FIRST], number
            assert set(records) == {"t-0", "t-1"}
            assert left.names("topics") == ["t.topic"]
        change(disk, after)
        assert state(disk)[0] == [after]


def test_a_change_that_can_neither_be_finished_nor_undone_keeps_its_partitions(caplog):
    """After a restart, the partitions may belong to the topic."""
    disk = MemoryDisk()
    files = create(disk, FIRST)
    failing = []

    def plan(call):
        if call.name == "rename" and call.path.endswith(".changing"):
            failing.append(True)
        elif failing:
            raise OSError(errno.EIO, "planned")

    disk.plan = plan
    with pytest.raises(OSError, match="planned"):
        change(disk, FIRST._replace(partitions=3), files)
    disk.plan = None
    assert "changes to the topic t may take effect at the next startup" in caplog.text
    for seed in range(8):
        (topic,), records = state(disk.crash(seed))
        assert set(records) == {f"t-{number}" for number in range(topic.partitions)}
