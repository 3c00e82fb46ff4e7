"""Subscriptions and assignments are encoded as in Apache Kafka's clients, and decoded from older and newer versions.

Method: compare with golden bytes (the assignor vectors contain hundreds more), decode every version and truncated data,
and use hypothesis for round trips.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkawire.sdk.errors import DecodeError
from kafkawire.sdk.groups.assignor import MemberSubscription
from kafkawire.sdk.groups.consumer_protocol import (
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
    read_subscription,
)
from kafkawire.sdk.protocol.codec import codec
from kafkawire.sdk.protocol.messages.groups.consumer_protocol_subscription import ConsumerProtocolSubscription
from kafkawire.sdk.routing.partitions import TopicPartition
from tests.sdk.groups.assignors.groups import partitions

NAMES = st.text(max_size=5)
PARTITIONS = st.lists(st.builds(TopicPartition, NAMES, st.integers(0, 9)), unique=True).map(tuple)
SUBSCRIPTIONS = st.builds(
    MemberSubscription,
    st.lists(NAMES, unique=True).map(tuple),
    PARTITIONS,
    st.integers(-1, 2**31 - 1),
    st.none() | NAMES,
    st.none() | st.binary(max_size=5),
    st.none(),
)
SUBSCRIPTION = MemberSubscription(("b", "a"), tuple(partitions("b-1 a-2 b-0")), 7, "r", b"x")
SUBSCRIPTION_HEX = (
    "0003 00000002 000161 000162 00000001 78"
    "00000002 000161 00000001 00000002 000162 00000002 00000000 00000001 00000007 000172"
)


def test_golden_subscription() -> None:
    """Topics and partitions are sorted."""
    data = encode_subscription(SUBSCRIPTION)
    assert data == bytes.fromhex(SUBSCRIPTION_HEX)
    assert decode_subscription(data) == SUBSCRIPTION._replace(
        topics=("a", "b"), owned_partitions=tuple(partitions("a-2 b-0 b-1"))
    )


def test_golden_assignment() -> None:
    """A topic's partitions are written together, and topics are written in the order of their first partitions."""
    data = encode_assignment(partitions("b-1 a-2 b-0"))
    assert data == bytes.fromhex("0003 00000002 000162 00000002 00000001 00000000 000161 00000001 00000002 ffffffff")
    assert decode_assignment(data) == tuple(partitions("b-1 b-0 a-2"))


@given(subscription=SUBSCRIPTIONS)
def test_subscriptions_round_trip(subscription: MemberSubscription) -> None:
    again = decode_subscription(encode_subscription(subscription))
    assert again == subscription._replace(
        topics=tuple(sorted(subscription.topics)), owned_partitions=tuple(sorted(subscription.owned_partitions))
    )


@given(assigned=PARTITIONS)
def test_assignments_round_trip(assigned: tuple[TopicPartition, ...]) -> None:
    assert sorted(decode_assignment(encode_assignment(assigned))) == sorted(assigned)


@pytest.mark.parametrize(
    ("version", "known"),
    [
        (0, MemberSubscription(("a", "b"), user_data=b"x")),
        (1, MemberSubscription(("a", "b"), tuple(partitions("a-2")), user_data=b"x")),
        (2, MemberSubscription(("a", "b"), tuple(partitions("a-2")), 7, user_data=b"x")),
        (3, MemberSubscription(("a", "b"), tuple(partitions("a-2")), 7, "r", b"x")),
    ],
)
def test_older_members(version: int, known: MemberSubscription) -> None:
    owned = [ConsumerProtocolSubscription.TopicPartition("a", [2])]
    message = ConsumerProtocolSubscription(["a", "b"], b"x", owned, 7, "r")
    encoded = codec(ConsumerProtocolSubscription, version).encode(message)
    assert decode_subscription(version.to_bytes(2, "big") + encoded) == known


def test_newer_members() -> None:
    """Later versions append fields to the known ones."""
    data = b"\x00\x09" + bytes.fromhex(SUBSCRIPTION_HEX)[2:] + b"something new"
    assert decode_subscription(data) == decode_subscription(bytes.fromhex(SUBSCRIPTION_HEX))
    assigned = encode_assignment(partitions("a-0"))
    assert decode_assignment(b"\x7f\xff" + assigned[2:] + b"\x00") == decode_assignment(assigned)


def test_cuts_are_refused() -> None:
    subscription, assignment = bytes.fromhex(SUBSCRIPTION_HEX), encode_assignment(partitions("a-0"))
    for size in range(len(subscription)):
        with pytest.raises(DecodeError):
            decode_subscription(subscription[:size])
    for size in range(len(assignment)):
        with pytest.raises(DecodeError):
            decode_assignment(assignment[:size])


def test_no_version_below_zero() -> None:
    with pytest.raises(DecodeError, match="version at byte 0: version -1 is unknown; the oldest known version is 0"):
        decode_assignment(b"\xff\xff" + encode_assignment(())[2:])


@pytest.mark.parametrize(
    ("data", "said", "damage"),
    [
        (SUBSCRIPTION_HEX, decode_subscription(bytes.fromhex(SUBSCRIPTION_HEX)), ""),
        ("", MemberSubscription(()), "version at byte 0: 2 bytes are needed, but 0 are left"),
        ("01", MemberSubscription(()), "version at byte 0: 2 bytes are needed, but 1 are left"),
        (
            "fffe 00000001 000174 ffffffff",
            MemberSubscription(()),
            "version at byte 0: version -2 is unknown; the oldest known version is 0",
        ),
        ("0000 7fffffff 000174", MemberSubscription(()), "topics at byte 2"),
        (
            "0001 00000001 000174 ffffffff",
            MemberSubscription(("t",)),
            "owned_partitions at byte 13: 4 bytes are needed",
        ),
        (
            "0063 00000001 000174 ffffffff ff",
            MemberSubscription(("t",)),
            "owned_partitions at byte 13: 4 bytes are needed",
        ),
        (
            "0003 00000001 000174 ffffffff 00000001 000174 00000002 00000004 00000004",
            MemberSubscription(("t",), (TopicPartition("t", 4),)),
            "generation_id at byte 32: 4 bytes are needed, but 0 are left",
        ),
        (
            "0002 00000003 000174 0000 000174 ffffffff 00000001 000174 00000002 ffffffff 00000004 00000007",
            MemberSubscription(("t",), (TopicPartition("t", 4),), 7),
            "'' is not a valid topic name",
        ),
    ],
)
def test_what_can_be_read_of_a_subscription(data: str, said: MemberSubscription, damage: str) -> None:
    found, wrong = read_subscription(bytes.fromhex(data))
    assert found == said
    assert wrong.startswith(damage)
    assert bool(wrong) is bool(damage)


@given(data=st.binary(max_size=40))
def test_any_bytes_are_a_subscription_of_somebody(data: bytes) -> None:
    said, _ = read_subscription(data)
    assert len(set(said.topics)) == len(said.topics)


def test_partitions_that_none_can_be_are_not_assigned() -> None:
    data = bytes.fromhex("0000 00000001 000174 00000003 ffffffff 00000001 00000001 ffffffff")
    assert decode_assignment(data) == (TopicPartition("t", 1), TopicPartition("t", 1))
