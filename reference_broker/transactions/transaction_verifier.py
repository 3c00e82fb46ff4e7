"""Ask a transaction's coordinator, on whichever broker it runs, whether partitions are in the transaction (KIP-890).

One AddPartitionsToTxn request at a time is in flight to each broker, in a version that supports several transactions;
questions that arise meanwhile share the next one. A coordinator without such a version is not asked, and its
transactions are not verified. Each transactional id has at most one waiting question: a later question from the same
producer replaces the earlier one, which the producer's retry asks again. For transactions that this broker coordinates,
no request is sent.

Source: `AddPartitionsToTxnManager` in Apache Kafka.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple

from kafkawire.reference_broker.coordinators.placement import partition_of
from kafkawire.reference_broker.transactions.peers import Peers
from kafkawire.reference_broker.transactions.transaction_verification import Answered, Verifier, told_to_producer
from kafkawire.sdk.errors import BrokerError, UnsupportedVersion
from kafkawire.sdk.log_limit import LogLimit
from kafkawire.sdk.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnResponse
from kafkawire.sdk.protocol.schema import Message
from kafkawire.sdk.protocol.tables.enums import NO_LEADER_ID, TRANSACTION_STATE_TOPIC, TransactionVersion
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.routing.call import Purpose
from kafkawire.sdk.storage.partitions import Partition

__all__ = ["TRANSACTIONS_MAX", "WAITING_MAX", "TransactionVerifier"]

#: The maximum number of transactions in one request; the coordinator responds once it has checked all of them.
TRANSACTIONS_MAX: Final = 500

#: The maximum number of transactional ids waiting for one coordinator. A connection has one request in progress, so
#: only an overloaded broker reaches this limit.
WAITING_MAX: Final = 10_000

_log = logging.getLogger("kafkawire.broker")

Transaction = AddPartitionsToTxnRequest.AddPartitionsToTxnTransaction
Topic = AddPartitionsToTxnRequest.AddPartitionsToTxnTopic


class _Question(NamedTuple):
    """A question about one transaction; see `Verifier.ensure_partitions`."""

    transactional_id: str
    producer_id: int
    epoch: int
    partitions: Sequence[Partition]
    transaction_version: int
    done: Answered

    def refused(self, code: int, reason: str) -> Mapping[Partition, BrokerError]:
        """Return an answer that has the same error for all partitions."""
        error = told_to_producer(BrokerError(code, reason), self.transaction_version)
        return dict.fromkeys(self.partitions, error)


class TransactionVerifier:
    """Asks all coordinators; see `Verifier`.

    Args:
        peers: the brokers.
        size_of: returns the number of partitions of `__transaction_state`, or 0 if the topic does not exist.
        own: the coordinator on this broker.
    """

    def __init__(self, peers: Peers, size_of: Callable[[], int], own: Verifier) -> None:
        self._peers = peers
        self._size_of = size_of
        self._own = own
        self._lines = LogLimit(_log)
        #: Waiting questions, keyed by broker and transactional id.
        self._waiting: defaultdict[int, dict[str, _Question]] = defaultdict(dict)
        #: The brokers to which a request is in flight or about to be sent.
        self._busy: set[int] = set()

    def ensure_partitions(
        self,
        transactional_id: str,
        producer_id: int,
        epoch: int,
        topic_partitions: Sequence[Partition],
        transaction_version: int,
        done: Answered,
        now_ms: int,
    ) -> None:
        """Check that partitions are in a transaction, or add them; see `Verifier.ensure_partitions`.

        The errors are those from the coordinator, COORDINATOR_NOT_AVAILABLE if there is none, and NETWORK_EXCEPTION if
        it does not respond or the producer has asked again.
        """
        self._put(_Question(transactional_id, producer_id, epoch, topic_partitions, transaction_version, done))

    def _coordinator_of(self, transactional_id: str) -> int:
        """Return the broker that coordinates a transactional id, or `NO_LEADER_ID` if there is none."""
        size = self._size_of()
        if not size:
            return NO_LEADER_ID
        leader = self._peers.leader((TRANSACTION_STATE_TOPIC, partition_of(transactional_id, size)))
        return NO_LEADER_ID if leader is None else leader

    def _put(self, question: _Question) -> None:
        broker_id = self._coordinator_of(question.transactional_id)
        if broker_id == NO_LEADER_ID:
            reason = f"could not reach the coordinator for {question.transactional_id!r}"
            self._refuse(question, ErrorCode.COORDINATOR_NOT_AVAILABLE, reason)
        elif broker_id == self._peers.broker_id:
            self._own.ensure_partitions(*question, self._peers.now_ms())
        else:
            self._wait(broker_id, question)

    def _wait(self, broker_id: int, question: _Question) -> None:
        """Add a question to the next request; a producer's later epoch fences an earlier one."""
        waiting = self._waiting[broker_id]
        before = waiting.get(question.transactional_id)
        is_known = before is not None and before.producer_id == question.producer_id
        fenced = f"a producer with a newer epoch uses {question.transactional_id!r}"
        if before is not None and is_known and question.epoch < before.epoch:
            self._refuse(question, ErrorCode.INVALID_PRODUCER_EPOCH, fenced)
            return
        if before is None and len(waiting) >= WAITING_MAX:
            reason = f"too many transactional ids are waiting for broker {broker_id}; the limit is {WAITING_MAX}"
            self._refuse(question, ErrorCode.COORDINATOR_NOT_AVAILABLE, reason)
            return
        waiting[question.transactional_id] = question
        self._wake(broker_id)
        if before is not None and is_known and before.epoch < question.epoch:
            self._refuse(before, ErrorCode.INVALID_PRODUCER_EPOCH, fenced)
        elif before is not None:
            self._refuse(
                before,
                ErrorCode.NETWORK_EXCEPTION,
                f"the producer of {question.transactional_id!r} sent another request",
            )

    def _refuse(self, question: _Question, code: int, reason: str) -> None:
        self._answer(question, question.refused(code, reason))

    def _answer(self, question: _Question, refused: Mapping[Partition, BrokerError]) -> None:
        try:
            question.done(refused)
        except Exception:  # a defect, which must not delay other producers
            text = "failed to process the answer for %r"
            self._lines.exception("verification", self._peers.now_ms(), text, question.transactional_id)

    # Requests.

    def _wake(self, broker_id: int) -> None:
        if broker_id not in self._busy:
            self._busy.add(broker_id)
            self._peers.post(partial(self._send, broker_id))

    def _send(self, broker_id: int) -> None:
        waiting = self._waiting[broker_id]
        asked: dict[str, _Question] = {}
        moved: list[_Question] = []
        while waiting and len(asked) < TRANSACTIONS_MAX:
            transactional_id = next(iter(waiting))
            question = waiting.pop(transactional_id)
            if self._coordinator_of(transactional_id) == broker_id:
                asked[transactional_id] = question
            else:
                moved.append(question)
        if asked:
            done = partial(self._answered, broker_id, asked)
            self._peers.ask(broker_id, _request(asked.values()), done, Purpose.VERIFICATION)
        else:
            self._busy.discard(broker_id)
        for question in moved:
            self._put(question)

    def _answered(self, broker_id: int, asked: Mapping[str, _Question], outcome: Message | Exception) -> None:
        self._busy.discard(broker_id)
        if self._waiting[broker_id]:
            self._wake(broker_id)
        if isinstance(outcome, UnsupportedVersion):
            text = "broker %d cannot verify transactions, so the transactions that it coordinates are not verified: %s"
            self._lines.warning(("version", broker_id), self._peers.now_ms(), text, broker_id, outcome)
        found = _codes(outcome) if isinstance(outcome, AddPartitionsToTxnResponse) else {}
        for question in asked.values():
            codes = found.get(question.transactional_id, {})
            self._answer(question, _refused(question, outcome, codes, f"broker {broker_id}"))


def _request(questions: Iterable[_Question]) -> AddPartitionsToTxnRequest:
    transactions = []
    for question in questions:
        topics: dict[str, list[int]] = {}
        for name, number in question.partitions:
            topics.setdefault(name, []).append(number)
        transactions.append(
            Transaction(
                question.transactional_id,
                question.producer_id,
                question.epoch,
                question.transaction_version < TransactionVersion.TV_2,
                [Topic(*topic) for topic in topics.items()],
            )
        )
    return AddPartitionsToTxnRequest(transactions)


def _codes(response: AddPartitionsToTxnResponse) -> Mapping[str, Mapping[Partition, int]]:
    """Return the error codes in a response, keyed by transactional id and partition."""
    return {
        result.transactional_id: {
            (topic.name, partition.partition_index): partition.partition_error_code
            for topic in result.topic_results
            for partition in topic.results_by_partition
        }
        for result in response.results_by_transaction
    }


def _refused(
    question: _Question, outcome: Message | Exception, codes: Mapping[Partition, int], broker: str
) -> Mapping[Partition, BrokerError]:
    """Return the refused partitions in a question, with their errors.

    Args:
        question: the question.
        outcome: the response to its request, or the reason why there is none.
        codes: the codes in the response for partitions of the question.
        broker: the name of the broker, for messages.
    """
    if isinstance(outcome, UnsupportedVersion):
        return {}
    if not isinstance(outcome, AddPartitionsToTxnResponse):
        return question.refused(ErrorCode.NETWORK_EXCEPTION, f"{broker}: {outcome}")
    if outcome.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
        # This broker lacks authorization, not the producer. As in Kafka, the transaction is considered unverified.
        return question.refused(
            ErrorCode.INVALID_TXN_STATE, f"{broker} does not allow this broker to verify transactions"
        )
    if outcome.error_code:
        return question.refused(outcome.error_code, broker)
    refused = {}
    for partition in question.partitions:
        code = codes.get(partition, ErrorCode.NETWORK_EXCEPTION)  # the response should name all partitions
        if code:
            refused[partition] = told_to_producer(BrokerError(code, broker), question.transaction_version)
    return refused
