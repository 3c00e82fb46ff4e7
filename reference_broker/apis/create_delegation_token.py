"""CreateDelegationToken: create a credential that expires (KIP-48).

1: throttle time. 2: flexible. 3: a token for another principal than the requester (KIP-373).
"""

from __future__ import annotations

from collections.abc import Callable

from kafkawire.reference_broker.metadata.principal import ANONYMOUS, USER, KafkaPrincipal
from kafkawire.reference_broker.metadata.token_store import TokenInformation
from kafkawire.reference_broker.requests.api_handlers import serves, since
from kafkawire.reference_broker.requests.call import Call
from kafkawire.reference_broker.requests.delayed_operations import DelayedOperation, given_later
from kafkawire.reference_broker.requests.token_requests import NO_TIME, may_send_token_requests
from kafkawire.reference_broker.security.authorizer import Authorizer
from kafkawire.reference_broker.security.delegation_tokens import DelegationTokens, TokenRequest
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.messages.create_delegation_token import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.enums import AclOperation, ResourceType
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode

__all__ = ["handle"]

_NAMES_REQUESTER_SINCE = since(CreateDelegationTokenResponse, "token_requester_principal_name")


@serves(ApiKey.CREATE_DELEGATION_TOKEN)
def handle(
    call: Call, request: CreateDelegationTokenRequest, *, authorizer: Authorizer, tokens: DelegationTokens
) -> CreateDelegationTokenResponse | DelayedOperation:
    """Handle CreateDelegationToken; the response waits until the token is stored."""
    requester = owner = call.peer.principal
    if request.owner_principal_name:
        if request.owner_principal_type is None:  # Kafka fails on this before anything else
            return _response(call, ANONYMOUS, ANONYMOUS, ErrorCode.UNKNOWN_SERVER_ERROR, NO_TIME)
        owner = KafkaPrincipal(request.owner_principal_type, request.owner_principal_name)
    renewers = tuple(KafkaPrincipal(each.principal_type, each.principal_name) for each in request.renewers)

    def refused(code: ErrorCode, time_ms: int) -> CreateDelegationTokenResponse:
        return _response(call, owner, requester, code, time_ms)

    if not may_send_token_requests(call.peer):
        return refused(ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, NO_TIME)
    if owner != requester and not authorizer.allows(call, AclOperation.CREATE_TOKENS, ResourceType.USER, str(owner)):
        return refused(ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED, NO_TIME)
    if any(renewer.kind != USER for renewer in renewers):
        return refused(ErrorCode.INVALID_PRINCIPAL_TYPE, NO_TIME)

    def ask(give: Callable[[CreateDelegationTokenResponse], None]) -> None:
        def created(token: TokenInformation | BrokerError) -> None:
            if isinstance(token, BrokerError):
                # A KRaft controller leaves the times in its response at 0.
                give(refused(token.code, NO_TIME if tokens.is_in_registry else 0))
                return
            response = _response(call, owner, requester, ErrorCode.NONE, token.issued_ms)
            response.expiry_timestamp_ms, response.max_timestamp_ms = token.expires_ms, token.max_ms
            response.token_id, response.hmac = token.token_id, tokens.hmac_of(token.token_id)
            give(response)

        tokens.create(TokenRequest(requester, owner, renewers, request.max_lifetime_ms), call.now_ms, created)

    return given_later(ask)


def _response(
    call: Call, owner: KafkaPrincipal, requester: KafkaPrincipal, code: ErrorCode, time_ms: int
) -> CreateDelegationTokenResponse:
    response = CreateDelegationTokenResponse(
        code,
        principal_type=owner.kind,
        principal_name=owner.name,
        issue_timestamp_ms=time_ms,
        expiry_timestamp_ms=time_ms,
        max_timestamp_ms=time_ms,
    )
    if call.version >= _NAMES_REQUESTER_SINCE:
        response.token_requester_principal_type, response.token_requester_principal_name = requester
    return response
