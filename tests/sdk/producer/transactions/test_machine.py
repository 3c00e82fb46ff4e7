"""A transaction is committed completely or not at all, in both protocol versions, and its calls are made in order.

Method: run the producer's state machines with a simulated coordinator that keeps pending and committed records apart.
test_transaction_failures.py covers failures, and test_transaction_ends.py covers coordinators that come and go.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from kafkawire.sdk.errors import (
    BrokerError,
    KafkaWireError,
    LocalProtocolError,
    ProducerFenced,
    TransactionAborted,
    UnsupportedVersion,
)
from kafkawire.sdk.groups.protocol import GroupMetadata
from kafkawire.sdk.producer.transactions.errors import OUTSIDE
from kafkawire.sdk.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from kafkawire.sdk.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from kafkawire.sdk.protocol.messages.end_txn import EndTxnRequest
from kafkawire.sdk.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from kafkawire.sdk.protocol.messages.produce import ProduceRequest
from kafkawire.sdk.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.enums import (
    END_TXN_LAST_BEFORE_TV_2,
    PRODUCE_LAST_BEFORE_TV_2,
    TXN_OFFSET_COMMIT_LAST_BEFORE_TV_2,
)
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.transport.promise import Promise
from tests.sdk.producer.simulated import outcome_of, refused
from tests.sdk.producer.transaction_coordinator import BOTH, T0, TransactionalProducer, error_of, versions_of
from tests.sdk.simulation import Later

# Without faults.


@BOTH
def test_records_and_offsets_are_committed_together(version: int) -> None:
    producer = TransactionalProducer(version)
    for round_number in (1, 2):
        producer.begin()
        delivery = producer.send("t", b"%d" % round_number, partition=0)
        assert error_of(producer.send_offset(round_number)) is None
        assert delivery.done
        assert len(producer.all_committed()) == producer.offsets.get(("in", 0), 0) == round_number - 1
        assert error_of(producer.commit()) is None
        assert len(producer.all_committed()) == producer.offsets["in", 0] == round_number
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
        assert max(versions_of(producer, ProduceRequest)) == PRODUCE_LAST_BEFORE_TV_2
        assert max(versions_of(producer, EndTxnRequest)) == END_TXN_LAST_BEFORE_TV_2
        assert max(versions_of(producer, TxnOffsetCommitRequest)) == TXN_OFFSET_COMMIT_LAST_BEFORE_TV_2
    else:
        assert AddPartitionsToTxnRequest not in sent
        assert AddOffsetsToTxnRequest not in sent
        assert min(versions_of(producer, ProduceRequest)) > PRODUCE_LAST_BEFORE_TV_2
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
@pytest.mark.parametrize("has_records", [False, True])
def test_no_offsets_join_no_group(version: int, has_records: bool) -> None:
    """A coordinator refuses to commit a transaction that nothing has joined; this would end the producer."""
    producer = TransactionalProducer(version)
    producer.begin()
    if has_records:
        producer.send("t", b"v", partition=0)
    promise = producer.ask(producer.machine.send_offsets, {}, GroupMetadata("g", 3, "member"), 60_000)
    assert error_of(promise) is None
    assert error_of(producer.commit()) is None
    assert not producer.simulation.requests(AddOffsetsToTxnRequest)
    assert not producer.simulation.requests(TxnOffsetCommitRequest)
    producer.begin()
    assert error_of(producer.send_offset(1)) is None
    assert error_of(producer.commit()) is None


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
    assert producer.accumulator.unobserved is None, "an application that aborts knows that records are lost"


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
    """With version 2, every end raises the epoch; with version 1, only numbered but unacknowledged records raise it."""
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
    assert "Apache Kafka 2.5 and later can" in str(error)


def forgetful() -> TransactionalProducer:
    """Return a producer that has committed a record, but that its brokers (Apache Kafka 2.4) have forgotten."""
    producer = TransactionalProducer(1)
    producer.simulation.newest[ApiKey.INIT_PRODUCER_ID] = 2
    producer.simulation.break_connections(1)
    producer.begin()
    producer.send("t", b"a", partition=0)
    assert error_of(producer.commit()) is None
    producer.log().refuses_unknown = True
    producer.log().forget()
    return producer


def test_a_leader_that_has_forgotten_the_producer_aborts_one_transaction() -> None:
    """Records in flight may be stored, as the one before them is; the numbers then start over, in the same epoch."""
    producer = forgetful()
    producer.begin()
    deliveries = [producer.send("t", value, partition=0) for value in (b"b", b"c")]
    error = error_of(producer.commit())
    assert isinstance(error, TransactionAborted)
    assert "UNKNOWN_PRODUCER_ID" in str(error)
    assert all(isinstance(outcome_of(each), Exception) for each in deliveries)
    producer.begin()
    for value in (b"d", b"e"):
        producer.send("t", value, partition=0)
        producer.run(100)
    assert error_of(producer.commit()) is None
    assert producer.all_committed() == [b"a", b"d", b"e"]
    assert [(batch.producer_epoch, batch.base_sequence) for *_, batch in producer.produced[-2:]] == [(0, 0), (0, 1)]


def test_a_leader_that_has_deleted_all_that_the_producer_stored_aborts_nothing() -> None:
    producer = forgetful()
    producer.log().start = 1
    producer.begin()
    producer.send("t", b"b", partition=0)
    producer.run(100)
    producer.send("t", b"c", partition=0)
    assert error_of(producer.commit()) is None
    assert producer.all_committed() == [b"a", b"b", b"c"]
    assert [(batch.producer_epoch, batch.base_sequence) for *_, batch in producer.produced[-2:]] == [(0, 0), (0, 1)]


# Order of calls.


def test_what_is_not_in_order_is_refused() -> None:
    producer = TransactionalProducer(2)
    with pytest.raises(LocalProtocolError, match=r"is open: .* sends inside a block of producer\.transaction\(\)"):
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


def test_the_first_partition_does_not_wait_long_for_the_transaction_before() -> None:
    """As in Java, the pause is 20 ms for the first partition, and the backoff for later ones."""
    producer = TransactionalProducer(1)
    producer.begin()
    for number in range(2):
        producer.refusals[AddPartitionsToTxnRequest] = [ErrorCode.CONCURRENT_TRANSACTIONS] * 3
        producer.send("t", b"v", partition=number)
        producer.run(2_000)
    times = [time for time, _, request, _ in producer.simulation.sent if isinstance(request, AddPartitionsToTxnRequest)]
    pauses = [after - before - 1 for before, after in pairwise(times)]
    assert (pauses[:3], pauses[4:]) == ([20] * 3, [100, 200, 400])
    assert error_of(producer.commit()) is None


def test_partitions_are_added_by_one_request_at_a_time() -> None:
    producer = TransactionalProducer(1)
    producer.begin()
    producer.send("t", b"v", partition=0)
    producer.commit()
    producer.begin()
    producer.simulation.latency_ms = 50
    producer.simulation.sent.clear()
    for number in range(3):
        producer.send("t", b"v", partition=number)
        producer.run(10)
    assert len(producer.simulation.requests(AddPartitionsToTxnRequest)) == 1
    producer.run(1_000)
    requests = producer.simulation.requests(AddPartitionsToTxnRequest)
    assert [request.v3_and_below_topics[0].partitions for request in requests] == [(0,), (1, 2)]
    assert error_of(producer.commit()) is None


@BOTH
def test_only_whoever_commits_is_told_why_it_was_aborted(version: int) -> None:
    producer = TransactionalProducer(version)
    producer.begin()
    producer.refuse = refused(ErrorCode.INVALID_RECORD)
    producer.send("t", b"bad", partition=0)
    commit = producer.commit(0)
    waiting = producer.ask(producer.machine.await_end, 60_000)
    assert not waiting.done
    producer.run(5_000)
    assert isinstance(error_of(commit), TransactionAborted)
    assert error_of(waiting) is None


@BOTH
@pytest.mark.parametrize("answer", [ErrorCode.INVALID_PRODUCER_ID_MAPPING, None], ids=["refused", "renewed"])
def test_no_identity_is_made_anew_once_the_coordinator_may_have_forgotten_who_fenced_it(
    version: int, answer: ErrorCode | None
) -> None:
    """A fenced producer that was idle until its id expired must not repeat the later producer's work."""
    producer = TransactionalProducer(version)
    producer.begin()
    producer.send("t", b"v", partition=0)
    producer.run(1_000)
    producer.refusals[EndTxnRequest] = [ErrorCode.INVALID_TXN_STATE]  # makes the producer raise its epoch
    if answer is None:
        for node in producer.nodes:
            producer.simulation.handlers[node, InitProducerIdRequest] = lambda request, version: InitProducerIdResponse(
                producer_id=producer.number + 1
            )
    else:
        producer.refusals[InitProducerIdRequest] = [answer]
    error = error_of(producer.abort())
    assert isinstance(error, BrokerError)
    assert (error.code, error.fatal) == (ErrorCode.INVALID_PRODUCER_ID_MAPPING, True)
    assert str(error).count("transactional id payments: the coordinator has no record of this producer") == 1
    assert type(error_of(producer.ask(producer.machine.begin))) is BrokerError
    with pytest.raises(BrokerError, match="INVALID_PRODUCER_ID_MAPPING"):
        producer.send("t", b"v")


@BOTH
@pytest.mark.parametrize("end", ["commit", "abort"])
def test_no_record_joins_while_the_transaction_ends(version: int, end: str) -> None:
    producer = TransactionalProducer(version)
    producer.begin()
    producer.send("t", b"v", partition=0)
    producer.run(1_000)
    promise = getattr(producer, end)(0)
    assert not promise.done
    with pytest.raises(LocalProtocolError, match="no transaction is open"):
        producer.send("t", b"late", partition=0)


@BOTH
@pytest.mark.parametrize("begins", [False, True], ids=["no other", "another"])
@pytest.mark.parametrize("end", ["commit", "abort"])
def test_a_record_whose_transaction_ends_during_send_says_so(version: int, end: str, begins: bool) -> None:
    def partitioner(key: bytes, count: int) -> int:
        if key == b"late":  # as another thread or a handler does meanwhile
            getattr(producer, end)()
            if begins:
                producer.begin()
        return 0

    producer = TransactionalProducer(version, partitioner=partitioner)
    producer.begin()
    producer.send("t", b"v", key=b"k")
    producer.run(1_000)
    delivery = producer.send("t", b"late", key=b"late")
    producer.run(1_000)
    error = delivery.exception()
    assert type(error) is LocalProtocolError
    assert "ended before send had buffered it" in str(error)
    assert b"late" not in producer.all_committed()


@BOTH
@pytest.mark.parametrize("ends", ["commit", "abort", "prepare", "doom", "fence"])
def test_no_record_joins_once_the_end_has_begun(version: int, ends: str) -> None:
    """A thread is sending a record when the coordinator or the application learns of the end; only that one fails."""
    later = Later()

    def partitioner(key: bytes, count: int) -> int:
        if key == b"late":  # as another thread does meanwhile
            if ends in ("doom", "fence"):
                code = ErrorCode.INVALID_RECORD if ends == "doom" else ErrorCode.PRODUCER_FENCED
                producer.refuse = lambda topic, number, batch: code
                producer.send("t", b"refused", key=b"k")
                producer.run(1_000)
                producer.refuse = lambda topic, number, batch: 0
            else:
                promises.append(producer.ask(getattr(producer.machine, ends), 60_000))
                producer.run(1_000)
        return 0

    producer = TransactionalProducer(version, partitioner=partitioner)
    promises: list[Promise[None]] = []
    end = producer.simulation.handlers[1, EndTxnRequest]
    answers: list[Any] = []

    def answered_later(request: EndTxnRequest, api_version: int) -> Later:
        answers.append(end(request, api_version))
        return later

    producer.simulation.handlers[1, EndTxnRequest] = answered_later
    producer.begin()
    producer.send("t", b"v", key=b"k")
    producer.run(1_000)
    delivery = producer.send("t", b"late", key=b"late")
    producer.run(1_000)
    assert delivery.done
    assert "late" not in str([record.value for _, _, _, batch in producer.produced for record in batch.records()])
    if answers:
        later.answer(answers.pop())
        producer.run(1_000)
    elif ends == "prepare":
        producer.simulation.handlers[1, EndTxnRequest] = end
        promises.append(producer.commit())
    assert [error_of(promise) for promise in promises] == [None] * len(promises)
    assert producer.all_committed() == ([b"v"] if ends in ("commit", "prepare") else [])
    expected = {"abort": TransactionAborted, "doom": TransactionAborted, "fence": ProducerFenced}
    assert type(delivery.exception()) is expected.get(ends, LocalProtocolError)


@BOTH
def test_the_commit_before_says_nothing_about_an_abort(version: int) -> None:
    producer = TransactionalProducer(version)
    producer.begin()
    producer.commit()
    assert error_of(producer.commit()) is None, "the commit must report its outcome when asked again"
    producer.begin()
    producer.abort()
    assert "commit: no transaction is open" in str(error_of(producer.ask(producer.machine.commit, 100)))


def test_a_group_that_joins_during_an_abort_is_aborted_with_it() -> None:
    producer = TransactionalProducer(1)
    producer.begin()
    offsets = producer.send_offset(5, 0)
    abort = producer.abort(0)
    producer.run(5_000)
    error = error_of(offsets)
    assert isinstance(error, TransactionAborted)
    assert "the transaction was aborted" in str(error)
    assert error_of(abort) is None
    assert [request.committed for request in producer.simulation.requests(EndTxnRequest)] == [False]
    assert not producer.simulation.requests(TxnOffsetCommitRequest)


@BOTH
def test_offsets_alone_are_committed(version: int) -> None:
    producer = TransactionalProducer(version)
    producer.begin()
    assert error_of(producer.send_offset(5)) is None
    assert error_of(producer.commit()) is None
    assert producer.offsets == {("in", 0): 5}


def test_a_partition_is_added_after_a_transaction_in_which_that_was_refused() -> None:
    producer = TransactionalProducer(1)
    producer.refusals[AddPartitionsToTxnRequest] = [ErrorCode.TOPIC_AUTHORIZATION_FAILED]
    for expected in ([], [b"v"]):
        producer.begin()
        producer.send("t", b"v", partition=0)
        producer.run(1_000)
        assert (error_of(producer.commit()) is None) == bool(expected)
        assert producer.committed.get(T0, []) == expected


@pytest.mark.parametrize(
    ("code", "ends"),
    [(ErrorCode.TOPIC_AUTHORIZATION_FAILED, []), (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, [False])],
    ids=["refused", "perhaps"],
)
def test_the_coordinator_is_told_of_the_end_of_what_it_may_have_begun(code: ErrorCode, ends: list[bool]) -> None:
    producer = TransactionalProducer(1, api_timeout_ms=2_000)
    producer.refusals[AddPartitionsToTxnRequest] = [code] * 100
    producer.begin()
    producer.send("t", b"v", partition=0)
    producer.run(5_000)
    assert error_of(producer.abort()) is None
    assert [request.committed for request in producer.simulation.requests(EndTxnRequest)] == ends


def test_an_abort_that_is_refused_for_good_ends_the_producer_whatever_had_begun() -> None:
    producer = TransactionalProducer(1, api_timeout_ms=2_000)
    producer.refusals[AddPartitionsToTxnRequest] = [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS] * 100
    producer.begin()
    producer.send("t", b"v", partition=0)
    producer.run(5_000)
    producer.refusals[EndTxnRequest] = [ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED]
    assert "TRANSACTIONAL_ID_AUTHORIZATION_FAILED" in str(error_of(producer.abort()))


def test_a_producer_that_has_ended_says_why_whatever_it_is_asked() -> None:
    producer = TransactionalProducer(2)
    producer.begin()
    producer.refuse = refused(ErrorCode.PRODUCER_FENCED)
    producer.send("t", b"v", partition=0)
    producer.run(1_000)
    with pytest.raises(ProducerFenced):
        producer.send("t", b"v", partition=0)
    producer.accumulator.refuse(OUTSIDE)  # as before each commit
    assert isinstance(error_of(producer.ask(producer.machine.commit, 100)), ProducerFenced)
    with pytest.raises(ProducerFenced):
        producer.send("t", b"v", partition=0)


def test_who_hears_that_a_producer_has_ended_is_refused_with_the_reason() -> None:
    producer = TransactionalProducer(2)
    producer.begin()
    producer.send("t", b"v", partition=0)
    producer.run(1_000)
    producer.refusals[EndTxnRequest] = [ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED]
    errors: list[str] = []

    def send_again() -> None:
        with pytest.raises(KafkaWireError) as caught:
            producer.send("t", b"v", partition=0)
        errors.append(str(caught.value))

    producer.ask(producer.machine.commit, 60_000).add_done_callback(send_again)
    producer.run(5_000)
    (error,) = errors
    assert "TRANSACTIONAL_ID_AUTHORIZATION_FAILED" in error


@BOTH
def test_a_commit_that_a_throttling_coordinator_holds_up_says_so(version: int) -> None:
    producer = TransactionalProducer(version)
    producer.begin()
    producer.send("t", b"v", partition=0)
    producer.run(1_000)
    for link in producer.router._links.all:
        link.throttled(9_000, producer.simulation.now_ms)
    error = error_of(producer.commit(5_000, 1_000))
    assert "still being committed" in str(error)
    assert "throttled by node-1:9092 for 9000 ms" in str(error)
