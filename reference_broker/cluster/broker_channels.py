"""The controller's channels, built on links: they carry its requests to the other brokers and to its own.

A request is sent once, in the version that the controller chooses. It fails after a timeout, and the controller then
resends it. Requests to the controller's own broker never touch a socket.

Source: `ControllerChannelManager` in Apache Kafka.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from kafkawire.reference_broker.cluster.controller.broker_requests import ControlRequest
from kafkawire.reference_broker.cluster.controller.live_brokers import LiveBroker
from kafkawire.reference_broker.cluster.links import Cancel, Done, Links
from kafkawire.sdk.errors import ConnectionLost
from kafkawire.sdk.registry.registry import Post
from kafkawire.sdk.routing.call import Node, Purpose
from kafkawire.sdk.transport.wire import Address

__all__ = ["BrokerChannels"]

_log = logging.getLogger("kafkawire.broker")


class BrokerChannels:
    """The controller's `Channels`.

    Args:
        broker_id: the id of the controller's broker.
        listener: the listener to which requests are sent: the control-plane listener if there is one, otherwise the
            inter-broker listener.
        links: links to the other brokers, used for nothing else.
        own: takes a request to the controller's own broker; called in a later turn of the loop.
        post: schedules a function for a later turn of the loop.
        timeout_ms: how long to wait for a response, as in `controller.socket.timeout.ms`.
    """

    def __init__(
        self,
        broker_id: int,
        listener: str,
        links: Links,
        own: Callable[[ControlRequest, Done], None],
        post: Post,
        timeout_ms: int,
    ) -> None:
        self._broker_id = broker_id
        self._listener = listener
        self._links = links
        self._own = own
        self._post = post
        self._timeout_ms = timeout_ms
        self._addresses: dict[int, Address] = {}
        #: The request in flight to each broker.
        self._cancels: dict[int, Cancel] = {}

    def connect(self, broker: LiveBroker) -> None:
        """See `Channels.connect`."""
        if broker.broker_id == self._broker_id:
            return
        endpoint = broker.endpoint(self._listener)
        if endpoint is None:
            _log.error("broker %d has no listener %s, so no requests are sent to it", broker.broker_id, self._listener)
            self._addresses.pop(broker.broker_id, None)
        else:
            self._addresses[broker.broker_id] = Address(endpoint.host, endpoint.port)
        self._links.know(self._addresses, self._broker_id)

    def send(self, broker_id: int, request: ControlRequest, done: Done) -> None:
        """See `Channels.send`."""
        if broker_id == self._broker_id:
            self._post(lambda: self._own(request, done))
        elif broker_id not in self._addresses:
            lost = ConnectionLost(f"broker {broker_id} has no listener {self._listener}")
            self._post(lambda: done(lost))
        else:
            self._cancels[broker_id] = self._links.ask(
                Node(broker_id),
                request.message,
                done,
                version=request.version,
                timeout_ms=self._timeout_ms,
                purpose=Purpose.CONTROL,
            )

    def disconnect(self, broker_id: int) -> None:
        """See `Channels.disconnect`."""
        cancel = self._cancels.pop(broker_id, None)
        if cancel is not None:
            cancel()
        if self._addresses.pop(broker_id, None) is not None:
            self._links.know(self._addresses, self._broker_id)
