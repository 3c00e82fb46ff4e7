"""AddPartitionsToTxn: add partitions to a transaction, or check whether they are already in it.

0: the lowest version. 1: throttle time. 2: PRODUCER_FENCED. 3: flexible. 4: several transactions; used only by brokers.
5: TRANSACTION_ABORTABLE.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from kafkawire.reference_broker.metadata.image import UNKNOWN_PARTITION
from kafkawire.reference_broker.metadata.internal_topics import INTERNAL_TOPICS
from kafkawire.reference_broker.metadata.metadata_cache import MetadataCache
from kafkawire.reference_broker.requests.api_handlers import serves, since
from kafkawire.reference_broker.requests.authorization import require_on_cluster
from kafkawire.reference_broker.requests.call import Call
from kafkawire.reference_broker.requests.delayed_operations import DelayedOperation
from kafkawire.reference_broker.requests.long_requests import complete_by_work
from kafkawire.reference_broker.requests.merged_response import AwaitedParts
from kafkawire.reference_broker.security.authorizer import Authorizer
from kafkawire.reference_broker.transactions.coordinator import TransactionCoordinator
from kafkawire.reference_broker.transactions.transaction import ProducerIdAndEpoch
from kafkawire.reference_broker.work.pieces import Work
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
)
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.enums import AclOperation, ResourceType, TransactionVersion
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.storage.partitions import Partition

__all__ = ["handle"]

Transaction = AddPartitionsToTxnRequest.AddPartitionsToTxnTransaction
Topic = AddPartitionsToTxnRequest.AddPartitionsToTxnTopic
Result = AddPartitionsToTxnResponse.AddPartitionsToTxnResult
TopicResult = AddPartitionsToTxnResponse.AddPartitionsToTxnTopicResult
PartitionResult = AddPartitionsToTxnResponse.AddPartitionsToTxnPartitionResult


class _Outcome(NamedTuple):
    """The result for one transaction's partitions: error codes for some partitions, and one code for all others."""

    codes: Mapping[Partition, ErrorCode]
    otherwise: ErrorCode


_SEVERAL_SINCE = since(AddPartitionsToTxnRequest, "transactions")

#: PRODUCER_FENCED came with KIP-588, which added no field.
_FENCED_SINCE = 2


@serves(ApiKey.ADD_PARTITIONS_TO_TXN)
def handle(
    call: Call,
    request: AddPartitionsToTxnRequest,
    *,
    authorizer: Authorizer,
    metadata: MetadataCache,
    transactions: TransactionCoordinator,
) -> Work[DelayedOperation]:
    """Handle AddPartitionsToTxn; only brokers may send the versions for several transactions.

    Raises:
        BrokerError: CLUSTER_AUTHORIZATION_FAILED.
    """
    if call.version >= _SEVERAL_SINCE:
        require_on_cluster(authorizer, call, AclOperation.CLUSTER_ACTION)
    delayed = DelayedOperation()
    asked = request.transactions
    if call.version < _SEVERAL_SINCE:
        asked = [
            Transaction(
                request.v3_and_below_transactional_id,
                request.v3_and_below_producer_id,
                request.v3_and_below_producer_epoch,
                topics=request.v3_and_below_topics,
            )
        ]

    def complete(outcomes: list[_Outcome]) -> None:
        complete_by_work(call, delayed, _respond(call.version, asked, outcomes))

    parts = AwaitedParts[_Outcome](len(asked), complete)
    for number, transaction in enumerate(asked):
        yield from _add(call, authorizer, metadata, transactions, transaction, partial(parts.put, number))
        yield
    return delayed


def _add(
    call: Call,
    authorizer: Authorizer,
    metadata: MetadataCache,
    transactions: TransactionCoordinator,
    transaction: Transaction,
    put: Callable[[_Outcome], None],
) -> Work[None]:
    """Add either all or none of the partitions of one transaction."""

    def added(outcome: Mapping[Partition, BrokerError] | BrokerError | None) -> None:
        if isinstance(outcome, BrokerError):
            code = outcome.code
            if code is ErrorCode.PRODUCER_FENCED and call.version < _FENCED_SINCE:
                code = ErrorCode.INVALID_PRODUCER_EPOCH
            put(_Outcome({}, code))
        else:
            codes = {partition: error.code for partition, error in (outcome or {}).items()}
            put(_Outcome(codes, ErrorCode.NONE))

    is_client = call.version < _SEVERAL_SINCE
    if is_client and not authorizer.allows(
        call, AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, transaction.transactional_id
    ):
        put(_Outcome({}, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED))
        return
    partitions: dict[Partition, None] = {}
    refused: dict[Partition, ErrorCode] = {}
    for topic in transaction.topics:
        may_write = not is_client or (
            topic.name not in INTERNAL_TOPICS
            and authorizer.allows(call, AclOperation.WRITE, ResourceType.TOPIC, topic.name, count=len(topic.partitions))
        )
        for index in topic.partitions:
            partitions[topic.name, index] = None
            if code := _refusal(metadata, topic.name, index, may_write=may_write):
                refused[topic.name, index] = code
            yield
        yield
    producer = ProducerIdAndEpoch(transaction.producer_id, transaction.producer_epoch)
    if refused:
        put(_Outcome(refused, ErrorCode.OPERATION_NOT_ATTEMPTED))
    elif transaction.verify_only:
        transactions.check_partitions(transaction.transactional_id, producer, partitions, added, call.now_ms)
    else:
        version = TransactionVersion.TV_2 if call.version >= _SEVERAL_SINCE else TransactionVersion.TV_0
        transactions.add_partitions(transaction.transactional_id, producer, partitions, version, added, call.now_ms)


def _refusal(metadata: MetadataCache, name: str, index: int, *, may_write: bool) -> ErrorCode:
    """Return why a partition cannot be in a transaction; only brokers may add partitions of internal topics."""
    topic = metadata.image.topics.get(name)
    if not may_write:
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED
    if topic is None or topic.partition(index) is UNKNOWN_PARTITION:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return ErrorCode.NONE


def _respond(
    version: int, transactions: Sequence[Transaction], outcomes: Sequence[_Outcome]
) -> Work[AddPartitionsToTxnResponse]:
    results = []
    for transaction, (codes, otherwise) in zip(transactions, outcomes, strict=True):
        topics = []
        for topic in transaction.topics:
            partitions: list[PartitionResult] = []
            topics.append(TopicResult(topic.name, partitions))
            for index in topic.partitions:
                partitions.append(PartitionResult(index, codes.get((topic.name, index), otherwise)))
                yield
            yield
        results.append(Result(transaction.transactional_id, topics))
        yield
    if version < _SEVERAL_SINCE:
        return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=results[0].topic_results)
    return AddPartitionsToTxnResponse(results_by_transaction=results)
