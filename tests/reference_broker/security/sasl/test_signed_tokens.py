"""Signed tokens are accepted if the signature and every claim are right.

Method: use a key that accepts one signature, so that the claims can be varied freely; then sign with real keys and
damage the tokens. `exchange_cases` compares the claims with Apache Kafka.
"""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkawire.reference_broker.security.sasl.json_web_keys import VerificationKey, read_key_set, select_key
from kafkawire.reference_broker.security.sasl.mechanism import LoginAborted
from kafkawire.reference_broker.security.sasl.oauthbearer import BearerToken, TokenRejected
from kafkawire.reference_broker.security.sasl.signed_tokens import ExpectedClaims, SignedTokens
from tests.reference_broker.security.sasl.hostile import damaged
from tests.reference_broker.security.sasl.signing import signing_keys

NOW_MS = 1_000_999

EXPECTED = ExpectedClaims(frozenset(), None, "sub", "scope", 30)


class Keys:
    """Has a key without an id whose only signature is `good`; remembers what it was asked for."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str | None, int]] = []

    def key(self, algorithm: str, key_id: str | None, now_ms: int) -> VerificationKey | None:
        def verify(algorithm: str, signature: bytes, data: bytes) -> None:
            if signature != b"good":
                raise ValueError("the signature does not match")

        self.asked.append((algorithm, key_id, now_ms))
        return VerificationKey(None, "RSA", None, None, verify) if key_id is None else None


def encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def token(header: object = None, signature: bytes = b"good", **claims: Any) -> str:
    head = {"alg": "RS256"} if header is None else header
    body = {"sub": "alice", "iat": 900, "exp": 2000} | claims
    kept = {name: value for name, value in body.items() if value is not ...}
    return ".".join(map(encoded, (json.dumps(head).encode(), json.dumps(kept).encode(), signature)))


def reason(found: str, expected: ExpectedClaims = EXPECTED) -> str:
    with pytest.raises(TokenRejected) as raised:
        SignedTokens(Keys(), expected).validate(found, NOW_MS)
    return str(raised.value)


def accepted(found: str, expected: ExpectedClaims = EXPECTED) -> BearerToken:
    return SignedTokens(Keys(), expected).validate(found, NOW_MS)


def test_a_token() -> None:
    keys = Keys()
    assert SignedTokens(keys, EXPECTED).validate(token(), NOW_MS) == BearerToken("alice", 2_000_000)
    assert keys.asked == [("RS256", None, NOW_MS)]


def test_claims_with_other_names() -> None:
    expected = EXPECTED._replace(principal_claim="email", scope_claim="scp")
    assert accepted(token(email=" alice@example.com ", sub=..., scope=[5]), expected).name == "alice@example.com"
    with pytest.raises(LoginAborted):
        accepted(token(email="x", scp=[5]), expected)


@pytest.mark.parametrize("claims", [{"exp": 971}, {"exp": 971.9}, {"nbf": 1030}, {"iat": 1500}, {"nbf": None}])
def test_times_that_are_accepted(claims: dict[str, Any]) -> None:
    accepted(token(**claims))


@pytest.mark.parametrize(
    ("claims", "expected"),
    [
        ({"exp": 970}, "has expired"),
        ({"nbf": 1031}, "is not valid yet"),
        ({"iat": 2001}, "expires before it becomes valid"),
        ({"nbf": 2001}, "expires before it becomes valid"),
        ({"exp": ...}, "does not say when it was issued or expires"),
        ({"iat": None}, "does not say when it was issued or expires"),
        ({"exp": True}, "the claim exp is not a time in seconds"),
        ({"exp": 10**17}, "the claim exp is not a time in seconds"),
        ({"iat": -(10**400)}, "the claim iat is not a time in seconds"),
        ({"nbf": "1000"}, "the claim nbf is not a time in seconds"),
        ({"iat": -1}, "was issued before 1970"),
        ({"sub": ...}, "the claim sub contains no name"),
        ({"sub": 5}, "the claim sub is not text"),
        ({"iss": 5}, "the claim iss is not text"),
        ({"jti": []}, "the claim jti is not text"),
        ({"aud": "anyone"}, "is meant for another audience"),
        ({"aud": []}, "is meant for another audience"),
        ({"aud": {}}, "the audience is neither text nor a list of texts"),
        ({"scope": ["a", " a "]}, "blank or occurs twice"),
        ({"scope": " "}, "blank or occurs twice"),
        ({"scope": [None]}, "blank or occurs twice"),
    ],
)
def test_claims_that_are_rejected(claims: dict[str, Any], expected: str) -> None:
    assert expected in reason(token(**claims))


def test_before_1970() -> None:
    """With a tolerance of the whole time since the epoch, the check for a negative expiry is reached."""
    assert "expires before 1970" in reason(token(exp=-1, iat=-2), EXPECTED._replace(clock_skew_seconds=5000))


@pytest.mark.parametrize(
    ("audience", "is_accepted"),
    [("a", True), (["x", "b"], True), ("x", False), (["x"], False), ([], False), (..., False), ([5, "a"], False)],
)
def test_audiences(audience: Any, is_accepted: bool) -> None:
    expected = EXPECTED._replace(audiences=frozenset("ab"))
    found = token(aud=audience)
    if is_accepted:
        accepted(found, expected)
    else:
        assert "audience" in reason(found, expected)


def test_issuers() -> None:
    expected = EXPECTED._replace(issuer="here")
    accepted(token(iss="here"), expected)
    for issuer in ("there", ..., None):
        assert reason(token(iss=issuer), expected) == "the token has another issuer"


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        ("a.b", "three parts"),
        ("..", "three parts"),
        ("e30..AAAA", "three parts"),
        (".e30.AAAA", "three parts"),
        (token() + ".", "three parts"),
        (token()[:-5], "not base64url"),
        (token(signature=b"bad"), "the signature does not match"),
        (token(signature=b"bad", aud="x", exp=..., sub=5), "the signature does not match"),
        (token([]), "is not an object"),
        (token({}), "the header of the token has no algorithm"),
        (token({"alg": 5}), "the header of the token has no algorithm"),
        (token({"alg": "RS256", "kid": 5}), "a key id that is not text"),
        (token({"alg": "RS256", "kid": "other"}), "no key for the token is known"),
        (token({"alg": "RS256", "crit": []}), "has critical parts"),
        (f"{token().split('.')[0]}.{encoded(b'{} x')}.{encoded(b'good')}", "text follows the JSON"),
        (f"{token().split('.')[0]}.{encoded(b'5')}.{encoded(b'good')}", "is not an object"),
    ],
)
def test_damaged_parts(found: str, expected: str) -> None:
    assert expected in reason(found)


@pytest.mark.parametrize(("key", "algorithm"), [("rsa", "PS256"), ("p256", "ES256"), ("ed25519", "EdDSA")])
def test_damaged_tokens(key: str, algorithm: str) -> None:
    """Every cut and every changed bit is rejected, except in the bits of the last character that mean nothing."""
    pytest.importorskip("cryptography")
    keys = read_key_set(signing_keys().public)

    class RealKeys:
        def key(self, algorithm: str, key_id: str | None, now_ms: int) -> VerificationKey | None:
            return select_key(keys, algorithm, key_id)

    claims = {"sub": "alice", "iat": 900, "exp": 2000}
    good = signing_keys().sign(key, algorithm, {"alg": algorithm, "kid": key}, claims)
    validator = SignedTokens(RealKeys(), EXPECTED)
    assert validator.validate(good, NOW_MS) == BearerToken("alice", 2_000_000)
    survivors = []
    for each in damaged(good.encode()):
        try:
            validator.validate(each.decode("utf-8", "replace"), NOW_MS)
        except TokenRejected:
            continue
        survivors.append(each.decode())
    assert [each for each in survivors if each[:-1] != good[:-1]] == []


@given(st.text() | st.text("eyJh.IgNn-_="))
def test_noise(found: str) -> None:
    with pytest.raises(TokenRejected):
        SignedTokens(Keys(), EXPECTED).validate(found, NOW_MS)
