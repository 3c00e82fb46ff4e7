"""Every mechanism is an `Authenticator`, and none of its representations shows a secret.

Method: create one of each with a password, and search all its texts for that password.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import pytest

from kafkawire.sdk.errors import KafkaWireError
from kafkawire.sdk.protocol.sasl.authenticator import Authenticator
from kafkawire.sdk.protocol.sasl.aws_msk_iam import AwsCredentials, AwsMskIamAuthenticator
from kafkawire.sdk.protocol.sasl.oauthbearer import OAuthBearerAuthenticator
from kafkawire.sdk.protocol.sasl.plain import PlainAuthenticator
from kafkawire.sdk.protocol.sasl.scram import ScramAuthenticator
from kafkawire.sdk.secret import Secret

PASSWORD = "hunter2hunter2"
SECRET = Secret(PASSWORD)

MECHANISMS: list[Callable[[], Authenticator]] = [
    lambda: PlainAuthenticator("alice", SECRET),
    lambda: ScramAuthenticator("SCRAM-SHA-256", "alice", SECRET, "nonce"),
    lambda: ScramAuthenticator("SCRAM-SHA-512", "alice", SECRET, "nonce"),
    lambda: OAuthBearerAuthenticator(SECRET),
    lambda: AwsMskIamAuthenticator("host", "eu-west-1", AwsCredentials("AKIA", SECRET, SECRET), 0, "agent"),
]

CHALLENGES = [b"", b"\x00", b"\xff" * 100, b"{}", b"[1]", b"v=AAAA", b"e=other-error", b"r=x,s=AAAA,i=4096",
              b'{"status":"invalid_token"}', b"[" * 100_000, PASSWORD.encode()]  # fmt: skip


@pytest.mark.parametrize("make", MECHANISMS)
def test_nothing_shows_the_secret(make: Callable[[], Authenticator]) -> None:
    subject = make()
    assert subject.mechanism.isupper()
    assert PASSWORD not in repr(subject)
    assert PASSWORD not in str(subject)
    assert PASSWORD not in pickled(subject)


def pickled(subject: object) -> str:
    """Return what an object's pickle shows, or nothing if the object cannot be pickled."""
    try:
        return str(pickle.dumps(subject))
    except (TypeError, AttributeError, pickle.PicklingError):
        return ""


@pytest.mark.parametrize("challenge", CHALLENGES)
@pytest.mark.parametrize("make", MECHANISMS)
def test_whatever_the_broker_says_the_errors_are_known_and_silent(
    make: Callable[[], Authenticator], challenge: bytes
) -> None:
    """Two rounds with the same challenge end in a result, or in an error from this package that quotes no secret."""
    subject = make()
    subject.first_message()
    error = refusal(subject, challenge) or refusal(subject, challenge)
    assert error is None or isinstance(error, KafkaWireError)
    assert PASSWORD not in str(error)


def refusal(subject: Authenticator, challenge: bytes) -> Any:
    """Return the error that a challenge causes, whatever its class."""
    try:
        subject.respond(challenge)
    except Exception as error:
        return error
    return None
