"""Exactly-once processing: read a topic, write each value to another, and commit the offsets, all in transactions.

A transformer that fails in any way restarts with the same transactional id, as Kafka Streams would; a paused one may
still be writing when its successor starts to. At the end, each value is in the output exactly once.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any, Final

from kafkawire.reference_broker.simulation.checkers import Violation
from kafkawire.reference_broker.simulation.client import Ask, Client, Pause, Script, ask
from kafkawire.reference_broker.simulation.consumers import fetch, values_of
from kafkawire.reference_broker.simulation.error_codes import error_codes
from kafkawire.reference_broker.simulation.producers import batch_of, produce_request
from kafkawire.sdk.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from kafkawire.sdk.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnResponse
from kafkawire.sdk.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from kafkawire.sdk.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from kafkawire.sdk.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from kafkawire.sdk.protocol.messages.produce import ProduceResponse
from kafkawire.sdk.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest, TxnOffsetCommitResponse
from kafkawire.sdk.protocol.schema import Message
from kafkawire.sdk.protocol.tables.enums import CoordinatorType, IsolationLevel
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.routing.call import Coordinator
from kafkawire.sdk.routing.partitions import TopicPartition

__all__ = ["GROUP", "Transformer"]

#: The group for the transformers' offsets.
GROUP: Final = "transformer"

_TRANSACTIONAL_ID: Final = "transformer"
_TIMEOUT_MS: Final = 3_000
#: The last versions in which the client itself adds partitions and groups to its transactions.
_ADD_PARTITIONS_VERSION: Final = 3
_END_VERSION: Final = 3
_COMMIT_VERSION: Final = 3

_GROUP: Final = Coordinator(CoordinatorType.GROUP, GROUP)
_TRANSACTION: Final = Coordinator(CoordinatorType.TRANSACTION, _TRANSACTIONAL_ID)

_AGAIN: Final = frozenset(
    {
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNSTABLE_OFFSET_COMMIT,
        ErrorCode.REQUEST_TIMED_OUT,
    }
)
_ATTEMPTS: Final = 12

#: A partition, the next offset in it, and the values read from it.
_Read = tuple[TopicPartition, int, list[bytes]]


class _Failed(Exception):
    """The transformer has to restart."""


class Transformer:
    """Copies the values of one topic to another.

    Args:
        client: sends the requests.
        sources: the partitions to read.
        targets: the partitions to write to, one for each source.

    Attributes:
        offsets: the input offsets from which to continue, as known to this transformer.
    """

    def __init__(
        self,
        client: Client,
        sources: Sequence[TopicPartition],
        targets: Sequence[TopicPartition],
    ) -> None:
        self._client = client
        self._sources = sources
        self._targets = dict(zip(sources, targets, strict=True))
        self.offsets: dict[TopicPartition, int] = {}
        self._producer = (-1, -1)
        self._sequences: dict[TopicPartition, int] = {}

    def script(self) -> Script:
        """Copy until the client ends."""
        client = self._client
        while not client.is_over:
            try:
                yield from self._begin()
                while not client.is_over:
                    yield from self._transact()
                    yield Pause(client.chance.randint(5, 150))
            except _Failed:
                yield Pause(client.chance.randint(20, 200))

    # Steps.

    def _asked(self, question: Ask, response: type[Message]) -> Generator[Ask | Pause, Any, Any]:
        """Send a request, retrying until its answer is final."""
        for _ in range(_ATTEMPTS):
            answer = yield from ask(question, response)
            codes = error_codes(answer) if answer is not None else set()
            if codes and not codes & _AGAIN:
                if codes == {ErrorCode.NONE}:
                    return answer
                raise _Failed
            yield Pause(self._client.chance.randint(10, 80))
            if self._client.is_over:
                raise _Failed
        raise _Failed

    def _begin(self) -> Generator[Ask | Pause, Any, None]:
        """Get an epoch, which ends any predecessor's transaction, and read the offsets."""
        request = InitProducerIdRequest(_TRANSACTIONAL_ID, _TIMEOUT_MS)
        response = yield from self._asked(Ask(_TRANSACTION, request), InitProducerIdResponse)
        self._producer = response.producer_id, response.producer_epoch
        self._sequences = {}
        yield from self._read_offsets()

    def _read_offsets(self) -> Generator[Ask | Pause, Any, None]:
        numbers = [source.partition for source in self._sources]
        topic = OffsetFetchRequest.OffsetFetchRequestTopics(self._sources[0].topic, partition_indexes=numbers)
        group = OffsetFetchRequest.OffsetFetchRequestGroup(GROUP, topics=[topic])
        request = OffsetFetchRequest(groups=[group], require_stable=True)
        # The last version with topic names.
        response = yield from self._asked(Ask(_GROUP, request, 9), OffsetFetchResponse)
        for part in response.groups[0].topics[0].partitions:
            source = TopicPartition(self._sources[0].topic, part.partition_index)
            offset = max(part.committed_offset, 0)
            before = self._committed_before(source)
            if offset < before:
                raise Violation(f"{source}: the group's committed offset moved back from {before} to {offset}")
            self.offsets[source] = offset

    def _committed_before(self, source: TopicPartition) -> int:
        return self.offsets.get(source, 0)

    def _transact(self) -> Generator[Ask | Pause, Any, None]:
        chance = self._client.chance
        source = chance.choice(self._sources)
        offset = self.offsets[source]
        part = yield from fetch(self._client, source, offset, IsolationLevel.READ_COMMITTED)
        if part is None or part.error_code:
            if part is not None and part.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
                raise Violation(f"{source}: the committed offset {offset} is out of range")
            return
        found, next_offset = values_of(part, offset)
        if next_offset == offset:
            return
        aborts = chance.random() < 0.25
        target = self._targets[source]
        yield from self._add_partition(target)
        if found:
            yield from self._write(target, tuple(value for _, value in sorted(found.items())))
        yield from self._add_offsets(source, next_offset)
        if aborts:
            yield from self._end(commits=False)
        else:
            yield from self._end(commits=True)
            self.offsets[source] = next_offset

    def _add_partition(self, target: TopicPartition) -> Generator[Ask | Pause, Any, None]:
        topic = AddPartitionsToTxnRequest.AddPartitionsToTxnTopic(target.topic, [target.partition])
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=_TRANSACTIONAL_ID,
            v3_and_below_producer_id=self._producer[0],
            v3_and_below_producer_epoch=self._producer[1],
            v3_and_below_topics=[topic],
        )
        yield from self._asked(Ask(_TRANSACTION, request, _ADD_PARTITIONS_VERSION), AddPartitionsToTxnResponse)

    def _write(self, target: TopicPartition, values: tuple[bytes, ...]) -> Generator[Ask | Pause, Any, None]:
        client = self._client
        sequence = self._sequences.get(target, 0)
        batch = batch_of(values, client.host.clock(), self._producer, sequence, is_transactional=True)
        for _ in range(_ATTEMPTS):
            leader = client.leader(target)
            if leader is None:
                yield Pause(30)
                continue
            response = yield from ask(produce_request(leader, target, batch, _TRANSACTIONAL_ID), ProduceResponse)
            code = None if response is None else response.responses[0].partition_responses[0].error_code
            if code in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
                self._sequences[target] = sequence + len(values)
                return
            if code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
                raise Violation(f"{target}: sequence {sequence} of {client.name} is refused as out of order")
            if code is not None and code not in (*_AGAIN, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND):
                raise _Failed
            client.outdated()
            yield Pause(client.chance.randint(10, 60))
        raise _Failed

    def _add_offsets(self, source: TopicPartition, offset: int) -> Generator[Ask | Pause, Any, None]:
        producer_id, epoch = self._producer
        request = AddOffsetsToTxnRequest(_TRANSACTIONAL_ID, producer_id, epoch, GROUP)
        yield from self._asked(Ask(_TRANSACTION, request, _ADD_PARTITIONS_VERSION), AddOffsetsToTxnResponse)
        partition = TxnOffsetCommitRequest.TxnOffsetCommitRequestPartition(source.partition, offset)
        topic = TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic(source.topic, [partition])
        commit = TxnOffsetCommitRequest(_TRANSACTIONAL_ID, GROUP, producer_id, epoch, topics=[topic])
        yield from self._asked(Ask(_GROUP, commit, _COMMIT_VERSION), TxnOffsetCommitResponse)

    def _end(self, *, commits: bool) -> Generator[Ask | Pause, Any, None]:
        request = EndTxnRequest(_TRANSACTIONAL_ID, *self._producer, commits)
        yield from self._asked(Ask(_TRANSACTION, request, _END_VERSION), EndTxnResponse)
