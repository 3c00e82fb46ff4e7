"""A transactional producer that survives faults; see `patient_clients.py`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kafkawire.sdk.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from kafkawire.sdk.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from kafkawire.sdk.protocol.messages.end_txn import EndTxnRequest
from kafkawire.sdk.protocol.messages.init_producer_id import InitProducerIdRequest
from kafkawire.sdk.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest
from kafkawire.sdk.protocol.tables.enums import TransactionVersion
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from tests.reference_broker.patient_clients import Client, Clients, Given, Program, produce_code, produce_request
from tests.reference_broker.storage.produced_batches import produced

__all__ = ["Transacted", "Transactor"]

_PRODUCE = {TransactionVersion.TV_1: 11, TransactionVersion.TV_2: 12}
_COMMIT_OFFSETS = {TransactionVersion.TV_1: 4, TransactionVersion.TV_2: 5}
_END = {TransactionVersion.TV_1: 4, TransactionVersion.TV_2: 5}


@dataclass(slots=True)
class Transacted:
    """A transaction.

    Attributes:
        name: the prefix of its values, and the name of its group.
        counts: the number of records sent to each topic.
        is_commit_asked: whether its producer has requested the commit.
        is_committed: whether the commit has been acknowledged.
    """

    name: str
    counts: dict[str, int]
    is_commit_asked: bool = False
    is_committed: bool = False

    def values(self, topic: str) -> list[bytes]:
        """Return the values that were sent to a topic."""
        return [f"{self.name} {number}".encode() for number in range(self.counts.get(topic, 0))]


class Transactor(Client):
    """A transactional producer.

    Args:
        shared: see `Clients`.
        transactional_id: its id.
        version: the transaction version.
        timeout_ms: the timeout of its transactions.
        offsets_of: the topic whose offsets it commits.

    Attributes:
        transactions: all its transactions, in order.
        before: its previous producer id and epoch.
    """

    def __init__(
        self,
        shared: Clients,
        transactional_id: str,
        version: TransactionVersion,
        offsets_of: str,
        timeout_ms: int = 60_000,
    ) -> None:
        super().__init__(shared)
        self.transactional_id = transactional_id
        self._version = version
        self._timeout_ms = timeout_ms
        self._offsets_of = offsets_of
        self.transactions: list[Transacted] = []
        self.before: list[Given] = []
        self._producer: Given | None = None
        self._sequences: dict[str, int] = {}

    def __str__(self) -> str:
        return f"the transactor {self.transactional_id}"

    def begin(self) -> Program:
        """Get a producer id and an epoch, thereby aborting any open transaction."""
        request = InitProducerIdRequest(self.transactional_id, self._timeout_ms)
        response = yield from self.ask(request, None, lambda found: found.error_code)
        if response is not None:
            assert not response.error_code, f"{self}: {self.error.name}"
            self._is(Given(response.producer_id, response.producer_epoch))

    def recover(self) -> Program:
        """Start over."""
        self.is_stuck = False
        yield from self.begin()

    def _is(self, producer: Given) -> None:
        if producer != self._producer:
            self.shared.take(self, producer)
            if self._producer is not None:
                self.before.append(self._producer)
            self._producer = producer
            self._sequences.clear()

    def transact(
        self, topics: dict[str, int], end: bool | None, now_ms: int, meanwhile: Program | None = None
    ) -> Program:
        """Run a transaction with offsets.

        Args:
            topics: the number of one-record batches for each topic.
            end: whether to commit or abort; None leaves the transaction open.
            now_ms: the time.
            meanwhile: a program that runs before the transaction ends.
        """
        if self.is_stuck or self._producer is None:
            return
        made = Transacted(f"{self.transactional_id}-{len(self.transactions)}", {})
        self.transactions.append(made)
        for topic, count in topics.items():
            yield from self._send(made, topic, count, now_ms)
        yield from self._commit_offset(made)
        if meanwhile is not None:
            yield from meanwhile
        if end is not None and self._producer is not None:
            # A failed transaction is aborted, as producers are required to do.
            yield from self._end(made, is_commit=end and not self.is_stuck)

    def _send(self, made: Transacted, topic: str, count: int, now_ms: int) -> Program:
        if self._version < TransactionVersion.TV_2 and not self.is_stuck:
            yield from self._add(topic)
        for number in range(count):
            if self.is_stuck:
                return
            made.counts[topic] = number + 1
            value = f"{made.name} {number}".encode()
            request = produce_request(topic, self._batch(topic, value, now_ms), self.transactional_id)
            response = yield from self.ask(request, _PRODUCE[self._version], produce_code)
            if response is None:
                return
            if self.error is not ErrorCode.NONE:
                self.give_up()
            self._sequences[topic] = self._sequences.get(topic, 0) + 1

    def _batch(self, topic: str, value: bytes, now_ms: int, producer: Given | None = None) -> bytearray:
        producer_id, epoch = producer or self._producer or (-1, -1)
        return produced(
            value,
            key=value,
            timestamps=(now_ms,),
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=self._sequences.get(topic, 0),
            is_transactional=True,
        )

    def _add(self, topic: str) -> Program:
        assert self._producer is not None
        added = [AddPartitionsToTxnRequest.AddPartitionsToTxnTopic(topic, [0])]
        request = AddPartitionsToTxnRequest((), self.transactional_id, *self._producer, added)

        def code(response: Any) -> int:
            return int(response.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code)

        if (yield from self.ask(request, 3, code)) is not None and self.error is not ErrorCode.NONE:
            self.give_up()

    def _commit_offset(self, made: Transacted) -> Program:
        if self.is_stuck:
            return
        assert self._producer is not None
        if self._version < TransactionVersion.TV_2:
            adding = AddOffsetsToTxnRequest(self.transactional_id, *self._producer, made.name)
            if (yield from self.ask(adding, 3, lambda found: found.error_code)) is None:
                return
            if self.error is not ErrorCode.NONE:
                self.give_up()
                return
        Topic = TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic
        Place = TxnOffsetCommitRequest.TxnOffsetCommitRequestPartition
        topics = [Topic(self._offsets_of, [Place(0, 7, committed_metadata="")])]
        request = TxnOffsetCommitRequest(self.transactional_id, made.name, *self._producer, topics=topics)
        version = _COMMIT_OFFSETS[self._version]
        response = yield from self.ask(request, version, lambda found: found.topics[0].partitions[0].error_code)
        if response is not None and self.error is not ErrorCode.NONE:
            self.give_up()

    def _end(self, made: Transacted, *, is_commit: bool) -> Program:
        assert self._producer is not None
        made.is_commit_asked = is_commit
        request = EndTxnRequest(self.transactional_id, *self._producer, is_commit)
        response = yield from self.ask(request, _END[self._version], lambda found: found.error_code)
        if response is None:
            return
        if self.error is not ErrorCode.NONE:
            self.give_up()
            return
        made.is_committed = is_commit
        if response.producer_id >= 0:
            self._is(Given(response.producer_id, response.producer_epoch))

    def haunt(self, topic: str, now_ms: int) -> Program:
        """Send with the previous producer id and epoch, which the broker has to refuse."""
        if not self.before:
            return
        for producer in (self.before[0], self.before[-1]):
            batch = self._batch(topic, b"refused", now_ms, producer)
            response = yield produce_request(topic, batch, self.transactional_id), _PRODUCE[self._version]
            assert produce_code(response), f"{self}: {producer} is outdated, but was not refused"
