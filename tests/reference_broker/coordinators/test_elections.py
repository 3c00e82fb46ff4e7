"""A coordinator is elected when its broker leads a partition of its topic, and resigns when that role ends.

Method: use a whole in-memory broker for the topics of a standalone broker, and individual replicas that are given
roles. A coordinator records its calls.
"""

from __future__ import annotations

import pytest

from kafkawire.reference_broker.coordinators.elections import Elections
from kafkawire.reference_broker.replicas.roles import Role
from kafkawire.reference_broker.storage.disk.memory import MemoryDisk
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.messages.create_partitions import CreatePartitionsRequest
from kafkawire.sdk.protocol.messages.delete_topics import DeleteTopicsRequest
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from tests.reference_broker.broker_bench import BrokerBench

NOW_MS = 7


class Noting:
    """Records its elections (partition, epoch and time) and resignations (partition and epoch)."""

    topic = "c"

    def __init__(self):
        self.calls = []
        self.logs = []

    def elected(self, number, log, leader_epoch, now_ms):
        self.calls.append((number, leader_epoch, now_ms))
        self.logs.append(log)

    def resigned(self, number, epoch=None):
        self.calls.append((number, epoch))

    def news(self):
        calls, self.calls = self.calls, []
        return calls


@pytest.fixture
def bench():
    return BrokerBench(MemoryDisk())


@pytest.fixture
def noting(bench):
    noting = Noting()
    bench.core.replicas.listen(Elections([noting], lambda: NOW_MS).changed)
    return noting


def test_life_of_a_topic(bench, noting):
    bench.create("other")
    assert noting.news() == [], "the topic is not that of the coordinator"
    bench.create("c", 2)
    assert noting.news() == [(0, 0, NOW_MS), (1, 0, NOW_MS)]
    bench.ask(CreatePartitionsRequest([CreatePartitionsRequest.CreatePartitionsTopic("c", 3, None)], 1_000, False))
    assert noting.news() == [(2, 0, NOW_MS)]
    for name in ("other", "c"):
        bench.ask(DeleteTopicsRequest([DeleteTopicsRequest.DeleteTopicState(name)], timeout_ms=1_000))
    assert noting.news() == [(0, None), (1, None), (2, None)]


def test_logs_are_those_of_the_partitions(bench, noting):
    bench.create("c", 2)
    for number, log in enumerate(noting.logs):
        log.append([(b"k", b"v")] * (number + 1), bench.now_ms, lambda outcome: None)
    assert [bench.core.replicas.get("c", number).log.next_offset for number in range(2)] == [1, 2]


def test_roles_of_a_replica(bench, noting):
    bench.create("c")
    replica = bench.core.replicas.get("c", 0)
    noting.news()
    told = []
    replica.when_reached(100, lambda error: told.append((error, noting.news())))
    replica.follow(replica.term._replace(leader=2, leader_epoch=4))
    ((error, before),) = told
    assert error.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert before == [(0, 4)], "the coordinator has resigned before waiting operations are failed"
    replica.lead(replica.term._replace(leader=0, leader_epoch=5))
    assert noting.news() == [(0, 5, NOW_MS)]
    replica.stop()
    assert (replica.role, noting.news()) == (Role.STOPPED, [(0, 5)])


def test_failed_log_is_no_resignation(bench, noting):
    bench.create("c")
    noting.news()
    bench.core.replicas.get("c", 0).log.fail(OSError("no disk"))
    assert bench.core.replicas.get("c", 0).role is Role.OFFLINE
    assert noting.news() == [], "operations that wait for the log get the log's error"


def test_deleted_replica_is_none_of_the_next_epochs(bench, noting):
    bench.create("c")
    noting.news()
    bench.core.replicas.delete("c", 0, BrokerError(ErrorCode.NOT_LEADER_OR_FOLLOWER))
    assert noting.news() == [(0, None)]
