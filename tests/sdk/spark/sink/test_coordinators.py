"""The sink's client reads stable offsets, and ends many transactions concurrently.

Method: use the reference broker.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kafkawire import GroupMetadata, OffsetAndMetadata, TopicPartition
from kafkawire.sdk.errors import BrokerError, ConfigurationError, ConnectFailed, KafkaWireError
from kafkawire.sdk.producer.transactions.prepared import PreparedTransaction
from kafkawire.sdk.spark.sink.coordinators import Coordinators
from kafkawire.sdk.sync.prepared import prepare_transaction
from kafkawire.sync import Producer
from kafkawire.testing import Broker
from tests.sdk.spark.sink.topics import written

T0 = TopicPartition("t", 0)


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker(ephemeral=True, num_partitions=1) as running:
        yield running


def prepared(broker: Broker, name: str) -> PreparedTransaction:
    """Return a transaction with one record and one of the group's offsets."""
    with Producer(broker.bootstrap, transactional_id=name) as producer:
        producer.begin_transaction()
        producer.send("t", name)
        producer.flush()
        producer.send_offsets({T0: OffsetAndMetadata(5, "text")}, GroupMetadata(f"group of {name}"))
        found = prepare_transaction(producer)
    assert found is not None
    return found


def options(broker: Broker, **more: str) -> dict[str, str]:
    return {"bootstrap_servers": broker.bootstrap, "linger.ms": "7", **more}


@pytest.mark.parametrize("commits", [True, False])
def test_ends(broker: Broker, commits: bool) -> None:
    transactions = [prepared(broker, f"x{number}") for number in range(5)]
    with Coordinators(options(broker)) as coordinators:
        coordinators.end(transactions, commits=commits)
        offsets = coordinators.committed("group of x3")
    assert offsets == ({T0: OffsetAndMetadata(5, "text")} if commits else {})
    values = sorted(each.value for each in written(broker.bootstrap, "t"))
    assert values == ([b"x%d" % number for number in range(5)] if commits else [])


def test_each_is_tried(broker: Broker) -> None:
    transactions = [prepared(broker, name) for name in ("a", "b", "c")]
    prepared(broker, "b")  # fences the previous producer
    with Coordinators(options(broker)) as coordinators:
        with pytest.raises(BrokerError, match="PRODUCER_FENCED") as caught:
            coordinators.end(transactions, commits=True)
        assert caught.value.__notes__ == ["Reported by the coordinator of transactional id b."]
        assert coordinators.committed("group of c")


def test_offsets_of_an_open_transaction_are_waited_for(broker: Broker) -> None:
    with Coordinators({**options(broker), "api_timeout_ms": 300}) as coordinators:
        coordinators.end([prepared(broker, "x")], commits=True)
        transaction = prepared(broker, "x")
        with pytest.raises(KafkaWireError, match="UNSTABLE_OFFSET_COMMIT"):
            coordinators.committed("group of x")
        coordinators.end([transaction], commits=False)
        assert coordinators.committed("group of x") == {T0: OffsetAndMetadata(5, "text")}


def test_offsets_that_a_transaction_adds(broker: Broker) -> None:
    transaction = prepared(broker, "x")
    with Coordinators(options(broker)) as coordinators:
        coordinators.add_offsets(transaction, "another", {T0: OffsetAndMetadata(9)})
        coordinators.end([transaction], commits=True)
        assert coordinators.committed("another") == {T0: OffsetAndMetadata(9)}


def test_refused() -> None:
    with pytest.raises(ConfigurationError, match="bootstrap"):
        Coordinators({"linger.ms": "7"})
    with pytest.raises(ConnectFailed), Coordinators({"bootstrap_servers": "127.0.0.1:1", "delivery_timeout_ms": 1}):
        pass


def test_the_first_error_is_reported(broker: Broker) -> None:
    transactions = [prepared(broker, name) for name in ("a", "b", "c")]
    for name in ("a", "c"):
        prepared(broker, name)  # fences the previous producer
    with Coordinators(options(broker)) as coordinators, pytest.raises(BrokerError) as caught:
        coordinators.end(transactions, commits=True)
    assert caught.value.__notes__ == ["Reported by the coordinator of transactional id a."]
