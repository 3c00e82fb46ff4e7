"""A producer counts records that were sent, sent again or failed, with sizes and times, in total and per topic.

Method: simulate a producer whose brokers reject batches on demand.
"""

from __future__ import annotations

import pytest

from kafkawire.sdk.metrics.names import MetricName
from kafkawire.sdk.producer import producer_metrics
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from tests.sdk.producer.simulated import SimulatedProducer, refused, sent


def read(producer: SimulatedProducer, topic: str | None = None) -> dict[str, float]:
    """Return the metrics of a producer or of one topic, keyed by name."""
    group = "producer-metrics" if topic is None else "producer-topic-metrics"
    tags = () if topic is None else (("topic", topic),)
    found = producer.router.metrics.read(producer.simulation.now_ms)
    return {name.name: value for name, value in found.items() if (name.group, name.tags) == (group, tags)}


def test_records_and_bytes() -> None:
    producer = SimulatedProducer({"t": [1], "u": [1]}, linger_ms=20, compression="zstd")
    for _ in range(10):
        producer.send("t", b"x" * 1_000, partition=0)
    producer.send("u", b"y", partition=0)
    producer.run(5_000)
    everything, topic = read(producer), read(producer, "t")
    assert (everything["record-send-total"], topic["record-send-total"], read(producer, "u")["record-send-total"]) == (
        11,
        10,
        1,
    )
    assert everything["batch-size-max"] == topic["byte-total"] < 1_000
    assert everything["compression-rate-avg"] < 0.2
    assert everything["record-queue-time-max"] >= 20
    assert everything["records-per-request-avg"] > 1
    assert everything["request-latency-avg"] == producer.simulation.latency_ms
    assert (everything["requests-in-flight"], everything["record-retry-total"], everything["record-error-total"]) == (
        0,
        0,
        0,
    )


def test_the_buffer() -> None:
    producer = SimulatedProducer(buffer_memory=10_000_000, linger_ms=1_000)
    producer.learn()
    producer.send("t", b"x" * 50_000, partition=0)
    producer.simulation.run(10)
    held = read(producer)
    assert held["buffer-total-bytes"] == 10_000_000
    assert 9_000_000 < held["buffer-available-bytes"] < 9_950_000
    producer.run(5_000)
    assert read(producer)["buffer-available-bytes"] == 10_000_000


def test_retries_and_failures() -> None:
    producer = SimulatedProducer()
    producer.learn()
    producer.refuse = refused(ErrorCode.NOT_ENOUGH_REPLICAS, times=2)
    sent(producer, b"again", 5_000)
    producer.refuse = refused(ErrorCode.INVALID_RECORD)
    sent(producer, b"never", 5_000)
    found = read(producer, "t")
    assert (found["record-send-total"], found["record-retry-total"], found["record-error-total"]) == (5, 2, 1)
    assert read(producer)["record-error-total"] == 1


def test_batches_that_were_split() -> None:
    producer = SimulatedProducer(linger_ms=20)
    producer.learn()
    producer.max_batch_bytes = 2_000
    for _ in range(4):
        producer.send("t", b"x" * 900, partition=0)
    producer.run(5_000)
    assert read(producer)["batch-split-total"] >= 1


def test_more_topics_than_have_metrics(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(producer_metrics, "TOPICS_MAX", 1)
    producer = SimulatedProducer({"t": [1], "u": [1]})
    for topic in "tu":
        producer.send(topic, b"x", partition=0)
        producer.run(2_000)
    assert read(producer)["record-send-total"] == 2
    assert (read(producer, "t")["record-send-total"], read(producer, "u")) == (1, {})
    assert MetricName("producer-topic-metrics", "byte-rate", (("topic", ""),)) not in producer.router.metrics.read(0)
