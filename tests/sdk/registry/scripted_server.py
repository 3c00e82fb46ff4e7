"""A server that speaks ZooKeeper's protocol, following a script of what each connection receives and answers.

It does what a real server rarely does: stay silent, refuse a login, or close a connection in the middle of a login.
"""

from __future__ import annotations

import socket
import ssl
import struct
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress

__all__ = ["ScriptedConnection", "ScriptedServer"]

#: A client that has sent nothing by this time never will. This is less than a test's time limit.
_TIMEOUT_SECONDS = 60


class ScriptedConnection:
    """A connection as seen by the server."""

    def __init__(self, connected: socket.socket) -> None:
        connected.settimeout(_TIMEOUT_SECONDS)
        self._socket = connected

    def receive(self) -> bytes:
        """Return the next request without its length, or empty bytes if the client has closed the connection."""
        head = self._read(4)
        return self._read(struct.unpack(">i", head)[0]) if head else b""

    def _read(self, size_bytes: int) -> bytes:
        content = b""
        while len(content) < size_bytes:
            part = self._socket.recv(size_bytes - len(content))
            if not part:
                return b""
            content += part
        return content

    def send_raw(self, content: bytes) -> None:
        """Send bytes as they are."""
        self._socket.sendall(content)

    def send(self, content: bytes) -> None:
        self._socket.sendall(struct.pack(">i", len(content)) + content)

    def welcome(self, session_id: int = 7, timeout_ms: int = 18_000, password: bytes = b"p" * 16) -> bytes:
        """Receive the request that begins every connection, answer it, and return it."""
        request = self.receive()
        self.send(struct.pack(">iiqi", 0, timeout_ms, session_id, len(password)) + password + b"\0")
        return request

    def answer(self, code: int = 0, body: bytes = b"") -> bytes:
        """Receive the next request, answer it, and return it."""
        request = self.receive()
        (xid,) = struct.unpack(">i", request[:4])
        self.send(struct.pack(">iqi", xid, 9, code) + body)
        return request


class ScriptedServer:
    """The scripted server.

    Args:
        scripts: what to do with each connection, in order. After its script, a connection is closed; after the last
            script, no more connections are accepted.
        tls: the TLS configuration; None for no TLS.

    Attributes:
        port: the port on which it listens.
    """

    def __init__(
        self, scripts: Sequence[Callable[[ScriptedConnection], object]], tls: ssl.SSLContext | None = None
    ) -> None:
        self._scripts = scripts
        self._tls = tls
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.settimeout(_TIMEOUT_SECONDS)
        self.port: int = self._listener.getsockname()[1]
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> ScriptedServer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._thread.join(_TIMEOUT_SECONDS)
        self._listener.close()

    def _run(self) -> None:
        for script in self._scripts:
            connected, _ = self._listener.accept()
            with connected, suppress(*([ssl.SSLError] if self._tls else [])):
                secured = connected if self._tls is None else self._tls.wrap_socket(connected, server_side=True)
                with secured:
                    script(ScriptedConnection(secured))
