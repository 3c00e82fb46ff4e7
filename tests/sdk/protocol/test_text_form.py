"""The text of a message is one short line, whatever the message holds, and shows no bytes.

Method: values of every kind, at and beyond each limit; messages of megabytes.
"""

from __future__ import annotations

from typing import Any

import pytest

from kafkawire.sdk.protocol.messages.fetch import FetchResponse
from kafkawire.sdk.protocol.messages.heartbeat import HeartbeatRequest
from kafkawire.sdk.protocol.messages.metadata import MetadataRequest
from kafkawire.sdk.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.protocol.text_form import TEXT_CHARACTERS_MAX, to_text, value_text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "None"),
        (True, "True"),
        (-7, "-7"),
        (2**64 - 1, "18446744073709551615"),
        (2**64, "<int>"),
        (1.5, "1.5"),
        (ErrorCode.NONE, "0"),
        ("it's\n", '"it\'s\\n"'),
        ("x" * 61, f"'{'x' * 60}'…"),
        (b"secret", "<6 bytes>"),
        (memoryview(bytes(8)).cast("i"), "<8 bytes>"),
        ([1, 2, 3], "[1, 2, 3]"),
        ((1, 2, 3, 4, 5), "[1, 2, 3, … 2 more]"),
        (object(), "<object>"),
    ],
)
def test_values(value: Any, text: str) -> None:
    assert value_text(value) == text


def test_fields_with_their_default_are_left_out() -> None:
    assert to_text(HeartbeatRequest("g", 7)) == "HeartbeatRequest(group_id='g', generation_id=7)"
    assert to_text(HeartbeatRequest()) == "HeartbeatRequest()"


def test_structures_and_unknown_tags() -> None:
    request = MetadataRequest([MetadataRequest.MetadataRequestTopic(name="t")], unknown_tags=((9, b"x"),))
    text = to_text(request)
    assert text == "MetadataRequest(topics=[MetadataRequest.MetadataRequestTopic(name='t')], 1 unknown tags)"


def test_passwords_are_not_shown() -> None:
    assert to_text(SaslAuthenticateRequest(b"\0user\0pass")) == "SaslAuthenticateRequest(auth_bytes=<10 bytes>)"


def test_the_length_is_bounded() -> None:
    partitions = [FetchResponse.PartitionData(number, records=bytes(1_000_000)) for number in range(1_000)]
    topics = [FetchResponse.FetchableTopicResponse("t" * 200, partitions=partitions)] * 100
    text = to_text(FetchResponse(responses=topics))
    assert len(text) == TEXT_CHARACTERS_MAX + 1
    assert text.endswith("…")
    assert to_text(FetchResponse(responses=topics), 10) == "FetchRespo…"
