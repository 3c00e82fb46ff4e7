"""JSON is written and read in the form of Apache Kafka's converters; errors in other JSON name the field.

Method: convert handwritten values. The golden vectors (`tests/conformance/test_message_vectors.py`) contain thousands
more.
"""

from __future__ import annotations

import base64
import json
import math
import re
from array import array
from typing import Any

import pytest

from kafkawire.sdk.errors import EncodeError, LocalProtocolError, UnsupportedVersion
from kafkawire.sdk.protocol.json_form import from_json, to_json
from kafkawire.sdk.protocol.messages.alter_client_quotas import AlterClientQuotasRequest
from kafkawire.sdk.protocol.messages.api_versions import ApiVersionsResponse
from kafkawire.sdk.protocol.messages.fetch import FetchRequest, FetchResponse
from kafkawire.sdk.protocol.messages.heartbeat import HeartbeatRequest
from kafkawire.sdk.protocol.messages.metadata import MetadataRequest
from kafkawire.sdk.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from kafkawire.sdk.protocol.messages.storage.quorum_state_data import QuorumStateData
from kafkawire.sdk.protocol.programs import program
from kafkawire.sdk.protocol.schema import Message

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


NOT_A_UUID = r"topics\[0\].topicId: .* is not a UUID: 22 of URL-safe base64 are expected"

WRONG: list[tuple[dict[str, Any], str]] = [
    ({"topics": None}, "allowAutoTopicCreation: the field is missing, but version 12 of MetadataRequest requires it"),
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


NO_BASE64 = ["no base64", "0DD+=", "0DD+==", "0DD", "AA", "AA=", "AA===", "AAAAA", "AAAA====", "=", "-_-_", "ÄAAA"]
NO_BASE64 += ["AA AA", "AA\nAA", "AA=\n=", "AA\n==", "AAA\\"]


@pytest.mark.parametrize("value", [*NO_BASE64, 5, True])
def test_wrong_bytes(value: Any) -> None:
    """Kafka's converter refuses each of these values, because Jackson does."""
    with pytest.raises(EncodeError, match=r"^authBytes: expected"):
        from_json("SaslAuthenticateRequest", 0, {"authBytes": value})


@pytest.mark.parametrize(
    ("text", "data"),
    [
        ("0DD+", b"\xd0\x30\xfe"),
        ("0DD+\n0DD+", b"\xd0\x30\xfe" * 2),
        ("\x01 0DD+\r\n0DA=\t", b"\xd0\x30\xfe\xd0\x30"),
        ("AB==", b"\0"),  # bits that belong to no byte
        ("AA==AA==", b"\0\0"),
        ("", b""),
    ],
)
def test_base64_that_kafka_reads(text: str, data: bytes) -> None:
    assert from_json("SaslAuthenticateRequest", 0, {"authBytes": text}) == SaslAuthenticateRequest(data)


def test_long_base64() -> None:
    data = bytes(range(256)) * 400
    text = base64.encodebytes(data).decode()
    assert from_json("SaslAuthenticateRequest", 0, {"authBytes": text}) == SaslAuthenticateRequest(data)
    with pytest.raises(EncodeError, match="expected base64"):
        from_json("SaslAuthenticateRequest", 0, {"authBytes": text + "!"})


def test_names_that_no_version_has_are_ignored() -> None:
    """Kafka ignores unknown names too; its own `quorum-state` files have one, `data_version`."""
    text = (
        """{"leaderId":1,"leaderEpoch":1,"votedId":-1,"votedDirectoryId":"AAAAAAAAAAAAAAAAAAAAAA","data_version":1}"""
    )
    assert from_json("QuorumStateData", 1, json.loads(text)) == QuorumStateData(leader_id=1, leader_epoch=1)


def test_fields_of_other_versions_are_read() -> None:
    """Kafka throws UnsupportedVersionException when the message is written or, for a structure, immediately."""
    value = {**METADATA_JSON, "includeClusterAuthorizedOperations": True}
    message = from_json("MetadataRequest", 12, value)
    assert message == MetadataRequest(topics=(TOPIC,), include_cluster_authorized_operations=True)
    with pytest.raises(UnsupportedVersion, match="include_cluster_authorized_operations: it is not in version 12"):
        program("MetadataRequest", 12).encode(message)
    fetch = to_json(FetchRequest(), 14)
    assert from_json("FetchRequest", 14, {**fetch, "clusterId": None}) == FetchRequest()
    with pytest.raises(UnsupportedVersion, match="replicaState: it is not in this version, but exists in 15-18"):
        from_json("FetchRequest", 14, {**fetch, "replicaState": {"replicaId": 5, "replicaEpoch": 6}})


def resource_type(value: Any) -> Any:
    resource = {"resourceType": value, "resourceName": "", "configs": []}
    message: Any = from_json("AlterConfigsRequest", 0, {"resources": [resource], "validateOnly": False})
    return message.resources[0].resource_type


@pytest.mark.parametrize(("number", "read"), [(-128, -128), (127, 127), (128, 0), (129, 1), (255, 127), (256, -128)])
def test_a_byte_may_be_up_to_256(number: int, read: int) -> None:
    """`MessageUtil.jsonNodeToByte` subtracts 128 from values above 127, and lets 256 wrap."""
    assert resource_type(number) == read


@pytest.mark.parametrize("number", [-129, 257, 1.0, "5", True])
def test_numbers_that_are_no_byte(number: Any) -> None:
    with pytest.raises(EncodeError, match=r"^resources\[0\].resourceType: "):
        resource_type(number)


def test_an_integer_outside_its_type() -> None:
    with pytest.raises(EncodeError, match=r"^correlationId: 2147483648 is outside int32, -2147483648 to 2147483647"):
        from_json("ResponseHeader", 0, {"correlationId": 2**31})


def test_a_float_is_no_integer() -> None:
    """Kafka's error is "expected a floating point type, but got NUMBER"."""
    value = {"entries": [{"entity": [], "ops": [{"key": "", "value": 1, "remove": False}]}], "validateOnly": False}
    with pytest.raises(EncodeError, match=r"ops\[0\].value: expected float64, got 1"):
        from_json("AlterClientQuotasRequest", 0, value)


def test_null_where_another_version_allows_it() -> None:
    """Kafka's converter prints and reads such a value, and only writing the bytes fails."""
    assert to_json(MetadataRequest(topics=None), 0) == {"topics": None}
    message = from_json("MetadataRequest", 0, {"topics": None})
    assert message == MetadataRequest(topics=None)
    with pytest.raises(EncodeError, match="topics: null is not allowed in this version"):
        program("MetadataRequest", 0).encode(message)


def test_an_unknown_message() -> None:
    with pytest.raises(LocalProtocolError, match="no message is named 'Nothing'"):
        from_json("Nothing", 0, {})


def test_the_class_says_as_much_as_the_name() -> None:
    """A message from a user's own schemas has a name that this package does not know."""
    request = from_json(SaslAuthenticateRequest, 0, {"authBytes": "+/8="})
    assert request.auth_bytes == b"\xfb\xff"
    assert request == from_json("SaslAuthenticateRequest", 0, {"authBytes": "+/8="})


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        (int, "<class 'int'> is not a message class"),
        (Message, "Message is part of messages"),
        (7, "7 is not the name of a message"),
        (None, "None is not the name of a message"),
    ],
)
def test_what_is_no_message_class(wrong: Any, text: str) -> None:
    with pytest.raises(LocalProtocolError, match=text):
        from_json(wrong, 0, {})


@pytest.mark.parametrize("message", ["SaslAuthenticateRequest", SaslAuthenticateRequest])
def test_a_version_that_does_not_exist(message: Any) -> None:
    with pytest.raises(UnsupportedVersion, match="SaslAuthenticateRequest has no version 99"):
        from_json(message, 99, {})


def test_what_a_version_cannot_carry() -> None:
    with pytest.raises(
        UnsupportedVersion, match="allowAutoTopicCreation: it is not in version 3 of MetadataRequest, but exists"
    ):
        to_json(MetadataRequest(topics=(), allow_auto_topic_creation=False), 3)
    wrong: Any = None
    with pytest.raises(EncodeError, match=r"^authBytes: null is not allowed in any version"):
        to_json(SaslAuthenticateRequest(auth_bytes=wrong), 0)


# ------------------------------------------------------------------------------------------- values of other types

QUOTA: Any = AlterClientQuotasRequest.OpData
ENTRY: Any = AlterClientQuotasRequest.EntryData
HALF = "\ud800"


@pytest.mark.parametrize(
    ("cls", "values", "text"),
    [
        (
            SaslAuthenticateRequest,
            {"auth_bytes": "x"},
            "authBytes: expected bytes or another contiguous buffer, got str",
        ),
        (MetadataRequest, {"topics": 5}, "topics: expected a sequence, got int 5"),
        (MetadataRequest, {"topics": "ab"}, "topics: expected a sequence, got str 'ab'"),
        (MetadataRequest, {"topics": [1]}, "topics[0]: expected MetadataRequest.MetadataRequestTopic, got int"),
        (MetadataRequest, {"topics": [None]}, "topics[0]: null is not allowed in this version"),
        (HeartbeatRequest, {"group_id": b"x"}, "groupId: expected a str, got bytes b'x'"),
        (HeartbeatRequest, {"group_id": HALF}, "groupId: '\\ud800' is not encodable as UTF-8: surrogates not allowed"),
        (HeartbeatRequest, {"generation_id": "x"}, "generationId: expected int32, got str 'x'"),
        (HeartbeatRequest, {"generation_id": 2**40}, "generationId: 1099511627776 is outside int32, -2147483648 to"),
        (AlterClientQuotasRequest, {"validate_only": "no"}, "validateOnly: expected bool, got str 'no'"),
        (
            AlterClientQuotasRequest,
            {"entries": [ENTRY(ops=[QUOTA(value="x")])]},
            "entries[0].ops[0].value: expected float",
        ),
    ],
)
def test_a_value_of_another_type_has_no_json(cls: Any, values: dict[str, Any], text: str) -> None:
    with pytest.raises(EncodeError, match=f"^{re.escape(text)}"):
        to_json(cls(**values), 4 if cls is MetadataRequest else 0)


def test_a_field_that_was_deleted() -> None:
    message = HeartbeatRequest()
    del message.group_id
    with pytest.raises(EncodeError, match=r"^groupId: not set$"):
        to_json(message, 0)


def test_values_that_a_message_may_hold_in_place_of_others() -> None:
    """JSON shows a value as a number if the codec writes it as that number."""
    assert json.dumps(to_json(AlterClientQuotasRequest(validate_only=1), 0)["validateOnly"]) == "true"  # type: ignore[arg-type]  # the point
    value = to_json(AlterClientQuotasRequest([ENTRY(ops=[QUOTA(value=2)])]), 0)
    assert json.dumps(value["entries"][0]["ops"][0]["value"]) == "2.0"


@pytest.mark.parametrize(
    ("field", "value", "text"),
    [
        ("groupId", HALF, "groupId: '\\ud800' is not encodable as UTF-8"),
        ("groupId", "x" * 32768, "groupId: the string has 32768 bytes, but at most 32767 are allowed"),
        ("generationId", 2**40, "generationId: 1099511627776 is outside int32"),
        ("generationId", 1.0, "generationId: expected int32, got 1.0"),
    ],
)
def test_json_that_no_message_can_hold(field: str, value: Any, text: str) -> None:
    good = to_json(HeartbeatRequest(), 0)
    with pytest.raises(EncodeError, match=f"^{re.escape(text)}"):
        from_json("HeartbeatRequest", 0, {**good, field: value})


def test_a_number_that_no_float_holds() -> None:
    value = to_json(AlterClientQuotasRequest([ENTRY(ops=[QUOTA()])]), 0)
    value["entries"][0]["ops"][0]["value"] = 10**400
    with pytest.raises(EncodeError, match=r"^entries\[0\].ops\[0\].value: expected float64, got a number of 1329 bits"):
        from_json("AlterClientQuotasRequest", 0, value)


@pytest.mark.parametrize("value", [bytearray(16), memoryview(bytes(16)), memoryview(array("i", [0] * 16)), "x" * 16])
def test_a_uuid_that_the_codec_refuses(value: Any) -> None:
    request = MetadataRequest(topics=[MetadataRequest.MetadataRequestTopic(topic_id=value, name="t")])
    with pytest.raises(EncodeError, match=r"^topics\[0\].topicId: expected a UUID of 16 bytes, got "):
        to_json(request, 12)


@pytest.mark.parametrize("value", [10**5000, [10**5000], "x" * 5_000_000 + "\ud800"], ids=["number", "list", "text"])
def test_any_value_is_shown_in_few_characters(value: Any) -> None:
    given = {"groupId": value, "generationId": 1, "memberId": ""}
    for call in (lambda: from_json("HeartbeatRequest", 0, given), lambda: to_json(HeartbeatRequest(value), 0)):
        with pytest.raises(EncodeError, match=r"^groupId: ") as caught:
            call()
        assert len(str(caught.value)) < 200
