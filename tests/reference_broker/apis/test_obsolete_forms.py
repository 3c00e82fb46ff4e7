"""Messages of the first consumer group design are encoded correctly, and the broker answers those that Kafka adopted.

Method: put each message's bytes together field by field, in the order of that design, and compare them with the
codec's; the responses come from a broker without sockets.

Source: "Kafka 0.9 Consumer Rewrite Design" in Apache Kafka's wiki. Kafka adopted ConsumerMetadata (as FindCoordinator),
Heartbeat and OffsetCommit 1 unchanged; its JoinGroup has always named protocols with metadata instead.
"""

from __future__ import annotations

import pytest

from kafkawire.reference_broker.groups.records import Committed
from kafkawire.sdk.errors import DecodeError
from kafkawire.sdk.protocol.codec import codec
from kafkawire.sdk.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from kafkawire.sdk.protocol.messages.heartbeat import HeartbeatRequest
from kafkawire.sdk.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from kafkawire.sdk.protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from kafkawire.sdk.protocol.schema import Message
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from tests.reference_broker.apis.group_of_one import stable
from tests.reference_broker.broker_bench import LISTENER, NOW_MS, BrokerBench

Topic = OffsetCommitRequest.OffsetCommitRequestTopic
Partition = OffsetCommitRequest.OffsetCommitRequestPartition


def text(value: str) -> bytes:
    return len(value).to_bytes(2, "big") + value.encode()


def number(value: int, size: int) -> bytes:
    return value.to_bytes(size, "big", signed=True)


def bytes_of(message: Message, version: int) -> bytes:
    return codec(type(message), version).encode(message)


def commit(generation: int, member: str, timestamp: int = -1) -> OffsetCommitRequest:
    partition = Partition(0, 7, commit_timestamp=timestamp, committed_metadata="m")
    return OffsetCommitRequest("g", generation, member, topics=[Topic("t", partitions=[partition])])


def test_consumer_metadata(bench: BrokerBench) -> None:
    bench.offsets_topic()
    request = FindCoordinatorRequest("g")
    assert bytes_of(request, 0) == text("g")
    response = bench.ask(request, 0)
    assert isinstance(response, FindCoordinatorResponse)
    where = LISTENER.advertised
    fields = (number(ErrorCode.NONE, 2), number(response.node_id, 4), text(where.host), number(where.port, 4))
    assert bytes_of(response, 0) == b"".join(fields)


def test_heartbeat(bench: BrokerBench) -> None:
    member = stable(bench)
    request = HeartbeatRequest("g", 1, member)
    assert bytes_of(request, 0) == text("g") + number(1, 4) + text(member)
    assert bytes_of(bench.ask(request, 0), 0) == number(ErrorCode.NONE, 2)
    assert bytes_of(bench.ask(HeartbeatRequest("g", 2, member), 0), 0) == number(ErrorCode.ILLEGAL_GENERATION, 2)


def test_offset_commit(bench: BrokerBench) -> None:
    bench.create()
    member = stable(bench)
    request = commit(1, member, 5)
    partition = number(0, 4) + number(7, 8) + number(5, 8) + text("m")
    topic = number(1, 4) + text("t") + number(1, 4) + partition
    assert bytes_of(request, 1) == text("g") + number(1, 4) + text(member) + topic
    response = bench.ask(request, 1)
    assert isinstance(response, OffsetCommitResponse)
    answered = number(1, 4) + text("t") + number(1, 4) + number(0, 4) + number(ErrorCode.NONE, 2)
    assert bytes_of(response, 1) == answered
    (committed,) = bench.core.groups.offsets("g").values()
    assert (committed.offset, committed.metadata, committed.commit_timestamp) == (7, "m", 5)


@pytest.mark.parametrize(("timestamp", "kept"), [(-1, NOW_MS), (0, 0), (5, 5)])
def test_the_time_of_a_commit(bench: BrokerBench, timestamp: int, kept: int) -> None:
    topic_id = bench.create()
    bench.offsets_topic()
    bench.ask(commit(-1, "", timestamp), 1)
    expected = {("t", 0): Committed(7, -1, "m", kept, topic_id)}
    assert bench.core.groups.offsets("g") == expected
    bench.crash()
    assert bench.core.groups.offsets("g") == expected


def test_the_draft_of_join_group_is_no_version(bench: BrokerBench) -> None:
    """The draft has topics and one strategy; version 0 has the protocol type, and protocols with metadata."""
    draft = text("g") + number(30_000, 4) + number(1, 4) + text("t") + text("member") + text("range")
    with pytest.raises(DecodeError):
        codec(JoinGroupRequest, 0).decode(draft)
    joining = JoinGroupRequest("g", 30_000, protocol_type="consumer")
    joining.protocols = [JoinGroupRequest.JoinGroupRequestProtocol("range", b"topics")]
    protocol = number(1, 4) + text("range") + number(6, 4) + b"topics"
    assert bytes_of(joining, 0) == text("g") + number(30_000, 4) + text("") + text("consumer") + protocol
    bench.offsets_topic()
    responses: list[JoinGroupResponse] = []
    bench.ask_then(joining, 0, responses.append)
    bench.advance(5_000)
    (joined,) = responses
    assert (joined.error_code, joined.generation_id, joined.leader) == (ErrorCode.NONE, 1, joined.member_id)
