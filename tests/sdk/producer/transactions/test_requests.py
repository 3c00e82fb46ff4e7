"""Each request carries what the coordinator's version needs; each response yields the decisive error."""

from __future__ import annotations

import pytest

from kafkawire.sdk.groups.protocol import GroupMetadata
from kafkawire.sdk.producer.identity import ProducerId
from kafkawire.sdk.producer.transactions import requests
from kafkawire.sdk.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnResponse
from kafkawire.sdk.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnResponse
from kafkawire.sdk.protocol.messages.end_txn import EndTxnResponse
from kafkawire.sdk.protocol.messages.txn_offset_commit import TxnOffsetCommitResponse
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.enums import END_TXN_LAST_BEFORE_TV_2, TXN_OFFSET_COMMIT_LAST_BEFORE_TV_2
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.routing.partitions import OffsetAndMetadata, TopicPartition
from tests.sdk.simulation import Connection

PRODUCER = ProducerId(7, 3, True)
PLACES = [TopicPartition("a", 0), TopicPartition("a", 2), TopicPartition("b", 1)]
GROUP = GroupMetadata("g", 4, "member", "instance")
NEWEST = Connection({})

NONE, LOADING = ErrorCode.NONE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
SKIPPED, REFUSED = ErrorCode.OPERATION_NOT_ATTEMPTED, ErrorCode.TOPIC_AUTHORIZATION_FAILED

#: The codes for three partitions, the decisive code, and its partition.
CODES = [
    ([NONE, NONE, NONE], None, ""),
    ([NONE, LOADING, NONE], LOADING, "partition a-2"),
    ([LOADING, NONE, REFUSED], REFUSED, "partition b-1"),
    ([SKIPPED, REFUSED, SKIPPED], REFUSED, "partition a-2"),
    ([SKIPPED, LOADING, SKIPPED], LOADING, "partition a-2"),
    ([SKIPPED, SKIPPED, SKIPPED], SKIPPED, "partition a-0"),
]


def test_partitions() -> None:
    request, version = requests.add_partitions("x", PRODUCER, PLACES, NEWEST)
    (field,) = (each for each in AddPartitionsToTxnRequest.FIELDS if each.name == "v3_and_below_topics")
    assert version == field.versions.last, "later versions are for brokers"
    named = [(topic.name, list(topic.partitions)) for topic in request.v3_and_below_topics]
    assert named == [("a", [0, 2]), ("b", [1])]
    assert (request.v3_and_below_producer_id, request.v3_and_below_producer_epoch) == (7, 3)
    assert request.v3_and_below_transactional_id == "x"


@pytest.mark.parametrize(("codes", "code", "detail"), CODES)
def test_the_error_of_partitions(codes: list[ErrorCode], code: ErrorCode | None, detail: str) -> None:
    added, committed = AddPartitionsToTxnResponse, TxnOffsetCommitResponse
    topics = [
        added.AddPartitionsToTxnTopicResult(
            place.topic, [added.AddPartitionsToTxnPartitionResult(place.partition, each)]
        )
        for place, each in zip(PLACES, codes, strict=True)
    ]
    others = [
        committed.TxnOffsetCommitResponseTopic(
            place.topic, [committed.TxnOffsetCommitResponsePartition(place.partition, each)]
        )
        for place, each in zip(PLACES, codes, strict=True)
    ]
    for error in (
        requests.add_partitions_error(added(results_by_topic_v3_and_below=topics)),
        requests.commit_offsets_error(committed(topics=others)),
    ):
        assert (error and error.code) == code
        assert (error.detail if error else "") == detail


def test_offsets() -> None:
    request, version = requests.add_offsets("x", PRODUCER, "g")
    assert version is None
    assert (request.transactional_id, request.producer_id, request.producer_epoch) == ("x", 7, 3)
    assert request.group_id == "g"
    offsets = {PLACES[1]: OffsetAndMetadata(5, "note", 2)}
    commit, version = requests.commit_offsets("x", PRODUCER, GROUP, offsets, NEWEST, joins_by_itself=True)
    assert version > TXN_OFFSET_COMMIT_LAST_BEFORE_TV_2
    assert (commit.transactional_id, commit.producer_id, commit.producer_epoch) == ("x", 7, 3)
    assert (commit.group_id, commit.generation_id, commit.member_id, commit.group_instance_id) == GROUP
    (topic,) = commit.topics
    (partition,) = topic.partitions
    assert (topic.name, partition.partition_index, partition.committed_offset) == ("a", 2, 5)
    assert (partition.committed_leader_epoch, partition.committed_metadata) == (2, "note")
    _, version = requests.commit_offsets("x", PRODUCER, GROUP, offsets, NEWEST, joins_by_itself=False)
    assert version == TXN_OFFSET_COMMIT_LAST_BEFORE_TV_2
    old = Connection({ApiKey.TXN_OFFSET_COMMIT: 3})
    assert requests.commit_offsets("x", PRODUCER, GROUP, offsets, old, joins_by_itself=False)[1] == 3


@pytest.mark.parametrize("commits", [True, False])
def test_the_end(commits: bool) -> None:
    request, version = requests.end_transaction("x", PRODUCER, NEWEST, commits=commits, raises_epoch=True)
    assert version > END_TXN_LAST_BEFORE_TV_2
    assert (request.transactional_id, request.producer_id, request.producer_epoch) == ("x", 7, 3)
    assert request.committed is commits
    _, version = requests.end_transaction("x", PRODUCER, NEWEST, commits=commits, raises_epoch=False)
    assert version == END_TXN_LAST_BEFORE_TV_2


def test_errors_of_a_whole_request() -> None:
    assert requests.add_offsets_error(AddOffsetsToTxnResponse()) is None
    assert requests.end_transaction_error(EndTxnResponse()) is None
    added = requests.add_offsets_error(AddOffsetsToTxnResponse(0, REFUSED))
    ended = requests.end_transaction_error(EndTxnResponse(0, LOADING))
    assert added is not None
    assert ended is not None
    assert (added.code, ended.code) == (REFUSED, LOADING)
