"""Check a transactional producer on a broker that is killed repeatedly.

Each transaction must exist either completely, in both topics and in the offsets, or not at all. Transaction n sends the
number n to two topics and commits offset n + 1 for a group. After a kill, the producer restarts, which aborts the open
transaction. Then the committed records are compared with the acknowledged ones.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from random import Random
from typing import Any

from kafkawire.sdk.clock import now_ms
from kafkawire.sdk.errors import PartialBatch
from kafkawire.sdk.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from kafkawire.sdk.protocol.messages.fetch import FetchResponse
from kafkawire.sdk.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from kafkawire.sdk.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from kafkawire.sdk.protocol.messages.produce import ProduceResponse
from kafkawire.sdk.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest, TxnOffsetCommitResponse
from kafkawire.sdk.protocol.tables.enums import ControlRecordType, IsolationLevel
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.records import walk
from kafkawire.sdk.records.control import control_type
from tools.soak.broker_process import FETCH_VERSION, RawClient, fetch_request, produce_request

__all__ = ["TOPICS", "Failure", "Transactor"]

TOPICS = ("left", "right")

#: The first versions in which the broker adds partitions to transactions and EndTxn increases the epoch.
_PRODUCE_VERSION = 12
_COMMIT_VERSION = 5
_END_VERSION = 5

_INIT_VERSION = 4
_FETCH_OFFSETS_VERSION = 8

#: One transaction in this many is aborted.
_ABORT_ONE_IN = 4

#: The maximum time until coordinators have loaded and markers have been written.
_PATIENCE_SECONDS = 30

_PASSING = (
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.UNSTABLE_OFFSET_COMMIT,
)


class Failure(Exception):
    """A promise was broken."""


class Transactor:
    """A transactional producer that survives many restarts of the broker.

    Args:
        name: its transactional id, and the group whose offsets it commits.
        partition: the number of a partition to which nothing else writes, in both topics.

    Attributes:
        sent: the number of transactions begun.
        committed: the transactions whose commit was acknowledged, but that have not been seen yet.
        undecided: the transactions whose commit was requested.
        kept: the number of transactions that have been seen.
    """

    def __init__(self, name: str, partition: int) -> None:
        self.name = name
        self.partition = partition
        self.sent = self.kept = 0
        self.committed: set[int] = set()
        self.undecided: set[int] = set()
        self._producer = (-1, -1)
        self._named: set[tuple[int, int]] = set()
        self._last = -1
        self._checked: dict[str, int] = dict.fromkeys(TOPICS, 0)

    def begin(self, client: RawClient) -> None:
        """Request a producer id and an epoch, which aborts any open transaction."""
        request = InitProducerIdRequest(self.name, 60_000)
        found = self._ask(client, request, _INIT_VERSION, InitProducerIdResponse, lambda answer: answer.error_code)
        self._is((found.producer_id, found.producer_epoch))

    def _is(self, producer: tuple[int, int]) -> None:
        if producer in self._named:
            raise Failure(f"{self.name}: {producer} was assigned twice")
        self._named.add(producer)
        self._producer = producer

    def work(self, client: RawClient, random: Random) -> None:
        """Run a transaction."""
        number = self.sent
        self.sent += 1
        for topic in TOPICS:
            producer_id, epoch = self._producer
            request = produce_request(
                topic,
                self.partition,
                [b"%d" % number],
                now_ms(),
                producer_id=producer_id,
                producer_epoch=epoch,
                base_sequence=0,  # each transaction has its own epoch
                transactional_id=self.name,
            )
            self._ask(
                client,
                request,
                _PRODUCE_VERSION,
                ProduceResponse,
                lambda answer: answer.responses[0].partition_responses[0].error_code,
            )
        self._commit_offset(client, number + 1)
        is_commit = random.randrange(_ABORT_ONE_IN) > 0
        if is_commit:
            self.undecided.add(number)
        request = EndTxnRequest(self.name, *self._producer, is_commit)
        ended = self._ask(client, request, _END_VERSION, EndTxnResponse, lambda answer: answer.error_code)
        if is_commit:
            self.committed.add(number)
        self._is((ended.producer_id, ended.producer_epoch))

    def _commit_offset(self, client: RawClient, offset: int) -> None:
        Topic = TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic
        Place = TxnOffsetCommitRequest.TxnOffsetCommitRequestPartition
        topics = [Topic(TOPICS[0], [Place(self.partition, offset, committed_metadata="")])]
        request = TxnOffsetCommitRequest(self.name, self.name, *self._producer, topics=topics)
        self._ask(
            client,
            request,
            _COMMIT_VERSION,
            TxnOffsetCommitResponse,
            lambda answer: answer.topics[0].partitions[0].error_code,
        )

    def _ask(self, client: RawClient, request: Any, version: int, kind: type[Any], code_of: Any) -> Any:
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while True:
            answer = client.ask(request, version, kind)
            code = ErrorCode(code_of(answer))
            if code is ErrorCode.NONE:
                return answer
            if code not in _PASSING or time.monotonic() > deadline:
                raise Failure(f"{self.name}: {type(request).__name__} was refused: {code.name}")
            time.sleep(0.01)

    # The check.

    def check(self, client: RawClient) -> None:
        """Compare the transactions committed since the last check with those acknowledged; none may be open.

        Raises:
            Failure: they differ.
        """
        left, right = (list(self._committed(client, topic)) for topic in TOPICS)
        if left != right:
            raise Failure(f"{self.name}: {TOPICS[0]} contains {left}, but {TOPICS[1]} contains {right}")
        for number in left:
            if number <= self._last:
                raise Failure(f"{self.name}: transaction {number} follows transaction {self._last}")
            if number not in self.undecided:
                raise Failure(f"{self.name}: transaction {number} exists, although it was not committed")
            self._last = number
        if lost := self.committed - set(left):
            raise Failure(f"{self.name}: {len(lost)} committed transactions are lost, including {min(lost)}")
        if (offset := self._offset(client)) != self._last + 1:
            raise Failure(f"{self.name}: the offset is {offset}, but the last transaction is {self._last}")
        self.kept += len(left)
        self.committed.clear()
        self.undecided.clear()

    def _committed(self, client: RawClient, topic: str) -> Iterator[int]:
        """Yield the numbers that a consumer of committed records reads."""
        offset, aborted = self._checked[topic], set[int]()
        while True:
            request = fetch_request(topic, self.partition, offset)
            request.isolation_level = IsolationLevel.READ_COMMITTED
            (found,) = client.ask(request, FETCH_VERSION, FetchResponse).responses[0].partitions
            if found.error_code:
                raise Failure(f"{self.name}: {ErrorCode(found.error_code).name} at offset {offset} of {topic}")
            upcoming = sorted(found.aborted_transactions or (), key=lambda entry: entry.first_offset)
            before = offset
            try:
                for batch in walk(found.records or b""):
                    while upcoming and upcoming[0].first_offset <= batch.last_offset:
                        aborted.add(upcoming.pop(0).producer_id)
                    for record in batch.records():
                        if batch.is_control:
                            if control_type(record).type == ControlRecordType.ABORT:
                                aborted.discard(batch.producer_id)
                        elif record.offset >= offset and batch.producer_id not in aborted:
                            yield int(bytes(record.value or b""))
                    offset = batch.last_offset + 1
            except PartialBatch:
                pass
            if offset == before:
                break
        if offset < found.high_watermark:
            raise Failure(
                f"{self.name}: a transaction is hanging at offset {offset} of {topic}; "
                f"the high watermark is {found.high_watermark}"
            )
        self._checked[topic] = offset

    def _offset(self, client: RawClient) -> int:
        Group, Topic = OffsetFetchRequest.OffsetFetchRequestGroup, OffsetFetchRequest.OffsetFetchRequestTopics
        asked = [Topic(TOPICS[0], partition_indexes=[self.partition])]
        request = OffsetFetchRequest(groups=[Group(self.name, topics=asked)], require_stable=True)

        def code(answer: Any) -> int:
            (group,) = answer.groups
            return int(group.error_code or group.topics[0].partitions[0].error_code)

        found = self._ask(client, request, _FETCH_OFFSETS_VERSION, OffsetFetchResponse, code)
        return max(int(found.groups[0].topics[0].partitions[0].committed_offset), 0)
