"""OAUTHBEARER sends a token as RFC 7628 specifies, and acknowledges a refusal before failing.

Method: compare the messages byte by byte, and pass tokens and extensions that a message cannot carry.
"""

from __future__ import annotations

import pytest

from kafkawire.sdk.errors import BrokerError, ConfigurationError
from kafkawire.sdk.protocol.sasl.oauthbearer import OAuthBearerAuthenticator, check_extensions
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.secret import Secret


def test_a_login() -> None:
    subject = OAuthBearerAuthenticator(Secret("eyJ.e30._-~+/=="))
    assert subject.mechanism == "OAUTHBEARER"
    assert subject.first_message() == b"n,,\x01auth=Bearer eyJ.e30._-~+/==\x01\x01"
    assert subject.respond(b"") is None


def test_extensions() -> None:
    subject = OAuthBearerAuthenticator(Secret("t"), {"logicalCluster": "lkc 1", "pool": "x=y"})
    assert subject.first_message() == b"n,,\x01auth=Bearer t\x01logicalCluster=lkc 1\x01pool=x=y\x01\x01"


@pytest.mark.parametrize(
    ("challenge", "reason"),
    [
        (b'{"status":"invalid_token","scope":"kafka"}', "OAUTHBEARER: invalid_token$"),
        (b'{"status":"%s"}' % (b"x" * 500), "OAUTHBEARER: x{100}$"),
        (b'{"status":5}', "OAUTHBEARER: 5$"),
        (b"{}", "did not say why"),
        (b"[]", "did not say why"),
        (b"\xff\xfe", "did not say why"),
        (b"[" * 100_000, "did not say why"),
    ],
)
def test_a_token_that_is_refused(challenge: bytes, reason: str) -> None:
    """The client acknowledges the refusal with one byte; whatever the broker says then, the login has failed."""
    for last_word in (b"", b"more"):
        subject = OAuthBearerAuthenticator(Secret("t"))
        assert subject.respond(challenge) == b"\x01"
        with pytest.raises(BrokerError, match=reason) as caught:
            subject.respond(last_word)
        assert caught.value.code == ErrorCode.SASL_AUTHENTICATION_FAILED


@pytest.mark.parametrize("token", ["a b", "a\x01auth=Bearer b", "a\n", "=", "t\u00f6ken"])
def test_a_token_that_cannot_be_sent(token: str) -> None:
    with pytest.raises(ConfigurationError, match="sasl_oauthbearer_token=<hidden>: expected letters") as caught:
        OAuthBearerAuthenticator(Secret(token))
    assert token not in str(caught.value) or token == "="


@pytest.mark.parametrize(
    ("extensions", "text"),
    [
        ({"auth": "x"}, "'auth': a name must consist of letters"),
        ({"a1": "x"}, "'a1': a name must consist of letters"),
        ({"": "x"}, "'': a name"),
        ({5: "x"}, "5: a name"),
        ({"a": ""}, "a: a value must be printable"),
        ({"a": "x\x01y"}, "a: a value must be printable"),
        ({"a": 5}, "a: a value must be printable"),
    ],
)
def test_extensions_that_cannot_be_sent(extensions: dict[str, str], text: str) -> None:
    with pytest.raises(ConfigurationError, match=text):
        OAuthBearerAuthenticator(Secret("t"), extensions)


def test_extensions_are_copied() -> None:
    given = {"a": "x"}
    assert check_extensions("option", given) == given
    assert check_extensions("option", given) is not given
