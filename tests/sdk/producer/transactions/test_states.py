"""In each state, a transaction rests, takes batches or is ending; the state machine takes every edge of its table.

Method: check a table of the states; for each edge, bring a simulated producer to the state where the edge begins.
"""

from __future__ import annotations

import pytest

from kafkawire.sdk.errors import Closed
from kafkawire.sdk.producer.transactions.states import (
    ABORTABLE,
    ENDS,
    GOES_WELL,
    RESTS,
    TRANSACTION_EDGES,
    State,
)
from kafkawire.sdk.protocol.messages.init_producer_id import InitProducerIdRequest
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from tests.edges import taken
from tests.sdk.producer.simulated import refused
from tests.sdk.producer.transaction_coordinator import TransactionalProducer


@pytest.mark.parametrize(
    ("state", "rests", "goes_well", "ends", "is_abortable"),
    [
        (State.READY, True, False, False, False),
        (State.OPEN, False, True, False, True),
        (State.PREPARING, False, True, False, True),
        (State.PREPARED, True, False, False, True),
        (State.DOOMED, False, False, False, True),
        (State.COMMITTING, False, True, True, False),
        (State.ABORTING, False, False, True, False),
        (State.RENEWING, False, False, True, False),
        (State.FATAL, True, False, False, False),
    ],
)
def test_kinds(state: State, rests: bool, goes_well: bool, ends: bool, is_abortable: bool) -> None:
    found = [state in kind for kind in (RESTS, GOES_WELL, ENDS, ABORTABLE)]
    assert found == [rests, goes_well, ends, is_abortable]


def producer_in(state: State, version: int) -> TransactionalProducer:
    """Return a producer whose transaction is in a state; unless that is READY, a record has joined or is about to."""
    producer = TransactionalProducer(version)
    if state is State.READY:
        return producer
    producer.begin()
    if state is State.DOOMED:
        producer.refuse = refused(ErrorCode.INVALID_RECORD)
    if state is State.RENEWING:
        leave_a_gap(producer)
    producer.send("t", b"v", partition=0)
    if state not in (State.PREPARING, State.COMMITTING):
        producer.run(200)
    if state in (State.PREPARING, State.PREPARED):
        producer.ask(producer.machine.prepare, 60_000)
    if state is State.PREPARED:
        producer.run(200)
    if state is State.COMMITTING:
        producer.ask(producer.machine.commit, 60_000)
    if state in (State.ABORTING, State.RENEWING):
        producer.ask(producer.machine.abort, 60_000)
    if state is State.RENEWING:
        producer.run(200)
    if state is State.FATAL:
        producer.machine.fail(Closed("the client was closed"), producer.simulation.now_ms)
    assert producer.machine.state is state
    return producer


def leave_a_gap(producer: TransactionalProducer) -> None:
    """Let a record be numbered but not stored, and keep the epoch from being raised."""
    producer.refuse = refused(ErrorCode.NOT_ENOUGH_REPLICAS, times=50)
    producer.refusals[InitProducerIdRequest] = [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS] * 50


def lead(producer: TransactionalProducer, after: State) -> None:
    """Cause the transition to a state."""
    before, machine = producer.machine.state, producer.machine
    if after is State.FATAL:
        machine.fail(Closed("the client was closed"), producer.simulation.now_ms)
    elif after is State.OPEN:
        producer.begin()
    elif after is State.PREPARING:
        producer.ask(machine.prepare, 60_000)
    elif after is State.COMMITTING:
        producer.ask(machine.commit, 60_000)
    elif after is State.DOOMED or (before, after) == (State.COMMITTING, State.ABORTING):
        producer.refuse = refused(ErrorCode.INVALID_RECORD)
        if before is State.OPEN:
            producer.send("t", b"w", partition=0)
        producer.run(200)
    elif after is State.ABORTING:
        producer.ask(machine.commit if before is State.DOOMED else machine.abort, 60_000)
    else:
        producer.refusals.clear()
        if after is State.RENEWING and before is State.COMMITTING:
            producer.simulation.features["transaction.version"] = 2
            producer.simulation.break_connections(1)
        elif after is State.RENEWING:
            leave_a_gap(producer)
        producer.run(5_000)


@pytest.mark.parametrize(("before", "after"), list(TRANSACTION_EDGES))
def test_every_edge(before: State, after: State) -> None:
    # A producer asks for another epoch only with version 1.
    producer = producer_in(before, 1 if State.RENEWING in (before, after) else 2)
    if (before, after) == (State.ABORTING, State.RENEWING):
        producer = TransactionalProducer(1)
        producer.begin()
        leave_a_gap(producer)
        producer.send("t", b"v", partition=0)
        producer.run(200)
        producer.ask(producer.machine.abort, 60_000)
        assert producer.machine.state is before
    with taken(TRANSACTION_EDGES) as steps:
        lead(producer, after)
    assert (before, after) in steps
