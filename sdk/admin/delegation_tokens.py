"""Delegation tokens: create, renew, expire and describe them.

Source: KIP-48, KIP-373 (tokens for other principals).
"""

from __future__ import annotations

import base64
from collections.abc import Collection, Sequence
from typing import Final

from kafkawire.sdk.admin.releases import versioned
from kafkawire.sdk.admin.token_values import DelegationToken, Principal
from kafkawire.sdk.client.operations import Operations
from kafkawire.sdk.protocol import messages
from kafkawire.sdk.routing.call import ANY_BROKER
from kafkawire.sdk.routing.requests import check
from kafkawire.sdk.secret import Secret

__all__ = [
    "create_delegation_token",
    "describe_delegation_tokens",
    "expire_delegation_token",
    "renew_delegation_token",
]

#: The value that stands for the broker's limit, or for "now" when a token expires.
_DEFAULT: Final = -1


async def create_delegation_token(
    operations: Operations, owner: Principal | None, renewers: Sequence[Principal], max_lifetime_ms: int | None
) -> DelegationToken:
    """Create a token; see `Admin.create_delegation_token`."""
    kind = messages.CreateDelegationTokenRequest
    request = kind(
        renewers=[kind.CreatableRenewers(*each) for each in renewers],
        max_lifetime_ms=_DEFAULT if max_lifetime_ms is None else max_lifetime_ms,
    )
    if owner is not None:
        request.owner_principal_type, request.owner_principal_name = owner
    response = await operations.request(
        ANY_BROKER,
        versioned(request, None if owner is None else "owner_principal_name"),
        messages.CreateDelegationTokenResponse,
        lambda response: check(response.error_code, "create delegation token"),
    )
    own = str(Principal(response.principal_type, response.principal_name))
    return DelegationToken(
        response.token_id,
        _password(response.hmac),
        own,
        _requester(response.token_requester_principal_type, response.token_requester_principal_name, own),
        tuple(map(str, renewers)),
        response.issue_timestamp_ms,
        response.expiry_timestamp_ms,
        response.max_timestamp_ms,
    )


async def renew_delegation_token(operations: Operations, hmac: bytes, renew_period_ms: int | None) -> int:
    """Let a token expire later; see `Admin.renew_delegation_token`."""
    response = await operations.request(
        ANY_BROKER,
        versioned(messages.RenewDelegationTokenRequest(hmac, _DEFAULT if renew_period_ms is None else renew_period_ms)),
        messages.RenewDelegationTokenResponse,
        lambda response: check(response.error_code, "renew delegation token"),
    )
    return response.expiry_timestamp_ms


async def expire_delegation_token(operations: Operations, hmac: bytes, expiry_period_ms: int | None) -> int:
    """Let a token expire at another time; see `Admin.expire_delegation_token`."""
    period_ms = _DEFAULT if expiry_period_ms is None else expiry_period_ms
    response = await operations.request(
        ANY_BROKER,
        versioned(messages.ExpireDelegationTokenRequest(hmac, period_ms)),
        messages.ExpireDelegationTokenResponse,
        lambda response: check(response.error_code, "expire delegation token"),
    )
    return response.expiry_timestamp_ms


async def describe_delegation_tokens(
    operations: Operations, owners: Collection[Principal] | None
) -> list[DelegationToken]:
    """Return tokens; see `Admin.describe_delegation_tokens`."""
    kind = messages.DescribeDelegationTokenRequest
    asked = None if owners is None else [kind.DescribeDelegationTokenOwner(*each) for each in owners]
    response = await operations.request(
        ANY_BROKER,
        versioned(kind(asked)),
        messages.DescribeDelegationTokenResponse,
        lambda response: check(response.error_code, "describe delegation tokens"),
    )
    return [_described(token) for token in response.tokens]


def _described(token: messages.DescribeDelegationTokenResponse.DescribedDelegationToken) -> DelegationToken:
    owner = str(Principal(token.principal_type, token.principal_name))
    return DelegationToken(
        token.token_id,
        _password(token.hmac),
        owner,
        _requester(token.token_requester_principal_type, token.token_requester_principal_name, owner),
        tuple(str(Principal(each.principal_type, each.principal_name)) for each in token.renewers),
        token.issue_timestamp,
        token.expiry_timestamp,
        token.max_timestamp,
    )


def _password(hmac: bytes | bytearray | memoryview) -> Secret:
    return Secret(base64.b64encode(hmac).decode())


def _requester(kind: str, name: str, owner: str) -> str:
    return str(Principal(kind, name)) if kind else owner
