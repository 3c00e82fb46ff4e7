"""Delegation tokens (KIP-48), and the interface to where they are stored.

    request ──▶ DelegationTokens ──change──▶ TokenStore ──on_change──▶ DelegationTokens

A single broker keeps them in a file (`local_token_store.py`), and a cluster keeps them in its registry
(`cluster/registry_tokens.py`), both in the JSON of Kafka's registry. What clients log in with, a token's HMAC, is not
stored: each broker computes it with the secret key.

Source: `TokenInformation`, `DelegationTokenManagerZk` in Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple, Protocol, runtime_checkable

from kafkawire.reference_broker.metadata.principal import KafkaPrincipal
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.tables.znodes import DelegationToken

__all__ = ["Revise", "TokenDone", "TokenInformation", "TokenStore", "stored_token", "token_of"]


class TokenInformation(NamedTuple):
    """A delegation token without its HMAC; times are in ms since the epoch.

    Attributes:
        token_id: identifies the token, and is the user name of clients that log in with it.
        owner: the principal for which it stands.
        requester: the principal that requested it, which may differ from the owner (KIP-373).
        renewers: other principals that may renew the token and expire it.
        issued_ms: the time at which it was created.
        max_ms: the time beyond which it cannot be renewed.
        expires_ms: the time at which it expires unless it is renewed.
    """

    token_id: str
    owner: KafkaPrincipal
    requester: KafkaPrincipal
    renewers: tuple[KafkaPrincipal, ...]
    issued_ms: int
    max_ms: int
    expires_ms: int

    def concerns(self, principal: KafkaPrincipal) -> bool:
        """Return whether a principal may always see this token."""
        return principal in (self.owner, self.requester, *self.renewers)

    def may_be_renewed_by(self, principal: KafkaPrincipal) -> bool:
        """Return whether a principal may renew this token and expire it."""
        return principal in (self.owner, *self.renewers)

    def is_expired(self, now_ms: int) -> bool:
        """Return whether this token is no longer valid."""
        return self.max_ms < now_ms or self.expires_ms < now_ms


#: Returns the new state of a token, given its current one; None stands for a token that does not exist. It may raise
#: `BrokerError`, and may be called more than once if another broker changes the token at the same time.
Revise = Callable[[TokenInformation | None], TokenInformation | None]

#: Called with None once a change is durable and in effect, or with an error.
TokenDone = Callable[[BrokerError | None], None]


@runtime_checkable  # tests check a broker's parts against the names that handlers use
class TokenStore(Protocol):
    """Stores delegation tokens.

    Attributes:
        tokens: a live view of the tokens that this broker knows, keyed by token id.
        on_change: called with the id of a token that was created, changed or removed, by any broker.
        is_registry: whether this is a cluster's registry; if so, the rules are those of Apache Kafka 3.9 with
            ZooKeeper.
        tokens_max: the maximum number of tokens; no more are created once there are this many.
    """

    tokens: Mapping[str, TokenInformation]
    on_change: Callable[[str], None]
    is_registry: bool
    tokens_max: int

    def change(self, token_id: str, revise: Revise, done: TokenDone) -> None:
        """Create, change or remove a token.

        Args:
            token_id: its id.
            revise: called when its turn comes; see `Revise`.
            done: see `TokenDone`; the error may come from `revise`.
        """


def stored_token(token: TokenInformation) -> DelegationToken:
    """Return a token as it is stored."""
    return DelegationToken(
        token.issued_ms,
        tuple(map(str, token.renewers)),
        token.token_id,
        str(token.owner),
        token.expires_ms,
        token.max_ms,
        str(token.requester),
    )


def token_of(stored: DelegationToken) -> TokenInformation:
    """Return a token that was stored.

    Raises:
        ValueError: a principal has no type.
    """
    owner = _principal(stored.owner)
    return TokenInformation(
        stored.token_id,
        owner,
        owner if stored.token_requester is None else _principal(stored.token_requester),
        tuple(map(_principal, stored.renewers)),
        stored.issue_timestamp_ms,
        stored.max_timestamp_ms,
        stored.expiry_timestamp_ms,
    )


def _principal(text: str) -> KafkaPrincipal:
    """Return a principal, whose name may be empty here, since Kafka creates such renewers."""
    kind, colon, name = text.partition(":")
    if not colon:
        raise ValueError(f"{text!r:.80} is not of the form User:name")
    return KafkaPrincipal(kind, name)
