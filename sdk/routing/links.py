"""The links of one client, which decide which connections to open and close, and when to check for that again.

A link outlives its connections: it remembers why the last one failed and when to try again. All links are checked when
one of them has changed or is due, but not in every iteration of the driver.
"""

from __future__ import annotations

from collections.abc import Iterator, ValuesView
from enum import Enum
from typing import Final

from kafkawire.sdk.errors import KafkaWireError
from kafkawire.sdk.routing.call import Purpose
from kafkawire.sdk.routing.metadata import Metadata
from kafkawire.sdk.routing.options import RoutingOptions
from kafkawire.sdk.routing.refusals import Refusals
from kafkawire.sdk.routing.retry import Attempts, Backoff, is_refusal
from kafkawire.sdk.states import Edges
from kafkawire.sdk.transport.driver_interface import Open, Shut, Versions
from kafkawire.sdk.transport.owner import CLIENT, Owner
from kafkawire.sdk.transport.wire import Address

__all__ = ["IMPATIENT_MS", "LINK_EDGES", "Link", "LinkState", "Links"]

#: If any broker will do and the one that was tried has not answered within this time, another one is tried as well.
IMPATIENT_MS: Final = 1_000


class LinkState(Enum):
    """The state of a link."""

    CLOSED = "closed"
    OPENING = "opening"
    READY = "ready"


LINK_EDGES: Final = Edges(
    "a link to a broker",
    (LinkState.CLOSED,),
    {
        LinkState.CLOSED: {LinkState.OPENING: "a call wants it, and its backoff has ended"},
        LinkState.OPENING: {
            LinkState.READY: "its connection is ready",
            LinkState.CLOSED: "connecting or logging in fails",
        },
        LinkState.READY: {LinkState.CLOSED: "its connection ends, is dropped, or is no longer used"},
    },
)


class Link:
    """A connection to one broker for one purpose, open or not.

    Args:
        address: the broker's address.
        purpose: the purpose of the connection.
        attempts: counts the attempts to connect.

    Attributes:
        state: the link's state.
        since_ms: when the link entered that state; -1 before the first connection.
        wanted: whether to open the link as soon as its backoff has ended.
        connection: the connection, which provides the broker's versions; None unless the link is ready.
        in_flight: the calls that are waiting for their response.
        congested: whether the connection has too many unsent bytes.
        muted_until_ms: the time until which no requests are sent, because the broker has throttled this client
            (KIP-219).
        throttle_ms: the last throttle time that the broker reported in a response.
        used_ms: when the link was last used.
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
        """Stop sending for the throttle time."""
        self.throttle_ms = throttle_ms
        self.muted_until_ms = max(self.muted_until_ms, now_ms + throttle_ms)

    def moves_to(self, state: LinkState, now_ms: int, connection: Versions | None = None) -> None:
        """Change the state; a connection exists only in the ready state."""
        self.state = LINK_EDGES.follow(self.state, state)
        self.connection = connection
        self.since_ms = self.used_ms = now_ms


class Links:
    """The links of one client.

    Args:
        options: the client's options.
        metadata: lists the brokers.
        backoff: the pauses between attempts to connect.
        owner: the owner of the links.
    """

    def __init__(self, options: RoutingOptions, metadata: Metadata, backoff: Backoff, *, owner: Owner = CLIENT) -> None:
        self._idle_ms = options.connections_max_idle_ms
        self._bootstrap_servers = options.bootstrap_servers
        self._metadata = metadata
        self._backoff = backoff
        self._owner = owner
        self._links: dict[tuple[Address, Purpose], Link] = {}
        self._refusals = Refusals(backoff.fraction)
        #: Dropped links whose connections are still open, or still being opened.
        self._dropped: list[Link] = []
        self.due_ms = 0

    @property
    def all(self) -> ValuesView[Link]:
        """All links, open or not, as a live view."""
        return self._links.values()

    def to(self, address: Address, purpose: Purpose) -> Link:
        """Return the link to an address."""
        link = self._links.get((address, purpose))
        if link is None:
            link = self._links[address, purpose] = Link(address, purpose, Attempts(self._backoff))
        return link

    def to_node(self, node_id: int, purpose: Purpose) -> Link | None:
        """Return the link to a broker; None if the cluster does not include it."""
        broker = self._metadata.brokers.get(node_id)
        if broker is None:
            return None
        return self._links.get((broker.address, purpose)) or self.to(broker.address, purpose)

    def candidates(self) -> list[Link]:
        """Return the links to all brokers, plus the bootstrap servers while no broker can be reached."""
        known = [self.to(broker.address, Purpose.DATA) for broker in self._metadata.brokers.values()]
        if any(not link.attempts.failures for link in known):
            return known
        first = [self.to(address, Purpose.DATA) for address in self._bootstrap_servers]
        return list(dict.fromkeys((*known, *first)))

    def refusal(self, link: Link) -> KafkaWireError | None:
        """Return why a broker has refused the last login; None if it has not, or if the link is ready."""
        found = None if link.state is LinkState.READY else self._refusals.at(link.address)
        return None if found is None else found.error

    def failure(self, link: Link) -> tuple[KafkaWireError, int] | None:
        """Return why a closed link failed, and when; None if nothing has gone wrong.

        A login that was refused on a connection for another purpose would be refused on this link, too.
        """
        refused, own = self._refusals.at(link.address), link.attempts.last_error
        if refused is not None and refused.happened_ms >= link.since_ms:
            return refused.error, refused.happened_ms
        return None if own is None else (own, link.since_ms)

    @property
    def last_refusal(self) -> KafkaWireError | None:
        """Why this client's last login was refused; None while a broker serves it."""
        return None if self._is_served else self._refusals.last_error

    def throttling(self, since_ms: int, address: Address | None) -> str:
        """Return which brokers have throttled this client, as the end of a sentence; see `Router.throttling`."""
        by = {
            link.address: link.throttle_ms
            for link in list(self._links.values())
            if link.muted_until_ms > since_ms and address in (None, link.address)
        }
        named = ", ".join(f"{broker} for {throttle_ms} ms" for broker, throttle_ms in by.items())
        return f"; this {self._owner.name} exceeds a quota and was throttled by {named}" if named else ""

    def want(self, link: Link) -> None:
        """Request that a link be opened as soon as its backoff has ended."""
        if not link.wanted:
            link.wanted = True
            self.due_ms = 0

    def drop(self, address: Address) -> None:
        """Close all connections to an address, even those in use, and forget their failures.

        Later uses get a new link, which does not wait for the backoff of the old one.
        """
        self._refusals.forget(address)
        for key, link in list(self._links.items()):
            if link.address == address:
                del self._links[key]
                if link.state is not LinkState.CLOSED:
                    self._dropped.append(link)
                    self.due_ms = 0

    def opened(self, link: Link, connection: Versions, now_ms: int) -> None:
        """Record that the connection of a link is ready."""
        link.moves_to(LinkState.READY, now_ms, connection)
        link.wanted = link.congested = False
        link.attempts.succeeded()
        self._refusals.accepted()
        self.due_ms = now_ms

    def closed(self, link: Link, error: KafkaWireError, now_ms: int) -> None:
        """Record that a link could not be opened, or that its connection has ended."""
        if is_refusal(error):
            self._refusals.refused(link.address, error, link.since_ms, now_ms)
        else:
            self._refusals.forget(link.address)
        link.moves_to(LinkState.CLOSED, now_ms)
        link.wanted = False
        link.attempts.failed(error, now_ms)
        self.due_ms = now_ms

    def changed(self, now_ms: int) -> None:
        """Request a check of the links because one has been muted."""
        self.due_ms = now_ms

    def tend(self, now_ms: int) -> Iterator[Open[Link] | Shut[Link]]:
        """Open wanted links, close unused ones, and record when to check them again."""
        self.due_ms = now_ms + self._idle_ms  # no link in use or newly created can be idle before then
        if self._dropped:
            dropped, self._dropped = self._dropped, [each for each in self._dropped if each.state is LinkState.OPENING]
            for link in dropped:
                if link.state is LinkState.READY:
                    link.moves_to(LinkState.CLOSED, now_ms)
                    yield Shut(link)
        openable = self._openable(now_ms)
        for key, link in list(self._links.items()):
            if link in openable:
                link.moves_to(LinkState.OPENING, now_ms)
                yield Open(link)
            elif link.state is LinkState.READY and not link.in_flight and now_ms - link.used_ms >= self._idle_ms:
                link.moves_to(LinkState.CLOSED, now_ms)
                yield Shut(link)
            elif link.state is LinkState.CLOSED and not link.wanted and now_ms >= self._forget_ms(link):
                del self._links[key]
                if all(address != link.address for address, _ in self._links):
                    self._refusals.forget(link.address)
                continue
            self.due_ms = min((self.due_ms, *self._due_times(link, now_ms)))

    def _openable(self, now_ms: int) -> list[Link]:
        """Return the links to open now; after a refused login, one at a time until a broker serves this client."""
        links = [each for each in self._links.values() if each.state is LinkState.CLOSED and each.wanted]
        links = [each for each in links if now_ms >= self._opens_ms(each)]
        if not self._refusals.is_refused or self._is_served:
            return links
        if not links or any(each.state is LinkState.OPENING for each in self._links.values()):
            return []
        return [min(links, key=lambda each: each.since_ms)]  # the others had their turn later

    @property
    def _is_served(self) -> bool:
        return any(each.state is LinkState.READY for each in self._links.values())

    def _opens_ms(self, link: Link) -> int:
        """Return when a closed link may be opened."""
        if not self._refusals.is_pausing:
            return link.attempts.not_before_ms
        refused_ms = self._refusals.not_before_ms(link.address, is_served=self._is_served)
        return max(link.attempts.not_before_ms, refused_ms)

    def _due_times(self, link: Link, now_ms: int) -> Iterator[int]:
        """Yield the times at which something about a link changes without an event."""
        if link.state is LinkState.READY:
            if not link.in_flight:
                yield link.used_ms + self._idle_ms
            if link.muted_until_ms > now_ms:
                yield link.muted_until_ms
        elif link.state is LinkState.CLOSED:
            if not link.wanted:
                yield self._forget_ms(link)
            elif (opens_ms := self._opens_ms(link)) > now_ms:  # otherwise it waits for the end of another attempt
                yield opens_ms
        elif link.since_ms + IMPATIENT_MS > now_ms:
            yield link.since_ms + IMPATIENT_MS

    def _forget_ms(self, link: Link) -> int:
        """Return when a closed link may be forgotten."""
        return link.used_ms + self._idle_ms
