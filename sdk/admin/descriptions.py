"""Plain values that an admin creates or returns; those about transactions are in `transaction_descriptions.py`."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Generic, NamedTuple, SupportsIndex, TypeVar

from kafkawire.sdk.client.method_hints import add_hints, explaining
from kafkawire.sdk.errors import BrokerError, KafkaWireError
from kafkawire.sdk.protocol.tables.enums import AlterConfigOperation, ConfigResourceType, ConfigSource, ConfigType
from kafkawire.sdk.protocol.values import quoted
from kafkawire.sdk.protocol.versions import VersionRange
from kafkawire.sdk.routing.partitions import OffsetAndMetadata, TopicPartition

if TYPE_CHECKING:
    from kafkawire.sdk.protocol.tables.enums import AclOperation
    from kafkawire.sdk.routing.metadata import ClusterBroker

__all__ = [
    "ClusterDescription",
    "ConfigChange",
    "ConfigEntry",
    "ConfigResource",
    "ConfigSynonym",
    "CreatedTopic",
    "FeatureMetadata",
    "GroupDescription",
    "GroupLag",
    "GroupListing",
    "GroupMemberDescription",
    "ItemResults",
    "LogDir",
    "LogDirReplica",
    "NewPartitions",
    "NewTopic",
    "PartitionLag",
    "PartitionReassignment",
    "ReplicaLogDirs",
    "TopicPartitionReplica",
]

#: What an operation is applied to: a partition, a topic, a replica or a broker.
Item = TypeVar("Item")

#: The result of an operation for one item.
Value = TypeVar("Value")

#: What to use of `ItemResults` in place of a mapping.
_NO_MAPPING: Final = "all(), which raises the first error, or values and errors"

#: Stands for the default count from the broker's configuration.
_BROKER_DEFAULT = -1

#: Defaults are shared by all instances, so they must be immutable.
_NONE: Final[Mapping[Any, Any]] = MappingProxyType({})


class NewTopic(NamedTuple):
    """A topic to create.

    Attributes:
        name: 1 to 249 characters from a-z, A-Z, 0-9, `.`, `_` and `-`.
        partitions: the number of partitions; -1 for the broker's default.
        replication_factor: the number of replicas of each partition; -1 for the broker's default.
        configs: the entries that differ from the broker's defaults, for example `{"cleanup.policy": "compact"}`.
        assignments: the node ids of the replicas, keyed by partition number, in place of the two counts.
    """

    name: str
    partitions: int = _BROKER_DEFAULT
    replication_factor: int = _BROKER_DEFAULT
    configs: Mapping[str, str | None] = _NONE
    assignments: Mapping[int, tuple[int, ...]] = _NONE

    def __reduce__(self) -> tuple[type["NewTopic"], tuple[Any, ...]]:
        # A read-only view, like the defaults, can be neither pickled nor copied.
        return type(self), (*self[:3], dict(self.configs), dict(self.assignments))


NewTopic.__new__ = explaining("NewTopic", NewTopic.__new__)  # type: ignore[method-assign]  # the same function


class CreatedTopic(NamedTuple):
    """A topic that was created, or would have been if the request was only validated.

    Attributes:
        topic_id: 16 bytes; zeros if the broker has no topic ids.
        partitions: the number of partitions; None if the broker does not say, because it is older than Apache Kafka
            2.4 or because this user may not see the topic's configuration.
        replication_factor: the number of replicas of each partition; None if the broker does not say.
        configs: the topic's configuration, keyed by name; None if the broker does not say.
    """

    topic_id: bytes
    partitions: int | None
    replication_factor: int | None
    configs: "dict[str, ConfigEntry] | None"


class NewPartitions(NamedTuple):
    """Additional partitions for a topic.

    Attributes:
        total_count: the number of partitions that the topic will have.
        assignments: the node ids of the replicas of each new partition, with the preferred leader first; if empty, the
            controller chooses.
    """

    total_count: int
    assignments: tuple[tuple[int, ...], ...] = ()


class ItemResults(NamedTuple, Generic[Item, Value]):
    """The results of an operation on several items, each of which succeeds or fails independently.

    They unpack into both: `values, errors = results`. An index other than these two, and `in`, are refused, because a
    mapping was probably expected.

    Attributes:
        values: the results of the items that succeeded, in the order given; None for an operation without results.
        errors: the error of each item that failed.
    """

    values: dict[Item, Value]
    errors: dict[Item, KafkaWireError]

    def all(self) -> dict[Item, Value]:
        """Return the values if every item succeeded.

        Raises:
            KafkaWireError: the error of the first item that failed; its `results` are these results.
        """
        for error in self.errors.values():
            raised = error.again()
            raised.results = self
            raise raised
        return self.values


def _item(results: tuple[Any, ...], index: Any) -> Any:
    if isinstance(index, SupportsIndex | slice):
        return tuple.__getitem__(results, index)
    raise TypeError(f"ItemResults is not a mapping: use {_NO_MAPPING}, for example results.all()[{quoted(index, 100)}]")


def _has(results: tuple[Any, ...], item: object) -> bool:
    raise TypeError(f"ItemResults is not a mapping: use `in` with {_NO_MAPPING}, not {quoted(item, 100)} in results")


# Set here, so that type checkers still see those of a tuple, and report a wrong index.
ItemResults.__getitem__ = _item  # type: ignore[method-assign]  # only its types are those of a tuple
ItemResults.__contains__ = _has  # type: ignore[method-assign]  # as above
add_hints(ItemResults, {f"use {_NO_MAPPING}": "get items keys"})


class PartitionReassignment(NamedTuple):
    """A reassignment in progress; all replicas are node ids.

    Attributes:
        replicas: the current replicas, including those being added and those being removed.
        adding_replicas: the new replicas that do not have all records yet.
        removing_replicas: the replicas that will be removed once the other replicas have all records.
    """

    replicas: tuple[int, ...]
    adding_replicas: tuple[int, ...]
    removing_replicas: tuple[int, ...]


class TopicPartitionReplica(NamedTuple):
    """One replica of a partition.

    Attributes:
        topic: the topic's name.
        partition: the partition's number, from 0.
        node_id: the broker that holds the replica.
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
        offset_lag: how many offsets it lags behind the high watermark or, if `is_future`, behind the end of the log
            that it will replace.
        is_future: whether it is being copied from another log directory of the broker.
    """

    size_bytes: int
    offset_lag: int
    is_future: bool


class LogDir(NamedTuple):
    """A log directory of a broker.

    Attributes:
        error: why the directory cannot be used, with KAFKA_STORAGE_ERROR if it is offline; None if it can be used.
        replicas: the replicas in it, keyed by partition.
        total_bytes: the size of its volume; None if the broker does not report it (before Apache Kafka 3.3).
        usable_bytes: the free space of its volume; None if the broker does not report it.
        is_cordoned: whether the directory receives no new replicas.
    """

    error: BrokerError | None
    replicas: dict[TopicPartition, LogDirReplica]
    total_bytes: int | None
    usable_bytes: int | None
    is_cordoned: bool


class ReplicaLogDirs(NamedTuple):
    """The log directories of one replica.

    Attributes:
        path: the absolute path of the directory that holds the replica; None if the broker does not have the replica,
            or its directory is offline.
        offset_lag: how many offsets the replica lags behind the high watermark; None if `path` is.
        future_path: the directory to which the replica is being moved; None if it is not being moved.
        future_offset_lag: how many offsets the copy lags behind the end of the log; None if there is no copy.
    """

    path: str | None
    offset_lag: int | None
    future_path: str | None
    future_offset_lag: int | None


class ClusterDescription(NamedTuple):
    """A cluster.

    Attributes:
        cluster_id: the cluster's id; None if the broker does not report one.
        controller_id: the node id of the broker that accepts requests for the controller; None if there is none.
        brokers: all brokers, keyed by node id.
        authorized_operations: what this user may do with the cluster; None unless it was asked for.
    """

    cluster_id: str | None
    controller_id: int | None
    brokers: "Mapping[int, ClusterBroker]"
    authorized_operations: "frozenset[AclOperation] | None" = None


class FeatureMetadata(NamedTuple):
    """The features of a cluster.

    Attributes:
        supported: the lowest and highest level that the broker supports for each feature, keyed by name.
        finalized: the level that the cluster has finalized for each feature, keyed by name; features without one are
            left out.
        finalized_epoch: a number that increases with each change of the finalized levels; None if the broker does not
            know them.
    """

    supported: dict[str, VersionRange]
    finalized: dict[str, int]
    finalized_epoch: int | None


class ConfigResource(NamedTuple):
    """A resource that has a configuration.

    Attributes:
        resource_type: the kind of resource.
        name: the topic, group or subscription of client metrics; the node id of a broker, as a string, or an empty
            string for the defaults of all brokers.
    """

    resource_type: ConfigResourceType
    name: str

    def __str__(self) -> str:
        return f"{self.resource_type.name.lower()} {self.name}"


ConfigResource.__new__ = explaining("ConfigResource", ConfigResource.__new__)  # type: ignore[method-assign]  # the same function


class ConfigSynonym(NamedTuple):
    """One of the places that may define the value of an entry.

    Attributes:
        name: the name of the entry in that place.
        value: its value there; None if it is sensitive.
        source: the place; a number if a newer broker names another one.
    """

    name: str
    value: str | None
    source: ConfigSource | int


class ConfigEntry(NamedTuple):
    """One entry of a configuration.

    Attributes:
        name: as in Kafka's documentation.
        value: the value; None if it is sensitive or not set.
        source: where the value comes from; a number if a newer broker names another place.
        read_only: whether it cannot be changed while the broker is running.
        is_sensitive: whether the broker withholds the value.
        config_type: the type of the value; UNKNOWN if the broker does not say, a number if a newer broker names another
            type.
        synonyms: the places that define a value, with the one that applies first; empty unless they were asked for.
        documentation: what the entry means; None unless it was asked for.
    """

    name: str
    value: str | None
    source: ConfigSource | int
    read_only: bool
    is_sensitive: bool
    config_type: ConfigType | int = ConfigType.UNKNOWN
    synonyms: tuple[ConfigSynonym, ...] = ()
    documentation: str | None = None

    @property
    def is_default(self) -> bool:
        """Whether the value is the default that Kafka's documentation gives."""
        return self.source == ConfigSource.DEFAULT_CONFIG


class ConfigChange(NamedTuple):
    """A change to one entry of a configuration.

    Attributes:
        name: as in Kafka's documentation.
        value: the new value; for APPEND and SUBTRACT, list elements separated by commas; None for DELETE.
        operation: SET, DELETE (the entry returns to its default), or APPEND and SUBTRACT for lists.
    """

    name: str
    value: str | None
    operation: AlterConfigOperation = AlterConfigOperation.SET


class GroupListing(NamedTuple):
    """A group as returned by `list_groups`.

    Attributes:
        group_id: its id.
        protocol_type: `consumer` for consumer groups; empty if the group has only committed offsets.
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
        client_id: the name that the client has given itself.
        client_host: the host from which it connected.
        assignment: the member's current partitions.
        target_assignment: in a KIP-848 group, the partitions that the member will have once others have given them up;
            None in a classic group.
        member_epoch: in a KIP-848 group, the group epoch that the member has reached; None in a classic group.
        group_protocol: the member's protocol, `classic` or `consumer`: a KIP-848 group may have members of both kinds
            while it is being upgraded. Empty if the broker does not report it.
        other_assignment: in a classic group, the bytes of an assignment that is not a consumer assignment, because the
            group belongs to other clients, such as Kafka Connect, or its leader wrote other data. Empty otherwise.
        rack: in a KIP-848 group, the member's rack; None if it has none, or in a classic group.
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
    rack: str | None = None


class GroupDescription(NamedTuple):
    """A group, either a KIP-848 consumer group or a classic group.

    Attributes:
        group_id: its id.
        state: `Stable`, `Empty`, `Assigning` or `Reconciling`; for a classic group, `Stable`, `Empty`,
            `PreparingRebalance` or `CompletingRebalance`.
        protocol: the assignor in use.
        members: all members.
        group_type: `consumer` (KIP-848) or `classic`.
        protocol_type: `consumer`, including for classic consumer groups; for other classic groups, the name that their
            clients use, such as `connect`; empty if the group has only committed offsets.
        group_epoch: in a KIP-848 group, a number that increases when members, subscriptions or topics change; None in a
            classic group.
        assignment_epoch: the group epoch for which the target assignment was computed; None in a classic group.
        coordinator_id: the node id of the group's coordinator.
        authorized_operations: what this user may do with the group; None unless it was asked for.
    """

    group_id: str
    state: str
    protocol: str
    members: tuple[GroupMemberDescription, ...]
    group_type: str
    protocol_type: str
    group_epoch: int | None = None
    assignment_epoch: int | None = None
    coordinator_id: int = -1
    authorized_operations: "frozenset[AclOperation] | None" = None


class PartitionLag(NamedTuple):
    """How far a group is behind in one partition.

    Attributes:
        committed: the committed offset; None if the group has not committed one.
        end_offset: the offset after the last record; None if `error` is set.
        lag: how many offsets the group has not read yet; None if it has not committed an offset, or `error` is set.
        member: the member to which the partition is assigned; None if there is none.
        error: why the end offset is not known; None if it is.
    """

    committed: OffsetAndMetadata | None
    end_offset: int | None
    lag: int | None
    member: GroupMemberDescription | None
    error: KafkaWireError | None


class GroupLag(NamedTuple):
    """How far a group is behind.

    Attributes:
        group: the group, with its state and members.
        partitions: every partition that the group has committed or that is assigned to a member, in order.
    """

    group: GroupDescription
    partitions: dict[TopicPartition, PartitionLag]

    @property
    def total(self) -> int:
        """The sum of all lags that are known."""
        return sum(partition.lag or 0 for partition in self.partitions.values())
