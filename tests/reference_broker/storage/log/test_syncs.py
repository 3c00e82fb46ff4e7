"""Syncs are shared, planned, paused and retried.

Method: use a log on an in-memory disk, hold back its background work, and fire its timers manually.
"""

from __future__ import annotations

import errno

import pytest

from kafkawire.reference_broker.storage.batches import parse_header
from kafkawire.reference_broker.storage.disk.memory import MemoryDisk
from kafkawire.reference_broker.storage.log.partition_log import PartitionLog
from kafkawire.reference_broker.storage.log.syncs import RETRY_MS, Syncs
from kafkawire.reference_broker.storage.services import LogServices
from kafkawire.reference_broker.work.timers import Timers
from tests.reference_broker.storage.held_work import HeldWork
from tests.reference_broker.storage.produced_batches import NOW_MS, produced
from tests.reference_broker.storage.replicated_logs import CONFIG, FOLDER


@pytest.fixture
def work() -> HeldWork:
    return HeldWork()


@pytest.fixture
def log(work: HeldWork) -> PartitionLog:
    disk = MemoryDisk()
    disk.make_folder(FOLDER)
    log = PartitionLog(LogServices(disk, work, Timers()), FOLDER, CONFIG)
    append(log)
    return log


@pytest.fixture
def syncs(log: PartitionLog) -> Syncs:
    return log._syncs


def append(log: PartitionLog) -> None:
    data = produced(b"v")
    log.append(data, parse_header(data), NOW_MS, lambda result: None)


def test_requests_share_the_next_sync(log, work, syncs):
    syncs.sync(log)
    append(log)
    syncs.sync(log)
    syncs.sync(log)
    assert len(work.pending) == 1
    work.run(1)
    assert (log.recovery_point, len(work.pending)) == (1, 1)
    work.run()
    assert log.recovery_point == 2


@pytest.mark.parametrize(("later_ms", "at_ms"), [(50, 50), (200, 100)])
def test_earliest_deadline_counts(log, work, syncs, later_ms, at_ms):
    timers = log._services.timers
    syncs.by(log, 100)
    syncs.by(log, 10)  # this plans a sync
    syncs.by_at_the_latest(log, later_ms)
    timers.fire(at_ms - 1)
    assert not work.pending
    timers.fire(at_ms)
    assert len(work.pending) == 1


def test_nothing_is_planned_without_records_or_after_a_cancel(log, work, syncs):
    syncs.by(log, 100)
    syncs.cancel()
    syncs.sync_in_place(log)
    assert log.recovery_point == 1
    syncs.by(log, 200)
    log._services.timers.fire(1000)
    assert not work.pending


def test_pause(log, work, syncs):
    syncs.is_paused = True
    syncs.sync(log)
    assert not work.pending
    syncs.go_on(log)
    work.run()
    assert log.recovery_point == 1
    syncs.go_on(log)
    assert not work.pending


def test_retried_after_a_lack_of_descriptors(log, work, syncs, caplog):
    def plan(call):
        raise OSError(errno.EMFILE, "planned", call.path)

    log._services.disk.plan = plan
    syncs.sync(log)
    work.run()
    assert "too few file descriptors" in caplog.text
    log._services.disk.plan = None
    log._services.timers.fire(RETRY_MS)
    work.run()
    assert (log.recovery_point, log.error) == (1, None)


def test_stored_segments_are_told(log, work, syncs):
    told = []
    log.roll(lambda: None)
    work.run(1)
    syncs.store(log, [log.segments.first], lambda: told.append(True))
    assert not told
    work.run()
    assert told == [True]
