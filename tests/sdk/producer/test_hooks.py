"""Serializers, interceptors and subclasses see each record once.

Their exceptions are raised by `send` or logged, and no records are lost.

Method: run the asyncio and the blocking producer against a scripted in-memory broker.
"""

from __future__ import annotations

import asyncio
import json
import logging
from typing import Any

import pytest

from kafkawire import OutgoingRecord, Producer, ProducerInterceptor, RecordMetadata, sync
from kafkawire.errors import BrokerError, EncodeError, KafkaWireError
from kafkawire.sdk.protocol.messages.produce import ProduceResponse
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.records import walk
from tests.sdk.scripted_broker import BROKER, StoringBroker

Outcome = tuple[RecordMetadata | None, KafkaWireError | None]


class Noting(ProducerInterceptor):
    """An interceptor that records the records and results that it sees."""

    def __init__(self) -> None:
        self.sent: list[OutgoingRecord] = []
        self.ended: list[Outcome] = []

    def on_send(self, record: OutgoingRecord) -> OutgoingRecord:
        self.sent.append(record)
        return record._replace(headers=[("trace", b"1")])

    def on_acknowledgement(self, metadata: RecordMetadata | None, error: KafkaWireError | None) -> None:
        self.ended.append((metadata, error))


class Raising(ProducerInterceptor):
    """An interceptor whose methods raise."""

    def on_send(self, record: OutgoingRecord) -> OutgoingRecord:
        raise ZeroDivisionError

    def on_acknowledgement(self, metadata: RecordMetadata | None, error: KafkaWireError | None) -> None:
        raise ZeroDivisionError


def as_text(value: dict[str, int]) -> str:
    return json.dumps(value)


def test_serializers() -> None:
    broker = StoringBroker({"t": 1})
    with sync.Producer(str(BROKER), network=broker.network, key_serializer=str, value_serializer=as_text) as producer:
        producer.send("t", {"a": 1}, key=5)
        producer.send("t", None, key=6)
        assert producer.send_many("t", [{"b": 2}, None]) == 2
        with pytest.raises(
            EncodeError, match=r"value: the serializer failed on \{1\} for topic t: TypeError"
        ) as caught:
            producer.send("t", {1})  # type: ignore[arg-type]  # wrong on purpose
        assert isinstance(caught.value.__cause__, TypeError)
    records = [record for data in broker.logs["t", 0] for batch in walk(data) for record in batch.records()]
    assert [(record.key, record.value) for record in records] == [
        (b"5", b'{"a": 1}'),
        (b"6", None),
        (None, b'{"b": 2}'),
        (None, None),
    ]


def test_interceptors(caplog: pytest.LogCaptureFixture) -> None:
    broker = StoringBroker({"t": 1})
    noting = Noting()

    async def run() -> None:
        given: list[ProducerInterceptor] = [Raising(), noting]
        async with Producer(str(BROKER), network=broker.network, interceptors=given) as producer:
            await producer.send("t", b"x", key=b"k", partition=0, timestamp_ms=7)

    with caplog.at_level(logging.ERROR):
        asyncio.run(run())
    assert noting.sent == [OutgoingRecord("t", b"x", b"k", (), 0, 7)]
    assert noting.ended == [(RecordMetadata("t", 0, 0, 7), None)]
    (batch,) = walk(broker.logs["t", 0][0])
    assert batch.records()[0].headers == (("trace", b"1"),)
    raised = [record.getMessage() for record in caplog.records if record.exc_info]
    assert raised == ["Raising.on_send raised", "Raising.on_acknowledgement raised"]


def refuse(request: Any) -> ProduceResponse:
    (topic,) = request.message.topic_data
    failed = ProduceResponse.PartitionProduceResponse(0, ErrorCode.INVALID_RECORD)
    return ProduceResponse([ProduceResponse.TopicProduceResponse(topic.name, topic.topic_id, [failed])])


def test_an_interceptor_hears_of_an_error_and_does_not_hide_it() -> None:
    broker = StoringBroker({"t": 1})
    noting = Noting()
    broker.script(ApiKey.PRODUCE, refuse)
    with sync.Producer(str(BROKER), network=broker.network, interceptors=[noting]) as producer:
        producer.send("t", b"x")
        with pytest.raises(BrokerError, match="INVALID_RECORD"):
            producer.flush()
    ((metadata, error),) = noting.ended
    assert metadata is None
    assert isinstance(error, BrokerError)


@pytest.mark.parametrize("asked", [False, True])
def test_an_error_counts_as_asked_for_only_if_it_was(asked: bool) -> None:
    """This also applies to an unknown topic, when records move from their own outcomes to those of batches."""
    broker = StoringBroker({"t": 1})
    broker.script(ApiKey.PRODUCE, refuse)
    with sync.Producer(str(BROKER), network=broker.network, interceptors=[Noting()]) as producer:
        delivery = producer.send("t", b"x")
        if asked:
            delivery.add_done_callback(lambda _: None)
            producer.flush()
        else:
            with pytest.raises(BrokerError):
                producer.flush()


def test_without_hooks_the_engine_sends_itself() -> None:
    broker = StoringBroker({"t": 1})
    with sync.Producer(str(BROKER), network=broker.network) as producer:
        assert producer._inner._core is not None
        assert producer.send == producer._inner._core.accumulator.appender.send


def test_a_subclass_sees_every_record() -> None:
    class Counting(Producer):
        calls = 0

        def send(self, *given: Any, **named: Any) -> Any:
            self.calls += 1
            return super().send(*given, **named)

    async def run() -> None:
        broker = StoringBroker({"t": 1})
        async with Counting(str(BROKER), network=broker.network) as producer:
            await producer.send("t", b"v", key=b"k", headers={"h": b"1"}, timestamp_ms=77)
        assert producer.calls == 1
        (record,) = next(walk(broker.logs["t", 0][0])).records()
        assert (record.key, record.value, record.headers, record.timestamp_ms) == (b"k", b"v", (("h", b"1"),), 77)

    asyncio.run(run())
