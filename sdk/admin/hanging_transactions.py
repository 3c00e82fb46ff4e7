"""Find transactions that hang: they are open in a partition, but their coordinator does not know them.

A transaction is a candidate once its producer has been silent for longer than any transaction may take. It hangs unless
a coordinator has a transaction of this producer id with this partition.

Source: Apache Kafka, `TransactionsCommand` (`kafka-transactions.sh find-hanging`); KIP-664.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from kafkawire.sdk.admin.descriptions import ItemResults
from kafkawire.sdk.admin.transaction_descriptions import ActiveProducer, HangingTransaction
from kafkawire.sdk.admin.transactions import describe_producers, describe_transactions, list_transactions
from kafkawire.sdk.client.operations import NO_SUCH_TOPIC, Operations
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.routing.partitions import TopicPartition

__all__ = ["find_hanging_transactions"]

#: The maximum number of partitions that brokers are asked about at a time, which bounds the size of their responses.
_PARTITIONS_MAX = 500


async def find_hanging_transactions(
    operations: Operations,
    topics: Collection[str] | None,
    *,
    node_id: int | None,
    silent_for_ms: int,
    now_ms: int,
) -> list[HangingTransaction]:
    """Return the transactions that hang; see `Admin.find_hanging_transactions`.

    Args:
        operations: sends the requests.
        topics: the topics to search; None for all topics, including internal ones.
        node_id: the broker to ask about the partitions of which it has a replica; None to ask each leader.
        silent_for_ms: only transactions whose producer has not written for longer than this are returned.
        now_ms: the current time, in ms since the epoch.
    """
    described = await operations.describe(topics, final=NO_SUCH_TOPIC)
    partitions = [
        TopicPartition(name, number)
        for name, topic in described.items()
        for number, partition in topic.partitions.items()
        if node_id is None or node_id in partition.replicas
    ]
    candidates: list[HangingTransaction] = []
    for start in range(0, len(partitions), _PARTITIONS_MAX):
        some = partitions[start : start + _PARTITIONS_MAX]
        results: ItemResults[TopicPartition, tuple[ActiveProducer, ...]]
        results = await describe_producers(operations, some, node_id)
        candidates += [
            HangingTransaction(partition, producer)
            for partition, producers in results.all().items()
            for producer in producers
            if producer.transaction_start_offset is not None and now_ms - producer.last_timestamp_ms > silent_for_ms
        ]
    known = await _known(operations, sorted({each.producer.producer_id for each in candidates}))
    return [each for each in candidates if each.partition not in known.get(each.producer.producer_id, ())]


async def _known(operations: Operations, producer_ids: Sequence[int]) -> dict[int, tuple[TopicPartition, ...]]:
    """Return the partitions that are in the transactions of producer ids, according to their coordinators."""
    if not producer_ids:
        return {}
    listed = await list_transactions(
        operations, states=(), producer_ids=producer_ids, longer_than_ms=None, pattern=None
    )
    ids = [each.transactional_id for listings in listed.all().values() for each in listings]
    described = await describe_transactions(operations, ids)
    gone = {
        transactional_id
        for transactional_id, error in described.errors.items()
        if isinstance(error, BrokerError) and error.code is ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
    }
    described._replace(errors={key: error for key, error in described.errors.items() if key not in gone}).all()
    return {each.producer_id: each.partitions for each in described.values.values()}
