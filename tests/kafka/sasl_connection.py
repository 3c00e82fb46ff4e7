"""A connection that sends the messages of a SASL login as they are, inside SaslAuthenticate."""

from __future__ import annotations

from types import TracebackType
from typing import Any, Self

from kafkawire.sdk.protocol.connection import ClientConnection
from kafkawire.sdk.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from kafkawire.sdk.protocol.messages.sasl_handshake import SaslHandshakeRequest
from kafkawire.sdk.transport.blocking import ConnectionEnded, FrameSocket
from tests.reference_broker.security.sasl.exchange_cases import CLOSED

__all__ = ["SaslConnection"]

_TIMEOUT_SECONDS = 60
_VERSION = 2


class SaslConnection:
    """A connection inside a `with` block, after SaslHandshake.

    Args:
        address: host and port of a listener with SASL.
        mechanism: the mechanism to begin.
    """

    def __init__(self, address: str, mechanism: str) -> None:
        host, _, port = address.rpartition(":")
        self._wire, self._client = FrameSocket(host, int(port), _TIMEOUT_SECONDS), ClientConnection()
        self._wire.send(*self._client.request(SaslHandshakeRequest(mechanism), 1).parts)
        self._client.receive(self._wire.receive())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._wire.close()

    def send(self, message: bytes) -> bytes | list[Any] | str:
        """Send a message; return the challenge, a list of an error code and a text, or `CLOSED`."""
        self._wire.send(*self._client.request(SaslAuthenticateRequest(message), _VERSION).parts)
        try:
            answer = self._client.receive(self._wire.receive()).message
        except ConnectionEnded:
            return CLOSED
        assert isinstance(answer, SaslAuthenticateResponse)
        return [answer.error_code, answer.error_message] if answer.error_code else bytes(answer.auth_bytes)
