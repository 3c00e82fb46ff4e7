"""When a partition is opened after a crash, nothing is cut off without a log line that says what it is, where and why.

Method: damage a partition with several segments on an in-memory disk, in one way at a time.
"""

import dataclasses

import pytest

from kafkawire.reference_broker.config.topic_configs import log_config
from kafkawire.reference_broker.storage.batches import parse_header
from kafkawire.reference_broker.storage.disk.disk import read_file, write_file
from kafkawire.reference_broker.storage.disk.memory import MemoryDisk, fail_at
from kafkawire.reference_broker.storage.log.partition_log import PartitionLog
from kafkawire.reference_broker.storage.log.recovery import PartitionCheckpoints, open_segments
from kafkawire.reference_broker.storage.services import LogServices
from kafkawire.sdk.storage.file_names import LOG_SUFFIX, file_name
from tests.reference_broker.storage.produced_batches import NOW_MS, produced

BATCH_BYTES = len(produced(b"v0"))
#: A configuration that rolls after every fourth batch.
CONFIG = dataclasses.replace(log_config({}), index_interval_bytes=0, segment_bytes=4 * BATCH_BYTES)


@pytest.fixture
def disk():
    """Return a disk with a partition of ten records in three segments, the first two of which are synced."""
    disk = MemoryDisk()
    disk.make_folder("t-0")
    log = PartitionLog(LogServices(disk), "t-0", CONFIG)
    for number in range(10):
        data = produced(b"v%d" % number)
        log.append(data, parse_header(data), NOW_MS, lambda result: None)
    assert log.recovery_point == 8
    return disk.crash()


def opened(disk, *, is_clean=False, recovery_point=0, log_start_offset=0):
    return open_segments(disk, "t-0", CONFIG, PartitionCheckpoints(log_start_offset, recovery_point), is_clean=is_clean)


def damage(disk, base_offset, content):
    """Replace the content of a segment with the result of a function."""
    path = f"t-0/{file_name(base_offset, LOG_SUFFIX)}"
    before = read_file(disk, path)
    assert before is not None
    write_file(disk, path, content(before))


def flipped(position):
    def flip(content):
        damaged = bytearray(content)
        damaged[position] ^= 1
        return bytes(damaged)

    return flip


@pytest.mark.parametrize("recovery_point", [0, 3, 4, 7, 8])
def test_undamaged(disk, caplog, recovery_point):
    segments, truncated = opened(disk, recovery_point=recovery_point)
    assert [(segment.base_offset, segment.next_offset, segment.is_sealed) for segment in segments] == [
        (0, 4, True),
        (4, 8, True),
        (8, 10, False),
    ]
    assert truncated == 0
    assert not caplog.text
    # The checkpoint has to be updated after the check.
    assert [segment.is_stored for segment in segments] == [recovery_point >= 4, recovery_point >= 8, False]


def test_clean_start_reads_the_last_segment_only(disk, caplog):
    paths = []
    disk.plan = lambda call: paths.append(call.path)
    opened(disk, is_clean=True, recovery_point=10)
    assert "are gone" not in caplog.text
    assert not [path for path in paths if file_name(0, LOG_SUFFIX) in path or file_name(4, LOG_SUFFIX) in path]


def test_new_partition():
    disk = MemoryDisk()
    disk.make_folder("t-0")
    segments, _ = opened(disk, log_start_offset=7)
    assert [segment.base_offset for segment in segments] == [7]
    assert disk.names("t-0") == [file_name(7, LOG_SUFFIX)]


@pytest.mark.parametrize(
    ("content", "cut", "end", "why"),
    [
        (lambda content: content[:-1], BATCH_BYTES - 1, 9, "partial batch"),
        (flipped(BATCH_BYTES + 8), BATCH_BYTES, 9, "partial batch"),
        (flipped(BATCH_BYTES + 16), BATCH_BYTES, 9, "magic"),
        (flipped(-1), BATCH_BYTES, 9, "crc"),
        (lambda content: content + bytes(70), 70, 10, "expected magic 2, got 0"),
    ],
    ids=["cut", "length", "magic", "checksum", "zeros"],
)
def test_damaged_end_is_cut_off_and_reported(disk, caplog, content, cut, end, why):
    damage(disk, 8, content)
    segments, truncated = opened(disk, recovery_point=8)
    assert truncated == cut
    assert segments[-1].next_offset == end
    (line,) = [record.getMessage() for record in caplog.records]
    assert f"memory:t-0/{file_name(8, LOG_SUFFIX)}: cutting off the last {cut} of" in line
    assert f"the log continues at offset {end}" in line
    assert why in line


def test_segments_after_a_damaged_one_are_deleted_and_reported(disk, caplog):
    damage(disk, 0, flipped(-1))
    removed = []
    disk.plan = lambda call: removed.append(call.path) if call.name == "remove" else None
    segments, truncated = opened(disk)
    assert [segment.base_offset for segment in segments] == [0]
    assert not segments[0].is_sealed, "the log continues here"
    assert truncated == 7 * BATCH_BYTES
    assert "deleting segments (2, with " in caplog.text
    assert "from offset 4 on: an earlier segment was cut off" in caplog.text
    assert [path for path in removed if path.endswith(LOG_SUFFIX)] == [
        f"t-0/{file_name(base, LOG_SUFFIX)}" for base in (8, 4)
    ], "segments are deleted from the end, so a crash on the way leaves no gap"
    for left in (disk, *(disk.crash(seed) for seed in range(10))):
        assert [name for name in left.names("t-0") if name.endswith(".log")] == [file_name(0, LOG_SUFFIX)]


def test_records_missing_at_the_end_of_a_segment_end_the_log(disk, caplog):
    """Once, 118 records were cut off without a log line: the file was shorter, but ended with a complete batch."""
    damage(disk, 4, lambda content: content[: -2 * BATCH_BYTES])
    segments, truncated = opened(disk, recovery_point=4)
    assert (segments[-1].next_offset, truncated) == (6, 2 * BATCH_BYTES)
    assert "from offset 8 on: the previous segment ends at offset 6; the next records were never written" in caplog.text


def test_durable_records_that_are_gone_are_reported(disk, caplog):
    damage(disk, 8, lambda content: content[:BATCH_BYTES])
    segments, _ = opened(disk, is_clean=True, recovery_point=10)
    assert segments[-1].next_offset == 9
    assert "ends at offset 9, although everything before offset 10 was durable; the rest is lost" in caplog.text


def test_gap_of_a_compacted_log_is_none(disk, caplog):
    """Everything before the recovery point was durable, so segments that are missing there were removed on purpose."""
    damage(disk, 0, lambda content: content[:-BATCH_BYTES])
    segments, truncated = opened(disk, recovery_point=4)
    assert (segments[-1].next_offset, truncated) == (10, 0)
    assert not caplog.text


def test_segment_that_begins_before_the_last_one_ends_is_deleted(disk, caplog):
    """The removal of a segment was not synced, so the segment has reappeared although the log has continued."""
    old = read_file(disk, f"t-0/{file_name(8, LOG_SUFFIX)}")
    assert old is not None
    write_file(disk, f"t-0/{file_name(6, LOG_SUFFIX)}", old)
    segments, _ = opened(disk)
    assert [segment.base_offset for segment in segments] == [0, 4]
    assert "from offset 6 on: the previous segment extends to offset 8" in caplog.text


def test_indexes_of_no_segment_and_copies_are_removed(disk):
    for name in (f"{99:020}.index", f"{99:020}.timeindex", f"{file_name(4, LOG_SUFFIX)}.copy"):
        disk.open(f"t-0/{name}", create=True)
    opened(disk)
    assert not [name for name in disk.names("t-0") if "99" in name or "copy" in name]


@pytest.mark.parametrize(("recovery_point", "bases"), [(5, (4, 8)), (8, (8,))])
def test_segments_are_written_again_after_a_failed_sync(disk, caplog, recovery_point, bases):
    disk.open("t-0/.sync-failed", create=True)
    before = {name: read_file(disk, f"t-0/{name}") for name in disk.names("t-0") if name.endswith(".log")}
    calls = []
    disk.plan = lambda call: calls.append((call.name, call.path))
    opened(disk, recovery_point=recovery_point)
    copies = [f"t-0/{file_name(base, LOG_SUFFIX)}.copy" for base in bases]
    assert [path for name, path in calls if name == "create"] == copies, "earlier data was durable"
    assert calls.index(("sync_folder", "t-0")) < calls.index(("remove", "t-0/.sync-failed"))
    for left in (disk, *(disk.crash(seed) for seed in range(10))):
        assert before == {name: read_file(left, f"t-0/{name}") for name in before}
    assert ".sync-failed" not in disk.names("t-0")
    assert f"rewriting segments that may not be durable, since a sync failed (segments: {len(bases)})" in caplog.text


def test_failure_while_segments_are_written_again_changes_nothing(disk):
    disk.open("t-0/.sync-failed", create=True)
    calls = []
    counted = disk.crash()
    counted.plan = calls.append
    opened(counted)
    for number in range(1, len(calls)):
        after = disk.crash()
        after.plan = fail_at(number)
        try:
            opened(after)
        except OSError:
            segments, truncated = opened(after.crash())
            assert (segments[-1].next_offset, truncated) == (10, 0)


def test_segment_that_gets_shorter_while_it_is_written_again_is_not_read_for_ever(disk):
    disk.open("t-0/.sync-failed", create=True)
    last = disk.open(f"t-0/{file_name(8, LOG_SUFFIX)}")

    def cut(call):
        assert call.number < 1_000, "opening the log does not finish"
        if call.name == "create":
            last.truncate(BATCH_BYTES)

    disk.plan = cut
    segments, _ = opened(disk, recovery_point=8)
    assert segments[-1].next_offset == 9


def test_what_was_to_be_removed_is_removed(disk):
    """The log start was stored before the power was cut."""
    disk.rename("t-0/00000000000000000004.log", "t-0/00000000000000000004.log.deleted")
    write_file(disk, "t-0/00000000000000000004.snapshot.deleted", b"")
    segments, truncated = opened(disk, recovery_point=8, log_start_offset=9)
    assert ([segment.base_offset for segment in segments], truncated) == ([8], 0)
    assert [name for name in disk.names("t-0") if "deleted" in name or name.startswith(f"{0:020}.")] == []


def test_start_inside_a_segment_keeps_it(disk):
    segments, _ = opened(disk, recovery_point=8, log_start_offset=7)
    assert [segment.base_offset for segment in segments] == [4, 8]


def test_log_that_ends_where_it_begins_stays(disk, caplog):
    segments, truncated = opened(disk, recovery_point=8, log_start_offset=10)
    assert ([segment.base_offset for segment in segments], truncated) == ([8], 0)
    assert not caplog.text


@pytest.mark.parametrize("base_offset", [0, 7, 8, 10**6, 2**31 + 8, 2**62, 2**63 - 1, -1, -(2**63)])
def test_clean_start_does_not_go_on_after_an_offset_that_is_damaged(disk, caplog, base_offset):
    """The native engine once raised OverflowError for some of these offsets, and others were assigned twice."""
    PartitionLog(LogServices(disk), "t-0", CONFIG, is_clean=False).close()
    offset = base_offset.to_bytes(8, "big", signed=True)
    damage(disk, 8, lambda content: content[:BATCH_BYTES] + offset + content[BATCH_BYTES + 8 :])
    log = PartitionLog(LogServices(disk), "t-0", CONFIG, recovery_point=10)
    if base_offset == 10**6:  # this is not damage, since compaction leaves gaps
        assert (log.next_offset, log.truncated_bytes) == (10**6 + 1, 0)
        return
    assert (log.next_offset, log.truncated_bytes) == (9, BATCH_BYTES)
    assert f"got {base_offset} to {base_offset}" in caplog.text
    assert not log.is_offline


@pytest.mark.parametrize("base_offset", [5, 8, 2**40, -1])
def test_clean_start_keeps_what_follows_a_damaged_offset(disk, base_offset):
    config = dataclasses.replace(CONFIG, index_interval_bytes=4096, segment_bytes=4096)
    log = PartitionLog(LogServices(disk), "t-0", config, is_clean=False)
    for _ in range(2):
        data = produced(b"v")
        log.append(data, parse_header(data), NOW_MS, lambda result: None)
    log.close()
    assert log.segments.base_offsets == [0, 4, 8]
    offset = base_offset.to_bytes(8, "big", signed=True)
    damage(disk, 8, lambda content: content[:BATCH_BYTES] + offset + content[BATCH_BYTES + 8 :])
    log = PartitionLog(LogServices(disk), "t-0", config, recovery_point=12)
    assert (log.next_offset, log.truncated_bytes) == (12, 0)


@pytest.mark.parametrize("is_clean", [False, True])
@pytest.mark.parametrize("name", ["99999999999999999999.log", f"{2**63:020}.log", "0000000000000000000².log"])
def test_file_that_is_named_after_no_offset_is_none_of_the_log(disk, is_clean, name):
    PartitionLog(LogServices(disk), "t-0", CONFIG, is_clean=False).close()
    disk.open(f"t-0/{name}", create=True)
    log = PartitionLog(LogServices(disk), "t-0", CONFIG, is_clean=is_clean, recovery_point=10)
    assert (log.next_offset, log.segments.base_offsets, log.is_offline) == (10, [0, 4, 8], False)
    assert name in disk.names("t-0")


STRAYS = (
    "x-1.log",
    "1.log",
    "x-1.index",
    "99999999999999999999.timeindex",
    "notes.tmp",
    "x.cleaned",
    "x.swap",
    "mine.deleted",
    "mine.copy",
    "readme",
)


@pytest.mark.parametrize("is_clean", [False, True])
def test_files_that_no_log_has_are_named_and_left_alone(disk, caplog, is_clean):
    PartitionLog(LogServices(disk), "t-0", CONFIG, is_clean=False).close()
    for name in STRAYS:
        write_file(disk, f"t-0/{name}", b"of somebody else")
    caplog.clear()
    log = PartitionLog(LogServices(disk), "t-0", CONFIG, is_clean=is_clean, recovery_point=10)
    assert (log.next_offset, log.segments.base_offsets, log.is_offline) == (10, [0, 4, 8], False)
    for name in STRAYS:
        assert read_file(disk, f"t-0/{name}") == b"of somebody else"
        assert caplog.text.count(f"t-0/{name}: leaving an unknown file alone") == 1
    assert caplog.text.count("unknown file") == len(STRAYS)


def test_what_a_crash_leaves_is_removed_without_a_line(disk, caplog):
    opened(disk)
    names = ["".join((file_name(4), *suffixes)) for suffixes in ((".log", ".copy"), (".timeindex", ".cleaned", ".tmp"))]
    names += [f"{file_name(0)}.snapshot.deleted", "leader-epoch-checkpoint.tmp"]
    for name in names:
        disk.open(f"t-0/{name}", create=True)
    caplog.clear()
    opened(disk)
    assert not set(names) & set(disk.names("t-0"))
    assert not caplog.records


def test_index_without_a_segment_is_removed_with_a_line(disk, caplog):
    name = file_name(99, ".timeindex")
    disk.open(f"t-0/{name}", create=True)
    opened(disk)
    assert name not in disk.names("t-0")
    assert f"{name}: removing an index without a segment" in caplog.text


def test_gaps_in_sequence_numbers_are_taken_over():
    """Compaction and the expiry of producers leave gaps, which Apache Kafka does not check when it opens a log."""
    disk, sequences = MemoryDisk(), [0, 7, 3, 50]
    disk.make_folder("t-0")
    log = PartitionLog(LogServices(disk), "t-0", log_config({"flush.messages": "1"}))
    for sequence in sequences:
        data = produced(b"v", producer_id=7, producer_epoch=0, base_sequence=sequence)
        log.append(data, parse_header(data), NOW_MS, lambda result: None, is_client=False)
    again = PartitionLog(LogServices(disk.crash()), "t-0", log_config({}), is_clean=False, recovery_point=4)
    producer = again.producers.get(7)
    assert producer is not None
    assert [batch.last_sequence for batch in producer.batches] == sequences
