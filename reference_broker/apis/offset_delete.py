"""OffsetDelete: delete the committed offsets of a group for topics that it is not subscribed to.

0: the only version.
"""

from __future__ import annotations

from kafkawire.reference_broker.apis.registry import Call, serves
from kafkawire.reference_broker.delayed_operations import DelayedOperation
from kafkawire.reference_broker.log.file_names import Partition
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode

__all__ = ["handle"]

Topic = OffsetDeleteResponse.OffsetDeleteResponseTopic
Deleted = OffsetDeleteResponse.OffsetDeleteResponsePartition


@serves(ApiKey.OFFSET_DELETE)
def handle(call: Call, request: OffsetDeleteRequest) -> DelayedOperation:
    """Handle OffsetDelete."""
    topics = call.core.directory.topics
    asked = [(topic.name, partition.partition_index) for topic in request.topics for partition in topic.partitions]
    known = [(name, number) for name, number in asked if name in topics and 0 <= number < len(topics[name].logs)]
    codes = dict.fromkeys(asked, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    delayed = DelayedOperation()

    def answer(outcome: list[ErrorCode] | BrokerError) -> None:
        if isinstance(outcome, BrokerError):
            delayed.complete(OffsetDeleteResponse(error_code=outcome.code))
        else:
            codes.update(zip(known, outcome, strict=True))
            delayed.complete(_respond(request, codes))

    call.core.groups.delete_offsets(request.group_id, known, answer, call.now_ms)
    return delayed


def _respond(request: OffsetDeleteRequest, codes: dict[Partition, ErrorCode]) -> OffsetDeleteResponse:
    return OffsetDeleteResponse(
        topics=[
            Topic(
                topic.name,
                [
                    Deleted(partition.partition_index, codes[topic.name, partition.partition_index])
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )
