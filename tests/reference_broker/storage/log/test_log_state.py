"""A log reports its true state: how much of it is synced and readable, and whether its disk has failed.

Method: use an in-memory disk, and background work that the test holds back; in each case, a faulty log could
acknowledge records that may be lost, or keep other requests waiting.
"""

import dataclasses
import errno

import pytest

from kafkawire.reference_broker.config.topic_configs import NEVER_MS, log_config
from kafkawire.reference_broker.storage.batches import parse_header
from kafkawire.reference_broker.storage.disk.memory import fail_at
from kafkawire.reference_broker.storage.log.partition_log import Appended, PartitionLog
from kafkawire.reference_broker.storage.segments.segments import TimestampAndOffset
from kafkawire.reference_broker.storage.services import LogServices
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from tests.reference_broker.replicas.leading import leading
from tests.reference_broker.storage.produced_batches import NOW_MS, produced
from tests.reference_broker.storage.state_bench import ROLLING, SYNCING, Bench


def test_many_producers_share_a_sync():
    """480 acknowledgements once took 1,441 syncs."""
    bench = Bench(SYNCING)

    def run():
        for _ in range(30):
            for _ in range(16):
                bench.append()
            # Meanwhile, one sync is in flight.
            bench.work.run(1)
        bench.work.run()

    paths = bench.syncs(run)
    assert [offset for offset, error in bench.reached if error is None] == list(range(1, 481))
    assert len(paths) == 31
    assert set(paths) == {"t-0/00000000000000000000.log"}, "the indexes can wait"


def test_only_one_sync_is_in_flight():
    bench = Bench(SYNCING)
    for _ in range(5):
        bench.append()
        assert len(bench.work.pending) == 1


def test_nothing_is_acknowledged_or_readable_before_it_is_synced():
    bench = Bench(SYNCING)
    heard = []
    bench.replica.watch(heard.append)
    bench.append(b"a")
    assert bench.results == [Appended(0, 0, -1)]
    assert (bench.log.next_offset, bench.log.high_watermark, bench.log.last_stable_offset) == (1, 0, 0)
    assert (bench.reached, heard, bench.values()) == ([], [], [])
    bench.work.run(1)
    assert bench.reached == [(1, None)]
    assert (heard, bench.log.recovery_point) == ([len(produced(b"a"))], 1)
    assert bench.values() == [b"a"]


def test_what_came_during_a_sync_waits_for_the_next():
    bench = Bench(SYNCING)
    bench.append(b"a")
    bench.append(b"b")
    bench.append(b"c")
    bench.work.run(1)
    assert (bench.log.high_watermark, bench.reached) == (1, [(1, None)])
    assert bench.values() == [b"a"], "a fetch ends at the high watermark"
    assert bench.values(1) == []
    bench.work.run(1)
    assert bench.reached == [(1, None), (2, None), (3, None)]
    assert not bench.work.pending


def test_flush_messages_counts_records():
    bench = Bench(dataclasses.replace(SYNCING, flush_messages=3))
    bench.append()
    bench.append()
    assert ([offset for offset, _ in bench.reached], len(bench.work.pending)) == ([1, 2], 0)
    bench.append()
    assert (bench.log.high_watermark, len(bench.work.pending)) == (2, 1)
    bench.append()
    bench.work.run(1)
    # Again, one unsynced record may be acknowledged.
    assert (bench.log.high_watermark, bench.log.recovery_point, len(bench.work.pending)) == (4, 3, 1)
    bench.work.run()
    assert bench.log.recovery_point == 4


def test_failed_sync_is_told_to_everybody_and_never_forgotten():
    """An EIO from fsync used to be forgotten: the next fsync succeeded, and lost data was considered synced."""
    bench = Bench(SYNCING)
    watched, committed = [], []
    bench.replica.watch(watched.append)
    bench.replica.watch(committed.append, is_committed=True)
    bench.append(b"a")
    bench.work.run()
    for value in (b"b", b"c"):
        bench.append(value)
    bench.disk.plan = fail_at(bench.disk.calls + 1)
    bench.work.run()
    assert bench.reached == [(1, None), (2, ErrorCode.KAFKA_STORAGE_ERROR), (3, ErrorCode.KAFKA_STORAGE_ERROR)]
    assert bench.log.is_offline
    assert watched[-1] >= 2**31, "a delayed fetch ends, whatever it waits for"
    assert committed[-1] >= 2**31, "a delayed fetch for committed records also ends"
    bench.append(b"d")
    assert bench.results[-1].code == ErrorCode.KAFKA_STORAGE_ERROR
    bench.replica.when_reached(2, lambda error: watched.append(error))
    assert watched[-1].code == ErrorCode.KAFKA_STORAGE_ERROR
    for action in (lambda: bench.values(), lambda: bench.log.offset_for_timestamp(0), bench.log.max_timestamp):
        with pytest.raises(BrokerError, match="KAFKA_STORAGE_ERROR"):
            action()
    # A restart does not forget the failure, either: data that the system considers written is rewritten.
    again = Bench(SYNCING, bench.disk.crash(), is_clean=False, recovery_point=1)
    again.append(b"e")
    again.work.run()
    for seed in range(20):
        left = Bench(SYNCING, again.disk.crash(seed), is_clean=False, recovery_point=1)
        assert left.values()[0] == b"a"
        assert left.values()[-1] == b"e"


@pytest.mark.parametrize("config", [SYNCING, log_config({}), ROLLING])
def test_append_that_fails_takes_the_log_offline_and_leaves_nothing(config, caplog):
    bench = Bench(config)
    bench.append(b"a")
    bench.work.run()
    bench.disk.plan = fail_at(bench.disk.calls + 1, errno.ENOSPC)
    bench.append(b"b")
    assert bench.results[-1].code == ErrorCode.KAFKA_STORAGE_ERROR
    bench.append(b"c")
    assert bench.results[-1].code == ErrorCode.KAFKA_STORAGE_ERROR
    assert bench.log.next_offset == 1
    assert caplog.text.count("memory:t-0: taking the log offline: [Errno 28] No space left on device") == 1
    again = Bench(config, bench.disk.crash(), is_clean=False)
    assert (again.values(), again.log.truncated_bytes) == ([b"a"], 0)


def test_append_that_cannot_be_cut_back_is_cut_by_recovery():
    bench = Bench(log_config({}))
    bench.append(b"a")

    def plan(call):
        if call.name in ("append", "truncate"):
            raise OSError(errno.EIO, "gone")

    bench.disk.plan = plan
    bench.append(b"b")
    again = Bench(log_config({}), bench.disk.crash(), is_clean=False)
    assert again.values() == [b"a"]
    assert again.log.truncated_bytes == len(produced(b"b")) // 2


def test_appends_wait_in_order_while_the_log_rolls():
    bench = Bench(ROLLING)
    for number in range(10):
        bench.append(b"%d" % number)
    assert len(bench.results) == 4, "the fifth append needs a new segment"
    assert len(bench.work.pending) == 1
    bench.work.run()
    assert [result.base_offset for result in bench.results] == list(range(10))
    assert [bench.values(offset)[0] for offset in range(10)] == [b"%d" % number for number in range(10)]
    assert bench.disk.names("t-0")[1:3] == ["00000000000000000000.log", "00000000000000000000.timeindex"]
    assert bench.log.recovery_point == 8


def test_appends_of_a_callback_come_after_those_that_wait():
    bench = Bench(ROLLING)
    order = []

    def again(result):
        order.append(result.base_offset)
        if len(order) == 1:
            bench.append(b"from the callback")

    for _ in range(4):
        bench.append()
    data = produced(b"first")
    bench.log.append(data, parse_header(data), NOW_MS, again)
    bench.append(b"second")
    bench.work.run()
    assert order == [4]
    assert bench.values(4) == [b"first", b"second", b"from the callback"]


def test_roll_that_fails_refuses_those_who_wait(caplog):
    bench = Bench(ROLLING)
    for _ in range(6):
        bench.append()
    bench.disk.plan = fail_at(bench.disk.calls + 1, errno.EMFILE)
    bench.work.run()
    assert [isinstance(result, BrokerError) for result in bench.results] == [False] * 4 + [True] * 2
    assert "Too many open files" in caplog.text


def test_failure_of_one_log_does_not_concern_others():
    bench = Bench(SYNCING)
    bench.disk.make_folder("t-1")
    other = PartitionLog(bench.services, "t-1", SYNCING)
    owner = leading(other)
    bench.append()
    bench.disk.plan = fail_at(bench.disk.calls + 1)
    bench.work.run()
    data = produced(b"x")
    reached = []
    other.append(data, parse_header(data), NOW_MS, lambda result: None)
    owner.when_reached(1, reached.append)
    bench.work.run()
    assert (reached, other.error, bench.log.is_offline) == ([None], None, True)


def test_read_that_fails_concerns_the_reader_alone(caplog):
    bench = Bench(log_config({}))
    for _ in range(9):  # the positions of the last eight are known without the file
        bench.append(b"a")
    bench.disk.plan = fail_at(bench.disk.calls + 1)
    with pytest.raises(BrokerError, match="KAFKA_STORAGE_ERROR"):
        bench.values()
    assert "t-0 cannot be read: [Errno 5]" in caplog.text
    assert not bench.log.is_offline
    assert bench.values() == [b"a"] * 9


def test_flush_ms_syncs_in_time_and_a_full_disk_stops_no_timer():
    config = dataclasses.replace(log_config({}), flush_ms=100)
    bench = Bench(config)
    bench.disk.make_folder("t-1")
    other = PartitionLog(bench.services, "t-1", config)
    bench.append(now_ms=1000)
    bench.append(now_ms=1050)
    data = produced(b"x")
    other.append(data, parse_header(data), 1060, lambda result: None)
    assert bench.services.timers.next_deadline_ms == 1100
    bench.services.timers.fire(1099)
    assert not bench.work.pending
    bench.disk.plan = fail_at(bench.disk.calls + 1, errno.ENOSPC)
    bench.services.timers.fire(1100)
    bench.work.run()
    assert bench.log.is_offline
    bench.services.timers.fire(1160)
    bench.work.run()
    assert other.recovery_point == 1
    other.append(data, parse_header(data), 2000, lambda result: None)
    assert bench.services.timers.next_deadline_ms == 2100


def test_flush_is_planned_once_and_only_for_what_is_not_durable():
    bench = Bench(dataclasses.replace(log_config({}), flush_ms=100))
    bench.append(now_ms=1000)
    bench.append(now_ms=1050)
    bench.services.timers.fire(1100)
    assert bench.services.timers.next_deadline_ms is None
    services = LogServices(bench.disk)  # a background whose syncs end before the append returns
    log = PartitionLog(services, "t-0", dataclasses.replace(SYNCING, flush_ms=100))
    data = produced(b"x")
    log.append(data, parse_header(data), 1200, lambda result: None)
    assert (log.recovery_point, services.timers.next_deadline_ms) == (log.next_offset, None)


def test_flush_during_a_sync_is_followed_by_another():
    bench = Bench(dataclasses.replace(log_config({}), flush_ms=100))
    bench.append(now_ms=1000)
    bench.services.timers.fire(1100)
    bench.append(now_ms=1101)
    bench.services.timers.fire(1201)
    assert len(bench.work.pending) == 1
    bench.work.run()
    assert bench.log.recovery_point == 2


def test_deleted_topic_ends_its_log():
    bench = Bench(SYNCING)
    bench.append()
    gone = BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "deleted")
    bench.log.end(gone)
    assert bench.reached == [(1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)]
    bench.work.run()
    bench.append()
    assert bench.results[-1] is gone
    assert not bench.log.is_offline


def test_close_makes_everything_durable():
    """An earlier close did not sync, and no test noticed."""
    bench = Bench(ROLLING)
    for number in range(7):
        bench.append(b"%d" % number)
        bench.work.run()
    bench.append(b"L")
    bench.log.close()
    assert bench.log.recovery_point == 8
    bench.disk.sync_folder("")
    for seed in range(10):
        again = Bench(ROLLING, bench.disk.crash(seed), is_clean=True, recovery_point=8)
        assert [again.values(offset)[0] for offset in range(8)] == [*(b"%d" % number for number in range(7)), b"L"]
        highest: list[object] = []
        for each in (again, bench):
            each.log.when_prepared(each.log.max_timestamp, highest.append)
            each.work.run()
        assert highest[0] == highest[1]
        assert isinstance(highest[0], TimestampAndOffset)


def test_a_log_that_nobody_has_appended_to_is_closed_at_no_cost():
    """Otherwise, a broker with ten thousand logs would take half a minute to shut down."""
    new = Bench(log_config({}))
    before = new.disk.calls
    new.log.close()
    assert new.disk.calls == before
    bench = Bench(ROLLING)
    for number in range(5):
        bench.append(b"%d" % number)
        bench.work.run()
    bench.log.close()
    bench.disk.sync_folder("")
    for seed in range(10):
        again = Bench(ROLLING, bench.disk.crash(seed), is_clean=True, recovery_point=5)
        calls = []
        again.disk.plan = calls.append
        again.log.close()
        assert [call.name for call in calls] == []
        last = Bench(ROLLING, again.disk.crash(seed), is_clean=True, recovery_point=5)
        assert [last.values(offset)[0] for offset in range(5)] == [b"%d" % number for number in range(5)]
        last.append(b"more")
        last.log.close()
        after = Bench(ROLLING, last.disk.crash(seed), is_clean=True, recovery_point=6)
        assert after.values(5) == [b"more"]


def test_close_that_fails_is_reported(caplog):
    bench = Bench(log_config({}))
    bench.append()
    bench.disk.plan = fail_at(bench.disk.calls + 1)
    bench.log.close()
    assert bench.log.is_offline
    assert "offline" in caplog.text


def test_log_that_cannot_be_opened_is_offline(caplog):
    bench = Bench(log_config({}))
    bench.append()
    after = bench.disk.crash()
    after.make_folder("t-0")
    after.plan = fail_at(after.calls + 2)
    again = Bench(log_config({}), after, is_clean=False)
    assert again.log.is_offline
    assert again.log.size_bytes == 0
    again.append()
    assert again.results[0].code == ErrorCode.KAFKA_STORAGE_ERROR


def test_what_a_crash_left_is_synced_before_it_is_read_if_the_topic_asks_for_that():
    bench = Bench(SYNCING)
    bench.append(b"a")
    after = bench.disk.crash()
    again = Bench(SYNCING, after, is_clean=False)
    assert (again.values(), again.log.recovery_point) == ([b"a"], 1)
    after.sync_folder("")
    for seed in range(10):
        assert Bench(SYNCING, after.crash(seed), is_clean=False).values() == [b"a"]


def test_roll_on_request():
    bench = Bench(log_config({}))
    bench.append(b"a")
    told = []
    bench.log.roll(lambda: told.append(len(bench.log.segments)))
    bench.append(b"b")
    assert len(bench.results) == 1, "the second append waits for the new segment"
    bench.work.run(1)
    assert (len(bench.results), told) == (2, [2])
    bench.work.run()
    assert bench.log.recovery_point == 1
    assert bench.values(1) == [b"b"]


def test_roll_on_request_ends_with_the_log():
    bench = Bench(log_config({}))
    bench.append(b"a")
    told = []
    bench.log.roll(lambda: told.append("first"))
    bench.disk.plan = fail_at(bench.disk.calls + 1)
    bench.work.run()
    bench.log.roll(lambda: told.append("second"))
    assert told == ["first", "second"]
    assert bench.log.is_offline


def test_first_record_after_an_empty_log_was_closed_makes_its_names_durable():
    bench = Bench(SYNCING)
    bench.disk.sync_folder("")
    bench.log.close()
    again = Bench(SYNCING, bench.disk)
    again.append(b"a")
    again.work.run()
    assert again.reached == [(1, None)]
    for seed in range(10):
        assert Bench(SYNCING, again.disk.crash(seed), is_clean=False).values() == [b"a"]


def test_another_configuration_counts_at_once_also_in_the_segment_that_is_appended_to():
    bench = Bench(log_config({}))
    for _ in range(4):
        bench.append()
    bench.log.configure(ROLLING)
    assert bench.log.config is ROLLING
    bench.append()
    bench.work.run()
    assert [segment.base_offset for segment in bench.log.segments] == [0, 4]
    bench.log.configure(log_config({}))
    for _ in range(8):
        bench.append()
    assert len(bench.log.segments) == 2


def test_a_configuration_that_comes_during_a_roll_is_that_of_the_new_segment():
    bench = Bench(ROLLING)
    for _ in range(5):
        bench.append()
    bench.log.configure(log_config({}))
    bench.work.run()
    for _ in range(8):
        bench.append()
    assert [segment.base_offset for segment in bench.log.segments] == [0, 4]


def test_what_may_be_acknowledged_follows_the_configuration():
    bench = Bench(SYNCING)
    bench.append()
    assert (bench.reached, bench.log.high_watermark) == ([], 0)
    bench.log.configure(log_config({}))
    assert (bench.reached, bench.log.high_watermark) == ([(1, None)], 1)
    bench.work.run()
    bench.append()
    assert not bench.work.pending
    bench.log.configure(SYNCING)
    assert len(bench.work.pending) == 1, "acknowledged records become durable as well"


@pytest.mark.parametrize(("before_ms", "after_ms", "at_ms"), [(NEVER_MS, 50, 50), (500, 50, 50), (20, 50, 20)])
def test_another_flush_ms_is_kept_for_what_is_not_durable(before_ms, after_ms, at_ms):
    bench = Bench(dataclasses.replace(log_config({}), flush_ms=before_ms))
    bench.append(now_ms=0)
    bench.log.configure(dataclasses.replace(log_config({}), flush_ms=after_ms))
    assert bench.services.timers.next_deadline_ms == at_ms
    bench.services.timers.fire(at_ms)
    bench.work.run()
    assert bench.log.recovery_point == 1


def test_a_log_that_has_ended_only_takes_note_of_its_configuration():
    bench = Bench(log_config({}))
    bench.append()
    bench.log.fail(OSError("gone"))
    bench.log.configure(SYNCING)
    assert (bench.log.config, len(bench.work.pending)) == (SYNCING, 0)
