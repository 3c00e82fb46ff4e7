"""A sequence's requests as sent over the wire, and the parts of their responses that are compared."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import groupby

from kafkawire.reference_broker.transactions.transaction import ProducerIdAndEpoch
from kafkawire.sdk.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from kafkawire.sdk.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
)
from kafkawire.sdk.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from kafkawire.sdk.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from kafkawire.sdk.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from kafkawire.sdk.protocol.messages.produce import ProduceRequest, ProduceResponse
from kafkawire.sdk.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest, TxnOffsetCommitResponse
from kafkawire.sdk.protocol.messages.write_txn_markers import WriteTxnMarkersRequest, WriteTxnMarkersResponse
from kafkawire.sdk.protocol.schema import Message
from kafkawire.sdk.protocol.tables.enums import NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.storage.partitions import Partition
from tests.reference_broker.storage.produced_batches import NOW_MS, produced
from tests.reference_broker.transactions.sequences import (
    GROUP,
    AddOffsets,
    AddPartitions,
    Commit,
    Delete,
    End,
    Initialize,
    Mark,
    Produce,
)

__all__ = ["Names", "Requested", "codes_of", "message", "shape", "version_of"]

TIMEOUT_MS = 30_000

#: The producer in a request for a new id.
NOBODY = ProducerIdAndEpoch(NO_PRODUCER_ID, NO_PRODUCER_EPOCH)

#: Any request in a sequence.
Requested = Initialize | AddPartitions | AddOffsets | Commit | Produce | End | Mark | Delete


@dataclass
class Names:
    """One broker's equivalents of the names in a sequence.

    Attributes:
        prefix: the prefix of topics, groups and transactional ids.
        now_ms: the timestamp of records.
        producer_ids: the broker's own ids, keyed by the ids in the sequence; an id that is missing is the same on both
            sides.
    """

    prefix: str = ""
    now_ms: int = NOW_MS
    producer_ids: dict[int, int] = field(default_factory=dict)

    def name(self, name: str) -> str:
        """Return the name of a topic, a group or a transactional id."""
        return self.prefix + name if name else name

    def producer(self, producer: ProducerIdAndEpoch) -> ProducerIdAndEpoch:
        """Return a producer."""
        return producer._replace(producer_id=self.producer_id(producer.producer_id))

    def producer_id(self, producer_id: int) -> int:
        """Return the id of a producer."""
        return self.producer_ids.get(producer_id, producer_id)


def version_of(asked: Requested) -> int:
    """Return the version of the request."""
    return 6 if isinstance(asked, Delete) else asked.version


def message(asked: Requested, names: Names) -> Message:
    """Return the message for a request, with the broker's own names."""
    if isinstance(asked, Delete):
        return DeleteTopicsRequest([DeleteTopicsRequest.DeleteTopicState(names.name(asked.topic))], timeout_ms=60_000)
    if isinstance(asked, Mark):
        return _mark(asked, names)
    transactional_id = None if asked.transactional_id is None else names.name(asked.transactional_id)
    if isinstance(asked, Initialize):
        producer = NOBODY if asked.producer is None else names.producer(asked.producer)
        return InitProducerIdRequest(transactional_id, asked.timeout_ms, *producer)
    if isinstance(asked, Produce):
        return _produce(asked, transactional_id, names)
    assert transactional_id is not None
    producer = names.producer(asked.producer)
    if isinstance(asked, AddPartitions):
        Topic = AddPartitionsToTxnRequest.AddPartitionsToTxnTopic
        topics = [Topic(names.name(name), numbers) for name, numbers in _by_topic(asked.partitions).items()]
        if asked.version < 4:
            return AddPartitionsToTxnRequest((), transactional_id, *producer, topics)
        Transaction = AddPartitionsToTxnRequest.AddPartitionsToTxnTransaction
        return AddPartitionsToTxnRequest([Transaction(transactional_id, *producer, asked.verifies, topics)])
    if isinstance(asked, AddOffsets):
        return AddOffsetsToTxnRequest(transactional_id, *producer, names.name(GROUP))
    if isinstance(asked, Commit):
        name, number = asked.partition
        Part = TxnOffsetCommitRequest.TxnOffsetCommitRequestPartition
        topic = TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic(names.name(name), [Part(number, asked.offset)])
        group, member_id = names.name(GROUP), asked.member_id
        return TxnOffsetCommitRequest(transactional_id, group, *producer, member_id=member_id, topics=[topic])
    return EndTxnRequest(transactional_id, *producer, asked.is_commit)


def _produce(asked: Produce, transactional_id: str | None, names: Names) -> ProduceRequest:
    producer_id, epoch = names.producer(asked.producer)
    batch = produced(
        *asked.values,
        timestamps=(names.now_ms,) * len(asked.values),
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=asked.sequence,
        is_transactional=asked.transactional_id is not None,
    )
    name, number = asked.partition
    data = ProduceRequest.TopicProduceData(names.name(name))
    data.partition_data = [ProduceRequest.PartitionProduceData(number, batch)]
    return ProduceRequest(transactional_id, -1, TIMEOUT_MS, [data])


def _mark(asked: Mark, names: Names) -> WriteTxnMarkersRequest:
    Topic = WriteTxnMarkersRequest.WritableTxnMarkerTopic
    topics = [Topic(names.name(name), numbers) for name, numbers in _by_topic(asked.partitions).items()]
    marker = WriteTxnMarkersRequest.WritableTxnMarker(
        *names.producer(asked.producer), asked.is_commit, topics, asked.coordinator_epoch, asked.transaction_version
    )
    return WriteTxnMarkersRequest([marker])


def _by_topic(partitions: tuple[Partition, ...]) -> Mapping[str, list[int]]:
    grouped = groupby(sorted(partitions), lambda partition: partition[0])
    return {name: [number for _, number in of_topic] for name, of_topic in grouped}


def shape(response: Message, names: Names) -> object:
    """Return the parts of a response that are compared: codes, and producers under the sequence's names."""
    match response:
        case InitProducerIdResponse():
            return response.error_code, names.producer_id(response.producer_id), response.producer_epoch
        case EndTxnResponse():
            return response.error_code, names.producer_id(response.producer_id), response.producer_epoch
    return codes_of(response)


def codes_of(response: Message) -> list[ErrorCode]:
    """Return the codes in a response, in order."""
    match response:
        case InitProducerIdResponse() | EndTxnResponse() | AddOffsetsToTxnResponse():
            found = [response.error_code]
        case AddPartitionsToTxnResponse():
            transactions = [result.topic_results for result in response.results_by_transaction]
            topics = [*response.results_by_topic_v3_and_below, *(topic for found in transactions for topic in found)]
            found = [response.error_code]
            found += [
                part.partition_error_code
                for topic in sorted(topics, key=lambda topic: topic.name)
                for part in sorted(topic.results_by_partition, key=lambda part: part.partition_index)
            ]
        case TxnOffsetCommitResponse():
            found = [part.error_code for topic in response.topics for part in topic.partitions]
        case ProduceResponse():
            found = [part.error_code for topic in response.responses for part in topic.partition_responses]
        case WriteTxnMarkersResponse():
            found = [
                part.error_code
                for marker in response.markers
                for topic in sorted(marker.topics, key=lambda topic: topic.name)
                for part in sorted(topic.partitions, key=lambda part: part.partition_index)
            ]
        case DeleteTopicsResponse():
            found = [result.error_code for result in response.responses]
        case _:
            raise AssertionError(f"unexpected {response}")
    return [ErrorCode(code) for code in found]
