"""Plain values about streams groups that an admin returns."""

from typing import NamedTuple

__all__ = [
    "StreamsGroupDescription",
    "StreamsMemberDescription",
    "StreamsSubtopology",
    "StreamsTask",
    "StreamsTasks",
    "StreamsTopic",
]


class StreamsTask(NamedTuple):
    """A task: one subtopology, run for one partition of its source topics.

    Attributes:
        subtopology_id: the id of the subtopology.
        partition: the number of the partition.
    """

    subtopology_id: str
    partition: int


class StreamsTasks(NamedTuple):
    """The tasks of a member, by role.

    Attributes:
        active: tasks that process records.
        standby: tasks that keep a copy of the state stores, ready to take over.
        warmup: tasks that restore their state stores before they become active.
    """

    active: tuple[StreamsTask, ...]
    standby: tuple[StreamsTask, ...]
    warmup: tuple[StreamsTask, ...]


class StreamsMemberDescription(NamedTuple):
    """A member of a streams group: one thread of an instance of the application.

    Attributes:
        member_id: the id that the member has given itself.
        group_instance_id: the id of a static member, None for a dynamic one.
        rack: its rack; None if it has none.
        client_id: the name that the client has given itself.
        client_host: the host from which it connected.
        process_id: identifies the process, which may run several members.
        topology_epoch: the epoch of the topology that the member runs.
        user_endpoint: host and port for interactive queries; None if it has none.
        client_tags: tags for the placement of standby tasks, keyed by name.
        member_epoch: the group epoch that the member has reached.
        assignment: the member's current tasks.
        target_assignment: the tasks that the member will have once others have given them up.
        is_classic: whether the member uses the classic protocol.
    """

    member_id: str
    group_instance_id: str | None
    rack: str | None
    client_id: str
    client_host: str
    process_id: str
    topology_epoch: int
    user_endpoint: tuple[str, int] | None
    client_tags: dict[str, str]
    member_epoch: int
    assignment: StreamsTasks
    target_assignment: StreamsTasks
    is_classic: bool


class StreamsTopic(NamedTuple):
    """A topic that belongs to an application.

    Attributes:
        name: the topic's name.
        partitions: the number of partitions; 0 if it is not decided yet.
        replication_factor: the replication factor; 0 for the broker's default.
        configs: its configurations, keyed by name.
    """

    name: str
    partitions: int
    replication_factor: int
    configs: dict[str, str]


class StreamsSubtopology(NamedTuple):
    """A connected part of an application's topology.

    Attributes:
        subtopology_id: its id.
        source_topics: topics that it reads and that the application did not create.
        repartition_sink_topics: repartition topics that it writes.
        state_changelog_topics: topics from which its state stores are restored.
        repartition_source_topics: repartition topics that it reads.
    """

    subtopology_id: str
    source_topics: tuple[str, ...]
    repartition_sink_topics: tuple[str, ...]
    state_changelog_topics: tuple[StreamsTopic, ...]
    repartition_source_topics: tuple[StreamsTopic, ...]


class StreamsGroupDescription(NamedTuple):
    """A streams group.

    Attributes:
        group_id: its id.
        state: `Empty`, `NotReady`, `Assigning`, `Reconciling` or `Stable`.
        topology_epoch: the epoch of the topology; None if the group has no topology.
        subtopologies: the parts of the topology.
        members: all members.
        group_epoch: a number that increases when members, the topology or topics change.
        assignment_epoch: the group epoch for which the target assignment was computed.
    """

    group_id: str
    state: str
    topology_epoch: int | None
    subtopologies: tuple[StreamsSubtopology, ...]
    members: tuple[StreamsMemberDescription, ...]
    group_epoch: int
    assignment_epoch: int
