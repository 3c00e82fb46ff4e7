"""Partition state changes: what each one stores and sends.

- to NEW, OFFLINE or NON_EXISTENT: only the state changes;
- NEW to ONLINE: the first online replica leads, and all online replicas are in sync; this is stored, then sent to them;
- ONLINE or OFFLINE to ONLINE: a leader is elected, based on the stored leadership; the result is stored, then sent to
  the replicas.

If a partition cannot make a transition, the failure is logged, and the other partitions are not affected.

Source: `ZkPartitionStateMachine` in Apache Kafka.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Final

from kafkawire.reference_broker.cluster.controller.broker_requests import BrokerRequests, RequestBatch
from kafkawire.reference_broker.cluster.controller.context import Context, Leadership
from kafkawire.reference_broker.cluster.controller.leader_elections import (
    Elected,
    Occasion,
    elect_for_reassignment,
    elect_for_shutdown,
    elect_offline,
    elect_preferred,
)
from kafkawire.reference_broker.cluster.controller.leadership_store import LeadershipStore, StateChangeFailed
from kafkawire.reference_broker.cluster.controller.states import PARTITION_EDGES, PartitionState
from kafkawire.sdk.errors import KafkaWireError
from kafkawire.sdk.protocol.tables.znodes import TOPIC_CONFIG
from kafkawire.sdk.registry.content import DamagedZnode
from kafkawire.sdk.registry.registry import SESSION_ENDED, Data, GetData, RegistryError
from kafkawire.sdk.registry.steps import ATTEMPTS_MAX, Steps, found
from kafkawire.sdk.routing.partitions import TopicPartition

__all__ = ["UNCLEAN_ELECTION_CONFIG", "PartitionStates", "Results", "is_true"]

_log = logging.getLogger("kafkawire.broker")

_EDGES: Final = frozenset(PARTITION_EDGES)

#: The topic configuration that allows a replica that is not in sync to lead.
UNCLEAN_ELECTION_CONFIG: Final = "unclean.leader.election.enable"

#: The strategy named in the error to clients when an election finds no leader.
_STRATEGIES: Final = {
    Occasion.OFFLINE: "OfflinePartitionLeaderElectionStrategy(false)",
    Occasion.UNCLEAN: "OfflinePartitionLeaderElectionStrategy(true)",
    Occasion.REASSIGNMENT: "ReassignPartitionLeaderElectionStrategy",
    Occasion.PREFERRED: "PreferredReplicaPartitionLeaderElectionStrategy",
    Occasion.CONTROLLED_SHUTDOWN: "ControlledShutdownPartitionLeaderElectionStrategy",
}

#: The result for each partition that needed a leader: its leadership, or the reason why it got none.
Results = dict[TopicPartition, Leadership | KafkaWireError]


class PartitionStates:
    """Moves partitions from state to state.

    Args:
        context: holds the states.
        requests: sends requests to brokers.
        store: reads and writes partition leadership.
        is_unclean_allowed: returns the broker's `unclean.leader.election.enable`, for topics that do not configure it.
    """

    def __init__(
        self,
        context: Context,
        requests: BrokerRequests,
        store: LeadershipStore,
        is_unclean_allowed: Callable[[], bool],
    ) -> None:
        self._context = context
        self._requests = requests
        self._store = store
        self._is_unclean_allowed = is_unclean_allowed

    def start(self) -> Steps[None]:
        """Set each partition's state according to its leadership, and elect leaders where there are none."""
        context = self._context
        for partition in list(context.partitions()):
            leadership = context.leaderships.get(partition)
            if leadership is None:
                state = PartitionState.NEW
            elif context.is_online(leadership.leader, partition):
                state = PartitionState.ONLINE
            else:
                state = PartitionState.OFFLINE
            context.partition_states[partition] = state
        yield from self.bring_online()

    def bring_online(self, topic: str | None = None) -> Steps[Results]:
        """Try to elect leaders for the partitions without one, except those to be deleted.

        Args:
            topic: the topic; None for all topics.
        """
        without = self._context.partitions_in((PartitionState.OFFLINE, PartitionState.NEW), topic)
        partitions = [partition for partition in without if partition.topic not in self._context.deletions]
        return (yield from self.change(partitions, PartitionState.ONLINE, Occasion.OFFLINE))

    def change(
        self, partitions: Sequence[TopicPartition], target: PartitionState, occasion: Occasion = Occasion.OFFLINE
    ) -> Steps[Results]:
        """Move partitions to a state, and send the requests that this requires.

        Args:
            partitions: the partitions.
            target: the new state.
            occasion: why leaders are elected, if any are.

        Returns:
            The results for the partitions that needed a new leader.

        Raises:
            CheckFailed: another controller has been elected; nothing was sent.
            RegistryError: the session has ended; nothing was sent.
        """
        if not partitions:
            return {}
        batch = self._requests.batch()
        valid = [partition for partition in dict.fromkeys(partitions) if self._may_become(partition, target)]
        results: Results = {}
        if target is PartitionState.ONLINE:
            states = self._context.partition_states
            new = [partition for partition in valid if states[partition] is PartitionState.NEW]
            others = [partition for partition in valid if states[partition] is not PartitionState.NEW]
            others += yield from self._initialize(new, batch, results)
            results.update((yield from self._elect(others, occasion, batch)))
            for partition, result in results.items():
                if isinstance(result, KafkaWireError):
                    _log.error("no leader was elected for %s: %s", partition, result)
                else:
                    self._step(partition, PartitionState.ONLINE)
        else:
            for partition in valid:
                self._step(partition, target)
        batch.send()
        return results

    def _may_become(self, partition: TopicPartition, target: PartitionState) -> bool:
        state = self._context.partition_states.setdefault(partition, PartitionState.NON_EXISTENT)
        if (state, target) in _EDGES:
            return True
        _log.error("partition %s is %s and cannot become %s", partition, state.name, target.name)
        return False

    def _step(self, partition: TopicPartition, target: PartitionState) -> None:
        states = self._context.partition_states
        states[partition] = PARTITION_EDGES.follow(states[partition], target)

    def _initialize(
        self, partitions: Sequence[TopicPartition], batch: RequestBatch, results: Results
    ) -> Steps[list[TopicPartition]]:
        """Store initial leadership; return the partitions that already had some, and so need an election."""
        context = self._context
        first: dict[TopicPartition, Leadership] = {}
        for partition in partitions:
            replicas = context.assignment(partition).replicas
            online = tuple(each for each in replicas if context.is_online(each, partition))
            if online:
                first[partition] = Leadership(online[0], online)
            else:
                results[partition] = StateChangeFailed(f"none of its replicas {list(replicas)} is alive")
        if not first:
            return []
        writes = yield from self._store.create(first)
        for partition, leadership in writes.done.items():
            context.leaderships[partition] = leadership
            batch.add_leader_and_isr(leadership.isr, partition, is_new=True)
        for partition, leadership in writes.existing.items():
            context.leaderships[partition] = leadership
            self._step(partition, PartitionState.OFFLINE)
        results.update(writes.done)
        results.update(writes.failed)
        return list(writes.existing)

    def _elect(self, partitions: Sequence[TopicPartition], occasion: Occasion, batch: RequestBatch) -> Steps[Results]:
        results: Results = {}
        remaining = list(partitions)
        for _ in range(ATTEMPTS_MAX):
            if not remaining:
                return results
            remaining = yield from self._elect_once(remaining, occasion, batch, results)
        for partition in remaining:
            results[partition] = StateChangeFailed(
                f"another program changed the leader during each of {ATTEMPTS_MAX} attempts"
            )
        return results

    def _elect_once(
        self, partitions: Sequence[TopicPartition], occasion: Occasion, batch: RequestBatch, results: Results
    ) -> Steps[list[TopicPartition]]:
        """Elect leaders; return the partitions that another program wrote in the meantime."""
        read = yield from self._store.read_to_change(partitions)
        for partition in partitions:
            if partition not in read:
                results[partition] = StateChangeFailed("its leader is not stored in the registry")
        stored = {partition: each for partition, each in read.items() if isinstance(each, Leadership)}
        results.update((partition, each) for partition, each in read.items() if isinstance(each, KafkaWireError))
        is_unclean = yield from self._unclean_topics(stored, occasion)
        elected: dict[TopicPartition, Elected] = {}
        for partition, leadership in stored.items():
            result = self._elected(partition, leadership, occasion, is_unclean_allowed=partition.topic in is_unclean)
            if result is None:
                text = f"Failed to elect leader for partition {partition} under strategy {_STRATEGIES[occasion]}"
                results[partition] = StateChangeFailed(text)
            else:
                elected[partition] = result
        if not elected:
            return []
        writes = yield from self._store.write({partition: each.leadership for partition, each in elected.items()})
        for partition, leadership in writes.done.items():
            self._context.leaderships[partition] = leadership
            batch.add_leader_and_isr(elected[partition].recipients, partition, is_new=False)
        results.update(writes.done)
        results.update(writes.failed)
        return writes.stale

    def _elected(
        self, partition: TopicPartition, leadership: Leadership, occasion: Occasion, *, is_unclean_allowed: bool
    ) -> Elected | None:
        context = self._context
        assignment = context.assignment(partition)
        is_online: Callable[[int], bool] = partial(_is_online, context, partition)
        if occasion is Occasion.REASSIGNMENT:
            return elect_for_reassignment(leadership, assignment.target, is_online)
        if occasion is Occasion.PREFERRED:
            return elect_preferred(leadership, assignment.replicas, is_online)
        if occasion is Occasion.CONTROLLED_SHUTDOWN:
            is_online = partial(_is_online, context, partition, or_shutting_down=True)
            return elect_for_shutdown(leadership, assignment.replicas, is_online, context.shutting_down)
        return elect_offline(leadership, assignment.replicas, is_online, is_unclean_allowed=is_unclean_allowed)

    def _unclean_topics(self, stored: Mapping[TopicPartition, Leadership], occasion: Occasion) -> Steps[set[str]]:
        """Return the topics in which a replica that is not in sync may lead; read configurations only if needed."""
        topics = dict.fromkeys(
            partition.topic
            for partition, leadership in stored.items()
            if not any(self._context.is_online(broker_id, partition) for broker_id in leadership.isr)
        )
        if occasion is Occasion.UNCLEAN:
            return set(topics)
        if occasion is not Occasion.OFFLINE or not topics:
            return set()
        return (yield from self._read_unclean(topics))

    def _read_unclean(self, topics: Iterable[str]) -> Steps[set[str]]:
        names = list(topics)
        outcomes = yield [GetData(TOPIC_CONFIG.path(topic)) for topic in names]
        allowed = set()
        for topic, outcome in zip(names, outcomes, strict=True):
            try:
                data = found(outcome, Data)
                path = TOPIC_CONFIG.path(topic)
                config = {} if data is None else TOPIC_CONFIG.decode(data.data, path).config
            except (DamagedZnode, RegistryError) as error:
                if isinstance(error, RegistryError) and error.code in SESSION_ENDED:
                    raise
                _log.error(
                    "not electing unclean leaders for topic %s, since its configuration cannot be read: %s",
                    topic,
                    error,
                )
                continue
            text = config.get(UNCLEAN_ELECTION_CONFIG)
            if self._is_unclean_allowed() if text is None else is_true(text):
                allowed.add(topic)
        return allowed


def _is_online(context: Context, partition: TopicPartition, broker_id: int, *, or_shutting_down: bool = False) -> bool:
    return context.is_online(broker_id, partition, or_shutting_down=or_shutting_down)


def is_true(text: str) -> bool:
    """Return whether a configuration value means true."""
    return text.strip().lower() == "true"
