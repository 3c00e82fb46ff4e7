"""Count what a producer sends, in total and for each topic; counting happens per batch and request, never per record.

As in Kafka's producer, the time that an application spends waiting for its transactions is also recorded.

Source: Apache Kafka, `SenderMetricsRegistry`, `KafkaProducerMetrics`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final

from kafkawire.sdk.client.options import ProducerOptions
from kafkawire.sdk.clock import monotonic_ns
from kafkawire.sdk.metrics.catalogue import PRODUCER, TOPIC, TOPICS_MAX
from kafkawire.sdk.metrics.registry import Registry
from kafkawire.sdk.metrics.sensor import Sensor
from kafkawire.sdk.transport.promise import Promise

if TYPE_CHECKING:
    from kafkawire.sdk.producer.accumulator import Accumulator
    from kafkawire.sdk.producer.partition_queue import ProducerBatch

__all__ = ["ProducerMetrics", "TransactionTimes"]

_MS_NS: Final = 1_000_000


class _TopicMetrics:
    """The sensors for one topic or for the whole producer."""

    __slots__ = ("bytes", "errors", "records", "retries")

    def __init__(self, registry: Registry, topic: str | None) -> None:
        group, tags = (PRODUCER, ()) if topic is None else (TOPIC, (("topic", topic),))
        per_request = () if topic is not None else ("records-per-request",)  # the same counts, per request
        self.records = registry.sensor(group, "record-send", *per_request, tags=tags)
        self.retries = registry.sensor(group, "record-retry", tags=tags)
        self.errors = registry.sensor(group, "record-error", tags=tags)
        self.bytes = Sensor() if topic is None else registry.sensor(group, "byte", tags=tags)


class TransactionTimes:
    """Record how long an application waits for each operation on its transactions.

    Args:
        registry: the client's registry.
    """

    def __init__(self, registry: Registry) -> None:
        self._sensors = {
            what: registry.sensor(PRODUCER, f"txn-{what}-time-ns")
            for what in ("init", "begin", "send-offsets", "commit", "abort")
        }

    def measured(self, what: str, promise: Promise[None]) -> Promise[None]:
        """Record the time from now until a promise is kept; record nothing if it fails."""
        begun_ns = monotonic_ns()

        def settled() -> None:
            if promise.is_kept:
                now_ns = monotonic_ns()
                self._sensors[what].record(now_ns - begun_ns, now_ns // _MS_NS)

        promise.add_done_callback(settled)
        return promise


class ProducerMetrics:
    """The metrics of one producer.

    Args:
        registry: the client's registry.
        options: the producer's options.
        accumulator: holds the batches.
        in_flight: returns the number of Produce requests without a response.
    """

    def __init__(
        self, registry: Registry, options: ProducerOptions, accumulator: Accumulator, in_flight: Callable[[], int]
    ) -> None:
        self._registry = registry
        self._all = _TopicMetrics(registry, None)
        self._topics: dict[str, _TopicMetrics] = {}
        self._others = _TopicMetrics(Registry(options.KIND), "")
        self._batch_sizes = registry.sensor(PRODUCER, "batch-size")
        self._compression = registry.sensor(PRODUCER, "compression-rate")
        self._splits = registry.sensor(PRODUCER, "batch-split")
        self._queue_times = registry.sensor(PRODUCER, "record-queue-time")
        registry.gauge(PRODUCER, "requests-in-flight", lambda _: in_flight())
        registry.gauge(PRODUCER, "buffer-total-bytes", lambda _: options.buffer_memory)
        registry.gauge(
            PRODUCER, "buffer-available-bytes", lambda _: max(0, options.buffer_memory - accumulator.bytes_held)
        )

    def sent(self, batches: Iterable[ProducerBatch], now_ms: int) -> None:
        """Count a request and its sealed batches."""
        records = before_bytes = after_bytes = 0
        for batch in batches:
            count, size_bytes = batch.builder.count, batch.sealed_bytes
            topic = self._topic(batch)
            topic.records.record(count, now_ms)
            topic.bytes.record(size_bytes, now_ms)
            self._queue_times.record(now_ms - batch.created_ms, now_ms)
            self._batch_sizes.record(size_bytes, now_ms)
            records += count
            before_bytes += batch.used_bytes
            after_bytes += size_bytes
        self._all.records.record(records, now_ms)
        if before_bytes:
            self._compression.record(after_bytes / before_bytes, now_ms)

    def retried(self, batch: ProducerBatch, now_ms: int) -> None:
        """Count a batch that is sent again."""
        for each in (self._all, self._topic(batch)):
            each.retries.record(batch.builder.count, now_ms)

    def failed(self, batch: ProducerBatch, now_ms: int) -> None:
        """Count a batch that was not stored."""
        for each in (self._all, self._topic(batch)):
            each.errors.record(batch.builder.count, now_ms)

    def split(self, now_ms: int) -> None:
        """Count a batch that was too large."""
        self._splits.record(1, now_ms)

    def _topic(self, batch: ProducerBatch) -> _TopicMetrics:
        """Return the sensors for a batch's topic; topics beyond `TOPICS_MAX` get sensors that are never reported."""
        name = batch.queue.partition.topic
        topic = self._topics.get(name)
        if topic is None:
            if len(self._topics) >= TOPICS_MAX:
                return self._others
            topic = self._topics[name] = _TopicMetrics(self._registry, name)
        return topic
