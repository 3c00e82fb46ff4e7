"""Every question about a transaction gets exactly one answer, from its current coordinator.

Method: use a scripted cluster; the test answers requests, moves coordinators and lets time pass. Sequences of random
events end with a working cluster.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkawire.reference_broker.coordinators.placement import partition_of
from kafkawire.reference_broker.transactions import transaction_verifier as module
from kafkawire.reference_broker.transactions.transaction_verifier import TransactionVerifier
from kafkawire.sdk.errors import BrokerError, ConnectionLost, RequestTimedOut, UnsupportedVersion
from kafkawire.sdk.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnResponse
from kafkawire.sdk.protocol.programs import program
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from tests.reference_broker.transactions.peer_bench import OWN, Asked, PeerBench
from tests.sdk.stories import Kinds, Step, run_stories, steps

SIZE = 3
#: A transactional id for each partition of the topic; brokers 2 and 3 lead the first two; this broker leads the last.
X, Y, OURS = (next(each for each in map(str, range(99)) if partition_of(each, SIZE) == number) for number in range(3))
A, B = ("a", 0), ("b", 1)

Result = AddPartitionsToTxnResponse.AddPartitionsToTxnResult
TopicResult = AddPartitionsToTxnResponse.AddPartitionsToTxnTopicResult
PartitionResult = AddPartitionsToTxnResponse.AddPartitionsToTxnPartitionResult


def response(asked: Asked, codes: Any = None, error_code: int = 0) -> AddPartitionsToTxnResponse:
    """Return the response to a request, with given codes for some partitions."""
    results = [
        Result(
            transaction.transactional_id,
            [
                TopicResult(
                    topic.name,
                    [
                        PartitionResult(number, (codes or {}).get((topic.name, number), ErrorCode.NONE))
                        for number in topic.partitions
                    ],
                )
                for topic in transaction.topics
            ],
        )
        for transaction in asked.request.transactions
    ]
    return AddPartitionsToTxnResponse(error_code=error_code, results_by_transaction=[] if error_code else results)


def ids(asked: Asked) -> list[str]:
    return [transaction.transactional_id for transaction in asked.request.transactions]


class Bench(PeerBench):
    """The verifier of broker 1.

    Attributes:
        own: the questions that this broker's coordinator received.
        answers: the answers to each question, in the order of the `ask_about` calls: the codes, keyed by partition.
    """

    def __init__(self) -> None:
        super().__init__({("__transaction_state", number): leader for number, leader in enumerate((2, 3, OWN))})
        self.own: list[Any] = []
        self.answers: list[list[Any]] = []
        self.size = SIZE
        self.verifier = TransactionVerifier(self.peers, lambda: self.size, self)

    def ensure_partitions(
        self,
        transactional_id: str,
        producer_id: int,
        epoch: int,
        topic_partitions: Any,
        transaction_version: int,
        done: Any,
        now_ms: int,
    ) -> None:
        """Answer as the coordinator of this broker."""
        assert now_ms == self.now_ms
        self.own.append((transactional_id, producer_id, epoch, topic_partitions, transaction_version))
        done({})

    def ask_about(
        self, transactional_id: str = X, epoch: int = 0, *partitions: Any, producer_id: int = 7, version: int = 1
    ) -> list[Any]:
        """Ask about a transaction; return the answers."""
        answers: list[Any] = []
        self.answers.append(answers)
        self.verifier.ensure_partitions(
            transactional_id,
            producer_id,
            epoch,
            partitions or (A, B),
            version,
            lambda refused: answers.append({partition: error.code for partition, error in refused.items()}),
            self.now_ms,
        )
        return answers


def refused(code: ErrorCode) -> list[Any]:
    return [{A: code, B: code}]


def test_question_and_answer():
    bench = Bench()
    answers = bench.ask_about(X, 3, A, B, ("a", 5))
    assert bench.asked == [], "other questions may follow in this turn"
    asked = bench.take()
    (transaction,) = asked.request.transactions
    assert asked.broker_id == 2
    assert (transaction.transactional_id, transaction.producer_id, transaction.producer_epoch) == (X, 7, 3)
    assert [(topic.name, list(topic.partitions)) for topic in transaction.topics] == [("a", [0, 5]), ("b", [1])]
    assert (transaction.verify_only, answers) == (True, [])
    asked.end(response(asked, {B: ErrorCode.TRANSACTION_ABORTABLE}))
    assert answers == [{B: ErrorCode.TRANSACTION_ABORTABLE}]


def test_own_transactions_need_no_request():
    bench = Bench()
    assert bench.ask_about(OURS, 3, version=2) == [{}]
    bench.turn()
    assert (bench.own, bench.asked) == ([(OURS, 7, 3, (A, B), 2)], [])


@pytest.mark.parametrize(("version", "verify_only"), [(0, True), (1, True), (2, False)])
def test_partitions_are_added_for_producers_that_leave_it_to_brokers(version, verify_only):
    bench = Bench()
    bench.ask_about(version=version)
    assert [each.verify_only for each in bench.take().request.transactions] == [verify_only]


@pytest.mark.parametrize(
    ("code", "version", "told"),
    [
        (ErrorCode.PRODUCER_FENCED, 1, ErrorCode.INVALID_PRODUCER_EPOCH),
        (ErrorCode.TRANSACTION_ABORTABLE, 0, ErrorCode.INVALID_TXN_STATE),
        (ErrorCode.TRANSACTION_ABORTABLE, 1, ErrorCode.TRANSACTION_ABORTABLE),
        (ErrorCode.NOT_COORDINATOR, 1, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.CONCURRENT_TRANSACTIONS, 2, ErrorCode.CONCURRENT_TRANSACTIONS),
    ],
)
def test_errors_of_partitions(code, version, told):
    bench = Bench()
    answers = bench.ask_about(version=version)
    asked = bench.take()
    asked.end(response(asked, {A: code}))
    assert answers == [{A: told}]


@pytest.mark.parametrize(
    ("code", "told"),
    [
        (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ErrorCode.INVALID_TXN_STATE),
        (ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
)
def test_errors_of_responses(code, told):
    bench = Bench()
    answers = bench.ask_about()
    asked = bench.take()
    asked.end(response(asked, error_code=code))
    assert answers == refused(told)


@pytest.mark.parametrize("error", [ConnectionLost("reset"), RequestTimedOut("late"), BrokerError(1), OSError()])
def test_lost_requests(error):
    bench = Bench()
    answers = bench.ask_about()
    bench.take().end(error)
    assert answers == refused(ErrorCode.NETWORK_EXCEPTION)
    bench.ask_about()
    assert ids(bench.take()) == [X], "the next question is asked"


def test_coordinator_without_the_version_is_not_asked(caplog):
    """The links report this: a Kafka 3.4 broker has no version that can contain several transactions."""
    bench = Bench()
    answers = bench.ask_about()
    asked = bench.take()
    with pytest.raises(UnsupportedVersion) as error:
        program(AddPartitionsToTxnRequest, 3).encode(asked.request)
    asked.end(error.value)
    assert answers == [{}]
    assert "broker 2 cannot verify transactions" in caplog.messages[0]


def test_response_that_leaves_something_out():
    bench = Bench()
    answers = bench.ask_about(X), bench.ask_about(Y)
    bench.take(2).end(AddPartitionsToTxnResponse(results_by_transaction=[]))
    asked = bench.take(3)
    (result,) = response(asked).results_by_transaction
    cut = Result(result.transactional_id, result.topic_results[:1])
    asked.end(AddPartitionsToTxnResponse(results_by_transaction=[cut]))
    assert answers == (refused(ErrorCode.NETWORK_EXCEPTION), [{B: ErrorCode.NETWORK_EXCEPTION}])


@pytest.mark.parametrize("trouble", ["no topic", "no leader", "dead leader", "unknown partition"])
def test_no_coordinator(trouble):
    bench = Bench()
    place = ("__transaction_state", partition_of(X, SIZE))
    if trouble == "no topic":
        bench.size = 0
    elif trouble == "dead leader":
        bench.alive = {1, 3}
    elif trouble == "no leader":
        bench.leaders[place] = -1
    else:
        del bench.leaders[place]
    assert bench.ask_about() == refused(ErrorCode.COORDINATOR_NOT_AVAILABLE)


def test_questions_that_come_meanwhile_share_the_next_request(monkeypatch):
    monkeypatch.setattr(module, "TRANSACTIONS_MAX", 3)
    of_first = [each for each in map(str, range(99)) if partition_of(each, SIZE) == 0]
    bench = Bench()
    bench.ask_about(of_first[0])
    first = bench.take()
    for each in of_first[1:6]:
        bench.ask_about(each)
    bench.ask_about(Y)
    assert ids(bench.take(3)) == [Y], "other brokers are not kept waiting"
    bench.turn()
    assert bench.asked == []
    for expected in (of_first[1:4], of_first[4:6]):
        first.end(response(first))
        first = bench.take()
        assert ids(first) == expected
    first.end(response(first))
    assert [len(each) for each in bench.answers] == [1] * 6 + [0]


@pytest.mark.parametrize(
    ("second", "told", "sent_epoch"),
    [
        ({"epoch": 5}, [refused(ErrorCode.NETWORK_EXCEPTION), []], 5),
        ({"epoch": 6}, [refused(ErrorCode.INVALID_PRODUCER_EPOCH), []], 6),
        ({"epoch": 4}, [[], refused(ErrorCode.INVALID_PRODUCER_EPOCH)], 5),
        ({"epoch": 0, "producer_id": 8}, [refused(ErrorCode.NETWORK_EXCEPTION), []], 0),
    ],
)
def test_producer_that_asks_again(second, told, sent_epoch):
    bench = Bench()
    bench.ask_about(X, 5)
    bench.ask_about(X, **second)
    assert bench.answers == told
    (transaction,) = bench.take().request.transactions
    assert transaction.producer_epoch == sent_epoch


def test_question_under_way_is_not_replaced():
    bench = Bench()
    bench.ask_about(X, 5)
    asked = bench.take()
    bench.ask_about(X, 6)
    asked.end(response(asked))
    assert bench.answers == [[{}], []]
    assert ids(bench.take()) == [X]


def test_waiting_questions_are_limited(monkeypatch):
    monkeypatch.setattr(module, "WAITING_MAX", 1)
    bench = Bench()
    bench.ask_about(X)
    assert bench.ask_about(X) == [], "the question replaces the first one"
    other = next(each for each in map(str, range(99)) if partition_of(each, SIZE) == 0 and each != X)
    assert bench.ask_about(other) == refused(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    assert bench.ask_about(Y) == [], "other coordinators have their own limits"


def test_waiting_questions_follow_the_coordinator():
    bench = Bench()
    place = ("__transaction_state", partition_of(X, SIZE))
    other = [each for each in map(str, range(99)) if partition_of(each, SIZE) == 0 and each != X]
    bench.ask_about(X)
    asked = bench.take()
    waiting = bench.ask_about(other[0])
    bench.leaders[place] = OWN
    asked.end(response(asked))
    bench.turn()
    assert waiting == [{}], "this broker has answered the question"
    bench.leaders[place] = 2
    bench.ask_about(other[1])
    del bench.leaders[place]
    bench.turn()
    assert bench.answers[-1] == refused(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    bench.leaders[place] = 2
    bench.ask_about(other[1])
    assert ids(bench.take()) == [other[1]], "the channel is free"


@pytest.mark.defect
def test_failing_callback_holds_up_no_other(caplog):
    bench = Bench()
    other = next(each for each in map(str, range(99)) if partition_of(each, SIZE) == 0 and each != X)

    def fail(refused: Any) -> None:
        raise ZeroDivisionError

    bench.verifier.ensure_partitions(other, 7, 0, [A], 1, fail, 0)
    answers = bench.ask_about()
    asked = bench.take()
    asked.end(response(asked))
    assert answers == [{}]
    assert caplog.messages == [f"failed to process the answer for {other!r}"]


BROKERS = st.sampled_from([2, 3])
EVENTS: Kinds = {
    "ask": (st.sampled_from([X, Y, OURS, "u", "v"]), st.integers(0, 2)),
    "ask more": (st.sampled_from([X, Y, "u", "v"]), st.integers(0, 2)),
    "turn": (),
    "answer": (BROKERS, st.sampled_from([ErrorCode.NONE, ErrorCode.NOT_COORDINATOR])),
    "lose": (BROKERS, st.sampled_from([ConnectionLost("reset"), UnsupportedVersion("old")])),
    "lead": (st.integers(0, SIZE - 1), st.sampled_from([None, -1, 1, 2, 3])),
    "die": (BROKERS,),
}


class Story(Bench):
    """A verifier with random events."""

    def act(self, step: Step) -> None:
        name, *arguments = step
        getattr(self, "do_" + name.removesuffix(" more"))(*arguments)
        assert all(len(each) <= 1 for each in self.answers)

    def do_ask(self, transactional_id: str, epoch: int) -> None:
        self.ask_about(transactional_id, epoch)

    def do_turn(self) -> None:
        self.turn()

    def do_answer(self, broker_id: int, code: ErrorCode) -> None:
        self._end(broker_id, code)

    def do_lose(self, broker_id: int, error: Exception) -> None:
        self._end(broker_id, error)

    def _end(self, broker_id: int, outcome: ErrorCode | Exception) -> None:
        for asked in [each for each in self.asked if each.broker_id == broker_id]:
            self.asked.remove(asked)
            asked.end(outcome if isinstance(outcome, Exception) else response(asked, {A: outcome}))

    def do_lead(self, number: int, leader: int | None) -> None:
        self.leaders.pop(("__transaction_state", number), None)
        if leader is not None:
            self.leaders["__transaction_state", number] = leader

    def do_die(self, broker_id: int) -> None:
        self.alive ^= {broker_id}


@run_stories(60)
@given(steps(EVENTS, longest=40))
def test_stories(story: list[Step]) -> None:
    bench = Story()
    for step in story:
        bench.act(step)
    for _ in range(20):
        bench.turn()
        for broker_id in (2, 3):
            bench.do_answer(broker_id, ErrorCode.NONE)
    assert all(bench.answers)
    bench.turn()
    assert bench.asked == []
