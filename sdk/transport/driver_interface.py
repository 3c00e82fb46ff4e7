"""The interface between a driver and the parts that it drives.

These parts are the machines, which make decisions, and the router, which chooses requests. They do no I/O. The driver
calls them one at a time, on its own loop, and always passes the time. They are defined in `routing/`, `producer/`,
`consumer/` and `admin/`, about which the transport knows nothing.
"""

from __future__ import annotations

from enum import Enum
from typing import Generic, NamedTuple, Protocol, TypeVar

from kafkawire.sdk.errors import KafkaWireError
from kafkawire.sdk.protocol.schema import Message
from kafkawire.sdk.transport.wire import Address

__all__ = ["AnyCall", "AnyLink", "Call", "Link", "Machine", "NextPoll", "Open", "Router", "Send", "Shut", "Versions"]


class NextPoll(Enum):
    """When the machines are polled after a response.

    Attributes:
        NOW: immediately, because there is something to send, and callers waiting for this response should not run
            first.
        SOON: after the callers waiting for this response have run.
        NONE: not because of this response, which has no consequences.
    """

    NOW = "now"
    SOON = "soon"
    NONE = "none"


class Versions(Protocol):
    """The versions that a broker supports; a connection has them once it is ready."""

    def version_for(self, request: type[Message], carrying: tuple[type[Message], str] | None = None) -> int:
        """Return the version that a request will be sent in; see `BrokerConnection.version_for`."""
        ...

    def feature_level(self, name: str) -> int:
        """Return the finalized level of a feature; see `BrokerConnection.feature_level`."""
        ...


class Link(Protocol):
    """A requested connection, open or not.

    Attributes:
        congested: whether the connection has more unsent bytes than it should hold; set by the driver.
    """

    congested: bool

    @property
    def address(self) -> Address:
        """The address of the broker."""
        ...


class Call(Protocol):
    """A request and the class of its response.

    Attributes:
        next_poll: when to poll the machines after the response has been reported.
    """

    next_poll: NextPoll

    @property
    def response(self) -> type[Message] | None:
        """The class of the response; None if there is none."""
        ...

    @property
    def timeout_ms(self) -> int | None:
        """The time limit for the response; None for the connection's limit."""
        ...

    def request(self, versions: Versions) -> tuple[Message, int | None]:
        """Return the request and its version; a version of None means the highest one that both sides support."""
        ...


AnyLink = TypeVar("AnyLink", bound=Link)
AnyCall = TypeVar("AnyCall", bound=Call)


class Open(NamedTuple, Generic[AnyLink]):
    """Connect, then report `opened` or `closed`."""

    link: AnyLink


class Send(NamedTuple, Generic[AnyLink, AnyCall]):
    """Write the request of a call, then report `answered` or `failed`."""

    link: AnyLink
    call: AnyCall


class Shut(NamedTuple, Generic[AnyLink]):
    """Close the connection and report the calls waiting for it, if any, as failed; do not report `closed`."""

    link: AnyLink


class Machine(Protocol):
    """A part of a client that makes decisions: the sender, the fetch planner, a group's member."""

    def poll(self, now_ms: int) -> None:
        """Do everything that is due. Called after almost every event, so it must be cheap when nothing is due."""
        ...

    def due_ms(self, now_ms: int) -> int | None:
        """Return when to poll again if no event happens earlier; None if only an event can cause work."""
        ...

    def fail(self, error: KafkaWireError, now_ms: int) -> None:
        """End everything that is unsettled, because the client was closed or a machine raised an unexpected error."""
        ...


class Router(Protocol[AnyLink, AnyCall]):
    """The machine to which all other machines submit their calls."""

    def poll(self, now_ms: int) -> list[Open[AnyLink] | Send[AnyLink, AnyCall] | Shut[AnyLink]]:
        """Return the actions to perform now."""
        ...

    def due_ms(self, now_ms: int) -> int | None:
        """Return when to poll again if no event happens earlier."""
        ...

    def opened(self, link: AnyLink, connection: Versions, now_ms: int) -> None:
        """Report that a connection is ready."""
        ...

    def closed(self, link: AnyLink, error: KafkaWireError, now_ms: int) -> None:
        """Report that a connection could not be opened or has ended; its calls are reported separately."""
        ...

    def answered(self, call: AnyCall, response: Message | None, now_ms: int) -> None:
        """Report the response to a call; None for a written request that has no response."""
        ...

    def failed(self, call: AnyCall, error: KafkaWireError, now_ms: int) -> None:
        """Report that a call could not be sent or got no response."""
        ...

    def close(self, error: KafkaWireError, now_ms: int) -> None:
        """Fail all current and future calls."""
        ...
