"""A broker of a few lines for the tests of clients: in memory, scripted answer by answer where a test wants a fault.

It knows the framing and the versions, because it is the other role of the same connection; what it answers to an API is
a function of the request. Unlike the reference broker it can be made to say anything.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from kafkawire.sdk.protocol.apis import APIS, ApiKey
from kafkawire.sdk.protocol.connection import Request, ServerConnection
from kafkawire.sdk.protocol.error_codes import ErrorCode
from kafkawire.sdk.protocol.messages.api_versions import ApiVersionsResponse
from kafkawire.sdk.protocol.messages.metadata import MetadataResponse
from kafkawire.sdk.protocol.schema import Buffer, Message, Range
from kafkawire.sdk.transport.memory import MemoryNetwork
from kafkawire.sdk.transport.wire import Address, Wire

__all__ = ["BROKER", "Answer", "Link", "ScriptedBroker", "topic_id"]

BROKER = Address("broker", 9092)

#: Returns the response to a request, None to leave it unanswered.
Answer = Callable[[Request], Message | None]


class ScriptedBroker:
    """One broker that answers what it is told to.

    Args:
        topics: number of partitions by name; this broker leads all of them.
        supported: versions by API; all that there are if not given.

    Attributes:
        network: gives the connections to it.
        answers: what is answered, by API.
        once: answers given before that, one after the other.
        requests: everything that was asked, ApiVersions and Metadata left out.
        links: the open connections, to be broken.
    """

    def __init__(self, topics: dict[str, int] | None = None, supported: dict[ApiKey, Range] | None = None) -> None:
        self.topics = topics or {}
        self.supported = supported or {key: api.versions for key, api in APIS.items() if "broker" in api.listeners}
        self.network = MemoryNetwork()
        self.answers: dict[ApiKey, Answer] = {
            ApiKey.API_VERSIONS: self._api_versions,
            ApiKey.METADATA: self._metadata,
        }
        self.once: dict[ApiKey, deque[Answer]] = {}
        self.requests: list[Request] = []
        self.links: list[Link] = []
        self.start()

    def start(self) -> None:
        """Listen."""
        self.network.servers[BROKER] = self._accept

    def stop(self) -> None:
        """Listen no more and break all connections."""
        del self.network.servers[BROKER]
        for link in self.links:
            link.wire.close()
        self.links.clear()

    def script(self, key: ApiKey, *answers: Answer) -> None:
        """Answer the next requests of an API with these, then as before."""
        self.once.setdefault(key, deque()).extend(answers)

    def asked(self, key: ApiKey) -> list[Message]:
        """Return the requests of an API so far."""
        return [request.message for request in self.requests if request.api.key == key]

    def answer(self, request: Request) -> Message | None:
        """Return what is answered to a request."""
        key = ApiKey(request.api.key)
        if key not in (ApiKey.API_VERSIONS, ApiKey.METADATA):
            self.requests.append(request)
        if self.once.get(key):
            return self.once[key].popleft()(request)
        return self.answers[key](request)

    def _accept(self, wire: Wire) -> Link:
        link = Link(self, wire)
        self.links.append(link)
        return link

    def _api_versions(self, request: Request) -> ApiVersionsResponse:
        keys = [ApiVersionsResponse.ApiVersion(key, *versions) for key, versions in self.supported.items()]
        return ApiVersionsResponse(api_keys=keys)

    def _metadata(self, request: Request) -> MetadataResponse:
        asked = request.message.topics
        names = list(self.topics) if asked is None else [topic.name for topic in asked]
        return MetadataResponse(
            brokers=[MetadataResponse.MetadataResponseBroker(1, *BROKER)],
            cluster_id="scripted",
            controller_id=1,
            topics=[self._topic(name) for name in names],
        )

    def _topic(self, name: str) -> MetadataResponse.MetadataResponseTopic:
        if name not in self.topics:
            return MetadataResponse.MetadataResponseTopic(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, name)
        partitions = [
            MetadataResponse.MetadataResponsePartition(0, number, 1, 0, [1], [1]) for number in range(self.topics[name])
        ]
        return MetadataResponse.MetadataResponseTopic(0, name, topic_id(name), partitions=partitions)


class Link:
    """The broker's end of one connection."""

    def __init__(self, broker: ScriptedBroker, wire: Wire) -> None:
        self.broker = broker
        self.wire = wire
        self.connection = ServerConnection(broker.supported)

    def receive_frame(self, frame: Buffer) -> None:
        request = self.connection.receive(frame)
        message = self.broker.answer(request)
        if message is not None:
            self.wire.write(self.connection.respond(request, message))

    def connection_lost(self, error: Exception | None) -> None:
        if self in self.broker.links:
            self.broker.links.remove(self)


def topic_id(name: str) -> bytes:
    """Return the id that the broker gives to a topic."""
    return name.encode().ljust(16, b"\1")[:16]
