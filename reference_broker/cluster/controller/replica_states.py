"""Replica state changes: what each one stores and sends.

- to NEW and ONLINE: the broker is told the leader and the ISR, if there is a leader;
- to OFFLINE: the broker is told to stop the replica, the replica leaves the ISR, and the others are informed;
- to DELETION_STARTED: the broker is told to delete the replica;
- to NON_EXISTENT: the replica is removed from the in-memory assignment;
- to DELETION_SUCCESSFUL and DELETION_INELIGIBLE: only the state changes.

Source: `ZkReplicaStateMachine` in Apache Kafka.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from typing import Final

from kafkawire.reference_broker.cluster.controller.broker_requests import BrokerRequests, RequestBatch
from kafkawire.reference_broker.cluster.controller.context import Context, Leadership, Replica
from kafkawire.reference_broker.cluster.controller.leadership_store import LeadershipStore
from kafkawire.reference_broker.cluster.controller.states import REPLICA_EDGES, ReplicaState
from kafkawire.sdk.errors import KafkaWireError
from kafkawire.sdk.protocol.tables.enums import NO_LEADER_ID
from kafkawire.sdk.registry.steps import ATTEMPTS_MAX, Steps
from kafkawire.sdk.routing.partitions import TopicPartition

__all__ = ["ReplicaStates"]

_log = logging.getLogger("kafkawire.broker")

_EDGES: Final = frozenset(REPLICA_EDGES)


class ReplicaStates:
    """Moves replicas from state to state.

    Args:
        context: holds the states.
        requests: sends requests to brokers.
        store: reads and writes partition leadership.
    """

    def __init__(self, context: Context, requests: BrokerRequests, store: LeadershipStore) -> None:
        self._context = context
        self._requests = requests
        self._store = store

    def start(self) -> Steps[None]:
        """Set the state of each replica, and inform the live brokers."""
        context = self._context
        online: list[Replica] = []
        offline: list[Replica] = []
        for replica in context.replicas_of(context.partitions()):
            is_online = context.is_online(replica.broker_id, replica.partition)
            # If the topic is to be deleted, a replica whose broker is gone cannot be deleted now.
            context.replica_states[replica] = ReplicaState.ONLINE if is_online else ReplicaState.DELETION_INELIGIBLE
            (online if is_online else offline).append(replica)
        yield from self.change(online, ReplicaState.ONLINE)
        yield from self.change(offline, ReplicaState.OFFLINE)

    def change(self, replicas: Iterable[Replica], target: ReplicaState) -> Steps[None]:
        """Move replicas to a state, and send the requests that this requires.

        If a replica cannot make the transition, the failure is logged.

        Args:
            replicas: the replicas.
            target: the new state.

        Raises:
            CheckFailed: another controller has been elected; nothing was sent.
            RegistryError: the session has ended; nothing was sent.
        """
        by_broker: dict[int, list[Replica]] = {}
        for replica in dict.fromkeys(replicas):
            if self._may_become(replica, target):
                by_broker.setdefault(replica.broker_id, []).append(replica)
        batch = self._requests.batch()
        for broker_id, group in by_broker.items():
            if target is ReplicaState.OFFLINE:
                yield from self._go_offline(broker_id, group, batch)
            else:
                for replica in group:
                    self._change_one(replica, target, batch)
        batch.send()

    def _may_become(self, replica: Replica, target: ReplicaState) -> bool:
        state = self._context.replica_states.setdefault(replica, ReplicaState.NON_EXISTENT)
        if (state, target) in _EDGES:
            return True
        _log.error(
            "the replica of %s on broker %d is %s and cannot become %s",
            replica.partition,
            replica.broker_id,
            state.name,
            target.name,
        )
        return False

    def _step(self, replica: Replica, target: ReplicaState) -> None:
        states = self._context.replica_states
        states[replica] = REPLICA_EDGES.follow(states[replica], target)

    def _change_one(self, replica: Replica, target: ReplicaState, batch: RequestBatch) -> None:
        context = self._context
        partition, broker_id = replica
        if target is ReplicaState.NEW:
            if not self._tell_new(replica, batch):
                return
        elif target is ReplicaState.ONLINE:
            self._tell_online(replica, batch)
        elif target is ReplicaState.DELETION_STARTED:
            batch.add_stop_replica((broker_id,), partition, is_deleted=True)
        self._step(replica, target)
        if target is ReplicaState.NON_EXISTENT:
            context.assign(partition, context.assignment(partition).without(broker_id))
            del context.replica_states[replica]

    def _tell_new(self, replica: Replica, batch: RequestBatch) -> bool:
        leadership = self._context.leaderships.get(replica.partition)
        if leadership is None:
            return True
        if leadership.leader == replica.broker_id:
            _log.error("the replica of %s on broker %d is the leader and cannot become NEW", *replica)
            return False
        batch.add_leader_and_isr((replica.broker_id,), replica.partition, is_new=True)
        return True

    def _tell_online(self, replica: Replica, batch: RequestBatch) -> None:
        context = self._context
        partition, broker_id = replica
        if context.replica_states[replica] is not ReplicaState.NEW:
            if partition in context.leaderships:
                batch.add_leader_and_isr((broker_id,), partition, is_new=False)
            return
        assignment = context.assignment(partition)
        if broker_id not in assignment.replicas:
            _log.error(
                "adding a replica of %s on broker %d to the assignment, which did not include it", partition, broker_id
            )
            context.assign(partition, assignment._replace(replicas=(*assignment.replicas, broker_id)))

    def _go_offline(self, broker_id: int, replicas: Sequence[Replica], batch: RequestBatch) -> Steps[None]:
        context = self._context
        for replica in replicas:
            batch.add_stop_replica((broker_id,), replica.partition, is_deleted=False)
        led = [replica for replica in replicas if replica.partition in context.leaderships]
        removed = yield from self._remove_from_isr(broker_id, [replica.partition for replica in led])
        for partition in removed:
            if partition.topic not in context.deletions:
                recipients = [each for each in context.assignment(partition).replicas if each != broker_id]
                batch.add_leader_and_isr(recipients, partition, is_new=False)
            self._step(Replica(partition, broker_id), ReplicaState.OFFLINE)
        for replica in replicas:
            if replica.partition not in context.leaderships:
                batch.add_metadata(context.brokers, (replica.partition,))
                self._step(replica, ReplicaState.OFFLINE)

    def _remove_from_isr(self, broker_id: int, partitions: Sequence[TopicPartition]) -> Steps[list[TopicPartition]]:
        """Remove a replica from the ISR of partitions; return those whose stored ISR no longer contains it."""
        removed: list[TopicPartition] = []
        remaining = list(partitions)
        for _ in range(ATTEMPTS_MAX):
            if not remaining:
                return removed
            remaining = yield from self._remove_once(broker_id, remaining, removed)
        for partition in remaining:
            _log.error("another program changed the ISR of %s during each of %d attempts", partition, ATTEMPTS_MAX)
        return removed

    def _remove_once(
        self, broker_id: int, partitions: Sequence[TopicPartition], removed: list[TopicPartition]
    ) -> Steps[list[TopicPartition]]:
        context = self._context
        read = yield from self._store.read_to_change(partitions)
        changed: dict[TopicPartition, Leadership] = {}
        for partition in partitions:
            leadership = read.get(partition)
            if leadership is None:
                if partition.topic in context.deletions:
                    removed.append(partition)  # an earlier controller had begun to delete the topic
                else:
                    _log.error(
                        "broker %d stays in the ISR of %s, since the leader is not stored in the registry",
                        broker_id,
                        partition,
                    )
            elif isinstance(leadership, KafkaWireError):
                _log.error("broker %d stays in the ISR of %s: %s", broker_id, partition, leadership)
            elif broker_id in leadership.isr:
                changed[partition] = _without(leadership, broker_id)
            else:
                context.leaderships[partition] = leadership._replace(controller_epoch=context.epoch)
                removed.append(partition)
        if not changed:
            return []
        writes = yield from self._store.write(changed)
        for partition, leadership in writes.done.items():
            context.leaderships[partition] = leadership
            removed.append(partition)
        for partition, error in writes.failed.items():
            _log.error("broker %d stays in the ISR of %s: %s", broker_id, partition, error)
        return writes.stale


def _without(leadership: Leadership, broker_id: int) -> Leadership:
    """Return leadership without a replica; the last replica stays in the ISR, since only it has all records."""
    leader = NO_LEADER_ID if leadership.leader == broker_id else leadership.leader
    isr = tuple(each for each in leadership.isr if each != broker_id)
    return leadership.led_by(leader, isr or leadership.isr)
