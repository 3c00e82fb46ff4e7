"""Validation of tokens without a signature, for tests and development: every client can claim to be any user.

It is used only if the listener's JAAS options ask for it by name (`unsecured…`), unlike in Kafka, where it is the
default. The claims are read as Jackson reads them in Kafka.

Source: `OAuthBearerUnsecuredValidatorCallbackHandler` and `OAuthBearerUnsecuredJws` in Apache Kafka.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from kafkawire.reference_broker.security.sasl.compact_tokens import MalformedToken, first_json, from_base64url
from kafkawire.reference_broker.security.sasl.mechanism import LoginAborted
from kafkawire.reference_broker.security.sasl.oauthbearer import INSUFFICIENT_SCOPE, BearerToken, TokenRejected

__all__ = ["OPTION_PREFIXES", "UnsecuredTokens", "unsecured_tokens"]

#: The options of OAuthBearerLoginModule that ask for tokens without a signature.
OPTION_PREFIXES: Final = ("unsecuredValidator", "unsecuredLogin")

_PRINCIPAL_CLAIM = "unsecuredValidatorPrincipalClaimName"
_SCOPE_CLAIM = "unsecuredValidatorScopeClaimName"
_REQUIRED_SCOPE = "unsecuredValidatorRequiredScope"
_CLOCK_SKEW_MS = "unsecuredValidatorAllowableClockSkewMs"

_SCOPE = re.compile(r"[\x23-\x5b\x5d-\x7e\x21]+")

#: The range of the times and numbers that Kafka reads.
_INT_MAX: Final = 2**31 - 1
_LONG_MAX: Final = 2**63 - 1

_Claims = Mapping[str, Any]


class UnsecuredTokens(NamedTuple):
    """Accepts tokens without a signature; see `TokenValidator`.

    Attributes:
        principal_claim: the claim with the name of the principal.
        scope_claim: the claim with the scope.
        required_scope: what the scope must contain.
        clock_skew_ms: the tolerated difference between the clocks.
    """

    principal_claim: str = "sub"
    scope_claim: str = "scope"
    required_scope: tuple[str, ...] = ()
    clock_skew_ms: int = 0

    def validate(self, token: str, now_ms: int) -> BearerToken:
        """Return the principal and the expiry of a token; see `TokenValidator`."""
        claims = _claims(token)
        scope = self._scope(claims)
        expires_seconds = _seconds(claims, "exp")
        if expires_seconds is None:
            raise TokenRejected("the token does not expire")
        name = claims.get(self.principal_claim)
        if not isinstance(name, str) or not name.strip():
            raise TokenRejected(f"the claim {self.principal_claim} contains no name")
        issued_seconds = _seconds(claims, "iat")
        if issued_seconds is not None and 1000 * issued_seconds > now_ms + self.clock_skew_ms:
            raise TokenRejected("the token was issued in the future")
        if now_ms - self.clock_skew_ms >= 1000 * expires_seconds:
            raise TokenRejected("the token has expired")
        if issued_seconds is not None and expires_seconds <= issued_seconds:
            raise TokenRejected("the token expires before it was issued")
        if not scope.issuperset(self.required_scope):
            shown = f"[{', '.join(self.required_scope)}]"
            raise TokenRejected(f"the scope lacks a part of {shown}", INSUFFICIENT_SCOPE, shown)
        return BearerToken(name, _milliseconds(expires_seconds))

    def _scope(self, claims: _Claims) -> set[str]:
        found = claims.get(self.scope_claim, [])
        if not isinstance(found, str | list):
            raise TokenRejected(f"the claim {self.scope_claim} is neither text nor a list")
        parts = [found] if isinstance(found, str) else found
        return {part.strip() for part in parts if part.strip()}


def unsecured_tokens(options: Mapping[str, str]) -> UnsecuredTokens:
    """Return the validator that the options of OAuthBearerLoginModule describe.

    Raises:
        ValueError: an option has an unusable value; the text names the option.
    """
    scope = tuple(options.get(_REQUIRED_SCOPE, "").split())
    if not all(_SCOPE.fullmatch(part) for part in scope):
        raise ValueError(f"{_REQUIRED_SCOPE} has characters that RFC 6749 does not allow in a scope")
    skew = options.get(_CLOCK_SKEW_MS, "").strip() or "0"
    if not re.fullmatch(r"\+?[0-9]{1,10}", skew) or int(skew) > _INT_MAX:
        raise ValueError(f"{_CLOCK_SKEW_MS} must be a number of milliseconds from 0 to {_INT_MAX}")
    default = UnsecuredTokens()
    return UnsecuredTokens(
        options.get(_PRINCIPAL_CLAIM, "").strip() or default.principal_claim,
        options.get(_SCOPE_CLAIM, "").strip() or default.scope_claim,
        scope,
        int(skew),
    )


def _claims(token: str) -> _Claims:
    """Return the claims of a token without a signature."""
    parts = token.split(".")
    if ".." in token or len(parts) != 3:
        raise TokenRejected("the token does not consist of three parts")
    header, claims = _object(parts[0]), _object(parts[1])
    if "alg" not in header:
        raise LoginAborted("OAUTHBEARER: the token names no algorithm")
    if header["alg"] != "none":
        raise TokenRejected("the token names an algorithm other than none")
    if parts[2]:
        raise TokenRejected("the token has a signature")
    return claims


def _object(part: str) -> _Claims:
    """Return the object in a part of a token; like Kafka, treat any other JSON as an empty object."""
    try:
        found = first_json(from_base64url(part))
    except MalformedToken as error:
        raise TokenRejected(str(error)) from None
    return {name: _converted(value) for name, value in found.items()} if isinstance(found, dict) else {}


def _converted(value: object) -> object:
    """Return a claim as Kafka sees it: a number, text, or a list of texts."""
    if isinstance(value, list):
        return [_text(each) for each in value]
    return value if isinstance(value, int | float) and not isinstance(value, bool) else _text(value)


def _text(value: object) -> str:
    """Return a value as text, as Jackson's `asText` does."""
    if isinstance(value, str):
        return value
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return str(value) if isinstance(value, int | float) else ""


def _seconds(claims: _Claims, name: str) -> float | None:
    found = claims.get(name)
    if found is None:
        return None
    if not isinstance(found, int | float):
        raise TokenRejected(f"the claim {name} is not a number")
    try:
        return float(found)
    except OverflowError:
        return math.inf if found > 0 else -math.inf


def _milliseconds(seconds: float) -> int:
    """Return a time rounded to milliseconds."""
    milliseconds = seconds * 1000
    if milliseconds >= _LONG_MAX:
        raise LoginAborted("OAUTHBEARER: the token expires later than Kafka can represent")
    return math.floor(milliseconds + 0.5)
