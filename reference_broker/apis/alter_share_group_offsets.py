"""AlterShareGroupOffsets: move the start offsets of a share group without members.

0: the first version.
"""

from __future__ import annotations

from kafkawire.reference_broker.groups.share.requests import OffsetAlteration
from kafkawire.reference_broker.groups.share.share_groups import ShareGroups
from kafkawire.reference_broker.metadata.metadata_cache import MetadataCache
from kafkawire.reference_broker.requests.api_handlers import Scope, serves
from kafkawire.reference_broker.requests.authorization import not_authorized
from kafkawire.reference_broker.requests.call import Call
from kafkawire.reference_broker.requests.delayed_operations import DelayedOperation
from kafkawire.reference_broker.security.authorizer import Authorizer
from kafkawire.reference_broker.work.pieces import Work
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsResponse,
)
from kafkawire.sdk.protocol.tables.apis import ApiKey
from kafkawire.sdk.protocol.tables.enums import AclOperation, ResourceType
from kafkawire.sdk.protocol.uuids import ZERO_UUID

__all__ = ["handle"]

Topic = AlterShareGroupOffsetsResponse.AlterShareGroupOffsetsResponseTopic
Result = AlterShareGroupOffsetsResponse.AlterShareGroupOffsetsResponsePartition


@serves(ApiKey.ALTER_SHARE_GROUP_OFFSETS, scope=Scope.ALONE)
def handle(
    call: Call,
    request: AlterShareGroupOffsetsRequest,
    *,
    authorizer: Authorizer,
    metadata: MetadataCache,
    share_groups: ShareGroups,
) -> Work[DelayedOperation]:
    """Handle AlterShareGroupOffsets; the group need not exist.

    Raises:
        BrokerError: GROUP_AUTHORIZATION_FAILED.
    """
    if not authorizer.allows(call, AclOperation.READ, ResourceType.GROUP, request.group_id):
        raise not_authorized(ResourceType.GROUP)
    denial = not_authorized(ResourceType.TOPIC)
    denied: dict[str, Topic] = {}
    wanted: dict[str, dict[int, int]] = {}
    for topic in request.topics:
        name = topic.topic_name
        if not authorizer.allows(call, AclOperation.READ, ResourceType.TOPIC, name):
            known = metadata.image.topics.get(name)
            results = [Result(each.partition_index, denial.code, denial.detail) for each in topic.partitions]
            denied[name] = Topic(name, ZERO_UUID if known is None else known.topic_id, results)
            yield
            continue
        offsets = wanted.setdefault(name, {})
        for partition in topic.partitions:
            offsets[partition.partition_index] = partition.start_offset
            yield
    delayed = DelayedOperation()

    def answer(outcome: OffsetAlteration | BrokerError) -> None:
        if isinstance(outcome, BrokerError):
            delayed.complete(AlterShareGroupOffsetsResponse(0, outcome.code, outcome.detail))
            return
        responses = [
            Topic(
                name,
                outcome.topic_ids.get(name, ZERO_UUID),
                [Result(number, code, text) for number, (code, text) in results.items()],
            )
            for name, results in outcome.results.items()
        ]
        delayed.complete(AlterShareGroupOffsetsResponse(responses=[*denied.values(), *responses]))

    share_groups.alter_offsets(request.group_id, wanted, answer, call.now_ms)
    return delayed
