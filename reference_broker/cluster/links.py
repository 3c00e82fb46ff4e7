"""Links from this broker to the others: a request goes to one broker, with a timeout, and has exactly one outcome.

`RouterLinks` uses the clients' router (`sdk/routing/router.py`), but supplies the list of brokers instead of letting
the router ask for it. A broker has two kinds of links: those for the controller's requests use the addresses in
registrations, and those for all other requests use the addresses that the controller has announced.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar, Final, Protocol

from kafkawire.sdk.errors import KafkaWireError, LocalProtocolError
from kafkawire.sdk.protocol.api_registry import KAFKA_APIS
from kafkawire.sdk.protocol.schema import Message
from kafkawire.sdk.registry.registry import Post
from kafkawire.sdk.routing.call import Call, Purpose, Target
from kafkawire.sdk.routing.given_metadata import GivenMetadata
from kafkawire.sdk.routing.metadata import ClusterBroker
from kafkawire.sdk.routing.router import Router
from kafkawire.sdk.transport.wire import Address

__all__ = ["PENDING_MAX", "Cancel", "Done", "LinkOptions", "Links", "RouterLinks"]

#: Maximum number of requests to one target without an outcome. A paused broker must not use up the router's capacity
#: for all brokers (`MAX_CALLS`).
PENDING_MAX: Final = 1_000

#: Idle connections between brokers are not closed, as in Apache Kafka.
_NEVER_MS: Final = 2**53

#: Called once, with the response, or with the error if there is none.
Done = Callable[[Message | Exception], None]

#: Abandons a request whose outcome is no longer needed, in which case no outcome is reported. Has no effect afterwards.
Cancel = Callable[[], None]


@dataclass(frozen=True)
class LinkOptions:
    """The options for a router between brokers."""

    KIND: ClassVar[str] = "broker"

    bootstrap_servers: tuple[Address, ...] = ()
    api_timeout_ms: int = 30_000
    retry_backoff_max_ms: int = 1_000
    metadata_max_age_ms: int = 30_000
    connections_max_idle_ms: int = _NEVER_MS


class Links(Protocol):
    """Links to the brokers in a cluster. No method invokes a callback before it returns."""

    def know(self, brokers: Mapping[int, Address], controller_id: int | None) -> None:
        """Replace what is known about the brokers.

        Connections to brokers that no longer have the same address are closed; requests on them fail.

        Args:
            brokers: the address of each broker, keyed by node id.
            controller_id: the node id of the controller; None if there is none.
        """
        ...

    def ask(
        self,
        target: Target,
        request: Message,
        done: Done,
        *,
        timeout_ms: int,
        purpose: Purpose,
        version: int | None = None,
        retries: bool = False,
    ) -> Cancel:
        """Send a request. A request to an unknown broker waits until `know` is called again.

        Args:
            target: a broker, such as `Node(1)`, or the controller.
            request: the request, which must not be modified before its outcome.
            done: called with the outcome.
            timeout_ms: how long to wait from now before giving up.
            purpose: requests to the same broker with the same purpose are answered in order.
            version: the version of the request, which may be a removed one; None for the highest that both sides know.
            retries: whether to resend a request if its connection was lost. The broker may then have carried it out
                twice. Handling error codes in responses is left to the caller.

        Returns:
            A function that abandons the request.
        """
        ...

    def drop(self, broker_id: int) -> None:
        """Close the connections to a broker, for example because it has registered again; requests on them fail."""
        ...


class RouterLinks:
    """Links that use a router whose driver runs on the broker's loop.

    Args:
        router: a router used for nothing else.
        given: the router's metadata refresh, to which the brokers are given.
        wake: wakes the driver.
        now_ms: returns the driver's time.
        post: schedules a function for a later turn of the loop.
    """

    def __init__(
        self, router: Router, given: GivenMetadata, wake: Callable[[], None], now_ms: Callable[[], int], post: Post
    ) -> None:
        self._router = router
        self._given = given
        self._wake = wake
        self._now_ms = now_ms
        self._post = post
        #: The number of requests without an outcome, keyed by target. Targets are never removed, but there are few of
        #: them.
        self._pending: Counter[Target] = Counter()

    def know(self, brokers: Mapping[int, Address], controller_id: int | None) -> None:
        """See `Links.know`."""
        former = self._given.metadata.brokers
        listed = [ClusterBroker(node_id, address) for node_id, address in brokers.items()]
        self._given.set(listed, controller_id, self._now_ms())
        for broker in former.values():
            if brokers.get(broker.node_id) != broker.address:
                self._router.drop(broker.address)
        self._wake()

    def ask(
        self,
        target: Target,
        request: Message,
        done: Done,
        *,
        timeout_ms: int,
        purpose: Purpose,
        version: int | None = None,
        retries: bool = False,
    ) -> Cancel:
        """See `Links.ask`."""
        now_ms = self._now_ms()
        call: Call = Call(
            target,
            lambda versions: (request, version),
            KAFKA_APIS.of(type(request)).response,
            now_ms + timeout_ms,
            lambda call, now_ms: self._ended(call, done),
            retries=retries,
            timeout_ms=timeout_ms,
            purpose=purpose,
        )
        try:
            if self._pending[target] >= PENDING_MAX:
                raise LocalProtocolError(
                    f"{call}: too many requests are waiting for a response; the limit is {PENDING_MAX}"
                )
            self._router.submit(call, now_ms)
        except KafkaWireError as error:
            return _told_later(done, error, self._post)
        self._pending[target] += 1
        self._wake()
        return lambda: self._cancel(call)

    def drop(self, broker_id: int) -> None:
        """See `Links.drop`."""
        broker = self._given.metadata.brokers.get(broker_id)
        if broker is not None:
            self._router.drop(broker.address)
            self._wake()

    def _cancel(self, call: Call) -> None:
        if not call.done:
            call.cancel()
            self._forget(call)

    def _ended(self, call: Call, done: Done) -> None:
        self._forget(call)
        done(call.answer if call.error is None else call.error)

    def _forget(self, call: Call) -> None:
        self._pending[call.target] -= 1


def _told_later(done: Done, error: KafkaWireError, post: Post) -> Cancel:
    """Report why a request could not be sent, unless the request is abandoned first."""
    is_cancelled = False

    def tell() -> None:
        if not is_cancelled:
            done(error)

    def cancel() -> None:
        nonlocal is_cancelled
        is_cancelled = True

    post(tell)
    return cancel
