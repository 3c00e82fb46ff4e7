"""Partition leadership as stored in the registry: reads, initial writes and conditional writes.

Each write is a separate transaction, which also checks the version of `/controller_epoch`. A node's version is the
partition epoch; a write succeeds only if the version is still the one that was read.

Source: `KafkaZkClient.updateLeaderAndIsr`, `createTopicPartitionStatesRaw` in Apache Kafka.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from kafkawire.reference_broker.cluster.controller.context import Context, Leadership
from kafkawire.sdk.errors import EncodeError, KafkaWireError
from kafkawire.sdk.protocol.tables.znodes import PARTITION, PARTITION_STATE, PARTITIONS, PartitionState
from kafkawire.sdk.registry.acls import OPEN_ACL, Acl
from kafkawire.sdk.registry.content import DamagedZnode
from kafkawire.sdk.registry.registry import (
    SESSION_ENDED,
    Change,
    Create,
    Data,
    GetData,
    Outcome,
    RegistryCode,
    RegistryError,
    SetData,
    Stat,
)
from kafkawire.sdk.registry.steps import Steps, checked, found
from kafkawire.sdk.routing.partitions import TopicPartition

__all__ = ["FirstWrites", "LeadershipStore", "StateChangeFailed", "StoredLeadership", "Writes"]

_log = logging.getLogger("kafkawire.broker")


class StateChangeFailed(KafkaWireError):
    """A partition or replica could not change its state; other partitions are not affected."""


class StoredLeadership(NamedTuple):
    """Leadership as stored in the registry.

    Attributes:
        leadership: the leadership.
        zxid: the transaction that stored it, which can be compared with the epochs of brokers.
    """

    leadership: Leadership
    zxid: int


class Writes(NamedTuple):
    """The results of conditional writes.

    Attributes:
        done: the leadership now stored for each partition, including the new partition epoch.
        failed: the error from each write that failed.
        stale: partitions that another program wrote in the meantime, so they must be read again.
    """

    done: dict[TopicPartition, Leadership]
    failed: dict[TopicPartition, KafkaWireError]
    stale: list[TopicPartition]


class FirstWrites(NamedTuple):
    """The results of initial writes.

    Attributes:
        done: the leadership now stored for each partition.
        existing: leadership that was already stored, and is left unchanged.
        failed: why writes failed.
    """

    done: dict[TopicPartition, Leadership]
    existing: dict[TopicPartition, Leadership]
    failed: dict[TopicPartition, KafkaWireError]


class LeadershipStore:
    """Reads and writes partition leadership as the controller of a given epoch.

    Args:
        context: holds the epoch, and the version of its node.
        acl: the access control list for created nodes.
    """

    def __init__(self, context: Context, acl: tuple[Acl, ...] = OPEN_ACL) -> None:
        self._context = context
        self._acl = acl

    def read(self, partitions: Sequence[TopicPartition]) -> Steps[dict[TopicPartition, Leadership | KafkaWireError]]:
        """Read the leadership of partitions.

        Returns:
            For each partition, the stored leadership, or the reason why it cannot be used; partitions without a node
            are left out.

        Raises:
            RegistryError: the session has ended.
        """
        read = yield from self.read_stored(partitions)
        return {
            partition: each.leadership if isinstance(each, StoredLeadership) else each
            for partition, each in read.items()
        }

    def read_stored(
        self, partitions: Sequence[TopicPartition]
    ) -> Steps[dict[TopicPartition, StoredLeadership | KafkaWireError]]:
        """Do the same as `read`, but also return which transactions stored the leadership."""
        outcomes = yield [GetData(PARTITION_STATE.path(*partition)) for partition in partitions]
        read: dict[TopicPartition, StoredLeadership | KafkaWireError] = {}
        for partition, outcome in zip(partitions, outcomes, strict=True):
            try:
                stored = _stored(partition, outcome)
            except DamagedZnode as error:
                _log.error("the leader and ISR of %s cannot be read: %s", partition, error)
                read[partition] = error
            except RegistryError as error:
                if error.code in SESSION_ENDED:
                    raise
                read[partition] = error
            else:
                if stored is not None:
                    read[partition] = stored
        return read

    def read_to_change(
        self, partitions: Sequence[TopicPartition]
    ) -> Steps[dict[TopicPartition, Leadership | KafkaWireError]]:
        """Read the leadership of partitions that this controller is about to write.

        Returns:
            As for `read`, but leadership written by a later controller is returned as an error.
        """
        read = yield from self.read(partitions)
        for partition, leadership in read.items():
            if isinstance(leadership, Leadership) and leadership.controller_epoch > self._context.epoch:
                read[partition] = StateChangeFailed(
                    f"the leader of {partition} was written by a controller with epoch {leadership.controller_epoch}; "
                    f"this controller has epoch {self._context.epoch}"
                )
        return read

    def write(self, leaderships: Mapping[TopicPartition, Leadership]) -> Steps[Writes]:
        """Replace the leadership of partitions.

        Args:
            leaderships: the leadership to store for each partition, with the partition epoch that was read.

        Raises:
            CheckFailed: another controller has been elected.
            RegistryError: the session has ended.
        """
        writes = Writes({}, {}, [])
        own, contents = self._encoded(leaderships, writes.failed)
        changes = [
            SetData(PARTITION_STATE.path(*partition), contents[partition], leadership.partition_epoch)
            for partition, leadership in own.items()
        ]
        results = yield from checked(self._context.check, changes)
        for (partition, leadership), result in zip(own.items(), results, strict=True):
            if isinstance(result, Stat):
                writes.done[partition] = leadership._replace(partition_epoch=result.version)
            elif isinstance(result, RegistryError) and result.code is RegistryCode.BAD_VERSION:
                writes.stale.append(partition)
            else:
                writes.failed[partition] = _error(result)
        return writes

    def create(self, leaderships: Mapping[TopicPartition, Leadership]) -> Steps[FirstWrites]:
        """Store the initial leadership of partitions, and create the parents of the nodes.

        If a node with the same content exists, an earlier attempt whose outcome was lost created it, and the write is
        treated as successful.

        Args:
            leaderships: the leadership to store for each partition.

        Raises:
            CheckFailed: another controller has been elected.
            RegistryError: the session has ended.
        """
        writes = FirstWrites({}, {}, {})
        own, contents = self._encoded(leaderships, writes.failed)
        parents = [*dict.fromkeys(PARTITIONS.path(partition.topic) for partition in own)]
        parents += [PARTITION.path(*partition) for partition in own]
        changes: list[Change] = [Create(path, acl=self._acl) for path in parents]
        changes += [Create(PARTITION_STATE.path(*each), content, acl=self._acl) for each, content in contents.items()]
        results = yield from checked(self._context.check, changes)
        for partition, result in zip(own, results[len(parents) :], strict=True):
            if isinstance(result, RegistryError):
                writes.failed[partition] = result
            else:
                writes.done[partition] = own[partition]
        yield from self._adopt_existing(own, writes)
        return writes

    def _adopt_existing(self, own: Mapping[TopicPartition, Leadership], writes: FirstWrites) -> Steps[None]:
        exist = [
            partition
            for partition, error in writes.failed.items()
            if isinstance(error, RegistryError) and error.code is RegistryCode.NODE_EXISTS
        ]
        if not exist:
            return
        for partition, stored in (yield from self.read_to_change(exist)).items():
            if isinstance(stored, KafkaWireError):
                writes.failed[partition] = stored
                continue
            del writes.failed[partition]
            (writes.done if stored == own[partition] else writes.existing)[partition] = stored

    def _encoded(
        self, leaderships: Mapping[TopicPartition, Leadership], failed: dict[TopicPartition, KafkaWireError]
    ) -> tuple[dict[TopicPartition, Leadership], dict[TopicPartition, bytes]]:
        """Return leadership in this controller's epoch, and its encoding, leaving out any that cannot be encoded.

        A leader epoch written by another program may be too large to be incremented.
        """
        own: dict[TopicPartition, Leadership] = {}
        contents: dict[TopicPartition, bytes] = {}
        for partition, leadership in leaderships.items():
            in_epoch = leadership._replace(controller_epoch=self._context.epoch)
            try:
                contents[partition] = _content(in_epoch)
            except EncodeError as error:
                failed[partition] = error
            else:
                own[partition] = in_epoch
        return own, contents


def _stored(partition: TopicPartition, outcome: Outcome) -> StoredLeadership | None:
    data = found(outcome, Data)
    if data is None:
        return None
    path = PARTITION_STATE.path(*partition)
    state = PARTITION_STATE.decode(data.data, path)
    leadership = Leadership(
        state.leader,
        tuple(dict.fromkeys(state.isr)),  # a broker counted twice could satisfy min.insync.replicas alone
        state.leader_epoch,
        state.leader_recovery_state,
        data.stat.version,
        state.controller_epoch,
    )
    return StoredLeadership(leadership, data.stat.mzxid)


def _content(leadership: Leadership) -> bytes:
    return PARTITION_STATE.encode(
        PartitionState(
            leadership.controller_epoch,
            leadership.leader,
            leadership.leader_epoch,
            leadership.isr,
            leadership.recovery_state,
        )
    )


def _error(result: object) -> KafkaWireError:
    if isinstance(result, KafkaWireError):
        return result
    raise TypeError(f"unexpected result of a write: {type(result).__name__}")
