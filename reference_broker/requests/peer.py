"""The client at the other end of a connection, and the listener to which it connected."""

from __future__ import annotations

from kafkawire.reference_broker.config.endpoints import Listener
from kafkawire.reference_broker.metadata.principal import ANONYMOUS

__all__ = ["Peer"]


class Peer:
    """The identity of a client.

    Args:
        listener: the listener to which the client connected.
        host: its address.

    Attributes:
        host: its address in Kafka's form: `/127.0.0.1`.
        principal: its authenticated identity.
        software_name: the name of its client library; empty until the client sends it (KIP-511).
        software_version: the version of that library.
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
