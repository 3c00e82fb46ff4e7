"""An application's deserializers and interceptors, applied to each record as it is handed out.

Without hooks, `engine.py` hands out records without using this module.

Source: Apache Kafka, `Deserializer`, `ConsumerInterceptor` (KIP-42).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Generic

from kafkawire.sdk.client.arguments import checked_callable, checked_methods
from kafkawire.sdk.consumer.position import Position
from kafkawire.sdk.consumer.reading.engines.python import Handout
from kafkawire.sdk.consumer.stopped_partitions import stopping
from kafkawire.sdk.errors import DeserializationFailed
from kafkawire.sdk.records import Record
from kafkawire.sdk.records.engines.python_record import new_record
from kafkawire.sdk.records.type_variables import Key, Value
from kafkawire.sdk.routing.partitions import OffsetAndMetadata, TopicPartition
from kafkawire.sdk.transport.user_code import contained

__all__ = ["ConsumerHooks", "ConsumerInterceptor", "HookedHandout"]

logger = logging.getLogger("kafkawire.consumer")


class ConsumerInterceptor(Generic[Key, Value]):
    """Called with every record handed out and with every commit; errors in its methods are logged and ignored."""

    def on_consume(self, record: Record[Key, Value]) -> Record[Key, Value]:
        """Return the record to hand out; called on the reading side, after the deserializers."""
        return record

    def on_commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """Handle committed offsets; called on the client's event loop or its I/O thread."""


class ConsumerHooks(Generic[Key, Value]):
    """The hooks of one consumer.

    Args:
        key_deserializer: converts a key from bytes; None leaves keys as bytes. It is not called for records without a
            key.
        value_deserializer: the same for values; it is not called for tombstones.
        interceptors: called in order.
    """

    def __init__(
        self,
        key_deserializer: Callable[[bytes], Key] | None,
        value_deserializer: Callable[[bytes], Value] | None,
        interceptors: Iterable[ConsumerInterceptor[Key, Value]],
    ) -> None:
        self._key = key_deserializer
        self._value = value_deserializer
        self._interceptors = tuple(interceptors)
        checked_callable("key_deserializer", key_deserializer)
        checked_callable("value_deserializer", value_deserializer)
        for interceptor in self._interceptors:
            checked_methods("interceptors", interceptor, on_consume=1, on_commit=1)

    def applied(self, record: Record) -> Record[Key, Value]:
        """Apply the hooks to a record and return the result.

        Raises:
            DeserializationFailed: a deserializer raised.
        """
        key: Any = record.key
        value: Any = record.value
        what = "key"
        try:
            if self._key is not None and key is not None:
                key = self._key(key)
            what = "value"
            if self._value is not None and value is not None:
                value = self._value(value)
        except Exception as error:
            raise DeserializationFailed(
                what,
                record.topic,
                record.partition,
                record.offset,
                error,
                record.key,
                record.value,
                record.headers,
                record.timestamp_ms,
            ) from error
        made: Record[Key, Value] = new_record(
            record.offset,
            record.timestamp_ms,
            key,
            value,
            record.headers,
            record.sequence,
            record.topic,
            record.partition,
            record.timestamp_type,
        )
        for interceptor in self._interceptors:
            try:
                made = interceptor.on_consume(made)
            except Exception:
                logger.exception("%s.on_consume raised", type(interceptor).__name__)
        return made

    def committed(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """Tell the interceptors about a commit."""
        for interceptor in self._interceptors:
            try:
                interceptor.on_commit(offsets)
            except BaseException as error:
                contained(error)
                logger.exception("%s.on_commit raised", type(interceptor).__name__)


class HookedHandout(Handout):
    """Records that are being handed out through hooks; if a hook is cancelled, its record is not handed out.

    Args:
        records: the records of one batch, in order.
        end: the position once all records have been handed out.
        leader_epoch: the leader epoch of the batch.
        hooks: applied to each record.
        refused: called with the error when a record cannot be handed out, before the error is raised.
        clock_ms: returns the time.
        list_ms: the time after which a list ends, even if it is short.
    """

    __slots__ = ("_clock_ms", "_hooks", "_list_ms", "_refused")

    def __init__(
        self,
        records: list[Record],
        end: Position,
        leader_epoch: int,
        hooks: ConsumerHooks[Any, Any],
        refused: Callable[[DeserializationFailed], None],
        clock_ms: Callable[[], int],
        list_ms: int,
    ) -> None:
        super().__init__(records, end, leader_epoch)
        self._hooks = hooks
        self._refused = refused
        self._clock_ms = clock_ms
        self._list_ms = list_ms

    def take(self) -> Record[Any, Any]:
        self._done = self.index
        (record,) = self.take_many(1)
        return record

    def take_many(self, limit: int) -> list[Record[Any, Any]]:
        found: list[Record[Any, Any]] = []
        end_ms = self._clock_ms() + self._list_ms
        for record in self._records[self.index : self.index + limit]:
            if found and self._clock_ms() >= end_ms:
                break
            try:
                found.append(self._hooks.applied(record))
            except DeserializationFailed as error:
                if found:
                    break  # the next read tries this record again
                self._refused(stopping(error))
                self.cut()
                raise
            except BaseException:
                self.index -= len(found)
                raise
            self.index += 1
        return found
