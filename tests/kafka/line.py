"""Broker connections that carry one request at a time, for tests that compare answers."""

from __future__ import annotations

import select

from kafkawire.sdk.protocol.connection import ClientConnection
from kafkawire.sdk.protocol.messages.api_versions import ApiVersionsRequest
from kafkawire.sdk.protocol.schema import Message
from kafkawire.sdk.transport.blocking import FrameSocket

__all__ = ["CLIENT", "IN_ORDER", "Line", "Lines", "address_of"]

CLIENT = "client"

#: Settings that make a node of Apache Kafka handle requests from different connections in order of arrival: one
#: thread reads them, and one handles them.
IN_ORDER = {"num.network.threads": "1", "num.io.threads": "1"}

#: The maximum time that a node on a busy machine may take to answer.
TIMEOUT_SECONDS = 60


class Line:
    """A connection that is waiting for one response.

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
        """Return whether the response has begun to arrive."""
        return bool(select.select([self.frames], [], [], 0)[0])


class Lines:
    """Connections for tests with many requests waiting at the same time.

    A waiting request keeps its connection; any other request takes an idle one. On each new connection, one request is
    answered before the connection is used: until a node has accepted a connection, requests on other connections can
    overtake its first request.

    Args:
        address: host and port.
    """

    def __init__(self, address: tuple[str, int]) -> None:
        self.address = address
        self._idle: list[Line] = []
        self._all: list[Line] = []

    def take(self) -> Line:
        """Return an idle connection."""
        if self._idle:
            return self._idle.pop()
        line = Line(self.address)
        self._all.append(line)
        line.ask(ApiVersionsRequest(), 0)
        return line

    def give(self, line: Line) -> None:
        """Return a connection to the pool after its request has been answered."""
        self._idle.append(line)

    def ask(self, message: Message, version: int) -> Message:
        """Send a request on an idle connection and wait for the response."""
        line = self.take()
        response = line.ask(message, version)
        self.give(line)
        return response

    def close(self) -> None:
        """Close all connections, including those in use."""
        for line in self._all:
            line.frames.close()


def address_of(bootstrap: str) -> tuple[str, int]:
    """Split an address into host and port."""
    host, _, port = bootstrap.rpartition(":")
    return host, int(port)
