"""Reassignments: a partition moves to other replicas without going offline.

Phase U stores the origin and the target together, so that another controller can continue. Phase A applies while the
target is not in sync: the leader epoch is raised, and the new replicas start following. Phase B applies once it is: the
leader moves if necessary, the departing replicas are deleted, and finally only the target is stored.

Source: `KafkaController.onPartitionReassignment` in Apache Kafka; KIP-455.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Final, TypeVar

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
from kafkawire.sdk.registry.steps import ATTEMPTS_MAX, Steps, checked, together
from kafkawire.sdk.routing.partitions import TopicPartition

__all__ = ["MOVES_TOGETHER_MAX", "Reassignments", "stored_assignment"]

_log = logging.getLogger("kafkawire.broker")


#: Maximum number of concurrent reassignments: each adds a few operations to those waiting for the registry.
MOVES_TOGETHER_MAX: Final = 1_000

#: The errors that keep reassignments from proceeding.
_Failures = dict[TopicPartition, KafkaWireError]

A = TypeVar("A")


class Reassignments:
    """Moves partitions to other replicas.

    Args:
        context: holds the assignments.
        requests: sends requests to brokers.
        store: reads and writes partition leadership.
        partition_states: elects leaders.
        replica_states: starts and deletes replicas.
        deletions: topic deletions, which are on hold during reassignments.
        lookout: watches the node to which old tools write their orders.
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
        """Continue the reassignments of earlier controllers; orders from old tools come first."""
        resumed = yield from self.take_orders()
        yield from self.resume(lambda partition, _: partition not in resumed)

    def resume(self, is_meant: Callable[[TopicPartition, ReplicaAssignment], bool]) -> Steps[None]:
        """Continue reassignments.

        Args:
            is_meant: given a partition and its assignment, returns whether to continue that reassignment.
        """
        assignments = {partition: self._context.assignment(partition) for partition in self._context.reassigned}
        yield from self._move(
            {each: assignment for each, assignment in assignments.items() if is_meant(each, assignment)}
        )

    def take_orders(self) -> Steps[set[TopicPartition]]:
        """Start the moves ordered in `/admin/reassign_partitions`, and watch that node.

        Returns:
            The partitions whose moves have started, without those whose moves were already in progress.
        """
        path = PARTITION_REASSIGNMENTS.path()
        # Watch for the node's creation first, so that later orders are noticed.
        data = (yield from self._read_orders()) if (yield from self._lookout.stat(path)) is not None else None
        if data is None:
            return set()
        try:
            ordered = _orders(data)
        except DamagedZnode as error:
            _log.error("not reassigning partitions, since the requested reassignments cannot be read: %s", error)
            ordered = {}
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
            _log.warning("%s: refusing to reassign %s: %s", path, partition, results[partition].message)
        if refused or not ordered:
            # A damaged order is treated as naming no partitions, and is deleted.
            yield from self._remove_orders(lambda partition, _: partition in refused)
        return {partition for partition, result in results.items() if result == ACCEPTED}

    def _is_under_way(self, partition: TopicPartition, replicas: tuple[int, ...]) -> bool:
        return partition in self._context.reassigned and self._context.assignment(partition).target == replicas

    def alter(self, wanted: Mapping[TopicPartition, Sequence[int] | None]) -> Steps[dict[TopicPartition, Refusal]]:
        """Start, replace or cancel reassignments for a client.

        Args:
            wanted: the new replicas of each partition; None to cancel its reassignment.

        Returns:
            The result for each partition.
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
        # The latest order wins, wherever it comes from.
        yield from self._remove_orders(lambda partition, _: partition in to_begin)
        results.update((yield from self._begin(to_begin)))
        return results

    def listed(self, partitions: Iterable[TopicPartition] | None) -> dict[TopicPartition, ReplicaAssignment]:
        """Return the reassignments in progress.

        Args:
            partitions: the partitions to look at; None for all.
        """
        chosen = self._context.reassigned if partitions is None else partitions
        assignments = {partition: self._context.assignment(partition) for partition in chosen}
        return {partition: assignment for partition, assignment in assignments.items() if assignment.is_reassigned}

    def complete_if_in_sync(self, partitions: Iterable[TopicPartition]) -> Steps[None]:
        """Continue the reassignments whose target is in sync."""
        context = self._context
        moved = {each: context.assignment(each) for each in partitions if each in context.reassigned}
        if moved:
            in_sync = yield from self._in_sync(moved)
            yield from self._move({partition: moved[partition] for partition in in_sync})

    def _begin(self, wanted: Mapping[TopicPartition, ReplicaAssignment]) -> Steps[dict[TopicPartition, Refusal]]:
        results: dict[TopicPartition, Refusal] = {}
        possible: dict[TopicPartition, ReplicaAssignment] = {}
        for partition, assignment in wanted.items():
            exists = bool(self._context.assignment(partition).replicas)
            if not exists or partition.topic in self._context.deletions:
                text = "The partition does not exist."
                results[partition] = Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, text)
            else:
                possible[partition] = assignment
        results.update((yield from self._move(possible)))
        return results

    def _move(self, wanted: Mapping[TopicPartition, ReplicaAssignment]) -> Steps[dict[TopicPartition, Refusal]]:
        """Advance reassignments, a limited number at a time; return the result for each partition."""
        results: dict[TopicPartition, Refusal] = {}
        partitions = list(wanted)
        for start in range(0, len(partitions), MOVES_TOGETHER_MAX):
            portion = {each: wanted[each] for each in partitions[start : start + MOVES_TOGETHER_MAX]}
            failed = yield from self._move_portion(portion)
            for partition in portion:
                error = failed.get(partition)
                results[partition] = ACCEPTED if error is None else refusal_of(ErrorCode.UNKNOWN_SERVER_ERROR)
                if error is not None:
                    _log.error("could not proceed with the reassignment of %s: %s", partition, error)
        return results

    def _move_portion(self, wanted: Mapping[TopicPartition, ReplicaAssignment]) -> Steps[_Failures]:
        """Advance reassignments; return those that failed."""
        self._deletions.hold({partition.topic for partition in wanted})
        failed = yield from self._update(wanted)
        stored = _without(wanted, failed)
        in_sync = yield from self._in_sync(stored)
        syncing = _without(stored, in_sync)
        unchanged = yield from self._bump_leader_epochs(syncing)
        # A replica that an earlier attempt has started is left as it is.
        yield from self._replica_states.change(self._absent(_without(syncing, unchanged)), ReplicaState.NEW)
        unfinished = yield from self._complete({partition: wanted[partition] for partition in in_sync})
        return {**failed, **unchanged, **unfinished}

    def _complete(self, wanted: Mapping[TopicPartition, ReplicaAssignment]) -> Steps[_Failures]:
        """Carry out phase B for reassignments whose target is in sync; return those that failed."""
        context = self._context
        if not wanted:
            return {}
        yield from self._replica_states.change(self._absent(wanted), ReplicaState.NEW)
        added = [Replica(each, broker_id) for each, assignment in wanted.items() for broker_id in assignment.adding]
        yield from self._replica_states.change(added, ReplicaState.ONLINE)
        done = {partition: ReplicaAssignment(assignment.target) for partition, assignment in wanted.items()}
        for partition, assignment in done.items():
            context.assign(partition, assignment)
        failed = yield from self._move_leaders(done)
        # The next attempt repeats these steps.
        for partition in failed:
            context.assign(partition, wanted[partition])
        left = _without(done, failed)
        removed = [Replica(each, broker_id) for each in left for broker_id in wanted[each].removing]
        yield from self._delete_replicas(removed)
        failed |= yield from self._write(left)
        left = _without(left, failed)
        yield from self._remove_orders(lambda each, replicas: each in left and replicas == left[each].replicas)
        for partition in left:
            context.reassigned.pop(partition, None)
        batch = self._requests.batch()
        batch.add_metadata(context.brokers, left)
        batch.send()
        yield from self._deletions.resume({partition.topic for partition in left})
        return failed

    def _absent(self, assignments: Mapping[TopicPartition, ReplicaAssignment]) -> list[Replica]:
        """Return the replicas that reassignments add and that have not been started."""
        states = self._context.replica_states
        added = [Replica(each, broker_id) for each, wanted in assignments.items() for broker_id in wanted.adding]
        return [each for each in added if states.get(each, ReplicaState.NON_EXISTENT) is ReplicaState.NON_EXISTENT]

    def _update(self, wanted: Mapping[TopicPartition, ReplicaAssignment]) -> Steps[_Failures]:
        """Carry out phase U: store assignments, record them, and stop the replicas that are no longer needed."""
        context = self._context
        before = {partition: context.assignment(partition) for partition in wanted}
        changed = {partition: each for partition, each in wanted.items() if each != before[partition]}
        failed = yield from self._write(changed)
        unneeded: list[Replica] = []
        for partition, assignment in _without(changed, failed).items():
            context.assign(partition, assignment)
            gone = [broker_id for broker_id in before[partition].replicas if broker_id not in assignment.replicas]
            unneeded += [Replica(partition, broker_id) for broker_id in gone]
        yield from self._delete_replicas(unneeded)
        context.reassigned.update((partition, None) for partition in wanted if partition not in failed)
        return failed

    def _in_sync(self, assignments: Mapping[TopicPartition, ReplicaAssignment]) -> Steps[dict[TopicPartition, None]]:
        """Return the partitions whose target is in sync."""
        moved = [partition for partition, assignment in assignments.items() if assignment.is_reassigned]
        read = (yield from self._store.read(moved)) if moved else {}
        in_sync: dict[TopicPartition, None] = {}
        for partition, assignment in assignments.items():
            leadership = read.get(partition)
            isr = leadership.isr if isinstance(leadership, Leadership) else ()
            if not assignment.is_reassigned or set(assignment.target) <= set(isr):
                in_sync[partition] = None
        return in_sync

    def _bump_leader_epochs(self, assignments: Mapping[TopicPartition, ReplicaAssignment]) -> Steps[_Failures]:
        """Store the next leader epochs, and send them with the assignments to the replicas; return the failures."""
        failed: _Failures = {}
        remaining = list(assignments)
        for _ in range(ATTEMPTS_MAX):
            if not remaining:
                break
            next_epochs: dict[TopicPartition, Leadership] = {}
            read = yield from self._store.read_to_change(remaining)
            for partition in remaining:
                current = read.get(partition)
                if isinstance(current, Leadership):
                    next_epochs[partition] = current.led_by(current.leader)
                else:
                    failed[partition] = current or StateChangeFailed(
                        f"the leader of {partition} is not stored in the registry"
                    )
            writes = yield from self._store.write(next_epochs)
            failed.update(writes.failed)
            self._tell_epochs(assignments, writes.done)
            remaining = writes.stale
        for partition in remaining:
            text = f"another program changed the leader of {partition} during each of {ATTEMPTS_MAX} attempts"
            failed[partition] = StateChangeFailed(text)
        return failed

    def _tell_epochs(
        self, assignments: Mapping[TopicPartition, ReplicaAssignment], stored: Mapping[TopicPartition, Leadership]
    ) -> None:
        batch = self._requests.batch()
        for partition, leadership in stored.items():
            self._context.leaderships[partition] = leadership
            batch.add_leader_and_isr(assignments[partition].origin, partition, is_new=False)
            # A new replica may be placed in a good log directory even though another one has failed.
            batch.add_leader_and_isr(assignments[partition].adding, partition, is_new=True)
        batch.send()

    def _move_leaders(self, done: Mapping[TopicPartition, ReplicaAssignment]) -> Steps[_Failures]:
        """Elect leaders from the target for partitions led by other replicas; return the failures."""
        context = self._context
        staying: dict[TopicPartition, ReplicaAssignment] = {}
        for partition, assignment in done.items():
            leadership = context.leaderships.get(partition)
            leader = None if leadership is None else leadership.leader
            if leader in assignment.replicas and context.is_online(leader, partition):
                staying[partition] = assignment
        failed = yield from self._bump_leader_epochs(staying)
        leaving = [partition for partition in done if partition not in staying]
        yield from self._partition_states.change(leaving, PartitionState.ONLINE, Occasion.REASSIGNMENT)
        return failed

    def _delete_replicas(self, replicas: Sequence[Replica]) -> Steps[None]:
        for state in (
            ReplicaState.OFFLINE,
            ReplicaState.DELETION_STARTED,
            ReplicaState.DELETION_SUCCESSFUL,
            ReplicaState.NON_EXISTENT,
        ):
            yield from self._replica_states.change(replicas, state)

    def _write(self, wanted: Mapping[TopicPartition, ReplicaAssignment]) -> Steps[_Failures]:
        """Store assignments for all topics concurrently; return the failures."""
        by_topic: dict[str, dict[int, ReplicaAssignment]] = {}
        for partition, assignment in wanted.items():
            by_topic.setdefault(partition.topic, {})[partition.partition] = assignment
        errors = yield from together(self._write_topic(topic, each) for topic, each in by_topic.items())
        return {
            TopicPartition(topic, number): error
            for (topic, assignments), error in zip(by_topic.items(), errors, strict=True)
            if error is not None
            for number in assignments
        }

    def _write_topic(self, topic: str, wanted: Mapping[int, ReplicaAssignment]) -> Steps[StateChangeFailed | None]:
        """Store the assignments in a topic, keeping what other programs have added to it, such as new partitions."""
        context = self._context
        version = context.topic_versions.get(topic)
        known = context.assignments.get(topic, {})
        stored = None if version is None else StoredTopic(context.topic_ids.get(topic), known, version)
        for attempt in range(ATTEMPTS_MAX):
            try:
                if stored is None:
                    stored = yield from self._read_topic(topic)
                content = TOPIC.encode(stored_assignment(stored.topic_id, {**stored.assignments, **wanted}))
            except StateChangeFailed as error:
                return error
            except EncodeError as error:
                return StateChangeFailed(f"the assignment of topic {topic} cannot be stored: {error}")
            change = SetData(TOPIC.path(topic), content, stored.version)
            (result,) = yield from checked(context.check, (change,))
            if isinstance(result, Stat):
                # After a conflict, the context lacks what the other program wrote until the topic is read again.
                if not attempt:
                    context.topic_versions[topic] = result.version
                return None
            if isinstance(result, RegistryError) and result.code is not RegistryCode.BAD_VERSION:
                return StateChangeFailed(f"the assignment of topic {topic} was not stored: {result}")
            stored = None
        return StateChangeFailed(f"another program changed topic {topic} during each of {ATTEMPTS_MAX} attempts")

    def _read_topic(self, topic: str) -> Steps[StoredTopic]:
        (data,) = yield from self._lookout.read_each((TOPIC.path(topic),))
        stored = stored_topic(topic, data)
        if stored is None:
            raise StateChangeFailed(f"topic {topic} has no stored assignment that can be read")
        topic_id = self._context.topic_ids.get(topic)
        if stored.topic_id not in (None, topic_id):
            raise StateChangeFailed(f"topic {topic} was deleted and recreated")
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
        try:
            orders = _orders(data)
        except DamagedZnode:
            orders = {}  # logged when it was first noticed
        rest = [PartitionReplicas(*each, replicas) for each, replicas in orders.items() if not is_done(each, replicas)]
        if not rest:
            yield from delete_each(self._context.check, (path,))
        elif len(rest) < len(orders):
            content = PARTITION_REASSIGNMENTS.encode(PartitionReassignments(tuple(rest)))
            (result,) = yield from checked(self._context.check, (SetData(path, content, data.stat.version),))
            if isinstance(result, RegistryError):
                _log.error("could not remove completed reassignments from %s: %s", path, result)


def _without(some: Mapping[TopicPartition, A], others: Mapping[TopicPartition, object]) -> dict[TopicPartition, A]:
    return {partition: each for partition, each in some.items() if partition not in others}


def _orders(data: Data) -> dict[TopicPartition, tuple[int, ...]]:
    orders = PARTITION_REASSIGNMENTS.decode(data.data, PARTITION_REASSIGNMENTS.path()).partitions
    return {TopicPartition(each.topic, each.partition): tuple(each.replicas) for each in orders}


def stored_assignment(topic_id: bytes | None, assignments: Mapping[int, ReplicaAssignment]) -> TopicAssignment:
    """Return the content of a topic's node."""
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
