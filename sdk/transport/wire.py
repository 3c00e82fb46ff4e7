"""The interface between a connection and the transport that carries its bytes: `Wire`, `FrameReceiver` and `Network`.

A connection writes to a `Wire` and receives whole frames as a `FrameReceiver`. `stream.py` carries them over TCP, and
`memory.py` inside the process; the same client and broker code runs over both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol, Self, TypeVar, runtime_checkable

from kafkawire.sdk.errors import ConfigurationError
from kafkawire.sdk.protocol.values import Buffer

if TYPE_CHECKING:  # importing the gate loads messages, but options need only addresses
    from kafkawire.sdk.protocol.gate import ConnectionState

__all__ = [
    "DEFAULT_PORT",
    "LABEL_CHARACTERS_MAX",
    "MAX_PORT",
    "Address",
    "FrameReceiver",
    "LengthReceiver",
    "Network",
    "Receiver",
    "Wire",
    "addresses",
]

#: Kafka's own port, which an address may omit.
DEFAULT_PORT: Final = 9092

#: Maximum length of each part of a host name between dots, as in DNS.
LABEL_CHARACTERS_MAX: Final = 63

#: Ports are uint16.
MAX_PORT: Final = 65535

_IPV6_CHARACTERS = frozenset("0123456789abcdefABCDEF:.")
#: Characters found in URLs and lists, which a host name never contains.
_NO_HOST_CHARACTERS = frozenset("[]/@, \t\n")


class Address(NamedTuple):
    """The address of a broker.

    Attributes:
        host: a name or an IP address, IPv6 without brackets.
        port: 0 to 65535.
    """

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @classmethod
    def parse(cls, option: str, text: str, default_port: int | None = None, lowest_port: int = 1) -> Self:
        """Read `host:port`; an IPv6 address with a port is written in brackets.

        Args:
            option: the option that has this value, for errors.
            text: the value.
            default_port: the port if the value has none; None to reject such a value.
            lowest_port: 1, or 0 if 0 means any free port.

        Raises:
            ConfigurationError: the value is not an address.
        """
        host, port = _host_and_port(text.strip())
        if not host:
            raise ConfigurationError(
                option, text, "expected host:port, with IPv6 addresses in brackets, as in [::1]:9092"
            )
        if (longest := max(map(len, host.split(".")))) > LABEL_CHARACTERS_MAX:
            reason = f"a part of the host has {longest} characters, but at most {LABEL_CHARACTERS_MAX} are allowed"
            raise ConfigurationError(option, text, reason)
        if port is None and default_port is not None:
            return cls(host, default_port)
        if not port:
            raise ConfigurationError(option, text, "the port is missing; expected host:port")
        if not (port.isascii() and port.isdigit()):
            raise ConfigurationError(option, text, f"port {port!r} is not a number")
        if len(port) > len(str(MAX_PORT)) or not lowest_port <= int(port) <= MAX_PORT:
            raise ConfigurationError(option, text, f"port {port} is outside {lowest_port} to {MAX_PORT}")
        return cls(host, int(port))


def _host_and_port(text: str) -> tuple[str, str | None]:
    """Return the host, which is empty if missing, and the port, which is None if missing."""
    if text.startswith("["):
        host, bracket, rest = text[1:].partition("]")
        is_whole = bracket and ":" in host and rest[:1] in ("", ":")
        host, port = (host, rest[1:] if rest else None) if is_whole else ("", None)
    elif text.count(":") > 1:  # an IPv6 address without a port
        host, port = text, None
    else:
        host, colon, rest = text.partition(":")
        port = rest if colon else None
    is_ipv6 = ":" in host
    known = _IPV6_CHARACTERS.issuperset(host.partition("%")[0]) if is_ipv6 else not _NO_HOST_CHARACTERS & set(host)
    return (host if known and host.isprintable() else ""), port


class Wire(Protocol):
    """The sending side of one end of a connection."""

    @property
    def is_open(self) -> bool:
        """Whether bytes can be written."""
        ...

    @property
    def is_congested(self) -> bool:
        """Whether there are so many unsent bytes that `drain` waits."""
        ...

    @property
    def has_unsent(self) -> bool:
        """Whether any written bytes are still unsent."""
        ...

    def write(self, parts: Sequence[Buffer]) -> None:
        """Write buffers, which must not change afterwards, in order. Do nothing on a closed wire."""
        ...

    async def drain(self) -> None:
        """Wait until the write buffer has room; return immediately on a closed wire."""
        ...

    async def sent(self) -> None:
        """Wait until nothing is unsent; return immediately on a closed wire."""
        ...

    def close(self) -> None:
        """Close both directions once everything is sent; the receiver gets `connection_lost`."""
        ...

    def abort(self) -> None:
        """Close both directions immediately; unsent bytes are lost."""
        ...


class FrameReceiver(Protocol):
    """The receiving side of one end of a connection."""

    def receive_frame(self, frame: Buffer) -> None:
        """Handle a whole frame without its length prefix; the receiver then owns the frame."""
        ...

    def connection_lost(self, error: Exception | None) -> None:
        """Handle the end of the connection; `error` is None after an orderly close."""
        ...


@runtime_checkable
class LengthReceiver(Protocol):
    """A `FrameReceiver` with changing limits, which may reject a frame that the wire would accept."""

    def check_length(self, length: int) -> None:
        """Check the length of an incomplete frame before memory is allocated for it; not called for complete frames.

        Raises:
            RemoteProtocolError: the frame is rejected, and the wire disconnects.
        """
        ...


Receiver = TypeVar("Receiver", bound=FrameReceiver)


@runtime_checkable
class Network(Protocol):
    """A way to reach brokers."""

    async def open(
        self,
        address: Address,
        receiver: Callable[[Wire], Receiver],
        enter: Callable[[ConnectionState], None] = ...,
    ) -> Receiver:
        """Connect.

        Args:
            address: the broker's address.
            receiver: creates the receiver of the frames, given the wire to write to.
            enter: called with each state of the connection, for error messages.

        Raises:
            OSError: nothing listens at the address, or the name is unknown.
        """
        ...


def addresses(bootstrap_servers: str | Iterable[str]) -> tuple[Address, ...]:
    """Parse bootstrap servers.

    Args:
        bootstrap_servers: `host:port,host:port`, or a sequence of `host:port`. The port defaults to 9092; an IPv6
            address with a port is written in brackets.

    Raises:
        ConfigurationError: there is no server, or a server cannot be parsed.
    """
    option = "bootstrap_servers"
    given = bootstrap_servers.split(",") if isinstance(bootstrap_servers, str) else tuple(bootstrap_servers)
    if not all(isinstance(text, str) for text in given):
        raise ConfigurationError(option, bootstrap_servers, "expected strings of the form host:port")
    found = tuple(Address.parse(option, text, DEFAULT_PORT) for text in given if text.strip())
    if not found:
        raise ConfigurationError(option, bootstrap_servers, "expected at least one host:port")
    return found
