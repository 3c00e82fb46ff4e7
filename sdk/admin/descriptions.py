"""Plain values that an admin creates or returns."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Generic, NamedTuple, TypeVar

from kafkawire.sdk.client.method_hints import explaining
from kafkawire.sdk.errors import BrokerError, KafkaWireError
from kafkawire.sdk.protocol.tables.enums import AlterConfigOperation
from kafkawire.sdk.protocol.versions import VersionRange
from kafkawire.sdk.routing.partitions import TopicPartition

if TYPE_CHECKING:
    from kafkawire.sdk.routing.metadata import ClusterBroker

__all__ = [
    "ClusterDescription",
    "ConfigChange",
    "ConfigEntry",
    "FeatureMetadata",
    "GroupDescription",
    "GroupListing",
    "GroupMemberDescription",
    "ItemResults",
    "LogDir",
    "LogDirReplica",
    "NewPartitions",
    "NewTopic",
    "PartitionReassignment",
    "TopicPartitionReplica",
]

#: What an operation is carried out on: a partition, a topic, a replica or a broker.
Item = TypeVar("Item")

#: What an operation returns for one item.
Value = TypeVar("Value")

#: Leaves a count to the broker's configuration.
_BROKER_DEFAULT = -1

#: Defaults are shared by all instances, so they must be immutable.
_NONE: Final[Mapping[Any, Any]] = MappingProxyType({})


class NewTopic(NamedTuple):
    """A topic to create.

    Attributes:
        name: 1 to 249 of the characters a-z, A-Z, 0-9, `.`, `_`, `-`.
        partitions: the number of partitions; -1 for the broker's default.
        replication_factor: replicas of each partition; -1 for the broker's default.
        configs: entries that differ from the broker's defaults, for example `{"cleanup.policy": "compact"}`.
        assignments: node ids of the replicas by partition number, instead of the two counts.
    """

    name: str
    partitions: int = _BROKER_DEFAULT
    replication_factor: int = _BROKER_DEFAULT
    configs: Mapping[str, str | None] = _NONE
    assignments: Mapping[int, tuple[int, ...]] = _NONE

    def __reduce__(self) -> tuple[type["NewTopic"], tuple[Any, ...]]:
        # A read-only view like the defaults can be neither pickled nor copied.
        return type(self), (*self[:3], dict(self.configs), dict(self.assignments))


NewTopic.__new__ = explaining("NewTopic", NewTopic.__new__)  # type: ignore[method-assign]  # the same function


class NewPartitions(NamedTuple):
    """More partitions for a topic.

    Attributes:
        total_count: the number of partitions that the topic will have.
        assignments: node ids of the replicas of each new partition, the preferred leader first; the controller chooses
            if there are none.
    """

    total_count: int
    assignments: tuple[tuple[int, ...], ...] = ()


class ItemResults(NamedTuple, Generic[Item, Value]):
    """The results of an operation on several items, each of which succeeds or fails by itself.

    Attributes:
        values: what the operation returned, for each item with success, in the order given; None if it returns nothing.
        errors: the error of each other item.
    """

    values: dict[Item, Value]
    errors: dict[Item, KafkaWireError]

    def all(self) -> dict[Item, Value]:
        """Return the values if every item succeeded.

        Raises:
            KafkaWireError: the error of the first item that failed.
        """
        for error in self.errors.values():
            raise error.again()
        return self.values


class PartitionReassignment(NamedTuple):
    """A reassignment in progress, all by node id.

    Attributes:
        replicas: the current replicas, including those being added and those being removed.
        adding_replicas: those that do not have all records yet.
        removing_replicas: those that will be removed once the others have all records.
    """

    replicas: tuple[int, ...]
    adding_replicas: tuple[int, ...]
    removing_replicas: tuple[int, ...]


class TopicPartitionReplica(NamedTuple):
    """One replica of a partition.

    Attributes:
        topic: the topic's name.
        partition: the partition's number, from 0.
        node_id: the broker that has the replica.
    """

    topic: str
    partition: int
    node_id: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition} on node {self.node_id}"


class LogDirReplica(NamedTuple):
    """A replica in a log directory.

    Attributes:
        size_bytes: the size of its segments.
        offset_lag: how many offsets it lacks: up to the high watermark, or, if `is_future`, up to the end of the log
            that it will replace.
        is_future: whether it is being copied from another log directory of the broker.
    """

    size_bytes: int
    offset_lag: int
    is_future: bool


class LogDir(NamedTuple):
    """A log directory of a broker.

    Attributes:
        error: why it cannot be used, KAFKA_STORAGE_ERROR if it is offline; None if it can.
        replicas: the replicas in it, by partition.
        total_bytes: the size of its volume; None if the broker does not report it, as before Apache Kafka 3.3.
        usable_bytes: the free space of its volume; None if the broker does not report it.
        is_cordoned: whether it gets no new replicas.
    """

    error: BrokerError | None
    replicas: dict[TopicPartition, LogDirReplica]
    total_bytes: int | None
    usable_bytes: int | None
    is_cordoned: bool


class ClusterDescription(NamedTuple):
    """A cluster.

    Attributes:
        cluster_id: its id, None if the broker does not report one.
        controller_id: node id of the broker that accepts requests for the controller; None if there is none.
        brokers: all brokers, by node id.
    """

    cluster_id: str | None
    controller_id: int | None
    brokers: "Mapping[int, ClusterBroker]"


class FeatureMetadata(NamedTuple):
    """The features of a cluster.

    Attributes:
        supported: the lowest and the highest level of each feature that the broker supports, by name.
        finalized: the level that the cluster has finalized, by name; features without one are left out.
        finalized_epoch: increases with each change of the finalized levels; None if the broker does not know them.
    """

    supported: dict[str, VersionRange]
    finalized: dict[str, int]
    finalized_epoch: int | None


class ConfigEntry(NamedTuple):
    """One entry of a configuration.

    Attributes:
        name: as in Kafka's documentation.
        value: the value; None if it is sensitive or not set.
        source: where the value comes from, a `ConfigSource`.
        read_only: whether it cannot be changed while the broker runs.
        is_sensitive: whether the broker withholds the value.
    """

    name: str
    value: str | None
    source: int
    read_only: bool
    is_sensitive: bool


class ConfigChange(NamedTuple):
    """A change of one entry of a configuration.

    Attributes:
        name: as in Kafka's documentation.
        value: the new value; for APPEND and SUBTRACT, elements of a list, separated by commas; None for DELETE.
        operation: SET, DELETE (the entry returns to its default), or APPEND and SUBTRACT for lists.
    """

    name: str
    value: str | None
    operation: AlterConfigOperation = AlterConfigOperation.SET


class GroupListing(NamedTuple):
    """A group, as `list_groups` returns it.

    Attributes:
        group_id: its id.
        protocol_type: `consumer` for consumer groups; empty if only offsets were committed.
        state: `Stable`, `Empty` and so on; empty if the broker does not report it.
        group_type: `classic`, `consumer` (KIP-848), `share` or `streams`; empty if the broker does not report it.
    """

    group_id: str
    protocol_type: str
    state: str
    group_type: str


class GroupMemberDescription(NamedTuple):
    """A member of a group.

    Attributes:
        member_id: the id assigned by the coordinator.
        group_instance_id: the id of a static member, None for a dynamic one.
        client_id: the client's name for itself.
        client_host: the host it connected from.
        assignment: its current partitions.
        target_assignment: in a KIP-848 group, the partitions that it will have once others have released them; None in
            a classic group.
        member_epoch: in a KIP-848 group, the epoch of the group that it has reached; None in a classic group.
        group_protocol: its protocol, `classic` or `consumer`: a KIP-848 group may have members of both kinds while it
            is upgraded. Empty if the broker does not report it.
        other_assignment: the bytes of an assignment in a classic group that is not a consumer assignment, because the
            group belongs to other clients, such as Kafka Connect, or its leader wrote other data. Empty otherwise.
    """

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    assignment: tuple[TopicPartition, ...]
    target_assignment: tuple[TopicPartition, ...] | None = None
    member_epoch: int | None = None
    group_protocol: str = ""
    other_assignment: bytes = b""


class GroupDescription(NamedTuple):
    """A KIP-848 consumer group or a classic group.

    Attributes:
        group_id: its id.
        state: `Stable`, `Empty`, `Assigning` or `Reconciling`; for a classic group `Stable`, `Empty`,
            `PreparingRebalance` or `CompletingRebalance`.
        protocol: the assignor in use.
        members: all members.
        group_type: `consumer` (KIP-848) or `classic`.
        protocol_type: `consumer`, including classic consumer groups; for other classic groups the name that their
            clients use, such as `connect`; empty if only offsets were committed.
        group_epoch: in a KIP-848 group, increases when members, subscriptions or topics change; None in a classic
            group.
        assignment_epoch: the group epoch for which the target assignment was computed; None in a classic group.
    """

    group_id: str
    state: str
    protocol: str
    members: tuple[GroupMemberDescription, ...]
    group_type: str
    protocol_type: str
    group_epoch: int | None = None
    assignment_epoch: int | None = None
