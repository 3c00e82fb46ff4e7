"""The output follows OpenMetrics, with grouped families, totals as counters, escaped text and an end marker.

Method: compare with literal text, which follows the examples in the specification.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import nan

import pytest

from kafkawire.sdk.errors import LocalProtocolError
from kafkawire.sdk.metrics.names import MetricName
from kafkawire.sdk.metrics.openmetrics import openmetrics


class Client:
    def __init__(self, client_id: str, metrics: Mapping[MetricName, float]) -> None:
        self.client_id = client_id
        self._metrics = metrics

    def metrics(self) -> Mapping[MetricName, float]:
        return self._metrics


SEND = MetricName("producer-metrics", "record-send-total")
QUEUE = MetricName("producer-metrics", "record-queue-time-avg")
TOPIC = MetricName("producer-topic-metrics", "byte-rate", (("topic", "t"),))
NODE = MetricName("producer-node-metrics", "request-latency-max", (("node-id", "node-1"),))


def test_the_text() -> None:
    first = Client('a"\\\n', {SEND: 3.0, QUEUE: nan})
    second = Client("b", {SEND: 4.5, TOPIC: 0.5, NODE: 7.0})
    assert openmetrics(first, second) == "\n".join(
        [
            "# TYPE kafka_producer_node_request_latency_max gauge",
            "# HELP kafka_producer_node_request_latency_max ms from a request to its response, highest",
            'kafka_producer_node_request_latency_max{client_id="b",node_id="node-1"} 7.0',
            "# TYPE kafka_producer_record_queue_time_avg gauge",
            "# HELP kafka_producer_record_queue_time_avg ms from a batch's first record until it was sent, average",
            'kafka_producer_record_queue_time_avg{client_id="a\\"\\\\\\n"} NaN',
            "# TYPE kafka_producer_record_send counter",
            "# HELP kafka_producer_record_send records sent, retries included, in total",
            'kafka_producer_record_send_total{client_id="a\\"\\\\\\n"} 3.0',
            'kafka_producer_record_send_total{client_id="b"} 4.5',
            "# TYPE kafka_producer_topic_byte_rate gauge",
            "# HELP kafka_producer_topic_byte_rate bytes of batches sent, after compression, per second",
            'kafka_producer_topic_byte_rate{client_id="b",topic="t"} 0.5',
            "# EOF\n",
        ]
    )
    assert openmetrics() == "# EOF\n"


def test_clients_of_one_name() -> None:
    with pytest.raises(LocalProtocolError, match=r"kafka_producer_record_send_total.*give each a different client_id"):
        openmetrics(Client("a", {SEND: 1}), Client("a", {SEND: 2}))
