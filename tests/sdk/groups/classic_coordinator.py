"""A coordinator for one classic group; it is small, but as strict as Kafka's about ids, generations and states.

Source: Apache Kafka, `GroupMetadataManager` (classic groups); KIP-345, KIP-394, KIP-814.
"""

from __future__ import annotations

from enum import Enum
from typing import Any

from kafkawire.sdk.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kafkawire.sdk.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from kafkawire.sdk.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from kafkawire.sdk.protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from kafkawire.sdk.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.routing.partitions import OffsetAndMetadata, TopicPartition
from tests.sdk.simulation import Later

__all__ = ["ClassicCoordinator", "GroupState", "commit_response"]


class GroupState(Enum):
    EMPTY = "empty"
    PREPARING = "preparing"
    COMPLETING = "completing"
    STABLE = "stable"


class _Member:
    def __init__(self, member_id: str) -> None:
        self.member_id = member_id
        self.instance_id: str | None = None
        self.session_ms = 0
        self.rebalance_ms = 0
        self.protocols: dict[str, bytes] = {}
        self.seen_ms = 0
        self.join: Later | None = None
        self.sync: Later | None = None
        self.assignment = b""


class ClassicCoordinator:
    """The coordinator of one group; call `tick` as time passes.

    Attributes:
        offsets: the committed offsets.
        commits: the accepted commits, each as partition, offset and member id.
        joins: the join requests, with their reasons.
    """

    def __init__(self, group_id: str = "g") -> None:
        self.group_id = group_id
        self.now_ms = 0
        self.state = GroupState.EMPTY
        self.generation = 0
        self.members: dict[str, _Member] = {}
        self.leader = ""
        self.offsets: dict[TopicPartition, OffsetAndMetadata] = {}
        self.commits: list[tuple[TopicPartition, int, str]] = []
        self.joins: list[JoinGroupRequest] = []
        self._pending: set[str] = set()
        self._instances: dict[str, str] = {}
        self._deadline_ms = 0
        self._ids = 0

    @property
    def handlers(self) -> dict[type, Any]:
        """The handlers for a simulation."""
        return {
            JoinGroupRequest: self.join,
            SyncGroupRequest: self.sync,
            HeartbeatRequest: self.heartbeat,
            LeaveGroupRequest: self.leave,
            OffsetCommitRequest: self.commit,
        }

    def tick(self, now_ms: int) -> None:
        """Let time pass, so that sessions expire and rebalances continue without late members."""
        self.now_ms = now_ms
        for member in list(self.members.values()):
            if member.join is None and member.sync is None and now_ms - member.seen_ms > member.session_ms:
                self._remove(member)
        if self.state is GroupState.PREPARING and (
            now_ms >= self._deadline_ms or all(member.join is not None for member in self.members.values())
        ):
            self._complete()

    def join(self, request: JoinGroupRequest, version: int) -> JoinGroupResponse | Later:
        self.joins.append(request)
        member_id = request.member_id
        instance = request.group_instance_id
        if instance is not None and (known := self._known_instance(instance, member_id)) is not None:
            if known.member_id != member_id and member_id:
                return JoinGroupResponse(error_code=ErrorCode.FENCED_INSTANCE_ID, protocol_name="")
            return self._static_returns(known, request) if not member_id else self._rejoins(known, request)
        if not member_id:
            self._ids += 1
            member_id = f"member-{self._ids}"
            if instance is None:
                self._pending.add(member_id)
                return JoinGroupResponse(error_code=ErrorCode.MEMBER_ID_REQUIRED, member_id=member_id, protocol_name="")
        elif member_id in self.members:
            return self._rejoins(self.members[member_id], request)
        elif member_id not in self._pending:
            return JoinGroupResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID, protocol_name="")
        self._pending.discard(member_id)
        member = self.members[member_id] = _Member(member_id)
        if instance is not None:
            self._instances[instance] = member_id
        return self._awaits(member, request)

    def sync(self, request: SyncGroupRequest, version: int) -> SyncGroupResponse | Later:
        error = self._error(request.member_id, request.generation_id, request.group_instance_id)
        if error is None and self.state is GroupState.PREPARING:
            error = ErrorCode.REBALANCE_IN_PROGRESS
        if error is not None:
            return SyncGroupResponse(error_code=error)
        member = self.members[request.member_id]
        member.seen_ms = self.now_ms
        if self.state is GroupState.STABLE:
            return SyncGroupResponse(assignment=member.assignment)
        member.sync = Later()
        later = member.sync
        if member.member_id == self.leader:
            given = {each.member_id: bytes(each.assignment) for each in request.assignments}
            for each in self.members.values():
                each.assignment = given.get(each.member_id, b"")
            self.state = GroupState.STABLE
            for each in self.members.values():
                if each.sync is not None and each is not member:
                    self._answer_sync(each, SyncGroupResponse(assignment=each.assignment))
            member.sync = None
            return SyncGroupResponse(assignment=member.assignment)
        return later

    def heartbeat(self, request: HeartbeatRequest, version: int) -> HeartbeatResponse:
        error = self._error(request.member_id, request.generation_id, request.group_instance_id)
        if error is None:
            self.members[request.member_id].seen_ms = self.now_ms
            if self.state is GroupState.PREPARING:
                error = ErrorCode.REBALANCE_IN_PROGRESS
        return HeartbeatResponse(error_code=error or 0)

    def leave(self, request: LeaveGroupRequest, version: int) -> LeaveGroupResponse:
        for each in request.members:
            if each.member_id in self.members:
                self._remove(self.members[each.member_id])
        return LeaveGroupResponse()

    def commit(self, request: OffsetCommitRequest, version: int) -> OffsetCommitResponse:
        error: ErrorCode | None = None
        if request.generation_id_or_member_epoch >= 0 or self.members:
            error = self._error(request.member_id, request.generation_id_or_member_epoch, request.group_instance_id)
            if error is None and self.state is GroupState.COMPLETING:
                error = ErrorCode.REBALANCE_IN_PROGRESS
        if error is None and request.member_id:
            self.members[request.member_id].seen_ms = self.now_ms
        return commit_response(self, request, error)

    def _known_instance(self, instance: str, member_id: str) -> _Member | None:
        known = self._instances.get(instance)
        return None if known is None else self.members[known]

    def _error(self, member_id: str, generation: int, instance: str | None) -> ErrorCode | None:
        if instance is not None and self._instances.get(instance, member_id) != member_id:
            return ErrorCode.FENCED_INSTANCE_ID
        if member_id not in self.members:
            return ErrorCode.UNKNOWN_MEMBER_ID
        return None if generation == self.generation else ErrorCode.ILLEGAL_GENERATION

    def _static_returns(self, known: _Member, request: JoinGroupRequest) -> JoinGroupResponse | Later:
        """Replace a static member, without a rebalance if nothing changes."""
        self._ids += 1
        former = known.member_id
        same = {each.name: bytes(each.metadata) for each in request.protocols}.keys() == known.protocols.keys()
        del self.members[former]
        known.member_id = f"member-{self._ids}"
        self.members[known.member_id] = known
        self._instances[request.group_instance_id or ""] = known.member_id
        if known.join is not None:
            self._answer_join(known, JoinGroupResponse(error_code=ErrorCode.FENCED_INSTANCE_ID, protocol_name=""))
        was_leader = self.leader == former
        if was_leader:
            self.leader = known.member_id
        known.seen_ms = self.now_ms
        if self.state is not GroupState.STABLE or not same:
            return self._awaits(known, request)
        response = self._joined(known)
        response.skip_assignment = was_leader
        return response

    def _rejoins(self, member: _Member, request: JoinGroupRequest) -> JoinGroupResponse | Later:
        same = {each.name: bytes(each.metadata) for each in request.protocols} == member.protocols
        if self.state is GroupState.STABLE and (member.member_id == self.leader or not same):
            return self._awaits(member, request)
        if self.state is GroupState.PREPARING or not same:
            return self._awaits(member, request)
        member.seen_ms = self.now_ms
        return self._joined(member)

    def _awaits(self, member: _Member, request: JoinGroupRequest) -> Later:
        member.instance_id = request.group_instance_id
        member.session_ms = request.session_timeout_ms
        member.rebalance_ms = request.rebalance_timeout_ms
        member.protocols = {each.name: bytes(each.metadata) for each in request.protocols}
        member.seen_ms = self.now_ms
        if member.join is not None:  # the previous request's connection was lost
            self._answer_join(member, JoinGroupResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID, protocol_name=""))
        member.join = Later()
        if self.state is not GroupState.PREPARING:
            self._prepare()
        return member.join

    def _prepare(self) -> None:
        for member in self.members.values():
            if member.sync is not None:
                self._answer_sync(member, SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS))
        self.state = GroupState.PREPARING
        self._deadline_ms = self.now_ms + max((each.rebalance_ms for each in self.members.values()), default=0)

    def _complete(self) -> None:
        for member in list(self.members.values()):
            if member.join is None and member.instance_id is None:
                self._remove(member)
        self.generation += 1
        if not self.members:
            self.state = GroupState.EMPTY
            return
        self.state = GroupState.COMPLETING
        if self.leader not in self.members or self.members[self.leader].join is None:
            self.leader = next(each.member_id for each in self.members.values() if each.join is not None)
        for member in self.members.values():
            member.seen_ms = self.now_ms
            if member.join is not None:
                self._answer_join(member, self._joined(member))

    def _joined(self, member: _Member) -> JoinGroupResponse:
        common = set.intersection(*(set(each.protocols) for each in self.members.values()))
        name = next(name for name in member.protocols if name in common)
        members = []
        if member.member_id == self.leader:
            members = [
                JoinGroupResponse.JoinGroupResponseMember(each.member_id, each.instance_id, each.protocols[name])
                for each in self.members.values()
            ]
        return JoinGroupResponse(
            generation_id=self.generation,
            protocol_type="consumer",
            protocol_name=name,
            leader=self.leader,
            member_id=member.member_id,
            members=members,
        )

    def _remove(self, member: _Member) -> None:
        del self.members[member.member_id]
        if member.instance_id is not None:
            self._instances.pop(member.instance_id, None)
        if member.join is not None:
            self._answer_join(member, JoinGroupResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID, protocol_name=""))
        if member.sync is not None:
            self._answer_sync(member, SyncGroupResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID))
        if self.state in (GroupState.STABLE, GroupState.COMPLETING):
            self._prepare()

    def _answer_join(self, member: _Member, response: JoinGroupResponse) -> None:
        later, member.join = member.join, None
        assert later is not None
        later.answer(response)

    def _answer_sync(self, member: _Member, response: SyncGroupResponse) -> None:
        later, member.sync = member.sync, None
        assert later is not None
        later.answer(response)


def commit_response(group: Any, request: OffsetCommitRequest, error: ErrorCode | None) -> OffsetCommitResponse:
    topics = []
    for topic in request.topics:
        name = topic.name or topic.topic_id.rstrip(b"-").decode()
        for partition in topic.partitions:
            if error is None:
                key = TopicPartition(name, partition.partition_index)
                group.offsets[key] = OffsetAndMetadata(
                    partition.committed_offset, partition.committed_metadata or "", partition.committed_leader_epoch
                )
                group.commits.append((key, partition.committed_offset, request.member_id))
        answers = [
            OffsetCommitResponse.OffsetCommitResponsePartition(partition.partition_index, error or 0)
            for partition in topic.partitions
        ]
        topics.append(OffsetCommitResponse.OffsetCommitResponseTopic(topic.name, topic.topic_id, answers))
    return OffsetCommitResponse(topics=topics)
