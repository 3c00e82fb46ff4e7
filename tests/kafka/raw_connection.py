"""A connection that sends bytes which no client would send, with or without TLS, and reports what a broker does."""

from __future__ import annotations

import os
import socket
import ssl
import struct
from collections.abc import Generator
from contextlib import suppress
from types import TracebackType
from typing import Any, Final, Self

from kafkawire.sdk.errors import RemoteProtocolError
from kafkawire.sdk.protocol.connection import ClientConnection
from kafkawire.sdk.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from kafkawire.sdk.protocol.messages.sasl_handshake import SaslHandshakeRequest
from kafkawire.sdk.protocol.schema import Message
from kafkawire.sdk.protocol.scram import ScramClient
from tests.kafka.secure import PASSWORDS
from tests.reference_broker.security.sasl.exchange_cases import CLOSED

__all__ = ["CLOSED", "TIMEOUT_SECONDS", "Messages", "RawConnection", "bearer", "plain", "scram"]

#: How long a broker may take; a busy machine needs it.
TIMEOUT_SECONDS: Final = 30

#: How long a connection that stays open is watched.
_WATCHED_SECONDS: Final = 0.5

_LENGTH: Final = struct.Struct(">i")
_HANDSHAKE_VERSION: Final = 1
_TOKEN_VERSION: Final = 2

#: Yields the messages of a login, and gets the challenges.
Messages = Generator[bytes, bytes, None]


def plain(user: str, password: str | None = None) -> Messages:
    """Log in with PLAIN; without a password, with the right one."""
    yield f"\0{user}\0{PASSWORDS[user] if password is None else password}".encode()


def scram(mechanism: str, user: str, password: str | None = None, *, is_token: bool = False) -> Messages:
    """Log in with SCRAM; without a password, with the right one."""
    password = PASSWORDS[user] if password is None else password
    client = ScramClient(mechanism, user, password, "nonce", {"tokenauth": "true"} if is_token else {})
    challenge = yield client.first_message()
    challenge = yield client.receive_first(challenge)
    client.receive_final(challenge)


def bearer(token: str) -> Messages:
    """Log in with OAUTHBEARER."""
    challenge = yield f"n,,\x01auth=Bearer {token}\x01\x01".encode()
    if challenge:
        yield b"\x01"


class RawConnection:
    """A connection inside a `with` block.

    Args:
        address: host and port.
        tls: the context of the client; None for a connection without TLS.

    Raises:
        OSError: the broker cannot be reached, or the TLS handshake fails.

    Attributes:
        received: everything that the broker has sent.
        session_ms: how long the last login lasts; 0 for no limit.
    """

    def __init__(self, address: str, tls: ssl.SSLContext | None = None) -> None:
        host, _, port = address.rpartition(":")
        connected = socket.create_connection((host, int(port)), TIMEOUT_SECONDS)
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket = connected
        if tls is not None:
            try:
                self._socket = tls.wrap_socket(connected, server_hostname="localhost")
            except BaseException:
                connected.close()
                raise
        self._protocol = ClientConnection("raw")
        self.received = bytearray()
        self.session_ms = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._socket.close()

    def send(self, data: bytes) -> None:
        """Send bytes as they are; if the broker has closed the connection, `frame` tells."""
        with suppress(ConnectionError, ssl.SSLError):
            self._socket.sendall(data)

    def send_below(self, data: bytes) -> None:
        """Send bytes on the socket below TLS."""
        with socket.socket(fileno=os.dup(self._socket.fileno())) as below:
            below.sendall(data)

    @staticmethod
    def encoding(request: Message, version: int) -> bytes:
        """Return the frame of a request that is not sent as it is."""
        return b"".join(ClientConnection("raw").request(request, version).parts)

    def encoded(self, request: Message, version: int) -> bytes:
        """Return the frame of a request, whose response will be expected."""
        return b"".join(self._protocol.request(request, version).parts)

    def send_request(self, request: Message, version: int) -> None:
        """Send a request without waiting for its response."""
        self.send(self.encoded(request, version))

    def finish_sending(self) -> None:
        """Shut down the sending direction."""
        self._socket.shutdown(socket.SHUT_WR)

    def frame(self) -> bytes | None:
        """Return the content of the next frame; None if the broker closes the connection instead."""
        head = self._exactly(_LENGTH.size)
        return None if head is None else self._exactly(*_LENGTH.unpack(head))

    def ask(self, request: Message, version: int) -> Any:
        """Return the response to a request; None if the broker closes the connection instead."""
        self.send_request(request, version)
        return self.response()

    def response(self) -> Any:
        """Return the next response to a request that was sent; None if the broker closes the connection instead."""
        frame = self.frame()
        return None if frame is None else self._protocol.receive(frame).message

    def state(self, seconds: float = _WATCHED_SECONDS) -> str:
        """Return whether the connection is open, has answered, or is closed, after a while without a request."""
        self._socket.settimeout(seconds)
        try:
            data = self._socket.recv(1)
        except TimeoutError:
            return "open"
        except (ConnectionError, ssl.SSLError):
            return CLOSED
        finally:
            self._socket.settimeout(TIMEOUT_SECONDS)
        self.received += data
        return "answered" if data else CLOSED

    def ended(self) -> str:
        """Return `CLOSED` once the broker has closed the connection, whatever it has sent before."""
        while (state := self.state(TIMEOUT_SECONDS)) == "answered":
            pass
        return state

    def log_in(self, mechanism: str, messages: Messages) -> list[Any]:
        """Log in; return the outcome of the handshake and of each message.

        The outcome of a message is "challenge" or "" for a challenge with or without content, a list of an error code
        and a text, or `CLOSED`.
        """
        shaken = self.ask(SaslHandshakeRequest(mechanism), _HANDSHAKE_VERSION)
        if shaken is None or shaken.error_code:
            return [CLOSED if shaken is None else [shaken.error_code]]
        return self.authenticate(messages)

    def authenticate(self, messages: Messages) -> list[Any]:
        """Send the messages of a login, after the handshake; see `log_in`."""
        found: list[Any] = []
        message = next(messages)
        while True:
            answer = self.ask(SaslAuthenticateRequest(message), _TOKEN_VERSION)
            if answer is None:
                return [*found, CLOSED]
            assert isinstance(answer, SaslAuthenticateResponse)
            if answer.error_code:
                return [*found, [answer.error_code, answer.error_message]]
            self.session_ms = answer.session_lifetime_ms
            challenge = bytes(answer.auth_bytes)
            found.append("challenge" if challenge else "")
            try:
                message = messages.send(challenge)
            except StopIteration:
                return found
            except RemoteProtocolError:
                return [*found, "not believed"]

    def _exactly(self, size: int) -> bytes | None:
        data = b""
        while len(data) < size:
            try:
                more = self._socket.recv(size - len(data))
            except (ConnectionError, ssl.SSLError):
                more = b""
            if not more:
                return None
            data += more
            self.received += more
        return data
