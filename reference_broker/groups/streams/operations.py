"""The streams groups of one shard: heartbeats, sessions, topologies and assignments.

A heartbeat is answered once its records are committed; only records change the group.

Source: KIP-1071; `GroupMetadataManager` in Apache Kafka, whose order of checks and texts are kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Final

from kafkawire.reference_broker.coordinators.shard import CoordinatorRecord, ShardTimers
from kafkawire.reference_broker.groups.deadlines import Deadline, Deadlines
from kafkawire.reference_broker.groups.outbox import Outbox
from kafkawire.reference_broker.groups.refusals import full_group, missing_group, other_type, wrong_epoch
from kafkawire.reference_broker.groups.streams.configured_topology import ConfiguredTopology, configured
from kafkawire.reference_broker.groups.streams.endpoints import partitions_by_endpoint
from kafkawire.reference_broker.groups.streams.group import (
    NO_TASKS,
    StreamsGroup,
    StreamsMember,
    StreamsMemberState,
    TaskNumbers,
    Tasks,
)
from kafkawire.reference_broker.groups.streams.limits import StreamsLimits
from kafkawire.reference_broker.groups.streams.reconciliation import reconciled
from kafkawire.reference_broker.groups.streams.records import (
    current_record,
    epoch_record,
    group_tombstones,
    group_value_record,
    member_record,
    member_tombstones,
    replay,
    target_record,
    topology_record,
)
from kafkawire.reference_broker.groups.streams.requests import UNCHANGED_MS, StreamsBeat, StreamsHeartbeat
from kafkawire.reference_broker.groups.streams.sticky_assignor import AssignedMember, sticky_assignment
from kafkawire.reference_broker.groups.streams.topology import Topology
from kafkawire.reference_broker.groups.topics import Topics, metadata_hash
from kafkawire.reference_broker.work.timers import Timer
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.messages.streams_group_heartbeat import StreamsGroupHeartbeatResponse
from kafkawire.sdk.protocol.tables.enums import (
    JOIN_GROUP_MEMBER_EPOCH,
    StreamsGroupStatus,
)
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode

__all__ = ["StreamsOperations"]

#: The configuration of an assignment, by Kafka's name.
_STANDBY_REPLICAS: Final = "num.standby.replicas"

#: The validated epoch of a topology whose topics are not complete.
_NOT_VALIDATED: Final = -1

Status = StreamsGroupHeartbeatResponse.Status


class StreamsOperations:
    """The streams groups of a shard.

    Args:
        timers: timers for sessions, revocations and first assignments.
        outbox: receives the records.
        limits: see `StreamsLimits`.
        topics: see `Topics`.
        make_room: removes an empty classic group with an id; returns whether a group of another type then has the id.

    Attributes:
        groups: the groups, keyed by id; only replaying records changes them.
    """

    def __init__(
        self,
        timers: ShardTimers,
        outbox: Outbox,
        limits: StreamsLimits,
        topics: Topics,
        make_room: Callable[[str, bool], bool],
    ) -> None:
        self.groups: dict[str, StreamsGroup] = {}
        self._timers = timers
        self._outbox = outbox
        self._limits = limits
        self._topics = topics
        self._make_room = make_room
        self._deadlines: Deadlines[StreamsGroup, StreamsMember] = Deadlines(
            self.groups, timers, outbox, lambda group, member, now_ms: self._fence(group, member)
        )
        #: The timers of first assignments, keyed by group id.
        self._delays: dict[str, Timer] = {}

    # Called by the shard.

    def replay(self, record: CoordinatorRecord) -> str:
        """Replay a record; return the group's id."""
        group_id = replay(self.groups, record)
        member_id: str = getattr(record.key, "member_id", "")
        group = self.groups.get(group_id)
        if member_id and (group is None or member_id not in group.members):
            self._deadlines.forget(group_id, member_id)
        if group is None:
            self._cancel_delay(group_id)
        return group_id

    def loaded(self, now_ms: int) -> None:
        """Expect a heartbeat from every member, and a revocation from those with tasks to revoke."""
        for group in self.groups.values():
            for member in group.members.values():
                self._expect_heard(group.group_id, member.member_id, now_ms)
                if member.state is StreamsMemberState.UNREVOKED_TASKS:
                    self._expect_revocation(group.group_id, member, now_ms)

    def unloaded(self) -> None:
        """Cancel all timers."""
        self._deadlines.cancel()
        for group_id in list(self._delays):
            self._cancel_delay(group_id)

    def tombstones(self, group_id: str) -> list[CoordinatorRecord]:
        """Return the records that remove a group; none if it does not exist."""
        group = self.groups.get(group_id)
        return [] if group is None else group_tombstones(group_id, group.members)

    # Heartbeats.

    def beat(self, request: StreamsHeartbeat, now_ms: int) -> StreamsBeat:
        """Handle a heartbeat from a joining, staying or leaving member, whose fields have been checked.

        Raises:
            BrokerError: GROUP_ID_NOT_FOUND, GROUP_MAX_SIZE_REACHED, UNKNOWN_MEMBER_ID, FENCED_MEMBER_EPOCH,
                INVALID_REQUEST, STREAMS_INVALID_TOPOLOGY.
        """
        if request.epoch < JOIN_GROUP_MEMBER_EPOCH:
            return self._leave(request)
        is_joining = request.epoch == JOIN_GROUP_MEMBER_EPOCH
        group = self._group(request, is_joining=is_joining)
        member = group.members.get(request.member_id)
        if member is None:
            member = StreamsMember(request.member_id) if is_joining else group.known(request.member_id)
        _check_epoch(member, request)
        updated = _updated(member, request)
        statuses: list[Status] = []
        topology = self._write_properties(group, member, updated, request.topology)
        if group.topology is not None and updated.topology_epoch < group.topology.epoch:
            text = (
                f"The member's topology epoch {updated.topology_epoch} is behind the group's topology epoch "
                f"{group.topology.epoch}."
            )
            statuses.append(Status(StreamsGroupStatus.STALE_TOPOLOGY, text))
        epoch, found = self._write_epoch(group, topology, request.owned, raises_epoch=updated != member)
        if not group.members:
            self._delay(group.group_id, now_ms)
        target_epoch, targets = self._write_target(group, epoch, updated, found, statuses, now_ms)
        updated = self._write_step(
            group, updated, target_epoch, targets.get(updated.member_id, NO_TASKS), request, now_ms
        )
        self._expect_heard(group.group_id, member.member_id, now_ms)
        if request.wants_shutdown:
            group.shutdown_member_id = group.shutdown_member_id or member.member_id
        has_moved = is_joining or updated.assigned != member.assigned
        response = self._response(group, updated, request.endpoint_epoch, found, has_moved=has_moved)
        if found.obstacle is not None:
            statuses.append(Status(found.obstacle.status, found.obstacle.detail))
        if group.shutdown_member_id is not None:
            text = (
                f"Streams group member {group.shutdown_member_id} encountered a fatal error and requested a shutdown "
                "for the entire application."
            )
            statuses.append(Status(StreamsGroupStatus.SHUTDOWN_APPLICATION, text))
        response.status = statuses
        return StreamsBeat(response, found.missing, self._limits.heartbeat_interval_ms(group.group_id))

    def _group(self, request: StreamsHeartbeat, *, is_joining: bool) -> StreamsGroup:
        """Return the group of a member that joins or stays; a joining member may create it.

        Raises:
            BrokerError: GROUP_ID_NOT_FOUND, GROUP_MAX_SIZE_REACHED.
        """
        group_id = request.group_id
        group = self.groups.get(group_id)
        if group is None:
            if self._make_room(group_id, is_joining):
                raise other_type(group_id, "streams")
            if not is_joining:
                raise missing_group(group_id, "Streams group")
            group = StreamsGroup(group_id)
        size_max = self._limits.size_max
        if is_joining and len(group.members) >= size_max:
            raise full_group("streams", size_max)
        return group

    def _response(
        self,
        group: StreamsGroup,
        member: StreamsMember,
        known_endpoint_epoch: int,
        found: ConfiguredTopology,
        *,
        has_moved: bool,
    ) -> StreamsGroupHeartbeatResponse:
        response = StreamsGroupHeartbeatResponse(
            member_id=member.member_id,
            member_epoch=member.epoch,
            heartbeat_interval_ms=self._limits.heartbeat_interval_ms(group.group_id),
        )
        if has_moved:
            response.active_tasks, response.standby_tasks, response.warmup_tasks = map(_task_ids, member.assigned)
            group.endpoint_epoch += member.user_endpoint is not None
        if group.endpoint_epoch != known_endpoint_epoch:
            members = [each for each in group.members.values() if each.member_id != member.member_id]
            response.partitions_by_user_endpoint = partitions_by_endpoint([*members, member], found, self._topics)
        if group.group_id in self.groups:
            response.endpoint_information_epoch = group.endpoint_epoch
        return response

    def _leave(self, request: StreamsHeartbeat) -> StreamsBeat:
        group_id = request.group_id
        group = self.groups.get(group_id)
        if group is None:
            is_other = self._make_room(group_id, False)
            raise other_type(group_id, "streams") if is_other else missing_group(group_id)
        if request.wants_shutdown:
            group.shutdown_member_id = group.shutdown_member_id or request.member_id
        self._fence(group, group.known(request.member_id))
        response = StreamsGroupHeartbeatResponse(member_id=request.member_id, member_epoch=request.epoch, status=[])
        return StreamsBeat(response, {}, self._limits.heartbeat_interval_ms(group_id))

    def _fence(self, group: StreamsGroup, member: StreamsMember) -> None:
        """Remove a member; the others get its tasks with their next heartbeats."""
        self._outbox.add_all(member_tombstones(group.group_id, member.member_id))
        self._outbox.add(
            group_value_record(
                group.group_id,
                group.epoch + 1,
                group.metadata_hash,
                group.validated_topology_epoch,
                group.assignment_configs,
            )
        )

    # What a heartbeat writes.

    def _write_properties(
        self, group: StreamsGroup, member: StreamsMember, updated: StreamsMember, sent: Topology | None
    ) -> Topology:
        """Write a member's changed properties, and the topology if it is the first; return the group's topology.

        Raises:
            BrokerError: INVALID_REQUEST if the member has another topology.
        """
        if updated != member:
            self._outbox.add(member_record(group.group_id, updated))
        known = group.topology
        if known is None:
            if sent is None:
                raise BrokerError(ErrorCode.UNKNOWN_SERVER_ERROR, f"the group {group.group_id} has no topology")
            self._outbox.add(topology_record(group.group_id, sent))
            return sent
        if sent is not None and sent.epoch >= known.epoch and not _are_equal(sent, known):
            raise BrokerError(ErrorCode.INVALID_REQUEST, "Topology updates are not supported yet.")
        return known

    def _write_epoch(
        self, group: StreamsGroup, topology: Topology, owned: Tasks | None, *, raises_epoch: bool
    ) -> tuple[int, ConfiguredTopology]:
        """Write a higher group epoch if anything has changed; return the epoch and the topology with its topics."""
        found, new_hash = group.configured, group.metadata_hash
        changes = self._topics.changes
        if group.topology is None or found is None or not group.has_looked_at(changes):
            new_hash = metadata_hash(topology.required_topics, self._topics)
            if group.topology is None or found is None or new_hash != group.metadata_hash:
                found = group.configured = configured(topology, self._topics)
            raises_epoch = raises_epoch or new_hash != group.metadata_hash
        validated_epoch = _NOT_VALIDATED
        if found.is_ready:
            validated_epoch = topology.epoch
            _check_tasks(found, owned or NO_TASKS)
        configs = {_STANDBY_REPLICAS: str(self._limits.standby_replicas(group.group_id))}
        raises_epoch = (
            raises_epoch or validated_epoch != group.validated_topology_epoch or configs != group.assignment_configs
        )
        epoch = group.epoch + raises_epoch
        if raises_epoch:
            self._outbox.add(group_value_record(group.group_id, epoch, new_hash, validated_epoch, configs))
        group.looked_at = changes, epoch
        return epoch, found

    def _write_target(
        self,
        group: StreamsGroup,
        epoch: int,
        updated: StreamsMember,
        found: ConfiguredTopology,
        statuses: list[Status],
        now_ms: int,
    ) -> tuple[int, Mapping[str, Tasks]]:
        """Write the target assignment for a new epoch, if one is due; return its epoch and the members' tasks."""
        delayed = StreamsGroupStatus.ASSIGNMENT_DELAYED
        if group.group_id in self._delays:
            statuses.append(Status(delayed, "Assignment delayed due to the configured initial rebalance delay."))
            return group.assignment_epoch, {}
        if group.assignment_epoch >= epoch:
            return group.assignment_epoch, group.target
        interval_ms = self._limits.assignment_interval_ms(group.group_id)
        if group.assigned_ms and interval_ms and now_ms - group.assigned_ms < interval_ms:
            statuses.append(Status(delayed, "Assignment delayed due to the configured assignment interval."))
            return group.assignment_epoch, group.target
        members = {**group.members, updated.member_id: updated}
        replicas = self._limits.standby_replicas(group.group_id)
        return epoch, self._assign(group, epoch, members.values(), found, replicas, now_ms)

    def _assign(
        self,
        group: StreamsGroup,
        epoch: int,
        members: Iterable[StreamsMember],
        found: ConfiguredTopology,
        standby_replicas: int,
        now_ms: int,
    ) -> Mapping[str, Tasks]:
        """Compute the target assignment for a new epoch, and write the changes."""
        seen = {
            member.member_id: AssignedMember(member.process_id, group.target.get(member.member_id, NO_TASKS))
            for member in members
        }
        targets = dict.fromkeys(seen, NO_TASKS)
        if found.is_ready:
            targets = sticky_assignment(seen, found.subtopologies, standby_replicas)
        for member_id, target in targets.items():
            if group.target.get(member_id) != target:
                self._outbox.add(target_record(group.group_id, member_id, target))
        self._outbox.add(epoch_record(group.group_id, epoch, now_ms))
        return targets

    def _write_step(
        self,
        group: StreamsGroup,
        member: StreamsMember,
        target_epoch: int,
        target: Tasks,
        request: StreamsHeartbeat,
        now_ms: int,
    ) -> StreamsMember:
        """Write a member's next step towards the target assignment; return the resulting member."""
        moved = reconciled(member, target_epoch, target, request.owned, group.owners)
        if moved != member:
            self._outbox.add(current_record(group.group_id, moved))
            if moved.state is StreamsMemberState.UNREVOKED_TASKS:
                self._expect_revocation(group.group_id, moved, now_ms)
            else:
                self._deadlines.done(Deadline.REVOCATION, group.group_id, moved.member_id)
        return moved

    # Timers.

    def _expect_heard(self, group_id: str, member_id: str, now_ms: int) -> None:
        """Restart a member's session."""
        timeout_ms = self._limits.session_timeout_ms(group_id)
        self._deadlines.set(Deadline.SESSION, group_id, member_id, timeout_ms, now_ms)

    def _expect_revocation(self, group_id: str, member: StreamsMember, now_ms: int) -> None:
        timeout_ms = member.rebalance_timeout_ms
        self._deadlines.set(Deadline.REVOCATION, group_id, member.member_id, timeout_ms, now_ms, member.epoch)

    def _delay(self, group_id: str, now_ms: int) -> None:
        """Let the first assignment of an empty group wait for more members."""
        delay_ms = self._limits.initial_rebalance_delay_ms(group_id)
        if delay_ms > 0 and group_id not in self._delays:
            self._delays[group_id] = self._timers.at(
                now_ms + delay_ms, lambda now_ms: self._end_delay(group_id, now_ms)
            )

    def _cancel_delay(self, group_id: str) -> None:
        timer = self._delays.pop(group_id, None)
        if timer is not None:
            timer.cancel()

    def _end_delay(self, group_id: str, now_ms: int) -> None:
        """Write the first assignment, if the topics are known; otherwise, the next heartbeat does."""
        del self._delays[group_id]
        group = self.groups.get(group_id)
        if group is None or not group.members or group.configured is None or group.assignment_epoch >= group.epoch:
            return
        replicas = int(group.assignment_configs.get(_STANDBY_REPLICAS, 0))
        self._assign(group, group.epoch, group.members.values(), group.configured, replicas, now_ms)


def _are_equal(one: Topology, other: Topology) -> bool:
    """Return whether two topologies differ at most in the order of their subtopologies."""
    return one.epoch == other.epoch and sorted(one.subtopologies) == sorted(other.subtopologies)


def _updated(member: StreamsMember, request: StreamsHeartbeat) -> StreamsMember:
    timeout_ms = request.rebalance_timeout_ms
    return replace(
        member,
        instance_id=None,
        rack_id=member.rack_id if request.rack_id is None else request.rack_id,
        rebalance_timeout_ms=member.rebalance_timeout_ms if timeout_ms == UNCHANGED_MS else timeout_ms,
        topology_epoch=member.topology_epoch if request.topology is None else request.topology.epoch,
        client_id=request.client_id,
        client_host=request.client_host,
        process_id=member.process_id if request.process_id is None else request.process_id,
        user_endpoint=member.user_endpoint if request.user_endpoint is None else request.user_endpoint,
        client_tags=member.client_tags if request.client_tags is None else request.client_tags,
    )


def _check_epoch(member: StreamsMember, request: StreamsHeartbeat) -> None:
    """Check a member's epoch; if it reports its tasks, the previous epoch is valid too (a response was lost)."""
    epoch = request.epoch
    if epoch in (JOIN_GROUP_MEMBER_EPOCH, member.epoch):
        return
    is_behind = epoch == member.previous_epoch and epoch < member.epoch
    if is_behind and request.owned is not None and request.owned.is_part_of(member.assigned):
        return
    raise wrong_epoch("streams", epoch, member.epoch)


def _check_tasks(found: ConfiguredTopology, owned: Tasks) -> None:
    """Check that the tasks that a member reports exist.

    Raises:
        BrokerError: INVALID_REQUEST.
    """
    for tasks in owned:
        for subtopology_id, numbers in tasks.items():
            part = found.subtopologies.get(subtopology_id)
            if part is None:
                text = f"Subtopology {subtopology_id} does not exist in the topology."
                raise BrokerError(ErrorCode.INVALID_REQUEST, text)
            for number in sorted(numbers):
                if not 0 <= number < part.tasks:
                    text = (
                        f"Task {number} for subtopology {subtopology_id} is invalid. Number of tasks for this "
                        f"subtopology: {part.tasks}"
                    )
                    raise BrokerError(ErrorCode.INVALID_REQUEST, text)


def _task_ids(tasks: TaskNumbers) -> list[StreamsGroupHeartbeatResponse.TaskIds]:
    return [StreamsGroupHeartbeatResponse.TaskIds(key, sorted(numbers)) for key, numbers in sorted(tasks.items())]
