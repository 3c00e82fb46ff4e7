"""Routing options: timeouts, limits and bootstrap servers.

The options of every client include these (`client/options.py`); other owners of a router provide their own.
"""

from __future__ import annotations

from typing import ClassVar, Protocol

from kafkawire.sdk.transport.wire import Address

__all__ = ["RoutingOptions"]


class RoutingOptions(Protocol):
    """The options of a router and its parts.

    Attributes:
        KIND: the kind of client, as used in the names of its metrics.
    """

    KIND: ClassVar[str]

    @property
    def bootstrap_servers(self) -> tuple[Address, ...]:
        """The brokers to ask first, and again while no other broker can be reached."""
        ...

    @property
    def api_timeout_ms(self) -> int:
        """How long a metadata refresh or the lookup of a coordinator may take, including retries."""
        ...

    @property
    def retry_backoff_max_ms(self) -> int:
        """The longest pause between attempts."""
        ...

    @property
    def metadata_max_age_ms(self) -> int:
        """The age at which metadata is requested again."""
        ...

    @property
    def connections_max_idle_ms(self) -> int:
        """The time after which an unused connection is closed."""
        ...
