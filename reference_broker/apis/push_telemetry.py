"""PushTelemetry: take the metrics that a client pushes (KIP-714).

0: flexible from the start.
"""

from __future__ import annotations

from kafkawire.reference_broker.requests.api_handlers import Scope, serves
from kafkawire.reference_broker.requests.call import Call
from kafkawire.reference_broker.requests.telemetry_origin import origin_of
from kafkawire.reference_broker.telemetry.client_metrics import ClientMetrics, Push
from kafkawire.reference_broker.work.pieces import Work
from kafkawire.sdk.protocol.messages.push_telemetry import PushTelemetryRequest, PushTelemetryResponse
from kafkawire.sdk.protocol.tables.apis import ApiKey

__all__ = ["handle"]


@serves(ApiKey.PUSH_TELEMETRY, scope=Scope.ALONE)
def handle(call: Call, request: PushTelemetryRequest, *, client_metrics: ClientMetrics) -> Work[PushTelemetryResponse]:
    """Handle PushTelemetry."""
    push = Push(
        request.client_instance_id,
        request.subscription_id,
        request.terminating,
        request.compression_type,
        request.metrics,
    )
    code = yield from client_metrics.push(push, origin_of(call), call.now_ms)
    return PushTelemetryResponse(error_code=code)
