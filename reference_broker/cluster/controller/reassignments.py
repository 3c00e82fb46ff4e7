"""Reassignments: a partition gets other replicas without being offline.

Phase U stores origin and target together, so that another controller can continue. Phase A, while the target is not in
sync: a new leader epoch, and the new replicas begin to follow. Phase B, once it is: the leader moves if it must, the
replicas that leave are deleted, and last the target alone is stored.

Source: `KafkaController.onPartitionReassignment` in Apache Kafka; KIP-455.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from kafkawire.reference_broker.cluster.controller.broker_requests import BrokerRequests
from kafkawire.reference_broker.cluster.controller.cluster_reader import StoredTopic, stored_topic
from kafkawire.reference_broker.cluster.controller.context import Context, Leadership, Replica, ReplicaAssignment
from kafkawire.reference_broker.cluster.controller.leader_elections import Occasion
from kafkawire.reference_broker.cluster.controller.leadership_store import LeadershipStore, StateChangeFailed
from kafkawire.reference_broker.cluster.controller.lookout import Lookout, delete_each
from kafkawire.reference_broker.cluster.controller.partition_states import PartitionStates
from kafkawire.reference_broker.cluster.controller.refusals import ACCEPTED, Refusal, refusal_of
from kafkawire.reference_broker.cluster.controller.replica_states import ReplicaStates
from kafkawire.reference_broker.cluster.controller.states import PartitionState, ReplicaState
from kafkawire.reference_broker.cluster.controller.topic_deletions import TopicDeletions
from kafkawire.sdk.errors import EncodeError, KafkaWireError
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.protocol.tables.znodes import (
    PARTITION_REASSIGNMENTS,
    TOPIC,
    PartitionReassignments,
    PartitionReplicas,
    TopicAssignment,
)
from kafkawire.sdk.registry.content import DamagedZnode
from kafkawire.sdk.registry.registry import Data, RegistryCode, RegistryError, SetData, Stat
from kafkawire.sdk.registry.steps import ATTEMPTS_MAX, Steps, checked
from kafkawire.sdk.routing.partitions import TopicPartition

__all__ = ["Reassignments", "stored_assignment"]

_log = logging.getLogger("kafkawire.broker")


class Reassignments:
    """Moves partitions.

    Args:
        context: has the assignments.
        requests: to brokers.
        store: has the leaderships.
        partition_states: elects leaders.
        replica_states: starts and deletes replicas.
        deletions: wait for reassignments.
        lookout: watches the node with the orders of old tools.
    """

    def __init__(
        self,
        context: Context,
        requests: BrokerRequests,
        store: LeadershipStore,
        partition_states: PartitionStates,
        replica_states: ReplicaStates,
        deletions: TopicDeletions,
        lookout: Lookout,
    ) -> None:
        self._context = context
        self._requests = requests
        self._store = store
        self._partition_states = partition_states
        self._replica_states = replica_states
        self._deletions = deletions
        self._lookout = lookout

    def start(self) -> Steps[None]:
        """Continue the reassignments of earlier controllers; orders of old tools go first."""
        resumed = yield from self.take_orders()
        yield from self.resume(lambda partition, _: partition not in resumed)

    def resume(self, is_meant: Callable[[TopicPartition, ReplicaAssignment], bool]) -> Steps[None]:
        """Continue reassignments.

        Args:
            is_meant: which of them, by partition and assignment.
        """
        for partition in list(self._context.reassigned):
            assignment = self._context.assignment(partition)
            if is_meant(partition, assignment):
                yield from self._try(partition, assignment)

    def take_orders(self) -> Steps[set[TopicPartition]]:
        """Begin what `/admin/reassign_partitions` orders, and watch that node.

        Returns:
            the partitions of which a move has begun; orders that are being carried out already are left out.
        """
        path = PARTITION_REASSIGNMENTS.path()
        # A watch of existence comes first, so that orders that are created later are noticed.
        data = (yield from self._read_orders()) if (yield from self._lookout.stat(path)) is not None else None
        if data is None:
            return set()
        ordered = _orders(data)
        results: dict[TopicPartition, Refusal] = {}
        to_begin: dict[TopicPartition, ReplicaAssignment] = {}
        for partition, replicas in ordered.items():
            problem = _problem(replicas)
            if problem is None and self._is_under_way(partition, replicas):
                continue
            if problem is None:
                to_begin[partition] = self._context.assignment(partition).reassigned_to(replicas)
            else:
                results[partition] = Refusal(ErrorCode.INVALID_REPLICA_ASSIGNMENT, problem)
        results.update((yield from self._begin(to_begin)))
        refused = {partition for partition, result in results.items() if result != ACCEPTED}
        for partition in refused:
            _log.warning("the reassignment of %s is refused: %s", partition, results[partition])
        if refused or not ordered:
            # A damaged order has no partitions, and is deleted.
            yield from self._remove_orders(lambda partition, _: partition in refused)
        return {partition for partition, result in results.items() if result == ACCEPTED}

    def _is_under_way(self, partition: TopicPartition, replicas: tuple[int, ...]) -> bool:
        return partition in self._context.reassigned and self._context.assignment(partition).target == replicas

    def alter(self, wanted: Mapping[TopicPartition, Sequence[int] | None]) -> Steps[dict[TopicPartition, Refusal]]:
        """Begin, replace or cancel reassignments for a client.

        Args:
            wanted: the new replicas of each partition; None to cancel its reassignment.

        Returns:
            the result for each partition.
        """
        results: dict[TopicPartition, Refusal] = {}
        to_begin: dict[TopicPartition, ReplicaAssignment] = {}
        for partition, replicas in wanted.items():
            current = self._context.assignment(partition)
            problem = None if replicas is None else _problem(replicas) or self._dead(current, replicas)
            if problem is not None:
                results[partition] = Refusal(ErrorCode.INVALID_REPLICA_ASSIGNMENT, problem)
            elif replicas is not None:
                to_begin[partition] = current.reassigned_to(replicas)
            elif current.is_reassigned:
                to_begin[partition] = current.reassigned_to(current.origin)
            else:
                results[partition] = refusal_of(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS)
        # The latest order counts, wherever it comes from.
        yield from self._remove_orders(lambda partition, _: partition in to_begin)
        results.update((yield from self._begin(to_begin)))
        return results

    def listed(self, partitions: Iterable[TopicPartition] | None) -> dict[TopicPartition, ReplicaAssignment]:
        """Return the reassignments in progress.

        Args:
            partitions: of these partitions; None for all.
        """
        chosen = self._context.reassigned if partitions is None else partitions
        assignments = {partition: self._context.assignment(partition) for partition in chosen}
        return {partition: assignment for partition, assignment in assignments.items() if assignment.is_reassigned}

    def complete_if_in_sync(self, partitions: Iterable[TopicPartition]) -> Steps[None]:
        """Continue the reassignments among partitions whose target is in sync."""
        for partition in partitions:
            if partition in self._context.reassigned:
                assignment = self._context.assignment(partition)
                if (yield from self._is_in_sync(partition, assignment)):
                    yield from self._try(partition, assignment)

    def _begin(self, wanted: Mapping[TopicPartition, ReplicaAssignment]) -> Steps[dict[TopicPartition, Refusal]]:
        results: dict[TopicPartition, Refusal] = {}
        for partition, assignment in wanted.items():
            exists = bool(self._context.assignment(partition).replicas)
            if not exists or partition.topic in self._context.deletions:
                text = "The partition does not exist."
                results[partition] = Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, text)
            else:
                results[partition] = yield from self._try(partition, assignment)
        return results

    def _try(self, partition: TopicPartition, assignment: ReplicaAssignment) -> Steps[Refusal]:
        try:
            yield from self._move(partition, assignment)
        except StateChangeFailed as error:
            _log.error("the reassignment of %s did not proceed: %s", partition, error)
            return refusal_of(ErrorCode.UNKNOWN_SERVER_ERROR)
        return ACCEPTED

    def _move(self, partition: TopicPartition, assignment: ReplicaAssignment) -> Steps[None]:
        context = self._context
        self._deletions.hold((partition.topic,))
        yield from self._update(partition, assignment)
        if not (yield from self._is_in_sync(partition, assignment)):
            yield from self._bump_leader_epoch(partition, assignment)
            added = [Replica(partition, broker_id) for broker_id in assignment.adding]
            # A replica that an earlier attempt started stays as it is.
            fresh = [each for each in added if self._is_absent(each)]
            yield from self._replica_states.change(fresh, ReplicaState.NEW)
            return
        added = [Replica(partition, broker_id) for broker_id in assignment.adding]
        yield from self._replica_states.change([each for each in added if self._is_absent(each)], ReplicaState.NEW)
        yield from self._replica_states.change(added, ReplicaState.ONLINE)
        done = ReplicaAssignment(assignment.target)
        context.assign(partition, done)
        yield from self._move_leader(partition, done)
        yield from self._delete_replicas(partition, assignment.removing)
        yield from self._write(partition, done)
        yield from self._remove_orders(lambda each, replicas: each == partition and replicas == done.replicas)
        context.reassigned.pop(partition, None)
        batch = self._requests.batch()
        batch.add_metadata(context.brokers, (partition,))
        batch.send()
        yield from self._deletions.resume((partition.topic,))

    def _is_absent(self, replica: Replica) -> bool:
        return self._context.replica_states.get(replica, ReplicaState.NON_EXISTENT) is ReplicaState.NON_EXISTENT

    def _update(self, partition: TopicPartition, assignment: ReplicaAssignment) -> Steps[None]:
        """Phase U: store the assignment first, then note it, then stop the replicas that are not needed any more."""
        current = self._context.assignment(partition)
        if current != assignment:
            yield from self._write(partition, assignment)
            self._context.assign(partition, assignment)
            unneeded = [broker_id for broker_id in current.replicas if broker_id not in assignment.replicas]
            yield from self._delete_replicas(partition, unneeded)
        self._context.reassigned[partition] = None

    def _is_in_sync(self, partition: TopicPartition, assignment: ReplicaAssignment) -> Steps[bool]:
        if not assignment.is_reassigned:
            return True
        leadership = (yield from self._store.read((partition,))).get(partition)
        return isinstance(leadership, Leadership) and set(assignment.target) <= set(leadership.isr)

    def _bump_leader_epoch(self, partition: TopicPartition, assignment: ReplicaAssignment) -> Steps[None]:
        """Store the next leader epoch, and tell the replicas their assignment with it."""
        context = self._context
        for _ in range(ATTEMPTS_MAX):
            current = (yield from self._store.read_to_change((partition,))).get(partition)
            if current is None:
                raise StateChangeFailed(f"{partition} has no stored leader")
            if isinstance(current, KafkaWireError):
                raise StateChangeFailed(str(current)) from current
            writes = yield from self._store.write({partition: current.led_by(current.leader)})
            if partition in writes.failed:
                raise StateChangeFailed(str(writes.failed[partition])) from writes.failed[partition]
            if partition in writes.done:
                context.leaderships[partition] = writes.done[partition]
                batch = self._requests.batch()
                batch.add_leader_and_isr(assignment.origin, partition, is_new=False)
                # A new replica may be placed in a good log directory, although another one has failed.
                batch.add_leader_and_isr(assignment.adding, partition, is_new=True)
                batch.send()
                return
        raise StateChangeFailed(f"other programs wrote the leader of {partition} at each of {ATTEMPTS_MAX} attempts")

    def _move_leader(self, partition: TopicPartition, done: ReplicaAssignment) -> Steps[None]:
        leadership = self._context.leaderships.get(partition)
        leader = None if leadership is None else leadership.leader
        if leader in done.replicas and self._context.is_online(leader, partition):
            yield from self._bump_leader_epoch(partition, done)
        else:
            yield from self._partition_states.change((partition,), PartitionState.ONLINE, Occasion.REASSIGNMENT)

    def _delete_replicas(self, partition: TopicPartition, broker_ids: Iterable[int]) -> Steps[None]:
        replicas = [Replica(partition, broker_id) for broker_id in broker_ids]
        for state in (
            ReplicaState.OFFLINE,
            ReplicaState.DELETION_STARTED,
            ReplicaState.DELETION_SUCCESSFUL,
            ReplicaState.NON_EXISTENT,
        ):
            yield from self._replica_states.change(replicas, state)

    def _write(self, partition: TopicPartition, assignment: ReplicaAssignment) -> Steps[None]:
        """Store an assignment, and keep what other programs have written to the topic, such as new partitions."""
        context, topic = self._context, partition.topic
        version = context.topic_versions.get(topic)
        known = context.assignments.get(topic, {})
        stored = None if version is None else StoredTopic(context.topic_ids.get(topic), known, version)
        for attempt in range(ATTEMPTS_MAX):
            if stored is None:
                stored = yield from self._read_topic(topic)
            try:
                content = TOPIC.encode(
                    stored_assignment(stored.topic_id, {**stored.assignments, partition.partition: assignment})
                )
            except EncodeError as error:
                raise StateChangeFailed(f"the assignment of {partition} cannot be stored: {error}") from error
            change = SetData(TOPIC.path(topic), content, stored.version)
            (result,) = yield from checked(context.check, (change,))
            if isinstance(result, Stat):
                # After a conflict, the context lacks what the other program wrote until the topic is read again.
                if not attempt:
                    context.topic_versions[topic] = result.version
                return
            if isinstance(result, RegistryError) and result.code is not RegistryCode.BAD_VERSION:
                raise StateChangeFailed(f"the assignment of {partition} is not stored: {result}") from result
            stored = None
        raise StateChangeFailed(f"other programs wrote the topic {topic} at each of {ATTEMPTS_MAX} attempts")

    def _read_topic(self, topic: str) -> Steps[StoredTopic]:
        (data,) = yield from self._lookout.read_each((TOPIC.path(topic),))
        stored = stored_topic(topic, data)
        if stored is None:
            raise StateChangeFailed(f"topic {topic} has no stored assignment that can be read")
        topic_id = self._context.topic_ids.get(topic)
        if stored.topic_id not in (None, topic_id):
            raise StateChangeFailed(f"topic {topic} was deleted and created again")
        return stored._replace(topic_id=topic_id)

    def _dead(self, current: ReplicaAssignment, replicas: Sequence[int]) -> str | None:
        live = self._context.live_ids()
        adding = current.reassigned_to(replicas).adding
        if set(adding) <= set(live):
            return None
        return f"Replica assignment has brokers that are not alive. Replica list: {adding}, live broker list: {live}"

    def _read_orders(self) -> Steps[Data | None]:
        (data,) = yield from self._lookout.read_each((PARTITION_REASSIGNMENTS.path(),))
        return data if isinstance(data, Data) else None

    def _remove_orders(self, is_done: Callable[[TopicPartition, tuple[int, ...]], bool]) -> Steps[None]:
        path = PARTITION_REASSIGNMENTS.path()
        data = yield from self._read_orders()
        if data is None:
            return
        orders = _orders(data)
        rest = [PartitionReplicas(*each, replicas) for each, replicas in orders.items() if not is_done(each, replicas)]
        if not rest:
            yield from delete_each(self._context.check, (path,))
        elif len(rest) < len(orders):
            content = PARTITION_REASSIGNMENTS.encode(PartitionReassignments(tuple(rest)))
            (result,) = yield from checked(self._context.check, (SetData(path, content, data.stat.version),))
            if isinstance(result, RegistryError):
                _log.error("%s keeps orders that are done: %s", path, result)


def _orders(data: Data) -> dict[TopicPartition, tuple[int, ...]]:
    try:
        orders = PARTITION_REASSIGNMENTS.decode(data.data, PARTITION_REASSIGNMENTS.path()).partitions
    except DamagedZnode as error:
        _log.error("no partition is reassigned, since the order cannot be read: %s", error)
        return {}
    return {TopicPartition(each.topic, each.partition): tuple(each.replicas) for each in orders}


def stored_assignment(topic_id: bytes | None, assignments: Mapping[int, ReplicaAssignment]) -> TopicAssignment:
    """Return the content of the node of a topic."""
    return TopicAssignment(
        {number: each.replicas for number, each in assignments.items()},
        topic_id,
        {number: each.adding for number, each in assignments.items() if each.adding},
        {number: each.removing for number, each in assignments.items() if each.removing},
    )


def _problem(replicas: Collection[int]) -> str | None:
    if not replicas:
        return "Empty replica list specified in partition reassignment."
    if len(set(replicas)) < len(replicas):
        return f"Duplicate replica ids in partition reassignment replica list: {list(replicas)}"
    if min(replicas) < 0:
        return f"Invalid broker id in replica list: {list(replicas)}"
    return None
