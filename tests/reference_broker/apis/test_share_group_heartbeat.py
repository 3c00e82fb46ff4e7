"""ShareGroupHeartbeat: members join, get partitions, and leave; errors come with a message.

Method: send requests to a broker without sockets; the expected answers are those of Apache Kafka 4.3.0.
"""

from __future__ import annotations

import pytest

from kafkawire.sdk.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from tests.reference_broker.apis.share_bench import ShareBench


@pytest.fixture
def bench(tmp_path):
    bench = ShareBench(tmp_path)
    bench.create(partitions=2)
    bench.offsets_topic()
    return bench


def assigned(told):
    if told.assignment is None:
        return None
    return [(part.topic_id, list(part.partitions)) for part in told.assignment.topic_partitions]


def numbers(told):
    """Return the partitions of the only topic in an assignment."""
    (topic,) = told.assignment.topic_partitions
    return list(topic.partitions)


def test_a_member_joins_and_leaves(bench):
    first = bench.beat("m", 0, "t")
    assert (first.error_code, first.member_id, first.member_epoch) == (ErrorCode.NONE, "m", 2)
    assert (first.heartbeat_interval_ms, assigned(first)) == (5_000, [])
    bench.pass_turns()
    told = bench.beat("m", 2)
    assert (told.member_epoch, assigned(told)) == (3, [(bench.topic_id, [0, 1])])
    told = bench.beat("m", 3)
    assert (told.member_epoch, assigned(told)) == (3, None)
    left = bench.beat("m", -1)
    assert (left.error_code, left.member_id, left.member_epoch) == (ErrorCode.NONE, "m", -1)
    assert bench.beat("m", 3).error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_partitions_are_shared(bench):
    bench.join("m")
    bench.join("n")
    bench.beat("m", 4)
    assert sorted(numbers(bench.beat(member, 0, "t")) for member in "mn") == [[0], [1]]
    bench.join("o")
    assert all(numbers(bench.beat(member, 0, "t")) for member in "mno"), "three members share two partitions"


def test_a_session_ends(bench):
    bench.join("m")
    bench.advance(44_999)
    assert bench.beat("m", 3).error_code == ErrorCode.NONE
    bench.advance(45_000)
    assert bench.beat("m", 3).error_code == ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize(
    ("fields", "code", "text"),
    [
        ({"member_id": ""}, ErrorCode.INVALID_REQUEST, None),
        ({"member_id": "m" * 37}, ErrorCode.INVALID_REQUEST, None),
        ({"group_id": " "}, ErrorCode.INVALID_REQUEST, "GroupId can't be empty."),
        ({"member_id": " "}, ErrorCode.INVALID_REQUEST, "MemberId can't be empty."),
        ({"rack_id": ""}, ErrorCode.INVALID_REQUEST, "RackId can't be empty."),
        (
            {"subscribed_topic_names": None},
            ErrorCode.INVALID_REQUEST,
            "SubscribedTopicNames must be set in first request.",
        ),
        ({"member_epoch": -2}, ErrorCode.INVALID_REQUEST, "MemberEpoch is invalid."),
        ({"member_epoch": 1}, ErrorCode.GROUP_ID_NOT_FOUND, "Share group g not found."),
        ({"member_epoch": -1}, ErrorCode.GROUP_ID_NOT_FOUND, "Group g not found."),
    ],
)
def test_errors(bench, fields, code, text):
    request = ShareGroupHeartbeatRequest(
        **{"group_id": "g", "member_id": "m", "member_epoch": 0, "subscribed_topic_names": ["t"], **fields}
    )
    told = bench.ask(request)
    assert (told.error_code, told.error_message) == (code, text)


def test_without_a_coordinator(tmp_path):
    bench = ShareBench(tmp_path)
    assert bench.beat("m", 0, "t").error_code == ErrorCode.NOT_COORDINATOR
