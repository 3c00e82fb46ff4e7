"""Elections on demand: for clients, for old tools that place orders in the registry, and to balance leadership.

Source: `KafkaController.processReplicaLeaderElection`, `checkAndTriggerAutoLeaderRebalance` in Apache Kafka.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence

from kafkawire.reference_broker.cluster.controller.context import Context, Leadership
from kafkawire.reference_broker.cluster.controller.leader_elections import Occasion, elect_preferred
from kafkawire.reference_broker.cluster.controller.leadership_store import StateChangeFailed
from kafkawire.reference_broker.cluster.controller.lookout import Lookout, delete_each
from kafkawire.reference_broker.cluster.controller.partition_states import PartitionStates
from kafkawire.reference_broker.cluster.controller.refusals import Refusal, refusal_of
from kafkawire.reference_broker.cluster.controller.states import PartitionState
from kafkawire.sdk.errors import KafkaWireError
from kafkawire.sdk.protocol.tables.enums import NO_LEADER_ID, ElectionType
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.protocol.tables.znodes import PREFERRED_REPLICA_ELECTION
from kafkawire.sdk.registry.content import DamagedZnode
from kafkawire.sdk.registry.registry import Data
from kafkawire.sdk.registry.steps import Steps
from kafkawire.sdk.routing.partitions import TopicPartition

__all__ = ["LeaderChanges"]

_log = logging.getLogger("kafkawire.broker")


class LeaderChanges:
    """Elects leaders on demand.

    Args:
        context: holds the leaders.
        partition_states: elects the leaders.
        imbalance_percentage: `leader.imbalance.per.broker.percentage`.
        lookout: watches the node to which old tools write their orders.
    """

    def __init__(
        self,
        context: Context,
        partition_states: PartitionStates,
        imbalance_percentage: int,
        lookout: Lookout,
    ) -> None:
        self._context = context
        self._partition_states = partition_states
        self._imbalance_percentage = imbalance_percentage
        self._lookout = lookout

    def elect(
        self, partitions: Iterable[TopicPartition] | None, kind: ElectionType
    ) -> Steps[dict[TopicPartition, int | Refusal]]:
        """Elect leaders for a client.

        Args:
            partitions: the partitions; None for all.
            kind: whether to elect the preferred leaders, or any replicas for partitions without a leader.

        Returns:
            The elected leader of each partition, or why none was elected.
        """
        results: dict[TopicPartition, int | Refusal] = {}
        chosen: list[TopicPartition] = []
        for partition in list(self._context.partitions()) if partitions is None else partitions:
            refusal = self._refusal(partition, kind)
            if refusal is None:
                chosen.append(partition)
            else:
                results[partition] = refusal
        occasion = Occasion.PREFERRED if kind is ElectionType.PREFERRED else Occasion.UNCLEAN
        elected = yield from self._partition_states.change(chosen, PartitionState.ONLINE, occasion)
        for partition in chosen:
            results[partition] = _result(elected.get(partition), kind)
        return results

    def take_order(self) -> Steps[None]:
        """Carry out the order in `/admin/preferred_replica_election`, delete the order, and watch the node."""
        path = PREFERRED_REPLICA_ELECTION.path()
        if (yield from self._lookout.stat(path)) is None:
            return
        (data,) = yield from self._lookout.read_each((path,))
        if not isinstance(data, Data):
            return
        refusals = {each: self._refusal(each, ElectionType.PREFERRED) for each in _order(data)}
        ordered = [each for each, refusal in refusals.items() if refusal is None]
        needless = (None, refusal_of(ErrorCode.ELECTION_NOT_NEEDED))
        refused = [(each, refusal.message) for each, refusal in refusals.items() if refusal not in needless]
        if refused:
            text = "%s: could not elect the preferred leaders of %d partitions; the first is %s: %s"
            _log.warning(text, path, len(refused), *refused[0])
        yield from self._partition_states.change(ordered, PartitionState.ONLINE, Occasion.PREFERRED)
        yield from delete_each(self._context.check, (path,))

    def rebalance(self) -> Steps[None]:
        """Elect preferred leaders for each broker that leads too few of the partitions that prefer it."""
        context = self._context
        preferred: dict[int, list[TopicPartition]] = {}
        for partition in context.with_leadership():
            replicas = context.assignment(partition).replicas
            if replicas:
                preferred.setdefault(replicas[0], []).append(partition)
        for broker_id, partitions in preferred.items():
            others = [each for each in partitions if context.leaderships[each].leader != broker_id]
            if 100 * len(others) > self._imbalance_percentage * len(partitions):
                chosen = [partition for partition in others if self._can_be_preferred(partition)]
                yield from self._partition_states.change(chosen, PartitionState.ONLINE, Occasion.PREFERRED)

    def _can_be_preferred(self, partition: TopicPartition) -> bool:
        context = self._context
        replicas = context.assignment(partition).replicas
        leadership = context.leaderships[partition]
        return elect_preferred(leadership, replicas, lambda each: context.is_online(each, partition)) is not None

    def _refusal(self, partition: TopicPartition, kind: ElectionType) -> Refusal | None:
        context = self._context
        replicas = context.assignment(partition).replicas
        if not replicas:
            return Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "The partition does not exist.")
        if partition.topic in context.deletions:
            return Refusal(ErrorCode.INVALID_TOPIC_EXCEPTION, "The topic is being deleted")
        leadership = context.leaderships.get(partition)
        leader = NO_LEADER_ID if leadership is None else leadership.leader
        if kind is ElectionType.PREFERRED:
            return refusal_of(ErrorCode.ELECTION_NOT_NEEDED) if leader == replicas[0] else None
        return refusal_of(ErrorCode.ELECTION_NOT_NEEDED) if context.is_live(leader) else None


def _order(data: Data) -> Sequence[TopicPartition]:
    try:
        ordered = PREFERRED_REPLICA_ELECTION.decode(data.data, PREFERRED_REPLICA_ELECTION.path()).partitions
    except DamagedZnode as error:
        _log.error("not electing preferred leaders, since the list of partitions cannot be read: %s", error)
        return ()
    return list(dict.fromkeys(TopicPartition(*each) for each in ordered))


def _result(result: Leadership | KafkaWireError | None, kind: ElectionType) -> int | Refusal:
    if result is None:
        result = StateChangeFailed("the partition is in a state that does not allow elections")
    if isinstance(result, Leadership):
        return result.leader
    if not isinstance(result, StateChangeFailed):
        return refusal_of(ErrorCode.UNKNOWN_SERVER_ERROR)
    if kind is ElectionType.PREFERRED:
        return Refusal(ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, str(result))
    return Refusal(ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE, str(result))
