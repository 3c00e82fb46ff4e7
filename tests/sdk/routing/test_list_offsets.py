"""Requests for offsets contain the known leader epochs; responses are split by partition."""

from __future__ import annotations

from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.messages.list_offsets import ListOffsetsResponse
from kafkawire.sdk.protocol.messages.metadata import MetadataResponse
from kafkawire.sdk.protocol.messages.offset_for_leader_epoch import OffsetForLeaderEpochResponse
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.routing.list_offsets import (
    EpochEnd,
    ListedOffset,
    epoch_answers,
    epoch_request,
    list_answers,
    list_request,
)
from kafkawire.sdk.routing.metadata import Metadata
from tests.sdk.consumer.user_side import T0, T1


def metadata() -> Metadata:
    """Return metadata that knows partition 0 with leader epoch 4."""
    known = Metadata()
    partition = MetadataResponse.MetadataResponsePartition(0, 0, 1, 4)
    topic = MetadataResponse.MetadataResponseTopic(0, "t", partitions=[partition])
    known.update(MetadataResponse(brokers=[MetadataResponse.MetadataResponseBroker(2)], topics=[topic]), 0)
    return known


def test_list_offsets() -> None:
    request = list_request(metadata(), {T0: -1, T1: 77}, 1, 5_000)
    assert (request.replica_id, request.isolation_level, request.timeout_ms) == (-1, 1, 5_000)
    (topic,) = request.topics
    asked = [(each.partition_index, each.current_leader_epoch, each.timestamp) for each in topic.partitions]
    assert asked == [(0, 4, -1), (1, -1, 77)]
    kind = ListOffsetsResponse.ListOffsetsPartitionResponse
    answers = [kind(0, 0, offset=7, timestamp=9, leader_epoch=3), kind(1, ErrorCode.NOT_LEADER_OR_FOLLOWER)]
    found = list_answers(ListOffsetsResponse(topics=[ListOffsetsResponse.ListOffsetsTopicResponse("t", answers)]))
    assert found[T0] == ListedOffset(7, 9, 3)
    assert isinstance(found[T1], BrokerError)
    assert str(found[T1]) == "NOT_LEADER_OR_FOLLOWER: offset of t-1"


def test_leader_epochs() -> None:
    request = epoch_request(metadata(), {T0: 2, T1: 3})
    (topic,) = request.topics
    asked = [(each.partition, each.current_leader_epoch, each.leader_epoch) for each in topic.partitions]
    assert (request.replica_id, asked) == (-1, [(0, 4, 2), (1, -1, 3)])
    kind = OffsetForLeaderEpochResponse.EpochEndOffset
    answers = [kind(0, 0, 2, 50), kind(ErrorCode.FENCED_LEADER_EPOCH, 1)]
    result = OffsetForLeaderEpochResponse.OffsetForLeaderTopicResult("t", answers)
    found = epoch_answers(OffsetForLeaderEpochResponse(topics=[result]))
    assert found[T0] == EpochEnd(50, 2)
    assert isinstance(found[T1], BrokerError)
