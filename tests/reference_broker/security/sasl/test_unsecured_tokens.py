"""Tokens without a signature are read as Kafka reads them, with the claims that options name.

Method: validate tokens with other claim names, scopes and clock skews; damage a token. `exchange_cases` compares the
claims with Apache Kafka.
"""

from __future__ import annotations

import base64
import json
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkawire.reference_broker.security.sasl.mechanism import LoginAborted
from kafkawire.reference_broker.security.sasl.oauthbearer import BearerToken, TokenRejected
from kafkawire.reference_broker.security.sasl.unsecured_tokens import UnsecuredTokens, unsecured_tokens
from tests.reference_broker.security.sasl.hostile import damaged

NOW_MS = 1_000_000


def token(header: object = None, **claims: object) -> str:
    parts = ({"alg": "none"} if header is None else header, {"sub": "alice", "exp": 2000} | claims)
    return ".".join(base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts) + "."


def reason(found: str, validator: UnsecuredTokens | None = None) -> str:
    with pytest.raises(TokenRejected) as raised:
        (validator or UnsecuredTokens()).validate(found, NOW_MS)
    return str(raised.value)


def test_a_token() -> None:
    assert UnsecuredTokens().validate(token(), NOW_MS) == BearerToken("alice", 2_000_000)
    assert UnsecuredTokens().validate(token(exp=1999.9996), NOW_MS) == BearerToken("alice", 2_000_000)


def test_options() -> None:
    options = {
        "unsecuredValidatorPrincipalClaimName": " name ",
        "unsecuredValidatorScopeClaimName": "scp",
        "unsecuredValidatorRequiredScope": " read  write ",
        "unsecuredValidatorAllowableClockSkewMs": " 3000 ",
        "unsecuredLoginStringClaim_sub": "broker",
    }
    validator = unsecured_tokens(options)
    assert validator == UnsecuredTokens("name", "scp", ("read", "write"), 3000)
    good = token(name="bob", scp=["write", "read", "more"], exp=998, iat=997)
    assert validator.validate(good, NOW_MS) == BearerToken("bob", 998_000)
    assert unsecured_tokens({"unsecuredValidatorPrincipalClaimName": " "}) == UnsecuredTokens()


@pytest.mark.parametrize("skew", ["-1", "x", "1.5", str(2**31), "9" * 5000])
def test_a_clock_skew_that_cannot_be_used(skew: str) -> None:
    with pytest.raises(ValueError, match="unsecuredValidatorAllowableClockSkewMs must be a number"):
        unsecured_tokens({"unsecuredValidatorAllowableClockSkewMs": skew})


@pytest.mark.parametrize("scope", ['a"b', "a\\b", "ä"])
def test_a_scope_that_cannot_be_used(scope: str) -> None:
    with pytest.raises(ValueError, match="unsecuredValidatorRequiredScope has characters"):
        unsecured_tokens({"unsecuredValidatorRequiredScope": scope})


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        ("x.y", "does not consist of three parts"),
        (token()[:-1], "does not consist of three parts"),
        (token() + ".", "does not consist of three parts"),
        (token() + "AAAA", "has a signature"),
        (token({"alg": "RS256"}), "an algorithm other than none"),
        (token(exp=1000), "has expired"),
        (token(exp="2000"), "the claim exp is not a number"),
        (token(exp=None), "the claim exp is not a number"),
        (token(iat=1001), "issued in the future"),
        (token(iat=10**400), "issued in the future"),
        (token(exp=-(10**400)), "has expired"),
        (token(sub=""), "the claim sub contains no name"),
        (token(sub=5), "the claim sub contains no name"),
        (token(sub=["alice"]), "the claim sub contains no name"),
        (token(scope=5), "the claim scope is neither text nor a list"),
        ("e30.!.", "not base64url"),
    ],
)
def test_rejected_tokens(found: str, expected: str) -> None:
    assert expected in reason(found)


def test_what_issued_before_means() -> None:
    assert "expires before it was issued" in reason(token(exp=1000.5, iat=1000.5), UnsecuredTokens(clock_skew_ms=9999))


@pytest.mark.parametrize("found", [token({}), token([]), token(exp=1e300), token(exp=10**400)])
def test_where_kafka_closes_the_connection(found: str) -> None:
    with pytest.raises(LoginAborted):
        UnsecuredTokens().validate(found, NOW_MS)


def test_a_scope_as_jackson_reads_it() -> None:
    validator = UnsecuredTokens(required_scope=("1", "1.5", "true", "null"))
    assert validator.validate(token(scope=[1, 1.5, True, None, {}, []]), NOW_MS).name == "alice"


def test_damaged_tokens() -> None:
    good = token()
    for each in damaged(good.encode()):
        with suppress(TokenRejected, LoginAborted):
            UnsecuredTokens().validate(each.decode("utf-8", "replace"), NOW_MS)


@given(st.text() | st.text("eyJh.IgNn-_="))
def test_noise(found: str) -> None:
    with pytest.raises((TokenRejected, LoginAborted)):
        UnsecuredTokens().validate(found, NOW_MS)
