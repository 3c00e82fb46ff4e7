"""Limits on the number of connections: in total, per listener, per address, and given the free file descriptors.

If there are as many connections in total, or to a listener, as there may be, a new one waits until another is closed,
and holds up those after it. A connection from an address with too many others is closed.

Source: `ConnectionQuotas` in Apache Kafka.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Protocol

from kafkawire.sdk.errors import ConfigurationError
from kafkawire.sdk.options import parse_integer

__all__ = ["Admission", "ConnectionLimits", "ListenerLimits", "read_overrides"]

_OVERRIDES = "max.connections.per.ip.overrides"


def read_overrides(text: str, resolve: Callable[[str], str]) -> dict[str, int]:
    """Return the limits for individual addresses.

    Args:
        text: the limits in the form `10.0.0.7:100,client.example.com:5`; the last colon of each entry is the separator.
        resolve: returns the address of a host.

    Raises:
        ConfigurationError: an entry is malformed, or its host is unknown.
    """
    limits = {}
    for entry in filter(None, (entry.strip() for entry in text.split(","))):
        host, colon, number = entry.rpartition(":")
        most = parse_integer(number.strip())
        if not colon or not isinstance(most, int) or most < 0:
            raise ConfigurationError(_OVERRIDES, text, f"{entry!r} is not of the form ADDRESS:NUMBER")
        try:
            limits[resolve(host.strip().strip("[]"))] = most
        except OSError as error:
            raise ConfigurationError(_OVERRIDES, text, f"{host.strip()}: {error}") from None
    return limits


class Admission(Protocol):
    """Decides whether another connection is accepted, and counts connections."""

    def full(self) -> str:
        """Return why another connection must wait, or "" if it need not."""
        ...

    def wait(self, again: Callable[[], object]) -> None:
        """Call a function once, when there may be room for another connection."""
        ...

    def refusal(self, host: str) -> str:
        """Return why another connection from an address must be refused, or "" if it can be accepted."""
        ...

    def opened(self, host: str) -> None:
        """Record a new connection."""
        ...

    def closed(self, host: str) -> None:
        """Record that a connection has been closed."""
        ...


class ConnectionLimits:
    """Counts connections.

    Args:
        most: the maximum number of connections to all listeners together.
        most_per_address: the maximum number of connections from one address.
        overrides: limits for individual addresses.
        shortage: given the number of connections, returns why another is impossible whatever the limits are, or "".
    """

    def __init__(
        self,
        most: int,
        most_per_address: int,
        overrides: Mapping[str, int] | None = None,
        shortage: Callable[[int], str] = lambda connections: "",
    ) -> None:
        self._most = most
        self._most_per_address = most_per_address
        self._overrides = dict(overrides or {})
        self._shortage = shortage
        self._count = 0
        self._counts: Counter[str] = Counter()
        #: The functions to call when there is room, in order: at most one for each listener.
        self._waiting: list[Callable[[], object]] = []

    def change(self, most: int, most_per_address: int, overrides: Mapping[str, int]) -> None:
        """Change the limits; open connections stay open."""
        self._most = most
        self._most_per_address = most_per_address
        self._overrides = dict(overrides)
        self.wake()

    def full(self) -> str:
        """See `Admission`."""
        if self._count >= self._most:
            return f"{self._count} connections are open, and max.connections is {self._most}"
        return ""

    def wait(self, again: Callable[[], object]) -> None:
        """See `Admission`."""
        self._waiting.append(again)

    def wake(self) -> None:
        """Let everything that is waiting for room check again."""
        waiting, self._waiting = self._waiting, []
        for again in waiting:
            again()

    def refusal(self, host: str) -> str:
        """Return why another connection from an address must be refused, or "" if it can be accepted."""
        most = self._overrides.get(host, self._most_per_address)
        if self._counts[host] >= most:
            name = "max.connections.per.ip" + (".overrides" if host in self._overrides else "")
            return f"the address has {self._counts[host]} connections, and {name} is {most}"
        return self._shortage(self._count)

    def opened(self, host: str) -> None:
        """Record a new connection."""
        self._count += 1
        self._counts[host] += 1

    def closed(self, host: str) -> None:
        """Record that a connection has been closed."""
        self._count -= 1
        self._counts[host] -= 1
        if not self._counts[host]:
            del self._counts[host]
        self.wake()


class ListenerLimits:
    """Counts the connections to one listener, in addition to other limits.

    Args:
        listener: the name of the listener.
        most: the maximum number of connections to it.
        limits: the limits on the connections to all listeners together.
    """

    def __init__(self, listener: str, most: int, limits: ConnectionLimits) -> None:
        self._listener = listener
        self._most = most
        self._limits = limits
        self._count = 0

    def change(self, most: int) -> None:
        """Change the limit of the listener; open connections stay open."""
        self._most = most
        self._limits.wake()

    def full(self) -> str:
        """See `Admission`."""
        if self._count >= self._most:
            name = f"listener.name.{self._listener.lower()}.max.connections"
            return f"{self._count} connections are open, and {name} is {self._most}"
        return self._limits.full()

    def wait(self, again: Callable[[], object]) -> None:
        """See `Admission`."""
        self._limits.wait(again)

    def refusal(self, host: str) -> str:
        """See `Admission`."""
        return self._limits.refusal(host)

    def opened(self, host: str) -> None:
        """See `Admission`."""
        self._count += 1
        self._limits.opened(host)

    def closed(self, host: str) -> None:
        """See `Admission`."""
        self._count -= 1
        self._limits.closed(host)
