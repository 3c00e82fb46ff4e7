"""A topic that Metadata creates is unknown in the response and exists a moment later, as on Apache Kafka.

Method: send requests in every version to both, and repeat them until the topic exists; also use invalid names, and
names for which the response does not reveal that the topic cannot be created.
"""

from __future__ import annotations

import uuid

import pytest

from kafkawire.sdk.protocol.messages.metadata import MetadataRequest, MetadataResponse
from kafkawire.sdk.protocol.tables.apis import APIS, ApiKey
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.protocol.uuids import ZERO_UUID
from kafkawire.sdk.transport.blocking import FrameSocket
from kafkawire.sync import Producer
from tests.kafka.cleaning import until
from tests.kafka.produced import TIMEOUT_MS, call
from tests.kafka.servers import Server

VERSIONS = APIS[ApiKey.METADATA].stable_versions.numbers()
WITH_CHOICE = 4  # the first version in which a client can turn off topic creation


def ask(bootstrap: str, version: int, name: str, *, creates: bool = True) -> MetadataResponse.MetadataResponseTopic:
    host, _, port = bootstrap.rpartition(":")
    request = MetadataRequest([MetadataRequest.MetadataRequestTopic(name=name)], creates)
    with FrameSocket(host, int(port), TIMEOUT_MS / 1000) as socket:
        response = call(socket, request, version)
    assert isinstance(response, MetadataResponse)
    (topic,) = response.topics
    return topic


def new_name() -> str:
    return f"automatic-{uuid.uuid4().hex}"


@pytest.mark.parametrize("version", VERSIONS)
def test_it_is_unknown_and_then_there(either: Server, version: int) -> None:
    name = new_name()
    first = ask(either.bootstrap, version, name)
    assert (first.error_code, first.name) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, name)
    assert (first.topic_id, first.is_internal, first.partitions) == (ZERO_UUID, False, ())
    until(lambda: bool(ask(either.bootstrap, version, name).partitions), f"{name} does not come")
    topic = ask(either.bootstrap, version, name)
    assert (topic.error_code, len(topic.partitions)) == (ErrorCode.NONE, 1)


@pytest.mark.parametrize("version", [version for version in VERSIONS if version >= WITH_CHOICE])
def test_nothing_is_created_for_who_does_not_want_it(either: Server, version: int) -> None:
    name = new_name()
    for _ in range(2):
        answer = ask(either.bootstrap, version, name, creates=False)
        assert (answer.error_code, answer.partitions) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ())


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("bad name", ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("", ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("..", ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("x" * 250, ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("__cluster_metadata", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ],
)
def test_names_that_no_topic_gets(either: Server, name: str, code: ErrorCode) -> None:
    for creates in (True, False, True):
        answer = ask(either.bootstrap, 12, name, creates=creates)
        assert (answer.error_code, answer.name, answer.is_internal) == (code, name, False)


def test_a_name_that_collides(either: Server) -> None:
    name = new_name()
    until(lambda: bool(ask(either.bootstrap, 12, f"{name}.x").partitions), f"{name}.x does not come")
    for _ in range(3):
        assert ask(either.bootstrap, 12, f"{name}_x").error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_producer_waits_for_it(either: Server) -> None:
    with Producer(either.bootstrap) as producer:
        for _ in range(3):
            assert producer.send(new_name(), b"value").result().offset == 0
