"""A coordinator for one KIP-848 group; it is small, but as strict as Kafka's about epochs and owned partitions.

Source: Apache Kafka, `GroupMetadataManager` (consumer groups), `CurrentAssignmentBuilder`; KIP-848.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from kafkawire.sdk.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from kafkawire.sdk.protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.routing.partitions import OffsetAndMetadata, TopicPartition
from tests.sdk.groups.classic_coordinator import commit_response
from tests.sdk.simulation import topic_id

__all__ = ["ConsumerCoordinator"]

SESSION_MS = 45_000
HEARTBEAT_INTERVAL_MS = 1_000


class _Member:
    def __init__(self) -> None:
        self.epoch = 0
        self.former_epoch = -1
        self.names: list[str] = []
        self.regex: str | None = None
        self.instance_id: str | None = None
        self.seen_ms = 0
        self.has_left = False
        self.assigned: set[TopicPartition] = set()
        self.revoking: set[TopicPartition] = set()


class ConsumerCoordinator:
    """The coordinator of one group; call `tick` as time passes.

    Args:
        topics: the number of partitions, keyed by topic.

    Attributes:
        offsets: the committed offsets.
        commits: the accepted commits, each as partition, offset and member id.
    """

    def __init__(self, topics: Mapping[str, int], group_id: str = "g") -> None:
        self.group_id = group_id
        self.topics = dict(topics)
        self.now_ms = 0
        self.members: dict[str, _Member] = {}
        self.epoch = 0
        self.offsets: dict[TopicPartition, OffsetAndMetadata] = {}
        self.commits: list[tuple[TopicPartition, int, str]] = []
        self._target: dict[str, set[TopicPartition]] = {}

    @property
    def handlers(self) -> dict[type, Any]:
        """The handlers for a simulation."""
        return {ConsumerGroupHeartbeatRequest: self.heartbeat, OffsetCommitRequest: self.commit}

    def tick(self, now_ms: int) -> None:
        """Let time pass: sessions expire."""
        self.now_ms = now_ms
        for member_id, member in list(self.members.items()):
            if now_ms - member.seen_ms > SESSION_MS:
                self._remove(member_id)

    def heartbeat(self, request: ConsumerGroupHeartbeatRequest, version: int) -> ConsumerGroupHeartbeatResponse:
        member_id = request.member_id
        if request.member_epoch < 0:
            return self._leaves(request)
        if request.member_epoch == 0:
            assert request.rebalance_timeout_ms > 0
            assert request.topic_partitions == [] or list(request.topic_partitions or ()) == []
            assert request.subscribed_topic_names is not None
            error = self._joins(request)
            if error is not None:
                return ConsumerGroupHeartbeatResponse(error_code=error)
        member = self.members.get(member_id)
        if member is None:
            return ConsumerGroupHeartbeatResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID)
        owned = self._owned(request)
        if request.member_epoch not in (0, member.epoch):
            retries = request.member_epoch == member.former_epoch and owned is not None and owned <= member.assigned
            if not retries:
                return ConsumerGroupHeartbeatResponse(error_code=ErrorCode.FENCED_MEMBER_EPOCH)
        member.seen_ms = self.now_ms
        names = None if request.subscribed_topic_names is None else list(request.subscribed_topic_names)
        changed = False
        if names is not None and names != member.names:
            member.names, changed = names, True
        if request.subscribed_topic_regex is not None and request.subscribed_topic_regex != (member.regex or ""):
            member.regex, changed = request.subscribed_topic_regex or None, True
        if changed or request.member_epoch == 0:
            self._bump()
        before = set(member.assigned)
        self._reconcile(member_id, member, owned)
        says = request.member_epoch == 0 or owned is not None or before != member.assigned
        return self._confirms(member_id, member, says=says)

    def commit(self, request: OffsetCommitRequest, version: int) -> OffsetCommitResponse:
        member = self.members.get(request.member_id)
        error: ErrorCode | None = None
        if member is None:
            error = ErrorCode.UNKNOWN_MEMBER_ID if self.members or request.member_id else None
        elif request.generation_id_or_member_epoch != member.epoch:
            error = ErrorCode.STALE_MEMBER_EPOCH
        return commit_response(self, request, error)

    def _joins(self, request: ConsumerGroupHeartbeatRequest) -> ErrorCode | None:
        instance = request.instance_id
        if instance is not None:
            for member_id, member in list(self.members.items()):
                if member.instance_id == instance and member_id != request.member_id:
                    if not member.has_left:
                        return ErrorCode.UNRELEASED_INSTANCE_ID
                    self.members[request.member_id] = member
                    self._target[request.member_id] = self._target.pop(member_id, set())
                    del self.members[member_id]
        member = self.members.setdefault(request.member_id, _Member())
        member.instance_id = instance
        member.has_left = False
        member.revoking = set()
        return None

    def _leaves(self, request: ConsumerGroupHeartbeatRequest) -> ConsumerGroupHeartbeatResponse:
        member = self.members.get(request.member_id)
        if member is None:
            return ConsumerGroupHeartbeatResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID)
        if request.member_epoch == -2:
            assert request.instance_id is not None
            member.has_left = True
            member.seen_ms = self.now_ms
        else:
            self._remove(request.member_id)
        return ConsumerGroupHeartbeatResponse(member_id=request.member_id, member_epoch=request.member_epoch)

    def _remove(self, member_id: str) -> None:
        del self.members[member_id]
        self._bump()

    def _bump(self) -> None:
        """Compute a new target assignment, which is sticky and even."""
        self.epoch += 1
        wants = {
            member_id: {
                topic
                for topic in self.topics
                if topic in member.names or (member.regex is not None and re.fullmatch(member.regex, topic))
            }
            for member_id, member in self.members.items()
        }
        former = self._target
        self._target = {member_id: set() for member_id in self.members}
        free = [TopicPartition(topic, number) for topic, count in self.topics.items() for number in range(count)]
        share = -(-len(free) // max(1, len(self.members)))
        for member_id, kept in former.items():
            for partition in sorted(kept):
                is_wanted = member_id in wants and partition.topic in wants[member_id] and partition in free
                if is_wanted and len(self._target[member_id]) < share:
                    self._target[member_id].add(partition)
                    free.remove(partition)
        for partition in free:
            able = [member_id for member_id, topics in wants.items() if partition.topic in topics]
            if able:
                self._target[min(able, key=lambda each: (len(self._target[each]), each))].add(partition)

    def _reconcile(self, member_id: str, member: _Member, owned: set[TopicPartition] | None) -> None:
        target = self._target[member_id]
        if not member.revoking:
            member.revoking = member.assigned - target
            member.assigned &= target
        if member.revoking:
            if owned is None or owned & member.revoking:
                return
            member.revoking = set()
        taken = {
            partition
            for other_id, other in self.members.items()
            if other_id != member_id
            for partition in other.assigned | other.revoking
        }
        member.assigned |= target - taken
        if member.epoch != self.epoch:
            member.former_epoch, member.epoch = member.epoch, self.epoch

    def _confirms(self, member_id: str, member: _Member, *, says: bool) -> ConsumerGroupHeartbeatResponse:
        assignment = None
        if says:
            topics: dict[str, list[int]] = {}
            for topic, number in sorted(member.assigned):
                topics.setdefault(topic, []).append(number)
            assignment = ConsumerGroupHeartbeatResponse.Assignment(
                [
                    ConsumerGroupHeartbeatResponse.TopicPartitions(topic_id(topic), numbers)
                    for topic, numbers in topics.items()
                ]
            )
        return ConsumerGroupHeartbeatResponse(
            member_id=member_id,
            member_epoch=member.epoch,
            heartbeat_interval_ms=HEARTBEAT_INTERVAL_MS,
            assignment=assignment,
        )

    def _owned(self, request: ConsumerGroupHeartbeatRequest) -> set[TopicPartition] | None:
        if request.topic_partitions is None:
            return None
        names = {topic_id(name): name for name in self.topics}
        return {
            TopicPartition(names[topic.topic_id], number)
            for topic in request.topic_partitions
            for number in topic.partitions
        }
