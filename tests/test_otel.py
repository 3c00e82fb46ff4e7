"""Spans describe sent and processed records, and one trace links sending to processing.

Method: use a real broker in this process, and OpenTelemetry's own in-memory exporter.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

pytest.importorskip("opentelemetry.sdk", reason="needs opentelemetry-sdk")

from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from kafkawire import BrokerError, Consumer, Delivery, ErrorCode, Producer, Record, TopicPartition, sync
from kafkawire.errors import Closed, EncodeError, LocalProtocolError, RecordTooLarge
from kafkawire.metrics import openmetrics
from kafkawire.otel import BlockingTracedProducer, TracedProducer, processing, traced
from kafkawire.sdk.producer.outcome import Outcome
from kafkawire.testing import Broker


class Spans:
    """The exported spans."""

    def __init__(self) -> None:
        self.exporter = InMemorySpanExporter()
        self.provider = TracerProvider(shutdown_on_exit=False)
        self.provider.add_span_processor(SimpleSpanProcessor(self.exporter))

    def take(self, name: str) -> list[ReadableSpan]:
        return [span for span in self.exporter.get_finished_spans() if span.name == name]


Test = Callable[[str, Spans], Coroutine[Any, Any, None]]


def run(test: Test) -> Spans:
    """Run a test with a broker, and return the exported spans."""
    spans = Spans()
    with Broker(num_partitions=1) as broker:
        asyncio.run(test(broker.bootstrap, spans))
    return spans


async def read(bootstrap: str) -> Record:
    """Return the first record of topic t."""
    async with Consumer(bootstrap, "t", auto_offset_reset="earliest") as consumer:
        return await anext(aiter(consumer))


def test_one_trace_from_send_to_process() -> None:
    async def test(bootstrap: str, spans: Spans) -> None:
        async with traced(Producer(bootstrap, client_id="shop"), spans.provider) as producer:
            stored = await producer.send("t", b"v", key="order-7", headers={"mine": b"1", "traceparent": b"stale"})
            assert (stored.topic, stored.offset) == ("t", 0)
            assert producer.client_id == "shop"
        record = await read(bootstrap)
        assert [name for name, _ in record.headers] == ["mine", "traceparent"]
        with processing(record, "g", spans.provider) as span:
            span.set_attribute("mine", 1)

    spans = run(test)
    (send,), (process,) = spans.take("send t"), spans.take("process t")
    assert send.kind is SpanKind.PRODUCER
    assert process.kind is SpanKind.CONSUMER
    assert process.context is not None
    assert send.context is not None
    assert process.context.trace_id == send.context.trace_id
    assert process.parent is not None
    assert process.parent.span_id == send.context.span_id
    assert [link.context.span_id for link in process.links] == [send.context.span_id]
    assert dict(send.attributes or {}) == {
        "messaging.system": "kafka",
        "messaging.operation.name": "send",
        "messaging.operation.type": "send",
        "messaging.destination.name": "t",
        "messaging.client.id": "shop",
        "messaging.kafka.message.key": "order-7",
    }
    attributes = dict(process.attributes or {})
    assert attributes["messaging.kafka.offset"] == 0
    assert attributes["messaging.destination.partition.id"] == "0"
    assert attributes["messaging.consumer.group.name"] == "g"
    assert attributes["messaging.operation.type"] == "process"


def test_a_batch_has_a_span_with_a_link_to_each_sender() -> None:
    async def test(bootstrap: str, spans: Spans) -> None:
        async with traced(Producer(bootstrap), spans.provider) as producer:
            assert await producer.send_many("t", [b"a", b"b", b"c"]) == 3
            producer.send("t", None)
            await producer.flush()
        async with Consumer(bootstrap, "t", auto_offset_reset="earliest") as consumer:
            seen = 0
            async for batch in consumer.batches():
                with processing(batch, tracer_provider=spans.provider):
                    seen += len(batch.records)
                if seen == 4:
                    break

    spans = run(test)
    many, one = spans.take("send t")
    assert dict(many.attributes or {})["messaging.batch.message_count"] == 3
    assert dict(one.attributes or {})["messaging.kafka.message.tombstone"] is True
    links = {link.context.span_id for span in spans.take("process t") for link in span.links}
    assert links == {span.context.span_id for span in (many, one) if span.context is not None}
    assert sum(dict(span.attributes or {})["messaging.batch.message_count"] for span in spans.take("process t")) == 4  # type: ignore[misc]  # numbers


def test_a_record_without_a_context_and_one_inside_another_span() -> None:
    async def test(bootstrap: str, spans: Spans) -> None:
        async with Producer(bootstrap) as producer:
            producer.send("t", b"v", key=b"\xff")
        record = await read(bootstrap)
        tracer = spans.provider.get_tracer("test")
        with tracer.start_as_current_span("outer"), processing(record, tracer_provider=spans.provider):
            pass
        with pytest.raises(ValueError, match="mine"), processing(record, tracer_provider=spans.provider):
            raise ValueError("mine")

    spans = run(test)
    inner, failed = spans.take("process t")
    (outer,) = spans.take("outer")
    assert inner.parent == outer.context
    assert (len(inner.links), failed.parent) == (0, None)
    assert failed.status.status_code is StatusCode.ERROR
    assert dict(failed.attributes or {})["error.type"] == "ValueError"
    assert "messaging.kafka.message.key" not in dict(failed.attributes or {})


def test_records_that_fail() -> None:
    """Refused records fail immediately, and others fail when they are settled; `flush` reports only the latter."""

    async def test(bootstrap: str, spans: Spans) -> None:
        producer = TracedProducer(Producer(bootstrap), spans.provider)
        with pytest.raises(Closed):
            producer.send("t", b"before the start")
        await producer.producer.start()
        with pytest.raises(EncodeError):
            producer.send("t", 7)  # type: ignore[arg-type]  # that is the point
        with pytest.raises(EncodeError):
            await producer.send_many("t", [7])  # type: ignore[list-item]  # that is the point
        await producer.send("t", b"good")
        await producer.flush()
        await producer.close()

    spans = run(test)
    errors = [dict(span.attributes or {}).get("error.type") for span in spans.take("send t")]
    assert errors == ["Closed", "EncodeError", "EncodeError", None]


def test_a_record_that_fails_later() -> None:
    """Watching deliveries must not hide the errors of unawaited ones from `flush` and `close`."""
    outcomes: list[Outcome] = []
    limits: list[int | None] = []

    class Failing(Producer):
        def send(self, topic: str, *arguments: Any, **more: Any) -> Delivery:
            outcomes.append(Outcome(TopicPartition(topic, 0)))
            return Delivery(outcomes[-1], 0, 0)

        async def flush(self, timeout_ms: int | None = None) -> None:
            limits.append(timeout_ms)

        async def close(self, **more: Any) -> None: ...

    async def test() -> None:
        producer = traced(Failing("broker:9092"), spans.provider)
        for end in (producer.flush, producer.close):
            producer.send("t", b"v")
            assert spans.exporter.get_finished_spans() == ()
            outcomes[-1].fail(BrokerError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "topic t"))
            (span,) = spans.take("send t")
            assert dict(span.attributes or {})["error.type"] == "TOPIC_AUTHORIZATION_FAILED"
            with pytest.raises(BrokerError, match="topic t"):
                await end()
            await end()
            spans.exporter.clear()
        await producer.flush(timeout_ms=7)
        assert limits == [None, None, 7]

    spans = Spans()
    asyncio.run(test())


def test_a_blocking_producer() -> None:
    """Spans and errors are the same as for an asyncio producer, and both producers have metrics."""
    spans = Spans()
    with Broker(ephemeral=True, num_partitions=1) as broker:
        options = {"client_id": "shop", "max_request_size": 1_024, "topic_timeout_ms": 1_000}
        producer = traced(sync.Producer(broker.bootstrap, **options), spans.provider)
        assert isinstance(producer, BlockingTracedProducer)
        with producer:
            assert producer.send("t", b"v", key="order-7").result(timeout_ms=60_000).offset == 0
            assert producer.send_many("t", [b"a", b"b"], headers={"mine": b"1"}) == 2
            with pytest.raises(RecordTooLarge):
                producer.send_many("t", [b"x" * 2_000])
            producer.flush(timeout_ms=60_000)
            assert 'kafka_producer_record_send_total{client_id="shop"} 3' in openmetrics(producer)
            producer.send("t", b"not there", partition=7)
            with pytest.raises(LocalProtocolError, match="not 7"):
                producer.flush()
            producer.send("t", b"at the end")
        record = asyncio.run(read(broker.bootstrap))

        async def metrics() -> str:
            async with traced(Producer(broker.bootstrap, client_id="other"), spans.provider) as other:
                return openmetrics(other)

        assert 'client_id="other"' in asyncio.run(metrics())
    sent, many, refused, missing, last = spans.take("send t")
    assert sent.context is not None
    assert f"{sent.context.span_id:016x}".encode() in (dict(record.headers)["traceparent"] or b"")
    assert dict(many.attributes or {})["messaging.batch.message_count"] == 2
    kinds = [dict(span.attributes or {}).get("error.type") for span in (refused, missing, last)]
    assert kinds == ["RecordTooLarge", "LocalProtocolError", None]
    assert all(dict(span.attributes or {})["messaging.client.id"] == "shop" for span in (sent, many, last))
