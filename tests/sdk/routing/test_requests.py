"""Requests whose format has changed are built for each version, and responses in all formats give the same result.

Method: encode each request in every existing version, and read hand-built responses in the old and the new format.
"""

from __future__ import annotations

import pytest

from kafkawire.sdk.errors import BrokerError, RemoteProtocolError
from kafkawire.sdk.protocol.codec import codec
from kafkawire.sdk.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from kafkawire.sdk.protocol.messages.metadata import MetadataRequest, MetadataResponse
from kafkawire.sdk.protocol.schema import Message
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.routing.metadata import Metadata
from kafkawire.sdk.routing.partitions import TopicPartition
from kafkawire.sdk.routing.requests import (
    MetadataQuestion,
    by_topic,
    carries,
    check,
    coordinator,
    error_text,
    find_coordinator,
)
from tests.sdk.simulation import Connection

PARTITIONS = [TopicPartition("b", 1), TopicPartition("a", 0), TopicPartition("b", 0)]


def versions(request: type[Message]) -> range:
    """Return all versions of a message."""
    low, high = request.SCHEMA.versions
    return range(low, high + 1)


def test_a_metadata_question_says_whether_to_rely_on_the_epochs() -> None:
    request = MetadataRequest()
    question = MetadataQuestion(Metadata(), request)
    for version, expected in ((8, False), (9, True), (8, False)):
        assert question(Connection({ApiKey.METADATA: version})) == (request, version)
        assert question.has_epochs is expected


def test_an_answer_to_a_question_that_was_sent_before_an_invalidation_leaves_the_metadata_stale() -> None:
    """The answer's topics are adopted nevertheless. If a request was sent more than once, the last time is used."""
    metadata, connection = Metadata(max_age_ms=1_000), Connection({})
    metadata.wanted = {"t"}
    question = MetadataQuestion(metadata, MetadataRequest(topics=[MetadataRequest.MetadataRequestTopic(name="t")]))
    answer = MetadataResponse(
        brokers=[MetadataResponse.MetadataResponseBroker(1, "h", 9)],
        topics=[MetadataResponse.MetadataResponseTopic(name="t")],
    )
    question(connection)
    metadata.invalidate()
    for stale_ms in (0, 1_005):
        assert question.take(answer, now_ms=5) is None
        assert metadata.stale_ms() == stale_ms
        assert set(metadata.topics) == {"t"}
        question(connection)


@pytest.mark.parametrize("version", versions(FindCoordinatorRequest))
def test_find_coordinator(version: int) -> None:
    data = codec(FindCoordinatorRequest, version).encode(find_coordinator("group", version))
    assert b"group" in data


COORDINATORS = [
    FindCoordinatorResponse(node_id=3, host="h", port=9),
    FindCoordinatorResponse(coordinators=[FindCoordinatorResponse.Coordinator("group", 3, "h", 9)]),
]


@pytest.mark.parametrize("response", COORDINATORS)
def test_coordinator(response: FindCoordinatorResponse) -> None:
    assert coordinator(response, "group") == (3, "h", 9)


def test_no_coordinator() -> None:
    response = FindCoordinatorResponse(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE)
    with pytest.raises(BrokerError, match=r"^COORDINATOR_NOT_AVAILABLE: coordinator of group g$") as caught:
        coordinator(response, "coordinator of group g")
    assert caught.value.retriable
    response.error_message = "not yet"
    with pytest.raises(BrokerError, match=r"^COORDINATOR_NOT_AVAILABLE: coordinator of group g: not yet$"):
        coordinator(response, "coordinator of group g")


@pytest.mark.parametrize("response", [FindCoordinatorResponse(), FindCoordinatorResponse(node_id=3)])
def test_a_coordinator_that_listens_nowhere(response: FindCoordinatorResponse) -> None:
    with pytest.raises(RemoteProtocolError, match=r"^the response to FindCoordinator lacks coordinator of group g$"):
        coordinator(response, "coordinator of group g")


def test_carries() -> None:
    assert not carries(FindCoordinatorRequest, "coordinator_keys", 3)
    assert carries(FindCoordinatorRequest, "coordinator_keys", 4)


def test_by_topic() -> None:
    assert by_topic(PARTITIONS) == {"b": [1, 0], "a": [0]}


def test_check() -> None:
    check(ErrorCode.NONE, "all well")
    with pytest.raises(BrokerError, match="NOT_CONTROLLER: the subject"):
        check(ErrorCode.NOT_CONTROLLER, "the subject")


def test_what_a_broker_says_follows_what_was_asked() -> None:
    texts = [error_text("group g", message) for message in (None, "", "no")]
    assert texts == ["group g", "group g", "group g: no"]
