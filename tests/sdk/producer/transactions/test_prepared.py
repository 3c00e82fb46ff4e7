"""Another process can end a prepared transaction, or is told that it is too late.

Method: use producers and another kind of client with the reference broker.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import pytest

from kafkawire.sdk.client.core import ClientCore
from kafkawire.sdk.client.operations import Operations
from kafkawire.sdk.client.options import AdminOptions, read_options
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.producer.transactions.prepared import PreparedTransaction, add_offsets, end_prepared
from kafkawire.sdk.routing.partitions import OffsetAndMetadata, TopicPartition
from kafkawire.sdk.sync.prepared import prepare_transaction
from kafkawire.sdk.transport.waiting import result_of
from kafkawire.sync import Admin, Consumer, Producer
from kafkawire.testing import Broker

T0 = TopicPartition("t", 0)


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker(ephemeral=True, num_partitions=1) as running:
        yield running


def prepared(broker: Broker) -> PreparedTransaction:
    """Return a transaction that has one record and whose producer is gone."""
    with Producer(broker.bootstrap, transactional_id="x") as producer:
        producer.begin_transaction()
        producer.send("t", b"v")
        found = prepare_transaction(producer)
    assert found is not None
    return found


def done(broker: Broker, work: Callable[[Operations], Coroutine[Any, Any, None]]) -> None:
    """Perform operations in another kind of client."""
    core = ClientCore("test", read_options(AdminOptions, broker.bootstrap, {"io": "thread"}), None)

    async def perform() -> None:
        await core.start()
        await core.perform(work(core.operations))

    try:
        result_of(perform)
    finally:
        result_of(core.finish)


def end(broker: Broker, transaction: PreparedTransaction, *, commits: bool) -> None:
    done(broker, lambda operations: end_prepared(operations, transaction, commits=commits))


def check(broker: Broker, expected: list[bytes]) -> None:
    """Check what readers of committed records eventually see; markers are written after the response to a commit."""
    found: list[bytes | None] = []
    for _ in range(200):
        with Consumer(broker.bootstrap, isolation_level="read_committed", auto_offset_reset="earliest") as consumer:
            consumer.assign([T0])
            found = [each.value for each in consumer.records(stop_at_end=True)]
        if found == expected:
            return
    assert found == expected


@pytest.mark.parametrize("commits", [True, False])
def test_an_end_from_outside(broker: Broker, commits: bool) -> None:
    transaction = pickle.loads(pickle.dumps(prepared(broker)))
    check(broker, [])
    for _ in range(2):  # a client that misses the answer calls again
        end(broker, transaction, commits=commits)
        check(broker, [b"v"] if commits else [])
    with pytest.raises(BrokerError, match=r"INVALID_TXN_STATE.*end of the transaction"):
        end(broker, transaction, commits=not commits)


def test_a_later_producer_aborts_it(broker: Broker) -> None:
    first = prepared(broker)
    second = prepared(broker)
    with pytest.raises(BrokerError, match="PRODUCER_FENCED"):
        end(broker, first, commits=True)
    end(broker, second, commits=True)
    check(broker, [b"v"])


@pytest.mark.parametrize("commits", [True, False])
def test_offsets_from_outside(broker: Broker, commits: bool) -> None:
    transaction = prepared(broker)
    offsets = {T0: OffsetAndMetadata(7, "text")}
    done(broker, lambda operations: add_offsets(operations, transaction, "g", offsets))
    with Admin(broker.bootstrap) as admin:
        assert admin.list_group_offsets("g") == {}
        end(broker, transaction, commits=commits)
        assert admin.list_group_offsets("g") == (offsets if commits else {})
