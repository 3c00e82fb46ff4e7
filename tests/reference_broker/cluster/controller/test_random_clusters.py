"""Whatever happens to a cluster, each leader is in its ISR, the brokers are informed, and nothing is left behind.

Method: run a stateful test in which brokers join, leave and bounce, sessions expire, and topics are created, extended,
moved and deleted. After each step, let the cluster come to rest, and compare the registry with what the brokers were
told.
"""

from __future__ import annotations

import contextlib

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from kafkawire.sdk.protocol.messages.controlled_shutdown import ControlledShutdownRequest
from kafkawire.sdk.protocol.tables.enums import ElectionType
from kafkawire.sdk.protocol.tables.znodes import (
    ISR_CHANGES,
    LOG_DIR_EVENTS,
    PARTITION_REASSIGNMENTS,
    PARTITION_STATE,
    PREFERRED_REPLICA_ELECTION,
    TOPIC,
    TOPIC_DELETION,
    TOPIC_DELETIONS,
    TOPICS,
    PartitionReassignments,
    PartitionReplicas,
)
from kafkawire.sdk.registry.registry import Create, SetData
from kafkawire.sdk.routing.partitions import TopicPartition
from tests.reference_broker.cluster.controller.scripted_cluster import Cluster
from tests.thorough import IS_SAMPLE

IDS = (0, 1, 2, 3)
NAMES = ("a", "b", "c")

broker_ids = st.sampled_from(IDS)
names = st.sampled_from(NAMES)
replicas = st.lists(broker_ids, min_size=1, max_size=3, unique=True).map(tuple)


class RandomCluster(RuleBasedStateMachine):
    """A cluster of up to four brokers and three topics."""

    @initialize()
    def begin(self) -> None:
        self.cluster = Cluster(0, 1)
        self.epochs: dict[tuple[bytes | None, int], int] = {}

    def exists(self, topic: str) -> bool:
        return TOPIC.path(topic) in self.cluster.tree.nodes

    @rule(broker_id=broker_ids)
    def start(self, broker_id: int) -> None:
        if broker_id not in self.cluster.brokers:
            self.cluster.start(broker_id)

    @precondition(lambda self: len(self.cluster.brokers) > 1)
    @rule(data=st.data(), is_controlled=st.booleans())
    def stop(self, data: st.DataObject, is_controlled: bool) -> None:
        broker_id = data.draw(st.sampled_from(sorted(self.cluster.brokers)))
        if is_controlled:
            request = ControlledShutdownRequest(broker_id, self.cluster.brokers[broker_id].epoch)
            self.cluster.controller.shut_down_broker(request, lambda _: None)
            self.cluster.settle()
        self.cluster.kill(broker_id)

    @rule(data=st.data())
    def bounce(self, data: st.DataObject) -> None:
        """Stop and start a broker before the controller notices."""
        broker_id = data.draw(st.sampled_from(sorted(self.cluster.brokers)))
        registry = self.cluster.brokers.pop(broker_id).registry
        registry.die()
        registry.expire()
        self.cluster.start(broker_id)

    @rule(data=st.data())
    def expire(self, data: st.DataObject) -> None:
        registry = self.cluster.brokers[data.draw(st.sampled_from(sorted(self.cluster.brokers)))].registry
        registry.expire()
        if data.draw(st.booleans()):
            self.cluster.settle()
        registry.open()
        self.cluster.settle()

    @rule(topic=names, assignments=st.lists(replicas, min_size=1, max_size=3))
    def create(self, topic: str, assignments: list[tuple[int, ...]]) -> None:
        if not self.exists(topic):
            self.cluster.create(topic, *assignments)

    @rule(topic=names, assignment=replicas)
    def extend(self, topic: str, assignment: tuple[int, ...]) -> None:
        if self.exists(topic):
            stored = self.cluster.assignment(topic)
            partitions = {**stored.partitions, len(stored.partitions): assignment}
            content = TOPIC.encode(stored._replace(partitions=partitions))
            self.cluster.tree.change(SetData(TOPIC.path(topic), content), 0)
            self.cluster.settle()

    @rule(topic=names)
    def delete(self, topic: str) -> None:
        if TOPIC_DELETION.path(topic) not in self.cluster.tree.nodes:
            self.cluster.tree.change(Create(TOPIC_DELETION.path(topic)), 0)
            self.cluster.settle()

    @rule(topic=names, wanted=st.none() | replicas)
    def move(self, topic: str, wanted: tuple[int, ...] | None) -> None:
        self.cluster.controller.alter_reassignments({TopicPartition(topic, 0): wanted}, lambda _: None)
        self.cluster.settle()

    @rule(topic=names, wanted=replicas)
    def order(self, topic: str, wanted: tuple[int, ...]) -> None:
        path = PARTITION_REASSIGNMENTS.path()
        if path not in self.cluster.tree.nodes:
            moves = PartitionReassignments((PartitionReplicas(topic, 0, wanted),))
            self.cluster.tree.change(Create(path, PARTITION_REASSIGNMENTS.encode(moves)), 0)
            self.cluster.settle()

    @rule(unclean=st.booleans())
    def elect(self, unclean: bool) -> None:
        kind = ElectionType.UNCLEAN if unclean else ElectionType.PREFERRED
        self.cluster.controller.elect_leaders(None, kind, lambda _: None)
        self.cluster.settle()

    @rule(topic=names, shrinks=st.booleans())
    def sync(self, topic: str, shrinks: bool) -> None:
        """Have the leaders of a topic request the smallest or the largest ISR."""
        if self.exists(topic):
            self.cluster.sync(topic, shrinks=shrinks)

    @invariant()
    def is_consistent(self) -> None:
        cluster = self.cluster
        context = cluster.controller.context
        assert sorted(context.brokers) == sorted(cluster.brokers)
        for broker in cluster.brokers.values():
            assert broker.live == sorted(cluster.brokers)
        for partition in context.partitions():
            if partition.topic not in context.deletions and PARTITION_STATE.path(*partition) in cluster.tree.nodes:
                self.check(partition)
        for path in (ISR_CHANGES.path(), LOG_DIR_EVENTS.path()):
            assert not cluster.tree.children(path)
        assert PREFERRED_REPLICA_ELECTION.path() not in cluster.tree.nodes

    def check(self, partition: TopicPartition) -> None:
        cluster = self.cluster
        state = cluster.state(*partition)
        live = [each for each in state.isr if each in cluster.brokers]
        if live:
            assert state.leader in live
        else:
            assert state.leader not in cluster.brokers
        key = (cluster.assignment(partition.topic).topic_id, partition.partition)
        assert state.leader_epoch >= self.epochs.get(key, 0)
        self.epochs[key] = state.leader_epoch
        for broker_id in cluster.assignment(partition.topic).partitions[partition.partition]:
            if broker_id in cluster.brokers:
                told = cluster.brokers[broker_id].states[partition]
                assert (told.leader, told.leader_epoch) == (state.leader, state.leader_epoch)
        for broker in cluster.brokers.values():
            told = broker.metadata[partition]
            assert (told.leader, told.leader_epoch, tuple(told.isr)) == (state.leader, state.leader_epoch, state.isr)

    def teardown(self) -> None:
        """Once all brokers are alive and in sync, every deletion and every move must finish."""
        if not hasattr(self, "cluster"):
            return
        for broker_id in IDS:
            self.start(broker_id)
        for _ in range(2):
            for topic in NAMES:
                if self.exists(topic):
                    with contextlib.suppress(KeyError):
                        self.cluster.sync(topic)
        cluster = self.cluster
        assert not cluster.tree.children(TOPIC_DELETIONS.path())
        assert PARTITION_REASSIGNMENTS.path() not in cluster.tree.nodes
        for topic in cluster.tree.children(TOPICS.path()):
            stored = cluster.assignment(topic)
            assert not stored.adding_replicas
            assert not stored.removing_replicas
            for broker in cluster.brokers.values():
                hosted = {each.partition for each in broker.states if each.topic == topic}
                assigned = {number for number, each in stored.partitions.items() if broker.broker_id in each}
                assert hosted == assigned
        self.is_consistent()


TestRandomCluster = RandomCluster.TestCase
TestRandomCluster.settings = settings(max_examples=20 if IS_SAMPLE else 60, stateful_step_count=30, deadline=None)
