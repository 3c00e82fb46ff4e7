"""All logins share a token while it is valid; errors say what went wrong without revealing the secret.

Method: log in with a local token service, built with `asyncio.start_server`, whose answers each test chooses.
"""

from __future__ import annotations

import asyncio
import base64
import json
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress
from urllib.parse import parse_qs

import pytest

from kafkawire.sdk.client import oidc
from kafkawire.sdk.client.oidc import RESPONSE_BYTES_MAX, ClientCredentials, TokenRefused, TokenUnavailable
from kafkawire.sdk.errors import ConfigurationError
from kafkawire.sdk.secret import Secret

SECRET = "hunter2 & more"
GOOD = b'{"access_token": "abc", "expires_in": 3600}'


class Service:
    """A token service.

    Attributes:
        status, answer: the HTTP status and the body of its answers.
        is_silent: whether the service leaves requests unanswered.
        requests: the header and form of every request.
    """

    def __init__(self) -> None:
        self.status = "200 OK"
        self.answer = GOOD
        self.requests: list[tuple[dict[str, str], dict[str, list[str]]]] = []
        self.url = ""
        self.is_silent = False
        self.connections: list[asyncio.Task[None]] = []

    def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections.append(asyncio.ensure_future(self._serve(reader, writer)))

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            await (reader.read() if self.is_silent else self._answer(reader, writer))
            writer.close()
            await writer.wait_closed()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        headers = dict(line.split(": ", 1) for line in head.split("\r\n")[1:] if line)
        form = (await reader.readexactly(int(headers["Content-Length"]))).decode()
        self.requests.append((headers, parse_qs(form)))
        head = f"HTTP/1.1 {self.status}\r\nContent-Length: {len(self.answer)}\r\nConnection: close\r\n"
        writer.write(f"{head}Content-Type: application/json\r\nLocation: /elsewhere\r\n\r\n".encode())
        for part in (self.answer[:10], self.answer[10:]):  # an answer may arrive in pieces
            writer.write(part)
            for _ in range(10):
                await asyncio.sleep(0)


def with_service(test: Callable[[Service], Awaitable[None]]) -> Service:
    service = Service()

    async def run() -> None:
        server = await asyncio.start_server(service.accept, "127.0.0.1", 0)
        async with server:
            service.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/token"
            await test(service)
            await asyncio.gather(*service.connections)

    asyncio.run(run())
    return service


def credentials(service: Service, scope: str | None = None, *, url_encodes: bool = False) -> ClientCredentials:
    return ClientCredentials(service.url, "me", Secret(SECRET), scope, url_encodes=url_encodes)


@pytest.mark.parametrize(
    ("scope", "encodes", "pair"), [(None, False, f"me:{SECRET}"), ("kafka", True, "me:hunter2+%26+more")]
)
def test_a_request(scope: str | None, encodes: bool, pair: str) -> None:
    async def test(service: Service) -> None:
        assert (await credentials(service, scope, url_encodes=encodes).token()).reveal() == "abc"

    ((headers, form),) = with_service(test).requests
    assert headers["Authorization"] == "Basic " + base64.b64encode(pair.encode()).decode()
    assert form == {"grant_type": ["client_credentials"]} | ({"scope": [scope]} if scope else {})


def test_a_token_is_kept_while_it_is_valid() -> None:
    async def test(service: Service) -> None:
        subject = credentials(service)
        tokens = await asyncio.gather(*[subject.token() for _ in range(5)])
        assert {token.reveal() for token in tokens} == {"abc"}
        await subject.token()
        assert len(service.requests) == 1

    with_service(test)


def test_a_token_is_fetched_again_before_it_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    now_ms = 0
    monkeypatch.setattr(oidc, "monotonic_ms", lambda: now_ms)

    async def test(service: Service) -> None:
        nonlocal now_ms
        subject = credentials(service)
        for time_ms, fetched in ((0, 1), (2_879_999, 1), (2_880_000, 2)):
            now_ms = time_ms
            await subject.token()
            assert len(service.requests) == fetched

    with_service(test)


def test_the_life_of_a_token_begins_with_the_question(monkeypatch: pytest.MonkeyPatch) -> None:
    """The service counts the token's lifetime from a time before its answer arrives."""
    now_ms = 0
    monkeypatch.setattr(oidc, "monotonic_ms", lambda: now_ms)

    async def test(service: Service) -> None:
        usual = service._answer

        async def slow(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            nonlocal now_ms
            now_ms += 20_000
            await usual(reader, writer)

        nonlocal now_ms
        monkeypatch.setattr(service, "_answer", slow)
        subject = credentials(service)
        for time_ms, fetched in ((0, 1), (2_879_999, 1), (2_880_000, 2)):
            now_ms = time_ms
            await subject.token()
            assert len(service.requests) == fetched

    with_service(test)


#: A signed token that expires 1,000 s after the epoch.
SIGNED = f"e30.{base64.urlsafe_b64encode(json.dumps({'exp': 1_000}).encode()).decode()}.x"


@pytest.mark.parametrize(
    ("answer", "kept_ms"),
    [
        ('"abc"', 48_000),
        ('"abc", "expires_in": null', 48_000),
        ('"abc", "expires_in": "x"', 48_000),
        ('"abc", "expires_in": "NaN"', 48_000),
        ('"abc", "expires_in": 1', 800),
        ('"abc", "expires_in": "3600"', 2_880_000),
        (f'"{SIGNED}"', 80_000),
        (f'"{SIGNED}", "expires_in": 3600', 2_880_000),
    ],
)
def test_how_long_a_token_is_kept(answer: str, kept_ms: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A service may give the lifetime as text, and leave it out; the token may say it, too."""
    time_ms = 0
    monkeypatch.setattr(oidc, "monotonic_ms", lambda: time_ms)
    monkeypatch.setattr(oidc, "now_ms", lambda: 900_000)

    async def test(service: Service) -> None:
        nonlocal time_ms
        service.answer = f'{{"access_token": {answer}}}'.encode()
        subject = credentials(service)
        await subject.token()
        time_ms = kept_ms - 1
        await subject.token()
        assert len(service.requests) == 1
        time_ms = kept_ms
        await subject.token()
        assert len(service.requests) == 2

    with_service(test)


@pytest.mark.parametrize("status", ["400 Bad Request", "401 Unauthorized", "403 Forbidden"])
def test_a_client_that_is_refused(status: str) -> None:
    async def test(service: Service) -> None:
        service.status = status
        service.answer = b'{"error": "invalid_client", "error_description": "unknown client"}'
        text = f"status {status[:3]}: invalid_client: unknown client$"
        with pytest.raises(TokenRefused, match=text) as caught:
            await credentials(service).token()
        assert not caught.value.retriable

    with_service(test)


@pytest.mark.parametrize(
    ("status", "answer", "text"),
    [
        ("500 Oops", b"<html>", "answered with status 500: no reason given$"),
        ("429 Slow", b"{}", "answered with status 429"),
        ("302 Found", b"", "answered with status 302"),
        ("503 Oops", json.dumps({"error": "x" * 999}).encode(), "status 503: x{200}$"),
        ("200 OK", b"", "has no access_token"),
        ("200 OK", b"{}", "has no access_token"),
        ("200 OK", b"[]", "has no access_token"),
        ("200 OK", b"\xff", "has no access_token"),
        ("200 OK", b"[" * 100_000, "has no access_token"),
        ("200 OK", b'{"access_token": 5}', "has no access_token"),
        (
            "200 OK",
            GOOD[:-1] + b" " * RESPONSE_BYTES_MAX + b"}",
            f"more than {RESPONSE_BYTES_MAX} bytes, the limit for a token response",
        ),
    ],
)
def test_a_service_in_trouble(status: str, answer: bytes, text: str) -> None:
    async def test(service: Service) -> None:
        service.status, service.answer = status, answer
        with pytest.raises(TokenUnavailable, match=text) as caught:
            await credentials(service).token()
        assert caught.value.retriable
        assert SECRET not in str(caught.value)
        service.status, service.answer = "200 OK", GOOD
        assert len(service.requests) == 1  # redirects are not followed

    with_service(test)


def test_nobody_answers() -> None:
    async def test(service: Service) -> None:
        service.url = "http://127.0.0.1:1/token?hunter2"
        with pytest.raises(TokenUnavailable, match=r"127\.0\.0\.1:1: ") as caught:
            await credentials(service).token()
        assert "hunter2" not in str(caught.value)

    with_service(test)


def test_a_service_that_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(oidc, "REQUEST_TIMEOUT_SECONDS", 0.02)

    async def test(service: Service) -> None:
        service.is_silent = True
        with pytest.raises(TokenUnavailable, match=r"127\.0\.0\.1"):
            await credentials(service).token()

    with_service(test)


@pytest.mark.parametrize(
    "url", ["http://id.example.org/", "ftp://localhost", "id.example.org", "http://localhost.evil"]
)
def test_a_secret_is_not_sent_without_tls(url: str) -> None:
    with pytest.raises(ConfigurationError, match="expected an https:// URL"):
        ClientCredentials(url, "me", Secret(SECRET), url_encodes=False)


@pytest.mark.parametrize("url", ["https://id.example.org/", "http://localhost:1", "http://[::1]/", "http://127.0.0.1"])
def test_where_a_secret_may_be_sent(url: str) -> None:
    ClientCredentials(url, "me", Secret(SECRET), url_encodes=False)


def test_without_aiohttp(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "aiohttp", None)

    async def test(service: Service) -> None:
        needed = r'^sasl_oauthbearer_token_endpoint_url=.*needs aiohttp: pip install "kafkawire\[oauth\]"'
        with pytest.raises(ConfigurationError, match=needed):
            await credentials(service).token()

    with_service(test)
