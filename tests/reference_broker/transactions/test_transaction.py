"""A transaction's transitions depend on its state and on the requesting producer, in both versions of the protocol.

Method: check tables that cover every state; `test_coordinator.py` covers whole transactions.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

import pytest

from kafkawire.reference_broker.transactions.transaction import (
    LAST_EPOCH,
    TRANSACTION_EDGES,
    NeedsProducerId,
    ProducerIdAndEpoch,
    Transaction,
    state_name,
)
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.tables.enums import TransactionState
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.states import RefusedEdge

State = TransactionState

BASE = Transaction("t", 5, epoch=3, previous_producer_id=5, timeout_ms=1_000, start_ms=0)

#: The result of an EndTxn: a state, None if nothing changes, or an error.
INVALID, CONCURRENT, FENCED = (
    ErrorCode.INVALID_TXN_STATE,
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.PRODUCER_FENCED,
)


def ended(state, epoch, is_commit, version):
    transaction = replace(BASE, state=state)
    try:
        found = transaction.end(ProducerIdAndEpoch(5, epoch), is_commit, version, None, 9)
    except BrokerError as error:
        return error.code
    return None if found is None else found.state


@pytest.mark.parametrize(
    ("state", "commit", "abort"),
    [
        (State.EMPTY, INVALID, INVALID),
        (State.ONGOING, State.PREPARE_COMMIT, State.PREPARE_ABORT),
        (State.PREPARE_COMMIT, CONCURRENT, CONCURRENT),
        (State.PREPARE_ABORT, CONCURRENT, CONCURRENT),
        (State.COMPLETE_COMMIT, None, INVALID),
        (State.COMPLETE_ABORT, INVALID, None),
    ],
)
def test_ends_of_version_1(state, commit, abort):
    assert (ended(state, 3, True, 0), ended(state, 3, False, 0)) == (commit, abort)
    assert (ended(state, 2, True, 0), ended(state, 4, False, 0)) == (FENCED, FENCED)


@pytest.mark.parametrize(
    ("state", "commit", "abort"),
    [
        (State.EMPTY, INVALID, State.PREPARE_ABORT),
        (State.ONGOING, State.PREPARE_COMMIT, State.PREPARE_ABORT),
        (State.PREPARE_COMMIT, CONCURRENT, CONCURRENT),
        (State.PREPARE_ABORT, CONCURRENT, CONCURRENT),
        (State.COMPLETE_COMMIT, INVALID, State.PREPARE_ABORT),
        (State.COMPLETE_ABORT, INVALID, State.PREPARE_ABORT),
    ],
)
def test_ends_of_version_2(state, commit, abort):
    assert (ended(state, 3, True, 2), ended(state, 3, False, 2)) == (commit, abort)


@pytest.mark.parametrize(
    ("state", "commit", "abort"),
    [
        (State.EMPTY, FENCED, FENCED),
        (State.ONGOING, FENCED, FENCED),
        (State.COMPLETE_COMMIT, None, INVALID),
        (State.COMPLETE_ABORT, INVALID, None),
    ],
)
def test_repeated_ends_of_version_2(state, commit, abort):
    assert (ended(state, 2, True, 2), ended(state, 2, False, 2)) == (commit, abort)
    assert ended(state, 1, True, 2) == FENCED


def test_another_id():
    for version in (0, 2):
        with pytest.raises(BrokerError, match="INVALID_PRODUCER_ID_MAPPING"):
            BASE.end(ProducerIdAndEpoch(9, 3), True, version, None, 0)


def test_only_the_last_epoch_of_an_id_ends_what_its_successor_has():
    """An older producer learns nothing about another producer's transaction."""
    renewed = replace(BASE, epoch=0, previous_producer_id=4, state=State.COMPLETE_COMMIT)
    assert renewed.end(ProducerIdAndEpoch(4, LAST_EPOCH), True, 2, None, 0) is None
    with pytest.raises(BrokerError, match="INVALID_PRODUCER_ID_MAPPING"):
        renewed.end(ProducerIdAndEpoch(4, LAST_EPOCH - 1), True, 2, None, 0)


def test_a_step_keeps_what_was_before():
    step = BASE.with_partitions([("a", 0)], 2, 9)
    assert (step.previous_producer_id, step.updated_ms, step.start_ms) == (5, 9, 9)
    again = step.with_partitions([("b", 0)], 2, 20)
    assert (again.start_ms, again.partitions) == (9, {("a", 0), ("b", 0)})
    prepared = again.end(ProducerIdAndEpoch(5, 3), True, 2, None, 30)
    assert prepared is not None
    assert (prepared.epoch, prepared.last_epoch, prepared.start_ms, prepared.is_commit) == (4, 3, 9, True)
    assert prepared.completed(40).producer == (5, 4)
    ended = BASE.end(ProducerIdAndEpoch(5, 3), False, 2, None, 30)
    assert ended is not None
    assert ended.start_ms == 30


def test_the_last_epoch_needs_a_new_id():
    last = replace(BASE, epoch=LAST_EPOCH, state=State.ONGOING)
    with pytest.raises(NeedsProducerId, match=r"COORDINATOR_NOT_AVAILABLE.*needs an unused producer id"):
        last.aborted(None, 0)
    prepared = last.aborted(6, 0)
    assert (prepared.producer, prepared.next_producer_id) == ((5, LAST_EPOCH + 1), 6)
    done = prepared.completed(0)
    assert (done.producer, done.previous_producer_id, done.next_producer_id) == ((6, 0), 5, -1)
    ended = last.end(ProducerIdAndEpoch(5, LAST_EPOCH), True, 0, None, 0)
    assert ended is not None
    assert ended.epoch == LAST_EPOCH, "version 1 does not raise the epoch"
    with pytest.raises(NeedsProducerId):
        replace(last, state=State.EMPTY).initialized(1, None, None, 0)
    with pytest.raises(BrokerError, match="PRODUCER_FENCED"):
        replace(last, state=State.EMPTY).initialized(1, ProducerIdAndEpoch(5, 7), 6, 0)


def test_expiry_and_timeouts():
    assert [state for state in State if replace(BASE, state=state).can_expire] == [
        State.EMPTY,
        State.COMPLETE_COMMIT,
        State.COMPLETE_ABORT,
    ]
    open_ = replace(BASE, state=State.ONGOING)
    assert (open_.has_timed_out(1_000), open_.has_timed_out(1_001), BASE.has_timed_out(9_999)) == (False, True, False)


def test_names():
    assert [state_name(state) for state in State] == [
        "Empty",
        "Ongoing",
        "PrepareCommit",
        "PrepareAbort",
        "CompleteCommit",
        "CompleteAbort",
        "Dead",
        "PrepareEpochFence",
    ]


def committed(transaction):
    prepared = transaction.end(ProducerIdAndEpoch(5, 3), True, 2, None, 0)
    assert prepared is not None
    return prepared


#: The step that leads to each state from any other state; only a commit is checked first.
STEPS = {
    State.EMPTY: lambda transaction: transaction.initialized(1, None, None, 0),
    State.ONGOING: lambda transaction: transaction.with_partitions([("a", 0)], 2, 0),
    State.PREPARE_ABORT: lambda transaction: transaction.aborted(None, 0),
    State.COMPLETE_COMMIT: lambda transaction: transaction.completed(0),
    State.COMPLETE_ABORT: lambda transaction: transaction.completed(0),
}


@pytest.mark.parametrize(("before", "after"), list(TRANSACTION_EDGES))
def test_every_edge(before, after):
    step = committed if after is State.PREPARE_COMMIT else STEPS[after]
    assert step(replace(BASE, state=before)).state is after


@pytest.mark.parametrize("before", State)
@pytest.mark.parametrize("after", STEPS)
def test_no_other_edge(before, after):
    """As in Kafka, if a state that is never stored is nevertheless read from a log, it allows no step."""
    found = None
    with suppress(RefusedEdge):
        found = STEPS[after](replace(BASE, state=before)).state
    assert found is None or (before, found) in TRANSACTION_EDGES
    assert (found is None) or before not in (State.DEAD, State.PREPARE_EPOCH_FENCE)
