"""AddPartitionsToTxn: add partitions to a transaction, or find out whether they are in it.

0: the lowest version. 1: throttle time. 2: PRODUCER_FENCED. 3: flexible. 4: several transactions, sent by brokers only.
5: TRANSACTION_ABORTABLE.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kafkawire.reference_broker.apis.registry import Call, serves, since
from kafkawire.reference_broker.delayed_operations import DelayedOperation
from kafkawire.reference_broker.gathering import Gathering
from kafkawire.reference_broker.internal_topics import INTERNAL_TOPICS
from kafkawire.reference_broker.log.file_names import Partition
from kafkawire.reference_broker.transactions.transaction import ProducerIdAndEpoch
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
)
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.enums import TransactionVersion
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode

__all__ = ["handle"]

Transaction = AddPartitionsToTxnRequest.AddPartitionsToTxnTransaction
Topic = AddPartitionsToTxnRequest.AddPartitionsToTxnTopic
Result = AddPartitionsToTxnResponse.AddPartitionsToTxnResult
TopicResult = AddPartitionsToTxnResponse.AddPartitionsToTxnTopicResult
PartitionResult = AddPartitionsToTxnResponse.AddPartitionsToTxnPartitionResult

#: A code for each partition, NONE for those that are missing.
Codes = Mapping[Partition, ErrorCode]

_SEVERAL_SINCE = since(AddPartitionsToTxnRequest, "transactions")

#: PRODUCER_FENCED came with KIP-588, which added no field.
_FENCED_SINCE = 2


@serves(ApiKey.ADD_PARTITIONS_TO_TXN)
def handle(call: Call, request: AddPartitionsToTxnRequest) -> DelayedOperation:
    """Handle AddPartitionsToTxn."""
    delayed = DelayedOperation()
    transactions = request.transactions
    if call.version < _SEVERAL_SINCE:
        transactions = [
            Transaction(
                request.v3_and_below_transactional_id,
                request.v3_and_below_producer_id,
                request.v3_and_below_producer_epoch,
                topics=request.v3_and_below_topics,
            )
        ]

    def complete(results: list[Result]) -> None:
        if call.version < _SEVERAL_SINCE:
            response = AddPartitionsToTxnResponse(results_by_topic_v3_and_below=results[0].topic_results)
        else:
            response = AddPartitionsToTxnResponse(results_by_transaction=results)
        delayed.complete(response)

    parts = Gathering[Result](len(transactions), complete)
    for number, transaction in enumerate(transactions):
        _add(call, transaction, number, parts)
    return delayed


def _add(call: Call, transaction: Transaction, number: int, parts: Gathering[Result]) -> None:
    """Add the partitions of one transaction, all or none."""
    partitions = [(topic.name, index) for topic in transaction.topics for index in topic.partitions]

    def finish(codes: Codes) -> None:
        parts.put(number, Result(transaction.transactional_id, _topics(transaction.topics, codes)))

    def added(outcome: Mapping[Partition, BrokerError] | BrokerError | None) -> None:
        if isinstance(outcome, BrokerError):
            code = outcome.code
            if code is ErrorCode.PRODUCER_FENCED and call.version < _FENCED_SINCE:
                code = ErrorCode.INVALID_PRODUCER_EPOCH
            finish(dict.fromkeys(partitions, code))
        else:
            finish({partition: error.code for partition, error in (outcome or {}).items()})

    refused = _refused(call, partitions)
    producer = ProducerIdAndEpoch(transaction.producer_id, transaction.producer_epoch)
    coordinator = call.core.transactions
    if refused:
        finish({partition: refused.get(partition, ErrorCode.OPERATION_NOT_ATTEMPTED) for partition in partitions})
    elif transaction.verify_only:
        coordinator.check_partitions(transaction.transactional_id, producer, partitions, added, call.now_ms)
    else:
        version = TransactionVersion.TV_2 if call.version >= _SEVERAL_SINCE else TransactionVersion.TV_0
        coordinator.add_partitions(transaction.transactional_id, producer, partitions, version, added, call.now_ms)


def _refused(call: Call, partitions: Sequence[Partition]) -> dict[Partition, ErrorCode]:
    """Return the partitions that cannot be in a transaction; only brokers add those of internal topics."""
    topics = call.core.directory.topics
    refused = {}
    for name, index in partitions:
        topic = topics.get(name)
        if call.version < _SEVERAL_SINCE and name in INTERNAL_TOPICS:
            refused[name, index] = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        elif topic is None or not 0 <= index < len(topic.logs):
            refused[name, index] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return refused


def _topics(topics: Sequence[Topic], codes: Codes) -> list[TopicResult]:
    return [
        TopicResult(
            topic.name,
            [PartitionResult(index, codes.get((topic.name, index), ErrorCode.NONE)) for index in topic.partitions],
        )
        for topic in topics
    ]
