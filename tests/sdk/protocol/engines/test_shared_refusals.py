"""Errors are reported exactly where they occur, and no error is reported in sound input.

Method: check hand-built damaged encodings and wrong values. Cut and damage values around the sizes at which a length
takes one more byte, at every border between two parts, and compare with the construct engine's path, offset and reason.
`test_codec.py` does the same with small values of every message.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from kafkawire.sdk.errors import DecodeError, EncodeError, UnsupportedVersion
from kafkawire.sdk.protocol.engines import shared_refusals
from kafkawire.sdk.protocol.engines.construct import trace
from kafkawire.sdk.protocol.engines.selection import native
from kafkawire.sdk.protocol.engines.shared_refusals import explain_decoding, explain_encoding
from kafkawire.sdk.protocol.layout import layout
from kafkawire.sdk.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from kafkawire.sdk.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest
from kafkawire.sdk.protocol.messages.cluster_metadata.partition_change_record import PartitionChangeRecord
from kafkawire.sdk.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from kafkawire.sdk.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse
from kafkawire.sdk.protocol.messages.coordinator.consumer_offsets.consumer_group_member_metadata import (
    ConsumerGroupMemberMetadataValue,
)
from kafkawire.sdk.protocol.messages.fetch import FetchRequest, FetchResponse
from kafkawire.sdk.protocol.messages.headers import RequestHeader, ResponseHeader
from kafkawire.sdk.protocol.messages.metadata import MetadataRequest, MetadataResponse
from kafkawire.sdk.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from kafkawire.sdk.protocol.messages.vote import VoteResponse
from kafkawire.sdk.protocol.primitives import reject_null
from kafkawire.sdk.protocol.programs import program
from kafkawire.sdk.protocol.schema import Message
from tests.thorough import sampled


@pytest.mark.parametrize(
    ("cls", "version", "data", "error"),
    [
        (ResponseHeader, 0, "000000", "correlation_id at byte 1: 4 bytes are needed, but 3 are left"),
        (RequestHeader, 1, "0000 0000 00", "correlation_id at byte 5: 4 bytes are needed, but 1 are left"),
        (RequestHeader, 1, "0000 0000 00000000 00", "client_id at byte 9: 2 bytes are needed, but 1 are left"),
        (RequestHeader, 1, "0000 0000 00000000 0005 61", "client_id at byte 9: 5 bytes are needed, but 1 are left"),
        (ResponseHeader, 1, "00000000", "unknown_tags at byte 5: 1 bytes are needed, but 0 are left"),
        (ResponseHeader, 1, "00000000 01 05 02 61", "unknown_tags at byte 6: 2 bytes are needed, but 1 are left"),
        (
            ResponseHeader,
            1,
            "00000000 ffffffffffff",
            "unknown_tags at byte 5: the unsigned varint has more than 5 bytes",
        ),
        (MetadataRequest, 1, "7fffffff", "topics at byte 1: the count is 2147483647, but 0 bytes are left"),
        (
            MetadataRequest,
            12,
            "8080808008",
            "topics at byte 1: the count is 2147483647, but 0 bytes are left",
        ),
        (
            MetadataRequest,
            12,
            "8080808004",
            "topics at byte 1: the count is 1073741823, but 0 bytes are left",
        ),
        (ResponseHeader, 1, "00000000 01 05 ffffffff0f", "unknown_tags at byte 6: the tagged field has -1 bytes"),
        (
            ResponseHeader,
            1,
            "00000000 01 05 8080808008",
            "unknown_tags at byte 6: the tagged field has -2147483648 bytes",
        ),
        (
            VoteResponse,
            0,
            "0000 01 01 00 ff01",
            "unknown_tags at byte 5: tag 0 is not valid in this version: it belongs to a field of other versions",
        ),
        (MetadataRequest, 12, "8180808070", "allow_auto_topic_creation at byte 6: 1 bytes are needed, but 0 are left"),
        (MetadataRequest, 12, "8180808008", "allow_auto_topic_creation at byte 6: 1 bytes are needed, but 0 are left"),
        (MetadataRequest, 1, "00000002 0000 0001", r"topics[1].name at byte 7: 1 bytes are needed, but 0 are left"),
        (
            MetadataRequest,
            12,
            "03" + "00" * 18 + "00" * 3,
            r"topics[1].topic_id at byte 20: "
            r"16 bytes are needed, but 3 are left",
        ),
        (
            MetadataRequest,
            4,
            "00000001 ffff",
            f"topics[0].name at byte 5: {reject_null(-1)}",
        ),
    ],
)
def test_damaged_bytes(cls: Any, version: int, data: str, error: str) -> None:
    found = explain_decoding(layout(cls, version), b"\0" + bytes.fromhex(data), 1)
    assert str(found) == error


def sized(size: int) -> Iterator[tuple[Message, int]]:
    """Yield messages with a value of a given size, of each kind that has a length, with each encoding of the length."""
    text, content = "x" * size, b"x" * size
    for version in (0, 3):
        yield AddOffsetsToTxnRequest(transactional_id=text), version
    for version in (0, 2):
        yield SaslAuthenticateRequest(auth_bytes=content), version
    partition = MetadataResponse.MetadataResponsePartition(replica_nodes=(1,) * size)
    topic = MetadataResponse.MetadataResponseTopic(name="t", partitions=[partition, partition])
    for version in (0, 12):
        yield MetadataResponse(topics=[topic]), version
    yield ConsumerGroupDescribeRequest(group_ids=("g",) * size), 0
    yield BrokerHeartbeatRequest(offline_log_dirs=(bytes(16),) * (size // 16)), 1
    yield ResponseHeader(1, unknown_tags=((size, content), (2**14 + size, b""), (2**28 + size, b"x"))), 1
    for leader in (FetchResponse.LeaderIdAndEpoch(), FetchResponse.LeaderIdAndEpoch(1, 2)):
        fetched = FetchResponse.PartitionData(records=content, current_leader=leader)
        yield FetchResponse(responses=[FetchResponse.FetchableTopicResponse(topic="t", partitions=[fetched])]), 12
    assigned = ConsumerGroupHeartbeatResponse.Assignment()
    for assignment in (None, assigned):
        yield ConsumerGroupHeartbeatResponse(member_id=text, assignment=assignment), 0
    metadata = ConsumerGroupMemberMetadataValue.ClassicMemberMetadata(session_timeout_ms=size)
    for known in (None, metadata):
        yield ConsumerGroupMemberMetadataValue(classic_member_metadata=known), 0

    change = PartitionChangeRecord(isr=(1,) * size, leader=2, leader_recovery_state=1, unknown_tags=((9, b"x"),))
    yield change, 0


def refusal(message: Message, version: int, engine: str, data: bytes) -> str:
    try:
        program(type(message), version, engine).decode(data, 1)
    except DecodeError as error:
        return str(error)
    return str(None)


@pytest.mark.parametrize("size", sampled([1, 0, 127, 128, 300], 3))
def test_the_same_is_wrong_as_the_construct_engine_says(size: int) -> None:
    for message, version in sized(size):
        one = layout(type(message), version)
        data = b"?" + program(type(message), version, "python").encode(message)
        spans, _ = trace(one, data, 1)
        borders = {span.offset + near for span in [*spans[:8], *spans[-8:]] for near in (0, 1, 2, 3, span.length - 1)}
        damaged = [data, data + b"more"]
        for place in sorted(place for place in borders if place < len(data)):
            damaged.append(data[:place])
            damaged += [data[:place] + bytes([wrong]) + data[place + 1 :] for wrong in (0x00, 0x02, 0x7F, 0x80, 0xFF)]
        found = [str(explain_decoding(one, each, 1)) for each in damaged]
        assert found == [refusal(message, version, "construct", each) for each in damaged]
        assert found[:2] == ["None", "None"]
        if native is not None:  # the extension explains damaged bytes itself
            assert found == [refusal(message, version, "native", each) for each in damaged]


@pytest.mark.parametrize("version", [0, 3])
def test_the_longest_text(version: int) -> None:
    one = layout(AddOffsetsToTxnRequest, version)
    data = program(AddOffsetsToTxnRequest, version).encode(AddOffsetsToTxnRequest(transactional_id="x" * 32767))
    assert explain_decoding(one, data, 0) is None


@pytest.mark.parametrize(
    ("version", "length", "error"),
    [
        (0, "8000", "null is not allowed in this version (length -32768)"),
        (0, "ffff", "null is not allowed in this version (length -1)"),
        (3, "818002", "the string has 32768 bytes, but at most 32767 are allowed"),
        (3, "00", "null is not allowed in this version (length -1)"),
    ],
)
def test_a_text_of_no_length_that_there_is(version: int, length: str, error: str) -> None:
    """The length is refused, however many bytes follow."""
    data = bytes.fromhex(length) + bytes(70_000)
    found = explain_decoding(layout(AddOffsetsToTxnRequest, version), data, 0)
    assert str(found) == f"transactional_id at byte 0: {error}"


def test_nothing_is_wrong_with_a_message() -> None:
    broker = MetadataResponse.MetadataResponseBroker(1, "host", 9092)
    topic = MetadataResponse.MetadataResponseTopic(
        name="t", partitions=[MetadataResponse.MetadataResponsePartition(replica_nodes=(1, 2, 3))]
    )
    response = MetadataResponse(brokers=[broker] * 3, topics=[topic] * 2)
    for version in MetadataResponse.SCHEMA.known_versions.numbers():
        response.unknown_tags = ((1, b"kept"),) if version >= 9 else ()
        data = program(MetadataResponse, version).encode(response)
        assert explain_decoding(layout(MetadataResponse, version), data, 0) is None
        assert explain_decoding(layout(MetadataResponse, version), data[:-1], 0) is not None
        with pytest.raises(EncodeError, match=f"^MetadataResponse version {version}: a value changed"):
            explain_encoding(layout(MetadataResponse, version), response, None, None)


def test_wrong_values() -> None:
    topics: Any = [MetadataRequest.MetadataRequestTopic(name="t"), MetadataRequest.MetadataRequestTopic(name=5)]  # type: ignore[arg-type]  # the point
    with pytest.raises(EncodeError, match=r"^topics\[1\].name: expected a str, got int 5"):
        explain_encoding(layout(MetadataRequest, 4), MetadataRequest(topics=topics), None, None)
    with pytest.raises(
        UnsupportedVersion, match=r"^allow_auto_topic_creation: it is not in version 3 of MetadataRequest"
    ):
        explain_encoding(layout(MetadataRequest, 3), MetadataRequest(allow_auto_topic_creation=False), None, None)
    with pytest.raises(EncodeError, match=r"^unknown_tags: tag 0 belongs to a field of this version"):
        explain_encoding(layout(FetchRequest, 12), FetchRequest(unknown_tags=((0, b""),)), None, None)


def test_an_array_with_more_elements_than_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit is lowered, because no test has enough memory for 2**31 elements."""
    monkeypatch.setattr(shared_refusals, "MAX_LENGTH", 2)
    topics = [MetadataRequest.MetadataRequestTopic(name=name) for name in "abc"]
    with pytest.raises(EncodeError, match=r"^topics: the length is 3, but at most 2 is allowed$"):
        explain_encoding(layout(MetadataRequest, 4), MetadataRequest(topics=topics), None, None)
    with pytest.raises(EncodeError, match="a value changed"):
        explain_encoding(layout(MetadataRequest, 4), MetadataRequest(topics=topics[1:]), None, None)


def test_what_was_met_is_the_cause() -> None:
    met = ValueError("met")
    with pytest.raises(EncodeError, match="a value changed") as caught:
        explain_encoding(layout(ResponseHeader, 0), ResponseHeader(), None, met)
    assert caught.value.__cause__ is met


@pytest.mark.parametrize("error", [MemoryError("full"), KeyboardInterrupt("now"), SystemExit("now")])
def test_what_is_no_matter_of_values_passes(error: BaseException) -> None:
    with pytest.raises(type(error)) as caught:
        explain_encoding(layout(ResponseHeader, 0), ResponseHeader("x"), None, error)  # type: ignore[arg-type]  # the point
    assert caught.value is error
