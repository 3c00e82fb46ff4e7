"""Topics are created, deleted and described by name or id, and an error that is raised has the outcome of each of them.

Method: call a scripted in-memory broker with hand-built responses. test_throttled_topics.py covers throttling itself.
"""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from kafkawire import AclOperation, ConfigSource, CreatedTopic, NewTopic
from kafkawire.sdk.admin.admin import Admin
from kafkawire.sdk.errors import BrokerError, RemoteProtocolError, UnsupportedVersion
from kafkawire.sdk.protocol import messages
from kafkawire.sdk.protocol.connection import Request
from kafkawire.sdk.protocol.messages.metadata import MetadataResponse
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.protocol.uuids import ZERO_UUID, format_uuid
from tests.sdk.admin.administering import administering, created
from tests.sdk.scripted_broker import StoringBroker, topic_id_of

THROTTLED = ErrorCode.THROTTLING_QUOTA_EXCEEDED

Created = messages.CreateTopicsResponse
Deleted = messages.DeleteTopicsResponse


def test_everything_about_a_created_topic() -> None:
    config = Created.CreatableTopicConfigs("retention.ms", "1", False, ConfigSource.TOPIC_CONFIG)
    whole = Created.CreatableTopicResult("a", topic_id_of("a"), 0, None, 0, 3, 2, [config])
    hidden = Created.CreatableTopicResult(
        "b", topic_id_of("b"), 0, None, ErrorCode.TOPIC_AUTHORIZATION_FAILED, -1, -1, None
    )

    async def test(broker: StoringBroker, admin: Admin) -> None:
        broker.responders[ApiKey.CREATE_TOPICS] = lambda request: Created(topics=[whole, hidden])
        topics = await admin.create_topics("b", NewTopic("a", 3, 2), validate_only=True)
        assert topics["b"] == CreatedTopic(topic_id_of("b"), None, None, None)
        assert topics["a"][:3] == (topic_id_of("a"), 3, 2)
        assert topics["a"].configs is not None
        assert topics["a"].configs["retention.ms"].source == ConfigSource.TOPIC_CONFIG
        assert list(topics) == ["b", "a"]
        (request,) = broker.asked(ApiKey.CREATE_TOPICS)
        assert isinstance(request, messages.CreateTopicsRequest)
        assert request.validate_only

    administering(test)


def test_the_error_has_the_outcome_of_each_topic() -> None:
    async def test(broker: StoringBroker, admin: Admin) -> None:
        broker.script(ApiKey.CREATE_TOPICS, created(0, ErrorCode.TOPIC_ALREADY_EXISTS, ErrorCode.INVALID_PARTITIONS, 0))
        with pytest.raises(BrokerError, match=r"^TOPIC_ALREADY_EXISTS: create topic b: said the broker$") as caught:
            await admin.create_topics("a", "b", "c", "d")
        for error in (caught.value, caught.value.again(), pickle.loads(pickle.dumps(caught.value))):
            assert error.results is not None
            assert [*error.results.values] == ["a", "d"]
            codes = {name: each.code for name, each in error.results.errors.items() if isinstance(each, BrokerError)}
            assert codes == {"b": ErrorCode.TOPIC_ALREADY_EXISTS, "c": ErrorCode.INVALID_PARTITIONS}
        assert BrokerError(1).results is None

    administering(test)


def test_throttled_topics_are_not_sent_again_if_the_caller_wants_to_know() -> None:
    def deleted(request: Request) -> Deleted:
        kind = Deleted.DeletableTopicResult
        return Deleted(responses=[kind(topic.name, error_code=THROTTLED) for topic in request.message.topics])

    def grown(request: Request) -> messages.CreatePartitionsResponse:
        kind = messages.CreatePartitionsResponse.CreatePartitionsTopicResult
        return messages.CreatePartitionsResponse(results=[kind("t", THROTTLED)])

    async def test(broker: StoringBroker, admin: Admin) -> None:
        broker.responders[ApiKey.CREATE_TOPICS] = created(THROTTLED)
        broker.responders[ApiKey.DELETE_TOPICS] = deleted
        broker.responders[ApiKey.CREATE_PARTITIONS] = grown
        with pytest.raises(BrokerError, match="THROTTLING_QUOTA_EXCEEDED: create topic a"):
            await admin.create_topics("a", retry_on_quota_violation=False)
        with pytest.raises(BrokerError, match="THROTTLING_QUOTA_EXCEEDED: delete topic a"):
            await admin.delete_topics("a", retry_on_quota_violation=False)
        results = await admin.create_partitions({"t": 3}, retry_on_quota_violation=False)
        assert str(results.errors["t"]).startswith("THROTTLING_QUOTA_EXCEEDED: create partitions of t")
        assert len(broker.requests) == 3

    administering(test)


def test_topics_are_deleted_by_name_and_by_id() -> None:
    ids = [topic_id_of("b"), topic_id_of("c")]

    def deleted(request: Request) -> Deleted:
        kind = Deleted.DeletableTopicResult
        return Deleted(
            responses=[
                kind(None, ids[1], ErrorCode.UNKNOWN_TOPIC_ID, "no"),
                kind("b", ids[0]),
                kind("a", topic_id_of("a")),
            ]
        )

    async def test(broker: StoringBroker, admin: Admin) -> None:
        broker.responders[ApiKey.DELETE_TOPICS] = deleted
        text = f"^UNKNOWN_TOPIC_ID: delete topic with id {format_uuid(ids[1])}: no$"
        with pytest.raises(BrokerError, match=text) as caught:
            await admin.delete_topics("a", topic_ids=[ids[0], format_uuid(ids[1])])
        assert caught.value.results is not None
        assert [*caught.value.results.values] == ["a", ids[0]]
        (request,) = broker.asked(ApiKey.DELETE_TOPICS)
        assert isinstance(request, messages.DeleteTopicsRequest)
        assert [(each.name, each.topic_id) for each in request.topics] == [
            ("a", ZERO_UUID),
            (None, ids[0]),
            (None, ids[1]),
        ]

    administering(test)


@pytest.mark.parametrize("answers_each", [False, True])
def test_a_topic_that_is_named_and_given_by_id(answers_each: bool) -> None:
    """Apache Kafka 4 refuses both in one result; 3.9 has two results, of which one has the error, if any."""
    topic_id = topic_id_of("a")
    both = Deleted.DeletableTopicResult("a", topic_id, ErrorCode.INVALID_REQUEST, "twice")

    async def test(broker: StoringBroker, admin: Admin) -> None:
        each = [both, Deleted.DeletableTopicResult("a", topic_id)]
        broker.responders[ApiKey.DELETE_TOPICS] = lambda request: Deleted(responses=each if answers_each else [both])
        with pytest.raises(BrokerError, match=r"^INVALID_REQUEST: delete topic a: twice$") as caught:
            await admin.delete_topics("a", topic_ids=[topic_id])
        assert caught.value.results is not None
        assert [*caught.value.results.errors] == ["a", topic_id]

    administering(test)


def test_a_response_that_lacks_an_id() -> None:
    async def test(broker: StoringBroker, admin: Admin) -> None:
        broker.responders[ApiKey.DELETE_TOPICS] = lambda request: Deleted()
        text = f"DeleteTopics lacks topic with id {format_uuid(topic_id_of('a'))}"
        with pytest.raises(RemoteProtocolError, match=text):
            await admin.delete_topics(topic_ids=[topic_id_of("a")])

    administering(test)


def metadata(*topics: Any) -> MetadataResponse:
    kind = MetadataResponse.MetadataResponseBroker
    return MetadataResponse(brokers=[kind(1, "broker", 9092)], cluster_id="c", controller_id=1, topics=list(topics))


def topic(name: str, bits: int | None = None) -> Any:
    kind = MetadataResponse.MetadataResponseTopic
    partition = MetadataResponse.MetadataResponsePartition(0, 0, 1, 0, [1], [1])
    given: dict[str, Any] = {} if bits is None else {"topic_authorized_operations": bits}
    return kind(0, name, topic_id_of(name), partitions=[partition], **given)


def test_topics_are_described_by_name_and_by_id() -> None:
    """Brokers ignore the names in a request that has ids."""
    asked: list[Any] = []
    unknown = topic_id_of("gone")

    def responder(request: Request) -> MetadataResponse:
        asked.append(request.message)
        given = request.message.topics or ()
        if any(each.name is None for each in given):
            gone = MetadataResponse.MetadataResponseTopic(ErrorCode.UNKNOWN_TOPIC_ID, None, unknown)
            return metadata(*(topic("b", 1 << AclOperation.READ) for each in given if each.topic_id != unknown), gone)
        return metadata(*(topic(each.name, 0) for each in given))

    async def test(broker: StoringBroker, admin: Admin) -> None:
        broker.responders[ApiKey.METADATA] = responder
        asked.clear()
        described = await admin.describe_topics("a", topic_ids=[topic_id_of("b")], include_authorized_operations=True)
        assert {name: each.authorized_operations for name, each in described.items()} == {
            "a": frozenset(),
            "b": {AclOperation.READ},
        }
        assert {tuple(each.name for each in request.topics) for request in asked if request.topics} == {("a",), (None,)}
        assert all(request.include_topic_authorized_operations for request in asked if request.topics)
        with pytest.raises(BrokerError, match=f"^UNKNOWN_TOPIC_ID: topic with id {format_uuid(unknown)}$") as caught:
            await admin.describe_topics("a", topic_ids=[unknown])
        assert caught.value.results is not None
        assert [*caught.value.results.values] == ["a"]

    administering(test)


def test_a_broker_that_does_not_know_ids() -> None:
    async def test(broker: StoringBroker, admin: Admin) -> None:
        text = "the broker's highest version, 11, cannot name topics by id; this needs Apache Kafka 3.1 or later"
        with pytest.raises(UnsupportedVersion, match=text):
            await admin.describe_topics(topic_ids=[topic_id_of("t")])

    administering(test, {ApiKey.METADATA: 11})


def test_a_topic_that_is_being_created_is_waited_for() -> None:
    async def test(broker: StoringBroker, admin: Admin) -> None:
        kind = MetadataResponse.MetadataResponseTopic
        busy = metadata(kind(ErrorCode.LEADER_NOT_AVAILABLE, "a"), topic("b"))
        broker.script(ApiKey.METADATA, lambda request: busy, lambda request: metadata(topic("a")))
        assert list(await admin.describe_topics("a", "b")) == ["a", "b"]

    administering(test)
