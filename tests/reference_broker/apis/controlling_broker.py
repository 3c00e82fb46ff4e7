"""The APIs of the controller's broker, called through codecs, with an embedded registry and scripted brokers.

The controller runs on broker 0. That broker's image changes only when the test updates it.
"""

from __future__ import annotations

import logging
from typing import Any

from kafkawire.reference_broker.apis import load
from kafkawire.reference_broker.cluster.controller.controller import Controller
from kafkawire.reference_broker.cluster.controller.replica_assignment import Start
from kafkawire.reference_broker.cluster.image_waits import ImageWaits
from kafkawire.reference_broker.cluster.registry_configs import RegistryConfigs
from kafkawire.reference_broker.cluster.registry_topics import RandomChoices, RegistryTopics, ReplicationFactors
from kafkawire.reference_broker.config.options import read_options
from kafkawire.reference_broker.metadata.cluster_metadata import ClusterMetadata
from kafkawire.reference_broker.requests.api_handlers import CLUSTER_PARTS, PARTS, Scope
from kafkawire.reference_broker.requests.call import Call, RequestServices
from kafkawire.reference_broker.requests.delayed_operations import Answer, DelayedOperation, finished
from kafkawire.reference_broker.requests.dispatcher import Dispatcher
from kafkawire.reference_broker.requests.peer import Peer
from kafkawire.reference_broker.requests.throttling import Throttling
from kafkawire.reference_broker.security.authorizer import NoAuthorizer
from kafkawire.reference_broker.security.quotas.quotas import Quotas
from kafkawire.reference_broker.security.quotas.rates import Window
from kafkawire.reference_broker.work.computations import Computations
from kafkawire.reference_broker.work.round_robin import RoundRobin
from kafkawire.reference_broker.work.timers import Timers
from kafkawire.sdk.log_limit import LogLimit
from kafkawire.sdk.protocol.codec import codec
from kafkawire.sdk.protocol.connection import Request
from kafkawire.sdk.protocol.messages.update_metadata import UpdateMetadataRequest
from kafkawire.sdk.protocol.schema import Message
from kafkawire.sdk.protocol.tables.apis import KNOWN_APIS, ApiKey
from tests.reference_broker.broker_bench import LISTENER, NOW_MS, all_steps
from tests.reference_broker.cluster.controller.scripted_cluster import Cluster, EmbeddedTree
from tests.reference_broker.security.kept_entity_configs import KeptEntityConfigs

__all__ = ["ControllingBroker"]


class ControllingBroker:
    """Broker 0 of a cluster, which is the controller unless the test has made it resign.

    Args:
        broker_ids: the brokers of the cluster, starting with broker 0.
        deletes_topics: whether topics can be deleted.

    Attributes:
        cluster: the registry, the brokers, and their controllers.
        metadata: the image of broker 0.
        now_ms: the current time.
    """

    def __init__(self, *broker_ids: int, deletes_topics: bool = True) -> None:
        tree: Any = EmbeddedTree()
        self.cluster = Cluster(*broker_ids, tree=tree)
        options = read_options({})
        self.now_ms = NOW_MS
        self._timers = Timers()
        self._image = ClusterMetadata("cluster", 0, lambda name: {})
        self.metadata = self._image.metadata
        self._applied = 0
        waits = ImageWaits(self.metadata, self._timers, lambda: self.now_ms)
        self.metadata.listen(waits.changed)
        lines = LogLimit(logging.getLogger("kafkawire.broker"))
        self._services = RequestServices(self._timers, Computations(self._timers), RoundRobin(), lines, 1_000_000)
        registry: Any = self.cluster.brokers[0].registry
        topics = RegistryTopics(
            registry,
            self.metadata,
            RegistryConfigs(registry, 0),
            options,
            ReplicationFactors(2, 2, 2),
            RandomChoices(self.cluster.new_topic_id, lambda count: Start(0, 0)),
            self._timers,
            lambda: self.now_ms,
            deletes_topics=deletes_topics,
        )
        self.metadata.listen(topics.changed)
        own = {
            "controller": self.controller,
            "image_waits": waits,
            "metadata": self.metadata,
            "options": options,
            "throttling": Throttling(Quotas(KeptEntityConfigs(), Window(11, 1_000), Window(11, 1_000)), lambda: 0),
            "topics": topics,
        }
        parts = {**dict.fromkeys(PARTS | CLUSTER_PARTS), "authorizer": NoAuthorizer(is_registry=True), **own}
        self._dispatcher = Dispatcher(
            load(scope=Scope.CLUSTER), parts, self._services, 1_000_000, lambda: self.controller.is_active
        )
        self.show()

    @property
    def controller(self) -> Controller:
        """The controller on broker 0, active or not."""
        controller = self.cluster.brokers[0].controller
        assert controller is not None
        return controller

    def show(self) -> None:
        """Update the image with the metadata that the controller has sent to broker 0."""
        requests = self.cluster.brokers[0].requests
        for request in requests[self._applied :]:
            if isinstance(request, UpdateMetadataRequest):
                finished(self._image.apply(request))
        self._applied = len(requests)

    def advance(self, milliseconds: int) -> None:
        """Let time pass."""
        self.now_ms += milliseconds
        self._timers.fire(self.now_ms)

    def begin(self, message: Message, version: int, *, settles: bool = True) -> Answer:
        """Send a request; return the response, or the operation that is waiting for it.

        Args:
            message: the request.
            version: its version.
            settles: whether the registry completes its operations before this method returns.
        """
        kind = codec(type(message), version)
        data = kind.encode(message)
        received, end = kind.decode(data)
        assert end == len(data)
        api = KNOWN_APIS[ApiKey(message.SCHEMA.key or 0)]
        assert version in self._dispatcher.served[api.key].numbers()
        request = Request(api, version, 0, "client", received, len(data))
        answer = self._dispatcher.handle(Call(self._services, request, Peer(LISTENER, "host"), self.now_ms), received)
        if isinstance(answer, DelayedOperation):
            all_steps(answer)
        if settles:
            self.cluster.settle()
        return answer

    def ask(self, message: Message, version: int) -> Any:
        """Send a request; return the response as the client reads it."""
        return self.read(self.begin(message, version), version)

    def read(self, answer: Answer, version: int) -> Any:
        """Return a response as the client reads it; it must have arrived."""
        response = answer.response if isinstance(answer, DelayedOperation) else answer
        assert response is not None
        kind = codec(type(response), version)
        decoded, _ = kind.decode(kind.encode(response))
        return decoded
