"""Expiry of offsets of deleted topics and of groups that have long been empty, and expiry of groups without data.

Source: `GroupCoordinatorShard.cleanupGroupMetadata`, `OffsetMetadataManager.cleanupExpiredOffsets` in Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain

from kafkawire.reference_broker.coordinators.shard import CoordinatorRecord, ShardTimers
from kafkawire.reference_broker.groups.classic.group import ClassicGroup, GroupState
from kafkawire.reference_broker.groups.consumer.group import ConsumerGroup, ConsumerGroupState
from kafkawire.reference_broker.groups.offsets import Offsets, expired
from kafkawire.reference_broker.groups.outbox import Outbox
from kafkawire.reference_broker.groups.pending_offsets import PendingOffsets
from kafkawire.reference_broker.groups.records import offset_tombstone
from kafkawire.reference_broker.groups.requests import GroupLimits
from kafkawire.reference_broker.groups.streams.group import StreamsGroup, StreamsGroupState
from kafkawire.reference_broker.work.timers import Timer

__all__ = ["Expiry", "is_empty"]

#: Maximum number of offsets checked or deleted in one step; deleting that many takes 5 ms. The rest are handled in
#: further steps; each shard has its own steps.
_STEP_OFFSETS = 500

Group = ClassicGroup | ConsumerGroup | StreamsGroup


class Expiry:
    """Deletes offsets and groups of a shard.

    Args:
        groups: the classic groups, keyed by id.
        consumer_groups: the KIP-848 groups, keyed by id.
        streams_groups: the streams groups, keyed by id.
        offsets: the committed offsets.
        pending: the pending offsets of open transactions.
        timers: timers for the checks.
        outbox: receives the records.
        limits: see `GroupLimits`.
        end: writes the removal of an empty group.
    """

    def __init__(
        self,
        groups: dict[str, ClassicGroup],
        consumer_groups: dict[str, ConsumerGroup],
        streams_groups: dict[str, StreamsGroup],
        offsets: Offsets,
        pending: PendingOffsets,
        timers: ShardTimers,
        outbox: Outbox,
        limits: GroupLimits,
        end: Callable[[Group], None],
    ) -> None:
        self._groups = groups
        self._consumer_groups = consumer_groups
        self._streams_groups = streams_groups
        self._offsets = offsets
        self._pending = pending
        self._timers = timers
        self._outbox = outbox
        self._limits = limits
        self._end = end
        self._timer: Timer | None = None

    # Expiry by age.

    def check_later(self, now_ms: int) -> None:
        """Schedule the next check."""
        deadline_ms = now_ms + self._limits.offsets_retention_check_interval_ms
        self._timer = self._timers.at(deadline_ms, self._begin)

    def cancel(self) -> None:
        """Cancel the checks."""
        if self._timer is not None:
            self._timer.cancel()

    def _begin(self, now_ms: int) -> None:
        self._check_in_turn(iter([*self._groups, *self._consumer_groups, *self._streams_groups]), now_ms)

    def _check_in_turn(self, group_ids: Iterator[str], now_ms: int) -> None:
        self._timers.in_turn(now_ms, lambda now_ms: self._check(group_ids, now_ms))

    def _check(self, group_ids: Iterator[str], now_ms: int) -> None:
        """Delete expired offsets, a limited number in each step."""
        seen = 0
        for group_id in group_ids:
            try:
                seen += 1 + self._check_group(group_id, now_ms)
            except Exception:
                # Continue with the offsets of the other groups.
                self._check_in_turn(group_ids, now_ms)
                raise
            if seen >= _STEP_OFFSETS:
                self._check_in_turn(group_ids, now_ms)
                return
        self.check_later(now_ms)

    def _check_group(self, group_id: str, now_ms: int) -> int:
        """Delete a group's expired offsets, and the group itself if unused; return how many offsets it had."""
        group: Group | None = self._groups.get(group_id) or self._consumer_groups.get(group_id)
        group = group or self._streams_groups.get(group_id)
        if group is None:
            return 0
        offsets = self._offsets.of_group(group_id)
        pending = self._pending.of_group(group_id)
        found = expired(group, offsets, self._limits.offsets_retention_ms, now_ms)
        gone = [partition for partition in found if partition not in pending]
        for partition in gone:
            self._outbox.add(offset_tombstone(group_id, *partition))
        is_awaited = isinstance(group, ClassicGroup) and group.pending_members
        if len(gone) == len(offsets) and not pending and is_empty(group) and not is_awaited:
            self._end(group)
        return len(offsets)

    # Deleted topics.

    def forget_topic(self, topic: str, topic_id: bytes) -> bool:
        """Delete offsets of a deleted topic, so a new topic with the same name starts without any.

        Args:
            topic: the topic's name.
            topic_id: the topic's id; offsets with another id belong to a later topic.

        Returns:
            Whether some offsets may remain, in which case another step is needed.
        """
        records: list[CoordinatorRecord] = []
        pending = {(found.group_id, found.partition, found.entry) for found in self._pending.of_topic(topic)}
        for group_id, partition, entry in chain(self._offsets.of_topic(topic), pending):
            if entry.topic_id in (topic_id, bytes(len(topic_id))):
                records.append(offset_tombstone(group_id, *partition))
            if len(records) >= _STEP_OFFSETS:
                break
        self._outbox.add_all(records)
        return len(records) >= _STEP_OFFSETS


def is_empty(group: Group) -> bool:
    """Return whether a group has no members."""
    return group.state in (GroupState.EMPTY, ConsumerGroupState.EMPTY, StreamsGroupState.EMPTY)
