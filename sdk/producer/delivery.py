"""What `send` returns: an awaitable for the outcome of one record.

A `Delivery` only refers to its batch; a future is created when a delivery is awaited.
"""

import asyncio
from collections.abc import Generator
from typing import Any, NamedTuple

from kafkawire.sdk.errors import KafkaWireError
from kafkawire.sdk.producer.accumulator import ProducerBatch

__all__ = ["Delivery", "RecordMetadata", "settled"]


class RecordMetadata(NamedTuple):
    """Where a record is stored.

    Attributes:
        topic: its topic.
        partition: its partition.
        offset: its offset; -1 with acks=0, as the broker does not respond.
        timestamp_ms: its timestamp, milliseconds since the epoch.
    """

    topic: str
    partition: int
    offset: int
    timestamp_ms: int


class Delivery:
    """Await the outcome of one record: returns its `RecordMetadata`, or raises why it was not stored.

    It may be awaited any number of times, or never: `flush` and `close` raise errors that nobody awaited.

    Raises:
        BrokerError: the broker refused the record's batch.
        DeliveryTimedOut: it was not acknowledged within `delivery_timeout_ms`; the cause is the last error.
        Closed: the producer was closed before the record was sent.
    """

    __slots__ = ("_batch", "_index", "_placed", "_refused", "_timestamp_ms")

    def __init__(self, batch: ProducerBatch | None, index: int, timestamp_ms: int) -> None:
        self._batch = batch
        self._index = index
        self._timestamp_ms = timestamp_ms
        self._placed: asyncio.Future[None] | None = None
        self._refused: KafkaWireError | None = None

    @property
    def done(self) -> bool:
        """Whether awaiting returns or raises immediately."""
        return self._batch.done if self._batch is not None else self._refused is not None

    def __await__(self) -> Generator[Any, None, RecordMetadata]:
        if self._batch is None and self._refused is None:
            if self._placed is None:
                self._placed = asyncio.get_running_loop().create_future()
            yield from asyncio.shield(self._placed).__await__()
        if self._refused is not None:
            raise self._refused.again()
        batch = self._batch
        assert batch is not None
        batch.observed = True
        if not batch.done:
            yield from settled(batch).__await__()
        if batch.error is not None:
            raise batch.error.again()
        offset = batch.base_offset + self._index if batch.base_offset >= 0 else batch.base_offset
        timestamp_ms = batch.log_append_time_ms if batch.log_append_time_ms >= 0 else self._timestamp_ms
        return RecordMetadata(*batch.partition, offset, timestamp_ms)

    def place(self, batch: ProducerBatch, index: int) -> None:
        """Set the batch that the record went to, once its topic is known."""
        self._batch = batch
        self._index = index
        if self._placed is not None:
            batch.observed = True
            if not self._placed.done():
                self._placed.set_result(None)

    def refuse(self, error: KafkaWireError) -> bool:
        """Fail the record before it reached a batch; return whether anybody has awaited it."""
        self._refused = error
        if self._placed is None:
            return False
        if not self._placed.done():
            self._placed.set_result(None)
        return True


async def settled(batch: ProducerBatch) -> None:
    """Wait until a batch is acknowledged or has failed."""
    if batch.done:
        return
    future: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def finish() -> None:
        if not future.done():
            future.set_result(None)

    batch.on_done.append(finish)
    await future
