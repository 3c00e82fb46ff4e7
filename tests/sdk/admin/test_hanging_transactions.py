"""A transaction hangs if its producer has been silent for long, and no coordinator has it with this partition.

Method: call two scripted in-memory brokers with hand-built responses, and the reference broker with an open
transaction.
"""

from __future__ import annotations

from typing import Any

import pytest

from kafkawire import sync
from kafkawire.sdk import clock
from kafkawire.sdk.admin import hanging_transactions
from kafkawire.sdk.admin.admin import Admin
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol import messages
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.routing.partitions import TopicPartition
from kafkawire.testing import Broker
from tests.sdk.admin.administering import Pair

NOW_MS = 10_000_000
LONG_AGO_MS = NOW_MS - 900_001

T = [TopicPartition("t", number) for number in range(6)]

Producers = messages.DescribeProducersResponse
Listed = messages.ListTransactionsResponse
Described = messages.DescribeTransactionsResponse

#: The producers of each partition: id, timestamp of the last batch, first offset of the open transaction.
STATES = {
    T[0]: [(1, LONG_AGO_MS, 5), (2, LONG_AGO_MS, -1)],  # unknown to all coordinators; without a transaction
    T[1]: [(3, LONG_AGO_MS, 6)],  # known, with this partition
    T[2]: [(3, LONG_AGO_MS, 7)],  # known, without this partition
    T[3]: [(4, NOW_MS - 900_000, 8)],  # not silent for long enough
    T[4]: [(5, LONG_AGO_MS, 9)],  # listed, but gone since
    T[5]: [(6, LONG_AGO_MS, 9)],  # known to the other coordinator
}


@pytest.fixture
def pair(monkeypatch: pytest.MonkeyPatch) -> Pair:
    """Two brokers that lead three partitions each, at a fixed time."""
    monkeypatch.setattr(clock, "now_ms", lambda: NOW_MS)
    brokers = Pair()
    brokers.leaders = {partition: partition.partition % 2 + 1 for partition in T}
    brokers.coordinators = {"six": 2}
    listings = {1: [("three", 3), ("five", 5), ("other", 99)], 2: [("six", 6)]}
    described = {
        "three": (0, 3, [T[1]]),
        "five": (ErrorCode.TRANSACTIONAL_ID_NOT_FOUND, -1, []),
        "other": (0, 99, []),
        "six": (0, 6, [T[5]]),
    }

    def producers(node_id: int, request: Any) -> Producers:
        (topic,) = request.topics
        responses = [
            Producers.PartitionResponse(
                number,
                active_producers=[
                    Producers.ProducerState(producer, 0, 0, last_ms, 0, start)
                    for producer, last_ms, start in STATES[T[number]]
                ],
            )
            for number in topic.partition_indexes
        ]
        return Producers(topics=[Producers.TopicResponse("t", responses)])

    def transactions(node_id: int, request: Any) -> Described:
        states = []
        for each in request.transactional_ids:
            code, producer_id, partitions = described[each]
            topics = [Described.TopicData("t", [partition.partition for partition in partitions])]
            states.append(Described.TransactionState(code, each, "Ongoing", 1, 1, producer_id, 0, topics))
        return Described(transaction_states=states)

    def listed(node_id: int, request: Any) -> Listed:
        return Listed(transaction_states=[Listed.TransactionState(*each, "Ongoing") for each in listings[node_id]])

    brokers.answer(ApiKey.DESCRIBE_PRODUCERS, producers)
    brokers.answer(ApiKey.LIST_TRANSACTIONS, listed)
    brokers.answer(ApiKey.DESCRIBE_TRANSACTIONS, transactions)
    return brokers


@pytest.mark.parametrize("batch", [500, 2])
def test_which_transactions_hang(pair: Pair, batch: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hanging_transactions, "_PARTITIONS_MAX", batch)

    async def test(admin: Admin) -> None:
        found = await admin.find_hanging_transactions("t")
        assert [(partition, producer.producer_id) for partition, producer in found] == [(T[0], 1), (T[2], 3), (T[4], 5)]
        assert found[0].producer.transaction_start_offset == 5
        assert await admin.find_hanging_transactions("t", silent_for_ms=900_001) == []

    pair.administering(test)
    asked = [each for requests in pair.asked(ApiKey.LIST_TRANSACTIONS).values() for each in requests]
    assert [each.producer_id_filters for each in asked] == [(1, 3, 5, 6)] * 2


def test_only_the_replicas_of_one_broker(pair: Pair) -> None:
    async def test(admin: Admin) -> None:
        assert len(await admin.find_hanging_transactions("t", node_id=2)) == 3
        assert await admin.find_hanging_transactions("t", node_id=3) == []

    pair.administering(test)
    asked = pair.asked(ApiKey.DESCRIBE_PRODUCERS)
    assert [len(requests) for requests in asked.values()] == [0, 1]


def test_a_search_that_cannot_be_complete(pair: Pair) -> None:
    async def test(admin: Admin) -> None:
        with pytest.raises(BrokerError, match=r"^UNKNOWN_TOPIC_OR_PARTITION: topic gone$"):
            await admin.find_hanging_transactions("t", "gone")
        pair.answer(ApiKey.LIST_TRANSACTIONS, lambda *_: Listed(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED))
        with pytest.raises(BrokerError, match="CLUSTER_AUTHORIZATION_FAILED: transactions of node 1"):
            await admin.find_hanging_transactions("t")

    pair.administering(test)


def test_an_open_transaction_does_not_hang() -> None:
    with (
        Broker(ephemeral=True) as broker,
        sync.Admin(broker.bootstrap) as admin,
        sync.Producer(broker.bootstrap, transactional_id="x") as producer,
    ):
        producer.begin_transaction()
        producer.send("t", b"v").result()
        assert admin.find_hanging_transactions(silent_for_ms=0) == []
