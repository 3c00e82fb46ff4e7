"""A simulated producer with transactions, and a coordinator that handles them as Apache Kafka does, in both versions.

Data stored by a transaction is pending until the end, and is then `committed` or gone; so are a group's offsets.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from kafkawire.sdk.errors import KafkaWireError
from kafkawire.sdk.groups.protocol import GroupMetadata
from kafkawire.sdk.producer.transactions.machine import Transactions
from kafkawire.sdk.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from kafkawire.sdk.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnResponse
from kafkawire.sdk.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from kafkawire.sdk.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from kafkawire.sdk.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from kafkawire.sdk.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest, TxnOffsetCommitResponse
from kafkawire.sdk.protocol.schema import Message
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.records import RecordBatch
from kafkawire.sdk.routing.partitions import OffsetAndMetadata, TopicPartition
from kafkawire.sdk.transport.promise import Promise
from tests.sdk.producer.simulated import SimulatedProducer
from tests.sdk.simulation import SILENT, Silent, address

__all__ = ["BOTH", "ID", "T0", "TransactionalProducer", "error_of", "versions_of"]

ID = "payments"

BOTH = pytest.mark.parametrize("version", [1, 2])
#: The topic's first partition.
T0 = ("t", 0)


def versions_of(producer: TransactionalProducer, kind: type[Message]) -> set[int]:
    """Return the versions used for requests of a class."""
    return {version for _, _, request, version in producer.simulation.sent if isinstance(request, kind)}


def error_of(promise: Any) -> Exception | None:
    """Return a settled promise's error, or None if it was kept."""
    assert promise.done
    try:
        promise.wait(0)
    except KafkaWireError as error:
        return error
    return None


class TransactionalProducer(SimulatedProducer):
    """A producer and the coordinator of its transactions.

    Args:
        version: a level of transaction.version.
        starting: the error codes for its first requests for a producer id.
        given: options.

    Attributes:
        coordinator: the node that currently coordinates everything.
        refusals: the codes with which the next requests are rejected, keyed by request class; SILENT for no answer.
        lost: request classes whose next response is lost along with the connection, although the request is carried
            out.
        epoch: the producer's current epoch.
        state: the transaction's state: empty, ongoing, commit or abort.
        committed: the committed values, keyed by partition.
        offsets: the committed offsets, keyed by partition.
    """

    def __init__(self, version: int, starting: Sequence[int] = (), **given: Any) -> None:
        super().__init__(given.pop("topics", {"t": [1, 2, 3]}), transactional_id=ID, linger_ms=0, **given)
        self.version = version
        self.simulation.features["transaction.version"] = version
        self.coordinator = 1
        self.refusals: dict[type[Message], list[Any]] = defaultdict(list)
        self.refusals[InitProducerIdRequest] = list(starting)
        self.lost: list[type[Message]] = []
        self.number, self.epoch = 7, -1
        self.state = "empty"
        self.joined: set[Any] = set()
        self.pending: list[tuple[tuple[str, int], list[bytes | None]]] = []
        self.committed: dict[tuple[str, int], list[bytes | None]] = defaultdict(list)
        self.pending_offsets: dict[tuple[str, int], int] = {}
        self.offsets: dict[tuple[str, int], int] = {}
        handlers = self.simulation.handlers
        handlers[FindCoordinatorRequest] = self._find
        for kind, handle, refuse in (
            (InitProducerIdRequest, self._init, lambda request, code: InitProducerIdResponse(0, code)),
            (AddPartitionsToTxnRequest, self._add_partitions, self._none_added),
            (AddOffsetsToTxnRequest, self._add_offsets, lambda request, code: AddOffsetsToTxnResponse(0, code)),
            (TxnOffsetCommitRequest, self._commit_offsets, self._no_offsets),
            (EndTxnRequest, self._end, lambda request, code: EndTxnResponse(0, code)),
        ):
            for node in self.nodes:
                handlers[node, kind] = self._handler(node, kind, handle, refuse)
        self.run(2_000 if not starting else 70_000)

    @property
    def machine(self) -> Transactions:
        """The machine under test."""
        assert self.transactions is not None
        return self.transactions

    # The application.

    def ask(self, step: Callable[..., None], *arguments: Any) -> Promise[None]:
        """Run a step as the driver does."""
        promise: Promise[None] = Promise()
        try:
            step(*arguments, promise, self.simulation.now_ms)
        except KafkaWireError as error:
            promise.fail(error)
        return promise

    def begin(self) -> None:
        """Begin a transaction."""
        self.ask(self.machine.begin).wait(0)

    def commit(self, duration_ms: int = 5_000, timeout_ms: int = 60_000) -> Promise[None]:
        """Commit, and let time pass."""
        promise = self.ask(self.machine.commit, timeout_ms)
        self.run(duration_ms)
        return promise

    def abort(self, duration_ms: int = 5_000, timeout_ms: int = 60_000) -> Promise[None]:
        """Abort, and let time pass."""
        promise = self.ask(self.machine.abort, timeout_ms)
        self.run(duration_ms)
        return promise

    def send_offset(self, offset: int, duration_ms: int = 5_000, timeout_ms: int = 60_000) -> Promise[None]:
        """Send a group's offset, and let time pass."""
        offsets = {TopicPartition("in", 0): OffsetAndMetadata(offset)}
        group = GroupMetadata("g", 3, "member")
        promise = self.ask(self.machine.send_offsets, offsets, group, timeout_ms)
        self.run(duration_ms)
        return promise

    def all_committed(self) -> list[bytes]:
        """Return the values that readers of committed records see, sorted."""
        return sorted(value for values in self.committed.values() for value in values if value is not None)

    def fence(self) -> None:
        """Let another producer with this transactional id begin."""
        self.epoch += 2 if self.state == "ongoing" else 1
        self._abort()
        self.state = "empty"

    def expire(self) -> None:
        """End the transaction, as a coordinator does after `transaction_timeout_ms`."""
        self.epoch += 1
        self._abort()

    # The coordinator.

    def _handler(self, node: int, kind: type[Message], handle: Any, refuse: Any) -> Any:
        def answer(request: Any, version: int) -> Message | Exception | Silent:
            if self.refusals[kind]:
                code = self.refusals[kind].pop(0)
                return SILENT if code is SILENT else refuse(request, code)
            if node != self.coordinator:
                return refuse(request, ErrorCode.NOT_COORDINATOR)  # type: ignore[no-any-return]  # one of the messages
            response = handle(request, version)
            if kind in self.lost:
                self.lost.remove(kind)
                self.simulation.at(0, lambda: self.simulation.break_connections(node))
                return SILENT
            return response  # type: ignore[no-any-return]  # one of the messages

        return answer

    def _find(self, request: FindCoordinatorRequest, version: int) -> FindCoordinatorResponse:
        found = [
            FindCoordinatorResponse.Coordinator(key, self.coordinator, *address(self.coordinator))
            for key in request.coordinator_keys
        ]
        return FindCoordinatorResponse(0, coordinators=found)

    def _init(self, request: InitProducerIdRequest, version: int) -> InitProducerIdResponse:
        assert request.transactional_id == ID
        if request.producer_id >= 0 and (request.producer_id, request.producer_epoch) != (self.number, self.epoch):
            return InitProducerIdResponse(0, ErrorCode.PRODUCER_FENCED)
        self._abort()
        self.state = "empty"
        self.epoch += 1
        return InitProducerIdResponse(0, 0, self.number, self.epoch)

    def _code(self, number: int, epoch: int) -> int:
        return ErrorCode.NONE if (number, epoch) == (self.number, self.epoch) else ErrorCode.PRODUCER_FENCED

    def _join(self, what: Any) -> None:
        self.state = "ongoing"
        self.joined.add(what)

    def _add_partitions(self, request: AddPartitionsToTxnRequest, version: int) -> AddPartitionsToTxnResponse:
        assert self.version < 2, "brokers must add partitions automatically"
        code = self._code(request.v3_and_below_producer_id, request.v3_and_below_producer_epoch)
        if not code:
            for topic in request.v3_and_below_topics:
                for number in topic.partitions:
                    self._join((topic.name, number))
        return self._none_added(request, code)

    def _none_added(self, request: AddPartitionsToTxnRequest, code: int) -> AddPartitionsToTxnResponse:
        topics = []
        for topic in request.v3_and_below_topics:
            results = [
                AddPartitionsToTxnResponse.AddPartitionsToTxnPartitionResult(number, code)
                for number in topic.partitions
            ]
            topics.append(AddPartitionsToTxnResponse.AddPartitionsToTxnTopicResult(topic.name, results))
        return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=topics)

    def _add_offsets(self, request: AddOffsetsToTxnRequest, version: int) -> AddOffsetsToTxnResponse:
        assert self.version < 2, "group coordinators must add partitions automatically"
        code = self._code(request.producer_id, request.producer_epoch)
        if not code:
            self._join(request.group_id)
        return AddOffsetsToTxnResponse(0, code)

    def _commit_offsets(self, request: TxnOffsetCommitRequest, version: int) -> TxnOffsetCommitResponse:
        code = self._code(request.producer_id, request.producer_epoch)
        if not code and self.version < 2 and request.group_id not in self.joined:
            code = ErrorCode.INVALID_TXN_STATE
        if not code:
            assert (request.group_id, request.generation_id, request.member_id) == ("g", 3, "member")
            self._join(request.group_id)
            for topic in request.topics:
                for each in topic.partitions:
                    self.pending_offsets[topic.name, each.partition_index] = each.committed_offset
        return self._no_offsets(request, code)

    def _no_offsets(self, request: TxnOffsetCommitRequest, code: int) -> TxnOffsetCommitResponse:
        topics = []
        for topic in request.topics:
            results = [
                TxnOffsetCommitResponse.TxnOffsetCommitResponsePartition(each.partition_index, code)
                for each in topic.partitions
            ]
            topics.append(TxnOffsetCommitResponse.TxnOffsetCommitResponseTopic(topic.name, results))
        return TxnOffsetCommitResponse(0, topics)

    def _end(self, request: EndTxnRequest, version: int) -> EndTxnResponse:
        result = "commit" if request.committed else "abort"
        raises_epoch = self.version >= 2
        assert (version >= 5) == raises_epoch
        if raises_epoch and (request.producer_epoch, self.state) == (self.epoch - 1, result):
            return EndTxnResponse(0, 0, self.number, self.epoch)  # the response was lost
        if raises_epoch and (request.producer_epoch, self.state) == (self.epoch - 1, "abort"):
            return EndTxnResponse(0, ErrorCode.INVALID_TXN_STATE)
        if code := self._code(request.producer_id, request.producer_epoch):
            return EndTxnResponse(0, code)
        if self.state != "ongoing" and not (raises_epoch and not request.committed):
            code = ErrorCode.NONE if self.state == result and not raises_epoch else ErrorCode.INVALID_TXN_STATE
            return EndTxnResponse(0, code)
        if request.committed:
            for partition, values in self.pending:
                self.committed[partition] += values
            self.offsets |= self.pending_offsets
        self._abort()
        self.state = result
        if raises_epoch:
            self.epoch += 1
            return EndTxnResponse(0, 0, self.number, self.epoch)
        return EndTxnResponse()

    def _abort(self) -> None:
        self.state = "abort"
        self.pending.clear()
        self.pending_offsets.clear()
        self.joined.clear()

    # The leaders.

    def _append(self, node: int, name: str, number: int, batch: RecordBatch, kind: Any) -> Any:
        assert batch.is_transactional
        if batch.producer_epoch != self.epoch:
            self.produced.append((self.simulation.now_ms, node, (name, number), batch))
            return kind(number, ErrorCode.INVALID_PRODUCER_EPOCH)
        if self.version < 2 and (name, number) not in self.joined:
            return kind(number, ErrorCode.INVALID_TXN_STATE)
        before = len(self.log(name, number).values)
        answer = super()._append(node, name, number, batch, kind)
        stored = self.log(name, number).values[before:]
        if stored:
            self._join((name, number))
            self.pending.append(((name, number), stored))
        return answer
