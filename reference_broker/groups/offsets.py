"""The committed offsets of a shard's groups, and which of them have expired.

Source: `OffsetMetadataManager`, `OffsetExpirationConditionImpl`, `ClassicGroup.offsetExpirationCondition` in Apache
Kafka; KIP-211.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from kafkawire.reference_broker.groups.classic.group import ClassicGroup, GroupState
from kafkawire.reference_broker.groups.consumer.group import ConsumerGroup
from kafkawire.reference_broker.groups.records import NO_EXPIRY, Committed
from kafkawire.reference_broker.groups.streams.group import StreamsGroup
from kafkawire.sdk.storage.partitions import Partition

__all__ = ["Offsets", "expired"]

_NO_TIMESTAMP = -1


class Offsets:
    """Committed offsets, keyed by group and partition."""

    def __init__(self) -> None:
        self._by_group: dict[str, dict[Partition, Committed]] = {}
        #: The number of offsets, keyed by topic and group.
        self._by_topic: dict[str, dict[str, int]] = {}

    def of_group(self, group_id: str) -> Mapping[Partition, Committed]:
        """Return the committed offsets of a group, keyed by partition."""
        return self._by_group.get(group_id, {})

    def put(self, group_id: str, partition: Partition, entry: Committed) -> None:
        """Set an offset."""
        offsets = self._by_group.setdefault(group_id, {})
        if partition not in offsets:
            counts = self._by_topic.setdefault(partition[0], {})
            counts[group_id] = counts.get(group_id, 0) + 1
        offsets[partition] = entry

    def remove(self, group_id: str, partition: Partition) -> None:
        """Remove an offset."""
        offsets = self._by_group.get(group_id, {})
        if partition not in offsets:
            return
        del offsets[partition]
        if not offsets:
            del self._by_group[group_id]
        topic = partition[0]
        counts = self._by_topic[topic]
        counts[group_id] -= 1
        if not counts[group_id]:
            del counts[group_id]
            if not counts:
                del self._by_topic[topic]

    def of_topic(self, topic: str) -> Iterator[tuple[str, Partition, Committed]]:
        """Yield the group, the partition and the committed offset for each offset of a topic."""
        for group_id in self._by_topic.get(topic, ()):
            for partition, entry in self._by_group[group_id].items():
                if partition[0] == topic:
                    yield group_id, partition, entry


def expired(
    group: ClassicGroup | ConsumerGroup | StreamsGroup,
    offsets: Mapping[Partition, Committed],
    retention_ms: int,
    now_ms: int,
) -> list[Partition]:
    """Return the partitions whose committed offsets have expired.

    In an empty classic group, all offsets expire together, one retention time after the last member left; if the group
    never had members, each offset expires one retention time after its commit. In a group with members, only offsets of
    topics without subscribers expire, and in an empty KIP-848 or streams group, all offsets do. In these two cases, the
    retention time starts when the offset is committed.
    """
    subscribed: Collection[str] = ()
    since_ms = _NO_TIMESTAMP
    if isinstance(group, ConsumerGroup | StreamsGroup):
        subscribed = {topic for topic in {partition[0] for partition in offsets} if group.is_subscribed_to(topic)}
    elif group.protocol_type is not None:
        if group.state is GroupState.EMPTY:
            since_ms = group.state_changed_ms
        else:
            topics = group.subscribed_topics()
            if group.state is not GroupState.STABLE or topics is None:
                return []
            subscribed = topics
    found = []
    for partition, entry in offsets.items():
        if partition[0] in subscribed:
            continue
        if entry.expire_timestamp != NO_EXPIRY:
            is_expired = now_ms >= entry.expire_timestamp
        else:
            base_ms = entry.commit_timestamp if since_ms == _NO_TIMESTAMP else since_ms
            is_expired = now_ms - base_ms >= retention_ms
        if is_expired:
            found.append(partition)
    return found
