"""A transaction is committed as a whole or not at all, in both versions of the protocol, whatever goes wrong.

Method: the producer's machines beside a simulated coordinator that keeps pending and committed records apart; each
error code at each request in a table; faults and applications at random, by seed.
"""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from kafkawire.sdk.errors import (
    BrokerError,
    Closed,
    DeliveryTimedOut,
    KafkaWireError,
    LocalProtocolError,
    ProducerFenced,
    RequestTimedOut,
    TransactionAborted,
    UnsupportedVersion,
)
from kafkawire.sdk.producer.transactions import State
from kafkawire.sdk.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from kafkawire.sdk.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from kafkawire.sdk.protocol.messages.end_txn import EndTxnRequest
from kafkawire.sdk.protocol.messages.init_producer_id import InitProducerIdRequest
from kafkawire.sdk.protocol.messages.produce import ProduceRequest
from kafkawire.sdk.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest
from kafkawire.sdk.protocol.schema import Message
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.enums import END_TXN_LAST_BEFORE_TV_2, TXN_OFFSET_COMMIT_LAST_BEFORE_TV_2
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from tests.sdk.client.simulation import SILENT
from tests.sdk.producer.simulated import outcome_of, refused
from tests.sdk.producer.transaction_coordinator import TransactionalProducer

BOTH = pytest.mark.parametrize("version", [1, 2])
T0, T1, T2 = ("t", 0), ("t", 1), ("t", 2)


def versions_of(producer: TransactionalProducer, kind: type[Message]) -> set[int]:
    return {version for _, _, request, version in producer.simulation.sent if isinstance(request, kind)}


def error_of(promise: Any) -> Exception | None:
    """Return how a promise has failed, None if it was kept; it must be settled."""
    assert promise.done
    try:
        promise.wait(0)
    except KafkaWireError as error:
        return error
    return None


# Good weather.


@BOTH
def test_records_and_offsets_are_committed_together(version: int) -> None:
    producer = TransactionalProducer(version)
    for round_number in (1, 2):
        producer.begin()
        delivery = producer.send("t", b"%d" % round_number, partition=0)
        assert error_of(producer.send_offset(round_number)) is None
        assert delivery.done
        assert len(producer.all_committed()) == producer.offsets.get(("in", 0), 0) == round_number - 1  # type: ignore[call-overload]  # a plain pair is equal
        assert error_of(producer.commit()) is None
        assert len(producer.all_committed()) == producer.offsets["in", 0] == round_number  # type: ignore[index]  # as above
    assert producer.committed[T0] == [b"1", b"2"]
    assert producer.accumulator.bytes_held == 0


@BOTH
def test_each_version_asks_in_its_own_way(version: int) -> None:
    producer = TransactionalProducer(version)
    producer.begin()
    producer.send("t", b"v", partition=0)
    producer.send_offset(5)
    producer.commit()
    sent = [type(request) for _, _, request, _ in producer.simulation.sent]
    if version == 1:
        assert sent.index(AddPartitionsToTxnRequest) < sent.index(ProduceRequest)
        assert sent.index(AddOffsetsToTxnRequest) < sent.index(TxnOffsetCommitRequest)
        assert max(versions_of(producer, EndTxnRequest)) == END_TXN_LAST_BEFORE_TV_2
        assert max(versions_of(producer, TxnOffsetCommitRequest)) == TXN_OFFSET_COMMIT_LAST_BEFORE_TV_2
    else:
        assert AddPartitionsToTxnRequest not in sent
        assert AddOffsetsToTxnRequest not in sent
        assert min(versions_of(producer, EndTxnRequest)) > END_TXN_LAST_BEFORE_TV_2
        assert min(versions_of(producer, TxnOffsetCommitRequest)) > TXN_OFFSET_COMMIT_LAST_BEFORE_TV_2
    assert {request.transactional_id for request in producer.simulation.requests(ProduceRequest)} == {"payments"}


def test_partitions_are_added_together_and_a_group_once() -> None:
    producer = TransactionalProducer(1)
    producer.begin()
    for number in range(3):
        producer.send("t", b"v", partition=number)
    for offset in range(3):
        producer.send_offset(offset)
    producer.commit()
    assert len(producer.simulation.requests(AddPartitionsToTxnRequest)) == 1
    assert len(producer.simulation.requests(AddOffsetsToTxnRequest)) == 1
    assert len(producer.all_committed()) == 3


@BOTH
def test_an_empty_transaction_asks_nobody(version: int) -> None:
    producer = TransactionalProducer(version)
    for end in (producer.commit, producer.abort):
        producer.begin()
        assert error_of(end()) is None
    assert not producer.simulation.requests(EndTxnRequest)


@BOTH
def test_a_commit_sends_what_lingers(version: int) -> None:
    producer = TransactionalProducer(version)
    producer.begin()
    producer.send("t", b"a")
    producer.commit()
    producer.options.__dict__["linger_ms"] = 10_000
    producer.begin()
    producer.send("t", b"b")
    assert error_of(producer.commit(1_000)) is None
    assert producer.all_committed() == [b"a", b"b"]


# Aborting.


@BOTH
def test_an_abort_takes_everything_back(version: int) -> None:
    producer = TransactionalProducer(version)
    producer.begin()
    stored = producer.send("t", b"stored", partition=0)
    producer.send_offset(5)
    waiting = producer.send("t", b"waiting", partition=1)
    promise = producer.abort(0)
    error = outcome_of(waiting)
    assert isinstance(error, TransactionAborted)
    assert "transactional id payments: the transaction was aborted" in str(error)
    producer.run(1_000)
    assert error_of(promise) is None
    assert not isinstance(outcome_of(stored), Exception)
    producer.begin()
    producer.send("t", b"next", partition=0)
    assert error_of(producer.commit()) is None
    assert producer.all_committed() == [b"next"]
    assert producer.offsets == {}
    assert producer.accumulator.unobserved is None, "whoever aborts knows"


@BOTH
def test_records_of_an_unknown_topic_fail_with_their_transaction(version: int) -> None:
    producer = TransactionalProducer(version)
    producer.begin()
    delivery = producer.send("missing", b"v")
    producer.run(500)
    producer.abort(0)
    assert isinstance(outcome_of(delivery), TransactionAborted)
    assert producer.accumulator.bytes_held == 0
    assert producer.router.metadata.wanted is not None
    assert "missing" not in producer.router.metadata.wanted
    producer.run(1_000)
    producer.begin()


def test_the_epoch_is_raised_if_numbers_may_be_missing() -> None:
    """With version 2 each end raises it; with version 1 only what was numbered and not acknowledged asks for it."""
    producer = TransactionalProducer(1)
    producer.begin()
    producer.send("t", b"a", partition=0)
    producer.commit()
    assert producer.epoch == 0
    producer.begin()
    producer.refuse = refused(ErrorCode.NOT_ENOUGH_REPLICAS, times=50)
    producer.send("t", b"lost", partition=0)
    producer.run(300)
    assert error_of(producer.abort()) is None
    producer.refuse = refused(ErrorCode.NONE, times=0)
    assert producer.epoch == 1
    bump = producer.simulation.requests(InitProducerIdRequest)[-1]
    assert (bump.producer_id, bump.producer_epoch) == (7, 0)
    producer.begin()
    producer.send("t", b"b", partition=0)
    producer.commit()
    assert producer.all_committed() == [b"a", b"b"]


def test_a_coordinator_that_cannot_raise_the_epoch() -> None:
    producer = TransactionalProducer(1)
    producer.simulation.newest[ApiKey.INIT_PRODUCER_ID] = 2
    producer.simulation.break_connections(1)
    producer.begin()
    producer.refuse = refused(ErrorCode.NOT_ENOUGH_REPLICAS, times=50)
    producer.send("t", b"lost", partition=0)
    producer.run(500)
    error = error_of(producer.abort())
    assert isinstance(error, UnsupportedVersion)
    assert "Apache Kafka can from 2.5" in str(error)


# What goes wrong.


@BOTH
def test_a_failed_delivery_fails_the_commit(version: int) -> None:
    producer = TransactionalProducer(version)
    producer.begin()
    good = producer.send("t", b"good", partition=0)
    producer.run(100)
    producer.refuse = refused(ErrorCode.INVALID_RECORD)
    bad = producer.send("t", b"bad", partition=1)
    error = error_of(producer.commit())
    assert isinstance(error, TransactionAborted)
    assert "the transaction cannot be committed: INVALID_RECORD" in str(error)
    assert isinstance(error.__cause__, BrokerError)
    assert isinstance(outcome_of(bad), BrokerError)
    assert not isinstance(outcome_of(good), Exception)
    assert producer.all_committed() == []
    assert producer.machine.state is State.READY, "it was aborted by itself"
    producer.begin()
    producer.send("t", b"again", partition=1)
    assert error_of(producer.commit()) is None
    assert producer.all_committed() == [b"again"]


@BOTH
def test_a_doomed_transaction_takes_nothing_more(version: int) -> None:
    producer = TransactionalProducer(version)
    producer.begin()
    producer.refuse = refused(ErrorCode.INVALID_RECORD)
    producer.send("t", b"bad", partition=0)
    producer.run(100)
    assert producer.machine.state is State.DOOMED
    with pytest.raises(TransactionAborted, match="INVALID_RECORD"):
        producer.send("t", b"v")
    assert isinstance(error_of(producer.send_offset(3)), TransactionAborted)
    assert error_of(producer.abort()) is None
    with pytest.raises(LocalProtocolError, match="no transaction is open"):
        producer.send("t", b"v")


@BOTH
def test_a_partitioner_that_raises_fails_the_commit(version: int) -> None:
    producer = TransactionalProducer(version, partitioner=lambda key, count: 1 // 0)
    producer.begin()
    producer.send("t", b"v", partition=0)
    producer.run(100)
    delivery = producer.send("t", b"v", key=b"k")
    assert isinstance(outcome_of(delivery), LocalProtocolError)
    assert isinstance(error_of(producer.commit()), TransactionAborted)
    assert producer.all_committed() == []


@BOTH
def test_a_delivery_that_times_out_aborts(version: int) -> None:
    producer = TransactionalProducer(version, delivery_timeout_ms=500)
    producer.begin()
    producer.send("t", b"a", partition=0)
    producer.run(100)
    producer.simulation.handlers[1, ProduceRequest] = lambda request, version: SILENT
    delivery = producer.send("t", b"v", partition=0)
    promise = producer.commit(600)
    assert isinstance(outcome_of(delivery), DeliveryTimedOut)
    assert not promise.done, "the request on its way may still be carried out"
    producer.run(40_000)
    error = error_of(promise)
    assert isinstance(error, TransactionAborted)
    assert isinstance(error.__cause__, DeliveryTimedOut)
    assert producer.all_committed() == []


RETRIED, ABORTED, FATAL, FENCED = "retried", "aborted", "fatal", "fenced"

#: What becomes of a transaction whose request is refused once.
ENDINGS: list[tuple[type[Message], ErrorCode, str]] = [
    (AddPartitionsToTxnRequest, ErrorCode.CONCURRENT_TRANSACTIONS, RETRIED),
    (AddPartitionsToTxnRequest, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, RETRIED),
    (AddPartitionsToTxnRequest, ErrorCode.NOT_COORDINATOR, RETRIED),
    (AddPartitionsToTxnRequest, ErrorCode.COORDINATOR_NOT_AVAILABLE, RETRIED),
    (AddPartitionsToTxnRequest, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, RETRIED),
    (AddPartitionsToTxnRequest, ErrorCode.TOPIC_AUTHORIZATION_FAILED, ABORTED),
    (AddPartitionsToTxnRequest, ErrorCode.OPERATION_NOT_ATTEMPTED, ABORTED),
    (AddPartitionsToTxnRequest, ErrorCode.TRANSACTION_ABORTABLE, ABORTED),
    (AddPartitionsToTxnRequest, ErrorCode.UNKNOWN_PRODUCER_ID, ABORTED),
    (AddPartitionsToTxnRequest, ErrorCode.INVALID_PRODUCER_ID_MAPPING, ABORTED),
    (AddPartitionsToTxnRequest, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, FATAL),
    (AddPartitionsToTxnRequest, ErrorCode.PRODUCER_FENCED, FENCED),
    (AddOffsetsToTxnRequest, ErrorCode.CONCURRENT_TRANSACTIONS, RETRIED),
    (AddOffsetsToTxnRequest, ErrorCode.GROUP_AUTHORIZATION_FAILED, ABORTED),
    (AddOffsetsToTxnRequest, ErrorCode.PRODUCER_FENCED, FENCED),
    (TxnOffsetCommitRequest, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, RETRIED),
    (TxnOffsetCommitRequest, ErrorCode.NOT_COORDINATOR, RETRIED),
    (TxnOffsetCommitRequest, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, RETRIED),
    (TxnOffsetCommitRequest, ErrorCode.ILLEGAL_GENERATION, ABORTED),
    (TxnOffsetCommitRequest, ErrorCode.UNKNOWN_MEMBER_ID, ABORTED),
    (TxnOffsetCommitRequest, ErrorCode.STALE_MEMBER_EPOCH, ABORTED),
    (TxnOffsetCommitRequest, ErrorCode.FENCED_INSTANCE_ID, ABORTED),
    (TxnOffsetCommitRequest, ErrorCode.REBALANCE_IN_PROGRESS, ABORTED),
    (TxnOffsetCommitRequest, ErrorCode.GROUP_AUTHORIZATION_FAILED, ABORTED),
    (TxnOffsetCommitRequest, ErrorCode.TRANSACTION_ABORTABLE, ABORTED),
    (TxnOffsetCommitRequest, ErrorCode.INVALID_PRODUCER_EPOCH, ABORTED),
    (TxnOffsetCommitRequest, ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT, FATAL),
    (TxnOffsetCommitRequest, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, FATAL),
    (EndTxnRequest, ErrorCode.CONCURRENT_TRANSACTIONS, RETRIED),
    (EndTxnRequest, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, RETRIED),
    (EndTxnRequest, ErrorCode.NOT_COORDINATOR, RETRIED),
    (EndTxnRequest, ErrorCode.TRANSACTION_ABORTABLE, ABORTED),
    (EndTxnRequest, ErrorCode.UNKNOWN_PRODUCER_ID, ABORTED),
    (EndTxnRequest, ErrorCode.INVALID_PRODUCER_ID_MAPPING, ABORTED),
    (EndTxnRequest, ErrorCode.INVALID_TXN_STATE, FATAL),
    (EndTxnRequest, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, FATAL),
    (EndTxnRequest, ErrorCode.INVALID_PRODUCER_EPOCH, FENCED),
    (EndTxnRequest, ErrorCode.PRODUCER_FENCED, FENCED),
]


@pytest.mark.parametrize(
    ("version", "kind", "code", "ending"),
    [
        (version, *each)
        for version in (1, 2)
        for each in ENDINGS
        if version == 1 or each[0] not in (AddPartitionsToTxnRequest, AddOffsetsToTxnRequest)
    ],
)
def test_what_an_error_code_leads_to(version: int, kind: type[Message], code: ErrorCode, ending: str) -> None:
    producer = TransactionalProducer(version)
    producer.begin()
    producer.refusals[kind] = [code]
    producer.send("t", b"v", partition=0)
    offsets = producer.send_offset(4)
    error = error_of(producer.commit())
    assert not producer.refusals[kind]
    if ending == RETRIED:
        assert (error, error_of(offsets)) == (None, None)
        assert producer.all_committed() == [b"v"]
        return
    assert producer.all_committed() == []
    assert producer.offsets == {}
    if kind is TxnOffsetCommitRequest:
        assert error_of(offsets) is not None
    if ending == ABORTED:
        assert isinstance(error, TransactionAborted)
        assert isinstance(error.__cause__, BrokerError)
        assert error.__cause__.code is code
        producer.begin()
        producer.send("t", b"next", partition=0)
        assert error_of(producer.commit()) is None
        assert producer.all_committed() == [b"next"]
        return
    assert isinstance(error, ProducerFenced if ending == FENCED else BrokerError)
    assert error.code is code
    for again in (producer.machine.begin, lambda *more: producer.machine.commit(5, *more)):
        assert type(error_of(producer.ask(again))) is type(error)
    with pytest.raises(type(error)):
        producer.send("t", b"v")


@BOTH
@pytest.mark.parametrize(
    ("code", "ending"),
    [
        (ErrorCode.CONCURRENT_TRANSACTIONS, RETRIED),
        (ErrorCode.NOT_ENOUGH_REPLICAS, RETRIED),
        (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ABORTED),
        (ErrorCode.INVALID_PRODUCER_EPOCH, ABORTED),
        (ErrorCode.INVALID_TXN_STATE, ABORTED),
        (ErrorCode.TRANSACTION_ABORTABLE, ABORTED),
        (ErrorCode.TOPIC_AUTHORIZATION_FAILED, ABORTED),
        (ErrorCode.PRODUCER_FENCED, FENCED),
        (ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, FATAL),
        (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, FATAL),
    ],
)
def test_what_a_refused_batch_leads_to(version: int, code: ErrorCode, ending: str) -> None:
    producer = TransactionalProducer(version)
    producer.begin()
    producer.refuse = refused(code)
    producer.send("t", b"v", partition=0)
    error = error_of(producer.commit())
    if ending == RETRIED:
        assert error is None
        assert producer.all_committed() == [b"v"]
    elif ending == ABORTED:
        assert isinstance(error, TransactionAborted)
        producer.begin()
        producer.send("t", b"next", partition=0)
        assert error_of(producer.commit()) is None
        assert producer.all_committed() == [b"next"]
    else:
        assert isinstance(error, ProducerFenced if ending == FENCED else BrokerError)
        assert producer.machine.state is State.FATAL


@BOTH
def test_a_batch_that_follows_another_one_is_retried_with_it(version: int) -> None:
    """Only what comes back out of order though nothing is before it shows a gap."""
    producer = TransactionalProducer(version, batch_size=128)
    producer.begin()
    producer.send("t", b"first" + b"x" * 90, partition=0)
    producer.run(100)
    producer.refuse = refused(ErrorCode.NOT_ENOUGH_REPLICAS)
    for number in range(4):
        producer.send("t", b"%d" % number + b"x" * 90, partition=0)
    assert error_of(producer.commit()) is None
    assert len(producer.all_committed()) == 5


@BOTH
def test_another_producer_fences_this_one(version: int) -> None:
    producer = TransactionalProducer(version)
    producer.begin()
    producer.send("t", b"v", partition=0)
    producer.run(100)
    producer.fence()
    delivery = producer.send("t", b"late", partition=0)
    error = error_of(producer.commit())
    assert isinstance(error, ProducerFenced)
    assert error.fatal
    assert "transactional id payments: another producer uses it, or transaction_timeout_ms=60000 has passed" in str(
        error
    )
    assert isinstance(outcome_of(delivery), BrokerError)
    assert producer.all_committed() == []


@BOTH
@pytest.mark.parametrize(
    ("codes", "expected"),
    [
        ([ErrorCode.CONCURRENT_TRANSACTIONS] * 5, type(None)),
        ([ErrorCode.CONCURRENT_TRANSACTIONS] * 500, BrokerError),
        ([ErrorCode.INVALID_PRODUCER_EPOCH], ProducerFenced),
        ([ErrorCode.INVALID_TRANSACTION_TIMEOUT], BrokerError),
        ([ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED], BrokerError),
    ],
)
def test_the_coordinator_refuses_a_producer_that_starts(version: int, codes: list[int], expected: type) -> None:
    producer = TransactionalProducer(version, starting=codes)
    error = error_of(producer.identity.ready)
    assert type(error) is expected
    assert error is None or "payments" in str(error)


# Order of calls.


def test_what_is_not_in_order_is_refused() -> None:
    producer = TransactionalProducer(2)
    with pytest.raises(LocalProtocolError, match="no transaction is open: a producer with a transactional_id"):
        producer.send("t", b"v")
    for step in (producer.machine.commit, producer.machine.abort):
        assert "no transaction is open" in str(error_of(producer.ask(step, 100)))
    assert "no transaction is open" in str(error_of(producer.send_offset(1)))
    producer.begin()
    assert "a transaction is open" in str(error_of(producer.ask(producer.machine.begin)))
    producer.send("t", b"v", partition=0)
    producer.commit(0)
    assert "a transaction is being committed" in str(error_of(producer.ask(producer.machine.begin)))
    assert "the transaction is being committed" in str(error_of(producer.ask(producer.machine.abort, 100)))
    producer.run(1_000)
    producer.begin()
    producer.send("t", b"v", partition=0)
    producer.run(100)
    producer.abort(0)
    assert "the transaction is being aborted" in str(error_of(producer.ask(producer.machine.commit, 100)))


# Coordinators come and go; limits are kept.


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
    assert "after 2000 ms the transaction is still being committed; that goes on" in str(error)
    waiting = producer.ask(producer.machine.await_end, 60_000)
    short = producer.ask(producer.machine.await_end, 1_000)
    again = producer.ask(producer.machine.commit, 60_000)
    producer.run(1_000)
    assert isinstance(error_of(short), RequestTimedOut)
    assert not waiting.done
    producer.run(60_000)
    assert (error_of(waiting), error_of(again)) == (None, None)
    assert error_of(producer.ask(producer.machine.commit, 100)) is None, "it tells what became of it"
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
    """With version 1 a partition may have been added though nobody said so; then the coordinator refuses the abort."""
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
    assert isinstance(outcome_of(delivery), TransactionAborted), "it is not sent again"
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
    assert producer.epoch == 1, "the next version begins with an epoch of its own"
    producer.version = 2
    producer.begin()
    producer.send("t", b"w", partition=0)
    assert error_of(producer.commit()) is None
    assert producer.all_committed() == [b"v", b"w"]
    assert max(versions_of(producer, EndTxnRequest)) > END_TXN_LAST_BEFORE_TV_2


@BOTH
@pytest.mark.parametrize("seed", range(30))
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
