"""Decide what LeaderAndIsr and StopReplica mean for a broker's replicas, without any side effects.

`ControlRequests` carries out the decisions. The codes are those of Apache Kafka 3.9.1: the answer for a partition that
a request does not change may be NONE, for example if its leader is not alive.

Source: `ReplicaManager.becomeLeaderOrFollower`, `ReplicaManager.stopReplicas`, `Partition.makeLeader` in Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from kafkawire.reference_broker.cluster.controller.context import EPOCH_DURING_DELETION
from kafkawire.reference_broker.replicas.roles import Term
from kafkawire.reference_broker.work.pieces import Work
from kafkawire.sdk.protocol.messages.leader_and_isr import LeaderAndIsrRequest
from kafkawire.sdk.protocol.messages.stop_replica import StopReplicaRequest
from kafkawire.sdk.protocol.tables.enums import NO_PARTITION_LEADER_EPOCH
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.protocol.uuids import ZERO_UUID
from kafkawire.sdk.storage.partitions import Partition

__all__ = ["KnownReplica", "RoleChanges", "Stops", "decide_roles", "decide_stops", "states_of"]

State = LeaderAndIsrRequest.LeaderAndIsrPartitionState

#: Leader epochs in StopReplica that override any other: those for a deleted topic, and for a version without epochs.
_OVERRULING: Final = (EPOCH_DURING_DELETION, NO_PARTITION_LEADER_EPOCH)


class KnownReplica(NamedTuple):
    """What a broker knows about its replica of a partition before a request.

    Attributes:
        is_offline: whether its log has failed.
        leader_epoch: the leader epoch of its term; `NO_PARTITION_LEADER_EPOCH` if there is none.
        partition_epoch: the partition epoch of its term; 0 if there is none.
        topic_id: the topic id with which its log was created; zeros if unknown.
    """

    is_offline: bool = False
    leader_epoch: int = NO_PARTITION_LEADER_EPOCH
    partition_epoch: int = 0
    topic_id: bytes = ZERO_UUID


#: For a partition that is not hosted yet.
_NOT_HOSTED: Final = KnownReplica()


@dataclass(slots=True)
class RoleChanges:
    """The changes made by a LeaderAndIsr.

    Attributes:
        codes: the answer for each partition, in the order of the request.
        leaders: the terms in which this broker leads.
        followers: the terms in which another, live broker leads.
        leaderless: the terms whose leader is not alive; their partitions get logs, and keep their roles.
        identified: the ids of topics that had none when the current term began.
    """

    codes: dict[Partition, ErrorCode] = field(default_factory=dict)
    leaders: dict[Partition, Term] = field(default_factory=dict)
    followers: dict[Partition, Term] = field(default_factory=dict)
    leaderless: dict[Partition, Term] = field(default_factory=dict)
    identified: dict[Partition, bytes] = field(default_factory=dict)

    def answer(self, partition: Partition, code: ErrorCode) -> None:
        """Set the answer for a partition that is not changed.

        Args:
            partition: its topic and number.
            code: the answer.
        """
        self.codes[partition] = code
        for terms in (self.leaders, self.followers, self.leaderless, self.identified):
            terms.pop(partition, None)

    def terms(self) -> Iterator[tuple[Partition, Term]]:
        """Yield the partitions that need logs, and their terms."""
        for terms in (self.leaders, self.followers, self.leaderless):
            yield from terms.items()


@dataclass(slots=True)
class Stops:
    """The changes made by a StopReplica.

    Attributes:
        codes: the answer for each partition, in the order of the request.
        stopped: the partitions that stop leading or following; some may not be hosted.
        deleted: the stopped partitions whose logs and folders are to be deleted.
    """

    codes: dict[Partition, ErrorCode] = field(default_factory=dict)
    stopped: dict[Partition, None] = field(default_factory=dict)
    deleted: dict[Partition, None] = field(default_factory=dict)


def states_of(request: LeaderAndIsrRequest) -> Iterator[tuple[str, bytes, State]]:
    """Yield the topic, topic id (zeros if none) and state of each partition in a LeaderAndIsr of any version."""
    for state in request.ungrouped_partition_states:
        yield state.topic_name, ZERO_UUID, state
    for topic in request.topic_states:
        for state in topic.partition_states:
            yield topic.topic_name, bytes(topic.topic_id), state


def decide_roles(
    broker_id: int,
    request: LeaderAndIsrRequest,
    known: Callable[[Partition], KnownReplica | None],
    is_alive: Callable[[int], bool],
) -> Work[RoleChanges]:
    """Return what a LeaderAndIsr changes, yielding after each partition. Its epochs have already been checked.

    Args:
        broker_id: the id of this broker.
        request: the request; if it names a partition twice, the last state is used.
        known: returns what is known about a partition, or None if it is not hosted.
        is_alive: returns whether a broker is alive.
    """
    changes = RoleChanges()
    for topic, topic_id, state in states_of(request):
        partition = (topic, state.partition_index)
        _decide(broker_id, changes, partition, topic_id, state, known(partition) or _NOT_HOSTED, is_alive)
        yield
    return changes


def _decide(
    broker_id: int,
    changes: RoleChanges,
    partition: Partition,
    topic_id: bytes,
    state: State,
    known: KnownReplica,
    is_alive: Callable[[int], bool],
) -> None:
    changes.answer(partition, _code(broker_id, topic_id, state, known))
    if state.leader_epoch <= known.leader_epoch:
        has_new_id = ZERO_UUID == known.topic_id != topic_id
        if changes.codes[partition] == ErrorCode.NONE and has_new_id:
            changes.identified[partition] = topic_id
    elif changes.codes[partition] == ErrorCode.NONE:
        term = Term(
            state.leader,
            state.leader_epoch,
            tuple(state.isr),
            tuple(state.replicas),
            state.partition_epoch,
            state.controller_epoch,
            known.topic_id if topic_id == ZERO_UUID else topic_id,
            tuple(state.adding_replicas),
            tuple(state.removing_replicas),
        )
        if state.leader != broker_id and not is_alive(state.leader):
            changes.leaderless[partition] = term
        elif state.partition_epoch >= known.partition_epoch:
            (changes.leaders if state.leader == broker_id else changes.followers)[partition] = term


def _code(broker_id: int, topic_id: bytes, state: State, known: KnownReplica) -> ErrorCode:
    """Return the answer for a partition."""
    if known.is_offline:
        return ErrorCode.KAFKA_STORAGE_ERROR
    if topic_id != known.topic_id and ZERO_UUID not in (topic_id, known.topic_id):
        return ErrorCode.INCONSISTENT_TOPIC_ID
    if state.leader_epoch > known.leader_epoch:
        is_assigned = broker_id in state.replicas
        return ErrorCode.NONE if is_assigned else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    # Within an epoch, a topic may be given an id, and followers may be told that the topic no longer has one.
    is_about_id = topic_id != known.topic_id and (known.topic_id == ZERO_UUID or state.leader != broker_id)
    is_same = state.leader_epoch == known.leader_epoch and is_about_id
    return ErrorCode.NONE if is_same else ErrorCode.STALE_CONTROLLER_EPOCH


def decide_stops(request: StopReplicaRequest, known: Callable[[Partition], KnownReplica | None]) -> Work[Stops]:
    """Return what a StopReplica changes, yielding after each partition. Its epochs have already been checked.

    Args:
        request: the request; if it names a partition twice, the last state is used.
        known: returns what is known about a partition, or None if it is not hosted.
    """
    stops = Stops()
    for partition, leader_epoch, is_deletion in _stops_of(request):
        replica = known(partition)
        stops.stopped.pop(partition, None)
        stops.deleted.pop(partition, None)
        if replica is not None and replica.is_offline:
            stops.codes[partition] = ErrorCode.KAFKA_STORAGE_ERROR
        elif replica is not None and leader_epoch not in _OVERRULING and leader_epoch < replica.leader_epoch:
            stops.codes[partition] = ErrorCode.FENCED_LEADER_EPOCH
        else:
            stops.codes[partition] = ErrorCode.NONE
            stops.stopped[partition] = None
            if is_deletion:  # even if the partition is not hosted, since its folder may have been left behind
                stops.deleted[partition] = None
        yield
    return stops


def _stops_of(request: StopReplicaRequest) -> Iterator[tuple[Partition, int, bool]]:
    """Yield each partition in a StopReplica of any version, with its leader epoch and whether to delete it."""
    is_deletion, no_epoch = request.delete_partitions, NO_PARTITION_LEADER_EPOCH
    for single in request.ungrouped_partitions:
        yield (single.topic_name, single.partition_index), no_epoch, is_deletion
    for topic in request.topics:
        for number in topic.partition_indexes:
            yield (topic.name, number), no_epoch, is_deletion
    for states in request.topic_states:
        for state in states.partition_states:
            yield (states.topic_name, state.partition_index), state.leader_epoch, state.delete_partition
