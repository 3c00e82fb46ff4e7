"""ExpireDelegationToken: let a delegation token expire at another time, or remove it.

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
from kafkawire.sdk.protocol.messages.expire_delegation_token import (
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
)
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode

__all__ = ["handle"]


@serves(ApiKey.EXPIRE_DELEGATION_TOKEN)
def handle(
    call: Call, request: ExpireDelegationTokenRequest, *, tokens: DelegationTokens
) -> ExpireDelegationTokenResponse | DelayedOperation:
    """Handle ExpireDelegationToken; the response waits until the change is stored."""
    if not may_send_token_requests(call.peer):
        return ExpireDelegationTokenResponse(ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, NO_TIME)

    def ask(give: Callable[[ExpireDelegationTokenResponse], None]) -> None:
        def changed(result: int | BrokerError) -> None:
            if isinstance(result, BrokerError):
                # A KRaft controller leaves the time in its response at 0.
                give(ExpireDelegationTokenResponse(result.code, NO_TIME if tokens.is_in_registry else 0))
            else:
                give(ExpireDelegationTokenResponse(ErrorCode.NONE, result))

        tokens.expire(call.peer.principal, bytes(request.hmac), request.expiry_time_period_ms, call.now_ms, changed)

    return given_later(ask)
