"""DescribeDelegationToken: list the delegation tokens that the client may see.

1: throttle time. 2: flexible. 3: the requester of each token (KIP-373).
"""

from __future__ import annotations

from kafkawire.reference_broker.metadata.principal import KafkaPrincipal
from kafkawire.reference_broker.metadata.token_store import TokenInformation
from kafkawire.reference_broker.requests.api_handlers import serves, since
from kafkawire.reference_broker.requests.call import Call
from kafkawire.reference_broker.requests.token_requests import may_send_token_requests
from kafkawire.reference_broker.security.authorizer import Authorizer
from kafkawire.reference_broker.security.delegation_tokens import DelegationTokens
from kafkawire.reference_broker.work.pieces import Work
from kafkawire.sdk.protocol.messages.describe_delegation_token import (
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.enums import AclOperation, ResourceType
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode

__all__ = ["handle"]

Described = DescribeDelegationTokenResponse.DescribedDelegationToken
Renewer = DescribeDelegationTokenResponse.DescribedDelegationTokenRenewer

_NAMES_REQUESTER_SINCE = since(Described, "token_requester_principal_name")


@serves(ApiKey.DESCRIBE_DELEGATION_TOKEN)
def handle(
    call: Call, request: DescribeDelegationTokenRequest, *, authorizer: Authorizer, tokens: DelegationTokens
) -> Work[DescribeDelegationTokenResponse]:
    """Handle DescribeDelegationToken."""
    if not may_send_token_requests(call.peer):
        return DescribeDelegationTokenResponse(ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED)
    if not tokens.is_enabled:
        return DescribeDelegationTokenResponse(ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED)
    owners = None
    if request.owners is not None:
        owners = {KafkaPrincipal(each.principal_type, each.principal_name) for each in request.owners}

    def may_describe(token: TokenInformation) -> bool:
        return authorizer.allows(
            call, AclOperation.DESCRIBE, ResourceType.DELEGATION_TOKEN, token.token_id
        ) or authorizer.allows(call, AclOperation.DESCRIBE_TOKENS, ResourceType.USER, str(token.owner))

    found = tokens.describe(call.peer.principal, owners, may_describe)
    hmacs = [tokens.hmac_of(token.token_id) for token in found]
    names_requester = call.version >= _NAMES_REQUESTER_SINCE
    described = []
    for token, token_hmac in zip(found, hmacs, strict=True):
        described.append(
            Described(
                token.owner.kind,
                token.owner.name,
                *(token.requester if names_requester else ("", "")),
                token.issued_ms,
                token.expires_ms,
                token.max_ms,
                token.token_id,
                token_hmac,
                [Renewer(*renewer) for renewer in token.renewers],
            )
        )
        yield
    return DescribeDelegationTokenResponse(ErrorCode.NONE, described)
