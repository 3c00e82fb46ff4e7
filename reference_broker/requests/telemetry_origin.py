"""Where a request about client metrics comes from.

Source: Apache Kafka, `ClientMetricsInstanceMetadata`, which takes the same from a request's context.
"""

from __future__ import annotations

from kafkawire.reference_broker.requests.call import Call
from kafkawire.reference_broker.telemetry.client_metrics import ClientOrigin

__all__ = ["origin_of"]


def origin_of(call: Call) -> ClientOrigin:
    """Return what a request says about its client."""
    peer = call.peer
    return ClientOrigin(
        call.client_id,
        peer.software_name,
        peer.software_version,
        peer.host.removeprefix("/"),
        peer.port,
        peer.farewells,
    )
