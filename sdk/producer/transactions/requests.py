"""The requests of a transaction, which add partitions and groups, commit offsets, and end it.

For each request, one function builds it for the versions that a broker supports, and another returns the error in its
response. If one partition caused the errors of the others, that partition's error is returned.

Source: Kafka protocol guide; KIP-98, KIP-447 (the member that commits for a group), KIP-890 (versions that add
partitions and groups implicitly).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.groups.protocol import GroupMetadata
from kafkawire.sdk.producer.identity import ProducerId
from kafkawire.sdk.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from kafkawire.sdk.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnResponse
from kafkawire.sdk.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from kafkawire.sdk.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest, TxnOffsetCommitResponse
from kafkawire.sdk.protocol.tables.enums import END_TXN_LAST_BEFORE_TV_2, TXN_OFFSET_COMMIT_LAST_BEFORE_TV_2
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.routing.partitions import OffsetAndMetadata, TopicPartition
from kafkawire.sdk.routing.requests import by_topic
from kafkawire.sdk.transport.driver_interface import Versions

__all__ = [
    "add_offsets",
    "add_offsets_error",
    "add_partitions",
    "add_partitions_error",
    "commit_offsets",
    "commit_offsets_error",
    "end_transaction",
    "end_transaction_error",
]


def add_partitions(
    transactional_id: str, producer: ProducerId, partitions: Iterable[TopicPartition], versions: Versions
) -> tuple[AddPartitionsToTxnRequest, int]:
    """Return the request that adds partitions to the transaction; later versions are only for use between brokers."""
    version = versions.version_for(
        AddPartitionsToTxnRequest, (AddPartitionsToTxnRequest, "v3_and_below_transactional_id")
    )
    topics = [
        AddPartitionsToTxnRequest.AddPartitionsToTxnTopic(topic, numbers)
        for topic, numbers in by_topic(partitions).items()
    ]
    request = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=transactional_id,
        v3_and_below_producer_id=producer.number,
        v3_and_below_producer_epoch=producer.epoch,
        v3_and_below_topics=topics,
    )
    return request, version


def add_partitions_error(response: AddPartitionsToTxnResponse) -> BrokerError | None:
    """Return the most serious error of a partition; None if all partitions were added."""
    return _worst(
        (TopicPartition(topic.name, each.partition_index), each.partition_error_code)
        for topic in response.results_by_topic_v3_and_below
        for each in topic.results_by_partition
    )


def add_offsets(transactional_id: str, producer: ProducerId, group_id: str) -> tuple[AddOffsetsToTxnRequest, None]:
    """Return the request that adds the offsets of a group to the transaction."""
    return AddOffsetsToTxnRequest(transactional_id, producer.number, producer.epoch, group_id), None


def add_offsets_error(response: AddOffsetsToTxnResponse) -> BrokerError | None:
    """Return the error if a group was not added."""
    return _error(response.error_code, "adding the group to the transaction")


def commit_offsets(
    transactional_id: str,
    producer: ProducerId,
    group: GroupMetadata,
    offsets: Mapping[TopicPartition, OffsetAndMetadata],
    versions: Versions,
    *,
    joins_by_itself: bool,
) -> tuple[TxnOffsetCommitRequest, int]:
    """Return the request for offsets that are committed together with the transaction.

    Args:
        transactional_id: the producer's transactional id.
        producer: the producer's id.
        group: the group, and the member that commits them.
        offsets: the offset of the next record to read, keyed by partition.
        versions: the versions that the group's coordinator supports.
        joins_by_itself: whether the request adds the group to the transaction.
    """
    topics = []
    for topic, numbers in by_topic(offsets).items():
        partitions = []
        for number in numbers:
            offset = offsets[TopicPartition(topic, number)]
            partitions.append(
                TxnOffsetCommitRequest.TxnOffsetCommitRequestPartition(
                    number, offset.offset, offset.leader_epoch, offset.metadata
                )
            )
        topics.append(TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic(topic, partitions))
    request = TxnOffsetCommitRequest(
        transactional_id,
        group.group_id,
        producer.number,
        producer.epoch,
        group.generation_id,
        group.member_id,
        group.group_instance_id,
        topics,
    )
    version = versions.version_for(TxnOffsetCommitRequest)
    return request, version if joins_by_itself else min(version, TXN_OFFSET_COMMIT_LAST_BEFORE_TV_2)


def commit_offsets_error(response: TxnOffsetCommitResponse) -> BrokerError | None:
    """Return the most serious error of a partition; None if all offsets were accepted."""
    return _worst(
        (TopicPartition(topic.name, each.partition_index), each.error_code)
        for topic in response.topics
        for each in topic.partitions
    )


def end_transaction(
    transactional_id: str, producer: ProducerId, versions: Versions, *, commits: bool, raises_epoch: bool
) -> tuple[EndTxnRequest, int]:
    """Return the request that commits or aborts the transaction; from version 2 on, it raises the epoch."""
    version = versions.version_for(EndTxnRequest)
    request = EndTxnRequest(transactional_id, producer.number, producer.epoch, commits)
    return request, version if raises_epoch else min(version, END_TXN_LAST_BEFORE_TV_2)


def end_transaction_error(response: EndTxnResponse) -> BrokerError | None:
    """Return the error if a transaction was not ended."""
    return _error(response.error_code, "end of the transaction")


def _error(code: int, detail: str) -> BrokerError | None:
    return None if code == ErrorCode.NONE else BrokerError(code, detail)


def _worst(codes: Iterable[tuple[TopicPartition, int]]) -> BrokerError | None:
    """Return the first final error or, without one, the first retriable error."""
    found = [(partition, code) for partition, code in codes if code != ErrorCode.NONE]
    guilty = [each for each in found if each[1] != ErrorCode.OPERATION_NOT_ATTEMPTED] or found
    errors = [BrokerError(code, f"partition {partition}") for partition, code in guilty]
    final = [error for error in errors if not error.retriable]
    return next(iter(final or errors), None)
