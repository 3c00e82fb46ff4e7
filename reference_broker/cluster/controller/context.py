"""The controller's knowledge of its cluster: brokers, topics, replicas, leaders, states.

The context is filled from the registry on failover, and emptied on resignation. It makes no decisions. Collections keep
their insertion order, so runs are reproducible.

Source: `ControllerContext`, `ReplicaAssignment`, `LeaderAndIsr` in Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Final, NamedTuple

from kafkawire.reference_broker.cluster.controller.live_brokers import LiveBroker
from kafkawire.reference_broker.cluster.controller.states import PartitionState, ReplicaState
from kafkawire.sdk.protocol.tables.enums import NO_LEADER_ID, LeaderRecoveryState
from kafkawire.sdk.protocol.tables.znodes import CONTROLLER_EPOCH
from kafkawire.sdk.registry.registry import Check
from kafkawire.sdk.routing.partitions import TopicPartition

__all__ = [
    "EPOCH_DURING_DELETION",
    "NO_EPOCH",
    "UNASSIGNED",
    "Context",
    "Leadership",
    "Replica",
    "ReplicaAssignment",
]

#: The leader epoch in a StopReplica for a topic that is being deleted, whatever its actual epoch.
EPOCH_DURING_DELETION: Final = -2
#: The leader epoch in a StopReplica for a partition that has never had a leader.
NO_EPOCH: Final = -1


class Replica(NamedTuple):
    """A replica of a partition.

    Attributes:
        partition: the partition.
        broker_id: the broker that hosts the replica.
    """

    partition: TopicPartition
    broker_id: int


class ReplicaAssignment(NamedTuple):
    """The replicas of a partition.

    Attributes:
        replicas: broker ids, the preferred leader first; they include replicas being added or removed.
        adding: the replicas that a reassignment adds.
        removing: the replicas that a reassignment removes.
    """

    replicas: tuple[int, ...]
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()

    @property
    def is_reassigned(self) -> bool:
        """Whether a reassignment is in progress."""
        return bool(self.adding or self.removing)

    @property
    def origin(self) -> tuple[int, ...]:
        """The replicas before the reassignment; their order may have changed."""
        return _without(self.replicas, self.adding)

    @property
    def target(self) -> tuple[int, ...]:
        """The replicas after the reassignment."""
        return _without(self.replicas, self.removing)

    def reassigned_to(self, target: Collection[int]) -> ReplicaAssignment:
        """Return the assignment during a reassignment; the target comes first."""
        origin = self.origin
        replicas = tuple(dict.fromkeys((*target, *origin)))
        return ReplicaAssignment(replicas, _without(replicas, origin), _without(replicas, target))

    def without(self, broker_id: int) -> ReplicaAssignment:
        """Return the assignment without a replica."""
        gone = (broker_id,)
        return ReplicaAssignment(*(_without(ids, gone) for ids in self))


#: The assignment of a partition that does not exist.
UNASSIGNED: Final = ReplicaAssignment(())


def _without(ids: Collection[int], excluded: Collection[int]) -> tuple[int, ...]:
    return tuple(each for each in ids if each not in excluded)


class Leadership(NamedTuple):
    """The leader of a partition, and its in-sync replicas.

    Attributes:
        leader: the leader's broker id, or `NO_LEADER_ID` if there is none.
        isr: the broker ids of the in-sync replicas.
        leader_epoch: incremented with each decision that a controller makes.
        recovery_state: whether the leader is recovering from an unclean election.
        partition_epoch: the version of the node in which the leadership is stored.
        controller_epoch: the epoch of the controller that wrote the leadership.
    """

    leader: int
    isr: tuple[int, ...]
    leader_epoch: int = 0
    recovery_state: int = LeaderRecoveryState.RECOVERED
    partition_epoch: int = 0
    controller_epoch: int = 0

    def led_by(self, leader: int, isr: tuple[int, ...] | None = None) -> Leadership:
        """Return the leadership in the next leader epoch.

        Args:
            leader: the broker id of the next leader.
            isr: the next in-sync replicas; None to keep the current ones.
        """
        return self._replace(leader=leader, isr=self.isr if isr is None else isr, leader_epoch=self.leader_epoch + 1)


class Context:
    """What a controller knows about its cluster.

    Attributes:
        epoch: the epoch of the controller; 0 if this broker is not the controller.
        epoch_version: the version of `/controller_epoch` when the controller was elected.
        brokers: the registered brokers, keyed by id.
        shutting_down: registered brokers that have requested a controlled shutdown.
        topics: the names of all topics.
        topic_ids: the id of each topic.
        topic_names: the name of each topic, keyed by id.
        topic_versions: the version of each topic's node when it was last read or written.
        assignments: the replicas of each partition, keyed by topic; topics that cannot be read are left out.
        leaderships: the leadership of each partition that has ever had a leader.
        reassigned: the partitions with a reassignment in progress.
        partition_states: the state of each partition.
        replica_states: the state of each replica.
        offline_dirs: the partitions in failed log directories, keyed by broker.
        deletions: the topics to be deleted.
        deletions_started: topics to be deleted whose partitions no longer exist.
        deletions_held: topics whose deletion is on hold because they cannot be deleted now.
    """

    def __init__(self) -> None:
        self.epoch = 0
        self.epoch_version = 0
        self.brokers: dict[int, LiveBroker] = {}
        self.shutting_down: set[int] = set()
        self.topics: dict[str, None] = {}
        self.topic_ids: dict[str, bytes] = {}
        self.topic_names: dict[bytes, str] = {}
        self.topic_versions: dict[str, int] = {}
        self.assignments: dict[str, dict[int, ReplicaAssignment]] = {}
        self.leaderships: dict[TopicPartition, Leadership] = {}
        self.reassigned: dict[TopicPartition, None] = {}
        self.partition_states: dict[TopicPartition, PartitionState] = {}
        self.replica_states: dict[Replica, ReplicaState] = {}
        self.offline_dirs: dict[int, set[TopicPartition]] = {}
        self.deletions: dict[str, None] = {}
        self.deletions_started: set[str] = set()
        self.deletions_held: set[str] = set()

    def reset(self) -> None:
        """Forget everything."""
        self.__init__()  # type: ignore[misc]  # other parts hold this object, so it cannot be replaced

    @property
    def check(self) -> Check:
        """The check that accompanies each of the controller's writes: that no other controller has been elected."""
        return Check(CONTROLLER_EPOCH.path(), self.epoch_version)

    # Brokers.

    def is_live(self, broker_id: int) -> bool:
        """Return whether a broker is registered and not shutting down."""
        return broker_id in self.brokers and broker_id not in self.shutting_down

    def live_ids(self) -> list[int]:
        """Return the brokers that are registered and not shutting down."""
        return [broker_id for broker_id in self.brokers if broker_id not in self.shutting_down]

    def is_online(self, broker_id: int, partition: TopicPartition, *, or_shutting_down: bool = False) -> bool:
        """Return whether a replica can be used.

        Args:
            broker_id: the id of the replica's broker.
            partition: the replica's partition.
            or_shutting_down: whether to count a broker that is shutting down as alive.
        """
        is_alive = broker_id in self.brokers if or_shutting_down else self.is_live(broker_id)
        return is_alive and partition not in self.offline_dirs.get(broker_id, ())

    # Topics, partitions, replicas.

    def add_topic_id(self, topic: str, topic_id: bytes) -> bool:
        """Record the id of a topic; return False if the topic has a different id, or another topic has this one."""
        if self.topic_ids.get(topic, topic_id) != topic_id or self.topic_names.get(topic_id, topic) != topic:
            return False
        self.topic_ids[topic] = topic_id
        self.topic_names[topic_id] = topic
        return True

    def remove_topic(self, topic: str) -> None:
        """Forget a topic."""
        self.topics.pop(topic, None)
        self.topic_versions.pop(topic, None)
        self.deletions.pop(topic, None)
        self.deletions_started.discard(topic)
        self.deletions_held.discard(topic)
        topic_id = self.topic_ids.pop(topic, None)
        if topic_id is not None:
            self.topic_names.pop(topic_id, None)
        for number, assignment in self.assignments.pop(topic, {}).items():
            partition = TopicPartition(topic, number)
            self.leaderships.pop(partition, None)
            self.partition_states.pop(partition, None)
            self.reassigned.pop(partition, None)
            for broker_id in assignment.replicas:
                self.replica_states.pop(Replica(partition, broker_id), None)
        for partitions in self.offline_dirs.values():
            partitions.difference_update([each for each in partitions if each.topic == topic])

    def assignment(self, partition: TopicPartition) -> ReplicaAssignment:
        """Return the assignment of a partition, or `UNASSIGNED` if it does not exist."""
        return self.assignments.get(partition.topic, {}).get(partition.partition, UNASSIGNED)

    def assign(self, partition: TopicPartition, assignment: ReplicaAssignment) -> None:
        """Record the assignment of a partition."""
        self.assignments.setdefault(partition.topic, {})[partition.partition] = assignment

    def partitions(self) -> Iterator[TopicPartition]:
        """Yield all partitions."""
        for topic in self.assignments:
            yield from self.partitions_of(topic)

    def partitions_of(self, topic: str) -> list[TopicPartition]:
        """Return the partitions of a topic."""
        return [TopicPartition(topic, number) for number in self.assignments.get(topic, ())]

    def replicas_of(self, partitions: Iterable[TopicPartition]) -> list[Replica]:
        """Return the replicas of partitions."""
        return [
            Replica(partition, broker_id)
            for partition in partitions
            for broker_id in self.assignment(partition).replicas
        ]

    def replicas_on(self, broker_ids: Collection[int]) -> list[Replica]:
        """Return the replicas that brokers host."""
        return [replica for replica in self.replicas_of(self.partitions()) if replica.broker_id in broker_ids]

    # Leaders.

    def with_leadership(self) -> list[TopicPartition]:
        """Return the partitions that have ever had a leader, except those of topics to be deleted."""
        return [partition for partition in self.leaderships if partition.topic not in self.deletions]

    def with_offline_leader(self) -> list[TopicPartition]:
        """Return those partitions of `with_leadership` whose leader cannot be used."""
        return [each for each in self.with_leadership() if not self.is_online(self.leaderships[each].leader, each)]

    def led_by(self, broker_id: int) -> list[TopicPartition]:
        """Return the partitions that a broker leads and that have other replicas, except those to be deleted."""
        return [
            partition
            for partition in self.with_leadership()
            if self.leaderships[partition].leader == broker_id and len(self.assignment(partition).replicas) > 1
        ]

    def epoch_to_stop(self, partition: TopicPartition) -> int:
        """Return the leader epoch to send in a StopReplica for the partition."""
        if partition.topic in self.deletions:
            return EPOCH_DURING_DELETION
        leadership = self.leaderships.get(partition)
        return NO_EPOCH if leadership is None else leadership.leader_epoch

    # States.

    def partitions_in(self, states: Collection[PartitionState], topic: str | None = None) -> list[TopicPartition]:
        """Return the partitions that are in any of the given states.

        Args:
            states: the states.
            topic: a topic; None for all topics.
        """
        return [
            partition
            for partition, state in self.partition_states.items()
            if state in states and topic in (None, partition.topic)
        ]

    def replicas_in(self, topic: str, state: ReplicaState) -> list[Replica]:
        """Return the replicas of a topic that are in the given state."""
        replicas = self.replicas_of(self.partitions_of(topic))
        return [replica for replica in replicas if self.replica_states.get(replica) is state]

    def are_all_in(self, topic: str, state: ReplicaState) -> bool:
        """Return whether all replicas of a topic are in the given state."""
        return len(self.replicas_in(topic, state)) == len(self.replicas_of(self.partitions_of(topic)))

    # Counts.

    def offline_partition_count(self) -> int:
        """Return how many partitions have no leader, not counting those whose deletion has started."""
        offline = self.partitions_in((PartitionState.OFFLINE,))
        return sum(partition.topic not in self.deletions_started for partition in offline)

    def imbalance_count(self) -> int:
        """Return how many partitions are not led by their preferred leader."""
        return sum(not self._is_led_as_preferred(partition) for partition in self.with_leadership())

    def _is_led_as_preferred(self, partition: TopicPartition) -> bool:
        assignment, leadership = self.assignment(partition), self.leaderships[partition]
        preferred = assignment.replicas[0] if assignment.replicas else NO_LEADER_ID
        if preferred in assignment.adding:
            return preferred not in leadership.isr
        return leadership.leader == preferred
