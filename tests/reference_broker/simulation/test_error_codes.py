"""The error codes in coordinators' responses are found, including those of their parts."""

from __future__ import annotations

import pytest

from kafkawire.reference_broker.simulation.error_codes import error_codes
from kafkawire.sdk.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnResponse
from kafkawire.sdk.protocol.messages.end_txn import EndTxnResponse
from kafkawire.sdk.protocol.messages.offset_commit import OffsetCommitResponse
from kafkawire.sdk.protocol.messages.offset_fetch import OffsetFetchResponse
from kafkawire.sdk.protocol.messages.txn_offset_commit import TxnOffsetCommitResponse
from kafkawire.sdk.protocol.schema import Message

Added = AddPartitionsToTxnResponse.AddPartitionsToTxnPartitionResult
Group = OffsetFetchResponse.OffsetFetchResponseGroup
Topics = OffsetFetchResponse.OffsetFetchResponseTopics
Fetched = OffsetFetchResponse.OffsetFetchResponsePartitions


@pytest.mark.parametrize(
    ("response", "codes"),
    [
        (EndTxnResponse(error_code=16), {16}),
        (
            AddPartitionsToTxnResponse(
                results_by_topic_v3_and_below=[
                    AddPartitionsToTxnResponse.AddPartitionsToTxnTopicResult("t", [Added(0, 0), Added(1, 51)])
                ]
            ),
            {0, 51},
        ),
        (
            OffsetCommitResponse(
                topics=[
                    OffsetCommitResponse.OffsetCommitResponseTopic(
                        "t", partitions=[OffsetCommitResponse.OffsetCommitResponsePartition(0, 14)]
                    )
                ]
            ),
            {14},
        ),
        (
            TxnOffsetCommitResponse(
                topics=[
                    TxnOffsetCommitResponse.TxnOffsetCommitResponseTopic(
                        "t", [TxnOffsetCommitResponse.TxnOffsetCommitResponsePartition(0, 47)]
                    )
                ]
            ),
            {47},
        ),
        (OffsetFetchResponse(groups=[Group("g", error_code=15)]), {15}),
        (OffsetFetchResponse(groups=[Group("g", [Topics("t", partitions=[Fetched(0, error_code=88)])])]), {88}),
    ],
)
def test_codes_of_responses(response: Message, codes: set[int]) -> None:
    assert error_codes(response) == codes
