"""Each transaction ends, and each call ends within its limit, even if coordinators come, go and fall silent.

Method: run the producer's state machines with a simulated coordinator that moves and loses responses, and with seeded
random faults and applications.
"""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from kafkawire.sdk.errors import (
    Closed,
    RequestTimedOut,
    TransactionAborted,
)
from kafkawire.sdk.producer.transactions.machine import State
from kafkawire.sdk.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from kafkawire.sdk.protocol.messages.end_txn import EndTxnRequest
from kafkawire.sdk.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest
from kafkawire.sdk.protocol.schema import Message
from kafkawire.sdk.protocol.tables.enums import END_TXN_LAST_BEFORE_TV_2
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from tests.sdk.producer.simulated import outcome_of, refused
from tests.sdk.producer.transaction_coordinator import BOTH, TransactionalProducer, error_of, versions_of
from tests.sdk.simulation import SILENT
from tests.thorough import sampled


@BOTH
@pytest.mark.parametrize("kind", [AddPartitionsToTxnRequest, TxnOffsetCommitRequest, EndTxnRequest])
def test_a_response_is_lost(version: int, kind: type[Message]) -> None:
    producer = TransactionalProducer(version)
    producer.begin()
    producer.send("t", b"v", partition=1)
    producer.lost = [kind]
    producer.send_offset(4)
    assert error_of(producer.commit()) is None
    assert producer.all_committed() == [b"v"]
    producer.begin()
    producer.send("t", b"w", partition=1)
    producer.lost = [kind]
    producer.send_offset(5)
    assert error_of(producer.abort()) is None
    producer.begin()
    producer.send("t", b"x", partition=1)
    assert error_of(producer.commit()) is None
    assert producer.all_committed() == [b"v", b"x"]


@BOTH
def test_the_coordinator_moves_and_its_broker_is_gone(version: int) -> None:
    producer = TransactionalProducer(version)
    producer.begin()
    producer.send("t", b"v", partition=1)
    producer.run(100)
    producer.simulation.down.add(1)
    producer.simulation.break_connections(1)
    producer.coordinator = 3
    producer.send("t", b"w", partition=2)
    assert error_of(producer.commit()) is None
    assert producer.all_committed() == [b"v", b"w"]


@BOTH
def test_a_commit_keeps_its_limit_and_goes_on(version: int) -> None:
    producer = TransactionalProducer(version)
    producer.begin()
    producer.send("t", b"v", partition=0)
    producer.run(100)
    producer.refusals[EndTxnRequest] = [SILENT]
    promise = producer.commit(2_000, timeout_ms=2_000)
    error = error_of(promise)
    assert isinstance(error, RequestTimedOut)
    assert "after 2000 ms the transaction is still being committed; the operation continues" in str(error)
    waiting = producer.ask(producer.machine.await_end, 60_000)
    short = producer.ask(producer.machine.await_end, 1_000)
    again = producer.ask(producer.machine.commit, 60_000)
    producer.run(1_000)
    assert isinstance(error_of(short), RequestTimedOut)
    assert not waiting.done
    producer.run(60_000)
    assert (error_of(waiting), error_of(again)) == (None, None)
    assert error_of(producer.ask(producer.machine.commit, 100)) is None, "the call must report the outcome"
    assert producer.all_committed() == [b"v"]
    producer.begin()
    assert producer.machine.state is State.OPEN


@BOTH
def test_a_commit_outlives_a_coordinator_that_is_away_for_minutes(version: int) -> None:
    producer = TransactionalProducer(version)
    producer.begin()
    producer.send("t", b"v", partition=1)
    producer.run(100)
    producer.coordinator = 9
    producer.simulation.down.add(9)
    producer.simulation.break_connections(1)
    promise = producer.commit(150_000)
    assert isinstance(error_of(promise), RequestTimedOut)
    producer.coordinator = 2
    producer.run(60_000)
    assert producer.all_committed() == [b"v"]
    assert producer.machine.state is State.READY


@BOTH
def test_offsets_that_get_no_answer_doom_the_transaction(version: int) -> None:
    producer = TransactionalProducer(version)
    producer.begin()
    producer.refusals[TxnOffsetCommitRequest] = [SILENT] * 3
    promise = producer.send_offset(4, 1_000, timeout_ms=1_000)
    assert isinstance(error_of(promise), RequestTimedOut)
    assert isinstance(error_of(producer.commit()), TransactionAborted)
    assert producer.offsets == {}


def test_nothing_may_have_begun() -> None:
    """With version 1, unanswered requests may have added no partition; the coordinator then rejects the abort."""
    producer = TransactionalProducer(1, api_timeout_ms=1_000)
    producer.begin()
    producer.refusals[AddPartitionsToTxnRequest] = [SILENT] * 2
    producer.send("t", b"v", partition=0)
    producer.run(1_500)
    assert producer.machine.state is State.DOOMED
    assert error_of(producer.abort(40_000)) is None
    assert len(producer.simulation.requests(EndTxnRequest)) == 1
    producer.begin()


@BOTH
def test_an_abort_waits_for_what_is_on_its_way(version: int) -> None:
    producer = TransactionalProducer(version)
    producer.begin()
    producer.send("t", b"first", partition=0)
    producer.run(100)
    producer.simulation.latency_ms = 200
    delivery = producer.send("t", b"on its way", partition=0)
    producer.run(1)
    promise = producer.abort(100)
    assert not promise.done
    assert not producer.simulation.requests(EndTxnRequest)
    producer.run(1_000)
    assert error_of(promise) is None
    assert not isinstance(outcome_of(delivery), Exception)
    assert producer.all_committed() == []


@BOTH
def test_a_retriable_answer_after_an_abort_is_final(version: int) -> None:
    producer = TransactionalProducer(version)
    producer.begin()
    producer.send("t", b"first", partition=0)
    producer.run(100)
    producer.refuse = refused(ErrorCode.NOT_ENOUGH_REPLICAS)
    producer.simulation.latency_ms = 50
    delivery = producer.send("t", b"v", partition=0)
    producer.run(1)
    promise = producer.abort(200)
    assert isinstance(outcome_of(delivery), TransactionAborted), "the batch must not be sent again"
    assert error_of(promise) is None
    assert len(producer.values()) == 0
    assert producer.accumulator.bytes_held == 0


@BOTH
@pytest.mark.parametrize("state", ["open", "committing", "ready", "doomed"])
def test_the_end_of_the_producer(version: int, state: str) -> None:
    producer = TransactionalProducer(version)
    producer.begin()
    if state == "doomed":
        producer.refuse = refused(ErrorCode.INVALID_RECORD)
    producer.send("t", b"v", partition=0)
    producer.run(200)
    if state in ("committing", "ready"):
        producer.commit(0 if state == "committing" else 1_000)
    promise = producer.ask(producer.machine.finish, 5_000)
    producer.run(1_000)
    assert error_of(promise) is None
    assert producer.state in (("commit",) if state in ("committing", "ready") else ("abort", "empty"))
    assert bool(producer.all_committed()) == (producer.state == "commit")


@BOTH
def test_the_client_ends_in_the_middle(version: int) -> None:
    producer = TransactionalProducer(version)
    producer.begin()
    producer.send("t", b"v", partition=0)
    producer.run(100)
    offsets = producer.send_offset(3, 0)
    promise = producer.commit(0)
    producer.simulation.close()
    assert isinstance(error_of(promise), Closed)
    assert isinstance(error_of(offsets), Closed)
    assert isinstance(error_of(producer.ask(producer.machine.begin)), Closed)


def test_the_cluster_goes_over_to_version_2() -> None:
    producer = TransactionalProducer(1)
    producer.begin()
    producer.send("t", b"v", partition=0)
    producer.run(100)
    producer.simulation.features["transaction.version"] = 2
    producer.simulation.break_connections(1)
    assert error_of(producer.commit()) is None
    assert producer.machine.state is State.READY
    assert producer.epoch == 1, "the next version must begin with its own epoch"
    producer.version = 2
    producer.begin()
    producer.send("t", b"w", partition=0)
    assert error_of(producer.commit()) is None
    assert producer.all_committed() == [b"v", b"w"]
    assert max(versions_of(producer, EndTxnRequest)) > END_TXN_LAST_BEFORE_TV_2


@BOTH
@pytest.mark.parametrize("seed", sampled(range(30), 3))
def test_whatever_happens_what_is_committed_is_what_commit_said(version: int, seed: int) -> None:
    random = Random(seed)
    producer = TransactionalProducer(version, batch_size=256, fraction=random.random)
    retriable = [
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ]
    others = [ErrorCode.INVALID_RECORD, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.TRANSACTION_ABORTABLE]

    def refuse(topic: str, number: int, batch: Any) -> int:
        draw = random.random()
        return random.choice(retriable) if draw < 0.1 else random.choice(others) if draw < 0.12 else 0

    producer.refuse = refuse
    expected: list[bytes] = []
    for transaction in range(25):
        producer.begin()
        values = [b"%d-%d" % (transaction, number) for number in range(random.randrange(12))]
        for value in values:
            try:
                producer.send("t", value, partition=random.randrange(3))
            except TransactionAborted:
                break
            producer.run(random.choice([0, 0, 1, 20]))
            if random.random() < 0.05:
                node = random.choice(producer.nodes)
                producer.simulation.break_connections(node)
            if random.random() < 0.05:
                producer.coordinator = random.choice(producer.nodes)
            if random.random() < 0.1:
                producer.lost.append(random.choice([EndTxnRequest, AddPartitionsToTxnRequest]))
        if random.random() < 0.3:
            assert error_of(producer.abort(200_000)) is None, f"seed {seed}"
        else:
            error = error_of(producer.commit(200_000))
            assert error is None or isinstance(error, TransactionAborted), f"seed {seed}: {error!r}"
            expected += values if error is None else []
        producer.lost.clear()
        assert producer.accumulator.bytes_held == 0, f"seed {seed}"
    assert producer.all_committed() == sorted(expected), f"seed {seed}"
    assert expected
