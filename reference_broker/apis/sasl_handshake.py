"""SaslHandshake: choose the mechanism for a login; the response lists the mechanisms that a listener offers.

0: the login's tokens follow without a request header. 1: they follow in SaslAuthenticate.

A listener without SASL answers too, because clients mistake a broker that does not support this API for a Kafka release
before 0.10.
"""

from __future__ import annotations

from kafkawire.reference_broker.requests.api_handlers import serves
from kafkawire.reference_broker.requests.call import Call
from kafkawire.sdk.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode

__all__ = ["handle"]


@serves(ApiKey.SASL_HANDSHAKE)
def handle(call: Call, request: SaslHandshakeRequest) -> SaslHandshakeResponse:
    """Handle SaslHandshake on a listener without SASL, where no login is possible."""
    return SaslHandshakeResponse(ErrorCode.ILLEGAL_SASL_STATE)
