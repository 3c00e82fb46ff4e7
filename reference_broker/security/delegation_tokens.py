"""Creates, renews, expires and describes delegation tokens, and offers them to logins (KIP-48, KIP-373).

    handlers ──▶ DelegationTokens ──change──▶ TokenStore
    logins ──token_credential──▶ ┘ ◀──on_change── ┘

A client logs in with a token's id as its user name, and with the token's HMAC, in base64, as its password. The HMAC is
computed from the id with the secret key that all brokers share.

Source: Apache Kafka, `DelegationTokenManager`, `DelegationTokenControlManager`, `DelegationTokenCache`; the rules in a
cluster are those of `DelegationTokenManagerZk` in release 3.9.
"""

from __future__ import annotations

import base64
import hmac
import logging
from collections.abc import Callable, Collection
from typing import Final, NamedTuple

from kafkawire.reference_broker.config.options import BrokerOptions
from kafkawire.reference_broker.metadata.principal import KafkaPrincipal
from kafkawire.reference_broker.metadata.token_store import TokenInformation, TokenStore
from kafkawire.reference_broker.security.credentials import TokenCredential
from kafkawire.reference_broker.work.timers import Timers
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.options import INT64_MAX
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.protocol.uuids import format_uuid
from kafkawire.sdk.secret import SecretBytes

__all__ = ["Created", "DelegationTokens", "Expires", "TokenRequest"]

_log = logging.getLogger("kafkawire.broker")

#: When a starting broker first removes expired tokens: by then, a broker in a cluster has read the tokens, and there is
#: a controller.
_FIRST_CHECK_MS: Final = 60_000

#: Called with a token that has been created, or with the error.
Created = Callable[[TokenInformation | BrokerError], None]

#: Called with the time at which a token now expires, in ms since the epoch, or with the error.
Expires = Callable[[int | BrokerError], None]


class TokenRequest(NamedTuple):
    """A request for a new token.

    Attributes:
        requester: the principal that asks for it.
        owner: the principal for which it will stand.
        renewers: other principals that may renew it.
        max_lifetime_ms: its longest lifetime; 0 or less for the longest that the broker allows.
    """

    requester: KafkaPrincipal
    owner: KafkaPrincipal
    renewers: tuple[KafkaPrincipal, ...]
    max_lifetime_ms: int


class DelegationTokens:
    """The delegation tokens of a broker or a cluster; provides `TokenCredentials`.

    Args:
        store: keeps the tokens.
        options: the secret key, and the limits of lifetimes.
        timers: timers of the broker.
        new_uuid: returns 16 random bytes for a token's id.
        is_controller: returns whether this broker removes expired tokens.
        now_ms: the current time.
    """

    def __init__(
        self,
        store: TokenStore,
        options: BrokerOptions,
        timers: Timers,
        new_uuid: Callable[[], bytes],
        is_controller: Callable[[], bool],
        now_ms: int,
    ) -> None:
        self._store = store
        self._options = options
        self._timers = timers
        self._new_uuid = new_uuid
        self._is_controller = is_controller
        #: The id of each token, keyed by its HMAC; and the reverse.
        self._ids: dict[bytes, str] = {}
        self._hmacs: dict[str, SecretBytes] = {}
        if self.is_enabled:
            store.on_change = self._changed
            for token_id in store.tokens:
                self._changed(token_id)
            interval_ms = options.delegation_token_expiry_check_interval_ms
            timers.at(now_ms + min(interval_ms, _FIRST_CHECK_MS), self._remove_expired)

    @property
    def is_enabled(self) -> bool:
        """Whether the broker has a secret key."""
        return self._options.delegation_token_secret_key is not None

    @property
    def is_in_registry(self) -> bool:
        """Whether the tokens belong to a cluster with ZooKeeper; its brokers follow the rules of release 3.9."""
        return self._store.is_registry

    def hmac_of(self, token_id: str) -> bytes:
        """Return the HMAC of a token that exists."""
        return bytes(self._hmacs[token_id])

    def token_credential(self, token_id: str) -> TokenCredential | None:
        """Return what a client needs to know to log in with a token; see `TokenCredentials`."""
        token = self._store.tokens.get(token_id) if self.is_enabled else None
        if token is None:
            return None
        return TokenCredential(token.owner, base64.b64encode(self._hmacs[token_id]).decode(), token.expires_ms)

    # Requests.

    def create(self, request: TokenRequest, now_ms: int, done: Created) -> None:
        """Create a token.

        Args:
            request: the request.
            now_ms: the current time.
            done: see `Created`; the error is DELEGATION_TOKEN_AUTH_DISABLED, POLICY_VIOLATION if there are too
                many tokens, or an error of the store.
        """
        options = self._options
        if not self.is_enabled:
            done(BrokerError(ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED))
            return
        if len(self._store.tokens) >= self._store.tokens_max:
            reason = f"there are already {self._store.tokens_max} delegation tokens"
            done(BrokerError(ErrorCode.POLICY_VIOLATION, reason))
            return
        lifetime_ms = options.delegation_token_max_lifetime_ms
        if request.max_lifetime_ms > 0:
            lifetime_ms = min(lifetime_ms, request.max_lifetime_ms)
        max_ms = _later(now_ms, lifetime_ms)
        token = TokenInformation(
            self._new_id(),
            request.owner,
            request.requester,
            request.renewers,
            now_ms,
            max_ms,
            min(max_ms, _later(now_ms, options.delegation_token_expiry_time_ms)),
        )

        def stored(error: BrokerError | None) -> None:
            if error is None:
                _log.info("created delegation token %s of %s", token.token_id, token.owner)
            done(token if error is None else error)

        self._store.change(token.token_id, lambda _: token, stored)

    def renew(self, principal: KafkaPrincipal, token_hmac: bytes, period_ms: int, now_ms: int, done: Expires) -> None:
        """Let a token expire later.

        Args:
            principal: the principal that asks for it.
            token_hmac: the token's HMAC.
            period_ms: how long the token is valid from now on. By the rules of release 4, 0 or less stands for the
                longest time without another renewal, which is also the limit; in a cluster, only a negative number
                does, and only the token's maximum lifetime is a limit.
            now_ms: the current time.
            done: see `Expires`; the error is DELEGATION_TOKEN_AUTH_DISABLED, DELEGATION_TOKEN_NOT_FOUND,
                DELEGATION_TOKEN_EXPIRED, DELEGATION_TOKEN_OWNER_MISMATCH, or an error of the store.
        """
        longest_ms = self._options.delegation_token_expiry_time_ms
        if self.is_in_registry:
            valid_ms = longest_ms if period_ms < 0 else period_ms
        else:
            valid_ms = longest_ms if period_ms <= 0 else min(longest_ms, period_ms)

        def renewed(token: TokenInformation) -> TokenInformation:
            if token.is_expired(now_ms) and not self.is_in_registry:
                raise BrokerError(ErrorCode.DELEGATION_TOKEN_EXPIRED)
            _check_renewer(token, principal)
            if token.is_expired(now_ms):
                raise BrokerError(ErrorCode.DELEGATION_TOKEN_EXPIRED)
            return token._replace(expires_ms=min(token.max_ms, _later(now_ms, valid_ms)))

        self._revise(token_hmac, renewed, now_ms, done)

    def expire(self, principal: KafkaPrincipal, token_hmac: bytes, period_ms: int, now_ms: int, done: Expires) -> None:
        """Let a token expire at another time, or remove it.

        Args:
            principal: the principal that asks for it.
            token_hmac: the token's HMAC.
            period_ms: when the token expires, from now; a negative number removes it.
            now_ms: the current time.
            done: see `Expires` and `renew`.
        """

        def expiring(token: TokenInformation) -> TokenInformation | None:
            _check_renewer(token, principal)
            if period_ms < 0:
                return None
            if token.is_expired(now_ms):
                raise BrokerError(ErrorCode.DELEGATION_TOKEN_EXPIRED)
            return token._replace(expires_ms=min(token.max_ms, _later(now_ms, period_ms)))

        self._revise(token_hmac, expiring, now_ms, done)

    def _revise(
        self,
        token_hmac: bytes,
        revised: Callable[[TokenInformation], TokenInformation | None],
        now_ms: int,
        done: Expires,
    ) -> None:
        """Change a token that a client knows by its HMAC."""
        if not self.is_enabled:
            done(BrokerError(ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED))
            return
        token_id = self._ids.get(token_hmac)
        if token_id is None:
            done(BrokerError(ErrorCode.DELEGATION_TOKEN_NOT_FOUND))
            return
        after: TokenInformation | None = None

        def revise(token: TokenInformation | None) -> TokenInformation | None:
            nonlocal after
            if token is None:  # it has been removed in the meantime
                raise BrokerError(ErrorCode.DELEGATION_TOKEN_NOT_FOUND)
            after = revised(token)
            return after

        def stored(error: BrokerError | None) -> None:
            if error is not None:
                done(error)
                return
            expires_ms = now_ms if after is None else after.expires_ms
            _log.info(
                "delegation token %s %s", token_id, "was removed" if after is None else f"expires at {expires_ms}"
            )
            done(expires_ms)

        self._store.change(token_id, revise, stored)

    def describe(
        self,
        principal: KafkaPrincipal,
        owners: Collection[KafkaPrincipal] | None,
        may_describe: Callable[[TokenInformation], bool],
    ) -> list[TokenInformation]:
        """Return the tokens that a principal may see.

        Args:
            principal: the principal that asks for them.
            owners: only tokens that concern one of these principals; None for all tokens.
            may_describe: returns whether the principal may see a token that does not concern it.
        """
        return [
            token
            for token in self._store.tokens.values()
            if (owners is None or any(map(token.concerns, owners)))
            and (token.concerns(principal) or may_describe(token))
        ]

    # Tokens.

    def _new_id(self) -> str:
        token_id = format_uuid(self._new_uuid())
        # Kafka avoids ids that look like an option on a command line.
        while token_id.startswith("-") or token_id in self._store.tokens:
            token_id = format_uuid(self._new_uuid())
        return token_id

    def _changed(self, token_id: str) -> None:
        """Learn of a token that was created, changed or removed."""
        if token_id not in self._store.tokens:
            self._ids.pop(self._hmacs.pop(token_id, b""), None)
        elif token_id not in self._hmacs:
            secret = self._options.delegation_token_secret_key
            assert secret is not None  # there are no listeners without one
            token_hmac = SecretBytes(hmac.digest(secret.reveal().encode(), token_id.encode(), "sha512"))
            self._hmacs[token_id], self._ids[token_hmac] = token_hmac, token_id

    def _remove_expired(self, now_ms: int) -> None:
        """Remove the tokens that have expired, now and at intervals."""
        for token in [*self._store.tokens.values()] if self._is_controller() else ():
            if token.is_expired(now_ms):
                self._remove(token, now_ms)
        interval_ms = self._options.delegation_token_expiry_check_interval_ms
        self._timers.at(_later(now_ms, interval_ms), self._remove_expired)

    def _remove(self, token: TokenInformation, now_ms: int) -> None:
        """Remove a token unless it has been renewed in the meantime."""

        def revise(present: TokenInformation | None) -> TokenInformation | None:
            return None if present is None or present.is_expired(now_ms) else present

        def stored(error: BrokerError | None) -> None:
            if error is not None:
                _log.error("delegation token %s has expired, but was not removed: %s", token.token_id, error)
            elif token.token_id not in self._store.tokens:
                _log.info("delegation token %s of %s has expired", token.token_id, token.owner)

        self._store.change(token.token_id, revise, stored)


def _check_renewer(token: TokenInformation, principal: KafkaPrincipal) -> None:
    if not token.may_be_renewed_by(principal):
        raise BrokerError(ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH)


def _later(time_ms: int, duration_ms: int) -> int:
    """Return a time some ms later; times are int64."""
    return min(time_ms + duration_ms, INT64_MAX)
