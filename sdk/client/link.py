"""The connections that a client wants, as its router sees them.

A link outlives its connections: it remembers why the last one failed and when the next may be tried.
"""

from __future__ import annotations

from enum import Enum

from kafkawire.sdk.client.call import Purpose
from kafkawire.sdk.client.retry import Attempts
from kafkawire.sdk.transport.driven import Versions
from kafkawire.sdk.transport.wire import Address

__all__ = ["Link", "LinkState"]


class LinkState(Enum):
    """How far a link is."""

    CLOSED = "closed"
    OPENING = "opening"
    READY = "ready"


class Link:
    """A connection to one broker for one purpose, open or not.

    Args:
        address: of the broker.
        purpose: what it is for.
        attempts: to connect.

    Attributes:
        state: how far it is.
        since_ms: since when it is in that state; -1 before the first connection.
        wanted: whether it is to be opened as soon as its backoff is over.
        connection: knows the versions of the broker, while the link is ready.
        in_flight: calls that wait for their response.
        congested: whether the connection has more unsent bytes than it should hold.
        muted_until_ms: when the broker, which has throttled this client, takes requests again (KIP-219).
        throttle_ms: for how long it took none, as it said last.
        used_ms: when it was last used.
    """

    __slots__ = (
        "address",
        "attempts",
        "congested",
        "connection",
        "in_flight",
        "muted_until_ms",
        "purpose",
        "since_ms",
        "state",
        "throttle_ms",
        "used_ms",
        "wanted",
    )

    def __init__(self, address: Address, purpose: Purpose, attempts: Attempts) -> None:
        self.address = address
        self.purpose = purpose
        self.attempts = attempts
        self.state = LinkState.CLOSED
        self.since_ms = -1
        self.wanted = False
        self.connection: Versions | None = None
        self.in_flight = 0
        self.congested = False
        self.muted_until_ms = self.throttle_ms = 0
        self.used_ms = 0

    def __str__(self) -> str:
        return str(self.address)

    def takes_calls(self, now_ms: int) -> bool:
        """Return whether a call may be sent now."""
        return self.state is LinkState.READY and not self.congested and now_ms >= self.muted_until_ms

    def throttled(self, throttle_ms: int, now_ms: int) -> None:
        """Send nothing for so long."""
        self.throttle_ms = throttle_ms
        self.muted_until_ms = max(self.muted_until_ms, now_ms + throttle_ms)

    def moves_to(self, state: LinkState, now_ms: int, connection: Versions | None = None) -> None:
        """Change the state; there is a connection while it is ready."""
        self.state, self.connection = state, connection
        self.since_ms = self.used_ms = now_ms
