"""Build requests to the leaders of partitions for offsets, and read the responses.

Source: Kafka protocol guide, "ListOffsets", "OffsetForLeaderEpoch".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from kafkawire.sdk.errors import BrokerError, UnsupportedVersion
from kafkawire.sdk.protocol.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from kafkawire.sdk.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
)
from kafkawire.sdk.protocol.tables import enums
from kafkawire.sdk.protocol.tables.enums import CONSUMER_REPLICA_ID, OffsetTimestamp
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.routing.metadata import Metadata
from kafkawire.sdk.routing.partitions import TopicPartition
from kafkawire.sdk.routing.requests import by_topic

if TYPE_CHECKING:
    from kafkawire.sdk.transport.driver_interface import Versions

__all__ = ["EpochEnd", "ListedOffset", "epoch_answers", "epoch_request", "list_answers", "list_request", "list_version"]

#: The first version that supports each special timestamp; earlier versions mistake it for a time and look for a record.
_FIRST_WITH: Final[Mapping[int, int]] = {
    OffsetTimestamp.MAX_TIMESTAMP: enums.LIST_OFFSETS_FIRST_WITH_MAX_TIMESTAMP,
    OffsetTimestamp.EARLIEST_LOCAL: enums.LIST_OFFSETS_FIRST_WITH_EARLIEST_LOCAL,
    OffsetTimestamp.LATEST_TIERED: enums.LIST_OFFSETS_FIRST_WITH_LATEST_TIERED,
    OffsetTimestamp.EARLIEST_PENDING_UPLOAD: enums.LIST_OFFSETS_FIRST_WITH_EARLIEST_PENDING_UPLOAD,
}


class ListedOffset(NamedTuple):
    """The first record at or after a time.

    Attributes:
        offset: the record's offset; -1 if no record is that recent.
        timestamp_ms: the record's timestamp; -1 if the offset does not belong to a record.
        leader_epoch: the record's leader epoch; -1 if unknown.
    """

    offset: int
    timestamp_ms: int
    leader_epoch: int


class EpochEnd(NamedTuple):
    """The end of a leader epoch in the leader's log.

    Attributes:
        offset: the offset after the epoch's last record; -1 if the leader does not know the epoch.
        leader_epoch: the epoch itself, or the last one before it that the leader knows; -1 if there is none.
    """

    offset: int
    leader_epoch: int


def list_request(
    metadata: Metadata, times: Mapping[TopicPartition, int], isolation_level: int, timeout_ms: int
) -> ListOffsetsRequest:
    """Return the request for the first record at or after a time in each partition.

    Args:
        metadata: the metadata, which contains the leader epochs.
        times: the times, in ms since the epoch or as an `OffsetTimestamp`.
        isolation_level: with READ_COMMITTED, the latest offset is the last stable one.
        timeout_ms: how long a broker may take to query remote storage.
    """
    topics = []
    for topic, numbers in by_topic(times).items():
        partitions = []
        for number in numbers:
            key = TopicPartition(topic, number)
            partitions.append(ListOffsetsRequest.ListOffsetsPartition(number, _epoch(metadata, key), times[key]))
        topics.append(ListOffsetsRequest.ListOffsetsTopic(topic, partitions))
    return ListOffsetsRequest(CONSUMER_REPLICA_ID, isolation_level, topics, timeout_ms)


def list_version(times: Mapping[TopicPartition, int], node_id: int, versions: Versions) -> int:
    """Return the version of the request to a broker.

    Raises:
        UnsupportedVersion: the broker would mistake a special timestamp for a time, and find no record.
    """
    version = versions.version_for(ListOffsetsRequest)
    for partition, time in times.items():
        needed = _FIRST_WITH.get(time, version)
        if needed > version:
            raise UnsupportedVersion(
                f"offset {OffsetTimestamp(time).name} of {partition} needs ListOffsets version {needed}, "
                f"but node {node_id} supports only versions up to {version}"
            )
    return version


def list_answers(response: ListOffsetsResponse) -> dict[TopicPartition, ListedOffset | BrokerError]:
    """Return the result for each partition in a response."""
    found: dict[TopicPartition, ListedOffset | BrokerError] = {}
    for topic in response.topics:
        for data in topic.partitions:
            key = TopicPartition(topic.name, data.partition_index)
            if data.error_code != ErrorCode.NONE:
                found[key] = BrokerError(data.error_code, f"offset of {key}")
            else:
                found[key] = ListedOffset(data.offset, data.timestamp, data.leader_epoch)
    return found


def epoch_request(metadata: Metadata, epochs: Mapping[TopicPartition, int]) -> OffsetForLeaderEpochRequest:
    """Return the request for the ends of leader epochs in the leaders' logs."""
    topics = []
    for topic, numbers in by_topic(epochs).items():
        partitions = []
        for number in numbers:
            key = TopicPartition(topic, number)
            partitions.append(
                OffsetForLeaderEpochRequest.OffsetForLeaderPartition(number, _epoch(metadata, key), epochs[key])
            )
        topics.append(OffsetForLeaderEpochRequest.OffsetForLeaderTopic(topic, partitions))
    return OffsetForLeaderEpochRequest(CONSUMER_REPLICA_ID, topics)


def epoch_answers(response: OffsetForLeaderEpochResponse) -> dict[TopicPartition, EpochEnd | BrokerError]:
    """Return the end of the requested epoch, or of the last one before it, for each partition."""
    found: dict[TopicPartition, EpochEnd | BrokerError] = {}
    for topic in response.topics:
        for data in topic.partitions:
            key = TopicPartition(topic.topic, data.partition)
            if data.error_code != ErrorCode.NONE:
                found[key] = BrokerError(data.error_code, f"leader epoch of {key}")
            else:
                found[key] = EpochEnd(data.end_offset, data.leader_epoch)
    return found


def _epoch(metadata: Metadata, partition: TopicPartition) -> int:
    known = metadata.partition(partition)
    return -1 if known is None else known.leader_epoch
