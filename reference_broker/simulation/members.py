"""A member of a classic group: it joins, shares out the partitions if it leads, commits offsets, and leaves at times.

A member that does not know whether a commit was stored joins again with a new id: the commit may still arrive later,
which is harmless only if the member has been replaced by then.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, Final

from kafkawire.reference_broker.simulation.client import Ask, Client, Pause, Script, ask
from kafkawire.reference_broker.simulation.error_codes import error_codes
from kafkawire.reference_broker.simulation.group import OFFSETS_VERSION, Group
from kafkawire.sdk.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kafkawire.sdk.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from kafkawire.sdk.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from kafkawire.sdk.protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from kafkawire.sdk.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from kafkawire.sdk.protocol.tables.enums import UNKNOWN_GENERATION_ID
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.routing.partitions import TopicPartition

__all__ = ["SESSION_MS", "Member"]

#: How long a member may be silent, and how long the others wait for it to join again.
SESSION_MS: Final = 500
_REBALANCE_MS: Final = 600

#: How long a member waits for the others.
_JOIN_TIMEOUT_MS: Final = 2_500

_PROTOCOL_TYPE: Final = "consumer"
_PROTOCOL: Final = "simulated"

#: How long a member works on records before it commits their offsets, at most.
_WORK_MS_MAX: Final = 100

#: How often a member that has partitions leaves.
_LEAVES_SHARE: Final = 0.03

#: The member has been removed from the group.
_REMOVED: Final = frozenset({ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION})


class Member:
    """A member of a group.

    Args:
        client: sends the requests.
        group: see `Group`.

    Attributes:
        client: see above.
        generation: the generation in which the member has its partitions; -1 if it has none.
        partitions: its partitions.
    """

    def __init__(self, client: Client, group: Group) -> None:
        self.client = client
        self._group = group
        self._id = ""
        self.generation = UNKNOWN_GENERATION_ID
        self.partitions: tuple[TopicPartition, ...] = ()

    def script(self) -> Script:
        """Join and commit until the client ends."""
        client, chance = self.client, self.client.chance
        while not client.is_over:
            yield from self._join()
            if self.generation != UNKNOWN_GENERATION_ID:
                yield from self._group.read(self._group.partitions)
            while self.generation != UNKNOWN_GENERATION_ID and not client.is_over:
                yield Pause(chance.randint(40, 160))
                if chance.random() < _LEAVES_SHARE:
                    yield from self._leave()
                elif chance.random() < 0.5:
                    yield from self._commit()
                else:
                    yield from self._heartbeat()
            yield Pause(chance.randint(10, 60))

    def _lose(self, *, is_removed: bool) -> None:
        """Give up the partitions, and the member id if the group no longer has it."""
        self.generation, self.partitions = UNKNOWN_GENERATION_ID, ()
        if is_removed:
            self._id = ""

    def _join(self) -> Generator[Ask | Pause, Any, None]:
        group = self._group
        protocol = JoinGroupRequest.JoinGroupRequestProtocol(_PROTOCOL)
        request = JoinGroupRequest(
            group.name, SESSION_MS, _REBALANCE_MS, self._id, protocol_type=_PROTOCOL_TYPE, protocols=[protocol]
        )
        question = Ask(group.coordinator, request, timeout_ms=_JOIN_TIMEOUT_MS)
        joined = yield from ask(question, JoinGroupResponse)
        if joined is None or joined.error_code:
            if joined is not None and joined.error_code == ErrorCode.MEMBER_ID_REQUIRED:
                self._id = joined.member_id
            elif joined is not None:
                self._lose(is_removed=joined.error_code in _REMOVED)
            return
        self._id = joined.member_id
        assignments = self._shared_out(joined) if joined.leader == joined.member_id else []
        sync = SyncGroupRequest(
            group.name, joined.generation_id, self._id, None, _PROTOCOL_TYPE, _PROTOCOL, assignments
        )
        synced = yield from ask(Ask(group.coordinator, sync), SyncGroupResponse)
        if synced is None or synced.error_code:
            self._lose(is_removed=synced is not None and synced.error_code in _REMOVED)
            return
        numbers = bytes(synced.assignment)
        self.partitions = tuple(group.partitions[number] for number in numbers)
        self.generation = joined.generation_id
        group.assigned(self.generation, self._id, self.partitions)

    def _shared_out(self, joined: JoinGroupResponse) -> list[SyncGroupRequest.SyncGroupRequestAssignment]:
        """Return the assignment of each member: the numbers of its partitions."""
        members = [each.member_id for each in joined.members]
        self.client.chance.shuffle(members)
        numbers = range(len(self._group.partitions))
        return [
            SyncGroupRequest.SyncGroupRequestAssignment(member_id, bytes(numbers[first :: len(members)]))
            for first, member_id in enumerate(members)
        ]

    def _heartbeat(self) -> Generator[Ask | Pause, Any, None]:
        request = HeartbeatRequest(self._group.name, self.generation, self._id)
        response = yield from ask(Ask(self._group.coordinator, request), HeartbeatResponse)
        if response is not None and response.error_code in (*_REMOVED, ErrorCode.REBALANCE_IN_PROGRESS):
            self._lose(is_removed=response.error_code in _REMOVED)

    def _commit(self) -> Generator[Ask | Pause, Any, None]:
        if not self.partitions:
            yield from self._heartbeat()
            return
        partition = self.client.chance.choice(self.partitions)
        offset = self._group.next_offset(partition)
        yield Pause(self.client.chance.randint(0, _WORK_MS_MAX))
        part = OffsetCommitRequest.OffsetCommitRequestPartition(partition.partition, offset)
        topic = OffsetCommitRequest.OffsetCommitRequestTopic(partition.topic, partitions=[part])
        request = OffsetCommitRequest(self._group.name, self.generation, self._id, topics=[topic])
        response = yield from ask(Ask(self._group.coordinator, request, OFFSETS_VERSION), OffsetCommitResponse)
        codes = set() if response is None else error_codes(response)
        if codes == {ErrorCode.NONE}:
            self._group.committed({partition: offset})
        elif codes == {ErrorCode.REBALANCE_IN_PROGRESS}:
            self._lose(is_removed=False)
        else:
            self._lose(is_removed=True)

    def _leave(self) -> Generator[Ask | Pause, Any, None]:
        request = LeaveGroupRequest(self._group.name, members=[LeaveGroupRequest.MemberIdentity(self._id)])
        yield from ask(Ask(self._group.coordinator, request), LeaveGroupResponse)
        self._lose(is_removed=True)
