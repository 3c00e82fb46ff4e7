"""A listener's mechanisms answer as Apache Kafka does, unusable settings are refused, and no secret is shown.

Method: play every case of `exchange_cases` and compare the outcomes with those recorded from Apache Kafka; pass
settings with one thing wrong; walk everything that a mechanism consists of.
"""

from __future__ import annotations

import gc
import logging
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from kafkawire.reference_broker.metadata.principal import KafkaPrincipal
from kafkawire.reference_broker.security.credentials import ScramCredential, TokenCredential
from kafkawire.reference_broker.security.sasl.mechanism import Exchange, Identity, LoginAborted, LoginRefused
from kafkawire.reference_broker.security.sasl.mechanisms import FILE_REFRESH_MS, MECHANISMS, Mechanism, new_exchange
from kafkawire.reference_broker.work.background import at_once
from kafkawire.reference_broker.work.timers import Timers
from kafkawire.sdk.errors import ConfigurationError
from kafkawire.sdk.jaas import TEXT_CHARACTERS_MAX
from kafkawire.sdk.protocol.scram import SCRAM_MECHANISMS, make_credential
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from tests.reference_broker.security.sasl.exchange_cases import (
    CLOSED,
    PASSWORDS,
    SETTINGS,
    Case,
    all_cases,
    outcomes,
    recorded,
)
from tests.reference_broker.security.sasl.signing import signing_keys

pytest.importorskip("cryptography")

NOW_MS = 1_780_000_000_000

CREDENTIALS = {
    (mechanism, user): make_credential(mechanism, password, b"salt", 4096)
    for mechanism in SCRAM_MECHANISMS
    for user, password in PASSWORDS.items()
}


class Store:
    """The credentials of the users, and one delegation token."""

    def scram_credential(self, mechanism: str, username: str) -> ScramCredential | None:
        return CREDENTIALS.get((mechanism, username))

    def token_credential(self, token_id: str) -> TokenCredential | None:
        return TokenCredential(KafkaPrincipal("User", "owner"), "hmac-secret", 7) if token_id == "known" else None


def made(kind: str, **settings: str) -> Mechanism:
    """Return a mechanism with the settings of a kind, and others; dots in names are underscores here."""
    changed = {name.replace("_", "."): value for name, value in settings.items()}
    return new_exchange(kind.partition(" ")[0], SETTINGS[kind] | changed, Store(), Store())


def offered(kind: str, keys_url: str) -> Mechanism:
    return made(kind, **({"sasl_oauthbearer_jwks_endpoint_url": keys_url} if "signed" in kind else {}))


@pytest.fixture(scope="module")
def keys_url(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the URL of a file with keys."""
    path = tmp_path_factory.mktemp("keys") / "the keys.json"
    path.write_bytes(signing_keys().public)
    return path.as_uri()


def played(exchange: Exchange, case: Case, errors: list[str] | None = None) -> list[Any]:
    """Play a case; a refusal has Kafka's code. The errors are added to `errors`."""

    def send(message: bytes) -> bytes | list[Any] | str:
        try:
            return exchange.respond(message, NOW_MS)
        except LoginRefused as error:
            if errors is not None:
                errors.append(f"{error!r} {error} {vars(error)}")
            if isinstance(error, LoginAborted):
                return CLOSED
            return [ErrorCode.SASL_AUTHENTICATION_FAILED.value, error.detail]

    return outcomes(case, send, NOW_MS, signing_keys())


@pytest.mark.parametrize("kind", SETTINGS)
def test_kafkas_outcomes(kind: str, keys_url: str) -> None:
    mechanism = offered(kind, keys_url)
    expected = {name: outcome for name, outcome in recorded().items() if name.startswith(f"{kind} ")}
    cases = [case for case in all_cases() if case.kind == kind]
    assert len(cases) >= 60
    found = {f"{kind} {case.name}": played(mechanism(), case) for case in cases}
    assert found == {name: expected[name] for name in found}


def test_every_case_is_recorded() -> None:
    assert recorded().keys() == {f"{case.kind} {case.name}" for case in all_cases()}


def test_a_delegation_token() -> None:
    """The client logs in as the owner of the token, until the token expires."""
    from kafkawire.sdk.protocol.sasl.scram import ScramAuthenticator
    from kafkawire.sdk.secret import Secret

    client = ScramAuthenticator("SCRAM-SHA-256", "known", Secret("hmac-secret"), "c", is_token=True)
    exchange = made("SCRAM-SHA-256")()
    proof = client.respond(exchange.respond(client.first_message(), NOW_MS))
    assert proof is not None
    assert client.respond(exchange.respond(proof, NOW_MS)) is None
    assert exchange.identity == Identity(KafkaPrincipal("User", "owner"), 7, is_token=True)


def test_nonces_differ() -> None:
    first = b"n,,n=alice,r=client"
    mechanism = made("SCRAM-SHA-256")
    challenges = {mechanism().respond(first, NOW_MS) for _ in range(10)}
    assert len(challenges) == 10


def test_keys_are_fetched_while_the_listener_is_open(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    path.write_bytes(b'{"keys": []}')
    case = next(case for case in all_cases() if case.kind == "OAUTHBEARER signed")
    mechanism, timers = made("OAUTHBEARER signed", sasl_oauthbearer_jwks_endpoint_url=path.as_uri()), Timers()
    mechanism.start(timers, at_once, NOW_MS)
    timers.fire(NOW_MS)
    path.write_bytes(signing_keys().public)
    assert played(mechanism(), case) == ['{"status":"invalid_token"}']
    timers.fire(NOW_MS + FILE_REFRESH_MS)
    timers.fire(NOW_MS + FILE_REFRESH_MS)
    assert played(mechanism(), case) == [""]
    mechanism.stop()
    assert timers.next_deadline_ms is None


@pytest.mark.parametrize("kind", ["PLAIN", "SCRAM-SHA-256", "OAUTHBEARER"])
def test_other_mechanisms_need_nothing_in_the_background(kind: str) -> None:
    timers = Timers()
    mechanism = made(kind)
    mechanism.start(timers, at_once, 0)
    assert timers.next_deadline_ms is None
    mechanism.stop()


OAUTH = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"


@pytest.mark.parametrize(
    ("kind", "settings", "reason"),
    [
        (
            "PLAIN",
            {"sasl_jaas_config": "x"},
            "sasl.jaas.config=<hidden>: line 1, character 2: expected one of required",
        ),
        (
            "PLAIN",
            {"sasl_jaas_config": SETTINGS["PLAIN"]["sasl.jaas.config"] * 2},
            "expected one login module, but found 2",
        ),
        (
            "PLAIN",
            {"sasl_jaas_config": SETTINGS["OAUTHBEARER"]["sasl.jaas.config"]},
            "expected the login module .*Plain",
        ),
        ("PLAIN", {"sasl_server_callback_handler_class": "com.example.Ldap"}, "no Java class can be loaded for PLAIN"),
        (
            "OAUTHBEARER",
            {"sasl_jaas_config": f"{OAUTH};"},
            "sasl.oauthbearer.jwks.endpoint.url=None: required to verify",
        ),
        (
            "OAUTHBEARER",
            {"sasl_jaas_config": f'{OAUTH} unsecuredValidatorAllowableClockSkewMs="-1";'},
            "unsecuredValidatorAllowableClockSkewMs must be a number of milliseconds from 0",
        ),
        (
            "OAUTHBEARER",
            {"sasl_jaas_config": f"{OAUTH} unsecuredValidatorRequiredScope='\"';"},
            "unsecuredValidatorRequiredScope has characters",
        ),
        ("OAUTHBEARER signed", {}, "sasl.oauthbearer.jwks.endpoint.url=None: required to verify tokens"),
        (
            "OAUTHBEARER signed",
            {"sasl_oauthbearer_jwks_endpoint_url": "ftp://x/y"},
            "expected a URL that begins with file:///, http:// or https://",
        ),
        ("OAUTHBEARER signed", {"sasl_oauthbearer_jwks_endpoint_url": "https:///keys"}, "expected a URL"),
        ("OAUTHBEARER signed", {"sasl_oauthbearer_jwks_endpoint_url": "https://[::1/keys"}, "expected a URL"),
        ("OAUTHBEARER signed", {"sasl_oauthbearer_jwks_endpoint_url": "file:"}, "expected a URL"),
        (
            "OAUTHBEARER signed",
            {"sasl_oauthbearer_jwks_endpoint_url": "file:///does/not/exist"},
            "the keys cannot be read: .*No such file",
        ),
        (
            "OAUTHBEARER signed",
            {
                "sasl_oauthbearer_jwks_endpoint_url": "https://issuer.example/keys",
                "sasl_jaas_config": f'{OAUTH} ssl.truststore.location="a.jks" ssl.truststore.type="JKS";',
            },
            "only ssl.truststore.location with PEM is supported",
        ),
        (
            "OAUTHBEARER signed",
            {"sasl_oauthbearer_jwks_endpoint_url": "https://x/y", "sasl_oauthbearer_jwt_validator_class": "Own"},
            "sasl.oauthbearer.jwt.validator.class=.*: expected .*DefaultJwtValidator",
        ),
        (
            "OAUTHBEARER signed",
            {"sasl_oauthbearer_jwks_endpoint_url": "https://x/y", "sasl_oauthbearer_clock_skew_seconds": "-1"},
            "sasl.oauthbearer.clock.skew.seconds=.*: expected a number of at least 0",
        ),
        (
            "OAUTHBEARER signed",
            {"sasl_oauthbearer_jwks_endpoint_url": "https://x/y", "sasl_oauthbearer_jwks_endpoint_refresh_ms": "0"},
            "sasl.oauthbearer.jwks.endpoint.refresh.ms=.*: expected a number of at least 1",
        ),
        (
            "OAUTHBEARER signed",
            {
                "sasl_oauthbearer_jwks_endpoint_url": "https://issuer.example/keys",
                "sasl_jaas_config": f'{OAUTH} ssl.truststore.location="/does/not/exist";',
            },
            "^ssl_truststore_location=.*: cannot be read|No such file",
        ),
        (
            "OAUTHBEARER signed",
            {"sasl_oauthbearer_jwks_endpoint_url": "https://x/y", "sasl_oauthbearer_sub_claim_name": " "},
            "sasl.oauthbearer.sub.claim.name=.*: must not be blank",
        ),
    ],
)
def test_unusable_settings(kind: str, settings: dict[str, str], reason: str) -> None:
    with pytest.raises(ConfigurationError, match=reason) as raised:
        made(kind, **settings)
    assert not any(password in str(raised.value) for password in PASSWORDS.values())


def test_missing_settings() -> None:
    for name in MECHANISMS:
        with pytest.raises(ConfigurationError, match=f"sasl.jaas.config=None: required for {name}: .*LoginModule"):
            new_exchange(name, {}, Store(), None)
    with pytest.raises(ConfigurationError, match=r"sasl\.enabled\.mechanisms='CRAM-MD5': expected some of PLAIN"):
        new_exchange("CRAM-MD5", {}, Store(), None)


FILE = "java.security.auth.login.config"


def in_file(folder: Path, text: str, mechanism: str = "PLAIN", listener: str = "INTERNAL") -> Mechanism:
    """Return a mechanism whose login module is in a file."""
    path = folder / "jaas.conf"
    path.write_text(text)
    return new_exchange(mechanism, {FILE: str(path)}, Store(), None, listener=listener)


def test_a_login_module_in_a_file(tmp_path: Path) -> None:
    """A section has a login module for each mechanism, and a listener may have a section of its own."""
    plain, scram = (SETTINGS[kind]["sasl.jaas.config"] for kind in ("PLAIN", "SCRAM-SHA-256"))
    text = f"KafkaServer {{ {scram} {plain} }}; other.KafkaServer {{ {scram} }};"
    assert in_file(tmp_path, text)().respond(b"\0alice\0alice-secret", NOW_MS) == b""
    assert in_file(tmp_path, text, "SCRAM-SHA-512", "OTHER")().respond(b"n,,n=alice,r=client", NOW_MS)
    with pytest.raises(ConfigurationError, match=f"{FILE}='.*jaas.conf': expected the login module .*Plain"):
        in_file(tmp_path, text, listener="OTHER")
    with pytest.raises(ConfigurationError, match=r"there is neither a section KafkaServer nor"):
        in_file(tmp_path, "Client { };")
    with pytest.raises(ConfigurationError, match=r"line 1, character 10: expected \{"):
        in_file(tmp_path, "KafkaClie")
    with pytest.raises(ConfigurationError, match=f"the text has {TEXT_CHARACTERS_MAX + 1} characters, but at most"):
        in_file(tmp_path, text + " " * TEXT_CHARACTERS_MAX)
    with pytest.raises(ConfigurationError, match="No such file"):
        new_exchange("PLAIN", {FILE: str(tmp_path / "none")}, Store(), None)


def test_the_option_takes_precedence_over_the_file(tmp_path: Path) -> None:
    settings = SETTINGS["PLAIN"] | {FILE: str(tmp_path / "none")}
    assert new_exchange("PLAIN", settings, Store(), None)().respond(b"\0alice\0alice-secret", NOW_MS) == b""


@pytest.mark.parametrize("url", ["file:///keys.json", "https://issuer.example/keys"])
def test_without_cryptography(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, url: str) -> None:
    """A listener is refused when it opens, not when the first keys have arrived."""
    monkeypatch.setitem(sys.modules, "cryptography", None)
    (tmp_path / "keys.json").write_bytes(b'{"keys": []}')
    with pytest.raises(ConfigurationError, match=r'needs cryptography: pip install "kafkawire\[jwt\]"'):
        made("OAUTHBEARER signed", sasl_oauthbearer_jwks_endpoint_url=url.replace("file://", tmp_path.as_uri()))


def test_unsecured_tokens_only_on_request(keys_url: str) -> None:
    """Unlike in Kafka, keys are used although the option for the handler is missing."""
    settings = {
        "sasl.jaas.config": SETTINGS["OAUTHBEARER"]["sasl.jaas.config"],
        "sasl.oauthbearer.jwks.endpoint.url": keys_url,
    }
    case = next(case for case in all_cases() if case.kind == "OAUTHBEARER")
    assert played(new_exchange("OAUTHBEARER", settings, Store(), None)(), case) == ['{"status":"invalid_token"}']
    handler = "org.apache.kafka.common.security.oauthbearer.internals.unsecured."
    settings["sasl.server.callback.handler.class"] = f"{handler}OAuthBearerUnsecuredValidatorCallbackHandler"
    assert played(new_exchange("OAUTHBEARER", settings, Store(), None)(), case) == [""]


@pytest.mark.parametrize("kind", SETTINGS)
def test_no_secret_is_shown(kind: str, keys_url: str, caplog: pytest.LogCaptureFixture) -> None:
    """Neither the repr of any object that a login consists of, nor an error or the log, shows a secret."""
    caplog.set_level(logging.DEBUG)
    mechanism = offered(kind, keys_url)
    shown: list[str] = []
    for case in all_cases():
        if case.kind != kind:
            continue
        exchange = mechanism()
        shown += [str(outcome) for outcome in played(exchange, case, shown)]
        shown += [repr(each) for each in reachable(exchange, mechanism)]
    alive = [each for each in gc.get_objects() if str(type(each).__module__).startswith(ROOMS)]
    assert {"Mechanism", "_Request"} <= {type(each).__name__ for each in alive} or kind != "SCRAM-SHA-256"
    text = "\n".join([*shown, *map(repr, alive), caplog.text])
    hidden = [*PASSWORDS.values(), "hmac-secret", "salt=", "eyJ"]  # tokens begin with eyJ
    assert [secret for secret in hidden if secret in text] == []


#: The modules whose objects must not show secrets.
ROOMS = ("kafkawire.reference_broker.security", "kafkawire.sdk.jaas", "kafkawire.sdk.protocol.scram")


def reachable(*roots: object) -> list[object]:
    """Return the objects of this project's classes that others refer to."""
    found: list[object] = []
    seen: set[int] = set()
    waiting = [*roots]
    while waiting:
        each = waiting.pop()
        module = type(each).__module__
        if id(each) in seen or isinstance(each, type) or not module.startswith(("builtins", "functools", "kafkawire")):
            continue
        seen.add(id(each))
        if module.startswith("kafkawire"):
            found.append(each)
        if module.startswith("kafkawire") or isinstance(each, dict | tuple | list | partial):
            waiting += gc.get_referents(each)
    return found
