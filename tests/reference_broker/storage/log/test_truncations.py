"""While a log is being truncated, every operation on the part to be removed waits, is refused, or fails cleanly.

Method: hold back background work to make requests arrive at each moment of a truncation.
"""

from __future__ import annotations

import errno

import pytest

from kafkawire.reference_broker.storage.batches import parse_header
from kafkawire.reference_broker.storage.disk.disk import read_file
from kafkawire.reference_broker.storage.disk.memory import MemoryDisk
from kafkawire.reference_broker.storage.log.partition_log import Appended, PartitionLog
from kafkawire.reference_broker.storage.log.truncation import TRUNCATION, Truncation, begin_truncation
from kafkawire.reference_broker.storage.segments.search_preparation import NotPrepared
from kafkawire.reference_broker.storage.segments.segments import Read
from kafkawire.reference_broker.storage.services import LogServices
from kafkawire.reference_broker.work.timers import Timers
from kafkawire.sdk.errors import BrokerError, LocalProtocolError
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from tests.reference_broker.storage.held_work import HeldWork
from tests.reference_broker.storage.produced_batches import NOW_MS, produced
from tests.reference_broker.storage.replicated_logs import FOLDER, SMALL, batches_of, placed


@pytest.fixture
def work() -> HeldWork:
    return HeldWork()


@pytest.fixture
def log(work: HeldWork) -> PartitionLog:
    """Return a log of twenty batches of one record, in four segments."""
    disk = MemoryDisk()
    disk.make_folder(FOLDER)
    log = PartitionLog(LogServices(disk, work, Timers()), FOLDER, SMALL, high_watermark=0)
    log.lead(0)
    for number in range(20):
        data = produced(b"%02d" % number * 10)
        log.append(data, parse_header(data), NOW_MS, lambda result: None)
    work.run()
    assert len(log.segments) == 4
    log.set_high_watermark(10)
    return log


def test_appends_that_wait_are_refused_and_later_ones_wait(log, work):
    results = {}

    def append(name):
        data = produced(name.encode() * 200)
        log.append(data, parse_header(data), NOW_MS, lambda result: results.update({name: result}))

    append("before")  # needs another segment
    log.truncate_to(12, lambda error: results.update(truncated=error))
    assert results["before"].code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    append("meanwhile")
    log.append_as_follower(placed(produced(b"f"), 12), 12, 0, NOW_MS, lambda result: results.update(fetched=result))
    assert set(results) == {"before"}
    work.run()
    assert results["truncated"] is None
    assert results["meanwhile"].base_offset == 12
    assert results["fetched"].code == ErrorCode.OFFSET_OUT_OF_RANGE, "another append came first"
    assert log.next_offset == 13


def test_reads_of_what_stays_go_on_and_others_wait(log, work):
    log.truncate_to(14, lambda error: None)
    segment = log.segments.since(14)[0]
    assert log.read(0, 1000, at_least_one=True).records is not None
    with pytest.raises(NotPrepared):
        log.read(segment.base_offset, 1000, at_least_one=True, up_to=20)
    found: list[Read | BrokerError] = []
    log.when_prepared(lambda: log.read(segment.base_offset, 1000, at_least_one=True, up_to=14), found.append)
    assert not found
    work.run()
    assert isinstance(found[0], Read)
    assert found[0].records is not None
    with pytest.raises(BrokerError, match="the log extends from 0 to 14"):
        log.read(15, 1000, at_least_one=True)


def test_slices_never_show_what_was_appended_later(log, work):
    base_offset = log.segments.since(8)[0].base_offset
    offsets = (base_offset - 1, base_offset, 18)
    before = [log.read(offset, 1000, at_least_one=True, up_to=20).records for offset in offsets]
    content = [each.read() for each in before if each is not None]
    log.truncate_to(base_offset + 1, lambda error: None)
    work.run()
    for number in range(8):
        data = produced(b"new %d" % number * 8)
        log.append(data, parse_header(data), NOW_MS, lambda result: None)
    work.run()
    assert log.next_offset == base_offset + 9
    outcomes = []
    for each, expected in zip(before, content, strict=True):
        assert each is not None
        try:
            assert each.read() == expected
            outcomes.append("whole")
        except OSError:
            outcomes.append("short")
    assert outcomes == ["whole", "short", "whole"], "removed files stay readable"


def test_two_truncations_happen_one_after_another(log, work):
    ended = []
    log.truncate_to(15, lambda error: ended.append((15, error, log.next_offset)))
    log.truncate_to(4, lambda error: ended.append((4, error, log.next_offset)))
    log.truncate_to(9, lambda error: ended.append((9, error, log.next_offset)))
    assert log.is_unsettled
    with pytest.raises(LocalProtocolError, match="it is being truncated"):
        log.lead(7)
    work.run()
    assert ended == [(15, None, 15), (4, None, 4), (9, None, 4)]
    assert (log.truncations, log.is_unsettled, log.high_watermark) == (2, False, 4)
    log.lead(7)
    assert log.epochs.entries() == [(0, 0), (7, 4)]
    with pytest.raises(LocalProtocolError, match="its last epoch is 7"):
        log.lead(6)


def test_syncs_rolls_and_stores_wait(log, work):
    told = []
    log.truncate_to(12, lambda error: told.append("truncated"))
    log.roll(lambda: told.append("rolled"))
    log.store(list(log.segments)[1:], lambda: told.append("stored"))
    log.sync()
    assert len(work.pending) == 1
    work.run()
    assert told[0] == "truncated"
    assert set(told) == {"truncated", "rolled", "stored"}
    assert log.recovery_point == 12
    assert log.error is None


def test_log_that_ends_meanwhile(log, work):
    ended: list[BrokerError | None] = []
    log.truncate_to(12, ended.append)
    log.start_at(100, ended.append)
    quiet = []
    log.when_quiet(lambda: quiet.append(True))
    log.end(BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "deleted"))
    assert not quiet, "the log's folder is in use"
    work.run()
    assert quiet == [True]
    assert [error.code for error in ended if error is not None] == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION] * 2


def test_truncation_is_retried_after_a_lack_of_descriptors(log, work, caplog):
    services, ended = log._services, []

    def plan(call):
        if call.name == "create" and TRUNCATION in call.path:
            raise OSError(errno.EMFILE, "planned", call.path)

    services.disk.plan = plan
    log.truncate_to(12, ended.append)
    work.run()
    assert "too few file descriptors" in caplog.text
    assert not ended
    services.disk.plan = None
    services.timers.fire(10_000)
    work.run()
    assert (ended, log.next_offset) == ([None], 12)


@pytest.mark.parametrize("name", ["truncate", "remove", "sync", "sync_folder", "rename"])
def test_failed_truncation_ends_the_log_and_the_next_opening_completes_it(log, work, name):
    disk, ended = log._services.disk, []
    calls = []

    def plan(call):
        calls.append(call.name)
        if call.name == name and "truncate" in [*calls, name]:
            raise OSError(errno.EIO, "planned", call.path)

    disk.plan = plan
    log.truncate_to(12, ended.append)
    work.run()
    assert ended == [log.error]
    assert log.is_offline
    disk = disk.crash()
    again = PartitionLog(LogServices(disk), FOLDER, SMALL, is_clean=False, high_watermark=10)
    assert again.next_offset in (12, 20)
    if again.is_unsettled:
        results = []
        data = produced(b"a")
        again.append(data, parse_header(data), NOW_MS, results.append)
        assert not results, "a checkpoint may still be ahead"
        again.settle()
        assert results[0].base_offset == 12
    assert list(batches_of(again)) == list(range(again.next_offset))


def test_failed_checkpoint_ends_the_log(log, work):
    ended: list[BrokerError | None] = []
    failed = BrokerError(ErrorCode.KAFKA_STORAGE_ERROR, "full")
    log.on_truncated = lambda log, offset, done: done(failed)
    log.truncate_to(12, ended.append)
    work.run()
    assert ended == [log.error]
    assert log.is_offline
    assert TRUNCATION in log._services.disk.names(FOLDER)


@pytest.mark.parametrize("steps", [0, 1, 2])
def test_closed_during_a_truncation(log, work, steps):
    """Opening the log completes a truncation that has begun, even if all logs were closed cleanly."""
    ended: list[BrokerError | None] = []
    disk = log._services.disk
    log.truncate_to(12, ended.append)
    log.truncate_to(5, ended.append)
    work.run(steps)
    has_begun = TRUNCATION in disk.names(FOLDER)
    log.close()
    assert not log.is_offline
    again = PartitionLog(
        LogServices(disk.crash()), FOLDER, SMALL, recovery_point=log.stored_to, high_watermark=log.high_watermark
    )
    assert (again.next_offset, again.is_unsettled, again.error) == (12 if steps else 20, has_begun, None)
    assert list(batches_of(again)) == list(range(again.next_offset))


def test_work_that_goes_on_after_closing(log, work):
    """A truncation continues on a thread that the broker no longer waits for; opening the log completes it."""
    disk = log._services.disk
    log.truncate_to(12, lambda error: None)
    log.close()
    work.run()
    assert TRUNCATION in disk.names(FOLDER)
    again = PartitionLog(LogServices(disk), FOLDER, SMALL, recovery_point=20, high_watermark=10)
    assert (again.next_offset, again.is_unsettled) == (12, True)


def test_start_that_moves_during_a_truncation(log, work):
    log.truncate_to(15, lambda error: None)
    log.begin_at(7)
    work.run(1)
    again = PartitionLog(
        LogServices(log._services.disk.crash()), FOLDER, SMALL, log_start_offset=7, high_watermark=10, is_clean=False
    )
    assert again.log_start_offset == 7, "the checkpoint is newer than the truncation file"
    work.run()
    assert (log.log_start_offset, log.next_offset, log.epochs.entries()) == (7, 15, [(0, 7)])


def test_slices_of_before_two_truncations_never_show_what_was_appended_later(log, work):
    """The first truncation leaves more of the segment than the second one does."""
    base_offset = log.segments.since(8)[0].base_offset
    slices = [log.read(base_offset + number, 1, at_least_one=True, up_to=20).records for number in range(4)]
    before = [each.read() for each in slices]
    for end_offset in (base_offset + 3, base_offset + 1):
        log.truncate_to(end_offset, lambda error: None)
        work.run()
        for number in range(6):
            data = produced(b"new %d" % number * 8)
            log.append(data, parse_header(data), NOW_MS, lambda result: None)
        work.run()
    assert slices[0].read() == before[0]
    for each in slices[1:]:
        with pytest.raises(OSError, match="bytes from position"):
            each.read()


@pytest.mark.parametrize("role", ["leader", "follower"])
def test_appends_that_wait_for_a_segment_end_with_the_role(log, work, role):
    outcomes: dict[str, Appended | BrokerError] = {}
    if role == "leader":
        part = b"".join(placed(produced(b"%d" % number * 60), 20 + number, 5) for number in range(9))
        log.append_as_follower(part, 20, 5, NOW_MS, lambda result: outcomes.update(waiting=result))
        appended_to = log.next_offset
        log.lead(8)
    else:
        data = produced(b"x" * 500)
        log.append(data, parse_header(data), NOW_MS, lambda result: outcomes.update(waiting=result))
        appended_to = log.next_offset
        log.refuse_waiting(BrokerError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "another role"))
    refused = outcomes["waiting"]
    assert isinstance(refused, BrokerError)
    assert refused.code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    work.run()
    assert log.next_offset == appended_to
    if role == "leader":
        assert log.epochs.entries()[-1] == (8, appended_to)
        data = produced(b"new")
        log.append(data, parse_header(data), NOW_MS, lambda result: outcomes.update(new=result))
        work.run()
        assert [header.leader_epoch for _, header in log.headers()][-1] == 8
    else:
        log.append_as_follower(
            placed(produced(b"f"), 20, 5), 20, 5, NOW_MS, lambda result: outcomes.update(fetched=result)
        )
        assert isinstance(outcomes["fetched"], Appended)


class Owner:
    """An owner that counts its notifications; see `LogOwner`."""

    def __init__(self) -> None:
        self.heard: list[str] = []

    def __getattr__(self, name: str):
        return lambda *arguments: self.heard.append(name)


def test_owner_hears_of_each_segment_of_a_part(log, work):
    owner = Owner()
    log.own(owner)
    part = b"".join(placed(produced(b"%d" % number * 60), 20 + number) for number in range(9))
    log.append_as_follower(part, 20, 0, NOW_MS, lambda result: None)
    assert log.next_offset > 20, "the rest waits for a segment"
    assert owner.heard[-1] == "moved"


def short_of_descriptors(call):
    if call.name == "create" and TRUNCATION in call.path:
        raise OSError(errno.EMFILE, "planned", call.path)


def test_retry_leaves_a_folder_alone_whose_log_has_ended(log, work):
    services, ended = log._services, []
    services.disk.plan = short_of_descriptors
    log.truncate_to(12, ended.append)
    work.run()
    deleted = BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "deleted")
    log.end(deleted)
    services.disk.plan = None
    before = {name: read_file(services.disk, f"{FOLDER}/{name}") for name in services.disk.names(FOLDER)}
    services.timers.fire(10_000)
    work.run()
    assert ended == [deleted]
    assert {name: read_file(services.disk, f"{FOLDER}/{name}") for name in services.disk.names(FOLDER)} == before


def test_readers_wait_until_the_retry(log, work):
    services = log._services
    services.disk.plan = short_of_descriptors
    log.truncate_to(12, lambda error: None)
    work.run()
    with pytest.raises(NotPrepared):
        log.read(15, 1000, at_least_one=True, up_to=20)
    services.disk.plan = None
    services.timers.fire(10_000)
    work.run()
    assert log.read(11, 1000, at_least_one=True, up_to=12).records is not None


def test_truncation_counts_from_its_beginning(log, work):
    log.truncate_to(12, lambda error: None)
    assert log.truncations == 1, "readers of its files may now fail"


def test_truncation_below_the_high_watermark_is_reported(log, work, caplog):
    log.truncate_to(10, lambda error: None)
    work.run()
    assert "below high watermark" not in caplog.text
    log.truncate_to(4, lambda error: None)
    assert "truncating to offset 4, below the high watermark 10" in caplog.text


def test_others_have_no_turn_before_an_interrupted_truncation_is_settled(log, work):
    begin_truncation(log._services.disk, FOLDER, Truncation(0, 12))
    again = PartitionLog(log._services, FOLDER, SMALL, is_clean=False, high_watermark=10)
    again.settle()
    taken = []
    again.turns.take(lambda: taken.append(again.is_unsettled))
    assert not taken
    work.run()
    assert taken == [False]
