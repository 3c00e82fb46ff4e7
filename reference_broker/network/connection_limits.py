"""How many connections there may be, in all and from each address, and as long as there are descriptors for files.

Source: Apache Kafka, `ConnectionQuotas`, which stops accepting where this one refuses.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping

from kafkawire.sdk.errors import ConfigurationError
from kafkawire.sdk.options import parse_integer

__all__ = ["ConnectionLimits", "read_overrides"]

_OVERRIDES = "max.connections.per.ip.overrides"


def read_overrides(text: str, resolve: Callable[[str], str]) -> dict[str, int]:
    """Return the limits of single addresses.

    Args:
        text: as `10.0.0.7:100,client.example.com:5`; the last colon of each counts.
        resolve: returns the address of a host.

    Raises:
        ConfigurationError: an entry cannot be read, or its host is not known.
    """
    limits = {}
    for entry in filter(None, (entry.strip() for entry in text.split(","))):
        host, colon, number = entry.rpartition(":")
        most = parse_integer(number.strip())
        if not colon or not isinstance(most, int) or most < 0:
            raise ConfigurationError(_OVERRIDES, text, f"{entry!r} is not ADDRESS:NUMBER")
        try:
            limits[resolve(host.strip().strip("[]"))] = most
        except OSError as error:
            raise ConfigurationError(_OVERRIDES, text, f"{host.strip()}: {error}") from None
    return limits


class ConnectionLimits:
    """Counts connections.

    Args:
        most: in all, of all listeners together.
        most_per_address: from the same address.
        overrides: the same for some addresses.
        shortage: returns why there is no room for one more than so many whatever the limits say, empty if there is.
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

    def change(self, most: int, most_per_address: int, overrides: Mapping[str, int]) -> None:
        """Have other limits from now on; connections that are open stay."""
        self._most = most
        self._most_per_address = most_per_address
        self._overrides = dict(overrides)

    def refusal(self, host: str) -> str:
        """Return why another connection from an address is refused, empty if it is not."""
        if self._count >= self._most:
            return f"{self._count} connections are open, max.connections={self._most}"
        most = self._overrides.get(host, self._most_per_address)
        if self._counts[host] >= most:
            name = "max.connections.per.ip" + (".overrides" if host in self._overrides else "")
            return f"it has {self._counts[host]} connections, {name}={most}"
        return self._shortage(self._count)

    def opened(self, host: str) -> None:
        """Note a connection."""
        self._count += 1
        self._counts[host] += 1

    def closed(self, host: str) -> None:
        """Note that it is gone."""
        self._count -= 1
        self._counts[host] -= 1
        if not self._counts[host]:
            del self._counts[host]
