"""Links to other brokers over sockets: a router and its driver on the broker's event loop.

A broker has one router for the controller's requests, and others for all other requests (`cluster/links.py`). The
client library's driver does the I/O on the broker's loop, so nothing here crosses threads.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from kafkawire.reference_broker.cluster.links import LinkOptions, RouterLinks
from kafkawire.sdk.clock import monotonic_ms
from kafkawire.sdk.errors import Closed, KafkaWireError
from kafkawire.sdk.registry.registry import Post
from kafkawire.sdk.routing.call import Call
from kafkawire.sdk.routing.given_metadata import GivenMetadata
from kafkawire.sdk.routing.links import Link
from kafkawire.sdk.routing.retry import Backoff
from kafkawire.sdk.routing.router import Router
from kafkawire.sdk.transport.connection import ConnectionSettings
from kafkawire.sdk.transport.driver import Driver
from kafkawire.sdk.transport.owner import Owner
from kafkawire.sdk.transport.promise import Promise
from kafkawire.sdk.transport.timing import random_fraction
from kafkawire.sdk.transport.wire import Network

__all__ = ["BrokerLinks"]

_OWNER: Final = Owner("broker", logging.getLogger("kafkawire.broker"), logging.getLogger("kafkawire.security"))

#: The minimum and the maximum pause between attempts to connect. Both are short, because a broker restarts within
#: seconds and only a few other brokers wait for it.
_BACKOFF_MS: Final = (50, 1_000)


class BrokerLinks:
    """The links of a broker, between `start` and `close`.

    Args:
        network: connects to the other brokers.
        settings: the settings of each connection.
        post: calls a function in a later iteration of the loop.
        on_defect: called with the error after an unexpected error has ended the links.

    Attributes:
        links: sends requests; use it on the loop.
    """

    def __init__(
        self, network: Network, settings: ConnectionSettings, post: Post, on_defect: Callable[[KafkaWireError], None]
    ) -> None:
        given = GivenMetadata()
        router = Router(LinkOptions(), Backoff(*_BACKOFF_MS, random_fraction), refresh=given, owner=_OWNER)
        self._driver: Driver[Link, Call] = Driver(
            router, (), network, settings, _OWNER.name, owner=_OWNER, on_defect=on_defect
        )
        self.links = RouterLinks(router, given, self._driver.wake, monotonic_ms, post)

    def start(self) -> None:
        """Start on the running event loop; requests wait until then."""
        self._driver.start()

    def close(self) -> Promise[None]:
        """Fail all requests and close all connections.

        Returns:
            A promise that is fulfilled once nothing is left on the loop.
        """
        return self._driver.end(Closed("the broker is stopping"))
