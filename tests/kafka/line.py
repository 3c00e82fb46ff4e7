"""A connection to a broker that carries one request at a time, for tests that compare answers."""

from __future__ import annotations

import select

from kafkawire.sdk.protocol.connection import ClientConnection
from kafkawire.sdk.protocol.schema import Message
from kafkawire.sdk.transport.blocking import FrameSocket

__all__ = ["CLIENT", "Line", "address_of"]

CLIENT = "client"

#: What a node may take for an answer on a busy machine.
TIMEOUT_SECONDS = 60


class Line:
    """A connection that waits for one response.

    Args:
        address: host and port.
    """

    def __init__(self, address: tuple[str, int]) -> None:
        self.frames = FrameSocket(*address, TIMEOUT_SECONDS)
        self.connection = ClientConnection(CLIENT)

    def send(self, message: Message, version: int) -> None:
        """Send a request."""
        self.frames.send(*self.connection.request(message, version).parts)

    def receive(self) -> Message:
        """Wait for the response."""
        return self.connection.receive(self.frames.receive()).message

    def ask(self, message: Message, version: int) -> Message:
        """Send a request and wait for the response."""
        self.send(message, version)
        return self.receive()

    def is_answered(self) -> bool:
        """Return whether the response has begun to come."""
        return bool(select.select([self.frames._socket], [], [], 0)[0])


def address_of(bootstrap: str) -> tuple[str, int]:
    """Return host and port of an address."""
    host, _, port = bootstrap.rpartition(":")
    return host, int(port)
