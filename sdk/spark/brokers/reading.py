"""From a range of offsets to Arrow batches; does not need Spark.

A range ends at its last offset, whether there is a record or not: compaction, control batches and aborted transactions
leave gaps, which the consumer's position passes over. At any time there are a few fetches in memory, the records of one
batch, and one Arrow batch.

Source: `KafkaDataConsumer` in Apache Spark.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Final, NamedTuple

import pyarrow

from kafkawire.sdk.clock import monotonic_ms
from kafkawire.sdk.consumer.batch import ConsumerBatch
from kafkawire.sdk.errors import DecodeError, NoOffset, RequestTimedOut
from kafkawire.sdk.spark.brokers.clients import ClientSettings
from kafkawire.sdk.spark.brokers.options import WireOptions
from kafkawire.sdk.spark.brokers.ranges import PartitionRange
from kafkawire.sdk.spark.damage import Mode, Place
from kafkawire.sdk.spark.decoder import Decoder
from kafkawire.sdk.spark.loss import report_loss
from kafkawire.sdk.sync.consumer import Consumer

__all__ = ["ReadOptions", "read_options", "read_range"]

#: How long a read waits for a batch before it is asked how far the consumer came: what has no records wakes nobody.
_READ_MS: Final = 50


class ReadOptions(NamedTuple):
    """How ranges are read.

    Attributes:
        client: what the consumer is told.
        names: the names of the columns, see `schema.py`.
        poll_timeout_ms: how long to wait for the next record.
        fails_on_loss: whether it is an error that what is to be read is gone.
    """

    client: ClientSettings
    names: tuple[str, ...]
    poll_timeout_ms: int = 120_000
    fails_on_loss: bool = True


def read_options(options: WireOptions, names: tuple[str, ...]) -> ReadOptions:
    """Return how ranges are read.

    Args:
        options: what the user asks for.
        names: the names of the columns.
    """
    return ReadOptions(options.client, names, options.poll_timeout_ms, options.fails_on_loss)


def read_range(wanted: PartitionRange, options: ReadOptions) -> Iterator[pyarrow.RecordBatch]:
    """Read a range.

    Args:
        wanted: what is to be read.
        options: see above.

    Yields:
        Arrow batches with the columns of `options.names`.

    Raises:
        DecodeError: a batch is damaged.
        RequestTimedOut: the next record did not come in time.
        LocalProtocolError: what is to be read is gone, and that is an error.
        KafkaWireError: the brokers cannot be reached, or refuse this client.
    """
    decoder = Decoder(options.names, Mode.FAILFAST)
    place = Place(*wanted.partition)
    with options.client.consumer() as consumer:
        for each in _Reading(consumer, wanted, options).batches():
            start, end = max(each.start_offset, wanted.start), wanted.end
            is_whole = start <= each.batch.base_offset and each.next_offset <= end
            yield from decoder.add(place, each.batch, None, None if is_whole else (start, end))
    yield from decoder.finish()


class _Reading:
    """Reads a range by a consumer that does nothing else."""

    def __init__(self, consumer: Consumer[bytes, bytes], wanted: PartitionRange, options: ReadOptions) -> None:
        self._consumer = consumer
        self._wanted = wanted
        self._options = options
        self._offset = wanted.start

    def batches(self) -> Iterator[ConsumerBatch]:
        """Yield the batches that have offsets of the range."""
        partition = self._wanted.partition
        self._consumer.assign({partition: self._offset})
        deadline_ms = monotonic_ms() + self._options.poll_timeout_ms
        while self._offset < self._wanted.end:
            before = self._offset
            found = self._read()
            while found:
                each = found.popleft()  # it holds what was fetched
                if each.batch.base_offset >= self._wanted.end:
                    return
                yield each
            if self._offset > before:
                deadline_ms = monotonic_ms() + self._options.poll_timeout_ms
            elif monotonic_ms() >= deadline_ms:
                raise self._timed_out()

    def _read(self) -> deque[ConsumerBatch]:
        """Wait a moment for batches, and note how far the consumer came."""
        partition = self._wanted.partition
        try:
            found = deque(self._consumer.getbatches(min(_READ_MS, self._options.poll_timeout_ms)))
            self._offset = self._consumer.position(partition)
        except NoOffset as error:
            self._offset = self._offset_after(error)
            self._consumer.seek(partition, self._offset)
            return deque()
        except DecodeError as error:
            path = f"{partition}, from offset {self._offset} on: {error.path}"
            raise DecodeError(path, error.offset, error.reason) from error
        return found

    def _offset_after(self, error: NoOffset) -> int:
        """Return where to go on: the brokers do not have the offset that is next.

        Raises:
            LocalProtocolError: that is an error.
        """
        partition, offset, end = self._wanted.partition, self._offset, self._wanted.end
        first = self._consumer.beginning_offsets([partition])[partition]
        if offset >= first:
            last = self._consumer.end_offsets([partition])[partition]
            what = f"{partition}: offsets {offset} to {end - 1} are gone or others now, it ends at {last}: {error}"
            report_loss(what, fails=self._options.fails_on_loss, cause=error)
            return offset if offset < last else end
        if not (self._wanted.may_begin_later and offset == self._wanted.start):
            what = f"{partition}: offsets {offset} to {min(first, end) - 1} are gone, the first one is {first}"
            report_loss(what, fails=self._options.fails_on_loss, cause=error)
        return min(first, end)

    def _timed_out(self) -> RequestTimedOut:
        timeout_ms = self._options.poll_timeout_ms
        health = self._consumer.health()
        trouble = "" if health.error is None else f": {health.error}"
        return RequestTimedOut(
            f"{self._wanted.partition}: nothing from offset {self._offset} on came in {timeout_ms} ms "
            f"(kafkaConsumer.pollTimeoutMs), {self._wanted.end} is the end; "
            f"the consumer waits for {health.waits_for.value}{trouble}"
        )
