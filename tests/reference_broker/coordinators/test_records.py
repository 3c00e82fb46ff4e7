"""Keys and values have Kafka's prefixes; damage and unknown versions are errors, but unknown record types are not.

Method: decode handwritten bytes, and a record cut off at every position.
"""

from __future__ import annotations

import pytest

from kafkawire.reference_broker.coordinators.records import decode, encode, types_by_key
from kafkawire.reference_broker.coordinators.shard import CoordinatorRecord
from kafkawire.sdk.errors import DecodeError
from kafkawire.sdk.protocol.messages.coordinator.consumer_offsets.group_metadata import (
    GroupMetadataKey,
    GroupMetadataValue,
)

TYPES = types_by_key((GroupMetadataKey, GroupMetadataValue))
KEY = b"\x00\x02\x00\x01g"


def test_bytes():
    value = GroupMetadataValue("consumer", 1, None, None)
    key, stored = encode(CoordinatorRecord(GroupMetadataKey("g"), value, 0))
    assert key == KEY
    assert stored == b"\x00\x00\x00\x08consumer\x00\x00\x00\x01\xff\xff\xff\xff\x00\x00\x00\x00"
    again = decode(TYPES, key, stored)
    assert again is not None
    assert again.value_version == 0
    assert isinstance(again.key, GroupMetadataKey)
    assert again.key.group == "g"
    assert isinstance(again.value, GroupMetadataValue)
    assert again.value.generation == 1


def test_tombstone():
    assert encode(CoordinatorRecord(GroupMetadataKey("g"), None)) == (KEY, None)
    again = decode(TYPES, KEY, None)
    assert again is not None
    assert again.value is None


def test_unknown_type():
    assert decode(TYPES, b"\x00\x63", b"") is None


@pytest.mark.parametrize("value", [b"", b"\x00", b"\x00\x63", b"\x00\x00\x00"])
def test_damaged_value(value):
    with pytest.raises(DecodeError):
        decode(TYPES, KEY, value)


@pytest.mark.parametrize("size", range(len(KEY)))
def test_damaged_key(size):
    with pytest.raises(DecodeError):
        decode(TYPES, KEY[:size], None)


@pytest.mark.parametrize("value", [b"", b"\x00", b"\x00\x63", b"\x00\x00\x00"])
def test_a_value_that_hardly_counts_has_its_defaults(value):
    found = decode(TYPES, KEY, value, unread={2})
    assert found is not None
    assert (found.key, found.value) == (GroupMetadataKey("g"), GroupMetadataValue())
    with pytest.raises(DecodeError):
        decode(TYPES, KEY, value, unread={3})
