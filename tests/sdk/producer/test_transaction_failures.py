"""A failure dooms a transaction or ends its producer; every request gets every error code, in both versions.

Method: run the producer's state machines with a simulated coordinator that rejects requests.
"""

from __future__ import annotations

import pytest

from kafkawire.sdk.errors import (
    BrokerError,
    DeliveryTimedOut,
    KafkaWireError,
    LocalProtocolError,
    ProducerFenced,
    TransactionAborted,
)
from kafkawire.sdk.producer.topic_registry import ABSENT_MS
from kafkawire.sdk.producer.transactions.machine import State
from kafkawire.sdk.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from kafkawire.sdk.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from kafkawire.sdk.protocol.messages.end_txn import EndTxnRequest
from kafkawire.sdk.protocol.messages.produce import ProduceRequest
from kafkawire.sdk.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest
from kafkawire.sdk.protocol.schema import Message
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from tests.sdk.producer.simulated import outcome_of, refused
from tests.sdk.producer.transaction_coordinator import BOTH, TransactionalProducer, error_of
from tests.sdk.simulation import SILENT


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
    assert producer.machine.state is State.READY, "the transaction must be aborted without a request"
    producer.begin()
    producer.send("t", b"again", partition=1)
    assert error_of(producer.commit()) is None
    assert producer.all_committed() == [b"again"]


@BOTH
def test_a_partition_that_does_not_exist_fails_the_commit_as_soon_as_its_record_fails(version: int) -> None:
    """Java's producer waits in `send` for `max.block.ms` instead, and librdkafka does not wait for new partitions."""
    producer = TransactionalProducer(version)
    producer.begin()
    producer.send("t", b"good", partition=0)
    bad = producer.send("t", b"bad", partition=99)
    promise = producer.commit(ABSENT_MS - 100)
    assert not bad.done
    while not bad.done:
        producer.run(100)
    assert isinstance(outcome_of(bad), LocalProtocolError)
    producer.run(100)
    error = error_of(promise)
    assert isinstance(error, TransactionAborted)
    assert "the transaction cannot be committed: topic t has partitions 0 to 2, not 99" in str(error)
    assert (producer.state, producer.all_committed()) == ("abort", [])


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
    assert not promise.done, "the in-flight request may still be carried out"
    producer.run(40_000)
    error = error_of(promise)
    assert isinstance(error, TransactionAborted)
    assert isinstance(error.__cause__, DeliveryTimedOut)
    assert producer.all_committed() == []


RETRIED, ABORTED, FATAL, FENCED = "retried", "aborted", "fatal", "fenced"

#: The effect on a transaction if a request is rejected once.
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
    (AddPartitionsToTxnRequest, ErrorCode.INVALID_TXN_STATE, ABORTED),
    (AddPartitionsToTxnRequest, ErrorCode.INVALID_PRODUCER_EPOCH, ABORTED),
    (AddPartitionsToTxnRequest, ErrorCode.INVALID_PRODUCER_ID_MAPPING, FATAL),
    (AddPartitionsToTxnRequest, ErrorCode.TRANSACTIONAL_ID_NOT_FOUND, FATAL),
    (AddPartitionsToTxnRequest, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, FATAL),
    (AddPartitionsToTxnRequest, ErrorCode.PRODUCER_FENCED, FENCED),
    (AddOffsetsToTxnRequest, ErrorCode.CONCURRENT_TRANSACTIONS, RETRIED),
    (AddOffsetsToTxnRequest, ErrorCode.GROUP_AUTHORIZATION_FAILED, ABORTED),
    (AddOffsetsToTxnRequest, ErrorCode.INVALID_TXN_STATE, ABORTED),
    (AddOffsetsToTxnRequest, ErrorCode.INVALID_PRODUCER_EPOCH, ABORTED),
    (AddOffsetsToTxnRequest, ErrorCode.TRANSACTION_ABORTABLE, ABORTED),
    (AddOffsetsToTxnRequest, ErrorCode.UNKNOWN_PRODUCER_ID, ABORTED),
    (AddOffsetsToTxnRequest, ErrorCode.INVALID_PRODUCER_ID_MAPPING, FATAL),
    (AddOffsetsToTxnRequest, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, FATAL),
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
    (TxnOffsetCommitRequest, ErrorCode.INVALID_TXN_STATE, ABORTED),
    (TxnOffsetCommitRequest, ErrorCode.CONCURRENT_TRANSACTIONS, RETRIED),
    (TxnOffsetCommitRequest, ErrorCode.UNKNOWN_PRODUCER_ID, ABORTED),
    (TxnOffsetCommitRequest, ErrorCode.INVALID_PRODUCER_ID_MAPPING, FATAL),
    (TxnOffsetCommitRequest, ErrorCode.PRODUCER_FENCED, FENCED),
    (TxnOffsetCommitRequest, ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT, FATAL),
    (TxnOffsetCommitRequest, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, FATAL),
    (EndTxnRequest, ErrorCode.CONCURRENT_TRANSACTIONS, RETRIED),
    (EndTxnRequest, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, RETRIED),
    (EndTxnRequest, ErrorCode.NOT_COORDINATOR, RETRIED),
    (EndTxnRequest, ErrorCode.TRANSACTION_ABORTABLE, ABORTED),
    (EndTxnRequest, ErrorCode.UNKNOWN_PRODUCER_ID, ABORTED),
    (EndTxnRequest, ErrorCode.INVALID_PRODUCER_ID_MAPPING, FATAL),
    (EndTxnRequest, ErrorCode.TRANSACTIONAL_ID_NOT_FOUND, FATAL),
    (EndTxnRequest, ErrorCode.INVALID_REQUEST, FATAL),
    (EndTxnRequest, ErrorCode.INVALID_TXN_STATE, ABORTED),
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
    assert (error.code, error.fatal) == (code, True)
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
        (ErrorCode.UNKNOWN_PRODUCER_ID, RETRIED),
        (ErrorCode.INVALID_RECORD, ABORTED),
        (ErrorCode.INVALID_PRODUCER_ID_MAPPING, FATAL),
        (ErrorCode.TRANSACTIONAL_ID_NOT_FOUND, FATAL),
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
def test_who_hears_that_no_transaction_is_possible_any_more_cannot_send(version: int) -> None:
    producer = TransactionalProducer(version)
    producer.begin()
    producer.refuse = refused(ErrorCode.PRODUCER_FENCED)
    producer.send("t", b"v", partition=0)
    commit = producer.ask(producer.machine.commit, 60_000)
    refusals: list[KafkaWireError | None] = []
    commit.add_done_callback(lambda: refusals.append(producer.accumulator.appender.refusal))
    producer.run(5_000)
    assert [type(refusal) for refusal in refusals] == [ProducerFenced]


@BOTH
def test_a_batch_that_follows_another_one_is_retried_with_it(version: int) -> None:
    """A batch that is rejected as out of order indicates a gap only if there is no batch before it."""
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
@pytest.mark.parametrize("commits", [False, True])
def test_a_coordinator_that_knows_of_no_open_transaction_lets_another_follow(version: int, commits: bool) -> None:
    producer = TransactionalProducer(version)
    producer.begin()
    producer.send("t", b"v", partition=0)
    producer.run(100)
    producer.refusals[EndTxnRequest] = [ErrorCode.INVALID_TXN_STATE] * (1 + commits)
    error = error_of(producer.commit() if commits else producer.abort())
    assert isinstance(error, TransactionAborted if commits else type(None))
    producer.begin()
    producer.send("t", b"next", partition=0)
    assert error_of(producer.commit()) is None
    assert producer.all_committed() == [b"next"]


def test_a_transaction_that_its_coordinator_has_ended_lets_another_follow() -> None:
    """This happens after `transaction_timeout_ms` in version 2; in version 1, the producer is fenced."""
    producer = TransactionalProducer(2)
    producer.begin()
    producer.send("t", b"v", partition=0)
    producer.run(100)
    producer.expire()
    error = error_of(producer.commit())
    assert isinstance(error, TransactionAborted)
    assert "transactional id payments: " in str(error)
    assert "INVALID_TXN_STATE" in str(error)
    assert "perhaps transaction_timeout_ms=60000 has passed" in str(error)
    producer.begin()
    producer.send("t", b"next", partition=0)
    assert error_of(producer.commit()) is None
    assert producer.all_committed() == [b"next"]


@BOTH
def test_another_producer_fences_this_one(version: int, caplog: pytest.LogCaptureFixture) -> None:
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
    assert caplog.text.count("no further transaction is possible: ") == 1


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
