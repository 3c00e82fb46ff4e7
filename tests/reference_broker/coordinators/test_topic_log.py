"""To a coordinator, a partition's log returns its records and its high watermark, and reports errors.

Method: use a log on an in-memory disk; background work waits until the test runs it.
"""

from __future__ import annotations

import contextlib
import errno

import pytest

from kafkawire.reference_broker.config.topic_configs import log_config
from kafkawire.reference_broker.coordinators.shard import InTransaction, LastMarker
from kafkawire.reference_broker.coordinators.topic_log import TopicLog
from kafkawire.reference_broker.storage.disk.memory import MemoryDisk, fail_at
from kafkawire.reference_broker.storage.log.partition_log import PartitionLog
from kafkawire.reference_broker.storage.producers.producers import Marker
from kafkawire.reference_broker.storage.services import LogServices
from kafkawire.sdk.errors import BrokerError, PartialBatch
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.records import walk
from tests.reference_broker.replicas.leader_bench import EPOCH, LeaderBench
from tests.reference_broker.replicas.leading import leading
from tests.reference_broker.storage.held_work import HeldWork
from tests.reference_broker.storage.produced_batches import NOW_MS


@pytest.fixture
def disk():
    disk = MemoryDisk()
    disk.make_folder("t-0")
    return disk


@pytest.fixture
def background():
    return HeldWork()


def open_log(disk, background, **configs):
    return TopicLog(leading(PartitionLog(LogServices(disk, background), "t-0", log_config(configs))))


def test_records_come_back_in_parts(disk, background):
    log = open_log(disk, background)
    ends = []
    for number in range(5):
        log.append([(b"k%d" % number, b"v" * 100), (b"gone", None)], NOW_MS, ends.append)
    assert ends == [2, 4, 6, 8, 10]
    assert (log.start_offset, log.next_offset, log.high_watermark) == (0, 10, 10)
    offset, found, reads = 0, [], 0
    while offset < log.next_offset:
        with contextlib.suppress(PartialBatch):
            for batch in walk(log.read(offset, 400)):
                found += [(record.key, record.value) for record in batch.records()]
                offset = batch.next_offset
        reads += 1
    assert found == [entry for number in range(5) for entry in ((b"k%d" % number, b"v" * 100), (b"gone", None))]
    assert reads > 1
    assert log.read(10, 400) == b""


def test_high_watermark_waits_for_a_sync_and_reading_does_not(disk, background):
    log = open_log(disk, background, **{"flush.messages": "1"})
    events = []
    log.append([(b"k", b"v")], NOW_MS, events.append)
    log.when_reached(1, events.append)
    assert (events, log.high_watermark) == ([1], 0)
    (batch,) = walk(log.read(0, 400))
    assert [(record.key, record.value) for record in batch.records()] == [(b"k", b"v")]
    background.run()
    assert (events, log.high_watermark) == ([1, None], 1)


def test_nothing_is_written_while_too_few_replicas_are_in_sync():
    bench = LeaderBench(isr=(1,), min_insync_replicas="2").lead()
    log = TopicLog(bench.replica)
    outcomes = []
    log.append([(b"k", b"v")], NOW_MS, outcomes.append)
    log.append([(b"k", b"v")], NOW_MS, outcomes.append, InTransaction(7, 3, None))
    log.append_marker(LastMarker(Marker(7, 4, True, 0), 2), NOW_MS, outcomes.append)
    assert [outcome.code for outcome in outcomes] == [ErrorCode.NOT_ENOUGH_REPLICAS] * 3
    assert log.next_offset == 0
    bench.lead(EPOCH + 1, isr=(1, 2))
    log.append([(b"k", b"v")], NOW_MS, outcomes.append)
    assert (outcomes[3:], log.high_watermark) == ([1], 0)


def test_transactions_come_back(disk, background):
    log = open_log(disk, background)
    ends = []
    for producer_id, is_commit in ((7, True), (8, False)):
        guard = log._log.producers.begin_verification(producer_id, 3, -1, NOW_MS, has_epoch_per_transaction=True)
        log.append([(b"k", b"v")], NOW_MS, ends.append, InTransaction(producer_id, 3, guard))
        log.append_marker(LastMarker(Marker(producer_id, 4, is_commit, 0), 2), NOW_MS, ends.append)
    assert ends == [1, 2, 3, 4]
    found = [
        (batch.producer_id, batch.is_transactional, batch.is_control, len(batch.records()))
        for batch in walk(log.read(0, 4000))
    ]
    assert found == [(7, True, False, 1), (7, True, True, 1), (8, True, False, 1), (8, True, True, 1)]
    log.append_marker(LastMarker(Marker(7, 3, True, 0), 2), NOW_MS, ends.append)
    assert ends[-1].code is ErrorCode.INVALID_PRODUCER_EPOCH
    log.append([(b"k", b"v")], NOW_MS, ends.append, InTransaction(9, 0, None))
    assert ends[-1].code is ErrorCode.INVALID_TXN_STATE, "the transaction has not been verified"


def test_failed_sync_is_final(disk, background):
    log = open_log(disk, background, **{"flush.messages": "1"})
    events = []
    log.append([(b"k", b"v")], NOW_MS, events.append)
    log.when_reached(1, events.append)
    disk.plan = fail_at(disk.calls + 1, errno.EIO)
    background.run()
    disk.plan = None
    log.append([(b"k", b"v")], NOW_MS, events.append)
    assert [event.code for event in events[1:]] == [ErrorCode.KAFKA_STORAGE_ERROR] * 2
    assert log.next_offset == 1


def test_refused_append_is_reported(disk, background):
    log = open_log(disk, background)
    disk.plan = fail_at(disk.calls + 1, errno.ENOSPC)
    events = []
    log.append([(b"k", b"v")], NOW_MS, events.append)
    assert events[0].code == ErrorCode.KAFKA_STORAGE_ERROR
    assert log.high_watermark == 0


def test_records_that_cannot_be_read_are_an_error_of_the_storage():
    disk = MemoryDisk()
    disk.make_folder("t-0")
    log = TopicLog(leading(PartitionLog(LogServices(disk), "t-0", log_config({}))))
    log.append([(b"k", b"v")], NOW_MS, lambda outcome: None)
    calls = []
    disk.plan = calls.append
    log.read(0, 1000)
    for number in range(1, len(calls) + 1):
        disk.plan = fail_at(disk.calls + number)
        with pytest.raises(BrokerError, match="KAFKA_STORAGE_ERROR"):
            log.read(0, 1000)


def test_batch_that_is_larger_than_what_is_read_comes_whole(disk, background):
    log = open_log(disk, background)
    log.append([(b"k", b"v" * 1_000)], NOW_MS, lambda outcome: None)
    (batch,) = walk(log.read(0, 10))
    assert batch.next_offset == 1


def test_log_begins_where_its_partition_does(disk, background):
    partition = PartitionLog(LogServices(disk, background), "t-0", log_config({}))
    log = TopicLog(leading(partition))
    log.append([(b"k", b"v"), (b"l", b"v")], NOW_MS, lambda outcome: None)
    partition.begin_at(1)
    assert (log.start_offset, log.next_offset) == (1, 2)


def test_nothing_is_appended_once_another_broker_leads(disk, background):
    replica = leading(PartitionLog(LogServices(disk, background), "t-0", log_config({})))
    log = TopicLog(replica)
    replica.stop()
    events = []
    log.append([(b"k", b"v")], NOW_MS, events.append)
    log.append([(b"k", b"v")], NOW_MS, events.append, InTransaction(1, 0, None))
    log.append_marker(LastMarker(Marker(1, 0, True, 0), 2), NOW_MS, events.append)
    assert [event.code for event in events] == [ErrorCode.NOT_LEADER_OR_FOLLOWER] * 3
    assert log.next_offset == 0
