"""Control records and records in internal topics are shown in the wording of DumpLogSegments.

Method: show a record of each kind, sound and damaged, as text and as JSON.
"""

from __future__ import annotations

import json

import pytest

from kafkawire.commands.inspection.dumping.internal import ContentDecoder
from kafkawire.sdk.protocol.messages.coordinator.consumer_offsets.group_metadata import (
    GroupMetadataKey,
    GroupMetadataValue,
)
from kafkawire.sdk.protocol.messages.coordinator.consumer_offsets.share_group_partition_metadata import (
    ShareGroupPartitionMetadataKey,
)
from kafkawire.sdk.protocol.messages.groups.consumer_protocol_subscription import ConsumerProtocolSubscription
from kafkawire.sdk.protocol.programs import program
from kafkawire.sdk.records.control import end_transaction_marker

OFFSETS = "__consumer_offsets"
SUBSCRIPTION = b"\0\0" + program(ConsumerProtocolSubscription, 0).encode(ConsumerProtocolSubscription(["t"]))


def group(protocol_type: str, subscription: bytes) -> tuple[bytes, bytes]:
    """Return the stored form of a classic group with one member."""
    member = GroupMetadataValue.MemberMetadata(member_id="m", subscription=subscription, assignment=b"")
    value = GroupMetadataValue(
        protocol_type=protocol_type, generation=1, protocol="range", leader="m", members=[member]
    )
    key = b"\0\x02" + program(GroupMetadataKey, 0).encode(GroupMetadataKey(group="g"))
    return key, b"\0\x03" + program(GroupMetadataValue, 3).encode(value)


@pytest.mark.parametrize(
    ("protocol_type", "subscription", "shown"),
    [
        ("consumer", SUBSCRIPTION, {"topics": ["t"], "userData": None}),
        ("connect", SUBSCRIPTION, "AAAAAAABAAF0/////w=="),
        ("consumer", b"\0\0\0", "AAAA"),
        ("consumer", b"\x7f\xff", "f/8="),
        ("consumer", b"", ""),
    ],
)
def test_what_members_of_consumer_groups_say(protocol_type: str, subscription: bytes, shown: object) -> None:
    key, value = group(protocol_type, subscription)
    text, is_whole = ContentDecoder(OFFSETS, False).record(0, key, value)
    assert is_whole
    assert text.startswith(b' key: {"type":"2","data":{"group":"g"}} payload: {"version":"3","data":{"protocolType":')
    found = json.loads(text.split(b"payload: ")[1])["data"]["members"][0]
    assert (found["subscription"], found["assignment"]) == (shown, "")
    text, _ = ContentDecoder(OFFSETS, True).record(0, key, value)
    decoded = json.loads(b"{" + text[1:] + b"}")["decoded"]
    assert decoded["value"]["members"][0]["subscription"] == shown


def test_a_type_that_was_removed() -> None:
    """A segment from an older broker may still contain such a record."""
    key = b"\0\x09" + program(ShareGroupPartitionMetadataKey, 0).encode(ShareGroupPartitionMetadataKey("g"))
    assert ContentDecoder(OFFSETS, False).record(0, key, None) == (
        b' key: {"type":"9","data":{"groupId":"g"}} payload: <DELETE>',
        True,
    )
    text, is_whole = ContentDecoder(OFFSETS, True).record(0, key, None)
    assert (json.loads(b"{" + text[1:] + b"}")["decoded"]["key"], is_whole) == ({"groupId": "g"}, True)


def test_metadata() -> None:
    decoder = ContentDecoder("__cluster_metadata", False)
    assert decoder.record(0, None, bytes.fromhex("01140000")) == (
        b' payload: {"type":"NO_OP_RECORD","version":0,"data":{}}',
        True,
    )
    assert decoder.record(0, None, None) == (b"", True)


def test_what_cannot_be_decoded() -> None:
    decoder = ContentDecoder("__cluster_metadata", False)
    text, is_whole = decoder.record(5, None, b"\x01\xff\x7f\0")
    assert text.startswith(b" unknown: (value at byte 0: __cluster_metadata: record type 16383 (version 0) is unknown")
    assert not is_whole
    assert decoder.problems == []
    text, is_whole = decoder.record(6, None, b"\x01")
    assert (text, is_whole) == (b" undecoded: (type at byte 1: the number ends early)", False)
    assert decoder.problems == ["offset 6: type at byte 1: the number ends early"]
    text, _ = ContentDecoder("__cluster_metadata", True).record(6, None, b"\x01")
    assert text == b',"undecoded":"type at byte 1: the number ends early"'


def test_control_records() -> None:
    decoder = ContentDecoder("t", False)
    assert decoder.control(0, *end_transaction_marker(False, 9)) == (b" endTxnMarker: ABORT coordinatorEpoch: 9", True)
    text, _ = decoder.control(0, b"\0\0\0\x02", bytes.fromhex("0000 00000003 01 01 00"))
    assert text == b' LeaderChange: {"version":0,"leaderId":3,"voters":[],"grantingVoters":[]}'
    assert decoder.control(0, b"\0\0\0\x05", bytes.fromhex("0000 0001 00"))[0].startswith(b" KRaftVersion {")
    assert decoder.control(0, b"\0\0\0\x63", b"new") == (b" controlType: UNKNOWN(99)", False)
    assert decoder.problems == []
    text, is_whole = decoder.control(4, b"\0", b"")
    assert text.startswith(b" undecoded: (key at byte 0: the key of a control record must have")
    assert (is_whole, len(decoder.problems)) == (False, 1)


def test_control_records_as_json() -> None:
    decoder = ContentDecoder("t", True)
    text, is_whole = decoder.control(0, b"\0\0\0\x63", b"new")
    assert json.loads(b"{" + text[1:] + b"}") == {
        "control": {"type": "UNKNOWN", "number": 99, "version": 0, "body": None}
    }
    assert not is_whole


def test_text_of_a_record_cannot_move_the_cursor() -> None:
    key = b"\0\x02" + program(GroupMetadataKey, 0).encode(GroupMetadataKey(group="\x1b[2J\x85€"))
    text, _ = ContentDecoder(OFFSETS, False).record(0, key, None)
    assert b'"\\u001b[2J\\u0085\\u20ac"' in text
