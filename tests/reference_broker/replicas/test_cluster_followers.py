"""A follower's replica and its fetcher work together: each notifies the other of the events that it waits for.

Method: use a follower's replica on a disk whose background work is held back, its fetcher, and a scripted leader.
"""

from __future__ import annotations

from kafkawire.reference_broker.replicas.cluster_replica import ClusterReplica, Surroundings
from kafkawire.reference_broker.replicas.fetcher import Fetcher
from kafkawire.reference_broker.replicas.followed import FollowedState
from kafkawire.reference_broker.replicas.isr_requests import Answered, IsrChange
from kafkawire.reference_broker.replicas.replication_quota import ReplicationQuota
from kafkawire.reference_broker.replicas.roles import Role, Term
from kafkawire.sdk.routing.partitions import TopicPartition
from kafkawire.sdk.storage.partitions import Partition
from tests.reference_broker.replicas.following import ID, OPTIONS, SYNCED, T0, exchange
from tests.reference_broker.replicas.scripted_leaders import ScriptedBroker, ScriptedLog
from tests.reference_broker.storage.held_work import HeldWork
from tests.reference_broker.storage.replicated_logs import Replica

LEADER, FOLLOWER = 1, 2


class Follower:
    """Broker 2, which follows broker 1 for a topic whose records must be synced."""

    def __init__(self) -> None:
        self.work = HeldWork()
        self.broker = ScriptedBroker({"t": ID})
        self.leader = self.broker.logs[T0] = ScriptedLog()
        self.fetcher = Fetcher(LEADER, OPTIONS, lambda: 77, lambda: None, ReplicationQuota(11, 1_000))
        surroundings = Surroundings(
            FOLLOWER, 30_000, lambda: 0, lambda broker_id: True, self, follower_moved=self._moved
        )
        self.replica = ClusterReplica(T0, Replica(SYNCED, None, self.work).log, surroundings)
        self.replica.follow(self.term(LEADER, 0))
        self.fetcher.add(T0, self.replica, 0)

    def _moved(self, partition: Partition) -> None:
        self.fetcher.moved(TopicPartition(*partition))

    def submit(self, change: IsrChange, done: Answered) -> None: ...
    def withdraw(self, partition: Partition) -> None: ...

    @staticmethod
    def term(leader: int, leader_epoch: int) -> Term:
        return Term(leader, leader_epoch, (LEADER, FOLLOWER), (LEADER, FOLLOWER), topic_id=ID)

    @property
    def state(self) -> FollowedState:
        return self.fetcher.partitions[T0].state


def test_a_sync_continues_the_fetches() -> None:
    follower = Follower()
    follower.leader.append(b"a", is_committed=True)
    exchange(follower.fetcher, follower.broker, 0)
    assert follower.state is FollowedState.APPENDING
    follower.work.run()
    assert follower.state is FollowedState.FETCHING
    (topic,) = exchange(follower.fetcher, follower.broker, 0).topics
    assert topic.partitions[0].fetch_offset == 1
    assert follower.replica.log.high_watermark == 1


def test_a_later_start_is_reported() -> None:
    follower = Follower()
    for _ in range(3):
        follower.leader.append(b"a", is_committed=True)
    exchange(follower.fetcher, follower.broker, 0)
    follower.work.run()
    exchange(follower.fetcher, follower.broker, 0)
    assert exchange(follower.fetcher, follower.broker, 0).topics == ()
    follower.replica.log.begin_at(2)
    (topic,) = exchange(follower.fetcher, follower.broker, 0).topics
    assert topic.partitions[0].log_start_offset == 2


def test_an_elected_follower_appends_nothing_more_of_its_leader() -> None:
    follower = Follower()
    for _ in range(12):
        follower.leader.append(b"a" * 60)
    exchange(follower.fetcher, follower.broker, 0)
    end_offset = follower.replica.log.next_offset
    assert 0 < end_offset < 12, "the rest waits for a segment"
    follower.fetcher.remove(T0)
    follower.replica.lead(follower.term(FOLLOWER, 1))
    follower.work.run()
    assert follower.replica.role is Role.LEADER
    assert follower.replica.log.next_offset == end_offset
