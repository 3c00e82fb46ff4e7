"""The open connections of one client: one for each broker and purpose.

A broker answers the requests of a connection in order, so a fetch that waits for data would delay a heartbeat: each
purpose gets its own connection, as in Kafka's consumer.
"""

from __future__ import annotations

from enum import Enum

from kafkawire.sdk.errors import Closed
from kafkawire.sdk.transport.connection import BrokerConnection, ConnectionSettings
from kafkawire.sdk.transport.timing import SingleFlight
from kafkawire.sdk.transport.wire import Address, Network

__all__ = ["ConnectionPool", "Purpose"]


class Purpose(Enum):
    """What a connection is for."""

    DATA = "data"
    GROUP = "group"


class ConnectionPool:
    """Opens connections when they are needed and keeps them.

    Args:
        network: reaches the brokers.
        settings: for each connection.
    """

    def __init__(self, network: Network, settings: ConnectionSettings) -> None:
        self._network = network
        self._settings = settings
        self._connections: dict[tuple[Address, Purpose], BrokerConnection] = {}
        self._opening: SingleFlight[BrokerConnection] = SingleFlight()
        self._closed = False

    async def get(self, address: Address, purpose: Purpose = Purpose.DATA) -> BrokerConnection:
        """Return an open connection, opening one if there is none.

        Raises:
            ConnectFailed: the broker cannot be reached.
            Closed: the pool was closed.
        """
        if self._closed:
            raise Closed("the client was closed")
        connection = self._connections.get((address, purpose))
        if connection is not None and connection.is_open:
            return connection
        return await self._opening.run((address, purpose), lambda: self._open(address, purpose))

    async def close(self) -> None:
        """Close all connections; later calls of `get` raise."""
        self._closed = True
        await self._opening.close()
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    async def _open(self, address: Address, purpose: Purpose) -> BrokerConnection:
        connection = await BrokerConnection.open(self._network, address, self._settings)
        self._connections[address, purpose] = connection
        return connection
