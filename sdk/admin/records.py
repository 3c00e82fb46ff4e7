"""Delete the oldest records of partitions, and look up offsets, at the partitions' leaders.

Source: Apache Kafka, `DeleteRecordsHandler`, `ListOffsetsHandler`; KIP-107 (deletion), KIP-79 (offsets by time).
"""

from __future__ import annotations

from collections.abc import Mapping

from kafkawire.sdk.admin.descriptions import ItemResults
from kafkawire.sdk.admin.item_batches import answered, in_batches
from kafkawire.sdk.admin.places import Leaders
from kafkawire.sdk.admin.releases import versioned
from kafkawire.sdk.client.operations import Operations
from kafkawire.sdk.errors import BrokerError, KafkaWireError, UnsupportedVersion
from kafkawire.sdk.protocol import messages
from kafkawire.sdk.protocol.tables.enums import IsolationLevel
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.routing.call import Node
from kafkawire.sdk.routing.list_offsets import list_answers, list_request, list_version
from kafkawire.sdk.routing.partitions import OffsetAndTimestamp, TopicPartition
from kafkawire.sdk.routing.requests import by_topic
from kafkawire.sdk.transport.driver_interface import Versions

__all__ = ["delete_records", "list_offsets"]

#: The offset that stands for the high watermark in DeleteRecords.
_HIGH_WATERMARK = -1


async def delete_records(
    operations: Operations, before: Mapping[TopicPartition, int | None], *, timeout_ms: int
) -> ItemResults[TopicPartition, int]:
    """Delete the oldest records of partitions; see `Admin.delete_records`."""
    kind = messages.DeleteRecordsRequest

    def deletion(partition: TopicPartition) -> messages.DeleteRecordsRequest.DeleteRecordsPartition:
        offset = before[partition]
        return kind.DeleteRecordsPartition(partition.partition, _HIGH_WATERMARK if offset is None else offset)

    async def delete(
        node_id: int, batch: list[TopicPartition], deadline_ms: int
    ) -> dict[TopicPartition, int | KafkaWireError]:
        topics = [
            kind.DeleteRecordsTopic(topic, [deletion(TopicPartition(topic, number)) for number in numbers])
            for topic, numbers in by_topic(batch).items()
        ]
        response = await operations.request(
            Node(node_id),
            versioned(kind(topics, timeout_ms)),
            messages.DeleteRecordsResponse,
            deadline_ms=deadline_ms,
            retries=False,
        )
        found: dict[TopicPartition, int | KafkaWireError] = {}
        for topic in response.topics:
            for each in topic.partitions:
                partition = TopicPartition(topic.name, each.partition_index)
                is_done = each.error_code == ErrorCode.NONE
                error = BrokerError(each.error_code, f"delete records of {partition}")
                found[partition] = each.low_watermark if is_done else error
        return answered(response, found, batch, "partition")

    return await in_batches(operations, before, Leaders(operations), delete)


async def list_offsets(
    operations: Operations,
    times: Mapping[TopicPartition, int],
    *,
    isolation_level: IsolationLevel,
    timeout_ms: int,
) -> ItemResults[TopicPartition, OffsetAndTimestamp]:
    """Return the first record at or after a time, for each partition; see `Admin.list_offsets`."""

    async def look_up(
        node_id: int, batch: list[TopicPartition], deadline_ms: int
    ) -> dict[TopicPartition, OffsetAndTimestamp | KafkaWireError]:
        too_new: dict[TopicPartition, KafkaWireError] = {}

        def request(versions: Versions) -> tuple[messages.ListOffsetsRequest, int]:
            version = versions.version_for(messages.ListOffsetsRequest)
            too_new.clear()
            for partition in batch:
                try:
                    list_version({partition: times[partition]}, node_id, versions)
                except UnsupportedVersion as error:
                    too_new[partition] = error
            asked = {partition: times[partition] for partition in batch if partition not in too_new}
            return list_request(operations.router.metadata, asked, isolation_level, timeout_ms), version

        response = await operations.request(
            Node(node_id), request, messages.ListOffsetsResponse, deadline_ms=deadline_ms, retries=False
        )
        found: dict[TopicPartition, OffsetAndTimestamp | KafkaWireError] = {**too_new}
        for partition, answer in list_answers(response).items():
            found[partition] = answer if isinstance(answer, BrokerError) else OffsetAndTimestamp(*answer)
        return answered(response, found, batch, "partition")

    return await in_batches(operations, times, Leaders(operations), look_up)
