"""ISR changes: AlterPartition requests from leaders, and announcements from leaders running releases before 2.7.

Source: `KafkaController.tryProcessAlterPartition`, `processIsrChangeNotification` in Apache Kafka; KIP-497, KIP-841.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Final

from kafkawire.reference_broker.cluster.controller.broker_changes import BrokerChanges
from kafkawire.reference_broker.cluster.controller.context import Context, Leadership
from kafkawire.reference_broker.cluster.controller.leadership_store import LeadershipStore
from kafkawire.reference_broker.cluster.controller.lookout import Lookout, delete_each
from kafkawire.reference_broker.cluster.controller.reassignments import Reassignments
from kafkawire.sdk.protocol.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse
from kafkawire.sdk.protocol.tables.enums import LeaderRecoveryState
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.protocol.tables.znodes import ISR_CHANGE, ISR_CHANGES
from kafkawire.sdk.protocol.uuids import ZERO_UUID
from kafkawire.sdk.registry.content import DamagedZnode
from kafkawire.sdk.registry.paths import child_path
from kafkawire.sdk.registry.registry import Data
from kafkawire.sdk.registry.steps import Steps
from kafkawire.sdk.routing.partitions import TopicPartition

__all__ = ["IsrChanges"]

_log = logging.getLogger("kafkawire.broker")

#: The first versions of AlterPartition with topic ids, and with the epochs of the brokers in the ISR.
_WITH_TOPIC_IDS: Final = 2
_WITH_EPOCHS: Final = 3

_Results = dict[TopicPartition, Leadership | ErrorCode]


class IsrChanges:
    """Handles ISR changes from leaders.

    Args:
        context: holds the leadership of each partition.
        store: writes partition leadership.
        brokers: informs the brokers.
        reassignments: completes reassignments whose target is in sync.
        lookout: watches for announcements from leaders running old releases.
    """

    def __init__(
        self,
        context: Context,
        store: LeadershipStore,
        brokers: BrokerChanges,
        reassignments: Reassignments,
        lookout: Lookout,
    ) -> None:
        self._context = context
        self._store = store
        self._brokers = brokers
        self._reassignments = reassignments
        self._lookout = lookout

    def alter(
        self, request: AlterPartitionRequest, version: int
    ) -> Steps[tuple[AlterPartitionResponse, list[TopicPartition]]]:
        """Store the ISRs that a leader requests.

        Args:
            request: the leader's request.
            version: the request's version.

        Returns:
            The response, and the partitions whose ISR is now the requested one; their reassignments may be complete.
        """
        broker = self._context.brokers.get(request.broker_id)
        if broker is None or broker.epoch != request.broker_epoch:
            known = None if broker is None else broker.epoch
            _log.info(
                "AlterPartition from broker %d has epoch %d, not %s", request.broker_id, request.broker_epoch, known
            )
            return AlterPartitionResponse(error_code=ErrorCode.STALE_BROKER_EPOCH), []
        response = AlterPartitionResponse(topics=[])
        wanted = self._wanted(request, version, response)
        results: _Results = {}
        accepted: dict[TopicPartition, Leadership] = {}
        for partition, leadership in wanted.items():
            result = self._judged(partition, leadership, version)
            if result is None:
                accepted[partition] = leadership
            else:
                results[partition] = result
        if accepted:
            writes = yield from self._store.write(accepted)
            self._context.leaderships.update(writes.done)
            results.update(writes.done)
            results.update((yield from self._compared(accepted, writes.stale)))
            for partition, error in writes.failed.items():
                _log.error("the ISR of %s was not stored: %s", partition, error)
                results[partition] = ErrorCode.UNKNOWN_SERVER_ERROR
        self._brokers.tell(wanted)
        self._fill(response, {partition: results[partition] for partition in wanted}, version)
        return response, [partition for partition, result in results.items() if isinstance(result, Leadership)]

    def _compared(
        self, wanted: Mapping[TopicPartition, Leadership], stale: Sequence[TopicPartition]
    ) -> Steps[_Results]:
        """Return the results of writes that expected another version; the stored ISR may already be the requested one.

        The outcome of the first attempt may have been lost, and the write resent.
        """
        results: _Results = dict.fromkeys(stale, ErrorCode.INVALID_UPDATE_VERSION)
        for partition, stored in (yield from self._store.read_to_change(stale)).items():
            if isinstance(stored, Leadership):
                self._context.leaderships[partition] = stored
                own = (self._context.epoch, stored.partition_epoch)
                if stored == wanted[partition]._replace(controller_epoch=own[0], partition_epoch=own[1]):
                    results[partition] = stored
        return results

    def take_announcements(self) -> Steps[None]:
        """Read the leader and ISR data that leaders running old releases wrote themselves, and inform all brokers."""
        names = (yield from self._lookout.names(ISR_CHANGES.path())) or ()
        paths = [child_path(ISR_CHANGES.path(), name) for name in names]
        if not paths:
            return
        partitions: dict[TopicPartition, None] = {}
        for path, data in zip(paths, (yield from self._lookout.read_each(paths)), strict=True):
            try:
                changed = ISR_CHANGE.decode(data.data, path).partitions if isinstance(data, Data) else ()
            except DamagedZnode as error:
                _log.error("ignoring the announcement of a changed ISR: %s", error)
                continue
            known = [TopicPartition(*each) for each in changed]
            partitions.update((each, None) for each in known if self._context.assignment(each).replicas)
        if partitions:
            read = yield from self._store.read(list(partitions))
            for partition, leadership in read.items():
                if isinstance(leadership, Leadership):
                    self._context.leaderships[partition] = leadership
            self._brokers.tell(partitions)
            yield from self._reassignments.complete_if_in_sync(partitions)
        yield from delete_each(self._context.check, paths)

    def _wanted(
        self, request: AlterPartitionRequest, version: int, response: AlterPartitionResponse
    ) -> dict[TopicPartition, Leadership]:
        """Return the requested leadership of each partition; topics with unknown ids get their response here."""
        wanted: dict[TopicPartition, Leadership] = {}
        unknown = []
        for topic in request.topics:
            by_id = version >= _WITH_TOPIC_IDS
            name = self._context.topic_names.get(topic.topic_id) if by_id else topic.topic_name
            if name is None:
                code = ErrorCode.UNKNOWN_TOPIC_ID
                answers = [
                    AlterPartitionResponse.PartitionData(each.partition_index, code) for each in topic.partitions
                ]
                unknown.append(AlterPartitionResponse.TopicData(topic.topic_id, answers))
                continue
            for each in topic.partitions:
                states = each.new_isr_with_epochs
                isr = [state.broker_id for state in states] if version >= _WITH_EPOCHS else each.new_isr
                wanted[TopicPartition(name, each.partition_index)] = Leadership(
                    request.broker_id,
                    tuple(isr),
                    each.leader_epoch,
                    each.leader_recovery_state,
                    each.partition_epoch,
                )
        response.topics = unknown
        return wanted

    def _judged(self, partition: TopicPartition, wanted: Leadership, version: int) -> Leadership | ErrorCode | None:
        """Return the result of a change that is unnecessary or refused, or None if the change is to be stored."""
        current = self._context.leaderships.get(partition)
        if current is None:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if wanted.partition_epoch > current.partition_epoch or wanted.leader_epoch > current.leader_epoch:
            # The leader knows more than this controller, which is probably no longer the controller.
            return ErrorCode.NOT_CONTROLLER
        if wanted.leader_epoch < current.leader_epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        if (
            wanted._replace(partition_epoch=current.partition_epoch, controller_epoch=current.controller_epoch)
            == current
        ):
            return current  # the response to an earlier attempt was lost
        if wanted.partition_epoch < current.partition_epoch:
            return ErrorCode.INVALID_UPDATE_VERSION
        if wanted.recovery_state not in tuple(LeaderRecoveryState):
            return ErrorCode.INVALID_REQUEST
        if wanted.recovery_state == LeaderRecoveryState.RECOVERING and (
            len(wanted.isr) > 1 or current.recovery_state == LeaderRecoveryState.RECOVERED
        ):
            return ErrorCode.INVALID_REQUEST
        if len(set(wanted.isr)) < len(wanted.isr):
            return ErrorCode.INVALID_REQUEST  # as in KRaft controllers; ZooKeeper-based ones store it
        # Apache Kafka checks only that the brokers are alive. This error makes the leader propose a different ISR.
        are_assigned = set(wanted.isr) <= set(self._context.assignment(partition).replicas)
        if not are_assigned or not all(map(self._context.is_live, wanted.isr)):
            return ErrorCode.INELIGIBLE_REPLICA if version >= _WITH_TOPIC_IDS else ErrorCode.OPERATION_NOT_ATTEMPTED
        # In Apache Kafka, only KRaft controllers check the leader; others trust the sender.
        is_leader = wanted.leader == current.leader and wanted.leader in wanted.isr
        return None if is_leader else ErrorCode.INVALID_REQUEST

    def _fill(
        self, response: AlterPartitionResponse, results: Mapping[TopicPartition, Leadership | ErrorCode], version: int
    ) -> None:
        by_topic: dict[str, list[AlterPartitionResponse.PartitionData]] = {}
        for partition, result in results.items():
            answers = by_topic.setdefault(partition.topic, [])
            if isinstance(result, Leadership):
                answers.append(
                    AlterPartitionResponse.PartitionData(
                        partition_index=partition.partition,
                        leader_id=result.leader,
                        leader_epoch=result.leader_epoch,
                        isr=result.isr,
                        leader_recovery_state=result.recovery_state,
                        partition_epoch=result.partition_epoch,
                    )
                )
            else:
                answers.append(AlterPartitionResponse.PartitionData(partition.partition, result))
        topics = list(response.topics)
        for name, answers in by_topic.items():
            if version >= _WITH_TOPIC_IDS:
                topic_id = self._context.topic_ids.get(name, ZERO_UUID)
                topics.append(AlterPartitionResponse.TopicData(topic_id, answers))
            else:
                topics.append(AlterPartitionResponse.TopicData(partitions=answers, topic_name=name))
        response.topics = topics
