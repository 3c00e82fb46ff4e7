"""An application's serializers and interceptors, applied to each record before it is buffered.

A producer without hooks uses its engine's `send`, which does not involve this module.

Source: Apache Kafka, `Serializer`, `ProducerInterceptor` (KIP-42).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Any, Generic, NamedTuple

from kafkawire.sdk.client.arguments import checked_callable, checked_methods
from kafkawire.sdk.errors import EncodeError, KafkaWireError
from kafkawire.sdk.producer.engine import Appender, Delivery
from kafkawire.sdk.producer.outcome import RecordMetadata
from kafkawire.sdk.protocol.values import Buffer, quoted
from kafkawire.sdk.records.content import HeadersInput
from kafkawire.sdk.records.type_variables import GivenKey, GivenValue
from kafkawire.sdk.transport.user_code import contained

__all__ = ["OutgoingRecord", "ProducerHooks", "ProducerInterceptor"]

logger = logging.getLogger("kafkawire.producer")


class OutgoingRecord(NamedTuple):
    """A record on its way into the producer; change it with `_replace`. See `Producer.send` for the fields."""

    topic: str
    value: Any
    key: Any
    headers: HeadersInput
    partition: int | None
    timestamp_ms: int | None


class ProducerInterceptor:
    """Called with every record that is sent and with its outcome; errors in its methods are logged and ignored."""

    def on_send(self, record: OutgoingRecord) -> OutgoingRecord:
        """Return the record to send; called by `send`, before the serializers.

        It can be called again for the same record if `send_many` found no room for it.
        """
        return record

    def on_acknowledgement(self, metadata: RecordMetadata | None, error: KafkaWireError | None) -> None:
        """Handle the outcome of a record; called on the client's event loop or its I/O thread.

        Args:
            metadata: where the record is stored; None if it was not stored.
            error: why the record was not stored; None if it was.
        """


class ProducerHooks(Generic[GivenKey, GivenValue]):
    """The hooks of one producer.

    Args:
        key_serializer: converts a key to bytes or text; None to use keys as they are. It is not called for a record
            without a key.
        value_serializer: the same for values; it is not called for tombstones.
        interceptors: called in order.
    """

    def __init__(
        self,
        key_serializer: Callable[[GivenKey], Buffer | str | None] | None,
        value_serializer: Callable[[GivenValue], Buffer | str | None] | None,
        interceptors: Iterable[ProducerInterceptor],
    ) -> None:
        self._key = key_serializer
        self._value = value_serializer
        self._interceptors = tuple(interceptors)
        checked_callable("key_serializer", key_serializer)
        checked_callable("value_serializer", value_serializer)
        for interceptor in self._interceptors:
            checked_methods("interceptors", interceptor, on_send=1, on_acknowledgement=2)

    def send(
        self,
        appender: Appender,
        record: OutgoingRecord,
        on_delivery: Callable[[Delivery], object] | None,
    ) -> Delivery:
        """Buffer a record; see `Producer.send`."""
        for interceptor in self._interceptors:
            try:
                record = OutgoingRecord._make(interceptor.on_send(record))
            except Exception:
                logger.exception("%s.on_send raised", type(interceptor).__name__)
        delivery = appender.send(
            record.topic,
            _serialized("value", self._value, record.value, record.topic),
            key=_serialized("key", self._key, record.key, record.topic),
            headers=record.headers,
            partition=record.partition,
            timestamp_ms=record.timestamp_ms,
            on_delivery=on_delivery,
        )
        if self._interceptors:
            delivery._observe(self._settled)
        return delivery

    def _settled(self, metadata: RecordMetadata | None, error: KafkaWireError | None) -> None:
        for interceptor in self._interceptors:
            try:
                interceptor.on_acknowledgement(metadata, error)
            except BaseException as raised:
                contained(raised)
                logger.exception("%s.on_acknowledgement raised", type(interceptor).__name__)


def _serialized(what: str, serializer: Callable[[Any], Buffer | str | None] | None, given: Any, topic: object) -> Any:
    if serializer is None or given is None:
        return given
    try:
        return serializer(given)
    except Exception as error:
        name = topic if isinstance(topic, str) else quoted(topic)
        reason = f"the serializer failed on {quoted(given, 100)} for topic {name}: {quoted(error, 200)}"
        raise EncodeError(what, reason) from error
