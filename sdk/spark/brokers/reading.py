"""Read ranges of offsets into Arrow batches; does not need Spark.

A range ends at its last offset, even if no record has that offset: compaction, control batches and aborted transactions
leave gaps, which the consumer's position skips. If the partition ends earlier, because it was recreated or because its
leader has lost the rest, that is a loss. Memory use is limited to a few fetches, the records of one batch, and one
Arrow batch.

Source: `KafkaDataConsumer` in Apache Spark.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

import pyarrow

from kafkawire.sdk.clock import monotonic_ms
from kafkawire.sdk.consumer.batch import ConsumerBatch
from kafkawire.sdk.errors import BrokerError, DecodeError, KafkaWireError, NoOffset, RequestTimedOut
from kafkawire.sdk.protocol.tables.enums import OffsetTimestamp
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.spark.brokers.clients import ClientSettings
from kafkawire.sdk.spark.brokers.options import WireOptions
from kafkawire.sdk.spark.brokers.ranges import PartitionRange
from kafkawire.sdk.spark.connecting import connected
from kafkawire.sdk.spark.damage import Mode, Place
from kafkawire.sdk.spark.data_loss import begins_later, report_loss
from kafkawire.sdk.spark.decoder import Decoder
from kafkawire.sdk.sync.consumer import Consumer

__all__ = ["ReadOptions", "read_options", "read_ranges"]

#: How long a read waits for a batch before the consumer's position is checked, since batches without records do not end
#: the wait.
_READ_MS: Final = 50

#: The maximum number of batches per read. Fetched batches are in memory anyway, so this only limits one iteration of
#: the loop.
_READ_BATCHES: Final = 500

#: The time allowed for looking up the end of the partition, even after the time for the next record has run out.
_ASK_MS: Final = 1_000


class ReadOptions(NamedTuple):
    """Options for reading ranges.

    Attributes:
        client: the consumer options.
        names: the column names; see `schema.py`.
        poll_timeout_ms: how long to wait for the next record.
        fails_on_loss: whether missing records are an error.
        attempts: how many lookups must agree that the partition ends too early before this is accepted.
        retry_interval_ms: how long to wait without data before looking up the end, and between such lookups.
    """

    client: ClientSettings
    names: tuple[str, ...]
    poll_timeout_ms: int = 120_000
    fails_on_loss: bool = True
    attempts: int = 3
    retry_interval_ms: int = 1_000


def read_options(options: WireOptions, names: tuple[str, ...]) -> ReadOptions:
    """Return the options for reading ranges.

    Args:
        options: the user's options.
        names: the column names.
    """
    return ReadOptions(
        options.client,
        names,
        options.poll_timeout_ms,
        options.fails_on_loss,
        options.attempts,
        options.retry_interval_ms,
    )


def read_ranges(ranges: Iterable[PartitionRange], options: ReadOptions) -> Iterator[pyarrow.RecordBatch]:
    """Read ranges, one after another.

    Args:
        ranges: the ranges to read.
        options: options for reading ranges.

    Yields:
        Arrow batches with the columns of `options.names`.

    Raises:
        DecodeError: a batch is damaged.
        RequestTimedOut: the next record did not arrive in time.
        LocalProtocolError: records are missing, and the options make that an error.
        KafkaWireError: the brokers cannot be reached, or refuse this client.
    """
    decoder = Decoder(options.names, Mode.FAILFAST)
    for wanted in ranges:
        place = Place(*wanted.partition)
        # Each range has its own consumer, because a pending fetch would keep waiting for records after the range.
        with connected(options.client.consumer(), options.client.api_timeout_ms) as consumer:
            for each in _Reading(consumer, wanted, options).batches():
                start, end = max(each.start_offset, wanted.start), wanted.end
                is_whole = start <= each.batch.base_offset and each.next_offset <= end
                yield from decoder.add(place, each.batch, None, None if is_whole else (start, end))
    yield from decoder.finish()


class _Reading:
    """Reads a range with a dedicated consumer."""

    def __init__(self, consumer: Consumer[bytes, bytes], wanted: PartitionRange, options: ReadOptions) -> None:
        self._consumer = consumer
        self._wanted = wanted
        self._options = options
        self._offset = wanted.start
        #: Where reading ends; this is before the end of the range once the rest is known to be gone.
        self._end = wanted.end
        #: Where reading begins; this is after the start of the range once the first records are known to be gone.
        self._begin = wanted.start
        #: How many times the partition was reported to end before the end of the range.
        self._too_short = 0
        #: The error from the last failed lookup.
        self._refusal: KafkaWireError | None = None

    def batches(self) -> Iterator[ConsumerBatch]:
        """Yield the batches that have offsets in the range."""
        self._consumer.assign({self._wanted.partition: self._offset})
        deadline_ms, ask_ms = self._limits()
        while self._offset < self._end:
            before = self._offset
            found = self._read()
            while found:
                each = found.popleft()  # dropped from the queue, because a batch keeps fetched memory alive
                if each.batch.base_offset >= self._end:
                    return
                yield each
            now_ms = monotonic_ms()
            if self._offset > before:
                deadline_ms, ask_ms = self._limits()
                self._too_short = 0
            elif now_ms >= ask_ms:
                self._check_end(max(deadline_ms - now_ms, _ASK_MS))
                ask_ms = monotonic_ms() + self._options.retry_interval_ms
                if now_ms < deadline_ms:
                    ask_ms = min(ask_ms, deadline_ms)
                elif not self._too_short:
                    self._give_up()

    def _limits(self) -> tuple[int, int]:
        """Return how long to wait for the next record, and when to look up whether there is one."""
        now_ms, options = monotonic_ms(), self._options
        deadline_ms = now_ms + options.poll_timeout_ms
        return deadline_ms, min(now_ms + options.retry_interval_ms, deadline_ms)

    def _read(self) -> deque[ConsumerBatch]:
        """Wait briefly for batches, and record the consumer's position."""
        partition = self._wanted.partition
        try:
            found = deque(self._consumer.getbatches(min(_READ_MS, self._options.poll_timeout_ms), _READ_BATCHES))
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
        """Return where to continue if the brokers do not have the next offset.

        Raises:
            LocalProtocolError: the options make this loss an error.
        """
        partition, offset, end = self._wanted.partition, self._offset, self._end
        first = self._consumer.beginning_offsets([partition])[partition]
        if offset >= first:
            last = self._last_offset()
            gone = f"{partition}: offsets {offset} to {end - 1} are gone or replaced"
            what = f"{gone}; the partition ends at {last}: {error}"
            report_loss(what, fails=self._options.fails_on_loss, cause=error)
            self._end = min(end, max(last, offset))
            return offset if offset < last else end
        if not (self._wanted.may_begin_later and offset == self._begin):
            report_loss(begins_later(partition, offset, first, end), fails=self._options.fails_on_loss, cause=error)
        elif first < end:
            self._begin = first
        return min(first, end)

    def _check_end(self, timeout_ms: int) -> None:
        """Detect that the partition ends before the range does.

        A broker that has just become the leader may not know the end yet, so the result is accepted only after further
        lookups.

        Args:
            timeout_ms: the time limit for the lookup; without a response, nothing is decided.

        Raises:
            LocalProtocolError: the partition ends earlier, and the options make that an error.
        """
        self._refusal = None
        try:
            last = self._last_offset(timeout_ms)
        except KafkaWireError as error:
            if not error.retriable:
                raise
            self._refusal = error
            return
        self._too_short = self._too_short + 1 if last < self._end else 0
        if self._too_short >= self._options.attempts:
            first = max(last, self._offset)
            missing = f"{self._wanted.partition}: offsets {first} to {self._end - 1} do not exist"
            what = f"{missing}; the partition ends at {last}"
            report_loss(what, fails=self._options.fails_on_loss)
            self._end = first

    def _last_offset(self, timeout_ms: int | None = None) -> int:
        """Return where the partition ends, including open transactions, since their records are not lost."""
        partition = self._wanted.partition
        with self._options.client.admin(timeout_ms) as admin:
            return admin.list_offsets({partition: OffsetTimestamp.LATEST})[partition].offset

    def _give_up(self) -> None:
        """End the range without its records if they are known to be lost.

        Raises:
            LocalProtocolError: the partition no longer exists, and the options make that an error.
            RequestTimedOut: the state of the partition is unknown.
        """
        error = self._refusal
        if not isinstance(error, BrokerError) or error.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise self._timed_out()
        what = f"{self._wanted.partition} no longer exists, but was to be read from {self._offset} to {self._end}"
        report_loss(what, fails=self._options.fails_on_loss, cause=error)
        self._end = self._offset

    def _timed_out(self) -> RequestTimedOut:
        timeout_ms = self._options.poll_timeout_ms
        health = self._consumer.health()
        trouble = "" if health.error is None else f": {health.error}"
        return RequestTimedOut(
            f"{self._wanted.partition}: no data arrived from offset {self._offset} onward in {timeout_ms} ms "
            f"(kafkaConsumer.pollTimeoutMs), although the range ends at {self._end}; "
            f"the consumer waits for {health.waits_for.value}{trouble}"
        )
