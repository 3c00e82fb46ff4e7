"""Each partition is fetched from its current leader by exactly one fetcher, until it is forgotten.

Method: use links to simulated brokers with scripted logs; the follower's logs are on in-memory disks.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from kafkawire.reference_broker.replicas.fetcher import Fetcher
from kafkawire.reference_broker.replicas.fetchers import Fetchers, ReplicationLinks, fetcher_number
from kafkawire.reference_broker.replicas.followed import FollowedState
from kafkawire.reference_broker.replicas.replication_quota import ReplicationQuota
from kafkawire.sdk.protocol.messages.fetch import FetchRequest
from kafkawire.sdk.protocol.messages.list_offsets import ListOffsetsRequest
from tests.reference_broker.cluster.linked import Bench
from tests.reference_broker.replicas.following import ID, OPTIONS, FollowingReplica
from tests.reference_broker.replicas.scripted_leaders import ScriptedBroker, ScriptedLog
from tests.reference_broker.storage.replicated_logs import Replica
from tests.sdk.simulation import SILENT

#: The time that a leader takes to answer.
LATENCY_MS = 50


class Cluster:
    """Leaders 1 and 2, and broker 9, which follows them.

    Args:
        count: the number of partitions of topic t; the follower has a replica of each.
        fetchers_per_leader: see `Fetchers`.
    """

    def __init__(self, count: int = 1, fetchers_per_leader: int = 1) -> None:
        self.bench = Bench()
        self.simulation = self.bench.simulation
        self.simulation.latency_ms = LATENCY_MS
        self.brokers = {node: ScriptedBroker({"t": ID}) for node in (1, 2)}
        for node, broker in self.brokers.items():
            for kind in (FetchRequest, ListOffsetsRequest):
                self.simulation.handlers[node, kind] = broker.take
        self.replicas: dict[tuple[str, int], FollowingReplica] = {}
        #: The numbers of the fetchers that have sent a request.
        self.numbers: set[int] = set()
        self.quota = ReplicationQuota(11, 1_000)
        self.fetchers = Fetchers(
            self._links,
            self.replicas.get,
            OPTIONS,
            lambda: 77,
            self.bench.later,
            lambda: self.simulation.now_ms,
            self.quota,
            fetchers_per_leader,
        )
        for number in range(count):
            self.replicas["t", number] = FollowingReplica(Replica().log, partial(self.fetchers.moved, ("t", number)))
        self.bench.know(1, 2)

    def _links(self, number: int) -> ReplicationLinks:
        self.numbers.add(number)
        return self.bench.links

    def lead(self, number: int, node: int, epoch: int = 0) -> ScriptedLog:
        """Make a broker the leader of a partition; return its log."""
        before = next(
            (each.logs.pop(("t", number)) for each in self.brokers.values() if ("t", number) in each.logs), None
        )
        log = self.brokers[node].logs["t", number] = ScriptedLog(epoch, before)
        self.fetchers.follow(("t", number), node, epoch)
        return log

    def run(self, duration_ms: int = 10 * LATENCY_MS) -> None:
        self.simulation.run(duration_ms)

    def end(self, number: int) -> int:
        """Return the end of one of the follower's logs."""
        return self.replicas["t", number].log.next_offset

    def fetches(self, node: int) -> list[tuple[int, Any]]:
        """Return the times and requests of the fetches from a leader."""
        return [
            (time_ms, request)
            for time_ms, to, request, _ in self.simulation.sent
            if to == node and isinstance(request, FetchRequest)
        ]


def test_partitions_that_are_followed_in_one_turn_are_in_one_request() -> None:
    cluster = Cluster(100)
    for number in range(100):
        cluster.lead(number, 1).append(b"a")
    assert cluster.simulation.sent == []
    cluster.run()
    first = cluster.fetches(1)[0][1]
    assert sum(len(topic.partitions) for topic in first.topics) == 100
    assert [cluster.end(number) for number in range(100)] == [1] * 100
    assert cluster.fetches(2) == []


def test_each_leader_has_its_own_requests() -> None:
    cluster = Cluster(2)
    cluster.lead(0, 1).append(b"a")
    cluster.lead(1, 2).append(b"b")
    cluster.run()
    assert [cluster.end(0), cluster.end(1)] == [1, 1]


def test_a_leader_that_never_answers_does_not_delay_another() -> None:
    cluster = Cluster(2)
    cluster.simulation.handlers[1, FetchRequest] = lambda request, version: SILENT
    log = cluster.lead(0, 1)
    log.append(b"a")
    cluster.lead(1, 2).append(b"b")
    cluster.run()
    assert [cluster.end(0), cluster.end(1)] == [0, 1]
    cluster.run(2 * OPTIONS.response_timeout_ms)
    times = [time_ms for time_ms, _ in cluster.fetches(1)]
    assert len(times) == 2
    assert times[1] - times[0] >= OPTIONS.response_timeout_ms + OPTIONS.backoff_ms
    cluster.simulation.handlers[1, FetchRequest] = cluster.brokers[1].take
    cluster.run(OPTIONS.response_timeout_ms + 5_000)
    assert cluster.end(0) == 1


def test_a_leader_whose_address_comes_later() -> None:
    cluster = Cluster()
    cluster.bench.know()
    cluster.lead(0, 1).append(b"a")
    cluster.run()
    assert cluster.end(0) == 0
    cluster.bench.know(1)
    cluster.run()
    assert cluster.end(0) == 1


def test_a_lost_connection_is_followed_by_a_pause_and_a_full_request() -> None:
    cluster = Cluster()
    log = cluster.lead(0, 1)
    cluster.run()
    before = len(cluster.fetches(1))
    cluster.bench.links.drop(1)
    log.append(b"a")
    cluster.run(OPTIONS.backoff_ms - 1)
    assert len(cluster.fetches(1)) == before
    cluster.run()
    assert cluster.fetches(1)[before][1].session_epoch == 0
    assert cluster.end(0) == 1


def test_another_leader() -> None:
    cluster = Cluster()
    cluster.lead(0, 1).append(b"a")
    cluster.run()
    cluster.lead(0, 2, epoch=1).append(b"b")
    cluster.run()
    assert cluster.end(0) == 2
    before = len(cluster.fetches(1))
    cluster.run(60_000)
    assert len(cluster.fetches(1)) == before, "a fetcher without partitions ends"


def test_the_former_leader_answers_late() -> None:
    """The former leader's fetcher has ended, and its request with it."""
    cluster = Cluster()
    cluster.lead(0, 1).append(b"a")
    cluster.run(LATENCY_MS + 20)
    assert cluster.fetches(1)
    cluster.lead(0, 2, epoch=1)
    cluster.run()
    assert cluster.end(0) == 1
    assert cluster.fetchers.state_of(("t", 0)) is FollowedState.FETCHING


def test_a_forgotten_partition_is_neither_fetched_nor_appended() -> None:
    cluster = Cluster()
    cluster.lead(0, 1).append(b"a")
    cluster.run(2 * LATENCY_MS - 10)
    assert cluster.fetches(1)
    cluster.fetchers.forget([("t", 0), ("t", 5)])
    cluster.run(60_000)
    assert len(cluster.fetches(1)) == 1
    assert cluster.end(0) == 0
    assert cluster.fetchers.state_of(("t", 0)) is None


def test_a_request_for_forgotten_partitions_is_abandoned() -> None:
    """Otherwise, a leader that does not answer would delay partitions that are followed next."""
    cluster = Cluster()
    cluster.simulation.handlers[1, FetchRequest] = lambda request, version: SILENT
    cluster.lead(0, 1)
    cluster.run()
    cluster.fetchers.forget([("t", 0)])
    cluster.run()
    cluster.lead(0, 1, epoch=1)
    cluster.run()
    assert len(cluster.fetches(1)) == 2


def test_forgotten_and_followed_in_one_turn() -> None:
    """LeaderAndIsr has this effect; the session continues."""
    cluster = Cluster(2)
    cluster.lead(0, 1)
    cluster.lead(1, 1)
    cluster.run()
    cluster.fetchers.forget([("t", 0), ("t", 1)])
    cluster.lead(0, 1, epoch=1)
    cluster.lead(1, 1, epoch=1)
    count = len(cluster.fetches(1))
    cluster.run()
    later = [request for _, request in cluster.fetches(1)[count:]]
    assert len({request.session_id for request in later}) == 1
    assert all(request.session_epoch > 0 for request in later)


def test_the_same_epoch_again_changes_nothing_while_it_is_followed() -> None:
    cluster = Cluster()
    cluster.lead(0, 1)
    cluster.run()
    count = len(cluster.fetches(1))
    cluster.fetchers.follow(("t", 0), 1, 0)
    cluster.run()
    assert all(request.topics == () for _, request in cluster.fetches(1)[count:])


def test_the_same_epoch_again_after_it_was_fenced() -> None:
    cluster = Cluster()
    log = cluster.lead(0, 1)
    cluster.run()
    log.epoch = 1
    cluster.run()
    assert cluster.fetchers.state_of(("t", 0)) is FollowedState.FENCED
    log.epoch = 0
    log.append(b"a")
    cluster.fetchers.follow(("t", 0), 1, 0)
    cluster.run()
    assert cluster.end(0) == 1


def test_another_topic_of_the_same_name() -> None:
    cluster = Cluster()
    cluster.lead(0, 1).append(b"a")
    cluster.run()
    for broker in cluster.brokers.values():
        broker.ids = {"t": b"U" * 16}
    cluster.replicas["t", 0] = FollowingReplica(Replica().log, partial(cluster.fetchers.moved, ("t", 0)), b"U" * 16)
    cluster.fetchers.follow(("t", 0), 1, 0)
    cluster.run(2_000)
    assert cluster.end(0) == 1


def test_a_partition_without_a_replica_is_not_followed() -> None:
    cluster = Cluster()
    cluster.lead(0, 1)
    del cluster.replicas["t", 0]
    cluster.fetchers.follow(("t", 0), 1, 1)
    assert cluster.fetchers.state_of(("t", 0)) is None
    cluster.run(60_000)
    assert cluster.fetches(1) == []


def test_an_error_delays_the_partition() -> None:
    cluster = Cluster(2)
    cluster.lead(0, 1).append(b"a")
    cluster.lead(1, 1).append(b"b")
    log = cluster.brokers[1].logs.pop(("t", 0))
    cluster.run()
    assert cluster.fetchers.state_of(("t", 0)) is FollowedState.PAUSED
    assert cluster.end(1) == 1
    cluster.brokers[1].logs["t", 0] = log
    cluster.run(OPTIONS.backoff_ms + 5 * LATENCY_MS)
    assert cluster.end(0) == 1


def test_a_pause_ends_although_nothing_else_is_fetched() -> None:
    cluster = Cluster()
    cluster.lead(0, 1).append(b"a")
    log = cluster.brokers[1].logs.pop(("t", 0))
    cluster.run()
    cluster.brokers[1].logs["t", 0] = log
    cluster.run(OPTIONS.backoff_ms + 5 * LATENCY_MS)
    assert cluster.end(0) == 1


@pytest.mark.parametrize(("before", "after"), [(1, 3), (3, 1), (2, 2)])
def test_another_number_of_fetchers(before: int, after: int) -> None:
    cluster = Cluster(12, before)
    logs = [cluster.lead(number, 1) for number in range(12)]
    for log in logs:
        log.append(b"a")
    cluster.run()
    assert cluster.numbers == {*range(before)}
    cluster.fetchers.resize(after)
    for log in logs:
        log.append(b"b")
    cluster.run(20 * LATENCY_MS)
    assert [cluster.end(number) for number in range(12)] == [2] * 12
    sessions = {request.session_id for _, request in cluster.fetches(1)[-after:]}
    assert len(sessions) == after


@pytest.mark.parametrize(
    ("topic", "number", "fetchers", "expected"),
    [
        # abs(31 * "test".hashCode() + number) % fetchers, and "test".hashCode() is 3556498
        ("test", 0, 4, 2),
        ("test", 1, 4, 3),
        ("test", 7, 10, 5),
        ("", 5, 3, 2),
        # "polygenelubricants".hashCode() is the lowest int32: times 31, it is the same, and it has no absolute value
        ("polygenelubricants", 0, 7, 0),
        # the lowest int32 plus one is -2147483647
        ("polygenelubricants", 1, 7, 2147483647 % 7),
    ],
)
def test_the_fetcher_of_a_partition(topic: str, number: int, fetchers: int, expected: int) -> None:
    assert fetcher_number((topic, number), fetchers) == expected


def test_a_quota_that_is_lifted_has_an_effect_at_once() -> None:
    """The fetcher would otherwise wait until the quota is no longer exceeded."""
    cluster = Cluster()
    cluster.quota.throttle("t", {0})
    cluster.quota.bytes_per_second = 1
    cluster.quota.record(10_000, cluster.simulation.now_ms)
    cluster.lead(0, 1).append(b"a")
    cluster.run()
    assert (cluster.end(0), cluster.fetches(1)) == (0, [])
    cluster.quota.bytes_per_second = None
    cluster.fetchers.heed_quota()
    cluster.run()
    assert cluster.end(0) == 1


def test_an_answer_is_followed_by_one_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each partition in the answer asks for a turn as well, and each turn costs the broker a timer."""
    cluster = Cluster()
    log = cluster.lead(0, 1)
    plan, plans = Fetcher.plan, list[int]()

    def counted(fetcher: Fetcher, now_ms: int) -> object:
        plans.append(now_ms)
        return plan(fetcher, now_ms)

    monkeypatch.setattr(Fetcher, "plan", counted)
    for _ in range(5):
        log.append(b"a")
        cluster.run()
    assert cluster.end(0) == 5
    assert len(plans) == len(cluster.fetches(1))
