"""A login takes the steps of its table, lasts as long as it may, and keeps its principal and mechanism.

Method: drive it with a stand-in for a mechanism; every edge of the table is taken.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kafkawire.reference_broker.security.authentication import (
    LOGIN_EDGES,
    REAUTHENTICATION_INTERVAL_MS,
    Authentication,
    LoginState,
    OfferedMechanism,
    UnsupportedMechanism,
)
from kafkawire.reference_broker.security.sasl.mechanism import Exchange, LoginAborted, LoginRefused
from tests.edges import taken
from tests.reference_broker.security.played_mechanism import Played

NOW_MS = 1_000_000


def login(begin: Callable[[], Exchange] = Played, max_reauth_ms: int = 0) -> Authentication:
    return Authentication({name: OfferedMechanism(begin, max_reauth_ms) for name in ("PLAIN", "OTHER")})


def logged_in(max_reauth_ms: int = 60_000, user: str = "admin") -> Authentication:
    found = login(max_reauth_ms=max_reauth_ms)
    found.choose("PLAIN", wraps_tokens=True)
    found.take_token(f"\0{user}\0{user}-secret".encode(), NOW_MS, 0)
    return found


def test_every_edge() -> None:
    with taken(LOGIN_EDGES) as steps:
        for refusals in (0, 1, 2):
            for then in ("versions", "choose", "fail"):
                found = login()
                for _ in range(refusals):
                    found.versions_answered(is_accepted=False)
                if then == "versions":
                    assert found.allows_versions
                    found.versions_answered(is_accepted=True)
                    assert not found.allows_versions
                    found.choose("PLAIN", wraps_tokens=False)
                elif then == "choose":
                    found.choose("PLAIN", wraps_tokens=True)
                else:
                    found.fail()
        found = login()
        found.versions_answered(is_accepted=True)
        found.fail()
        found = login(max_reauth_ms=60_000)
        found.choose("PLAIN", wraps_tokens=True)
        assert found.awaits_token
        assert found.take_token(b"admin", NOW_MS, 0) == (b"password?", 0)
        assert found.take_token(b"admin-secret", NOW_MS, 0) == (b"", 60_000)
        assert found.is_complete
        assert found.begin_again(0)
        found.choose("OTHER", wraps_tokens=True)
        found.fail()
        found = logged_in()
        assert found.begin_again(0)
        found.choose("PLAIN", wraps_tokens=True)
        found.fail()
        found.fail()  # it may be found out twice
        found = logged_in()
        assert found.begin_again(0)
        found.fail()
    assert steps == {*LOGIN_EDGES}


def test_mechanisms_are_in_the_order_of_a_java_set() -> None:
    names = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "GSSAPI")
    found = Authentication({name: OfferedMechanism(Played, 0) for name in names})
    assert found.mechanisms == ["PLAIN", "SCRAM-SHA-512", "GSSAPI", "SCRAM-SHA-256", "OAUTHBEARER"]


def test_an_unsupported_mechanism() -> None:
    with pytest.raises(UnsupportedMechanism, match="Unsupported SASL mechanism NONE"):
        login().choose("NONE", wraps_tokens=True)


@pytest.mark.parametrize(
    ("expires_ms", "max_reauth_ms", "expected"),
    [
        (None, 0, None),
        (None, 5_000, 5_000),
        (NOW_MS + 2_000, 0, 2_000),
        (NOW_MS + 2_000, 5_000, 2_000),
        (NOW_MS + 9_000, 5_000, 5_000),
        (NOW_MS - 1, 5_000, 0),
    ],
)
def test_how_long_a_login_lasts(expires_ms: int | None, max_reauth_ms: int, expected: int | None) -> None:
    found = login(lambda: Played(expires_ms), max_reauth_ms)
    found.choose("PLAIN", wraps_tokens=True)
    assert found.take_token(b"\0admin\0admin-secret", NOW_MS, 70).lifetime_ms == (expected or 0)
    assert found.session_ends_ms == (None if expected is None else 70 + expected)
    if expected is None:
        assert not found.has_expired(2**62)
        assert not found.begin_again(10_000), "SaslHandshake is a request like others"
    else:
        assert not found.has_expired(70 + expected)
        assert found.has_expired(71 + expected)


@pytest.mark.parametrize("began_ms", [0, 5_000])
def test_a_login_can_be_renewed_once_a_second(began_ms: int) -> None:
    found = logged_in()
    for after_ms, is_allowed in ((0, True), (REAUTHENTICATION_INTERVAL_MS - 1, False), (1_000, True), (1_001, False)):
        now_ms = began_ms + after_ms
        assert found.begin_again(now_ms) is is_allowed
        if is_allowed:
            found.choose("PLAIN", wraps_tokens=True)
            found.take_token(b"\0admin\0admin-secret", NOW_MS, now_ms)


@pytest.mark.parametrize(
    ("first_ms", "second_ms"), [(2_000, None), (2_000, 9_000), (9_000, 2_000)], ids=["never", "later", "earlier"]
)
def test_the_end_of_a_login_does_not_outlive_it(first_ms: int | None, second_ms: int | None) -> None:
    """A client may log in again with a credential that expires at another time, or never."""
    expirations = iter((first_ms, second_ms))

    def begin() -> Played:
        lifetime_ms = next(expirations)
        return Played(None if lifetime_ms is None else NOW_MS + lifetime_ms)

    found = login(begin)
    found.choose("PLAIN", wraps_tokens=True)
    found.take_token(b"\0admin\0admin-secret", NOW_MS, 0)
    assert found.session_ends_ms == first_ms
    assert found.begin_again(1_000)
    found.choose("PLAIN", wraps_tokens=True)
    found.take_token(b"\0admin\0admin-secret", NOW_MS, 1_000)
    assert found.session_ends_ms == (None if second_ms is None else 1_000 + second_ms)


def test_each_login_says_how_its_tokens_come() -> None:
    found = logged_in()
    assert found.wraps_tokens
    assert found.begin_again(0)
    found.choose("PLAIN", wraps_tokens=False)
    assert not found.wraps_tokens


def test_the_principal_stays() -> None:
    found = logged_in()
    assert found.begin_again(0)
    found.choose("PLAIN", wraps_tokens=True)
    text = r"Cannot change principals during re-authentication from User\.admin: User\.alice"
    with pytest.raises(LoginRefused, match=text):
        found.take_token(b"\0alice\0alice-secret", NOW_MS, 0)


def test_the_mechanism_stays() -> None:
    found = logged_in()
    assert found.begin_again(0)
    found.choose("OTHER", wraps_tokens=True)
    assert found.state is LoginState.OTHER_MECHANISM
    text = "SASL mechanism 'OTHER' requested by client is not supported for re-authentication of mechanism 'PLAIN'"
    assert str(found.refuse_other_mechanism()) == text


@pytest.mark.parametrize("is_again", [False, True])
def test_wrong_credentials_are_told_apart_by_the_event(is_again: bool) -> None:
    found = logged_in() if is_again else login()
    if is_again:
        assert found.begin_again(0)
    found.choose("PLAIN", wraps_tokens=True)
    with pytest.raises(LoginRefused) as caught:
        found.take_token(b"\0admin\0guess", NOW_MS, 0)
    event = "re-authentication" if is_again else "authentication"
    text = f"Authentication failed during {event} due to invalid credentials with SASL mechanism PLAIN"
    assert caught.value.detail == text
    assert str(caught.value) == "no such user"


def test_a_defect_shows_no_secret() -> None:
    found = login()
    found.choose("PLAIN", wraps_tokens=True)
    with pytest.raises(LoginAborted, match=r"^PLAIN failed with RuntimeError$"):
        found.take_token(b"\0admin\0defect", NOW_MS, 0)
