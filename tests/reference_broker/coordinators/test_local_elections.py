"""A broker that is alone is elected for every partition of a coordinator's topic, and resigns when that is deleted.

Method: a whole broker in memory, whose changes of metadata also reach a coordinator that only notes the calls.
"""

from __future__ import annotations

import pytest

from kafkawire.reference_broker.coordinators.local_elections import LocalElections
from kafkawire.reference_broker.storage.disk.memory import MemoryDisk
from kafkawire.sdk.protocol.messages.create_partitions import CreatePartitionsRequest
from kafkawire.sdk.protocol.messages.delete_topics import DeleteTopicsRequest
from tests.reference_broker.broker_bench import BrokerBench

NOW_MS = 7


class Noting:
    """Notes its elections and resignations: partition, epoch and time, or partition alone."""

    topic = "c"

    def __init__(self, core):
        self.calls = []
        self.logs = []
        self.elections = LocalElections(core.metadata, core.replicas, [self], lambda: NOW_MS)
        self.elections.listen(lambda delta: self.calls.append("replicas"))

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
    return Noting(bench.core)


def test_life_of_a_topic(bench, noting):
    noting.elections.elect(1)
    assert noting.news() == [], "the topic does not exist"
    bench.create("other")
    bench.create("c", 2)
    assert noting.news() == ["replicas", "replicas", (0, 0, NOW_MS), (1, 0, NOW_MS)]
    bench.ask(CreatePartitionsRequest([CreatePartitionsRequest.CreatePartitionsTopic("c", 3, None)], 1_000, False))
    assert (2, 0, NOW_MS) in noting.news()
    noting.elections.elect(9)
    assert noting.news() == [(0, 0, 9), (1, 0, 9), (2, 0, 9)]
    for name in ("other", "c"):
        bench.ask(DeleteTopicsRequest([DeleteTopicsRequest.DeleteTopicState(name)], timeout_ms=1_000))
    assert noting.news() == ["replicas", (0, None), (1, None), (2, None), "replicas"]


def test_logs_are_those_of_the_partitions(bench, noting):
    bench.create("c", 2)
    for number, log in enumerate(noting.logs):
        log.append([(b"k", b"v")] * (number + 1), bench.now_ms, lambda outcome: None)
    assert [bench.core.replicas.get("c", number).log.next_offset for number in range(2)] == [1, 2]


def test_epoch_is_that_of_the_replica(bench, noting):
    bench.create("c", 1)
    bench.core.replicas.get("c", 0).leader_epoch = 5
    noting.news()
    noting.elections.elect(9)
    assert noting.news() == [(0, 5, 9)]
