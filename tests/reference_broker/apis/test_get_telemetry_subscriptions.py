"""The API is served, but advertised only on request; `telemetry/test_client_metrics.py` covers its answers.

Method: ask a broker without sockets for its APIs and for a subscription, with and without the option.
"""

from __future__ import annotations

import pytest

from kafkawire.reference_broker.storage.disk.memory import MemoryDisk
from kafkawire.sdk.protocol.messages.api_versions import ApiVersionsRequest
from kafkawire.sdk.protocol.messages.get_telemetry_subscriptions import GetTelemetrySubscriptionsRequest
from kafkawire.sdk.protocol.tables.apis import ApiKey
from tests.reference_broker.broker_bench import BrokerBench


@pytest.mark.parametrize("is_enabled", [True, False])
def test_it_is_advertised_on_request(is_enabled: bool) -> None:
    bench = BrokerBench(MemoryDisk(), client_metrics_enable=is_enabled)
    keys = {each.api_key for each in bench.ask(ApiVersionsRequest("kafkawire", "1")).api_keys}
    assert ({ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, ApiKey.PUSH_TELEMETRY} <= keys) is is_enabled
    assert ApiKey.METADATA in keys


def test_a_subscription() -> None:
    bench = BrokerBench(MemoryDisk(), telemetry_max_bytes=1_000)
    response = bench.ask(GetTelemetrySubscriptionsRequest())
    assert (response.error_code, response.telemetry_max_bytes, response.push_interval_ms) == (0, 1_000, 300_000)
    assert (response.requested_metrics, response.delta_temporality) == ((), True)
