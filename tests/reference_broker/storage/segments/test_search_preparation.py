"""When a search needs a lost index, the index is rebuilt once, in the background; the search waits and is notified.

Method: use a log of three segments on an in-memory disk, with one index missing, and hold back background work.
"""

import dataclasses

import pytest

from kafkawire.reference_broker.config.topic_configs import log_config
from kafkawire.reference_broker.storage.batches import parse_header
from kafkawire.reference_broker.storage.disk.memory import MemoryDisk, fail_at
from kafkawire.reference_broker.storage.log.partition_log import PartitionLog
from kafkawire.reference_broker.storage.segments.search_preparation import NotPrepared, Preparation
from kafkawire.reference_broker.storage.segments.segment import Segment
from kafkawire.reference_broker.storage.services import LogServices
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from tests.reference_broker.replicas.leading import leading
from tests.reference_broker.storage.held_work import HeldWork
from tests.reference_broker.storage.produced_batches import NOW_MS, produced, values_in

#: A configuration that rolls after every second batch.
CONFIG = dataclasses.replace(log_config({}), segment_bytes=2 * len(produced(b"0")), index_interval_bytes=0)


class Bench:
    """A log that was closed cleanly and has since lost files."""

    def __init__(self, *lost, damage=None):
        self.disk = MemoryDisk()
        self.disk.make_folder("t-0")
        log = PartitionLog(LogServices(self.disk), "t-0", CONFIG)
        for number in range(6):
            data = produced(b"%d" % number, timestamps=(NOW_MS + number,))
            log.append(data, parse_header(data), NOW_MS, lambda result: None)
        log.close()
        for base, suffix in lost:
            self.disk.remove(f"t-0/{base:020}.{suffix}")
        if damage is not None:
            base, position = damage
            file = self.disk.open(f"t-0/{base:020}.log")
            content = bytearray(file.read(0, 10_000))
            content[position] ^= 1
            file.truncate(0)
            file.append(content)
        self.work = HeldWork()
        self.log = PartitionLog(LogServices(self.disk, self.work), "t-0", CONFIG, recovery_point=6)
        self.heard = []
        self.replica = leading(self.log)
        self.replica.watch(self.heard.append)

    def values(self, offset):
        read = self.log.read(offset, 10_000, at_least_one=True)
        assert read.records is not None
        return values_in(read.records.read())

    def find(self, timestamp):
        """Look up an offset by time; return a list that will receive the result."""
        found = []
        self.log.when_prepared(lambda: self.log.offset_for_timestamp(timestamp), found.append)
        return found


@pytest.mark.parametrize("lost", ["index", "timeindex"])
def test_lost_index_is_rebuilt_in_the_background_while_others_are_read(lost):
    bench = Bench((0, lost))
    for _ in range(3):
        with pytest.raises(NotPrepared) as caught:
            bench.values(0)
        assert caught.value.code == ErrorCode.OFFSET_NOT_AVAILABLE
    assert (bench.values(2), bench.values(4)) == ([b"2", b"3"], [b"4", b"5"])
    assert (len(bench.work.pending), bench.heard) == (1, [])
    bench.work.run()
    assert bench.heard == [2**31], "a watcher reads again"
    assert (bench.values(0), bench.values(1)) == ([b"0", b"1"], [b"1"])
    assert not bench.work.pending


def test_those_who_read_committed_records_hear_of_it():
    bench, heard = Bench((0, "index")), []
    bench.replica.watch(heard.append, is_committed=True)
    with pytest.raises(NotPrepared):
        bench.values(0)
    bench.work.run()
    assert heard == [2**31]


@pytest.mark.parametrize("lost", ["index", "timeindex"])
def test_lookup_by_time_waits_for_what_it_needs(lost):
    bench = Bench((2, lost))
    found = bench.find(NOW_MS + 3)
    assert (found, len(bench.work.pending)) == ([], 1)
    bench.work.run()
    assert found == [(NOW_MS + 3, 3, 0)]
    assert bench.find(NOW_MS + 2) == [(NOW_MS + 2, 2, 0)], "the result is available at once"


def test_highest_timestamps_are_looked_up_in_the_background():
    bench, found = Bench((2, "timeindex")), []
    bench.log.when_prepared(bench.log.max_timestamp, found.append)
    assert (found, len(bench.work.pending)) == ([], 1)
    bench.work.run()
    assert found == [(NOW_MS + 5, 5, 0)]
    assert not any(segment._is_indexed for segment in bench.log.segments.first_of(2)), "nothing is kept in memory"


def test_search_of_many_segments_does_not_begin_again_for_each():
    disk = MemoryDisk()
    disk.make_folder("t-0")
    log = PartitionLog(LogServices(disk), "t-0", dataclasses.replace(CONFIG, segment_bytes=1))
    for number in range(300):
        data = produced(b"v", timestamps=(NOW_MS + number,))
        log.append(data, parse_header(data), NOW_MS, lambda result: None)
    log.close()
    for is_by_time in (False, True):
        work, found, asked = HeldWork(), [], []
        log = PartitionLog(LogServices(disk, work), "t-0", CONFIG, recovery_point=300)

        def search(log=log, is_by_time=is_by_time, asked=asked):
            asked.append(1)
            return log.offset_for_timestamp(NOW_MS + 299) if is_by_time else log.max_timestamp()

        log.when_prepared(search, found.append)
        work.run()
        assert found == [(NOW_MS + 299, 299, 0)]
        assert len(asked) <= 6


def test_failure_of_a_segment_that_may_be_wanted_next_is_none_of_this_search():
    bench = Bench()
    found = bench.find(NOW_MS + 3)
    assert found == []

    def plan(call):
        if call.path == f"t-0/{2:020}.timeindex":
            raise OSError(5, "gone")

    bench.disk.plan = plan
    bench.work.run(1)
    assert found == []
    bench.disk.plan = None
    bench.work.run()
    assert found == [(NOW_MS + 3, 3, 0)]


def test_failure_is_reported_once_and_then_tried_again(caplog):
    bench = Bench((0, "index"))
    with pytest.raises(NotPrepared):
        bench.values(0)
    bench.disk.plan = fail_at(bench.disk.calls + 1)
    bench.work.run()
    bench.disk.plan = None
    with pytest.raises(BrokerError) as caught:
        bench.values(0)
    assert caught.value.code == ErrorCode.KAFKA_STORAGE_ERROR
    assert "t-0 cannot be read" in caplog.text
    with pytest.raises(NotPrepared):
        bench.values(0)
    bench.work.run()
    assert bench.values(0) == [b"0", b"1"]


def test_failure_answers_a_lookup_by_time():
    bench = Bench((0, "timeindex"))
    found, other = bench.find(NOW_MS), bench.find(NOW_MS + 1)
    bench.disk.plan = fail_at(bench.disk.calls + 1)
    bench.work.run(1)
    bench.disk.plan = None
    (error,) = found
    assert isinstance(error, BrokerError)
    assert error.code == ErrorCode.KAFKA_STORAGE_ERROR
    bench.work.run()
    assert other == [(NOW_MS + 1, 1, 0)], "the other read has been retried"


def test_end_of_the_log_answers_those_who_wait():
    bench = Bench((0, "index"))
    found = bench.find(NOW_MS)
    gone = BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "gone")
    bench.log.end(gone)
    bench.work.run()
    (error,) = found
    assert isinstance(error, BrokerError)
    assert error.code == gone.code


def test_files_stay_until_the_index_is_rebuilt():
    bench, told = Bench((0, "index")), []
    bench.find(NOW_MS)
    bench.log.end(BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "gone"))
    bench.log.when_quiet(lambda: told.append("quiet"))
    assert told == []
    bench.work.run()
    assert told == ["quiet"]


@pytest.mark.parametrize("timestamp", [0, NOW_MS + 1])
def test_damage_answers_a_lookup_and_is_read_once(caplog, timestamp):
    """The length of the first batch is damaged, so no later batch in the segment can be reached."""
    bench = Bench((0, "timeindex"), damage=(0, 9))
    for _ in range(2):
        found = bench.find(timestamp)
        bench.work.run()
        (error,) = found
        assert isinstance(error, BrokerError)
        assert (error.code, error.detail[:27]) == (ErrorCode.CORRUPT_MESSAGE, "segment 0: batch at byte 0:")
    assert caplog.text.count("t-0/00000000000000000000.log: the highest timestamp is unknown") == 1


@pytest.mark.defect
def test_defect_is_answered(caplog, monkeypatch):
    bench, found = Bench(), []

    def broken(segments, timestamp, start, **prepared):
        raise ZeroDivisionError

    monkeypatch.setattr(type(bench.log.segments), "offset_for_timestamp", broken)
    bench.log.when_prepared(lambda: bench.log.offset_for_timestamp(5), found.append)
    (error,) = found
    assert isinstance(error, BrokerError)
    assert error.code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert "a read failed" in caplog.text


@pytest.mark.defect
def test_callback_that_breaks_takes_nobody_with_it(caplog):
    work, told = HeldWork(), []

    def broken():
        raise ZeroDivisionError

    preparation = Preparation(work, broken)
    bench = Bench((0, "index"))
    segment = Segment(bench.disk, "t-0", 0, CONFIG, 2)
    with pytest.raises(NotPrepared):
        preparation.indexes(segment)
    for callback in (broken, lambda: told.append("told")):
        preparation.when_done(callback)
    work.run()
    assert told == ["told"]
    assert caplog.text.count("a callback of a log failed") == 2
    preparation.indexes(segment)
