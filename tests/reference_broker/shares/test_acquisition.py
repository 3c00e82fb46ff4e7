"""Which records an acquisition delivers: whole batches or a limited number, and fewer after failed deliveries.

Method: acquire made-up batches; the expected ranges are those of Apache Kafka's `SharePartition`.
"""

from __future__ import annotations

import pytest

from kafkawire.reference_broker.shares.fetched_batches import FetchedBatch
from kafkawire.reference_broker.shares.state_batches import StateBatch
from kafkawire.sdk.protocol.tables.enums import AcknowledgeType, DeliveryState
from kafkawire.sdk.storage.transaction_index import AbortedTransaction
from tests.reference_broker.shares.share_partition_bench import SharePartitionBench

AVAILABLE, ACQUIRED, ACKNOWLEDGED, ARCHIVED = DeliveryState
ACCEPT, RELEASE, REJECT, _ = AcknowledgeType

TEN = [(first, first + 9) for first in range(0, 50, 10)]


# New records.


@pytest.mark.parametrize(
    ("wanted", "ranges"),
    [
        ({}, [(0, 49, 1)]),
        ({"records_max": 10}, [(0, 9, 1)]),
        ({"records_max": 1}, [(0, 9, 1)]),
        ({"records_max": 11}, [(0, 19, 1)]),
        ({"records_max": 0}, []),
        ({"batch_size": 10}, [(0, 9, 1), (10, 19, 1), (20, 29, 1), (30, 39, 1), (40, 49, 1)]),
        ({"batch_size": 15}, [(0, 19, 1), (20, 39, 1), (40, 49, 1)]),
        ({"batch_size": 1, "records_max": 15}, [(0, 9, 1), (10, 19, 1)]),
        ({"records_max": 10, "is_limited": True}, [(0, 9, 1)]),
        ({"records_max": 13, "is_limited": True}, [(0, 12, 1)]),
        ({"records_max": 3, "is_limited": True, "batch_size": 1}, [(0, 2, 1)]),
    ],
)
def test_new_records(wanted, ranges):
    bench = SharePartitionBench()
    assert bench.acquire(*TEN, **wanted) == ranges
    assert bench.share.next_fetch_offset() == (ranges[-1][1] + 1 if ranges else 0)


def test_nothing_is_fetched():
    assert SharePartitionBench().acquire() == []


def test_what_was_fetched_before_the_start_is_not_acquired():
    bench = SharePartitionBench(start_offset=20)
    assert bench.acquire((0, 9), (10, 19)) == []
    assert bench.acquire((15, 24)) == [(20, 24, 1)]


def test_what_is_before_the_start_of_the_log_is_not_acquired():
    bench = SharePartitionBench()
    bench.acquire((0, 3))
    bench.acquire((4, 4))
    bench.share.begin_at(7)
    assert bench.acquire((4, 9)) == [(7, 9, 1)], "the rest of the first batch is in delivery"
    other = SharePartitionBench()
    other.acquire((0, 3))
    other.share.begin_at(7)
    assert other.acquire((5, 9)) == [(7, 9, 1)]


def test_the_rest_of_a_divided_batch_is_available():
    bench = SharePartitionBench()
    bench.acquire((0, 9), records_max=4, is_limited=True)
    assert bench.shown == "0-3:acquired/1 4-9:available/0"
    assert bench.share.next_fetch_offset() == 4
    assert bench.acquire((0, 9), member_id="n", records_max=4, is_limited=True) == [(4, 7, 1)]
    assert bench.acquire((0, 9), (10, 19)) == [(8, 9, 1), (10, 19, 1)]


def test_records_that_were_compacted_away_are_acquired_as_part_of_a_batch():
    bench = SharePartitionBench()
    assert bench.acquire((3, 5), (8, 9)) == [(3, 9, 1)]
    assert bench.bounds == (3, 9)


# Released records.


def bench_with_counts(*counts, limit=5):
    """Return a share partition with batches of ten available records that have been delivered so often."""
    stored = [StateBatch(10 * at, 10 * at + 9, count, AVAILABLE) for at, count in enumerate(counts)]
    return SharePartitionBench(*stored, start_offset=0, configs={"share.delivery.count.limit": str(limit)})


@pytest.mark.parametrize(
    ("counts", "wanted", "ranges"),
    [
        ((1, 1), {}, [(0, 9, 2), (10, 19, 2), (20, 49, 1)]),
        ((1, 1), {"records_max": 10}, [(0, 9, 2)]),
        ((1, 1), {"records_max": 12}, [(0, 9, 2), (10, 19, 2)]),
        ((1, 1), {"records_max": 12, "is_limited": True}, [(0, 9, 2), (10, 11, 2)]),
        ((2, 1), {}, [(0, 9, 3), (10, 19, 2), (20, 49, 1)]),
        # From half of the maximum number on, parts are smaller, and come alone.
        ((3, 1), {}, [(0, 4, 4)]),
        ((1, 3), {}, [(0, 9, 2)]),
        # For the last time, each record comes alone.
        ((4, 1), {}, [(0, 0, 5)]),
    ],
)
def test_released_records(counts, wanted, ranges):
    assert bench_with_counts(*counts).acquire(*TEN, **wanted) == ranges


def test_parts_get_smaller_with_every_delivery():
    bench = bench_with_counts(5, limit=10)
    assert bench.acquire((0, 9)) == [(0, 4, 6)]
    assert bench.acquire((0, 9)) == [(5, 9, 6)]
    for size, count in ((2, 7), (1, 8), (1, 9), (1, 10)):
        bench.acknowledge((0, size if count == 8 else 4 if count == 7 else 0, RELEASE))
        assert bench.acquire((0, 9)) == [(0, size - 1, count)]


def test_two_deliveries_are_too_few_for_parts():
    bench = bench_with_counts(1, limit=2)
    assert bench.acquire((0, 9)) == [(0, 9, 2)]


def test_single_offsets_are_acquired():
    bench = SharePartitionBench()
    bench.acquire((0, 9))
    bench.acknowledge((0, 1, ACCEPT), (4, 5, RELEASE), (8, 8, RELEASE))
    assert bench.acquire((0, 9), (10, 12)) == [(4, 5, 2), (8, 8, 2), (10, 12, 1)]


def test_a_batch_that_was_fetched_in_part_is_acquired_in_part():
    bench = bench_with_counts(1, 1)
    assert bench.acquire((5, 12), offset=5) == [(5, 9, 2), (10, 12, 2)]
    assert bench.acquire(*TEN[:2]) == [(0, 4, 2), (13, 19, 2)]


# Records that the log has lost.


def test_available_records_that_are_gone_are_archived():
    bench = bench_with_counts(1, 1, 1)
    assert bench.acquire((15, 29), offset=0) == [(15, 19, 2), (20, 29, 2)]
    assert bench.shown == "0-14:archived/1 15-29:acquired/2"
    assert bench.share.flight.complete_count == 15


# Aborted transactions.


def test_aborted_records_are_archived():
    bench = SharePartitionBench()
    batches = [
        FetchedBatch(0, 1),
        FetchedBatch(2, 4, producer_id=7, is_transactional=True),
        FetchedBatch(5, 6),
        FetchedBatch(7, 7, producer_id=7, is_abort=True),
    ]
    assert bench.acquire(*batches, aborted=[AbortedTransaction(7, 2, 7, 0)]) == [(0, 1, 1), (5, 7, 1)]
    assert bench.shown == "0-1:acquired/1 2-4:archived/1 5-7:acquired/1"
    assert bench.share.flight.complete_count == 3
    bench.acknowledge((0, 1, ACCEPT), (5, 6, ACCEPT), (7, 7, 0))
    assert bench.bounds == (8, 8)


def test_only_aborted_records():
    bench = SharePartitionBench()
    batch = FetchedBatch(0, 4, producer_id=7, is_transactional=True)
    assert bench.acquire(batch, aborted=[AbortedTransaction(7, 0, 9, 0)]) == []
    assert bench.shown == "0-4:archived/1"
