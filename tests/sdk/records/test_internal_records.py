"""Records in internal topics are decoded to the messages that Kafka wrote; unknown and damaged records are reported.

Method: decode every golden vector of a coordinator, metadata or remote log record, with the prefix that Kafka puts
before it, then types and versions from a later release, and truncated keys and values.
"""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from kafkawire.sdk.errors import DecodeError, LocalProtocolError, UnknownRecord
from kafkawire.sdk.protocol.json_form import from_json
from kafkawire.sdk.protocol.messages.coordinator.consumer_offsets.offset_commit import (
    OffsetCommitKey,
    OffsetCommitValue,
)
from kafkawire.sdk.protocol.messages.coordinator.consumer_offsets.share_group_partition_metadata import (
    ShareGroupPartitionMetadataKey,
    ShareGroupPartitionMetadataValue,
)
from kafkawire.sdk.protocol.programs import message_class, program
from kafkawire.sdk.protocol.tables.record_types import FRAMED_RECORDS, KEYED_RECORDS
from kafkawire.sdk.records.internal_records import INTERNAL_TOPICS, KAFKA_RECORDS, RecordTypes, decode_record
from tests.vectors import read_vectors

OFFSETS = "__consumer_offsets"
METADATA = "__cluster_metadata"

TOPICS = {
    "kafka-group-coordinator": OFFSETS,
    "kafka-transaction-coordinator": "__transaction_state",
    "kafka-share-coordinator": "__share_group_state",
    "kafka-metadata": METADATA,
    "kafka-storage": "__remote_log_metadata",
}

#: A committed offset: group g, topic t, partition 1; offset 5, without metadata, at time 7.
KEY = bytes.fromhex("0001 000167 000174 00000001")
VALUE = bytes.fromhex("0003 0000000000000005 ffffffff 0000 0000000000000007")


def test_the_topics() -> None:
    assert set(TOPICS.values()) == INTERNAL_TOPICS


def test_every_record_that_kafka_writes() -> None:
    seen: set[tuple[str, str]] = set()
    for name in ("coordinator", "metadata"):
        for vector in read_vectors(name):
            topic, data = TOPICS[vector["module"]], bytes.fromhex(vector["framed_hex"])
            seen.add((topic, vector["name"]))
            if vector.get("unknown_tags"):
                continue  # JSON has no unknown tags
            expected = from_json(vector["name"], vector["version"], vector["value"])
            if vector["type"] == "coordinator-key":
                found = decode_record(topic, data, None)
                assert (found.key, found.value, found.version) == (expected, None, None)
            elif vector["type"] == "coordinator-value":
                found = decode_record(topic, some_key(topic, vector["name"]), data)
                assert (found.value, found.version) == (expected, vector["version"])
            else:
                found = decode_record(topic, None, data)
                assert (found.key, found.value, found.version) == (None, expected, vector["version"])
            assert found.topic == topic
            assert found.name == vector["name"].removesuffix("Key").removesuffix("Value")
    known = {(topic, name) for topic, pairs in KEYED_RECORDS.items() for pair in pairs.values() for name in pair}
    known |= {(topic, name) for topic, names in FRAMED_RECORDS.items() for name in names.values()}
    assert seen == {(topic, name) for topic, name in known if message_class(name).SCHEMA.versions}


def some_key(topic: str, value_name: str) -> bytes:
    """Return a key whose records have values with this type name."""
    (kind,) = (kind for kind, names in KEYED_RECORDS[topic].items() if names[1] == value_name)
    return kind.to_bytes(2, "big") + bytes(40)


def test_a_record_of_a_type_that_was_removed() -> None:
    """A segment from an older broker may still contain this type."""
    key = ShareGroupPartitionMetadataKey("g")
    value = ShareGroupPartitionMetadataValue()
    data = bytes(2) + program(ShareGroupPartitionMetadataValue, 0).encode(value)
    found = decode_record(OFFSETS, b"\0\x09" + program(ShareGroupPartitionMetadataKey, 0).encode(key), data)
    assert found == (OFFSETS, 9, key, value, 0)
    assert found.to_json() == {
        "type": 9,
        "name": "ShareGroupPartitionMetadata",
        "key": {"groupId": "g"},
        "version": 0,
        "value": {"initializedTopics": [], "deletingTopics": []},
    }
    with pytest.raises(
        UnknownRecord, match=r"\(ShareGroupPartitionMetadataValue\) in version 1 is unknown; expected 0$"
    ):
        decode_record(OFFSETS, b"\0\x09\0\0", b"\0\1")


def test_what_is_no_topic_and_no_bytes() -> None:
    for topic in ([], None, 5, "x" * 1_000_000):
        with pytest.raises(LocalProtocolError, match="is not an internal topic") as caught:
            decode_record(topic, b"", b"")  # type: ignore[arg-type]  # an application may pass it
        assert len(str(caught.value)) < 500
    for key, value in ((memoryview(KEY)[::2], VALUE), (KEY, memoryview(VALUE)[::2]), (5, VALUE), (KEY, "text")):
        with pytest.raises(TypeError, match=r"^expected bytes or another contiguous buffer, got "):
            decode_record(OFFSETS, key, value)  # type: ignore[arg-type]  # as above


def test_a_committed_offset() -> None:
    found = decode_record(OFFSETS, memoryview(KEY), bytearray(VALUE))
    assert found.key == OffsetCommitKey("g", "t", 1)
    assert found.value == OffsetCommitValue(5, -1, "", 7)
    assert (found.type, found.version, found.name) == (1, 3, "OffsetCommit")
    assert found.to_json() == {
        "type": 1,
        "name": "OffsetCommit",
        "key": {"group": "g", "topic": "t", "partition": 1},
        "version": 3,
        "value": {"offset": 5, "leaderEpoch": -1, "metadata": "", "commitTimestamp": 7},
    }


@pytest.mark.parametrize(
    ("topic", "key", "value", "expected"),
    [
        (OFFSETS, KEY, VALUE, (1, 3, 2, 2)),
        (OFFSETS, KEY, None, (1, None, 2, 0)),
        (METADATA, None, bytes.fromhex("8100 02 8000 00"), (2, 0, 0, 5)),
        (METADATA, b"ignored", None, (None, None, 0, 0)),
    ],
)
def test_what_is_in_front(
    topic: str, key: bytes | None, value: bytes | None, expected: tuple[int | None, int | None, int, int]
) -> None:
    assert KAFKA_RECORDS.envelope(topic, key, value) == expected


def test_tombstones() -> None:
    found = decode_record(OFFSETS, KEY, None)
    assert (found.key, found.value, found.version) == (OffsetCommitKey("g", "t", 1), None, None)
    assert found.to_json()["value"] is None
    assert decode_record(METADATA, b"ignored", None) == (METADATA, None, None, None, None)
    assert decode_record(METADATA, None, None).to_json() == {"type": None, "name": "", "version": None, "value": None}


def test_what_follows_a_coordinator_value_is_ignored_as_in_kafka() -> None:
    assert decode_record(OFFSETS, KEY + b"more", VALUE + b"more") == decode_record(OFFSETS, KEY, VALUE)


UNKNOWN: list[tuple[str, str | None, str, int | None, int | None, str]] = [
    (
        OFFSETS,
        "7fff",
        "",
        32767,
        None,
        "key at byte 0: __consumer_offsets: record type 32767 is unknown; expected 0 to 17, 19",
    ),
    (OFFSETS, "ffff", "", -1, None, "record type -1 is unknown"),
    (
        OFFSETS,
        KEY.hex(),
        "0005",
        1,
        5,
        "value at byte 0: __consumer_offsets: record type 1 (OffsetCommit"
        + "Value) in version 5 is unknown; expected 0-4",
    ),
    (
        METADATA,
        None,
        "02020000",
        None,
        None,
        "value at byte 0: __cluster_metadata: frame version 2 is unknown; expected 1",
    ),
    (
        METADATA,
        None,
        "01ff0103",
        255,
        3,
        "value at byte 0: __cluster_metadata: record type 255 (version 3) is unknown",
    ),
    (METADATA, None, "010209", 2, 9, "record type 2 (TopicRecord) in version 9 is unknown; expected 0"),
]


@pytest.mark.parametrize(("topic", "key", "value", "kind", "version", "text"), UNKNOWN)
def test_what_a_later_release_may_write(
    topic: str, key: str | None, value: str, kind: int | None, version: int | None, text: str
) -> None:
    with pytest.raises(UnknownRecord) as caught:
        decode_record(topic, None if key is None else bytes.fromhex(key), bytes.fromhex(value))
    error = caught.value
    assert text in str(error)
    assert (error.topic, error.type, error.version) == (topic, kind, version)
    copied: Any = pickle.loads(pickle.dumps(error))
    assert (str(copied), copied.type, copied.version) == (str(error), kind, version)


@pytest.mark.parametrize(
    ("topic", "key", "value", "text"),
    [
        (OFFSETS, None, VALUE, "__consumer_offsets: a record has a key of at least 2 bytes, but this one has none"),
        (OFFSETS, b"\x00", VALUE, "a key of at least 2 bytes, but this one has 1 bytes"),
        (OFFSETS, KEY, b"\x00", "a value of at least 2 bytes, but this one has 1 bytes"),
        (METADATA, None, b"", "frame version at byte 0: the number ends early"),
        (METADATA, None, b"\x01\x82", "type at byte 1: the number ends early"),
        (METADATA, None, b"\x01" + b"\xff" * 6, "type at byte 1: the number has more than 5 bytes"),
        (METADATA, None, bytes.fromhex("0119000000"), "value at byte 4: 1 bytes follow the AbortTransactionRecord"),
    ],
)
def test_damage_is_named(topic: str, key: bytes | None, value: bytes, text: str) -> None:
    with pytest.raises(DecodeError) as caught:
        decode_record(topic, key, value)
    assert text in str(caught.value)
    assert not isinstance(caught.value, UnknownRecord)


def test_each_cut_is_found() -> None:
    for end in range(len(KEY)):
        with pytest.raises(DecodeError):
            decode_record(OFFSETS, KEY[:end], VALUE)
    for end in range(len(VALUE)):
        with pytest.raises(DecodeError):
            decode_record(OFFSETS, KEY, VALUE[:end])


def test_other_topics_are_refused() -> None:
    with pytest.raises(
        LocalProtocolError,
        match="'orders' is not an internal topic; internal topics: __cluster_metadata, __consumer_off",
    ):
        decode_record("orders", KEY, VALUE)


def test_topics_of_ones_own() -> None:
    """The messages for record types may be classes from any package."""
    types = RecordTypes({"orders": {1: (OffsetCommitKey, OffsetCommitValue)}}, {"lamps": {2: "TopicRecord"}})
    assert types.topics == {"orders", "lamps"}
    assert types.decode("orders", KEY, VALUE)[1:] == decode_record(OFFSETS, KEY, VALUE)[1:]
    value = bytes.fromhex("010200 01") + bytes(17)
    assert types.decode("lamps", None, value)[1:] == decode_record(METADATA, None, value)[1:]
    assert types.names_beside("OffsetCommitValue") == {1: "OffsetCommit"}
    assert types.names_beside("TopicRecord") == {2: "TopicRecord"}
    assert types.names_beside("OffsetCommit") == {}
    with pytest.raises(LocalProtocolError, match="is not an internal topic; internal topics: lamps, orders"):
        types.decode(OFFSETS, KEY, VALUE)
    with pytest.raises(UnknownRecord, match="orders: record type 2 is unknown; expected 1"):
        types.decode("orders", b"\0\2", VALUE)
