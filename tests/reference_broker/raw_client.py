"""A TCP client that sends one request at a time; it has the requests that the broker's tests need."""

from __future__ import annotations

from typing import TypeVar

from kafkawire.sdk.protocol.api_registry import KAFKA_APIS, ApiRegistry
from kafkawire.sdk.protocol.connection import ClientConnection
from kafkawire.sdk.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from kafkawire.sdk.protocol.messages.fetch import FetchRequest, FetchResponse
from kafkawire.sdk.protocol.messages.metadata import MetadataRequest, MetadataResponse
from kafkawire.sdk.protocol.messages.produce import ProduceRequest, ProduceResponse
from kafkawire.sdk.protocol.schema import Message
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.transport.blocking import FrameSocket
from tests.reference_broker.storage.produced_batches import values_in

TIMEOUT_SECONDS = 20

Response = TypeVar("Response", bound=Message)


class Client:
    """A connection that sends one request at a time."""

    def __init__(self, bootstrap: str, apis: ApiRegistry = KAFKA_APIS) -> None:
        host, _, port = bootstrap.rpartition(":")
        self.socket = FrameSocket(host, int(port), TIMEOUT_SECONDS)
        self.protocol = ClientConnection(apis=apis)

    def __enter__(self):
        return self

    def __exit__(self, *error) -> None:
        self.socket.close()

    def send(self, message, version) -> None:
        self.socket.send(*self.protocol.request(message, version).parts)

    def receive(self, kind: type[Response]) -> Response:
        message = self.protocol.receive(self.socket.receive()).message
        assert isinstance(message, kind)
        return message

    def ask(self, message, version, kind: type[Response]) -> Response:
        self.send(message, version)
        return self.receive(kind)

    def metadata(self, topics=None):
        return self.ask(MetadataRequest(topics), 12, MetadataResponse)

    def topic(self, name="t"):
        request = CreateTopicsRequest([CreateTopicsRequest.CreatableTopic(name, 1, 1)], TIMEOUT_SECONDS * 1000)
        (topic,) = self.ask(request, 7, CreateTopicsResponse).topics
        assert topic.error_code in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS)

    def fetch(self, **options):
        return self.ask(fetch(**options), 12, FetchResponse)

    def produce(self, data, acks=1):
        response = self.ask(produce_request(data, acks), 9, ProduceResponse)
        return response.responses[0].partition_responses[0]


def produce_request(data, acks=1):
    partition = ProduceRequest.PartitionProduceData(0, data)
    return ProduceRequest(None, acks, 1000, [ProduceRequest.TopicProduceData("t", partition_data=[partition])])


def base_offset(response):
    return response.responses[0].partition_responses[0].base_offset


def fetch(offset=0, wait=0, max_bytes=2**26):
    partition = FetchRequest.FetchPartition(0, fetch_offset=offset, partition_max_bytes=max_bytes)
    return FetchRequest(max_wait_ms=wait, min_bytes=1, topics=[FetchRequest.FetchTopic("t", partitions=[partition])])


def fetched(response):
    return values_in(response.responses[0].partitions[0].records)
