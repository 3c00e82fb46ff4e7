"""The client at the other end of a connection, and the listener to which it connected."""

from __future__ import annotations

from collections.abc import Callable

from kafkawire.reference_broker.config.endpoints import Listener
from kafkawire.reference_broker.metadata.principal import ANONYMOUS

__all__ = ["Peer"]


class Peer:
    """The identity of a client.

    Args:
        listener: the listener to which the client connected.
        host: its address.
        port: its port; None if it is unknown.

    Attributes:
        farewells: called when the connection has been lost, keyed by the module that registered them.
        host: its address in Kafka's form: `/127.0.0.1`.
        port: see above.
        principal: its authenticated identity.
        is_token: whether it logged in with a delegation token.
        software_name: the name of its client library; empty until the client sends it (KIP-511).
        software_version: the version of that library.
    """

    __slots__ = ("farewells", "host", "is_token", "listener", "port", "principal", "software_name", "software_version")

    def __init__(self, listener: Listener, host: str, port: int | None = None) -> None:
        self.listener = listener
        self.host = f"/{host}"
        self.port = port
        self.farewells: dict[str, Callable[[], None]] = {}
        self.principal = ANONYMOUS
        self.is_token = False
        self.software_name = ""
        self.software_version = ""

    def lost(self) -> None:
        """Tell those who want to know that the connection has been lost."""
        farewells = [*self.farewells.values()]
        self.farewells.clear()
        for farewell in farewells:
            farewell()

    def __str__(self) -> str:
        software = f" ({self.software_name} {self.software_version})" if self.software_name else ""
        return f"{self.principal} at {self.host}{software} on {self.listener.name}"
