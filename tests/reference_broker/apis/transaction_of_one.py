"""Shortcuts for the transactional requests of a single transactional id, for tests of the transactional APIs."""

from __future__ import annotations

from typing import Any

from kafkawire.sdk.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from kafkawire.sdk.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from kafkawire.sdk.protocol.messages.describe_transactions import DescribeTransactionsRequest
from kafkawire.sdk.protocol.messages.end_txn import EndTxnRequest
from kafkawire.sdk.protocol.messages.find_coordinator import FindCoordinatorRequest
from kafkawire.sdk.protocol.messages.init_producer_id import InitProducerIdRequest
from kafkawire.sdk.protocol.messages.offset_fetch import OffsetFetchRequest
from kafkawire.sdk.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest
from kafkawire.sdk.protocol.tables.enums import CoordinatorType
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from tests.reference_broker.broker_bench import BrokerBench

__all__ = ["Transacting"]


class Transacting:
    """The transactional id `x`, with a producer that has just been initialized.

    Args:
        bench: the broker; the topics `a` and `b` and the coordinators' topics exist.
    """

    def __init__(self, bench: BrokerBench) -> None:
        self.bench = bench
        for name in "ab":
            bench.create(name, 2)
        for kind in (CoordinatorType.GROUP, CoordinatorType.TRANSACTION):
            bench.ask(FindCoordinatorRequest(key_type=kind, coordinator_keys=["x"]))
        answer = self.init()
        assert answer.error_code == ErrorCode.NONE, answer
        self.producer = (answer.producer_id, answer.producer_epoch)

    def init(self, version: int | None = None) -> Any:
        """Initialize another producer; return the response."""
        return self.bench.ask(InitProducerIdRequest("x", 60_000), version)

    def add(
        self,
        *partitions: tuple[str, int],
        version: int = 3,
        producer: tuple[int, int] | None = None,
        verify: bool = False,
    ) -> list[ErrorCode]:
        """Add or verify partitions; return their codes."""
        Topic = AddPartitionsToTxnRequest.AddPartitionsToTxnTopic
        topics = [Topic(name, [number]) for name, number in partitions]
        producer_id, epoch = producer or self.producer
        if version < 4:
            request = AddPartitionsToTxnRequest((), "x", producer_id, epoch, topics)
            results = self.bench.ask(request, version).results_by_topic_v3_and_below
        else:
            Transaction = AddPartitionsToTxnRequest.AddPartitionsToTxnTransaction
            request = AddPartitionsToTxnRequest([Transaction("x", producer_id, epoch, verify, topics)])
            (found,) = self.bench.ask(request, version).results_by_transaction
            assert found.transactional_id == "x"
            results = found.topic_results
        assert [topic.name for topic in results] == [name for name, _ in partitions]
        return [ErrorCode(entry.partition_error_code) for topic in results for entry in topic.results_by_partition]

    def add_offsets(
        self, group_id: str = "g", version: int | None = None, producer: tuple[int, int] | None = None
    ) -> int:
        """Add a group's offsets; return the code."""
        request = AddOffsetsToTxnRequest("x", *(producer or self.producer), group_id)
        return ErrorCode(self.bench.ask(request, version).error_code)

    def commit_offset(self, offset: int, version: int | None = None, **fields: Any) -> ErrorCode:
        """Commit an offset of `a-0` in the transaction; return the code."""
        Topic = TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic
        Partition = TxnOffsetCommitRequest.TxnOffsetCommitRequestPartition
        topics = fields.pop("topics", None) or [
            Topic(fields.pop("topic", "a"), [Partition(0, offset, committed_metadata=fields.pop("metadata", ""))])
        ]
        producer_id, epoch = fields.pop("producer", self.producer)
        request = TxnOffsetCommitRequest("x", fields.pop("group", "g"), producer_id, epoch, topics=topics, **fields)
        (topic,) = self.bench.ask(request, version).topics
        (partition,) = topic.partitions
        return ErrorCode(partition.error_code)

    def fetch_offset(self, *, is_stable: bool = True, version: int = 9) -> tuple[int, ErrorCode]:
        """Return the committed offset of `a-0`, and its code."""
        if version < 8:
            topics = [OffsetFetchRequest.OffsetFetchRequestTopic("a", [0])]
            response = self.bench.ask(OffsetFetchRequest("g", topics, require_stable=is_stable), version)
        else:
            Topics = OffsetFetchRequest.OffsetFetchRequestTopics
            group = OffsetFetchRequest.OffsetFetchRequestGroup("g", topics=[Topics("a", partition_indexes=[0])])
            (response,) = self.bench.ask(OffsetFetchRequest(groups=[group], require_stable=is_stable), version).groups
        ((partition,),) = [topic.partitions for topic in response.topics]
        return partition.committed_offset, ErrorCode(partition.error_code)

    def end(
        self, is_commit: bool = True, version: int | None = None, producer: tuple[int, int] | None = None
    ) -> ErrorCode:
        """End the transaction, and continue with the producer id and epoch in the response."""
        response = self.bench.ask(EndTxnRequest("x", *(producer or self.producer), is_commit), version)
        if response.producer_id >= 0:
            self.producer = (response.producer_id, response.producer_epoch)
        return ErrorCode(response.error_code)

    def describe(self) -> Any:
        """Return the transaction's state."""
        (state,) = self.bench.ask(DescribeTransactionsRequest(["x"])).transaction_states
        return state
