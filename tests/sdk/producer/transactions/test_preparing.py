"""Everything in a prepared transaction is stored, and the transaction stays open until a client ends it.

Method: run the producer's state machines with a simulated coordinator; test_prepared.py tests how a prepared
transaction is ended from outside.
"""

from __future__ import annotations

import pytest

from kafkawire.sdk.errors import LocalProtocolError, RequestTimedOut, TransactionAborted
from kafkawire.sdk.producer.identity import ProducerId
from kafkawire.sdk.producer.transactions.machine import State
from kafkawire.sdk.producer.transactions.prepared import PreparedTransaction
from kafkawire.sdk.protocol.messages.end_txn import EndTxnRequest
from kafkawire.sdk.protocol.messages.produce import ProduceRequest
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.transport.promise import Promise
from tests.sdk.producer.simulated import refused
from tests.sdk.producer.transaction_coordinator import BOTH, ID, TransactionalProducer, error_of
from tests.sdk.simulation import SILENT


def prepare(producer: TransactionalProducer, duration_ms: int = 5_000, timeout_ms: int = 60_000) -> Promise[None]:
    promise = producer.ask(producer.machine.prepare, timeout_ms)
    producer.run(duration_ms)
    return promise


def prepared(version: int) -> TransactionalProducer:
    """Return a producer with a prepared transaction that has a record and an offset."""
    producer = TransactionalProducer(version)
    producer.begin()
    producer.send("t", b"v", partition=0)
    producer.send_offset(5)
    assert error_of(prepare(producer)) is None
    return producer


@BOTH
def test_everything_is_stored_and_nothing_is_ended(version: int) -> None:
    producer = TransactionalProducer(version)
    producer.begin()
    producer.send("t", b"first")  # the topic is known from here on
    producer.commit()
    ended = len(producer.simulation.requests(EndTxnRequest))
    producer.options.__dict__["linger_ms"] = 100_000
    producer.begin()
    delivery = producer.send("t", b"v", partition=0)
    assert error_of(prepare(producer, 1_000)) is None
    assert delivery.done
    assert producer.machine.state is State.PREPARED
    assert producer.machine.prepared() == PreparedTransaction(ID, ProducerId(7, producer.epoch, True), version)
    with pytest.raises(LocalProtocolError, match="no transaction is open"):
        producer.send("t", b"late")
    assert len(producer.simulation.requests(EndTxnRequest)) == ended


@BOTH
def test_nothing_is_prepared_without_records(version: int) -> None:
    producer = TransactionalProducer(version)
    producer.begin()
    assert error_of(prepare(producer)) is None
    assert producer.machine.prepared() is None


@BOTH
@pytest.mark.parametrize("commits", [True, False])
def test_the_producer_itself_may_end_it(version: int, commits: bool) -> None:
    producer = prepared(version)
    assert error_of(producer.commit() if commits else producer.abort()) is None
    assert producer.all_committed() == ([b"v"] if commits else [])
    producer.begin()
    producer.send("t", b"next", partition=0)
    assert error_of(producer.commit()) is None


@BOTH
def test_a_producer_that_ends_leaves_it_open(version: int) -> None:
    producer = prepared(version)
    assert error_of(producer.ask(producer.machine.finish, 1_000)) is None
    producer.run(5_000)
    assert not producer.simulation.requests(EndTxnRequest)
    assert producer.state == "ongoing"


@BOTH
@pytest.mark.parametrize("is_late", [False, True])
def test_a_record_that_is_not_stored(version: int, is_late: bool) -> None:
    producer = TransactionalProducer(version)
    producer.begin()
    producer.refuse = refused(ErrorCode.INVALID_RECORD)
    producer.send("t", b"bad", partition=0)
    if not is_late:
        producer.run(100)
        assert producer.machine.state is State.DOOMED
    error = error_of(prepare(producer))
    assert isinstance(error, TransactionAborted)
    assert "INVALID_RECORD" in str(error)
    assert producer.machine.state is State.DOOMED
    producer.ask(producer.machine.finish, 60_000)
    producer.run(5_000)
    assert producer.machine.state is State.READY, "the transaction must have been aborted"


@BOTH
def test_no_answer_in_time(version: int) -> None:
    producer = TransactionalProducer(version)
    producer.begin()
    producer.simulation.handlers[1, ProduceRequest] = lambda request, version: SILENT
    producer.send("t", b"v", partition=0)
    error = error_of(prepare(producer, 2_000, timeout_ms=1_000))
    assert isinstance(error, RequestTimedOut)
    assert "being prepared" in str(error)


@BOTH
def test_an_abort_meanwhile(version: int) -> None:
    producer = TransactionalProducer(version)
    producer.begin()
    producer.send("t", b"v", partition=0)
    promise = producer.ask(producer.machine.prepare, 60_000)
    assert error_of(producer.abort()) is None
    assert isinstance(error_of(promise), TransactionAborted)
    assert producer.all_committed() == []


@BOTH
def test_only_an_open_transaction(version: int) -> None:
    producer = TransactionalProducer(version)
    with pytest.raises(LocalProtocolError, match="prepare: no transaction is open"):
        prepare(producer).wait(0)
    producer.begin()
    prepare(producer)
    with pytest.raises(LocalProtocolError, match="prepare: the transaction is prepared"):
        prepare(producer).wait(0)
    with pytest.raises(LocalProtocolError, match="a transaction is prepared: commit or abort it first"):
        producer.ask(producer.machine.begin).wait(0)
