"""A leader knows the committed ISR, and the ISR that may result from the pending change.

Method: check a table with one row for each answer of the controller in each state; the expected ISRs are spelled out.
"""

import pytest

from kafkawire.reference_broker.replicas.in_sync import CommittedIsr, InSync, IsrState
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.states import RefusedEdge

REJECTIONS = [ErrorCode.INELIGIBLE_REPLICA, ErrorCode.OPERATION_NOT_ATTEMPTED]
OUTDATED = [
    ErrorCode.FENCED_LEADER_EPOCH,
    ErrorCode.INVALID_UPDATE_VERSION,
    ErrorCode.INVALID_REQUEST,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.NEW_LEADER_ELECTED,
]
AGAIN = [ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.NOT_CONTROLLER, ErrorCode.REQUEST_TIMED_OUT]


def expanding():
    in_sync = InSync((1, 2), leader_epoch=4, partition_epoch=9)
    return in_sync, in_sync.expand(3)


def shrinking():
    in_sync = InSync((1, 2), leader_epoch=4, partition_epoch=9)
    return in_sync, in_sync.shrink([2])


def test_a_replica_that_joins_counts_from_the_request_on():
    in_sync, proposed = expanding()
    assert proposed == ((1, 2, 3), 4, 9)
    assert (in_sync.state, in_sync.isr, in_sync.maximal) == (IsrState.EXPANDING, (1, 2), {1, 2, 3})


def test_a_replica_that_leaves_counts_until_the_answer():
    in_sync, proposed = shrinking()
    assert proposed == ((1,), 4, 9)
    assert (in_sync.state, in_sync.isr, in_sync.maximal) == (IsrState.SHRINKING, (1, 2), {1, 2})


def test_a_change_keeps_the_order_of_the_controller():
    in_sync = InSync((3, 1, 2), leader_epoch=0, partition_epoch=0)
    assert in_sync.shrink([1]).isr == (3, 2)


@pytest.mark.parametrize("begin", [expanding, shrinking])
def test_the_answer_commits(begin):
    in_sync, proposed = begin()
    assert not in_sync.answered(proposed, CommittedIsr((1, 3), 4, 10))
    assert (in_sync.state, in_sync.isr, in_sync.maximal) == (IsrState.COMMITTED, (1, 3), {1, 3})
    assert (in_sync.partition_epoch, in_sync.proposed) == (10, None)


def test_an_answer_that_changes_nothing_commits():
    in_sync, proposed = expanding()
    in_sync.answered(proposed, CommittedIsr((1, 2), 4, 9))
    assert (in_sync.state, in_sync.maximal) == (IsrState.COMMITTED, {1, 2})


@pytest.mark.parametrize("code", REJECTIONS)
@pytest.mark.parametrize("begin", [expanding, shrinking])
def test_a_rejection_restores_the_committed_isr(begin, code):
    in_sync, proposed = begin()
    assert not in_sync.answered(proposed, code)
    assert (in_sync.state, in_sync.isr, in_sync.maximal) == (IsrState.COMMITTED, (1, 2), {1, 2})
    assert in_sync.expand(3).partition_epoch == 9


@pytest.mark.parametrize("answer", [*OUTDATED, CommittedIsr((1, 2, 3), 5, 11), CommittedIsr((1, 2), 4, 8)])
@pytest.mark.parametrize(("begin", "maximal"), [(expanding, {1, 2, 3}), (shrinking, {1, 2})])
def test_only_a_new_term_tells_the_isr_of_an_outdated_leader(begin, maximal, answer):
    in_sync, proposed = begin()
    assert not in_sync.answered(proposed, answer)
    assert (in_sync.state, in_sync.isr, in_sync.maximal) == (IsrState.UNKNOWN, (1, 2), maximal)
    with pytest.raises(RefusedEdge):
        in_sync.expand(5)
    in_sync.begin((1,), 5, 12)
    assert (in_sync.state, in_sync.maximal, in_sync.leader_epoch) == (IsrState.COMMITTED, {1}, 5)


@pytest.mark.parametrize("code", AGAIN)
@pytest.mark.parametrize("begin", [expanding, shrinking])
def test_any_other_error_repeats_the_change(begin, code):
    in_sync, proposed = begin()
    before = in_sync.state, in_sync.maximal
    assert in_sync.answered(proposed, code)
    assert (in_sync.state, in_sync.maximal) == before
    assert in_sync.proposed is proposed


@pytest.mark.parametrize("answer", [CommittedIsr((1, 2, 3), 4, 10), *REJECTIONS, *OUTDATED, *AGAIN])
@pytest.mark.parametrize("begin", [expanding, shrinking])
def test_an_answer_after_a_new_term_has_no_effect(begin, answer):
    in_sync, proposed = begin()
    in_sync.begin((1, 2), 5, 10)
    later = in_sync.expand(7)
    assert not in_sync.answered(proposed, answer)
    assert (in_sync.state, in_sync.maximal, in_sync.proposed) == (IsrState.EXPANDING, {1, 2, 7}, later)


def test_a_new_term_without_a_change_under_way():
    in_sync = InSync((1, 2), leader_epoch=4, partition_epoch=9)
    in_sync.begin((1, 2, 3), 5, 10)
    assert (in_sync.state, in_sync.maximal, in_sync.partition_epoch) == (IsrState.COMMITTED, {1, 2, 3}, 10)


def test_one_change_at_a_time():
    in_sync, _ = expanding()
    with pytest.raises(RefusedEdge, match="cannot become SHRINKING while it is EXPANDING"):
        in_sync.shrink([2])
