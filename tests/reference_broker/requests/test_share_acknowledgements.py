"""Acknowledgements are checked before they reach the share partitions; each partition has one outcome.

Method: check acknowledgements of made-up partitions.
"""

from __future__ import annotations

from typing import cast

import pytest

from kafkawire.reference_broker.metadata.image import PartitionImage, TopicImage
from kafkawire.reference_broker.requests.delayed_operations import finished
from kafkawire.reference_broker.requests.share_acknowledgements import Acknowledger, Outcome, Renewal
from kafkawire.reference_broker.shares.share_partitions import SharePartitions
from kafkawire.reference_broker.shares.share_sessions import TopicIdPartition
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.messages.share_acknowledge import ShareAcknowledgeRequest
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode

T, U = b"t" * 16, b"u" * 16

Batch = ShareAcknowledgeRequest.AcknowledgementBatch

INVALID = Outcome(ErrorCode.INVALID_REQUEST, None)
NONE = Outcome(ErrorCode.NONE, None)

RENEWING = Renewal(is_known=True, is_asked=True)


class FakeShares:
    """Answers with an error for partition 1, and with success for others."""

    def __init__(self):
        self.asked = []

    def acknowledge(self, member_id, acknowledged, done, now_ms):
        self.asked.append((member_id, now_ms, acknowledged))
        error = BrokerError(ErrorCode.INVALID_RECORD_STATE, "why")
        done({key: error if key.partition == 1 else None for key in acknowledged})


def outcomes(*asked, renewal=RENEWING):
    """Return the outcomes, and the partitions that were acknowledged."""
    image = TopicImage("t", T, tuple(PartitionImage(1, 0, (1,), (1,)) for _ in range(3)), {})
    shares, found = FakeShares(), []
    acknowledger = Acknowledger(
        "g", "m", renewal, {T: image}, cast("SharePartitions", shares), lambda name: name == "t"
    )
    given = [
        (TopicIdPartition(topic_id, number), [Batch(*batch) for batch in batches])
        for topic_id, number, batches in asked
    ]
    finished(acknowledger.acknowledge(given, found.append, 7))
    (answered,) = found
    return answered, [key.partition for _, _, keys in shares.asked for key in keys]


@pytest.mark.parametrize(
    ("batches", "is_valid"),
    [
        ([(0, 0, [1])], True),
        ([(0, 2, [1])], True),
        ([(0, 2, [0, 1, 4])], True),
        ([(0, 2, [1, 2])], False),
        ([(0, 2, [1, 2, 3, 1])], False),
        ([(0, 0, [])], False),
        ([(1, 0, [1])], False),
        ([(0, 0, [5])], False),
        ([(0, 0, [-1])], False),
        ([(0, 3, [1]), (3, 4, [1])], True),
        ([(0, 3, [1]), (2, 4, [1])], False),
        ([(-1, -1, [1])], True),
        ([(-2, -1, [1])], False),
    ],
)
def test_checks(batches, is_valid):
    partition = TopicIdPartition(T, 0)
    assert outcomes((T, 0, batches)) == (({partition: NONE}, [0]) if is_valid else ({partition: INVALID}, []))


@pytest.mark.parametrize(("is_known", "is_asked"), [(False, True), (True, False), (False, False)])
def test_locks_are_not_renewed_unless_the_request_says_so(is_known, is_asked):
    found, _ = outcomes((T, 0, [(0, 0, [4])]), renewal=Renewal(is_known, is_asked))
    assert found == {TopicIdPartition(T, 0): INVALID}


def test_each_partition_has_an_outcome():
    ranges = [(0, 0, [1])]
    found, acknowledged = outcomes(
        (T, 0, ranges), (T, 1, ranges), (T, 2, []), (T, 3, ranges), (U, 0, ranges), (T, 0, ranges)
    )
    assert acknowledged == [1, 0]
    assert found == {
        TopicIdPartition(T, 0): NONE,
        TopicIdPartition(T, 1): Outcome(ErrorCode.INVALID_RECORD_STATE, "why"),
        TopicIdPartition(T, 2): NONE,
        TopicIdPartition(T, 3): Outcome(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None),
        TopicIdPartition(U, 0): Outcome(ErrorCode.UNKNOWN_TOPIC_ID, None),
    }


def test_partitions_without_acknowledgements_are_not_mentioned_alone():
    assert outcomes((T, 0, [])) == ({}, [])
    assert outcomes() == ({}, [])


def test_the_last_one_counts_if_a_partition_comes_twice():
    assert outcomes((T, 0, [(0, 0, [1])]), (T, 0, [(0, 0, [])])) == ({TopicIdPartition(T, 0): INVALID}, [])
    assert outcomes((T, 0, [(0, 0, [])]), (T, 0, [(0, 0, [1])])) == ({TopicIdPartition(T, 0): NONE}, [0])


def test_records_of_a_topic_that_may_not_be_read():
    image = TopicImage("hidden", T, (PartitionImage(1, 0, (1,), (1,)),), {})
    shares, found = cast("SharePartitions", FakeShares()), []
    acknowledger = Acknowledger("g", "m", RENEWING, {T: image}, shares, lambda name: name != "hidden")
    valid, invalid = [Batch(0, 0, [1])], [Batch(1, 0, [1])]
    asked = [(TopicIdPartition(T, 0), valid), (TopicIdPartition(T, 1), invalid), (TopicIdPartition(T, 2), valid)]
    finished(acknowledger.acknowledge(asked, found.append, 7))
    denied = Outcome(ErrorCode.TOPIC_AUTHORIZATION_FAILED, None)
    # Kafka checks the ranges first, and whether a partition exists last.
    codes = (denied, INVALID, denied)
    assert found == [{TopicIdPartition(T, number): code for number, code in enumerate(codes)}]
