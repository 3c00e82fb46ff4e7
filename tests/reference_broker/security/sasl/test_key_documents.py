"""Documents with keys are read from files and from web servers, within limits.

Method: replace a file; run a server in the process that answers well, badly, without end, or with redirects; https with
certificates of the tests.
"""

from __future__ import annotations

import os
import ssl
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from kafkawire.reference_broker.security.sasl import key_documents
from kafkawire.reference_broker.security.sasl.json_web_keys import DOCUMENT_BYTES_MAX
from kafkawire.reference_broker.security.sasl.key_documents import KeyFile, KeyUrl
from tests.certificates import Certificates
from tests.needs import OPENSSL

DOCUMENT = b'{"keys": []}'


class Handler(BaseHTTPRequestHandler):
    """Answers by the path of the request."""

    def do_GET(self) -> None:
        match self.path:
            case "/keys":
                self._answer(200, DOCUMENT)
            case "/moved":
                self._answer(302, b"", Location="/keys")
            case "/elsewhere":
                self._answer(302, b"", Location="https://localhost:1/keys")
            case "/file":
                self._answer(302, b"", Location="file:///etc/hostname")
            case "/loop":
                self._answer(302, b"", Location="/loop")
            case "/large":
                self._answer(200, b" " * (DOCUMENT_BYTES_MAX + 1))
            case "/created":
                self._answer(201, DOCUMENT)
            case "/noise":
                self.wfile.write(b"noise\r\n\r\n")
            case "/short":
                self.wfile.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab")
            case _:
                self._answer(404, b"secret")

    def _answer(self, status: int, content: bytes, **headers: str) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing."""


def served(context: ssl.SSLContext | None = None) -> Iterator[int]:
    """Yield the port of a server."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        if context is not None:
            server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    for port in served():
        yield f"http://127.0.0.1:{port}"


@pytest.fixture(autouse=True)
def without_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "*")


def test_a_file(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    path.write_bytes(DOCUMENT)
    file = KeyFile(str(path))
    assert file() == DOCUMENT
    assert file() is None
    path.write_bytes(b"{}")
    assert file() == b"{}"
    os.utime(path, (1, 1))
    assert file() == b"{}"
    path.unlink()
    with pytest.raises(FileNotFoundError):
        file()


def test_a_file_that_is_too_large(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    path.write_bytes(b" " * DOCUMENT_BYTES_MAX)
    assert KeyFile(str(path))() == b" " * DOCUMENT_BYTES_MAX
    path.write_bytes(b" " * (DOCUMENT_BYTES_MAX + 1))
    with pytest.raises(ValueError, match=f"more than {DOCUMENT_BYTES_MAX} bytes"):
        KeyFile(str(path))()
    with pytest.raises(IsADirectoryError):
        KeyFile(str(tmp_path))()


@pytest.mark.parametrize("path", ["/keys", "/moved"])
def test_a_url(server: str, path: str) -> None:
    assert KeyUrl(server + path)() == DOCUMENT


@pytest.mark.parametrize("path", ["/other", "/created", "/elsewhere", "/file", "/loop", "/noise", "/short"])
def test_responses_that_are_refused(server: str, path: str) -> None:
    with pytest.raises(OSError, match=r".+") as raised:
        KeyUrl(server + path)()
    assert "secret" not in str(raised.value)


def test_a_response_that_is_too_large(server: str) -> None:
    with pytest.raises(ValueError, match=f"more than {DOCUMENT_BYTES_MAX} bytes"):
        KeyUrl(server + "/large")()


def test_a_response_that_takes_too_long(server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([0.0, 20_000.0, 0.0, 20_001.0])
    monkeypatch.setattr(key_documents, "monotonic_ms", lambda: next(clock))
    assert KeyUrl(server + "/keys")() == DOCUMENT
    with pytest.raises(TimeoutError, match="longer than 20000 ms"):
        KeyUrl(server + "/keys")()


def test_nobody_listens() -> None:
    with pytest.raises(OSError, match="refused"):
        KeyUrl("http://127.0.0.1:1/keys")()


@OPENSSL.mark
def test_https(tmp_path: Path) -> None:
    certificates = Certificates(tmp_path)
    trusting = ssl.create_default_context(cafile=certificates.authority)
    for port in served(certificates.context(certificates.broker)):
        assert KeyUrl(f"https://localhost:{port}/keys", trusting)() == DOCUMENT
        with pytest.raises(OSError, match="certificate verify failed"):
            KeyUrl(f"https://localhost:{port}/keys")()
