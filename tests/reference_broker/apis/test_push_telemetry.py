"""A push is limited by the broker's option; `telemetry/test_client_metrics.py` covers other answers.

Method: push to a broker without sockets.
"""

from __future__ import annotations

import pytest

from kafkawire.reference_broker.storage.disk.memory import MemoryDisk
from kafkawire.sdk.protocol.messages.get_telemetry_subscriptions import GetTelemetrySubscriptionsRequest
from kafkawire.sdk.protocol.messages.push_telemetry import PushTelemetryRequest
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from tests.reference_broker.broker_bench import BrokerBench
from tests.reference_broker.telemetry.otlp_content import content, gauge, point

METRICS = content(gauge("g", point(1.0)))


@pytest.mark.parametrize(
    ("limit_bytes", "code"), [(len(METRICS), ErrorCode.NONE), (len(METRICS) - 1, ErrorCode.TELEMETRY_TOO_LARGE)]
)
def test_the_size_of_a_push(limit_bytes: int, code: ErrorCode) -> None:
    bench = BrokerBench(MemoryDisk(), telemetry_max_bytes=limit_bytes)
    subscribed = bench.ask(GetTelemetrySubscriptionsRequest())
    push = PushTelemetryRequest(subscribed.client_instance_id, subscribed.subscription_id, metrics=METRICS)
    assert bench.ask(push).error_code == code
    assert [sample.name for sample in bench.core.client_metrics.samples()] == ([] if code else ["g"])
