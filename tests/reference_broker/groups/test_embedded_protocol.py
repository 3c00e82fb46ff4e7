"""Subscriptions and assignments of classic consumers are decoded in each version, and encoded as consumers expect."""

from __future__ import annotations

import pytest

from kafkawire.reference_broker.groups.embedded_protocol import (
    read_assignment,
    read_subscription,
    readable_version,
    write_assignment,
)
from kafkawire.reference_broker.groups.topics import TopicFacts
from kafkawire.sdk.errors import DecodeError
from tests.reference_broker.groups.consumer_bench import assignment, parts_of, subscription

T, U = b"t" * 16, b"u" * 16
TOPICS = {"t": TopicFacts(T, 4), "u": TopicFacts(U, 1)}


@pytest.mark.parametrize("version", range(4))
def test_subscriptions(version):
    found = read_subscription(subscription(("u", "t"), {"t": (1, 2), "gone": (1,)}, version), TOPICS)
    assert found == (("u", "t"), {T: frozenset({1, 2})} if version else {}, None)


def test_a_later_version_is_read_as_the_last_known():
    data = b"\0\x09" + subscription(("t",), {"t": (1,)})[2:] + b"more"
    assert read_subscription(data, TOPICS).owned == {T: frozenset({1})}
    assert readable_version(data) == 3


@pytest.mark.parametrize("data", [b"", b"\0", b"\xff\xff\0\0\0\0", b"\0\0\0\0\0\1"])
def test_what_is_no_subscription_is_refused(data):
    with pytest.raises(DecodeError):
        read_subscription(data, TOPICS)


def test_what_has_no_version_reads_the_first():
    assert [readable_version(data) for data in (b"", b"\0", b"\xff\xff", b"\0\1")] == [0, 0, 0, 1]


@pytest.mark.parametrize("names", ["tug", "t"])
@pytest.mark.parametrize("version", range(4))
def test_assignments(version, names):
    data = write_assignment(
        version, {U: frozenset({0}), T: frozenset({2, 1}), b"x" * 16: frozenset({0})}, names, TOPICS
    )
    assert data[:2] == version.to_bytes(2, "big")
    assert parts_of(data) == {"t": [1, 2], "u": [0]}
    assert read_assignment(data, TOPICS) == ({T: frozenset({1, 2}), U: frozenset({0})}, b"")


def test_an_assignment_may_be_empty_or_carry_data():
    assert read_assignment(b"", TOPICS) == ({}, b"")
    assert read_assignment(assignment({"t": (1,), "gone": (0,)}, b"noted"), TOPICS) == ({T: frozenset({1})}, b"noted")
    with pytest.raises(DecodeError):
        read_assignment(b"\0\0\0", TOPICS)
