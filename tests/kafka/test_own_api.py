"""A user's own API disturbs Kafka's APIs neither in a client that knows it nor in a broker that serves it.

Method: send requests from the example's client to Apache Kafka, and run Kafka's own clients, which do not know the API,
on the example's broker.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator

import pytest

from examples.own_api.__main__ import main
from examples.own_api.broker import Greeter
from examples.own_api.client import REGISTRY, Greetings
from examples.own_api.messages.greet import GreetRequest
from examples.own_api.tables.apis import APIS, ApiKey
from kafkawire.errors import UnsupportedVersion
from kafkawire.protocol import APIS as KAFKA
from kafkawire.protocol import ApiKey as KafkaKey
from kafkawire.protocol import ClientConnection
from kafkawire.sdk.protocol.messages.api_versions import ApiVersionsRequest
from kafkawire.sdk.protocol.messages.metadata import MetadataRequest
from kafkawire.sdk.transport.blocking import ConnectionEnded, FrameSocket
from kafkawire.testing import ApiHandler, Broker
from tests.kafka.apache import ApacheKafka
from tests.kafka.servers import BROKER_OPTIONS
from tests.kafka.tools import run

#: Each run of a tool starts a JVM.
pytestmark = pytest.mark.timeout(400)

GREET = APIS[ApiKey.GREET]
REQUEST = GreetRequest([GreetRequest.Person("Ann")])
VERSIONS = "org.apache.kafka.tools.BrokerApiVersionsCommand"
TOPICS = "org.apache.kafka.tools.TopicCommand"
PRODUCER = "org.apache.kafka.tools.ConsoleProducer"
CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"


@pytest.fixture(scope="module")
def greeting() -> Iterator[Broker]:
    """A reference broker that serves the example's API."""
    with Broker(**BROKER_OPTIONS, handlers=[ApiHandler(GREET, Greeter())]) as broker:
        yield broker


def test_the_example(greeting: Broker, capsys: pytest.CaptureFixture[str]) -> None:
    asyncio.run(main(greeting.bootstrap))
    assert capsys.readouterr().out.splitlines()[-1] == "INVALID_REQUEST: the list of people is empty"


def test_kafka_does_not_offer_it(kafka: ApacheKafka) -> None:
    async def greet() -> None:
        client = Greetings(kafka.bootstrap)
        await client.start()
        try:
            await client.greet(GreetRequest.Person("Ann"))
        finally:
            await client.close()

    with pytest.raises(UnsupportedVersion, match="Greet: the broker does not support this API"):
        asyncio.run(greet())


def socket_to(bootstrap: str) -> FrameSocket:
    host, _, port = bootstrap.rpartition(":")
    return FrameSocket(host, int(port))


def test_kafka_answers_its_own_apis_to_a_connection_that_knows_more(kafka: ApacheKafka) -> None:
    connection = ClientConnection(apis=REGISTRY)
    with socket_to(kafka.bootstrap) as socket:
        for message in (ApiVersionsRequest("kafkawire", "1.0"), MetadataRequest(None)):
            socket.send(*connection.request(message).parts)
            assert connection.receive(socket.receive()).unread_bytes == 0


def test_an_api_that_is_not_served_closes_the_connection(kafka: ApacheKafka, broker: Broker) -> None:
    for bootstrap in (kafka.bootstrap, broker.bootstrap):
        with socket_to(bootstrap) as socket:
            socket.send(*ClientConnection(apis=REGISTRY).request(REQUEST, 2).parts)
            with pytest.raises(ConnectionEnded):
                socket.receive()


def test_an_unknown_version_of_api_versions(kafka: ApacheKafka, greeting: Broker) -> None:
    """The response is byte-for-byte identical, whatever other APIs the broker serves."""
    unknown = KAFKA[KafkaKey.API_VERSIONS].versions.last + 1
    answers = []
    for bootstrap in (kafka.bootstrap, greeting.bootstrap):
        with socket_to(bootstrap) as socket:
            (frame,) = ClientConnection().request(ApiVersionsRequest("kafkawire", "1.0"), unknown - 1).parts
            frame = bytes(frame)
            socket.send(frame[:6] + unknown.to_bytes(2, "big") + frame[8:])
            answers.append(socket.receive())
    assert answers[0] == answers[1]


def test_kafkas_tool_lists_it(greeting: Broker) -> None:
    listed = run(greeting, VERSIONS)
    assert re.search(r"^\tUNKNOWN\(910\): 0 to 2", listed, re.MULTILINE), listed
    assert re.search(r"^\tMetadata\(3\): 0 to 13 \[usable: 13\]", listed, re.MULTILINE), listed


def test_kafkas_clients_work_beside_it(greeting: Broker) -> None:
    run(greeting, TOPICS, "--create", "--topic", "greeted", "--partitions", "1")
    run(greeting, PRODUCER, "--topic", "greeted", stdin="one\ntwo\n")
    more = ("--from-beginning", "--max-messages", "2", "--timeout-ms", "30000")
    assert run(greeting, CONSUMER, "--topic", "greeted", *more).splitlines()[:2] == ["one", "two"]
