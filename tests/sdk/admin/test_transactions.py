"""Coordinators are asked about transactions, and leaders about producers; each id and partition has its own outcome.

Method: call two scripted in-memory brokers with hand-built responses. `operation_steps.py` has real brokers' answers.
"""

from __future__ import annotations

from typing import Any

import pytest

from kafkawire.sdk.admin.admin import Admin
from kafkawire.sdk.admin.transaction_descriptions import (
    ActiveProducer,
    FencedProducer,
    TransactionDescription,
    TransactionListing,
)
from kafkawire.sdk.errors import BrokerError, RemoteProtocolError
from kafkawire.sdk.protocol import messages
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.routing.partitions import TopicPartition
from tests.sdk.admin.administering import Pair, following

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)

Listed = messages.ListTransactionsResponse
Described = messages.DescribeTransactionsResponse
Producers = messages.DescribeProducersResponse
Marked = messages.WriteTxnMarkersResponse


def test_every_broker_lists_its_transactions() -> None:
    pair = Pair()
    states = {1: [Listed.TransactionState("b", 7, "Ongoing")], 2: [Listed.TransactionState("a", 8, "Empty")]}
    loading = [Listed(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS), None]

    def responder(node_id: int, request: Any) -> Listed:
        return (following(loading) if node_id == 2 else None) or Listed(transaction_states=states[node_id])

    pair.answer(ApiKey.LIST_TRANSACTIONS, responder)

    async def test(admin: Admin) -> None:
        listed = await admin.list_transactions(states=["Ongoing"], producer_ids=[7], longer_than_ms=5, pattern="a|b")
        assert listed == [TransactionListing("a", 8, "Empty", 2), TransactionListing("b", 7, "Ongoing", 1)]
        await admin.list_transactions()

    pair.administering(test)
    given, nothing = pair.asked(ApiKey.LIST_TRANSACTIONS)[1]
    wanted = (("Ongoing",), (7,), 5, "a|b")
    assert (given.state_filters, given.producer_id_filters, given.duration_filter) == wanted[:3]
    assert given.transactional_id_pattern == wanted[3]
    assert (nothing.state_filters, nothing.producer_id_filters, nothing.duration_filter) == ((), (), -1)
    assert nothing.transactional_id_pattern is None


def test_a_broker_that_does_not_list_its_transactions() -> None:
    pair = Pair()

    def responder(node_id: int, request: Any) -> Listed:
        if node_id == 2:
            return Listed(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE)
        return Listed(transaction_states=[Listed.TransactionState("a", 8, "Empty")])

    pair.answer(ApiKey.LIST_TRANSACTIONS, responder)

    async def test(admin: Admin) -> None:
        with pytest.raises(BrokerError, match=r"^COORDINATOR_NOT_AVAILABLE: transactions of node 2$") as caught:
            await admin.list_transactions()
        assert caught.value.results is not None
        assert caught.value.results.values == {1: [TransactionListing("a", 8, "Empty", 1)]}

    pair.administering(test)
    assert len(pair.asked(ApiKey.LIST_TRANSACTIONS)[2]) == 1, "the coordinator is shutting down"


def test_transactions_are_described() -> None:
    pair = Pair()
    pair.coordinators = {"b": 2}
    states = {
        "a": Described.TransactionState(0, "a", "Ongoing", 60_000, 1_000, 7, 3, [Described.TopicData("t", [1, 0])]),
        "b": Described.TransactionState(0, "b", "Empty", 60_000, -1, 8, 0),
        "c": Described.TransactionState(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND, "c"),
    }
    pair.answer(
        ApiKey.DESCRIBE_TRANSACTIONS,
        lambda node_id, request: Described(
            transaction_states=[states[each] for each in request.transactional_ids if each in states]
        ),
    )

    async def test(admin: Admin) -> None:
        results = await admin.describe_transactions("d", "c", "b", "a")
        assert results.values == {
            "b": TransactionDescription("b", 2, "Empty", 8, 0, 60_000, None, ()),
            "a": TransactionDescription("a", 1, "Ongoing", 7, 3, 60_000, 1_000, (T1, T0)),
        }
        assert {key: str(error) for key, error in results.errors.items()} == {
            "d": "the response to DescribeTransactions lacks transactional id d",
            "c": "TRANSACTIONAL_ID_NOT_FOUND: transactional id c",
        }

    pair.administering(test)


def producers(node_id: int, request: Any) -> Producers:
    """Answer DescribeProducers with two producers for each partition, whose id is the node's."""
    states = [Producers.ProducerState(node_id, 3, 4, 5, -1, -1), Producers.ProducerState(node_id, 3, 4, 5, 6, 7)]
    return Producers(
        topics=[
            Producers.TopicResponse(
                topic.name, [Producers.PartitionResponse(number, 0, None, states) for number in topic.partition_indexes]
            )
            for topic in request.topics
        ]
    )


def test_producers() -> None:
    pair = Pair()
    pair.leaders = {T0: 1, T1: 2}
    pair.answer(ApiKey.DESCRIBE_PRODUCERS, producers)

    async def test(admin: Admin) -> None:
        found = (await admin.describe_producers(T0, T1)).all()
        assert found[T0] == (ActiveProducer(1, 3, 4, 5, None, None), ActiveProducer(1, 3, 4, 5, 6, 7))
        assert {partition: each[0].producer_id for partition, each in found.items()} == {T0: 1, T1: 2}
        chosen = (await admin.describe_producers(T0, T1, node_id=2)).all()
        assert {partition: each[0].producer_id for partition, each in chosen.items()} == {T0: 2, T1: 2}

    pair.administering(test)


@pytest.mark.parametrize("node_id", [None, 1])
def test_a_broker_that_does_not_have_the_partition(node_id: int | None) -> None:
    """If the application has not chosen the broker, the leader is looked up again."""
    pair = Pair()
    pair.leaders = {T0: [1, 2]}

    def responder(node_id: int, request: Any) -> Producers:
        response = producers(node_id, request)
        if node_id == 1:
            response.topics[0].partitions[0].error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER
            response.topics[0].partitions[0].error_message = "no"
        return response

    pair.answer(ApiKey.DESCRIBE_PRODUCERS, responder)

    async def test(admin: Admin) -> None:
        results = await admin.describe_producers(T0, node_id=node_id)
        if node_id is None:
            assert results.all()[T0][0].producer_id == 2
        else:
            assert str(results.errors[T0]) == "NOT_LEADER_OR_FOLLOWER: producers of t-0: no"

    pair.administering(test)


def marked(code: int, producer_id: int = 7, number: int = 0) -> Marked:
    partition = Marked.WritableTxnMarkerPartitionResult(number, code)
    topic = Marked.WritableTxnMarkerTopicResult("t", [partition])
    return Marked(markers=[Marked.WritableTxnMarkerResult(producer_id, [topic])])


def test_a_transaction_is_aborted_in_one_partition() -> None:
    pair = Pair()
    pair.leaders = {T0: [1, 2]}
    script = [marked(ErrorCode.NOT_LEADER_OR_FOLLOWER), marked(0), marked(0), marked(ErrorCode.INVALID_PRODUCER_EPOCH)]
    pair.answer(ApiKey.WRITE_TXN_MARKERS, lambda node_id, request: following(script))

    async def test(admin: Admin) -> None:
        await admin.abort_transaction(T0, producer_id=7, producer_epoch=3, coordinator_epoch=5)
        await admin.abort_transaction(T0, producer_id=7, producer_epoch=3)
        text = "^INVALID_PRODUCER_EPOCH: abort of the transaction of producer 7 in t-0$"
        with pytest.raises(BrokerError, match=text):
            await admin.abort_transaction(T0, producer_id=7, producer_epoch=3)
        script[:] = [marked(0, producer_id=8)]
        with pytest.raises(RemoteProtocolError, match="WriteTxnMarkers lacks partition t-0 of producer 7"):
            await admin.abort_transaction(T0, producer_id=7, producer_epoch=3)

    pair.administering(test)
    asked = pair.asked(ApiKey.WRITE_TXN_MARKERS)
    assert len(asked[1]) == 1
    (marker,) = asked[1][0].markers
    assert (marker.producer_id, marker.producer_epoch, marker.coordinator_epoch) == (7, 3, 5)
    assert marker.transaction_result is False
    assert asked[2][1].markers[0].coordinator_epoch == 0


def test_producers_are_fenced() -> None:
    pair = Pair()
    pair.coordinators = {"b": 2}
    codes = {"a": [ErrorCode.CONCURRENT_TRANSACTIONS, 0], "b": 0, "c": ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED}
    pair.answer(
        ApiKey.INIT_PRODUCER_ID,
        lambda node_id, request: messages.InitProducerIdResponse(
            error_code=following(codes[request.transactional_id]), producer_id=node_id, producer_epoch=4
        ),
    )

    async def test(admin: Admin) -> None:
        results = await admin.fence_producers("a", "b", "c")
        assert results.values == {"a": FencedProducer(1, 4), "b": FencedProducer(2, 4)}
        assert str(results.errors["c"]) == "TRANSACTIONAL_ID_AUTHORIZATION_FAILED: transactional id c"
        await admin.force_terminate_transaction("a")
        with pytest.raises(BrokerError, match="TRANSACTIONAL_ID_AUTHORIZATION_FAILED"):
            await admin.force_terminate_transaction("c")

    pair.administering(test)
