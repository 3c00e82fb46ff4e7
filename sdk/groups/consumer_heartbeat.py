"""The heartbeats of a KIP-848 member, which omit fields that have not changed since the last confirmed heartbeat.

Source: KIP-848; Apache Kafka, `ConsumerHeartbeatRequestManager.HeartbeatState`.
"""

from __future__ import annotations

from typing import NamedTuple

from kafkawire.sdk.groups.protocol import GroupSettings
from kafkawire.sdk.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kafkawire.sdk.protocol.tables.enums import JOIN_GROUP_MEMBER_EPOCH

__all__ = ["HeartbeatContent", "heartbeat"]


class HeartbeatContent(NamedTuple):
    """The part of a heartbeat that describes the member.

    Attributes:
        names: the topics that it subscribes to; None if there is a pattern.
        regex: the pattern; None if there is none, or if the member itself matches names.
        owned: the owned partitions, as topic ids and partition numbers.
    """

    names: tuple[str, ...] | None
    regex: str | None
    owned: frozenset[tuple[bytes, int]]


def heartbeat(
    settings: GroupSettings, member_id: str, epoch: int, said: HeartbeatContent | None, says: HeartbeatContent
) -> ConsumerGroupHeartbeatRequest:
    """Build a heartbeat request.

    Args:
        settings: how the member takes part.
        member_id: the member's id.
        epoch: the member's epoch; 0 to join.
        said: the content that the coordinator has confirmed; None if unknown.
        says: the content to send.
    """
    request = ConsumerGroupHeartbeatRequest(settings.group_id, member_id, epoch, settings.group_instance_id)
    says_all = said is None or epoch == JOIN_GROUP_MEMBER_EPOCH
    if says_all:
        request.rack_id = settings.rack
        request.rebalance_timeout_ms = settings.max_poll_interval_ms
        request.server_assignor = settings.server_assignor
    if says_all or said is None or (said.names, said.regex) != (says.names, says.regex):
        # An empty list or string clears an earlier subscription of the other kind.
        request.subscribed_topic_names = list(says.names) if says.names is not None else []
        request.subscribed_topic_regex = says.regex
        if says.regex is None and said is not None and said.regex is not None:
            request.subscribed_topic_regex = ""
    if says_all or said is None or said.owned != says.owned:
        topics: dict[bytes, list[int]] = {}
        for topic_id, number in sorted(says.owned):
            topics.setdefault(topic_id, []).append(number)
        request.topic_partitions = [
            ConsumerGroupHeartbeatRequest.TopicPartitions(topic_id, numbers) for topic_id, numbers in topics.items()
        ]
    return request
