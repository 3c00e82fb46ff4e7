"""A share partition delivers each record to one member at a time until it is acknowledged, and stores what changes.

Method: members of one group acquire and acknowledge made-up batches; the persister is in memory, and can hold or refuse
what it is asked.
"""

from __future__ import annotations

import pytest

from kafkawire.reference_broker.shares.share_partition import LOAD_EDGES, LoadState
from kafkawire.reference_broker.shares.share_state import ShareState
from kafkawire.reference_broker.shares.state_batches import StateBatch
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.tables.enums import AcknowledgeType, DeliveryState
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from tests.reference_broker.shares.share_partition_bench import LOCK_MS, MemoryPersister, SharePartitionBench

ACCEPT, RELEASE, REJECT, RENEW = AcknowledgeType
GAP = 0

AVAILABLE, ACQUIRED, ACKNOWLEDGED, ARCHIVED = DeliveryState

REFUSED = BrokerError(ErrorCode.FENCED_STATE_EPOCH, "")


def failure(bench: SharePartitionBench) -> BrokerError:
    """Return why the only load has failed."""
    (error,) = bench.loaded
    assert error is not None
    return error


# Loading.


def test_a_new_group_begins_where_its_configuration_says():
    bench = SharePartitionBench(load=False)
    bench.start = 7
    bench.share.load(bench.loaded.append)
    assert (bench.loaded, bench.share.state, bench.bounds) == ([None], LoadState.ACTIVE, (7, 7))
    assert bench.share.next_fetch_offset() == 7


def test_stored_deliveries_are_taken_over():
    bench = SharePartitionBench(
        StateBatch(5, 6, 2, AVAILABLE),
        StateBatch(7, 9, 1, ACKNOWLEDGED),
        StateBatch(10, 10, 5, ARCHIVED),
        start_offset=5,
    )
    assert bench.bounds == (5, 10)
    assert bench.shown == "5-6:available/2 7-9:acknowledged/1 10-10:archived/5"
    assert bench.share.flight.complete_count == 4
    assert bench.share.next_fetch_offset() == 5
    assert bench.acquire((0, 20)) == [(5, 6, 3), (11, 20, 1)]


def test_complete_deliveries_at_the_stored_start_are_passed_over():
    bench = SharePartitionBench(StateBatch(5, 9, 1, ACKNOWLEDGED), StateBatch(10, 12, 1, AVAILABLE), start_offset=5)
    assert (bench.bounds, bench.shown) == ((10, 12), "10-12:available/1")


@pytest.mark.parametrize(
    "stored", [StateBatch(2, 4, 1, AVAILABLE), StateBatch(6, 5, 1, AVAILABLE), StateBatch(6, 7, 1, 3)]
)
def test_a_damaged_state_is_refused(stored):
    bench = SharePartitionBench(stored, start_offset=5)
    assert failure(bench).code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert bench.share.state is LoadState.FAILED


@pytest.mark.parametrize(
    ("code", "told"),
    [
        (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.GROUP_ID_NOT_FOUND),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (ErrorCode.FENCED_STATE_EPOCH, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (ErrorCode.INVALID_REQUEST, ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
)
def test_errors_of_the_persister_are_told_in_other_words(code, told):
    bench = SharePartitionBench(persister=MemoryPersister(BrokerError(code, "why")))
    error = failure(bench)
    assert (error.code, error.detail) == (told, "why")
    assert bench.share.state is LoadState.FAILED
    assert (bench.acquire((0, 4)), bench.share.can_acquire) == ([], False)
    writing = SharePartitionBench()
    writing.acquire((0, 4))
    writing.persister.refusal = BrokerError(code, "why")
    assert writing.acknowledge((0, 4, ACCEPT)) == [told]


def test_a_group_whose_start_cannot_be_found_is_not_served():
    bench = SharePartitionBench(load=False)
    bench.start = BrokerError(ErrorCode.OFFSET_NOT_AVAILABLE, "")
    bench.share.load(bench.loaded.append)
    assert failure(bench).code == ErrorCode.OFFSET_NOT_AVAILABLE


def bench_in(state):
    """Return a share partition in a state, and what its persister still holds."""
    bench = SharePartitionBench(load=False)
    bench.persister.is_holding = True
    if state is not LoadState.EMPTY:
        bench.share.load(bench.loaded.append)
    if state is LoadState.FAILED:
        bench.persister.state = REFUSED
    if state in (LoadState.ACTIVE, LoadState.FAILED):
        bench.persister.answer()
    return bench


@pytest.mark.parametrize(
    ("before", "after"), [(before, after) for before, follows in LOAD_EDGES.edges.items() for after in follows]
)
def test_every_step_of_loading(before, after):
    bench = bench_in(before)
    assert bench.share.state is before
    if after is LoadState.FENCED:
        bench.share.fence()
        bench.share.fence()
    elif after is LoadState.LOADING:
        bench.share.load(bench.loaded.append)
    else:
        if after is LoadState.FAILED:
            bench.persister.state = REFUSED
        bench.persister.answer()
    assert bench.share.state is after
    while bench.persister.held:  # an answer that comes too late changes nothing
        bench.persister.answer()
    if after is not LoadState.LOADING:
        assert bench.share.state is after


# Acquiring and acknowledging.


def test_acquired_records_are_not_delivered_to_others():
    bench = SharePartitionBench()
    assert bench.acquire((0, 4)) == [(0, 4, 1)]
    assert bench.acquire((0, 4), member_id="n") == []
    assert bench.share.next_fetch_offset() == 5
    assert bench.acquire((5, 9), member_id="n") == [(5, 9, 1)]
    assert bench.shown == "0-9:acquired/1"


@pytest.mark.parametrize(
    ("acknowledged", "shown", "bounds", "stored"),
    [
        ([(0, 9, ACCEPT)], "", (10, 10), [(0, 9, 1, ACKNOWLEDGED)]),
        ([(0, 9, REJECT)], "", (10, 10), [(0, 9, 1, ARCHIVED)]),
        ([(0, 9, GAP)], "", (10, 10), [(0, 9, 1, ARCHIVED)]),
        ([(0, 9, RELEASE)], "0-9:available/1", (0, 9), [(0, 9, 1, AVAILABLE)]),
        ([(0, 3, ACCEPT)], "0-3:acknowledged/1 4-9:acquired/1", (4, 9), [(n, n, 1, ACKNOWLEDGED) for n in range(4)]),
        (
            [(4, 4, ACCEPT)],
            "0-3:acquired/1 4-4:acknowledged/1 5-9:acquired/1",
            (0, 9),
            [(4, 4, 1, ACKNOWLEDGED)],
        ),
        (
            [(0, 1, [ACCEPT, RELEASE]), (8, 9, REJECT)],
            "0-0:acknowledged/1 1-1:available/1 2-7:acquired/1 8-9:archived/1",
            (1, 9),
            [(0, 0, 1, ACKNOWLEDGED), (1, 1, 1, AVAILABLE), (8, 8, 1, ARCHIVED), (9, 9, 1, ARCHIVED)],
        ),
    ],
)
def test_acknowledgements(acknowledged, shown, bounds, stored):
    bench = SharePartitionBench()
    bench.acquire((0, 9))
    assert bench.acknowledge(*acknowledged) == [None]
    assert (bench.shown, bench.bounds) == (shown, bounds)
    (write,) = bench.persister.writes
    assert (write.state_epoch, write.leader_epoch, write.start_offset) == (3, 5, 0)
    assert write.batches == tuple(StateBatch(*part) for part in stored)
    assert bench.changes == 1


@pytest.mark.parametrize(
    ("acknowledged", "member_id", "code"),
    [
        ([(0, 9, ACCEPT)], "n", ErrorCode.INVALID_RECORD_STATE),
        ([(0, 3, ACCEPT)], "n", ErrorCode.INVALID_RECORD_STATE),
        ([(0, 10, ACCEPT)], "m", ErrorCode.INVALID_REQUEST),
        ([(20, 21, ACCEPT)], "m", ErrorCode.INVALID_REQUEST),
        ([(0, 4, ACCEPT), (3, 5, ACCEPT)], "m", ErrorCode.INVALID_RECORD_STATE),
        ([(0, 9, RELEASE), (0, 9, ACCEPT)], "m", ErrorCode.INVALID_RECORD_STATE),
    ],
)
def test_a_refused_acknowledgement_changes_nothing(acknowledged, member_id, code):
    bench = SharePartitionBench()
    bench.acquire((0, 9))
    assert bench.acknowledge(*acknowledged, member_id=member_id) == [code]
    assert (bench.shown, bench.bounds, bench.persister.writes) == ("0-9:acquired/1", (0, 9), [])
    assert bench.share.flight.complete_count == 0
    assert bench.acknowledge((0, 9, ACCEPT)) == [None]


def test_what_is_before_the_start_is_ignored():
    bench = SharePartitionBench()
    bench.acquire((0, 9))
    bench.acknowledge((0, 9, ACCEPT))
    assert bench.acknowledge((0, 9, ACCEPT)) == [None]
    assert len(bench.persister.writes) == 1


def test_released_records_are_delivered_again_and_given_up_at_last():
    bench = SharePartitionBench(configs={"share.delivery.count.limit": "3"})
    bench.acquire((0, 1))
    bench.acknowledge((0, 0, RELEASE), (1, 1, RELEASE))
    assert bench.acquire((0, 1)) == [(0, 1, 2)]
    bench.acknowledge((0, 1, RELEASE))
    assert bench.acquire((0, 1)) == [(0, 0, 3)]
    assert bench.acquire((0, 1)) == [(1, 1, 3)]
    bench.acknowledge((0, 0, RELEASE))
    assert (bench.shown, bench.bounds) == ("0-0:archived/3 1-1:acquired/3", (1, 1))
    bench.acknowledge((1, 1, RELEASE))
    assert (bench.shown, bench.bounds) == ("", (2, 2))


# Pending transitions.


def test_records_are_out_of_reach_until_the_persister_has_answered():
    bench = SharePartitionBench()
    bench.acquire((0, 4))
    bench.persister.is_holding = True
    outcomes = bench.acknowledge((0, 4, RELEASE))
    assert outcomes == []
    assert bench.acquire((0, 4), offset=0) == []
    assert bench.acknowledge((0, 4, ACCEPT)) == [ErrorCode.INVALID_RECORD_STATE]
    bench.persister.answer()
    assert outcomes == [None]
    assert bench.acquire((0, 4)) == [(0, 4, 2)]


@pytest.mark.parametrize("kind", [ACCEPT, RELEASE, REJECT])
def test_a_refusal_by_the_persister_restores_the_state_before(kind):
    bench = SharePartitionBench()
    bench.acquire((0, 4))
    bench.persister.refusal = REFUSED
    assert bench.acknowledge((0, 4, kind)) == [ErrorCode.NOT_LEADER_OR_FOLLOWER]
    assert (bench.shown, bench.share.flight.complete_count) == ("0-4:acquired/1", 0)
    bench.persister.refusal = None
    assert bench.acknowledge((0, 4, kind)) == [None]


@pytest.mark.parametrize("kind", [ACCEPT, RELEASE, REJECT])
@pytest.mark.parametrize(("limit", "shown"), [("5", "0-4:available/1"), ("2", "0-4:available/1")])
def test_a_lock_that_expires_meanwhile_frees_what_the_persister_refuses(kind, limit, shown):
    bench = SharePartitionBench(configs={"share.delivery.count.limit": limit})
    bench.acquire((0, 4))
    bench.persister.is_holding, bench.persister.refusal = True, REFUSED
    bench.acknowledge((0, 4, kind))
    bench.advance(LOCK_MS)
    bench.persister.answer()
    assert bench.shown == shown
    assert bench.acquire((0, 4), member_id="n") == [(0, 4, 2)]


# Locks.


def test_a_lock_expires():
    bench = SharePartitionBench()
    bench.acquire((0, 4))
    bench.advance(LOCK_MS - 1)
    assert bench.shown == "0-4:acquired/1"
    bench.advance(1)
    assert bench.shown == "0-4:available/1"
    assert bench.persister.writes[-1].batches == (StateBatch(0, 4, 1, AVAILABLE),)
    assert bench.changes == 1
    assert bench.acquire((0, 4), member_id="n") == [(0, 4, 2)]
    assert bench.acknowledge((0, 4, ACCEPT)) == [ErrorCode.INVALID_RECORD_STATE]


def test_locks_that_expire_together_are_stored_together():
    bench = SharePartitionBench()
    bench.acquire((0, 4))
    bench.acquire((5, 9), member_id="n")
    bench.advance(LOCK_MS)
    (write,) = bench.persister.writes
    assert write.batches == (StateBatch(0, 4, 1, AVAILABLE), StateBatch(5, 9, 1, AVAILABLE))


def test_what_has_expired_stays_so_even_if_that_is_not_stored():
    bench = SharePartitionBench()
    bench.acquire((0, 4))
    bench.persister.refusal = REFUSED
    bench.advance(LOCK_MS)
    assert bench.shown == "0-4:available/1"


def test_what_was_delivered_too_often_is_given_up_when_its_lock_expires():
    bench = SharePartitionBench(configs={"share.delivery.count.limit": "2"})
    for _ in range(2):
        bench.acquire((0, 0))
        bench.advance(LOCK_MS)
    assert (bench.shown, bench.bounds) == ("", (1, 1))
    assert bench.persister.writes[-1].batches == (StateBatch(0, 0, 2, ARCHIVED),)


def test_a_lock_is_renewed():
    bench = SharePartitionBench()
    bench.acquire((0, 4))
    bench.advance(LOCK_MS - 1)
    assert bench.acknowledge((0, 1, RENEW)) == [None]
    assert bench.persister.writes == []
    bench.advance(1)
    assert bench.shown == "0-1:acquired/1 2-4:available/1"
    bench.advance(LOCK_MS - 1)
    assert bench.shown == "0-4:available/1"


def test_locks_are_not_renewed_unless_the_group_may():
    bench = SharePartitionBench(configs={"share.renew.acknowledge.enable": "false"})
    bench.acquire((0, 4))
    assert bench.acknowledge((0, 4, RENEW)) == [ErrorCode.INVALID_RECORD_STATE]


# The end of a session.


def test_what_a_member_has_acquired_is_released():
    bench = SharePartitionBench()
    bench.acquire((0, 4))
    bench.acquire((5, 9), member_id="n")
    bench.acquire((10, 14))
    bench.acknowledge((11, 12, ACCEPT))
    assert bench.release() == [None]
    assert bench.shown == "0-4:available/1 5-9:acquired/1 10-10:available/1 11-12:acknowledged/1 13-14:available/1"
    assert bench.release("nobody") == [None]


def test_a_fenced_share_partition_is_used_no_more():
    bench = SharePartitionBench()
    bench.acquire((0, 4))
    bench.share.fence()
    bench.advance(LOCK_MS)
    assert (bench.shown, bench.persister.writes) == ("0-4:acquired/1", [])
    assert (bench.acquire((5, 9)), bench.share.can_acquire) == ([], False)


# The start of the log.


def test_the_start_follows_that_of_the_log():
    bench = SharePartitionBench()
    bench.acquire((0, 4))
    bench.acquire((5, 9))
    bench.acknowledge((5, 9, RELEASE))
    bench.share.begin_at(7)
    assert bench.bounds == (7, 9)
    assert bench.acknowledge((0, 4, ACCEPT)) == [None]
    assert bench.acquire((5, 9), member_id="n") == [(7, 9, 2)]
    bench.share.begin_at(3)
    assert bench.bounds == (7, 9)
    bench.advance(LOCK_MS)
    assert bench.acquire((0, 9), offset=0) == [(7, 9, 3)]


def test_the_release_of_what_the_log_has_lost_archives_it():
    bench = SharePartitionBench()
    bench.acquire((0, 9))
    bench.acquire((10, 12))
    bench.share.begin_at(4)
    bench.release()
    assert bench.shown == "0-3:archived/1 4-12:available/1"
    other = SharePartitionBench()
    other.acquire((0, 3))
    other.acquire((4, 9))
    other.share.begin_at(4)
    other.release()
    assert other.shown == "0-3:archived/1 4-9:available/1"


# Limits.


def test_only_so_many_offsets_are_in_delivery():
    bench = SharePartitionBench(configs={"share.partition.max.record.locks": "100"})
    assert bench.acquire((0, 99)) == [(0, 99, 1)]
    assert not bench.share.can_acquire
    assert bench.acquire((100, 101)) == []
    bench.acknowledge((5, 5, RELEASE))
    assert bench.share.can_acquire
    assert bench.acquire((0, 99), (100, 101)) == [(5, 5, 2)]
    bench.acknowledge((0, 0, ACCEPT))
    assert bench.acquire((100, 101)) == [(100, 101, 1)]


# After a restart.


def test_another_leader_continues_with_what_was_stored():
    bench = SharePartitionBench()
    bench.acquire((0, 4))
    bench.acquire((5, 9))
    bench.acknowledge((0, 1, ACCEPT), (3, 3, REJECT), (5, 9, RELEASE))
    state = bench.persister.state
    assert isinstance(state, ShareState)
    again = SharePartitionBench(persister=bench.persister)
    assert again.bounds == (2, 9)
    assert again.acquire((0, 4), (5, 9)) == [(2, 2, 1), (4, 4, 1), (5, 9, 2)]
