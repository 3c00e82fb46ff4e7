"""A tag is known, unknown or invalid in a version exactly as in Apache Kafka, on every engine.

Method: decode bytes that Apache Kafka 4.3.0's own classes refused or accepted; for each refusal, compare the path,
offset and reason.
"""

from __future__ import annotations

from typing import Any

import pytest

from kafkawire.sdk.errors import DecodeError, EncodeError, UnsupportedVersion
from kafkawire.sdk.protocol.messages.metadata import MetadataRequest
from kafkawire.sdk.protocol.programs import message_class, program
from tests.engines import AVAILABLE

FETCH = "ffffffff00000000000000007fffffff0000000000ffffffff010101"
PRODUCED = "020274020000000000000000000000000000ffffffffffffffffffffffffffffffff0100"

#: Kafka refuses each with a text like "Tag 0 is not valid for version 0". The values are the tag and the offset of its
#: field.
OF_OTHER_VERSIONS = [
    ("BrokerHeartbeatRequest", 0, "00008000ffffffffffffffff0000000000000000000001000100", "unknown_tags", 0, 23),
    ("BrokerHeartbeatRequest", 1, "00008000ffffffffffffffff0000000000000000000001010100", "unknown_tags", 1, 23),
    ("FetchRequest", 14, FETCH + "01010200ff", "unknown_tags", 1, 29),
    # A size beyond the end makes no difference: Kafka checks the tag first.
    ("VoteResponse", 0, "0000010100ff01", "unknown_tags", 0, 4),
    ("ProduceResponse", 9, PRODUCED + "01000100", "responses[0].partition_responses[0].unknown_tags", 0, 37),
]


@pytest.mark.parametrize("engine", AVAILABLE)
@pytest.mark.parametrize(("name", "version", "data", "path", "tag", "offset"), OF_OTHER_VERSIONS)
def test_a_tag_of_other_versions(
    engine: str, name: str, version: int, data: str, path: str, tag: int, offset: int
) -> None:
    with pytest.raises(DecodeError) as caught:
        program(name, version, engine).decode(bytes.fromhex(data))
    assert (caught.value.path, caught.value.offset) == (path, offset)
    assert caught.value.reason == f"tag {tag} is not valid in this version: it belongs to a field of other versions"


@pytest.mark.parametrize("engine", AVAILABLE)
def test_a_tag_of_no_version(engine: str) -> None:
    """Kafka keeps such a field and writes it again."""
    requests = program("FetchRequest", 14, engine)
    data = bytes.fromhex(FETCH + "01090200ff")
    message: Any = requests.decode(data)[0]
    assert message.unknown_tags == ((9, b"\0\xff"),)
    assert requests.encode(message) == data


@pytest.mark.parametrize("engine", AVAILABLE)
@pytest.mark.parametrize(("name", "version", "tag"), [("FetchRequest", 14, 1), ("FetchResponse", 12, 0)])
def test_a_tag_of_other_versions_is_not_written(engine: str, name: str, version: int, tag: int) -> None:
    """Kafka's classes write such a field, but then cannot read the bytes that they have written."""
    cls: Any = message_class(name)
    with pytest.raises(EncodeError, match=f"^unknown_tags: tag {tag} is not valid in this version"):
        program(name, version, engine).encode(cls(unknown_tags=((tag, b""),)))


TOPIC = MetadataRequest.MetadataRequestTopic


@pytest.mark.parametrize("engine", AVAILABLE)
@pytest.mark.parametrize(
    ("message", "path"),
    [
        (MetadataRequest(unknown_tags=((7, b"x"),)), "unknown_tags"),
        (MetadataRequest(topics=[TOPIC(name="t", unknown_tags=((7, b"x"),))]), r"topics\[0\].unknown_tags"),
        (MetadataRequest(unknown_tags=None), "unknown_tags"),  # type: ignore[arg-type]  # a wrong value is the point
    ],
)
def test_a_version_without_tagged_fields(engine: str, message: MetadataRequest, path: str) -> None:
    """Kafka throws an UnsupportedVersionException: "Tagged fields were set, but version 8 … does not support them"."""
    with pytest.raises(UnsupportedVersion, match=f"^{path}: version 8 has no tagged fields"):
        program(MetadataRequest, 8, engine).encode(message)
