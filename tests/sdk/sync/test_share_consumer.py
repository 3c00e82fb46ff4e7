"""A blocking share consumer acknowledges as the asyncio one does, from several threads and in spite of interrupts.

Method: run the share consumer on its I/O thread against a scripted in-memory broker that shares records as Kafka does.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest

from kafkawire import ShareDeliveryState, TopicPartition
from kafkawire.errors import BrokerError, Closed, DeserializationFailed, LocalProtocolError
from kafkawire.sdk.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatResponse
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.enums import AcknowledgeType
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sync import ShareConsumer, ShareDelivery
from tests.sdk.consumer.sharing.share_consuming import QUICK, SharingBroker
from tests.sdk.scripted_broker import BROKER
from tests.sdk.sync.interrupting import Interrupting

T0 = TopicPartition("t", 0)
COUNT = 10
#: More calls than any read makes.
CALLS_MAX = 60
#: More calls than all reads make together.
NEVER = 1_000_000
EXPLICIT: dict[str, Any] = {"share_acknowledgement_mode": "explicit"}
ACCEPT, REJECT = AcknowledgeType.ACCEPT, AcknowledgeType.REJECT


@pytest.fixture
def broker() -> SharingBroker:
    """A broker with ten records in two batches."""
    broker = SharingBroker({"t": 1, "u": 1})
    broker.fill(*[b"%d" % number for number in range(6)])
    broker.fill(*[b"%d" % number for number in range(6, COUNT)])
    return broker


def consumer_of(broker: SharingBroker, *topics: str, **options: Any) -> ShareConsumer[Any, Any]:
    return ShareConsumer(str(BROKER), *(topics or ("t",)), network=broker.network, **{**QUICK, **options})


def taken(consumer: ShareConsumer[Any, Any], count: int) -> list[ShareDelivery[Any, Any]]:
    deliveries = iter(consumer)
    return [next(deliveries) for _ in range(count)]


def test_each_read_accepts_what_the_one_before_returned(broker: SharingBroker) -> None:
    with consumer_of(broker) as consumer:
        assert [each.record.value for each in taken(consumer, 3)] == [b"0", b"1", b"2"]
        assert [each.record.offset for each in consumer.getmany(5_000, 4)[T0]] == [3, 4, 5, 6]
        outcomes = consumer.commit()
        assert [offset for each in outcomes for offset in each.offsets][-4:] == [3, 4, 5, 6]
        rest = consumer.getmany(5_000)[T0]
        assert (len(rest), consumer.getmany()) == (3, {})
    assert broker.acknowledged(ACCEPT) == list(range(COUNT))


def test_an_error_in_the_block_accepts_nothing(broker: SharingBroker) -> None:
    def work() -> None:
        with consumer_of(broker) as consumer:
            taken(consumer, 3)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        work()
    assert broker.acknowledged(ACCEPT) == [0, 1]


def test_blocks_acknowledge_by_their_outcome(broker: SharingBroker) -> None:
    with consumer_of(broker, **EXPLICIT, reject_on=ValueError) as consumer:
        first, second, third, fourth = taken(consumer, 4)
        with first:
            pass
        with pytest.raises(ValueError, match="never"), second:
            raise ValueError("never valid")
        with pytest.raises(KeyError), third:
            raise KeyError("later")
        with fourth as given:
            given.reject()
        consumer.commit()
        assert {each.state for each in (first, second, third, fourth)} == {ShareDeliveryState.CONFIRMED}
        assert (broker.acknowledged(ACCEPT), broker.acknowledged(REJECT)) == ([0], [1, 3])
        again = next(each for each in consumer if each.record.offset == 2)
        assert again.delivery_count == 2


def test_blocks_need_explicit_mode(broker: SharingBroker) -> None:
    with consumer_of(broker) as consumer:
        (delivery,) = taken(consumer, 1)
        with pytest.raises(LocalProtocolError, match="with delivery"), delivery:
            pass
        with pytest.raises(LocalProtocolError, match="explicit"):
            delivery.accept()


def test_renewing(broker: SharingBroker) -> None:
    with consumer_of(broker, **EXPLICIT) as consumer:
        (delivery,) = taken(consumer, 1)
        assert consumer.acquisition_lock_timeout_ms == 30_000
        broker.shares.lock_ms = 60_000
        delivery.renew()
        assert 30_000 < delivery.lock_left_ms <= 60_000
        broker.shares.disconnect(next(iter(broker.epochs)))
        with pytest.raises(BrokerError):
            delivery.renew()
        assert delivery.state is ShareDeliveryState.LOST


def test_a_record_that_cannot_be_deserialized(broker: SharingBroker) -> None:
    def number(value: bytes) -> int:
        if value == b"1":
            raise ValueError(value)
        return int(value)

    with consumer_of(broker, **EXPLICIT, value_deserializer=number) as consumer:
        deliveries = iter(consumer)
        next(deliveries).accept()
        with pytest.raises(DeserializationFailed) as raised:
            next(deliveries)
        consumer.reject(raised.value)
        assert next(deliveries).record.value == 2
        consumer.commit()
        assert broker.acknowledged(REJECT) == [1]


def test_outcomes_are_reported_on_the_io_thread(broker: SharingBroker) -> None:
    found: list[tuple[tuple[int, ...], str]] = []

    def report(outcome: Any) -> None:
        found.append((outcome.offsets, threading.current_thread().name))

    with consumer_of(broker, **EXPLICIT, on_acknowledged=report) as consumer:
        taken(consumer, 1)[0].accept()
        consumer.commit()
    assert found[0][0] == (0,)
    assert found[0][1] != threading.current_thread().name


def test_several_threads_share_the_records(broker: SharingBroker) -> None:
    for start in range(10, 210, 10):
        broker.fill(*[b"%d" % number for number in range(start, start + 10)])
    found: list[int] = []

    def work(deliveries: Iterator[ShareDelivery[Any, Any]]) -> None:
        for delivery in deliveries:
            with delivery:
                found.append(delivery.record.offset)
            if len(found) >= 210:
                consumer.close()

    with consumer_of(broker, **EXPLICIT) as consumer:
        threads = [threading.Thread(target=work, args=(iter(consumer),)) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
    assert sorted(found) == list(range(210))


def test_the_subscription(broker: SharingBroker) -> None:
    broker.fill(b"of u", topic="u")
    with consumer_of(broker) as consumer:
        assert consumer.subscription == {"t"}
        consumer.subscribe(["u"])
        assert consumer.subscription == {"u"}
        assert taken(consumer, 1)[0].record.topic == "u"


def test_metrics_and_names(broker: SharingBroker) -> None:
    consumer = consumer_of(broker)
    assert repr(consumer) == "<blocking ShareConsumer of broker:9092, client_id='kafkawire', group_id='g', new>"
    with consumer:
        taken(consumer, 1)
        assert consumer.client_id == "kafkawire"
        found = {name.name: value for name, value in consumer.metrics().items() if "share" in name.group}
        assert found["records-consumed-total"] >= 6
    for call in (consumer.metrics, consumer.getmany, consumer.commit, lambda: iter(consumer)):
        with pytest.raises(Closed):
            call()
    consumer.close()


def test_an_error_of_the_group(broker: SharingBroker) -> None:
    refused = ShareGroupHeartbeatResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    broker.responders[ApiKey.SHARE_GROUP_HEARTBEAT] = lambda request: refused
    with consumer_of(broker) as consumer, pytest.raises(BrokerError):
        taken(consumer, 1)


@pytest.mark.parametrize("way", ["delivery", "getmany"])
def test_reads_interrupted_anywhere_lose_nothing(way: str) -> None:
    total = 0
    for at in range(CALLS_MAX):
        broker = SharingBroker({"t": 1})
        for _ in range(3):
            broker.fill(*[b"x"] * 10)
        offsets: list[int] = []
        strikes = 0
        with consumer_of(broker) as consumer:
            while len(offsets) < 30:
                found: list[ShareDelivery[Any, Any]] = []
                with Interrupting(at if strikes < 3 else NEVER) as interrupting, suppress(KeyboardInterrupt):
                    found = [next(iter(consumer))] if way == "delivery" else consumer.getmany(60000, 7)[T0]
                strikes += interrupting.struck
                offsets += [each.record.offset for each in found]
        assert offsets == list(range(30))
        total += strikes
    assert total > 30
