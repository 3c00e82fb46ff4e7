"""Which acknowledgements are refused, with Kafka's messages, and which transitions the accepted ones start.

Method: acknowledge records in made-up states; look at the transitions before they are stored.
"""

from __future__ import annotations

import pytest

from kafkawire.reference_broker.shares.acknowledgement import AcknowledgedRange, Acknowledgement
from kafkawire.reference_broker.shares.delivery import Lock
from kafkawire.reference_broker.work.timers import Timers
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.tables.enums import AcknowledgeType
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from tests.reference_broker.shares.share_partition_bench import SharePartitionBench

ACCEPT, RELEASE, REJECT, RENEW = AcknowledgeType


def bench():
    """Return a share partition: 0-9 acquired by m, 10-14 by n, 15 released, 16-19 acquired by m again."""
    bench = SharePartitionBench()
    bench.acquire((0, 9))
    bench.acquire((10, 14), member_id="n")
    bench.acquire((15, 19))
    bench.acknowledge((15, 15, RELEASE))
    bench.acquire((20, 24))
    bench.acknowledge((20, 24, RELEASE))
    return bench


def begun(flight, *ranges, member_id="m", may_renew=True):
    acknowledgement = Acknowledgement(
        flight,
        member_id,
        5,
        may_renew=may_renew,
        renewed=lambda member_id, first, last: Lock(Timers().at(99, lambda now_ms: None)),
        set_lock=lambda member_id, first, last, deadline_ms: Lock(Timers().at(deadline_ms, lambda now_ms: None)),
    )
    acknowledgement.acknowledge([AcknowledgedRange(first, last, kinds) for first, last, kinds in ranges])
    return [(each.stored.first_offset, each.stored.last_offset) for each in acknowledgement.pending]


@pytest.mark.parametrize(
    ("acknowledged", "member_id", "code", "text"),
    [
        ((10, 14, [ACCEPT]), "m", ErrorCode.INVALID_RECORD_STATE, "Member is not the owner of batch record"),
        ((16, 17, [ACCEPT]), "n", ErrorCode.INVALID_RECORD_STATE, "Member is not the owner of offset"),
        (
            (20, 24, [ACCEPT]),
            "m",
            ErrorCode.INVALID_RECORD_STATE,
            "The batch cannot be acknowledged. The batch is not in the acquired state.",
        ),
        (
            (15, 16, [ACCEPT]),
            "m",
            ErrorCode.INVALID_RECORD_STATE,
            "The offset cannot be acknowledged. The offset is not acquired.",
        ),
        (
            (22, 30, [ACCEPT]),
            "m",
            ErrorCode.INVALID_REQUEST,
            "Batch record not found. The last offset in request is past acquired records.",
        ),
        (
            (30, 31, [ACCEPT]),
            "m",
            ErrorCode.INVALID_REQUEST,
            "Batch record not found. The first offset in request is past acquired records.",
        ),
    ],
)
def test_refusals(acknowledged, member_id, code, text):
    with pytest.raises(BrokerError) as refused:
        begun(bench().share.flight, acknowledged, member_id=member_id)
    assert (refused.value.code, refused.value.detail) == (code, text)


def test_nothing_in_delivery_can_be_acknowledged():
    with pytest.raises(BrokerError, match="not found in the cache"):
        begun(SharePartitionBench().share.flight, (0, 4, [ACCEPT]))


@pytest.mark.parametrize(
    ("acknowledged", "pending"),
    [
        ((0, 9, [ACCEPT]), [(0, 9)]),
        ((0, 9, [ACCEPT] * 10), [(offset, offset) for offset in range(10)]),
        ((2, 3, [REJECT]), [(2, 2), (3, 3)]),
        ((16, 19, [RELEASE]), [(16, 16), (17, 17), (18, 18), (19, 19)]),
        ((0, 9, [RENEW]), []),
    ],
)
def test_whole_batches_stay_together(acknowledged, pending):
    assert begun(bench().share.flight, acknowledged) == pending


def lock_of(flight):
    """Return the lock of the first batch."""
    lock = flight.batches.first.whole.lock
    assert lock is not None
    return lock


def test_locks_are_renewed_if_the_group_may():
    flight = bench().share.flight
    before = lock_of(flight)
    begun(flight, (0, 9, [RENEW]))
    after = lock_of(flight)
    assert (before.timer.is_pending, after.timer.deadline_ms) == (False, 99)
    with pytest.raises(BrokerError, match="not enabled"):
        begun(flight, (0, 9, [RENEW]), may_renew=False)


def test_a_range_may_begin_before_the_start():
    known = bench()
    known.acknowledge((0, 4, ACCEPT))
    assert known.bounds == (5, 24)
    assert begun(known.share.flight, (0, 2, [ACCEPT]), (3, 6, [ACCEPT])) == [(5, 5), (6, 6)]
