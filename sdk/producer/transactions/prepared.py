"""A transaction that outlives its producer: it is stored completely, and another process commits or aborts it.

Any process can do so, since the coordinator looks only at the producer id and its epoch. A later producer with the same
transactional id aborts the transaction, as does the coordinator after `transaction_timeout_ms`.

Source: KIP-98 (EndTxn); the terms are those of KIP-939, which adds transactions without that time limit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from kafkawire.sdk.client.operations import Operations
from kafkawire.sdk.errors import KafkaWireError
from kafkawire.sdk.groups.protocol import GroupMetadata
from kafkawire.sdk.producer.identity import ProducerId
from kafkawire.sdk.producer.transactions import requests
from kafkawire.sdk.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnResponse
from kafkawire.sdk.protocol.messages.end_txn import EndTxnResponse
from kafkawire.sdk.protocol.messages.txn_offset_commit import TxnOffsetCommitResponse
from kafkawire.sdk.protocol.schema import Message
from kafkawire.sdk.protocol.tables.enums import CoordinatorType
from kafkawire.sdk.protocol.tables.enums.transaction_version import TransactionVersion
from kafkawire.sdk.routing.call import Answer, Coordinator
from kafkawire.sdk.routing.partitions import OffsetAndMetadata, TopicPartition
from kafkawire.sdk.transport.driver_interface import Versions

__all__ = ["PreparedTransaction", "add_offsets", "end_prepared"]


class PreparedTransaction(NamedTuple):
    """The data needed to end a transaction; an instance can be pickled.

    Attributes:
        transactional_id: the transactional id of its producer.
        producer: the producer's id and epoch.
        version: the transaction's level of the feature transaction.version.
    """

    transactional_id: str
    producer: ProducerId
    version: int

    @property
    def coordinator(self) -> Coordinator:
        """The coordinator that ends the transaction."""
        return Coordinator(CoordinatorType.TRANSACTION, self.transactional_id)

    @property
    def joins_by_itself(self) -> bool:
        """Whether brokers add groups to the transaction, and raise the epoch at its end."""
        return self.version >= TransactionVersion.TV_2


async def add_offsets(
    operations: Operations,
    prepared: PreparedTransaction,
    group_id: str,
    offsets: Mapping[TopicPartition, OffsetAndMetadata],
) -> None:
    """Commit the offsets of a group without members as part of a transaction.

    Args:
        operations: the operations of a client of any kind.
        prepared: the transaction.
        group_id: the group.
        offsets: the offsets, keyed by partition.

    Raises:
        BrokerError: the transaction is no longer open, or the offsets were rejected.
        RequestTimedOut: there was no response in time; the offsets may have been added.
    """
    name, producer, by_itself = prepared.transactional_id, prepared.producer, prepared.joins_by_itself
    if not by_itself:
        await operations.request(
            prepared.coordinator,
            lambda _: requests.add_offsets(name, producer, group_id),
            AddOffsetsToTxnResponse,
            _raising(requests.add_offsets_error),
        )

    def request(versions: Versions) -> tuple[Message, int]:
        group = GroupMetadata(group_id)
        return requests.commit_offsets(name, producer, group, offsets, versions, joins_by_itself=by_itself)

    await operations.request(
        Coordinator(CoordinatorType.GROUP, group_id),
        request,
        TxnOffsetCommitResponse,
        _raising(requests.commit_offsets_error),
    )


async def end_prepared(operations: Operations, prepared: PreparedTransaction, *, commits: bool) -> None:
    """Commit or abort a transaction; calling this again does nothing.

    Args:
        operations: the operations of a client of any kind.
        prepared: the transaction.
        commits: whether to commit it.

    Raises:
        BrokerError: the transaction is no longer open, because its producer was fenced, it took too long, or it was
            ended in the opposite way.
        RequestTimedOut: the coordinator did not confirm the end in time, but may have ended the transaction.
    """

    def request(versions: Versions) -> tuple[Message, int]:
        name, producer, raises_epoch = prepared.transactional_id, prepared.producer, prepared.joins_by_itself
        return requests.end_transaction(name, producer, versions, commits=commits, raises_epoch=raises_epoch)

    await operations.request(prepared.coordinator, request, EndTxnResponse, _raising(requests.end_transaction_error))


def _raising(error_of: Callable[[Answer], KafkaWireError | None]) -> Callable[[Answer], None]:
    def check(response: Answer) -> None:
        error = error_of(response)
        if error is not None:
            raise error

    return check
