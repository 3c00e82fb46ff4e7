"""Who is at the other end of a connection, and through which listener it came."""

from __future__ import annotations

from kafkawire.reference_broker.config.endpoints import Listener

__all__ = ["ANONYMOUS", "Peer"]

#: The principal of a client that has not logged in.
ANONYMOUS = "User:ANONYMOUS"


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
