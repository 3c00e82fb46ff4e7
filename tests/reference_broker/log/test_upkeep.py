"""The upkeep looks at all logs from time to time, does its work in the background, and ends when it is told to.

Method: a broker without sockets on a disk in memory, and time that the test lets pass.
"""

from kafkawire.reference_broker.disk.memory import MemoryDisk, fail_at
from tests.reference_broker.broker_bench import NOW_MS, BrokerBench
from tests.reference_broker.log.held_work import HeldWork
from tests.reference_broker.log.produced_batches import produced

#: Rolls after every batch.
ROLLING = {"index_interval_bytes": "0", "segment_index_bytes": "12"}
FIRST_MS = 30_000
CHECK_MS = 300_000


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
    assert bench.core.directory.log("compacted", 0).log_start_offset == 0


def test_failure_concerns_its_log_and_is_told_once(caplog):
    bench = BrokerBench(MemoryDisk())
    for name in ("t", "other"):
        bench.create(name, retention_ms="1000", **ROLLING)
        bench.produce(produced(b"v", timestamps=(NOW_MS,)), name)
        bench.produce(produced(b"v", timestamps=(NOW_MS,)), name)
    assert isinstance(bench.disk, MemoryDisk)
    bench.disk.plan = lambda call: fail_at(call.number)(call) if call.name == "rename" and "t-0/" in call.path else None
    bench.advance(FIRST_MS)
    fill(bench, 2)
    bench.advance(CHECK_MS)
    assert caplog.text.count("memory:t-0: upkeep failed") == 1
    assert bench.core.directory.log("other", 0).log_start_offset == 2
    assert bench.core.directory.log("t", 0).log_start_offset == 4


def test_topic_of_the_same_name_keeps_its_files():
    bench = BrokerBench(MemoryDisk())
    bench.create(retention_ms="1000", **ROLLING)
    fill(bench)
    bench.advance(FIRST_MS)
    assert bases(bench, ".log.deleted")
    bench.core.delete_topic(bench.core.directory.topics["t"], bench.now_ms, lambda error: None)
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
