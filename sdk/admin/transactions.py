"""Transactions and producers: list, describe and end them.

Coordinators know the transactions, and the leaders of partitions know which producers have written to them. A
transaction that only a leader knows is hanging (KIP-664): its coordinator will never end it, and consumers that read
committed records cannot get past it.

Source: Apache Kafka, `ListTransactionsHandler`, `DescribeTransactionsHandler`, `DescribeProducersHandler`,
`AbortTransactionHandler`, `FenceProducersHandler`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from kafkawire.sdk.admin.descriptions import ItemResults
from kafkawire.sdk.admin.item_batches import Places, answered, in_batches, one_by_one
from kafkawire.sdk.admin.places import Coordinators, Leaders, Nodes
from kafkawire.sdk.admin.releases import versioned
from kafkawire.sdk.admin.transaction_descriptions import (
    ActiveProducer,
    FencedProducer,
    TransactionDescription,
    TransactionListing,
)
from kafkawire.sdk.client.operations import Operations
from kafkawire.sdk.errors import BrokerError, KafkaWireError
from kafkawire.sdk.protocol import messages
from kafkawire.sdk.protocol.tables import enums
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.routing.call import Node
from kafkawire.sdk.routing.partitions import TopicPartition
from kafkawire.sdk.routing.requests import by_topic, check, error_text, lacking
from kafkawire.sdk.transport.driver_interface import Versions

__all__ = [
    "STATES",
    "abort_transaction",
    "describe_producers",
    "describe_transactions",
    "fence_producers",
    "list_transactions",
]

#: All states of transactional ids, in the words of the brokers.
STATES: Final = tuple(state.name.title().replace("_", "") for state in enums.TransactionState)

#: Retriable for other clients, but final here: the coordinator is shutting down, and no other has its transactions yet.
_SHUTTING_DOWN = frozenset({ErrorCode.COORDINATOR_NOT_AVAILABLE})

#: Retriable for other clients, but final if the application has chosen the broker.
_NOT_HERE = frozenset({ErrorCode.NOT_LEADER_OR_FOLLOWER})


async def list_transactions(
    operations: Operations,
    *,
    states: Sequence[str],
    producer_ids: Sequence[int],
    longer_than_ms: int | None,
    pattern: str | None,
) -> ItemResults[int, list[TransactionListing]]:
    """Return the transactional ids of each broker, keyed by node id; see `Admin.list_transactions`."""
    kind = messages.ListTransactionsRequest
    duration = kind().duration_filter if longer_than_ms is None else longer_than_ms

    def request(versions: Versions) -> tuple[messages.ListTransactionsRequest, int]:
        asked = kind(states, producer_ids, duration, pattern or None)
        if longer_than_ms is not None:
            versioned(asked, "duration_filter")(versions)
        return versioned(asked, "transactional_id_pattern" if pattern else None)(versions)

    async def of_node(node_id: int, _: int, deadline_ms: int) -> list[TransactionListing]:
        response = await operations.request(
            Node(node_id), request, messages.ListTransactionsResponse, deadline_ms=deadline_ms, retries=False
        )
        check(response.error_code, f"transactions of node {node_id}")
        return [
            TransactionListing(each.transactional_id, each.producer_id, each.transaction_state, node_id)
            for each in response.transaction_states
        ]

    await operations.describe(())
    nodes = list(operations.router.metadata.brokers)
    return await in_batches(
        operations, nodes, Nodes(lambda node_id: node_id), one_by_one(of_node), final=_SHUTTING_DOWN
    )


async def describe_transactions(
    operations: Operations, transactional_ids: Iterable[str]
) -> ItemResults[str, TransactionDescription]:
    """Return the state of transactional ids; see `Admin.describe_transactions`."""

    async def describe(
        node_id: int, batch: list[str], deadline_ms: int
    ) -> dict[str, TransactionDescription | KafkaWireError]:
        response = await operations.request(
            Node(node_id),
            versioned(messages.DescribeTransactionsRequest(batch)),
            messages.DescribeTransactionsResponse,
            deadline_ms=deadline_ms,
            retries=False,
        )
        found: dict[str, TransactionDescription | KafkaWireError] = {}
        for each in response.transaction_states:
            transactional_id = each.transactional_id
            if each.error_code != ErrorCode.NONE:
                found[transactional_id] = BrokerError(each.error_code, f"transactional id {transactional_id}")
                continue
            found[transactional_id] = TransactionDescription(
                transactional_id,
                node_id,
                each.transaction_state,
                each.producer_id,
                each.producer_epoch,
                each.transaction_timeout_ms,
                None if each.transaction_start_time_ms < 0 else each.transaction_start_time_ms,
                tuple(TopicPartition(topic.topic, number) for topic in each.topics for number in topic.partitions),
            )
        return answered(response, found, batch, "transactional id")

    places = Coordinators(operations, enums.CoordinatorType.TRANSACTION)
    return await in_batches(operations, transactional_ids, places, describe)


async def describe_producers(
    operations: Operations, partitions: Iterable[TopicPartition], node_id: int | None
) -> ItemResults[TopicPartition, tuple[ActiveProducer, ...]]:
    """Return the producers of partitions; see `Admin.describe_producers`."""
    kind = messages.DescribeProducersRequest

    async def describe(
        node_id: int, batch: list[TopicPartition], deadline_ms: int
    ) -> dict[TopicPartition, tuple[ActiveProducer, ...] | KafkaWireError]:
        topics = [kind.TopicRequest(topic, numbers) for topic, numbers in by_topic(batch).items()]
        response = await operations.request(
            Node(node_id),
            versioned(kind(topics)),
            messages.DescribeProducersResponse,
            deadline_ms=deadline_ms,
            retries=False,
        )
        found: dict[TopicPartition, tuple[ActiveProducer, ...] | KafkaWireError] = {}
        for topic in response.topics:
            for each in topic.partitions:
                partition = TopicPartition(topic.name, each.partition_index)
                if each.error_code == ErrorCode.NONE:
                    found[partition] = tuple(map(_producer, each.active_producers))
                else:
                    text = error_text(f"producers of {partition}", each.error_message)
                    found[partition] = BrokerError(each.error_code, text)
        return answered(response, found, batch, "partition")

    places: Places[TopicPartition] = Leaders(operations)
    if node_id is not None:
        chosen = node_id
        places = Nodes(lambda partition: chosen, operations)
    return await in_batches(operations, partitions, places, describe, final=() if node_id is None else _NOT_HERE)


async def abort_transaction(
    operations: Operations,
    partition: TopicPartition,
    *,
    producer_id: int,
    producer_epoch: int,
    coordinator_epoch: int,
) -> None:
    """Write an abort marker into a partition; see `Admin.abort_transaction`."""
    kind = messages.WriteTxnMarkersRequest
    topics = [kind.WritableTxnMarkerTopic(partition.topic, [partition.partition])]
    marker = kind.WritableTxnMarker(
        producer_id, producer_epoch, bool(enums.TransactionResult.ABORT), topics, coordinator_epoch
    )

    async def abort(node_id: int, item: TopicPartition, deadline_ms: int) -> None:
        response = await operations.request(
            Node(node_id),
            versioned(kind([marker])),
            messages.WriteTxnMarkersResponse,
            deadline_ms=deadline_ms,
            retries=False,
        )
        codes = {
            (each.producer_id, topic.name, result.partition_index): result.error_code
            for each in response.markers
            for topic in each.topics
            for result in topic.partitions
        }
        code = codes.get((producer_id, partition.topic, partition.partition))
        if code is None:
            raise lacking(response, f"partition {partition} of producer {producer_id}")
        check(code, f"abort of the transaction of producer {producer_id} in {partition}")

    (await in_batches(operations, [partition], Leaders(operations), one_by_one(abort))).all()


async def fence_producers(
    operations: Operations, transactional_ids: Iterable[str], *, timeout_ms: int
) -> ItemResults[str, FencedProducer]:
    """Fence the producers of transactional ids; see `Admin.fence_producers`."""

    async def fence(node_id: int, transactional_id: str, deadline_ms: int) -> FencedProducer:
        response = await operations.request(
            Node(node_id),
            versioned(messages.InitProducerIdRequest(transactional_id, timeout_ms)),
            messages.InitProducerIdResponse,
            deadline_ms=deadline_ms,
            retries=False,
        )
        check(response.error_code, f"transactional id {transactional_id}")
        return FencedProducer(response.producer_id, response.producer_epoch)

    places = Coordinators(operations, enums.CoordinatorType.TRANSACTION)
    return await in_batches(operations, transactional_ids, places, one_by_one(fence))


def _producer(state: messages.DescribeProducersResponse.ProducerState) -> ActiveProducer:
    return ActiveProducer(
        state.producer_id,
        state.producer_epoch,
        state.last_sequence,
        state.last_timestamp,
        None if state.coordinator_epoch < 0 else state.coordinator_epoch,
        None if state.current_txn_start_offset < 0 else state.current_txn_start_offset,
    )
