"""GetTelemetrySubscriptions: tell a client which metrics to push, and how often (KIP-714).

0: flexible from the start.

As in an Apache Kafka broker without a plugin that receives metrics, the API works even if it is not advertised.
"""

from __future__ import annotations

from typing import Final

from kafkawire.reference_broker.config.options import BrokerOptions
from kafkawire.reference_broker.requests.api_handlers import Scope, serves
from kafkawire.reference_broker.requests.call import Call
from kafkawire.reference_broker.requests.telemetry_origin import origin_of
from kafkawire.reference_broker.telemetry.client_metrics import ClientMetrics
from kafkawire.reference_broker.work.pieces import Work
from kafkawire.sdk.protocol.messages.get_telemetry_subscriptions import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
)
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.records import Compression

__all__ = ["handle"]

#: The compressions that Kafka names, the best one first.
_COMPRESSIONS: Final = (Compression.ZSTD, Compression.LZ4, Compression.GZIP, Compression.SNAPPY)


@serves(ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, scope=Scope.ALONE)
def handle(
    call: Call, request: GetTelemetrySubscriptionsRequest, *, client_metrics: ClientMetrics, options: BrokerOptions
) -> Work[GetTelemetrySubscriptionsResponse]:
    """Handle GetTelemetrySubscriptions."""
    found = yield from client_metrics.subscribe(request.client_instance_id, origin_of(call), call.now_ms)
    if isinstance(found, ErrorCode):
        return GetTelemetrySubscriptionsResponse(error_code=found)
    return GetTelemetrySubscriptionsResponse(
        client_instance_id=found.client_instance_id,
        subscription_id=found.subscription_id,
        accepted_compression_types=_COMPRESSIONS,
        push_interval_ms=found.wanted.interval_ms,
        telemetry_max_bytes=options.telemetry_max_bytes,
        delta_temporality=True,
        requested_metrics=found.wanted.metrics,
    )
