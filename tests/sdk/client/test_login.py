"""Each mechanism reads what it needs from the options, and an error names any option that is missing.

Method: create a login from options, and check its first message; stand-ins replace the optional packages.
"""

from __future__ import annotations

import asyncio
import base64
import json
import re
import ssl
import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from kafkawire.sdk.client import login as module
from kafkawire.sdk.client.login import credentials, login, tls
from kafkawire.sdk.client.security_options import SecurityOptions
from kafkawire.sdk.errors import ConfigurationError
from kafkawire.sdk.protocol.sasl import gssapi
from kafkawire.sdk.protocol.sasl.authenticator import Authenticator, CredentialsUnavailable
from kafkawire.sdk.secret import Secret
from kafkawire.sdk.transport.tls import PemFiles

SASL = {"security_protocol": "SASL_PLAINTEXT"}
USER = {**SASL, "sasl_username": "alice", "sasl_password": "pencil"}
OAUTH = {**SASL, "sasl_mechanism": "OAUTHBEARER"}
MSK = {**SASL, "sasl_mechanism": "AWS_MSK_IAM"}
TLS = {"security_protocol": "SSL"}


def read(given: dict[str, Any]) -> SecurityOptions:
    return SecurityOptions.read(given.items())


def log_in(given: dict[str, Any], host: str = "broker") -> Authenticator:
    """Return the authenticator that these options select."""
    make = login(read(given))
    assert make is not None

    async def run() -> Authenticator:
        return await make(host)

    return asyncio.run(run())


@pytest.mark.parametrize("given", [{}, TLS])
def test_without_sasl(given: dict[str, Any]) -> None:
    assert login(read(given)) is None


def test_plain() -> None:
    subject = log_in({**USER, "sasl_mechanism": "PLAIN"})
    assert subject.mechanism == "PLAIN"
    assert subject.first_message() == b"\0alice\0pencil"


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_scram(mechanism: str) -> None:
    """Each login has its own nonce."""
    given = {**USER, "sasl_mechanism": mechanism}
    first, second = log_in(given), log_in(given)
    assert first.mechanism == mechanism
    assert first.first_message().startswith(b"n,,n=alice,r=")
    assert first.first_message() != second.first_message()
    assert log_in({**given, "sasl_scram_tokenauth": True}).first_message().endswith(b",tokenauth=true")


async def later() -> str:
    return "token"


@pytest.mark.parametrize(
    "token", ["token", Secret("token"), lambda: "token", lambda: Secret("token"), later, lambda: later()]
)
def test_oauthbearer(token: object) -> None:
    subject = log_in({**OAUTH, "sasl_oauthbearer_token": token, "sasl_oauthbearer_extensions": {"a": "b"}})
    assert subject.first_message() == b"n,,\x01auth=Bearer token\x01a=b\x01\x01"


@pytest.mark.parametrize("token", [lambda: None, lambda: b"hunter2", lambda: ("hunter2", {})])
def test_a_function_that_returns_no_token(token: object) -> None:
    with pytest.raises(ConfigurationError, match=r"sasl_oauthbearer_token.*a function that returns a string") as caught:
        log_in({**OAUTH, "sasl_oauthbearer_token": token})
    assert "hunter2" not in str(caught.value)


def test_a_token_is_asked_for_each_time() -> None:
    tokens = iter(["one", "two"])
    make = login(read({**OAUTH, "sasl_oauthbearer_token": lambda: next(tokens)}))
    assert make is not None

    async def run() -> list[bytes]:
        return [(await make("broker")).first_message() for _ in range(2)]

    assert [b"Bearer one" in message for message in asyncio.run(run())] == [True, False]


def test_oidc() -> None:
    """This checks only the options; test_oidc.py uses a token service."""
    given = {
        **OAUTH,
        "sasl_oauthbearer_token_endpoint_url": "http://id.example.org",
        "sasl_oauthbearer_client_credentials_client_id": "me",
        "sasl_oauthbearer_client_credentials_client_secret": "hunter2",
    }
    with pytest.raises(ConfigurationError, match="expected an https://"):
        login(read(given))
    assert login(read({**given, "sasl_oauthbearer_token_endpoint_url": "https://id.example.org"})) is not None


def test_gssapi(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gssapi", None)
    with pytest.raises(ConfigurationError, match="pip install"):
        log_in({**SASL, "sasl_mechanism": "GSSAPI"})


def test_gssapi_asks_for_a_ticket_of_the_service_on_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, str]] = []
    monkeypatch.setattr(gssapi, "GssapiAuthenticator", lambda service, host: asked.append((service, host)))
    log_in({**SASL, "sasl_mechanism": "GSSAPI", "sasl_kerberos_service_name": "kafka-service"}, "broker")
    assert asked == [("kafka-service", "broker")]


def botocore(monkeypatch: pytest.MonkeyPatch, credentials: object) -> None:
    """Replace botocore with a stand-in."""
    session: Any = ModuleType("botocore.session")
    session.Session = lambda: SimpleNamespace(get_credentials=lambda: credentials)
    monkeypatch.setitem(sys.modules, "botocore", ModuleType("botocore"))
    monkeypatch.setitem(sys.modules, "botocore.session", session)


@pytest.mark.parametrize("token", [None, "session"])
def test_aws_msk_iam(monkeypatch: pytest.MonkeyPatch, token: str | None) -> None:
    frozen = SimpleNamespace(access_key="AKIA", secret_key="hunter2", token=token)
    botocore(monkeypatch, SimpleNamespace(get_frozen_credentials=lambda: frozen))
    statement = json.loads(log_in({**MSK, "sasl_aws_region": "eu-west-1"}).first_message())
    assert statement["host"] == "broker"
    assert statement["x-amz-credential"].startswith("AKIA/")
    assert "/eu-west-1/" in statement["x-amz-credential"]
    assert statement.get("x-amz-security-token") == token
    named = log_in(MSK, "b-1.demo.kafka.us-east-1.amazonaws.com").first_message()
    assert b"/us-east-1/" in named


def test_aws_without_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    botocore(monkeypatch, None)
    with pytest.raises(CredentialsUnavailable, match="botocore found no AWS credentials"):
        log_in({**MSK, "sasl_aws_region": "eu-west-1"})


def test_aws_without_botocore(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "botocore.session", None)
    with pytest.raises(ConfigurationError, match=r'needs the package botocore: pip install "kafkawire\[aws\]"'):
        log_in({**MSK, "sasl_aws_region": "eu-west-1"})


def test_aws_without_a_region() -> None:
    with pytest.raises(ConfigurationError, match="sasl_aws_region"):
        log_in(MSK)


CONTEXT = ssl.create_default_context()


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, None),
        (TLS, PemFiles()),
        ({**USER, "sasl_mechanism": "PLAIN", "security_protocol": "SASL_SSL"}, PemFiles()),
        ({**TLS, "ssl_context": CONTEXT}, CONTEXT),
        ({**TLS, "ssl_truststore_location": "ca.pem"}, PemFiles("ca.pem")),
        ({**TLS, "ssl_truststore_certificates": "PEM"}, PemFiles("PEM")),
        ({**TLS, "ssl_endpoint_identification_algorithm": ""}, PemFiles(checks_hostname=False)),
        (
            {**TLS, "ssl_keystore_location": "a.pem", "ssl_key_location": "b.pem", "ssl_key_password": "x"},
            PemFiles(None, "a.pem", Secret("b.pem"), Secret("x")),
        ),
        (
            {**TLS, "ssl_keystore_certificate_chain": "PEM", "ssl_keystore_key": "KEY"},
            PemFiles(None, "PEM", Secret("KEY")),
        ),
    ],
)
def test_tls(given: dict[str, Any], expected: object) -> None:
    assert tls(read(given)) == expected


def test_where_credentials_come_from() -> None:
    """The text names the function and the option, for errors about a source that is too slow or fails."""

    class Provider:
        def __call__(self) -> str:
            return "abc"

    def token() -> str:
        return "abc"

    service = {f"sasl_oauthbearer_client_credentials_client_{name}": "x" for name in ("id", "secret")}
    service["sasl_oauthbearer_token_endpoint_url"] = "https://here"
    cases: list[tuple[dict[str, Any], str]] = [
        ({**OAUTH, "sasl_oauthbearer_token": token}, r"the function .*<locals>.token \(sasl_oauthbearer_token\)"),
        ({**OAUTH, "sasl_oauthbearer_token": Provider()}, r"the function .*\.Provider \(sasl_oauthbearer_token\)"),
        ({**OAUTH, **service}, r"the token service \(sasl_oauthbearer_token_endpoint_url\)"),
        ({**SASL, "sasl_mechanism": "GSSAPI"}, r"Kerberos \(sasl_mechanism\)"),
        (MSK, r"botocore \(sasl_mechanism\)"),
        ({**USER, "sasl_mechanism": "PLAIN"}, "the login"),
        ({}, "the login"),
    ]
    for given, expected in cases:
        assert re.fullmatch(expected, credentials(read(given)))


@pytest.mark.usefixtures("time_skips")
@pytest.mark.parametrize(("left_ms", "asked"), [(-5_000, 1), (999, 2), (1_001, 1), (None, 1)])
def test_a_token_that_is_about_to_end_is_waited_out(
    left_ms: int | None, asked: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A function may keep its token to the last moment; on its way to the broker, it would end."""
    times: list[float] = []

    async def run() -> None:
        clock = asyncio.get_running_loop().time
        began = clock()
        monkeypatch.setattr(module, "now_ms", lambda: round((clock() - began) * 1_000))

        def token() -> str:
            times.append(clock() - began)
            claims = base64.urlsafe_b64encode(json.dumps({"exp": (left_ms or 0) / 1_000}).encode()).decode().rstrip("=")
            return "opaque" if left_ms is None else f"e30.{claims}.{len(times)}"

        make = login(read({**OAUTH, "sasl_oauthbearer_token": token}))
        assert make is not None
        authenticator = await make("broker")
        if left_ms is not None:
            assert authenticator.first_message().endswith(f".{asked}\x01\x01".encode())

    asyncio.run(run())
    assert len(times) == asked
    assert 0.999 <= times[-1] <= 1.05 if asked == 2 else times[-1] == 0
