"""RenewDelegationToken: let a delegation token expire later.

1: throttle time. 2: flexible.
"""

from __future__ import annotations

from collections.abc import Callable

from kafkawire.reference_broker.requests.api_handlers import serves
from kafkawire.reference_broker.requests.call import Call
from kafkawire.reference_broker.requests.delayed_operations import DelayedOperation, given_later
from kafkawire.reference_broker.requests.token_requests import NO_TIME, may_send_token_requests
from kafkawire.reference_broker.security.delegation_tokens import DelegationTokens
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.messages.renew_delegation_token import (
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
)
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode

__all__ = ["handle"]


@serves(ApiKey.RENEW_DELEGATION_TOKEN)
def handle(
    call: Call, request: RenewDelegationTokenRequest, *, tokens: DelegationTokens
) -> RenewDelegationTokenResponse | DelayedOperation:
    """Handle RenewDelegationToken; the response waits until the change is stored."""
    if not may_send_token_requests(call.peer):
        return RenewDelegationTokenResponse(ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, NO_TIME)

    def ask(give: Callable[[RenewDelegationTokenResponse], None]) -> None:
        def changed(result: int | BrokerError) -> None:
            if isinstance(result, BrokerError):
                # A KRaft controller leaves the time in its response at 0.
                give(RenewDelegationTokenResponse(result.code, NO_TIME if tokens.is_in_registry else 0))
            else:
                give(RenewDelegationTokenResponse(ErrorCode.NONE, result))

        tokens.renew(call.peer.principal, bytes(request.hmac), request.renew_period_ms, call.now_ms, changed)

    return given_later(ask)
