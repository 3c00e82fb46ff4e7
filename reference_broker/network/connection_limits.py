"""How many connections there may be, in all and from each address.

Source: Apache Kafka, `ConnectionQuotas`, which accepts no more where this one refuses.
"""

from __future__ import annotations

from collections import Counter

__all__ = ["ConnectionLimits"]


class ConnectionLimits:
    """Counts connections.

    Args:
        most: in all, of all listeners together.
        most_per_address: from the same address.
    """

    def __init__(self, most: int, most_per_address: int) -> None:
        self._most = most
        self._most_per_address = most_per_address
        self._count = 0
        self._counts: Counter[str] = Counter()

    def refusal(self, host: str) -> str:
        """Return why another connection from an address is refused, empty if it is not."""
        if self._count >= self._most:
            return f"{self._count} connections are open, max.connections={self._most}"
        if self._counts[host] >= self._most_per_address:
            return f"it has {self._counts[host]} connections, max.connections.per.ip={self._most_per_address}"
        return ""

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
