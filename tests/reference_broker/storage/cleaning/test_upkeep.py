"""Upkeep checks all logs periodically, works in the background, and ends on request.

Method: use a broker without sockets on an in-memory disk, and let time pass.
"""

import logging
from typing import Any

import pytest

from kafkawire.reference_broker.storage.cleaning.upkeep import UpkeepLimits
from kafkawire.reference_broker.storage.disk.disk import read_file
from kafkawire.reference_broker.storage.disk.memory import MemoryDisk, fail_at
from kafkawire.reference_broker.work.background import at_once
from tests.reference_broker.broker_bench import NOW_MS, BrokerBench
from tests.reference_broker.storage.held_work import HeldWork
from tests.reference_broker.storage.produced_batches import produced, records_in

#: A configuration that rolls after every batch.
ROLLING: Any = {"index_interval_bytes": "0", "segment_index_bytes": "24"}
FIRST_MS = 30_000
CHECK_MS = 300_000


def log_of(bench, topic="t") -> Any:
    return bench.core.directory.log(topic, 0)


def bases(bench, suffix=".log"):
    return [int(name[:20]) for name in bench.disk.names("t-0") if name.endswith(suffix)]


def fill(bench, records=5):
    for _ in range(records):
        bench.produce(produced(b"v", timestamps=(bench.now_ms,)))


def test_retention_by_time():
    bench = BrokerBench(MemoryDisk())
    bench.create(retention_ms="1000", **ROLLING)
    fill(bench)
    before = bases(bench)
    assert len(before) > 2
    bench.advance(FIRST_MS - 1)
    assert bases(bench) == before
    bench.advance(1)
    assert bases(bench) == [5]
    assert bases(bench, ".log.deleted") == before
    bench.advance(59_999)
    assert bases(bench, ".log.deleted") == before
    bench.advance(1)
    assert bases(bench, ".log.deleted") == []
    fill(bench)
    bench.advance(CHECK_MS)
    assert bases(bench) == [10]


def test_young_and_compacted_logs_stay():
    bench = BrokerBench(MemoryDisk(), log_retention_check_interval_ms=1000)
    bench.create(retention_ms=str(FIRST_MS + 2000), **ROLLING)
    bench.create("compacted", cleanup_policy="compact", retention_ms="1000")
    fill(bench)
    bench.produce(produced(b"v", timestamps=(NOW_MS,)), "compacted")
    bench.advance(FIRST_MS)
    assert bases(bench)[0] == 0
    bench.advance(2000)
    assert bases(bench)[0] == 0
    bench.advance(1000)
    assert bases(bench) == [5]
    assert log_of(bench, "compacted").log_start_offset == 0


def test_failure_concerns_its_log_and_is_reported_once(caplog):
    bench = BrokerBench(MemoryDisk())
    for name in ("t", "other"):
        bench.create(name, retention_ms="1000", **ROLLING)
        bench.produce(produced(b"v", timestamps=(NOW_MS,)), name)
        bench.produce(produced(b"v", timestamps=(NOW_MS,)), name)
    assert isinstance(bench.disk, MemoryDisk)

    def plan(call):
        if call.name == "rename" and call.path.startswith("t-0/") and not call.path.endswith(".tmp"):
            fail_at(call.number)(call)

    bench.disk.plan = plan
    assert bench.core.upkeep.failed_logs == 0
    bench.advance(FIRST_MS)
    assert bench.core.upkeep.failed_logs == 1
    fill(bench, 2)
    bench.advance(CHECK_MS)
    assert caplog.text.count("memory:t-0: upkeep failed") == 1
    assert log_of(bench, "other").log_start_offset == 2
    assert log_of(bench, "t").log_start_offset == 4


def test_topic_of_the_same_name_keeps_its_files():
    bench = BrokerBench(MemoryDisk())
    bench.create(retention_ms="1000", **ROLLING)
    fill(bench)
    bench.advance(FIRST_MS)
    assert bases(bench, ".log.deleted")
    bench.core.topics.delete(bench.core.metadata.image.topics["t"], bench.now_ms, lambda error: None)
    bench.create()
    fill(bench)
    bench.advance(100_000)
    assert bases(bench) == [0]


def test_stop_leaves_the_rest_for_the_next_start():
    disk, work = MemoryDisk(), HeldWork()
    BrokerBench(disk).create(retention_ms="1000", **ROLLING)
    first = BrokerBench(disk.crash())
    fill(first)
    first.core.close()
    bench = BrokerBench(first.disk, work)
    bench.advance(FIRST_MS)
    assert work.pending
    bench.core.begin_end()
    work.run()
    assert bases(bench)[0] == 0
    again = BrokerBench(bench.disk.crash())  # type: ignore[attr-defined]  # a MemoryDisk
    again.now_ms += 1000
    again.advance(FIRST_MS)
    assert bases(again) == [5]


# Compaction.

BACKOFF_MS = 15_000


def values(bench, topic="t"):
    log = log_of(bench, topic)
    return [bytes(value) for _, value in records_in(log) if value is not None]


def fill_compacted(bench, topic="t", records=12):
    for number in range(records):
        bench.produce(produced(b"%d" % number, key=b"k%d" % (number % 2)), topic)


def test_dirty_logs_are_compacted():
    bench = BrokerBench(MemoryDisk())
    bench.create(cleanup_policy="compact", min_cleanable_dirty_ratio="0.6", **ROLLING)
    bench.create("other", cleanup_policy="compact", **ROLLING)
    bench.create("plain", **ROLLING)
    for topic in ("t", "other", "plain"):
        fill_compacted(bench, topic)
    bench.advance(BACKOFF_MS - 1)
    assert len(values(bench)) == 12
    bench.advance(1)
    assert values(bench) == values(bench, "other")
    assert len(values(bench)) < 6
    assert len(values(bench, "plain")) == 12
    assert read_file(bench.disk, "cleaner-offset-checkpoint") == b"0\n2\nother 0 10\nt 0 10\n"
    before = values(bench)
    bench.crash()
    assert values(bench) == before
    bench.produce(produced(b"x", key=b"k0"))
    bench.advance(BACKOFF_MS)
    assert values(bench) == [*before, b"x"], "a compaction is not worthwhile yet"
    fill_compacted(bench, records=10)
    bench.advance(BACKOFF_MS)
    assert len(values(bench)) < 6


def test_log_of_two_segments_is_compacted():
    bench = BrokerBench(MemoryDisk())
    bench.create(cleanup_policy="compact", **ROLLING)
    records = 0
    while len(log_of(bench, "t").segments) < 2:
        bench.produce(produced(b"%d" % records, key=b"k"))
        records += 1
    bench.advance(BACKOFF_MS)
    assert len(values(bench)) < records


def test_retention_does_not_wait_for_all_compactions():
    disk, work = MemoryDisk(), HeldWork()
    first = BrokerBench(disk)
    for topic in ("t", "other"):
        first.create(topic, cleanup_policy="compact", **ROLLING)
        fill_compacted(first, topic)
    first.create("old", retention_ms="1000", **ROLLING)
    first.produce(produced(b"v", timestamps=(NOW_MS,)), "old")
    first.core.close()
    bench = BrokerBench(disk.crash(), work)
    bench.advance(BACKOFF_MS)
    work.run(4)
    bench.advance(FIRST_MS)  # retention becomes due in the middle of the first compaction
    while log_of(bench, "old").log_start_offset == 0:
        work.run(1)
    assert sorted(len(values(bench, topic)) < 6 for topic in ("t", "other")) == [False, True]


def test_compacted_logs_may_have_retention_too():
    bench = BrokerBench(MemoryDisk())
    bench.create(cleanup_policy="compact,delete", retention_ms="100000", **ROLLING)
    fill_compacted(bench)
    bench.advance(BACKOFF_MS)
    assert len(values(bench)) < 6
    bench.advance(100_000)
    assert values(bench) == []
    assert log_of(bench, "t").log_start_offset == 12


def test_compacted_logs_need_no_recovery_points():
    bench = BrokerBench(MemoryDisk())
    bench.create(cleanup_policy="compact", **ROLLING)
    fill_compacted(bench)
    bench.advance(BACKOFF_MS)
    before = values(bench)
    assert isinstance(bench.disk, MemoryDisk)
    disk = bench.disk.crash()
    disk.remove("recovery-point-offset-checkpoint")
    assert values(BrokerBench(disk)) == before


def test_lost_index_does_not_end_compaction():
    bench = BrokerBench(MemoryDisk())
    bench.create(cleanup_policy="compact", **ROLLING)
    fill_compacted(bench)
    bench.disk.remove("t-0/00000000000000000000.index")
    log_of(bench).read(0, 1, at_least_one=True)
    assert not log_of(bench).segments.first.is_stored
    bench.advance(BACKOFF_MS)
    assert len(values(bench)) < 6
    assert "00000000000000000000.index" in bench.disk.names("t-0")


def test_limits_are_changed():
    bench = BrokerBench(MemoryDisk(), log_retention_check_interval_ms=1000)
    bench.create(retention_ms="1", **ROLLING)
    bench.advance(FIRST_MS)
    limits = UpkeepLimits(0, 5000, 7, 2**21, False)
    bench.core.upkeep.change_limits(limits)
    fill(bench)
    before = bases(bench)
    bench.advance(1000)  # the next check was scheduled earlier
    assert bases(bench) == [5]
    fill(bench)
    bench.advance(4999)
    assert len(bases(bench)) > 1 < len(before)
    bench.advance(1)
    assert bases(bench) == [10]
    assert bench.core.upkeep._limits == limits._replace(is_cleaner_enabled=True)


def test_compaction_can_be_turned_off():
    bench = BrokerBench(MemoryDisk(), log_cleaner_enable=False)
    bench.create(cleanup_policy="compact,delete", retention_ms="100000", **ROLLING)
    fill_compacted(bench)
    bench.advance(BACKOFF_MS)
    assert len(values(bench)) == 12
    bench.advance(300_000)
    assert values(bench) == []


@pytest.mark.parametrize("jump_ms", [-3_000_000, 3_000_000])
def test_clock_that_jumps_during_a_compaction_changes_no_delay(jump_ms):
    held = HeldWork()
    backgrounds = [at_once]
    bench = BrokerBench(MemoryDisk(), lambda work, done: backgrounds[-1](work, done))
    bench.create(cleanup_policy="compact", file_delete_delay_ms=str(2 * BACKOFF_MS), **ROLLING)
    fill_compacted(bench)
    backgrounds.append(held)
    bench.advance(BACKOFF_MS)
    held.run(3)
    assert len(values(bench)) == 12, "compaction is in progress"
    bench.core.timers.shift(jump_ms)
    bench.now_ms += jump_ms
    held.run()
    backgrounds.pop()
    left, gone = len(values(bench)), bases(bench, ".log.deleted")
    assert left < 12
    assert gone
    fill_compacted(bench)
    bench.advance(BACKOFF_MS)
    assert len(values(bench)) < left + 12, "the next compaction comes in time"
    bench.advance(BACKOFF_MS - 1)
    assert set(gone) <= set(bases(bench, ".log.deleted"))
    bench.advance(1)
    assert not set(gone) & set(bases(bench, ".log.deleted")), "the files left by the first one are gone"


def test_log_that_cannot_be_compacted_is_left_out_and_reported_once(caplog):
    bench = BrokerBench(MemoryDisk())
    for topic in ("t", "other"):
        bench.create(topic, cleanup_policy="compact", **ROLLING)
        fill_compacted(bench, topic)
    assert isinstance(bench.disk, MemoryDisk)
    file = bench.disk.open("t-0/00000000000000000000.log")
    content = bytearray(file.read(0, 10_000))
    content[-1] ^= 1
    file.truncate(0)
    file.append(bytes(content))
    for _ in range(3):
        bench.advance(BACKOFF_MS)
    assert caplog.text.count("memory:t-0: upkeep failed: segment 0: batch at byte 71: crc") == 1
    assert len(values(bench, "other")) < 6
    bench.produce(produced(b"still works"))
    assert log_of(bench, "t").next_offset == 13


def test_retention_goes_on_where_compaction_has_failed(caplog):
    bench = BrokerBench(MemoryDisk())
    bench.create(cleanup_policy="compact,delete", retention_ms="100000", **ROLLING)
    fill_compacted(bench)
    assert isinstance(bench.disk, MemoryDisk)
    bench.disk.plan = lambda call: fail_at(call.number)(call) if call.path.endswith(".cleaned") else None
    bench.advance(BACKOFF_MS)
    assert "upkeep failed" in caplog.text
    assert len(values(bench)) == 12
    bench.advance(100_000)
    assert values(bench) == []


def test_stop_in_the_middle_of_a_compaction():
    disk = MemoryDisk()
    first = BrokerBench(disk)
    first.create(cleanup_policy="compact", **ROLLING)
    fill_compacted(first, records=40)
    first.core.close()
    for steps in range(0, 60, 3):
        work = HeldWork()
        copy = disk.crash()
        bench = BrokerBench(copy, work)
        bench.advance(BACKOFF_MS)
        work.run(steps)
        before = values(bench)
        bench.core.begin_end()
        work.run()
        bench.core.close()
        again = BrokerBench(copy.crash())
        assert values(again)[-2:] == before[-2:] == [b"38", b"39"]
        names = copy.crash().names("t-0")
        again.advance(BACKOFF_MS)
        assert len(values(again)) < 10, names


def test_dirtiest_log_comes_first(caplog):
    caplog.set_level(logging.INFO, "kafkawire.broker")
    bench = BrokerBench(MemoryDisk())
    for topic in ("t", "u", "w"):
        bench.create(topic, cleanup_policy="compact", min_cleanable_dirty_ratio="0.1", **ROLLING)
        fill_compacted(bench, topic)
    bench.advance(BACKOFF_MS)
    for topic, records in (("t", 4), ("u", 40), ("w", 12)):
        fill_compacted(bench, topic, records)
    caplog.clear()
    bench.advance(BACKOFF_MS)
    lines = [record.getMessage() for record in caplog.records if "compacted" in record.getMessage()]
    assert [line.split(":")[1] for line in lines] == ["u-0", "w-0", "t-0"]
    assert "compacted to offset 50, from" in lines[0]


@pytest.mark.defect
def test_unexpected_error_is_reported_with_where_it_came_from(caplog, monkeypatch):
    bench = BrokerBench(MemoryDisk())
    bench.create(retention_ms="1000", **ROLLING)
    fill(bench)

    def broken(*arguments):
        raise RuntimeError("odd")

    monkeypatch.setattr("kafkawire.reference_broker.storage.cleaning.removal.removable", broken)
    bench.advance(FIRST_MS)
    (line,) = (record for record in caplog.records if "upkeep failed: odd" in record.getMessage())
    assert line.exc_info is not None


def test_error_of_the_disk_is_reported_in_a_line(caplog):
    bench = BrokerBench(MemoryDisk())
    bench.create(cleanup_policy="compact", **ROLLING)
    fill_compacted(bench)
    bench.disk.plan = lambda call: fail_at(call.number)(call) if call.path.endswith(".cleaned") else None  # type: ignore[attr-defined]  # a MemoryDisk
    bench.advance(BACKOFF_MS)
    (line,) = (record for record in caplog.records if "upkeep failed" in record.getMessage())
    assert line.exc_info is None


@pytest.mark.defect
def test_compaction_that_cannot_choose_a_log_is_reported_and_tried_again(caplog, monkeypatch):
    bench = BrokerBench(MemoryDisk())
    bench.create(cleanup_policy="compact", **ROLLING)
    fill_compacted(bench)
    with monkeypatch.context() as patched:
        patched.setattr(type(bench.core.directory), "logs", lambda self: 1 // 0)
        bench.advance(BACKOFF_MS)
    assert "compaction failed" in caplog.text
    bench.advance(BACKOFF_MS)
    assert len(values(bench)) < 6


def test_what_ends_a_log_is_not_told_again(caplog):
    bench = BrokerBench(MemoryDisk())
    bench.create(retention_ms="1000", **ROLLING)
    fill(bench)
    assert isinstance(bench.disk, MemoryDisk)

    def plan(call):
        if call.name == "rename" and call.path.endswith(".log"):
            log_of(bench).fail(OSError("gone"))
            raise OSError("gone")

    bench.disk.plan = plan
    bench.advance(FIRST_MS)
    bench.advance(CHECK_MS)
    assert caplog.text.count("memory:t-0: taking the log offline: gone") == 1
    assert "upkeep failed" not in caplog.text


def test_check_that_takes_long_is_not_begun_twice(monkeypatch):
    disk, work, looked = MemoryDisk(), HeldWork(), []
    first = BrokerBench(disk)
    first.create(retention_ms="1000", **ROLLING)
    first.core.close()
    bench = BrokerBench(disk.crash(), work)
    monkeypatch.setattr(
        "kafkawire.reference_broker.storage.cleaning.removal.removable", lambda *arguments: looked.append(1) or 0
    )
    bench.advance(FIRST_MS)
    for _ in range(3):
        bench.advance(CHECK_MS)
    work.run()
    assert len(looked) == 1
    bench.advance(CHECK_MS)
    work.run()
    assert len(looked) == 2


def test_compacted_log_whose_first_segments_were_deleted_by_clients_lets_them_go():
    bench = BrokerBench(MemoryDisk())
    bench.create(cleanup_policy="compact", min_cleanable_dirty_ratio="1.0", **ROLLING)
    fill_compacted(bench)
    log_of(bench).begin_at(7)
    bench.advance(BACKOFF_MS)
    assert bases(bench)[0] == 6


def test_truncation_during_a_compaction_does_not_exclude_the_log(caplog):
    bench = BrokerBench(MemoryDisk())
    bench.create(cleanup_policy="compact")
    log = log_of(bench)
    upkeep = bench.core.upkeep
    before = log.truncations
    log.truncations += 1
    upkeep._fail(log, before, OSError("a segment is gone"))
    assert not upkeep._failed
    assert "upkeep failed" not in caplog.text
    upkeep._fail(log, log.truncations, OSError("broken"))
    assert upkeep._failed == {log}
