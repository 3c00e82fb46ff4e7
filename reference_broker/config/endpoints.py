"""Where clients connect."""

from __future__ import annotations

from typing import NamedTuple

from kafkawire.sdk.transport.wire import Address

__all__ = ["SYSTEM_BUFFER", "Listener", "SocketBuffers"]

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

    def __str__(self) -> str:
        return f"{self.name}://{self.bind}"


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
