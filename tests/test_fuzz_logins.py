"""The fuzz target for logins notices faults in the broker's mechanisms.

Method: replace one part of a mechanism with a faulty one. `tests/test_fuzz_targets.py` runs every target on golden
inputs.
"""

from __future__ import annotations

import pytest

from kafkawire.reference_broker.metadata.principal import KafkaPrincipal
from kafkawire.reference_broker.security.sasl.mechanism import Identity, LoginRefused
from kafkawire.reference_broker.security.sasl.plain import PlainExchange
from tools.fuzz_cases import Case
from tools.fuzz_logins import check_login, login_inputs


def test_inputs() -> None:
    labels = [case.label for case in login_inputs()]
    assert labels == [
        "PLAIN 0",
        "SCRAM-SHA-256 0",
        "SCRAM-SHA-256 1",
        "SCRAM-SHA-512 0",
        "SCRAM-SHA-512 1",
        "OAUTHBEARER 0",
    ]
    assert [check_login(case) for case in login_inputs()] == [None] * len(labels)


def faulty(monkeypatch: pytest.MonkeyPatch, identity: Identity | None, error: Exception | None) -> str | None:
    """Return what the target says about a mechanism that behaves in a given way."""

    def respond(self: PlainExchange, response: bytes, now_ms: int) -> bytes:
        self.identity = identity
        if error is not None:
            raise error
        return b""

    monkeypatch.setattr(PlainExchange, "respond", respond)
    return check_login(Case("PLAIN 0", b"any"))


MALLORY = Identity(KafkaPrincipal("User", "mallory"))


@pytest.mark.parametrize(
    ("identity", "error", "found"),
    [
        (MALLORY, None, "logged in as User:mallory"),
        (MALLORY, LoginRefused("no"), "refused, but logged in as User:mallory"),
        (None, LoginRefused("no", "password of alice"), "the refusal shows a secret"),
        (None, LoginRefused("no"), None),
    ],
)
def test_faults(
    monkeypatch: pytest.MonkeyPatch, identity: Identity | None, error: Exception | None, found: str | None
) -> None:
    assert faulty(monkeypatch, identity, error) == found


def test_another_error_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(KeyError):
        faulty(monkeypatch, None, KeyError("any"))
