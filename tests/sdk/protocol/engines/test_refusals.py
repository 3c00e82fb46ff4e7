"""What is wrong is found where it is, and nothing is found where nothing is wrong.

Method: damaged encodings and wrong values by hand. `test_codec.py` compares path, offset and reason with the construct
engine for every message, at every cut and with flipped bytes.
"""

from __future__ import annotations

from typing import Any

import pytest

from kafkawire.sdk.errors import EncodeError, UnsupportedVersion
from kafkawire.sdk.protocol.engines.refusals import explain_decoding, explain_encoding
from kafkawire.sdk.protocol.layout import layout
from kafkawire.sdk.protocol.messages.fetch import FetchRequest
from kafkawire.sdk.protocol.messages.headers import RequestHeader, ResponseHeader
from kafkawire.sdk.protocol.messages.metadata import MetadataRequest, MetadataResponse
from kafkawire.sdk.protocol.primitives import reject_null
from kafkawire.sdk.protocol.programs import program


@pytest.mark.parametrize(
    ("cls", "version", "data", "error"),
    [
        (ResponseHeader, 0, "000000", "correlation_id at byte 1: 4 bytes needed, 3 left"),
        (RequestHeader, 1, "0000 0000 00", "correlation_id at byte 5: 4 bytes needed, 1 left"),
        (RequestHeader, 1, "0000 0000 00000000 00", "client_id at byte 9: 2 bytes needed, 1 left"),
        (RequestHeader, 1, "0000 0000 00000000 0005 61", "client_id at byte 9: 5 bytes needed, 1 left"),
        (ResponseHeader, 1, "00000000", "unknown_tags at byte 5: 1 bytes needed, 0 left"),
        (ResponseHeader, 1, "00000000 01 05 02 61", "unknown_tags at byte 6: 2 bytes needed, 1 left"),
        (ResponseHeader, 1, "00000000 ffffffffffff", "unknown_tags at byte 5: unsigned varint of more than 5 bytes"),
        (MetadataRequest, 1, "7fffffff", "topics at byte 1: 2147483647 elements announced, 0 bytes left"),
        (MetadataRequest, 12, "8080808008", "topics at byte 1: 2147483647 elements announced, 0 bytes left"),
        (MetadataRequest, 12, "8080808004", "topics at byte 1: 1073741823 elements announced, 0 bytes left"),
        (ResponseHeader, 1, "00000000 01 05 ffffffff0f", "unknown_tags at byte 6: tagged field of -1 bytes"),
        (MetadataRequest, 12, "8180808008", "allow_auto_topic_creation at byte 6: 1 bytes needed, 0 left"),
        (MetadataRequest, 1, "00000002 0000 0001", r"topics[1].name at byte 7: 1 bytes needed, 0 left"),
        (MetadataRequest, 12, "03" + "00" * 18 + "00" * 3, r"topics[1].topic_id at byte 20: 16 bytes needed, 3 left"),
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


def test_nothing_is_wrong_with_a_message() -> None:
    broker = MetadataResponse.MetadataResponseBroker(1, "host", 9092)
    topic = MetadataResponse.MetadataResponseTopic(
        name="t", partitions=[MetadataResponse.MetadataResponsePartition(replica_nodes=(1, 2, 3))]
    )
    response = MetadataResponse(brokers=[broker] * 3, topics=[topic] * 2)
    for version in MetadataResponse.SCHEMA.versions.numbers():
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
    with pytest.raises(UnsupportedVersion, match=r"^allow_auto_topic_creation: not in version 3 of MetadataRequest"):
        explain_encoding(layout(MetadataRequest, 3), MetadataRequest(allow_auto_topic_creation=False), None, None)
    with pytest.raises(EncodeError, match=r"^unknown_tags: tag 0 belongs to a field of this version"):
        explain_encoding(layout(FetchRequest, 12), FetchRequest(unknown_tags=((0, b""),)), None, None)


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
