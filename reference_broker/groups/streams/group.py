"""A streams group: members, the topology, the target assignment, and the processes that own each task.

Only records change the group, so a group loaded from its records equals the one that wrote them. What Kafka does not
store either (the configured topology, the epoch of the endpoints, a requested shutdown) is not part of that equality.

Source: KIP-1071; `StreamsGroup`, `StreamsGroupMember` in Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from functools import partial
from typing import Final, NamedTuple

from kafkawire.reference_broker.groups.refusals import check_in_transaction, known_member
from kafkawire.reference_broker.groups.requests import Commit
from kafkawire.reference_broker.groups.streams.configured_topology import ConfiguredTopology
from kafkawire.reference_broker.groups.streams.topology import Topology
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.states import Edges
from kafkawire.sdk.storage.partitions import Partition

__all__ = [
    "NO_TASKS",
    "STREAMS_GROUP_EDGES",
    "STREAMS_GROUP_TYPE",
    "STREAMS_MEMBER_EDGES",
    "StreamsGroup",
    "StreamsGroupState",
    "StreamsMember",
    "StreamsMemberState",
    "Task",
    "TaskNumbers",
    "TaskOwners",
    "Tasks",
]

#: The type, and the protocol type, of streams groups in ListGroups.
STREAMS_GROUP_TYPE: Final = "streams"

#: A task: the id of its subtopology, and the number of its partition.
Task = tuple[str, int]

#: The partitions of tasks, keyed by the id of the subtopology.
TaskNumbers = Mapping[str, frozenset[int]]

#: The epoch of a new group and of its target assignment, as in Kafka; the group's first member increases it.
_FIRST_EPOCH: Final = 1

_NO_NUMBERS: Final[TaskNumbers] = {}


class Tasks(NamedTuple):
    """The tasks of a member.

    Attributes:
        active: tasks that process records.
        standby: tasks that keep a copy of the state stores, ready to take over.
        warmup: tasks that restore their state stores before they become active.
    """

    active: TaskNumbers = _NO_NUMBERS
    standby: TaskNumbers = _NO_NUMBERS
    warmup: TaskNumbers = _NO_NUMBERS

    def shares_any_with(self, other: Tasks) -> bool:
        """Return whether the other tasks include one of these, in the same role."""
        return any(
            numbers & theirs.get(subtopology_id, frozenset())
            for mine, theirs in zip(self, other, strict=True)
            for subtopology_id, numbers in mine.items()
        )

    def is_part_of(self, other: Tasks) -> bool:
        """Return whether the other tasks include all of these, in the same roles."""
        return all(
            subtopology_id in theirs and numbers <= theirs[subtopology_id]
            for mine, theirs in zip(self, other, strict=True)
            for subtopology_id, numbers in mine.items()
        )


NO_TASKS: Final = Tasks()


class StreamsGroupState(StrEnum):
    """The state of a streams group; the values are those in StreamsGroupDescribe."""

    #: It has no members.
    EMPTY = "Empty"
    #: The topology cannot run yet, because topics are missing or have the wrong number of partitions.
    NOT_READY = "NotReady"
    #: The target assignment is older than the group's epoch, and is being computed.
    ASSIGNING = "Assigning"
    #: Some members have not reached the target assignment.
    RECONCILING = "Reconciling"
    #: All members have reached the target assignment.
    STABLE = "Stable"
    #: The group does not exist; only a request that looks it up sees this state.
    DEAD = "Dead"


_CHANGES: Final = "members, topics or standby replicas change"

#: The state is derived from the members, the topology and the epochs: see `StreamsGroup.state`.
STREAMS_GROUP_EDGES: Final = Edges(
    "a streams group",
    (StreamsGroupState.EMPTY,),
    {
        StreamsGroupState.EMPTY: {
            StreamsGroupState.NOT_READY: "the first member joins, but topics are missing",
            StreamsGroupState.ASSIGNING: "the first member joins, and the first assignment waits for others",
            StreamsGroupState.STABLE: "the first member joins and gets all tasks",
        },
        StreamsGroupState.NOT_READY: {
            StreamsGroupState.ASSIGNING: "the topics are complete",
            StreamsGroupState.RECONCILING: "the topics are complete, and tasks move",
            StreamsGroupState.STABLE: "the topics are complete, and no member has to wait",
            StreamsGroupState.EMPTY: "the last member leaves",
        },
        StreamsGroupState.ASSIGNING: {
            StreamsGroupState.NOT_READY: "a topic is deleted or extended",
            StreamsGroupState.RECONCILING: "the target is computed, and tasks move",
            StreamsGroupState.STABLE: "the target is computed, and no member has to wait",
            StreamsGroupState.EMPTY: "the last member leaves",
        },
        StreamsGroupState.RECONCILING: {
            StreamsGroupState.NOT_READY: "a topic is deleted or extended",
            StreamsGroupState.ASSIGNING: _CHANGES,
            StreamsGroupState.STABLE: "the last member reaches the target",
            StreamsGroupState.EMPTY: "the last member leaves",
        },
        StreamsGroupState.STABLE: {
            StreamsGroupState.NOT_READY: "a topic is deleted or extended",
            StreamsGroupState.ASSIGNING: _CHANGES,
            StreamsGroupState.RECONCILING: f"{_CHANGES}, and a heartbeat computes the target",
            StreamsGroupState.EMPTY: "the last member leaves",
        },
    },
    is_derived=True,
)


class StreamsMemberState(IntEnum):
    """The state of a member; the values are those in its record. A later release may write other values."""

    #: The member has reached the target assignment.
    STABLE = 1
    #: The member has to revoke tasks before it gets new ones.
    UNREVOKED_TASKS = 2
    #: The member is waiting for tasks that other members, or its process, still own.
    UNRELEASED_TASKS = 3
    #: An unknown state, written by a later release.
    UNKNOWN = 127

    @classmethod
    def _missing_(cls, value: object) -> StreamsMemberState:
        return cls.UNKNOWN


#: A member that is replayed can be in any of these states.
STREAMS_MEMBER_EDGES: Final = Edges(
    "a member of a streams group",
    (StreamsMemberState.STABLE,),
    {
        StreamsMemberState.STABLE: {
            StreamsMemberState.STABLE: "it gets its full target, or nothing changes",
            StreamsMemberState.UNREVOKED_TASKS: "it owns tasks outside its target",
            StreamsMemberState.UNRELEASED_TASKS: "others still own part of its target",
        },
        StreamsMemberState.UNREVOKED_TASKS: {
            StreamsMemberState.STABLE: "it has revoked them, and gets its full target",
            StreamsMemberState.UNREVOKED_TASKS: "there is more to revoke",
            StreamsMemberState.UNRELEASED_TASKS: "it has revoked them, but others still own part of its target",
        },
        StreamsMemberState.UNRELEASED_TASKS: {
            StreamsMemberState.STABLE: "the others have revoked theirs",
            StreamsMemberState.UNREVOKED_TASKS: "the next target assignment takes tasks away",
            StreamsMemberState.UNRELEASED_TASKS: "some of the others have revoked theirs",
        },
        StreamsMemberState.UNKNOWN: {
            StreamsMemberState.STABLE: "it rejoins without tasks, and gets its full target",
            StreamsMemberState.UNRELEASED_TASKS: "it rejoins without tasks, but others own part of its target",
        },
    },
)


@dataclass(frozen=True, slots=True)
class StreamsMember:
    """A member of a streams group: one thread of an instance of the application.

    Attributes:
        member_id: the member's id.
        instance_id: the id of a static member, which only a later release writes.
        rack_id: the member's rack, or None if unknown.
        client_id: the client's own name.
        client_host: the host from which the client connects.
        rebalance_timeout_ms: how long it may take to revoke tasks.
        topology_epoch: the epoch of the topology that the member runs.
        process_id: identifies the process, whose members share state directories.
        user_endpoint: the host and port for interactive queries, or None.
        client_tags: tags for the placement of standby tasks.
        epoch: the group epoch that the member has reached.
        previous_epoch: the previous epoch, which the member still uses if a response was lost.
        state: see `StreamsMemberState`.
        assigned: owned tasks that the member may keep.
        revoking: tasks that the member owns until it reports having revoked them.
        since: for each active task, the epoch in which the member received it (KIP-1251).
    """

    member_id: str
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout_ms: int = -1
    topology_epoch: int = -1
    process_id: str = ""
    user_endpoint: tuple[str, int] | None = None
    client_tags: Mapping[str, str] = field(default_factory=dict)
    epoch: int = 0
    previous_epoch: int = 0
    state: StreamsMemberState = StreamsMemberState.STABLE
    assigned: Tasks = NO_TASKS
    revoking: Tasks = NO_TASKS
    since: Mapping[Task, int] = field(default_factory=dict)

    def is_reconciled_to(self, epoch: int) -> bool:
        """Return whether the member owns exactly its tasks in an assignment of this epoch."""
        return self.state is StreamsMemberState.STABLE and self.epoch == epoch


class TaskOwners(NamedTuple):
    """The processes that own tasks; a process keeps a task's state in one directory, so it may own the task only once.

    Attributes:
        active: the owner of each active task.
        standby, warmup: the owners of each such task.
    """

    active: dict[Task, str]
    standby: dict[Task, set[str]]
    warmup: dict[Task, set[str]]

    def is_in(self, process_id: str, task: Task) -> bool:
        """Return whether a process owns a task in any role."""
        return (
            self.active.get(task) == process_id
            or process_id in self.standby.get(task, ())
            or process_id in self.warmup.get(task, ())
        )

    def add(self, member: StreamsMember) -> None:
        """Add the tasks of a member's process."""
        for tasks in (member.assigned, member.revoking):
            for task in _each(tasks.active):
                self.active[task] = member.process_id
            for numbers, owners in ((tasks.standby, self.standby), (tasks.warmup, self.warmup)):
                for task in _each(numbers):
                    owners.setdefault(task, set()).add(member.process_id)

    def remove(self, member: StreamsMember) -> None:
        """Remove the tasks of a member's process."""
        for tasks in (member.assigned, member.revoking):
            for task in _each(tasks.active):
                if self.active.get(task) == member.process_id:
                    del self.active[task]
            for numbers, owners in ((tasks.standby, self.standby), (tasks.warmup, self.warmup)):
                for task in _each(numbers):
                    owners.get(task, set()).discard(member.process_id)
                    if not owners.get(task):
                        owners.pop(task, None)


def _each(numbers: TaskNumbers) -> list[Task]:
    return [(subtopology_id, number) for subtopology_id, part in numbers.items() for number in part]


@dataclass(slots=True)
class StreamsGroup:
    """A streams group.

    Attributes:
        group_id: the group's id.
        epoch: increases when members, topics or the assignment's configurations change.
        metadata_hash: hash of the topology's topics at the last check.
        validated_topology_epoch: the epoch of the topology if its topics are complete, and -1 if they are not.
        assignment_configs: the configurations of the last assignment, by Kafka's names.
        topology: the topology, or None before the first member has sent it.
        members: the members, keyed by id.
        target: the target assignment, keyed by member id.
        assignment_epoch: the group epoch of the target assignment.
        assigned_ms: when the target assignment was computed; 0 if never.
        owners: see `TaskOwners`.
        configured: the topology with the partitions of its topics; None if not known since loading.
        looked_at: see `has_looked_at`.
        endpoint_epoch: increases when the tasks of a member with an endpoint change.
        shutdown_member_id: the first member that has asked all others to shut down; None once the group is empty.
    """

    group_id: str
    epoch: int = _FIRST_EPOCH
    metadata_hash: int = 0
    validated_topology_epoch: int = 0
    assignment_configs: Mapping[str, str] = field(default_factory=dict)
    topology: Topology | None = None
    members: dict[str, StreamsMember] = field(default_factory=dict)
    target: dict[str, Tasks] = field(default_factory=dict)
    assignment_epoch: int = _FIRST_EPOCH
    assigned_ms: int = 0
    owners: TaskOwners = field(default_factory=lambda: TaskOwners({}, {}, {}))
    configured: ConfiguredTopology | None = field(default=None, compare=False)
    looked_at: tuple[int, int] = field(default=(-1, 0), compare=False)
    endpoint_epoch: int = field(default=0, compare=False)
    shutdown_member_id: str | None = field(default=None, compare=False)

    @property
    def state(self) -> StreamsGroupState:
        """The state of the group."""
        if not self.members:
            return StreamsGroupState.EMPTY
        if self.topology is None or self.topology.epoch != self.validated_topology_epoch:
            return StreamsGroupState.NOT_READY
        if self.epoch > self.assignment_epoch:
            return StreamsGroupState.ASSIGNING
        if all(member.is_reconciled_to(self.assignment_epoch) for member in self.members.values()):
            return StreamsGroupState.STABLE
        return StreamsGroupState.RECONCILING

    def has_looked_at(self, changes: int) -> bool:
        """Return whether the topology's topics are known to match `metadata_hash`.

        Args:
            changes: the counter in `Topics`; the epoch written at this count must have reached the log.
        """
        return self.looked_at[0] == changes and self.looked_at[1] <= self.epoch

    def is_subscribed_to(self, topic: str) -> bool:
        """Return whether the group's members read a topic."""
        return bool(self.members) and self.topology is not None and topic in self.topology.readers

    def put(self, member: StreamsMember) -> None:
        """Add or replace a member."""
        known = self.members.get(member.member_id)
        if known is not None:
            self.owners.remove(known)
        self.members[member.member_id] = member
        self.owners.add(member)

    def remove(self, member_id: str) -> None:
        """Remove a member."""
        known = self.members.pop(member_id, None)
        if known is not None:
            self.owners.remove(known)
        if not self.members:
            self.shutdown_member_id = None

    # Checks.

    def known(self, member_id: str) -> StreamsMember:
        """Return a member.

        Raises:
            BrokerError: UNKNOWN_MEMBER_ID.
        """
        return known_member(self.group_id, self.members, member_id)

    def check_commit(
        self, member_id: str, epoch: int, partitions: Collection[Partition] = (), *, knows_epochs: bool = True
    ) -> None:
        """Check an offset commit.

        Args:
            member_id: the member's id.
            epoch: the epoch in the request.
            partitions: the partitions; an old epoch suffices if the member has owned the tasks of all of them since
                that epoch (KIP-1251).
            knows_epochs: see `Commit`.

        Raises:
            BrokerError: UNKNOWN_MEMBER_ID; UNSUPPORTED_VERSION; STALE_MEMBER_EPOCH, which a heartbeat of the member
                resolves.
        """
        if epoch < 0 and not self.members:
            return
        member = self.known(member_id)
        if not knows_epochs:
            text = "OffsetCommit version 9 or above must be used by members using the streams group protocol"
            raise BrokerError(ErrorCode.UNSUPPORTED_VERSION, text)
        if epoch > member.epoch:
            text = f"Received member epoch {epoch} is newer than current member epoch {member.epoch}."
            raise BrokerError(ErrorCode.STALE_MEMBER_EPOCH, text)
        if epoch < member.epoch:
            for partition in partitions:
                if text := self._why_stale(member, epoch, partition):
                    raise BrokerError(ErrorCode.STALE_MEMBER_EPOCH, text)

    def _why_stale(self, member: StreamsMember, epoch: int, partition: Partition) -> str:
        """Return why an old epoch does not suffice for a partition, or "" if it does."""
        topic, number = partition
        if self.topology is None:
            return "Topology is not available for offset commit validation."
        subtopology_id = self.topology.readers.get(topic)
        if subtopology_id is None:
            return f"Topic {topic} is not in the topology."
        since = member.since.get((subtopology_id, number))
        if since is None:
            return f"Task {subtopology_id}-{number} is not assigned or pending revocation for member."
        if epoch < since:
            return (
                f"Received member epoch {epoch} is older than assignment epoch {since} for task "
                f"{subtopology_id}-{number}."
            )
        return ""

    def check_fetch(self, member_id: str, epoch: int) -> None:
        """Check that a member may read offsets.

        Raises:
            BrokerError: UNKNOWN_MEMBER_ID, STALE_MEMBER_EPOCH.
        """
        member = self.known(member_id)
        if epoch != member.epoch:
            text = f"The received member epoch {epoch} does not match the expected member epoch {member.epoch}."
            raise BrokerError(ErrorCode.STALE_MEMBER_EPOCH, text)

    def check_commit_in_transaction(self, commit: Commit, partitions: Collection[Partition]) -> None:
        """Check an offset commit in a transaction, from a member or from a producer without member data.

        Args:
            commit: the committer.
            partitions: see `check_commit`.

        Raises:
            BrokerError: UNKNOWN_MEMBER_ID, or ILLEGAL_GENERATION, the only code that producers know for a wrong epoch.
        """
        check_in_transaction(commit, partial(self.check_commit, commit.member_id, commit.generation_id, partitions))
