"""OpenTelemetry's own classes read back exactly the metrics that were encoded.

Method: decode the bytes with the opentelemetry-proto package; for machines without the package, compare the bytes of
the smallest message with a literal.
"""

from __future__ import annotations

import pytest

from kafkawire.sdk.client.otlp import Point, metrics_data, otlp_name
from kafkawire.sdk.metrics.names import MetricName

QUEUE = MetricName("producer-metrics", "record-queue-time-avg")
LATENCY = MetricName("consumer-node-metrics", "request-latency-max", (("node-id", "node-1"),))
TOTAL = MetricName("consumer-fetch-manager-metrics", "records-consumed-total", (("topic", "täglich"),))


def test_names() -> None:
    """The names follow the tables in KIP-714."""
    assert otlp_name(QUEUE) == "org.apache.kafka.producer.record.queue.time.avg"
    assert otlp_name(LATENCY) == "org.apache.kafka.consumer.node.request.latency.max"
    assert otlp_name(TOTAL) == "org.apache.kafka.consumer.fetch.manager.records.consumed.total"


def test_bytes() -> None:
    times = b"\x11" + (1_000_000).to_bytes(8, "little") + b"\x19" + (2_000_000).to_bytes(8, "little")
    gauge = nested("2a", nested("0a", times + bytes.fromhex("21 0000000000000440")))  # 2.5, as a little-endian double
    metric = nested("0a", b"org.apache.kafka.producer.record.queue.time.avg") + gauge
    scope = nested("0a", nested("0a", b"kafkawire")) + nested("12", metric)
    expected = nested("0a", nested("0a", b"") + nested("12", scope))
    assert metrics_data([Point(QUEUE, 2.5, False)], {}, 1, 2, is_delta=False) == expected


def nested(tag: str, content: bytes) -> bytes:
    """Return a protobuf field of less than 16 KiB."""
    low, high = len(content) & 0x7F, len(content) >> 7
    return bytes.fromhex(tag) + (bytes([low | 0x80, high]) if high else bytes([low])) + content


@pytest.mark.parametrize("is_delta", [False, True])
def test_it_is_read_by_opentelemetry(is_delta: bool) -> None:
    pb = pytest.importorskip("opentelemetry.proto.metrics.v1.metrics_pb2", reason="needs opentelemetry-proto")
    points = [Point(QUEUE, 1.5, False), Point(LATENCY, 300.0, False), Point(TOTAL, 2.0**53, True)]
    written = metrics_data(points, {"group_id": "g", "client_rack": "r" * 200}, 5, 7_000, is_delta=is_delta)
    (resource,) = pb.MetricsData.FromString(written).resource_metrics
    assert {each.key: each.value.string_value for each in resource.resource.attributes} == {
        "group_id": "g",
        "client_rack": "r" * 200,
    }
    (scope,) = resource.scope_metrics
    assert scope.scope.name == "kafkawire"
    queue, latency, total = scope.metrics
    assert [each.name for each in scope.metrics] == [otlp_name(point.metric) for point in points]
    (point,) = queue.gauge.data_points
    assert (point.as_double, point.start_time_unix_nano, point.time_unix_nano) == (1.5, 5_000_000, 7_000_000_000)
    (point,) = latency.gauge.data_points
    assert [(each.key, each.value.string_value) for each in point.attributes] == [("node_id", "node-1")]
    (point,) = total.sum.data_points
    assert (point.as_double, point.attributes[0].value.string_value) == (2.0**53, "täglich")
    assert (total.sum.is_monotonic, total.sum.aggregation_temporality) == (True, 1 if is_delta else 2)
