"""SaslAuthenticate: exchange the tokens of a login.

0: the tokens. 1: how long the login lasts. 2: flexible.
"""

from __future__ import annotations

from kafkawire.reference_broker.requests.api_handlers import serves
from kafkawire.reference_broker.requests.call import Call
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode

__all__ = ["handle"]


@serves(ApiKey.SASL_AUTHENTICATE)
def handle(call: Call, request: SaslAuthenticateRequest) -> SaslAuthenticateResponse:
    """Handle SaslAuthenticate on a listener without SASL, which accepts clients without a login.

    Raises:
        BrokerError: ILLEGAL_SASL_STATE, always.
    """
    reason = "SaslAuthenticate request received after successful authentication"
    raise BrokerError(ErrorCode.ILLEGAL_SASL_STATE, reason)
