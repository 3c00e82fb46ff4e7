"""JSON is the form that Apache Kafka's converters print, in both directions; what is not of that form is refused by
field.

Method: values by hand. The golden vectors (`tests/conformance/test_message_vectors.py`) hold thousands more.
"""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from kafkawire.sdk.errors import EncodeError, LocalProtocolError, UnsupportedVersion
from kafkawire.sdk.protocol.json_form import from_json, to_json
from kafkawire.sdk.protocol.messages.alter_client_quotas import AlterClientQuotasRequest
from kafkawire.sdk.protocol.messages.api_versions import ApiVersionsResponse
from kafkawire.sdk.protocol.messages.fetch import FetchResponse
from kafkawire.sdk.protocol.messages.metadata import MetadataRequest
from kafkawire.sdk.protocol.messages.sasl_authenticate import SaslAuthenticateRequest

TOPIC = MetadataRequest.MetadataRequestTopic(topic_id=bytes(15) + b"\xff", name=None)
METADATA = MetadataRequest(topics=(TOPIC,))
METADATA_JSON = {
    "topics": [{"topicId": "AAAAAAAAAAAAAAAAAAAA_w", "name": None}],
    "allowAutoTopicCreation": True,
    "includeTopicAuthorizedOperations": False,
}


def test_there_and_back() -> None:
    assert to_json(METADATA, 12) == METADATA_JSON
    assert from_json("MetadataRequest", 12, json.loads(json.dumps(METADATA_JSON))) == METADATA


def test_bytes_are_base64() -> None:
    assert to_json(SaslAuthenticateRequest(auth_bytes=b"\xfb\xff"), 0) == {"authBytes": "+/8="}
    assert from_json("SaslAuthenticateRequest", 0, {"authBytes": "+/8="}) == SaslAuthenticateRequest(b"\xfb\xff")


def test_a_tagged_field_is_there_when_it_is_not_default() -> None:
    value = {"errorCode": 0, "apiKeys": [], "throttleTimeMs": 0}
    assert to_json(ApiVersionsResponse(), 3) == value
    assert to_json(ApiVersionsResponse(finalized_features_epoch=5), 3) == {**value, "finalizedFeaturesEpoch": 5}
    assert from_json("ApiVersionsResponse", 3, value) == ApiVersionsResponse()


def test_a_tagged_structure_is_compared_as_a_whole() -> None:
    partition = FetchResponse.PartitionData(current_leader=FetchResponse.LeaderIdAndEpoch(leader_id=1))
    response = FetchResponse(responses=(FetchResponse.FetchableTopicResponse(partitions=(partition,)),))
    (topic,) = to_json(response, 12)["responses"]
    assert topic["partitions"][0]["currentLeader"] == {"leaderId": 1, "leaderEpoch": -1}
    assert "snapshotId" not in topic["partitions"][0]


@pytest.mark.parametrize(("number", "text"), [(float("inf"), "Infinity"), (float("-inf"), "-Infinity"), (1.5, 1.5)])
def test_numbers_that_json_does_not_have(number: float, text: Any) -> None:
    operation = AlterClientQuotasRequest.OpData(key="k", value=number)
    request = AlterClientQuotasRequest(entries=(AlterClientQuotasRequest.EntryData(ops=(operation,)),))
    value = to_json(request, 0)
    assert value["entries"][0]["ops"][0]["value"] == text
    assert from_json("AlterClientQuotasRequest", 0, value) == request


def test_not_a_number() -> None:
    value = {"entries": [{"entity": [], "ops": [{"key": "", "value": "NaN", "remove": False}]}], "validateOnly": False}
    request = from_json("AlterClientQuotasRequest", 0, value)
    assert isinstance(request, AlterClientQuotasRequest)
    assert math.isnan(request.entries[0].ops[0].value)
    assert to_json(request, 0) == value


NOT_A_UUID = r"topics\[0\].topicId: .* is not a UUID: 22 of URL-safe base64 expected"

WRONG: list[tuple[dict[str, Any], str]] = [
    ({"topics": None}, "allowAutoTopicCreation: missing, version 12 of MetadataRequest has it"),
    ({**METADATA_JSON, "more": 1}, "more: version 12 of MetadataRequest has no such field"),
    ({**METADATA_JSON, "topics": "x"}, "topics: expected an array, got 'x'"),
    ({**METADATA_JSON, "topics": [5]}, r"topics\[0\]: expected an object, got 5"),
    ({**METADATA_JSON, "topics": [{"topicId": "AA", "name": ""}]}, NOT_A_UUID),
    ({**METADATA_JSON, "topics": [{"topicId": "?" * 22, "name": ""}]}, NOT_A_UUID),
    ({**METADATA_JSON, "topics": [{"topicId": 5, "name": ""}]}, r"topics\[0\].topicId: expected uuid, got 5"),
    ({**METADATA_JSON, "allowAutoTopicCreation": 1}, "allowAutoTopicCreation: expected bool, got 1"),
    ({**METADATA_JSON, "allowAutoTopicCreation": None}, "allowAutoTopicCreation: null is not allowed"),
]


@pytest.mark.parametrize(("value", "text"), WRONG)
def test_wrong_json(value: dict[str, Any], text: str) -> None:
    with pytest.raises(EncodeError, match=f"^{text}"):
        from_json("MetadataRequest", 12, value)


@pytest.mark.parametrize("value", ["no base64", 5, True])
def test_wrong_bytes(value: Any) -> None:
    with pytest.raises(EncodeError, match=r"^authBytes: expected"):
        from_json("SaslAuthenticateRequest", 0, {"authBytes": value})


def test_an_unknown_message() -> None:
    with pytest.raises(LocalProtocolError, match="no message is named 'Nothing'"):
        from_json("Nothing", 0, {})


def test_what_a_version_cannot_carry() -> None:
    with pytest.raises(UnsupportedVersion, match="allowAutoTopicCreation: not in version 3 of MetadataRequest, exists"):
        to_json(MetadataRequest(topics=(), allow_auto_topic_creation=False), 3)
    with pytest.raises(EncodeError, match="topics: null is not allowed"):
        to_json(MetadataRequest(topics=None), 0)
