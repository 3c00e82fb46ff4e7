"""The APIs that serve the controller's requests on a cluster broker, without sockets but through the codecs."""

from __future__ import annotations

import logging
from typing import Any

from kafkawire.reference_broker.apis import load
from kafkawire.reference_broker.requests.api_handlers import CLUSTER_PARTS, PARTS, Scope
from kafkawire.reference_broker.requests.call import Call, RequestServices
from kafkawire.reference_broker.requests.delayed_operations import Answer, DelayedOperation
from kafkawire.reference_broker.requests.dispatcher import Dispatcher
from kafkawire.reference_broker.requests.peer import Peer
from kafkawire.reference_broker.security.authorizer import NoAuthorizer
from kafkawire.reference_broker.work.computations import Computations
from kafkawire.reference_broker.work.round_robin import RoundRobin
from kafkawire.sdk.log_limit import LogLimit
from kafkawire.sdk.protocol.codec import codec
from kafkawire.sdk.protocol.connection import Request
from kafkawire.sdk.protocol.schema import Message
from kafkawire.sdk.protocol.tables.apis import KNOWN_APIS, ApiKey
from tests.reference_broker.broker_bench import LISTENER
from tests.reference_broker.replicas.controlled_broker import Controlled

__all__ = ["ControlledApis", "removed_versions"]


def removed_versions(key: ApiKey) -> range:
    """Return the versions of an API that Apache Kafka 4 has removed."""
    return KNOWN_APIS[key].known_versions.numbers()


class ControlledApis:
    """A broker that gets requests from the controller.

    Attributes:
        broker: the broker whose state the requests change.
    """

    def __init__(self) -> None:
        self.broker = Controlled()
        timers = self.broker.timers
        lines = LogLimit(logging.getLogger("kafkawire.broker"))
        self._services = RequestServices(timers, Computations(timers), RoundRobin(), lines, 1_000_000)
        parts = {
            **dict.fromkeys(PARTS | CLUSTER_PARTS),
            "authorizer": NoAuthorizer(is_registry=True),
            "control_requests": self.broker.requests,
        }
        self._dispatcher = Dispatcher(load(scope=Scope.CLUSTER), parts, self._services, 1_000_000)

    def begin(self, message: Message, version: int) -> Answer:
        """Send a request; return the response, or the operation that is waiting for it."""
        kind = codec(type(message), version)
        data = kind.encode(message)
        received, end = kind.decode(data)
        assert end == len(data)
        api = KNOWN_APIS[ApiKey(message.SCHEMA.key or 0)]
        request = Request(api, version, 0, "controller", received, len(data))
        return self._dispatcher.handle(Call(self._services, request, Peer(LISTENER, "host"), 0), received)

    def ask(self, message: Message, version: int) -> Any:
        """Send a request; return the response as the controller reads it."""
        answer = self.begin(message, version)
        self.broker.run()
        response = answer.response if isinstance(answer, DelayedOperation) else answer
        assert response is not None
        kind = codec(type(response), version)
        decoded, _ = kind.decode(kind.encode(response))
        return decoded
