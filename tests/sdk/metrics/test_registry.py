"""Sensors and gauges are read under their catalogue names, with tags, and their number is limited."""

from __future__ import annotations

import pytest

from kafkawire.sdk.errors import LocalProtocolError
from kafkawire.sdk.metrics.catalogue import CLIENT, FETCH, NODE, PRODUCER, TOPIC
from kafkawire.sdk.metrics.names import MetricName
from kafkawire.sdk.metrics.registry import SENSORS_MAX, Registry

NOW_MS = 30_000


def test_a_sensor_has_all_names_of_its_families() -> None:
    registry = Registry("producer")
    sensor = registry.sensor(PRODUCER, "record-send")
    assert registry.sensor(PRODUCER, "record-send") is sensor
    for value in (10, 50):
        sensor.record(value, 0)
    assert registry.read(NOW_MS) == {
        MetricName("producer-metrics", "record-send-rate"): 2,
        MetricName("producer-metrics", "record-send-total"): 60,
    }


def test_families_that_share_a_sensor() -> None:
    registry = Registry("consumer")
    registry.sensor(FETCH, "fetch", "fetch-latency").record(600, 0)
    assert {name.name: value for name, value in registry.read(NOW_MS).items()} == {
        "fetch-rate": 1 / 30,  # counts responses
        "fetch-total": 1,
        "fetch-latency-avg": 600,
        "fetch-latency-max": 600,
    }


def test_hourly_rates() -> None:
    registry = Registry("consumer")
    registry.sensor("consumer-coordinator-metrics", "rebalance", "rebalance-latency").record(250, 0)
    read = {name.name: value for name, value in registry.read(NOW_MS).items()}
    assert (read["rebalance-rate-per-hour"], read["rebalance-total"], read["rebalance-latency-total"]) == (120, 1, 250)


def test_groups_of_all_clients_bear_the_kind() -> None:
    registry = Registry("admin-client")
    registry.gauge(CLIENT, "connection-count", lambda now_ms: 3)
    registry.sensor(NODE, "request-latency", tags=(("node-id", "node-1"),)).record(1, 0)
    registry.source(lambda now_ms: [(MetricName("a", "b"), now_ms)])
    assert registry.read(7) == {
        MetricName("admin-client-metrics", "connection-count"): 3,
        MetricName("admin-client-node-metrics", "request-latency-avg", (("node-id", "node-1"),)): 1,
        MetricName("admin-client-node-metrics", "request-latency-max", (("node-id", "node-1"),)): 1,
        MetricName("a", "b"): 7,
    }


def test_a_gauge_is_one_in_the_catalogue() -> None:
    with pytest.raises(LocalProtocolError, match="rebalance of consumer-coordinator-metrics is not a gauge"):
        Registry("consumer").gauge("consumer-coordinator-metrics", "rebalance", lambda now_ms: 1)


def test_there_is_a_limit() -> None:
    registry = Registry("producer")
    for number in range(SENSORS_MAX + 5):
        registry.sensor(TOPIC, "byte", tags=(("topic", f"t{number}"),)).record(1, 0)
    assert len(registry.read(NOW_MS)) == 2 * SENSORS_MAX
