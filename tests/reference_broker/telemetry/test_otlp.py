"""Metrics are decoded as OpenTelemetry encodes them, and damaged ones are errors of one kind.

Method: decode hand-built messages and those of kafkawire's own clients, cut them at every byte, and damage them at
random.
"""

from __future__ import annotations

import random

import pytest

from kafkawire.reference_broker.telemetry.otlp import MetricPoint, metric_points
from kafkawire.sdk.client.otlp import Point, metrics_data
from kafkawire.sdk.errors import DecodeError
from kafkawire.sdk.metrics.names import MetricName
from tests.reference_broker.telemetry.otlp_content import attribute, content, gauge, nested, point, sum_of, varint


def decoded(data: bytes) -> list[MetricPoint]:
    return [each for each in metric_points(memoryview(data)) if each is not None]


def test_gauges_and_sums() -> None:
    data = content(
        gauge("g", point(1.5, 7, topic="t", a="ü"), point(-3, 8)),
        sum_of("delta", point(2.0)),
        sum_of("total", point(2**53, topic="t"), is_delta=False),
        sum_of("balance", point(-1.0), is_delta=False, is_counter=False),
        resource=[attribute(1, "client_rack", "r"), attribute(1, "topic", "hidden")],
    )
    common = ("client_rack", "r"), ("topic", "hidden")
    assert decoded(data) == [
        MetricPoint("g", (("a", "ü"), ("client_rack", "r"), ("topic", "t")), 1.5, False, False, 7),
        MetricPoint("g", common, -3.0, False, False, 8),
        MetricPoint("delta", common, 2.0, True, True, 0),
        MetricPoint("total", (("client_rack", "r"), ("topic", "t")), 2.0**53, False, True, 0),
        MetricPoint("balance", common, -1.0, False, False, 0),
    ]


def test_values_of_attributes() -> None:
    values = {"s": "text", "t": True, "f": False, "i": -5, "d": 0.5}
    data = content(gauge("g", point(1.0)), resource=[attribute(1, *each) for each in values.items()])
    (found,) = decoded(data)
    assert dict(found.labels) == {"s": "text", "t": "true", "f": "false", "i": "-5", "d": "0.5"}


@pytest.mark.parametrize(
    "data",
    [
        b"",
        content(),
        content(nested(1, b"histogram") + nested(9, nested(1, b""))),
        content(gauge("without points")),
        content(gauge("a point without a value", nested(1, b""))),
        nested(9, b"unknown") + varint(10 << 3) + varint(5) + varint(11 << 3 | 5) + bytes(4),
        content(gauge("g"), resource=[nested(1, nested(1, b"key") + nested(2, nested(5, b"")))]),
    ],
)
def test_what_is_skipped(data: bytes) -> None:
    assert decoded(data) == []


def test_a_name_behind_its_values() -> None:
    data = nested(5, point(1.0)) + nested(1, b"late")
    assert [each.name for each in decoded(content(data))] == ["late"]


@pytest.mark.parametrize("is_delta", [True, False])
def test_what_our_own_clients_push(is_delta: bool) -> None:
    metrics = [
        Point(MetricName("producer-metrics", "record-queue-time-avg"), 1.5, False),
        Point(MetricName("consumer-fetch-manager-metrics", "records-consumed-total", (("topic", "t"),)), 7.0, True),
    ]
    gauge_, total = decoded(metrics_data(metrics, {"group_id": "g"}, 5, 7_000, is_delta=is_delta))
    assert gauge_ == MetricPoint(
        "org.apache.kafka.producer.record.queue.time.avg", (("group_id", "g"),), 1.5, False, False, 7_000
    )
    assert total[1:] == ((("group_id", "g"), ("topic", "t")), 7.0, is_delta, True, 7_000)


@pytest.mark.parametrize(
    "data",
    [
        b"\x0a",
        b"\x0a\x05abc",
        b"\x80" * 10 + b"\x01",
        b"\x03",
        b"\x02\x00",
        b"\x09" + bytes(7),
        b"\x0d" + bytes(3),
        content(nested(1, b"\xff")),
        content(gauge("g", point(1.0, topic="t"))[:-1]),
    ],
)
def test_damage(data: bytes) -> None:
    with pytest.raises(DecodeError, match=r"^metrics at byte"):
        decoded(data)


def test_any_bytes_give_points_or_one_kind_of_error() -> None:
    sound = content(gauge("g", point(1.5, 7, topic="t")), sum_of("s", point(3)), resource=[attribute(1, "k", "v")])
    for end in range(len(sound)):
        try:
            decoded(sound[:end])
        except DecodeError:
            continue
    random_ = random.Random(7)
    for _ in range(3_000):
        damaged = bytearray(sound)
        for _ in range(random_.randrange(1, 4)):
            damaged[random_.randrange(len(damaged))] = random_.randrange(256)
        try:
            decoded(bytes(damaged))
        except DecodeError:
            continue
