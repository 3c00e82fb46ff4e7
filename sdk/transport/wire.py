"""The interface between a connection and what carries its bytes: `Wire`, `FrameReceiver` and `Network`.

A connection writes to a `Wire` and receives whole frames as a `FrameReceiver`. `stream.py` carries them over TCP,
`memory.py` inside the process; the same client and the same broker run over both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, Protocol, TypeVar

from kafkawire.sdk.errors import ConfigurationError
from kafkawire.sdk.protocol.schema import Buffer

__all__ = ["Address", "FrameReceiver", "Network", "Receiver", "Wire", "addresses"]

_DEFAULT_PORT = 9092
_MAX_PORT = 65535


class Address(NamedTuple):
    """Where a broker listens.

    Attributes:
        host: a name or an IP address, IPv6 without brackets.
        port: 0 to 65535.
    """

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class Wire(Protocol):
    """The sending side of one end of a connection."""

    @property
    def is_open(self) -> bool:
        """Whether bytes can be written."""
        ...

    def write(self, parts: Sequence[Buffer]) -> None:
        """Write buffers in order, which must not change afterwards; does nothing on a closed wire."""
        ...

    async def drain(self) -> None:
        """Wait until the write buffer has room; return at once on a closed wire."""
        ...

    def close(self) -> None:
        """Close both directions; the receiver gets `connection_lost`."""
        ...


class FrameReceiver(Protocol):
    """The receiving side of one end of a connection."""

    def receive_frame(self, frame: Buffer) -> None:
        """Handle a whole frame, without its length prefix; the receiver owns it."""
        ...

    def connection_lost(self, error: Exception | None) -> None:
        """Handle the end of the connection; `error` is None after an orderly close."""
        ...


Receiver = TypeVar("Receiver", bound=FrameReceiver)


class Network(Protocol):
    """How to reach brokers."""

    async def open(self, address: Address, receiver: Callable[[Wire], Receiver]) -> Receiver:
        """Connect.

        Args:
            address: of the broker.
            receiver: creates the receiver of the frames, given the wire to write to.

        Raises:
            OSError: nobody listens there, or the name is unknown.
        """
        ...


def addresses(bootstrap_servers: str | Iterable[str]) -> tuple[Address, ...]:
    """Parse bootstrap servers.

    Args:
        bootstrap_servers: `host:port,host:port` or a sequence of `host:port`. The port defaults to 9092; an IPv6
            address with a port is written in brackets.

    Raises:
        ConfigurationError: there is none, or one cannot be parsed.
    """
    given = bootstrap_servers.split(",") if isinstance(bootstrap_servers, str) else bootstrap_servers
    found = tuple(_address(text.strip()) for text in given if text.strip())
    if not found:
        raise ConfigurationError("bootstrap_servers", bootstrap_servers, "at least one host:port is needed")
    return found


def _address(text: str) -> Address:
    host, colon, port = text.rpartition(":")
    if text.endswith("]") or not colon or (":" in host and not host.endswith("]")):
        host, port = text, str(_DEFAULT_PORT)
    if not port.isascii() or not port.isdigit() or not 0 < int(port) <= _MAX_PORT or not host.strip("[]"):
        raise ConfigurationError("bootstrap_servers", text, f"expected host:port with a port from 1 to {_MAX_PORT}")
    return Address(host.strip("[]"), int(port))
