"""Who is at the other end of a connection, and through which listener it came."""

from __future__ import annotations

from typing import NamedTuple

from kafkawire.sdk.transport.wire import Address

__all__ = ["ANONYMOUS", "SYSTEM_BUFFER", "Listener", "Peer", "SocketBuffers"]

#: The principal of a client that has not logged in.
ANONYMOUS = "User:ANONYMOUS"

#: A size that leaves the choice to the system.
SYSTEM_BUFFER = -1


class Listener(NamedTuple):
    """Where clients connect.

    Attributes:
        name: as in Kafka's `listeners`: `PLAINTEXT`, or a name of the user's.
        bind: where the broker listens; port 0 for any free one, an empty host for every address of the machine.
        advertised: where the clients of this listener are told to connect to.
    """

    name: str
    bind: Address
    advertised: Address


class SocketBuffers(NamedTuple):
    """What the system may hold for each connection.

    With a small buffer for sending, the same few descriptors go round in the processor's caches: over the loopback
    interface, nothing but `sendfile` of 1 MiB at a time takes 0.11 s of CPU per GB with 100 to 256 KiB, 0.22 with the
    megabytes that Linux allows by itself, and the receiver saves more. A small one for receiving has a producer's
    256 KiB come in more pieces: 0.9 instead of 0.7 s per GB.

    Attributes:
        send_bytes: of responses; `SYSTEM_BUFFER` for what the system thinks best.
        receive_bytes: of requests; likewise.
    """

    send_bytes: int
    receive_bytes: int


class Peer:
    """What is known of a client.

    Args:
        listener: through which it came.
        host: its address.

    Attributes:
        host: its address as Kafka shows it: `/127.0.0.1`.
        principal: who it has proved to be.
        software_name: what it calls its library, empty until it has said so (KIP-511).
        software_version: of that library.
    """

    __slots__ = ("host", "listener", "principal", "software_name", "software_version")

    def __init__(self, listener: Listener, host: str) -> None:
        self.listener = listener
        self.host = f"/{host}"
        self.principal = ANONYMOUS
        self.software_name = ""
        self.software_version = ""

    def __str__(self) -> str:
        software = f" ({self.software_name} {self.software_version})" if self.software_name else ""
        return f"{self.principal} at {self.host}{software} on {self.listener.name}"
