"""Validation of JSON Web Tokens: the signature, then the claims, in the order of Kafka's library.

Source: RFC 7519; `BrokerJwtValidator` and `ClaimValidationUtils` in Apache Kafka; `JwtConsumer` of jose4j.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

from kafkawire.reference_broker.security.sasl.compact_tokens import MalformedToken, first_json, from_base64url
from kafkawire.reference_broker.security.sasl.json_web_keys import VerificationKey
from kafkawire.reference_broker.security.sasl.mechanism import LoginAborted
from kafkawire.reference_broker.security.sasl.oauthbearer import BearerToken, TokenRejected

__all__ = ["ExpectedClaims", "KeySource", "SignedTokens"]

_Claims = Mapping[str, Any]


class KeySource(Protocol):
    """Has the keys of the issuers of tokens."""

    def key(self, algorithm: str, key_id: str | None, now_ms: int) -> VerificationKey | None:
        """Return the key for a token; None if it is not known, in which case the keys may be fetched again."""
        ...


class ExpectedClaims(NamedTuple):
    """What the claims of a token must say.

    Attributes:
        audiences: the token must be meant for one of these; if empty, the token must not name any audience.
        issuer: the issuer of the token; None for any.
        principal_claim: the claim with the name of the principal.
        scope_claim: the claim with the scope, which must be well-formed and is not used otherwise.
        clock_skew_seconds: the tolerated difference between the clocks.
    """

    audiences: frozenset[str]
    issuer: str | None
    principal_claim: str
    scope_claim: str
    clock_skew_seconds: int


class SignedTokens:
    """Accepts tokens that are signed with a known key; see `TokenValidator`.

    Args:
        keys: has the keys.
        expected: what the claims must say.
    """

    def __init__(self, keys: KeySource, expected: ExpectedClaims) -> None:
        self._keys = keys
        self._expected = expected

    def validate(self, token: str, now_ms: int) -> BearerToken:
        """Return the principal and the expiry of a token; see `TokenValidator`."""
        parts = token.split(".")
        if len(parts) != 3 or not all(parts):
            raise TokenRejected("the token does not consist of three parts")
        try:
            header, claims, signature = _object(parts[0]), _object(parts[1]), from_base64url(parts[2])
        except MalformedToken as error:
            raise TokenRejected(str(error)) from None
        self._verify(header, signature, f"{parts[0]}.{parts[1]}".encode(), now_ms)
        self._check_audience(claims)
        if self._expected.issuer not in (None, _text(claims, "iss")):
            raise TokenRejected("the token has another issuer")
        for name in ("iss", "sub", "jti"):
            _text(claims, name)
        expires_seconds = self._check_times(claims, now_ms // 1000)
        self._check_scope(claims)
        if expires_seconds < 0:
            raise TokenRejected("the token expires before 1970")
        name = (_text(claims, self._expected.principal_claim) or "").strip()
        if not name:
            raise TokenRejected(f"the claim {self._expected.principal_claim} contains no name")
        if (_time(claims, "iat") or 0) < 0:
            raise TokenRejected("the token was issued before 1970")
        return BearerToken(name, expires_seconds * 1000)

    def _verify(self, header: _Claims, signature: bytes, data: bytes, now_ms: int) -> None:
        algorithm, key_id = header.get("alg"), header.get("kid")
        if not isinstance(algorithm, str) or not isinstance(key_id, str | None):
            raise TokenRejected("the header of the token has no algorithm, or a key id that is not text")
        if "crit" in header:
            raise TokenRejected("the header of the token has critical parts")
        key = self._keys.key(algorithm, key_id, now_ms)
        if key is None:
            raise TokenRejected("no key for the token is known")
        try:
            key.verify(algorithm, signature, data)
        except ValueError as error:
            raise TokenRejected(str(error)) from None

    def _check_audience(self, claims: _Claims) -> None:
        found = claims.get("aud")
        audiences = [found] if isinstance(found, str) else found
        if audiences is not None and not _are_texts(audiences):
            raise TokenRejected("the audience is neither text nor a list of texts")
        expected = self._expected.audiences
        if not (expected or audiences is None) or (expected and expected.isdisjoint(audiences or ())):
            raise TokenRejected("the token is meant for another audience")

    def _check_times(self, claims: _Claims, now_seconds: int) -> int:
        """Return the expiry in seconds since the epoch."""
        skew_seconds = self._expected.clock_skew_seconds
        expires_seconds, issued_seconds, begins_seconds = (_time(claims, name) for name in ("exp", "iat", "nbf"))
        if expires_seconds is None or issued_seconds is None:
            raise TokenRejected("the token does not say when it was issued or expires")
        if now_seconds - skew_seconds >= expires_seconds:
            raise TokenRejected("the token has expired")
        if expires_seconds < issued_seconds or (begins_seconds is not None and expires_seconds < begins_seconds):
            raise TokenRejected("the token expires before it becomes valid")
        if begins_seconds is not None and now_seconds + skew_seconds < begins_seconds:
            raise TokenRejected("the token is not valid yet")
        return expires_seconds

    def _check_scope(self, claims: _Claims) -> None:
        found = claims.get(self._expected.scope_claim)
        scopes = [found] if isinstance(found, str) else found if isinstance(found, list) else []
        seen: set[str] = set()
        for scope in scopes:
            if scope is not None and not isinstance(scope, str):
                raise LoginAborted("OAUTHBEARER: a scope of the token is not text")
            stripped = (scope or "").strip()
            if not stripped or stripped in seen:
                raise TokenRejected("the scope of the token has a part that is blank or occurs twice")
            seen.add(stripped)


def _object(part: str) -> _Claims:
    found = first_json(from_base64url(part), allows_more=False)
    if not isinstance(found, dict):
        raise MalformedToken("a part of the token is not an object")
    return found


def _text(claims: _Claims, name: str) -> str | None:
    found = claims.get(name)
    if not isinstance(found, str | None):
        raise TokenRejected(f"the claim {name} is not text")
    return found


def _time(claims: _Claims, name: str) -> int | None:
    """Return a time in whole seconds since the epoch."""
    found = claims.get(name)
    if found is None:
        return None
    if not isinstance(found, int | float) or isinstance(found, bool) or abs(found) >= 2**63 / 1000:
        raise TokenRejected(f"the claim {name} is not a time in seconds")
    return int(found)


def _are_texts(found: object) -> bool:
    return isinstance(found, list) and all(isinstance(each, str) for each in found)
