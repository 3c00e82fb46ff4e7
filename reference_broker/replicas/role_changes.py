"""What LeaderAndIsr and StopReplica mean for the replicas of a broker: decisions without effects.

`ControlRequests` carries them out. The codes are those of Apache Kafka 3.9.1: a partition that a request does not
change may be answered with NONE, as one whose leader is not alive.

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

#: Leader epochs of StopReplica that overrule any other: of a deleted topic, and of a version without epochs.
_OVERRULING: Final = (EPOCH_DURING_DELETION, NO_PARTITION_LEADER_EPOCH)


class KnownReplica(NamedTuple):
    """What a broker knows of its replica of a partition before a request.

    Attributes:
        is_offline: whether its log has failed.
        leader_epoch: the epoch of its term, `NO_PARTITION_LEADER_EPOCH` without one.
        partition_epoch: that of its term, 0 without one.
        topic_id: the id that its log was made for; zeros if it is unknown.
    """

    is_offline: bool = False
    leader_epoch: int = NO_PARTITION_LEADER_EPOCH
    partition_epoch: int = 0
    topic_id: bytes = ZERO_UUID


#: Of a partition that is not hosted yet.
_NOT_HOSTED: Final = KnownReplica()


@dataclass(slots=True)
class RoleChanges:
    """What a LeaderAndIsr changes.

    Attributes:
        codes: the answer for each partition, in the order of the request.
        leaders: the terms in which this broker leads.
        followers: the terms in which another broker leads, which is alive.
        leaderless: terms whose leader is not alive: the partitions get a log, and keep their role.
        identified: the ids of topics that had none when the present term began.
    """

    codes: dict[Partition, ErrorCode] = field(default_factory=dict)
    leaders: dict[Partition, Term] = field(default_factory=dict)
    followers: dict[Partition, Term] = field(default_factory=dict)
    leaderless: dict[Partition, Term] = field(default_factory=dict)
    identified: dict[Partition, bytes] = field(default_factory=dict)

    def answer(self, partition: Partition, code: ErrorCode) -> None:
        """Answer for a partition, and change nothing about it.

        Args:
            partition: topic and number.
            code: the answer.
        """
        self.codes[partition] = code
        for terms in (self.leaders, self.followers, self.leaderless, self.identified):
            terms.pop(partition, None)

    def terms(self) -> Iterator[tuple[Partition, Term]]:
        """Yield the partitions that need a log, and their terms."""
        for terms in (self.leaders, self.followers, self.leaderless):
            yield from terms.items()


@dataclass(slots=True)
class Stops:
    """What a StopReplica changes.

    Attributes:
        codes: the answer for each partition, in the order of the request.
        stopped: the partitions that neither lead nor follow from now on; some may not be hosted.
        deleted: those of them whose logs and folders are deleted.
    """

    codes: dict[Partition, ErrorCode] = field(default_factory=dict)
    stopped: dict[Partition, None] = field(default_factory=dict)
    deleted: dict[Partition, None] = field(default_factory=dict)


def states_of(request: LeaderAndIsrRequest) -> Iterator[tuple[str, bytes, State]]:
    """Yield topic, topic id (zeros without one) and state of each partition in a LeaderAndIsr of any version."""
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
    """Return what a LeaderAndIsr changes; yield after each partition. Its epochs have been checked.

    Args:
        broker_id: the id of this broker.
        request: see above; if it names a partition twice, the last state counts.
        known: returns what is known of a partition, or None if it is not hosted.
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
    # A topic may get an id, and followers may be told that it has none any more, in the same epoch.
    is_about_id = topic_id != known.topic_id and (known.topic_id == ZERO_UUID or state.leader != broker_id)
    is_same = state.leader_epoch == known.leader_epoch and is_about_id
    return ErrorCode.NONE if is_same else ErrorCode.STALE_CONTROLLER_EPOCH


def decide_stops(request: StopReplicaRequest, known: Callable[[Partition], KnownReplica | None]) -> Work[Stops]:
    """Return what a StopReplica changes; yield after each partition. Its epochs have been checked.

    Args:
        request: see above; if it names a partition twice, the last state counts.
        known: returns what is known of a partition, or None if it is not hosted.
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
            if is_deletion:  # also if it is not hosted: its folder may have been left over
                stops.deleted[partition] = None
        yield
    return stops


def _stops_of(request: StopReplicaRequest) -> Iterator[tuple[Partition, int, bool]]:
    """Yield partition, leader epoch and whether it is deleted, of a StopReplica of any version."""
    is_deletion, no_epoch = request.delete_partitions, NO_PARTITION_LEADER_EPOCH
    for single in request.ungrouped_partitions:
        yield (single.topic_name, single.partition_index), no_epoch, is_deletion
    for topic in request.topics:
        for number in topic.partition_indexes:
            yield (topic.name, number), no_epoch, is_deletion
    for states in request.topic_states:
        for state in states.partition_states:
            yield (states.topic_name, state.partition_index), state.leader_epoch, state.delete_partition
