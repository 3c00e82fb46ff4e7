"""Endpoints to which clients connect: listeners, their protocols, and socket buffers."""

from __future__ import annotations

from typing import Final, NamedTuple

from kafkawire.sdk.protocol.tables.configs import BROKER_CONFIGS
from kafkawire.sdk.transport.wire import Address

__all__ = ["PLAINTEXT", "SECURITY_PROTOCOLS", "SYSTEM_BUFFER", "Listener", "SocketBuffers"]

#: The value that leaves the buffer size to the operating system.
SYSTEM_BUFFER = -1

#: Kafka's protocols; a protocol's place in this list is its id.
SECURITY_PROTOCOLS: Final = BROKER_CONFIGS["security.inter.broker.protocol"].one_of

#: The protocol without TLS and login.
PLAINTEXT: Final = SECURITY_PROTOCOLS[0]


class Listener(NamedTuple):
    """An address to which clients connect.

    Attributes:
        name: as in Kafka's `listeners`: `PLAINTEXT`, or a user-defined name.
        bind: the address to listen on; port 0 stands for any free port, and an empty host for all addresses of the
            machine.
        advertised: the address given to clients of this listener.
        protocol: one of `SECURITY_PROTOCOLS`.
    """

    name: str
    bind: Address
    advertised: Address
    protocol: str = PLAINTEXT

    @property
    def has_tls(self) -> bool:
        """Whether connections are encrypted."""
        return self.protocol.endswith("SSL")

    @property
    def has_login(self) -> bool:
        """Whether clients log in with SASL."""
        return self.protocol.startswith("SASL_")

    def __str__(self) -> str:
        return f"{self.name}://{self.bind}"


class SocketBuffers(NamedTuple):
    """Limits for the operating system's buffers for each connection.

    With a small send buffer, the same few descriptors stay in the processor's caches. Over the loopback interface,
    sending 1 MiB at a time with `sendfile` takes 0.11 s of CPU time per GB with a buffer of 100 to 256 KiB, and 0.22 s
    with the megabytes that Linux allows by default; the receiver saves even more. A small receive buffer splits a
    producer's 256 KiB request into more pieces, which takes 0.9 s per GB instead of 0.7 s.

    Attributes:
        send_bytes: the size of the buffer for responses; `SYSTEM_BUFFER` for the system's choice.
        receive_bytes: the size of the buffer for requests; `SYSTEM_BUFFER` for the system's choice.
    """

    send_bytes: int
    receive_bytes: int
