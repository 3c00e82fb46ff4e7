"""OpenTelemetry spans for sending and processing: `pip install kafkawire[otel]`.

    producer = traced(Producer("broker:9092"))
    async with producer:
        await producer.send("orders", b"first")  # a span "send orders"; its context travels in the record's headers

    async for record in consumer:
        with processing(record):              # a span "process orders", in the trace of the span that sent it
            ...

Source: OpenTelemetry's semantic conventions for messaging and for Kafka; W3C Trace Context.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Final, Generic, Self, TypeVar, overload

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.propagate import extract, inject
from opentelemetry.trace import Link, Span, SpanKind, Status, StatusCode, Tracer, TracerProvider

from kafkawire.sdk.consumer.batch import ConsumerBatch
from kafkawire.sdk.errors import BrokerError, KafkaWireError
from kafkawire.sdk.metrics.names import MetricName
from kafkawire.sdk.producer.engine import Delivery
from kafkawire.sdk.producer.producer import Producer
from kafkawire.sdk.protocol.values import Buffer
from kafkawire.sdk.records import Record
from kafkawire.sdk.records.content import HeadersInput, record_headers
from kafkawire.sdk.sync.producer import Producer as BlockingProducer
from kafkawire.sdk.version import __version__

__all__ = ["BlockingTracedProducer", "TracedProducer", "processing", "traced"]

#: A record's key becomes an attribute of its span, shortened to this many characters.
_KEY_MAX: Final = 200

Attributes = dict[str, str | int | bool]

Traced = TypeVar("Traced", bound=Producer[Any, Any] | BlockingProducer[Any, Any])


@overload
def traced(producer: Producer, tracer_provider: TracerProvider | None = None) -> TracedProducer: ...


@overload
def traced(producer: BlockingProducer, tracer_provider: TracerProvider | None = None) -> BlockingTracedProducer: ...


def traced(
    producer: Producer | BlockingProducer, tracer_provider: TracerProvider | None = None
) -> TracedProducer | BlockingTracedProducer:
    """Return a producer whose every `send` and `send_many` is a span.

    Args:
        producer: a `kafkawire` or `kafkawire.sync` producer, started or not.
        tracer_provider: creates the spans; None for the global one.
    """
    if isinstance(producer, BlockingProducer):
        return BlockingTracedProducer(producer, tracer_provider)
    return TracedProducer(producer, tracer_provider)


@contextmanager
def processing(
    record: Record | ConsumerBatch, group_id: str | None = None, tracer_provider: TracerProvider | None = None
) -> Iterator[Span]:
    """Run a block in a span for the processing of a record or a whole batch.

    A record's span belongs to the trace of the span that sent the record, unless another span is current. In that case
    it links to that trace, just as a batch's span links to each record's trace. An exception that leaves the block is
    recorded.

    Args:
        record: the record or batch.
        group_id: the consumer's group.
        tracer_provider: creates the span; None for the global one.
    """
    topic, partition = record.partition if isinstance(record, ConsumerBatch) else (record.topic, record.partition)
    attributes = _attributes("process", topic)
    attributes["messaging.destination.partition.id"] = str(partition)
    if group_id is not None:
        attributes["messaging.consumer.group.name"] = group_id
    parent: Context | None = None
    if isinstance(record, ConsumerBatch):
        senders = [_sender(each) for each in record.records]
        attributes["messaging.batch.message_count"] = len(senders)
    else:
        senders = [_sender(record)]
        attributes["messaging.kafka.offset"] = record.offset
        _describe(attributes, record.key, record.value)
        if not trace.get_current_span().get_span_context().is_valid:
            parent = senders[0]
    contexts = [trace.get_current_span(sender).get_span_context() for sender in senders if sender is not None]
    links = [Link(each) for each in {each.span_id: each for each in contexts if each.is_valid}.values()]
    tracer = _tracer(tracer_provider)
    name = f"process {topic}"
    with tracer.start_as_current_span(
        name, context=parent, kind=SpanKind.CONSUMER, attributes=attributes, links=links, record_exception=False
    ) as span:
        try:
            yield span
        except Exception as error:
            _note(span, error)
            raise


class _Traced(Generic[Traced]):
    """The base class of both traced producers.

    Args:
        producer: sends the records.
        tracer_provider: creates the spans; None for the global one.
    """

    def __init__(self, producer: Traced, tracer_provider: TracerProvider | None = None) -> None:
        self.producer = producer
        self._tracer = _tracer(tracer_provider)
        self._failure: KafkaWireError | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self.producer, name)

    def send(
        self,
        topic: str,
        value: Buffer | str | None = None,
        *,
        key: Buffer | str | None = None,
        headers: HeadersInput = (),
        partition: int | None = None,
        timestamp_ms: int | None = None,
        on_delivery: Callable[[Delivery], object] | None = None,
    ) -> Delivery:
        """Buffer a record for sending; see `Producer.send`. The span ends when the record is settled."""
        span = self._span(topic)
        attributes: Attributes = {}
        _describe(attributes, key, value)
        span.set_attributes(attributes)
        try:
            delivery = self.producer.send(
                topic,
                value,
                key=key,
                headers=_with_context(headers, span),
                partition=partition,
                timestamp_ms=timestamp_ms,
                on_delivery=on_delivery,
            )
        except BaseException as error:
            _note(span, error)
            span.end()
            raise
        delivery.add_done_callback(lambda delivery: self._ended(span, delivery))
        return delivery

    @property
    def client_id(self) -> str:
        """The `client_id` option."""
        return self.producer.client_id

    def metrics(self) -> Mapping[MetricName, float]:
        """Return the current value of every metric; see `Producer.metrics`."""
        return self.producer.metrics()

    @contextmanager
    def _many(self, topic: str, headers: HeadersInput) -> Iterator[tuple[Span, list[tuple[str, Any]]]]:
        """Yield one span for many records, and their headers."""
        with trace.use_span(self._span(topic), end_on_exit=True, record_exception=False) as span:
            try:
                yield span, _with_context(headers, span)
            except BaseException as error:
                _note(span, error)
                raise

    def _span(self, topic: str) -> Span:
        attributes = _attributes("send", topic)
        attributes["messaging.client.id"] = self.producer.client_id
        return self._tracer.start_span(f"send {topic}", kind=SpanKind.PRODUCER, attributes=attributes)

    def _ended(self, span: Span, delivery: Delivery) -> None:
        error = delivery.exception()
        if error is not None:
            self._failure = self._failure or error
            _note(span, error)
        span.end()

    def _raise_failure(self) -> None:
        error, self._failure = self._failure, None
        if error is not None:
            raise error.again()


class TracedProducer(_Traced[Producer[Any, Any]]):
    """A producer whose records carry the context of the span that sent them; created by `traced`.

    All other attributes are those of the wrapped producer. `flush` and `close` raise the first delivery error since
    the last `flush`, even if that delivery was awaited.

    Args:
        producer: sends the records.
        tracer_provider: creates the spans; None for the global one.
    """

    async def __aenter__(self) -> Self:
        await self.producer.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close(flush=error is None)

    async def send_many(
        self,
        topic: str,
        values: Iterable[Buffer | str | None],
        *,
        headers: HeadersInput = (),
        partition: int | None = None,
    ) -> int:
        """Buffer many records; see `Producer.send_many`. One span covers all records, until they are buffered."""
        with self._many(topic, headers) as (span, pairs):
            count = await self.producer.send_many(topic, values, headers=pairs, partition=partition)
            span.set_attribute("messaging.batch.message_count", count)
            return count

    async def flush(self, timeout_ms: int | None = None) -> None:
        """Send everything and wait until it is acknowledged; see `Producer.flush`."""
        await self.producer.flush(timeout_ms)
        self._raise_failure()

    async def close(self, *, flush: bool = True, timeout_ms: int | None = None) -> None:
        """Flush, and disconnect; see `Producer.close`."""
        await self.producer.close(flush=flush, timeout_ms=timeout_ms)
        if flush:
            self._raise_failure()


class BlockingTracedProducer(_Traced[BlockingProducer[Any, Any]]):
    """A `kafkawire.sync.Producer` whose records carry the context of the span that sent them; see `TracedProducer`.

    Args:
        producer: sends the records.
        tracer_provider: creates the spans; None for the global one.
    """

    def __enter__(self) -> Self:
        self.producer.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close(flush=error is None)

    def send_many(
        self,
        topic: str,
        values: Iterable[Buffer | str | None],
        *,
        headers: HeadersInput = (),
        partition: int | None = None,
    ) -> int:
        """Buffer many records; see `TracedProducer.send_many`."""
        with self._many(topic, headers) as (span, pairs):
            count = self.producer.send_many(topic, values, headers=pairs, partition=partition)
            span.set_attribute("messaging.batch.message_count", count)
            return count

    def flush(self, timeout_ms: int | None = None) -> None:
        """Send everything and wait until it is acknowledged; see `Producer.flush`."""
        self.producer.flush(timeout_ms)
        self._raise_failure()

    def close(self, *, flush: bool = True, timeout_ms: int | None = None) -> None:
        """Flush, and disconnect; see `Producer.close`."""
        self.producer.close(flush=flush, timeout_ms=timeout_ms)
        if flush:
            self._raise_failure()


def _tracer(provider: TracerProvider | None) -> Tracer:
    return trace.get_tracer("kafkawire", __version__, tracer_provider=provider)


def _attributes(operation: str, topic: str) -> Attributes:
    return {
        "messaging.system": "kafka",
        "messaging.operation.name": operation,
        "messaging.operation.type": operation,
        "messaging.destination.name": topic,
    }


def _describe(attributes: Attributes, key: object, value: object) -> None:
    """Add a record's conventional attributes: its key, if it is text, and whether it is a tombstone."""
    if isinstance(key, bytes | bytearray | memoryview):
        try:
            key = bytes(key).decode()
        except UnicodeDecodeError:
            key = None
    if isinstance(key, str):
        attributes["messaging.kafka.message.key"] = key[:_KEY_MAX]
    if value is None:
        attributes["messaging.kafka.message.tombstone"] = True


def _with_context(headers: HeadersInput, span: Span) -> list[tuple[str, Any]]:
    """Return headers with the context of a span, which replaces any context copied from another record."""
    carrier: dict[str, str] = {}
    inject(carrier, context=trace.set_span_in_context(span))
    pairs = record_headers(headers) if headers else ()
    return [*((name, content) for name, content in pairs if name not in carrier), *carrier.items()]


def _sender(record: Record) -> Context | None:
    """Return the context in a record's headers; None if there is none."""
    carrier = {name: (content or b"").decode("latin-1") for name, content in record.headers}
    return extract(carrier, context=Context()) if carrier else None


def _note(span: Span, error: BaseException) -> None:
    """Record the reason why a span failed, as one of a limited set of values that can be aggregated."""
    kind = error.code.name if isinstance(error, BrokerError) else type(error).__name__
    span.set_attribute("error.type", kind)
    span.set_status(Status(StatusCode.ERROR, str(error)))
