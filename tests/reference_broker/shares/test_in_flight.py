"""The offsets in delivery: where to fetch next, gaps of an earlier leader, and how the start moves on.

Method: load made-up states, acquire and complete deliveries; compare with expected offsets.
"""

from __future__ import annotations

import pytest

from kafkawire.reference_broker.shares.delivery import Batch, Delivery, Lock
from kafkawire.reference_broker.shares.in_flight import Batches, InFlight
from kafkawire.reference_broker.shares.state_batches import StateBatch
from kafkawire.reference_broker.work.timers import Timers
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.tables.enums import AcknowledgeType, DeliveryState
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from tests.reference_broker.shares.share_partition_bench import LOCK_MS, SharePartitionBench, shown

AVAILABLE, ACQUIRED, ACKNOWLEDGED, ARCHIVED = DeliveryState
ACCEPT, RELEASE, REJECT, _ = AcknowledgeType

B = StateBatch


def set_lock(member_id, first_offset, last_offset, deadline_ms):
    return Lock(Timers().at(deadline_ms, lambda now_ms: None))


def loaded(start_offset, *stored):
    flight = InFlight()
    flight.load(start_offset, stored)
    return flight


def test_batches_are_found_by_offset():
    batches = Batches()
    assert not batches
    assert (batches.floor(5), batches.after(5), batches.between(0, 9)) == (None, None, [])
    made = [Batch(first, first + 4, Delivery(AVAILABLE, 1)) for first in (20, 10, 30)]
    for batch in made:
        batches.add(batch)
    b20, b10, b30 = made
    assert (list(batches), len(batches), batches.first, batches.last) == ([b10, b20, b30], 3, b10, b30)
    assert [batches.floor(offset) for offset in (9, 10, 19, 20, 99)] == [None, b10, b10, b20, b30]
    assert [batches.after(offset) for offset in (9, 10, 29, 30)] == [b10, b20, b30, None]
    assert batches.between(10, 20) == [b10, b20]
    assert batches.between(11, 29) == [b20]
    batches.drop_before(b20)
    assert list(batches) == [b20, b30]
    batches.drop_before(None)
    assert not batches


def test_nothing_in_delivery():
    flight = loaded(7)
    assert (len(flight), flight.next_fetch_offset(), flight.gaps) == (0, 7, None)
    assert not flight.advance()


@pytest.mark.parametrize(
    ("stored", "next_fetch", "gaps"),
    [
        ([B(5, 9, 1, AVAILABLE)], 5, None),
        ([B(5, 9, 1, ACKNOWLEDGED), B(10, 14, 1, AVAILABLE)], 10, None),
        ([B(8, 9, 1, ACKNOWLEDGED)], 5, (5, 9)),
        ([B(5, 6, 1, AVAILABLE), B(8, 9, 1, ARCHIVED)], 5, (7, 9)),
        ([B(5, 6, 1, ACKNOWLEDGED), B(8, 9, 1, ARCHIVED), B(10, 10, 1, AVAILABLE)], 7, (7, 10)),
    ],
)
def test_gaps_of_an_earlier_leader_are_fetched(stored, next_fetch, gaps):
    flight = loaded(5, *stored)
    assert (flight.next_fetch_offset(), flight.gaps and tuple(flight.gaps)) == (next_fetch, gaps)


def test_gaps_are_acquired_in_order():
    bench = SharePartitionBench(B(3, 4, 1, ACKNOWLEDGED), B(8, 9, 2, AVAILABLE), start_offset=0)
    assert bench.acquire((0, 2)) == [(0, 2, 1)]
    assert bench.share.next_fetch_offset() == 5
    assert bench.acquire((5, 12)) == [(5, 7, 1), (8, 9, 3), (10, 12, 1)]
    assert bench.share.flight.gaps is None
    assert bench.share.next_fetch_offset() == 13


def test_a_gap_without_records_is_passed():
    bench = SharePartitionBench(B(5, 9, 1, AVAILABLE), start_offset=0)
    assert bench.share.next_fetch_offset() == 0
    assert bench.acquire((5, 9)) == [(5, 9, 2)]
    assert bench.share.next_fetch_offset() == 10
    bench.acknowledge((5, 9, ACCEPT))
    assert bench.bounds == (10, 10)


def test_the_start_stays_before_a_gap():
    bench = SharePartitionBench(
        B(0, 4, 1, ACKNOWLEDGED), B(8, 9, 1, ACKNOWLEDGED), B(10, 10, 1, AVAILABLE), start_offset=0
    )
    assert bench.bounds == (5, 10)
    bench.acquire((5, 7))
    bench.acknowledge((5, 7, ACCEPT))
    assert bench.bounds == (10, 10)


def test_no_gap_is_left_once_all_have_been_acquired():
    bench = SharePartitionBench(
        B(5, 9, 1, ACKNOWLEDGED), start_offset=4, configs={"share.partition.max.record.locks": "3"}
    )
    bench.acquire((4, 4))
    bench.acknowledge((4, 4, ACCEPT))
    assert bench.bounds == (10, 10), "otherwise, too many offsets would be in delivery for ever"


@pytest.mark.parametrize(
    ("accepted", "bounds", "shown_after", "complete"),
    [
        ([(0, 4)], (5, 14), "5-14:acquired/1", 0),
        ([(0, 9)], (10, 14), "10-14:acquired/1", 0),
        ([(0, 14)], (15, 15), "", 0),
        ([(0, 6)], (7, 14), "5-6:acknowledged/1 7-14:acquired/1", 0),
        ([(5, 9)], (0, 14), "0-4:acquired/1 5-9:acknowledged/1 10-14:acquired/1", 5),
        ([(5, 9), (0, 4)], (10, 14), "10-14:acquired/1", 0),
        ([(0, 2), (12, 12)], (3, 14), "0-2:acknowledged/1 3-11:acquired/1 12-12:acknowledged/1 13-14:acquired/1", 1),
    ],
)
def test_the_start_moves_past_complete_deliveries(accepted, bounds, shown_after, complete):
    bench = SharePartitionBench()
    for first in (0, 5, 10):
        bench.acquire((first, first + 4))
    for first, last in accepted:
        bench.acknowledge((first, last, ACCEPT))
    assert (bench.bounds, bench.shown) == (bounds, shown_after)
    assert bench.share.flight.complete_count == complete


def test_complete_deliveries_are_counted_from_the_start_on():
    flight = loaded(5, B(5, 9, 1, AVAILABLE))
    assert [flight.count_within(*part) for part in ((0, 4), (3, 5), (5, 9), (8, 20))] == [0, 1, 5, 13]


@pytest.mark.parametrize(
    ("log_start", "bounds", "expected", "complete"),
    [
        (5, (5, 19), "5-9:available/1 10-14:acknowledged/1 15-19:available/2", 5),
        (7, (7, 19), "5-6:archived/1 7-9:available/1 10-14:acknowledged/1 15-19:available/2", 5),
        (12, (12, 19), "5-9:archived/1 10-14:acknowledged/1 15-19:available/2", 3),
        (30, (30, 30), "5-9:archived/1 10-14:acknowledged/1 15-19:archived/2", 0),
    ],
)
def test_the_log_begins_later(log_start, bounds, expected, complete):
    flight = loaded(5, B(5, 9, 1, AVAILABLE), B(10, 14, 1, ACKNOWLEDGED), B(15, 19, 2, AVAILABLE))
    flight.begin_at(log_start, set_lock)
    assert ((flight.start_offset, flight.end_offset), shown(flight)) == (bounds, expected)
    assert flight.complete_count == complete


def test_an_empty_flight_follows_the_log():
    flight = loaded(5)
    flight.begin_at(9, set_lock)
    assert (flight.start_offset, flight.next_fetch_offset()) == (9, 9)


def test_single_offsets_before_the_start_of_the_log_count_no_more():
    bench = SharePartitionBench()
    bench.acquire((0, 9))
    bench.acknowledge((2, 3, ACCEPT), (7, 7, REJECT))
    assert bench.share.flight.complete_count == 3
    bench.share.begin_at(3)
    assert bench.share.flight.complete_count == 2


def test_a_gap_before_the_start_of_the_log_is_not_fetched():
    bench = SharePartitionBench(
        B(2, 4, 1, ACKNOWLEDGED), B(8, 9, 1, ACKNOWLEDGED), B(12, 12, 1, AVAILABLE), start_offset=0
    )
    assert bench.share.next_fetch_offset() == 0
    bench.share.begin_at(6)
    assert bench.share.next_fetch_offset() == 6
    bench.share.begin_at(8)
    assert (bench.share.next_fetch_offset(), bench.bounds) == (10, (10, 12))
    bench.share.begin_at(20)
    assert bench.share.next_fetch_offset() == 20


def test_the_start_does_not_go_back_behind_that_of_the_log():
    bench = SharePartitionBench()
    bench.acquire((0, 9))
    bench.share.begin_at(20)
    bench.release()
    assert bench.bounds == (20, 20)


@pytest.mark.parametrize("is_stored", [True, False])
def test_what_was_being_released_when_the_log_moved_is_archived(is_stored):
    bench = SharePartitionBench()
    bench.acquire((0, 9))
    bench.persister.is_holding = True
    bench.persister.refusal = None if is_stored else BrokerError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "")
    bench.acknowledge((0, 9, RELEASE))
    bench.share.begin_at(5)
    bench.advance(LOCK_MS)
    while bench.persister.held:
        bench.persister.answer()
    assert bench.shown == "0-4:archived/1 5-9:available/1"
