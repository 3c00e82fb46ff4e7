"""A failed login has Kafka's text for the client, and a reason for the log.

Method: create each of the errors.
"""

from __future__ import annotations

import pytest

from kafkawire.reference_broker.security.sasl.mechanism import InvalidCredentials, LoginAborted, LoginRefused


@pytest.mark.parametrize(
    ("error", "detail", "reason"),
    [
        (LoginRefused("no"), "no", "no"),
        (LoginRefused("no", "because"), "no", "because"),
        (
            InvalidCredentials("PLAIN", "because"),
            "Authentication failed during authentication due to invalid credentials with SASL mechanism PLAIN",
            "because",
        ),
        (LoginAborted("because"), "", "because"),
    ],
)
def test_errors(error: LoginRefused, detail: str, reason: str) -> None:
    assert (error.detail, str(error)) == (detail, reason)


def test_reauthentication() -> None:
    assert InvalidCredentials("PLAIN", "because").detail_of_reauthentication == (
        "Authentication failed during re-authentication due to invalid credentials with SASL mechanism PLAIN"
    )
