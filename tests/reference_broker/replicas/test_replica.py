"""A replica decides how much of its log is committed, notifies its watchers, and knows the leader epoch.

Method: use a log on an in-memory disk, and hold back its background work. See `test_roles.py` for roles.
"""

import gc
import weakref

import pytest

from kafkawire.reference_broker.config.topic_configs import log_config
from kafkawire.reference_broker.replicas.awaited_offset import COMPLETES_ANY_FETCH_BYTES
from kafkawire.reference_broker.storage.batches import parse_header
from kafkawire.reference_broker.storage.disk.memory import MemoryDisk, fail_at
from kafkawire.reference_broker.storage.log.partition_log import PartitionLog
from kafkawire.reference_broker.storage.services import LogServices
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from tests.reference_broker.replicas.leading import leading
from tests.reference_broker.storage.held_work import HeldWork
from tests.reference_broker.storage.produced_batches import NOW_MS, produced
from tests.reference_broker.storage.transacting_logs import TransactingLog


class Bench:
    """A replica and the notifications of its watchers."""

    def __init__(self, **configs):
        self.disk = MemoryDisk()
        self.disk.make_folder("t-0")
        self.work = HeldWork()
        self.log = PartitionLog(LogServices(self.disk, self.work), "t-0", log_config(configs))
        self.replica = leading(self.log)
        self.readable, self.committed, self.reached = [], [], []
        self.replica.watch(self.readable.append)
        self.replica.watch(self.committed.append, is_committed=True)

    def append(self):
        data = produced(b"v")
        self.log.append(data, parse_header(data), NOW_MS, lambda result: None)
        offset = self.log.next_offset
        self.replica.when_reached(offset, lambda error: self.reached.append(error and error.code))
        return len(data)


def test_what_this_disk_has_is_committed_at_once():
    bench = Bench()
    size = bench.append()
    assert (bench.log.high_watermark, bench.reached) == (1, [None])
    assert bench.readable == bench.committed == [size]


def test_what_has_to_be_synced_is_committed_when_it_is():
    bench = Bench(**{"flush.messages": "1"})
    bench.append()
    assert (bench.log.high_watermark, bench.reached, bench.readable) == (0, [], [])
    bench.work.run()
    assert (bench.log.high_watermark, bench.reached) == (1, [None])


def test_transactions_hold_back_those_who_read_committed_records():
    transacting = TransactingLog()
    replica, readable, committed = leading(transacting.log), [], []
    replica.watch(readable.append)
    replica.watch(committed.append, is_committed=True)
    transacting.append(1, b"v")
    assert (len(readable), committed) == (1, [])
    transacting.end(1, is_commit=True)
    assert committed == [transacting.log.size_bytes]


def test_a_new_start_is_told_without_bytes():
    bench = Bench()
    bench.append()
    bench.readable.clear()
    bench.log.begin_at(1)
    assert bench.readable == [0]


def test_everybody_is_told_of_the_end():
    bench = Bench(**{"flush.messages": "1"})
    bench.append()
    bench.log.end(BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "gone"))
    assert bench.reached == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert bench.readable == bench.committed == [COMPLETES_ANY_FETCH_BYTES]
    with pytest.raises(BrokerError, match="gone"):
        bench.replica.check()


def test_a_log_that_could_not_be_opened_is_never_committed():
    disk = MemoryDisk()
    disk.make_folder("t-0")
    disk.plan = fail_at(disk.calls + 1)
    log = PartitionLog(LogServices(disk), "t-0", log_config({}))
    reached = []
    leading(log).when_reached(1, reached.append)
    assert [error.code for error in reached] == [ErrorCode.KAFKA_STORAGE_ERROR]


@pytest.mark.parametrize(
    ("epoch", "code"),
    [
        (-1, None),
        (0, None),
        (-2, ErrorCode.FENCED_LEADER_EPOCH),
        (1, ErrorCode.UNKNOWN_LEADER_EPOCH),
    ],
)
def test_leader_epochs_of_clients(epoch, code):
    replica = Bench().replica
    if code is None:
        replica.check(epoch)
    else:
        with pytest.raises(BrokerError, match=f"the request has epoch {epoch}, but the current epoch is 0") as raised:
            replica.check(epoch)
        assert raised.value.code is code


def test_a_watcher_that_has_gone_hears_nothing():
    bench = Bench()
    for watcher in (bench.readable.append, bench.committed.append):
        bench.replica.unwatch(watcher)
    assert not bench.replica.is_watched
    bench.append()
    assert (bench.readable, bench.committed) == ([], [])


def test_nothing_keeps_a_log_but_its_replica():
    """The files of a log are closed as soon as nothing refers to the log."""
    bench = Bench()
    log = weakref.ref(bench.log)
    gc.disable()
    try:
        del bench
        assert log() is None
    finally:
        gc.enable()


def test_truncation_moves_everything_back():
    bench = Bench(**{"flush.messages": "5"})
    for _ in range(3):
        bench.append()
    bench.replica.when_reached(7, lambda error: bench.reached.append(error and error.code))
    bench.reached.clear()
    bench.log.truncate_to(1, lambda error: bench.reached.append("truncated"))
    bench.work.run()
    assert bench.reached == [ErrorCode.NOT_LEADER_OR_FOLLOWER, "truncated"]
    assert bench.readable[-1] == bench.committed[-1] == COMPLETES_ANY_FETCH_BYTES
    assert (bench.log.high_watermark, bench.log.next_offset) == (1, 1)
    bench.append()
    assert (bench.log.high_watermark, bench.reached[-1]) == (2, None)


def test_start_elsewhere_acknowledges_nothing_that_is_gone():
    bench = Bench()
    bench.append()
    bench.replica.when_reached(51, lambda error: bench.reached.append(error and error.code))
    bench.log.start_at(1000, lambda error: None)
    bench.work.run()
    assert bench.log.next_offset == 1000
    assert bench.reached == [None, ErrorCode.NOT_LEADER_OR_FOLLOWER]
