"""What an admin creates, and what it is told: plain values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from kafkawire.sdk.client.metadata import Broker
from kafkawire.sdk.client.partitions import TopicPartition

__all__ = [
    "ClusterDescription",
    "ConfigEntry",
    "GroupDescription",
    "GroupListing",
    "GroupMemberDescription",
    "NewTopic",
]

#: Leaves a number to the broker's configuration.
_BROKER_DEFAULT = -1


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic to be created.

    Attributes:
        name: 1 to 249 of the characters a-z, A-Z, 0-9, `.`, `_`, `-`.
        partitions: how many; -1 leaves it to the broker.
        replication_factor: copies of each partition; -1 leaves it to the broker.
        configs: what differs from the broker's defaults, as `{"cleanup.policy": "compact"}`.
        assignments: node ids of the replicas of each partition; instead of the two numbers.
    """

    name: str
    partitions: int = _BROKER_DEFAULT
    replication_factor: int = _BROKER_DEFAULT
    configs: Mapping[str, str | None] = field(default_factory=dict)
    assignments: Mapping[int, tuple[int, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ClusterDescription:
    """A cluster.

    Attributes:
        cluster_id: its name for itself.
        controller_id: node that takes requests for the controller, None if there is none.
        brokers: all of them, by node id.
    """

    cluster_id: str | None
    controller_id: int | None
    brokers: Mapping[int, Broker]


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    """One configuration value.

    Attributes:
        name: as in Kafka's documentation.
        value: None if it is sensitive, or not set.
        source: where it comes from, one of `ConfigSource`.
        read_only: whether it cannot be changed while the broker runs.
        is_sensitive: whether the broker keeps it to itself.
    """

    name: str
    value: str | None
    source: int
    read_only: bool
    is_sensitive: bool


@dataclass(frozen=True, slots=True)
class GroupListing:
    """A group, as a list of groups shows it.

    Attributes:
        group_id: its name.
        protocol_type: `consumer` for groups of consumers, empty if only offsets were committed.
        state: `Stable`, `Empty` and so on; empty if the broker does not say.
        group_type: `classic` or `consumer`; empty if the broker does not say.
    """

    group_id: str
    protocol_type: str
    state: str
    group_type: str


@dataclass(frozen=True, slots=True)
class GroupMemberDescription:
    """A member of a group.

    Attributes:
        member_id: as the coordinator calls it.
        group_instance_id: its lasting name, if it has one.
        client_id: as it calls itself.
        client_host: where it connected from.
        assignment: the partitions that it reads.
    """

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    assignment: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class GroupDescription:
    """A classic group.

    Attributes:
        group_id: its name.
        state: `Stable`, `Empty`, `PreparingRebalance`, `CompletingRebalance` or `Dead` (there is no such group).
        protocol: the assignor that the members agreed on.
        members: all of them.
    """

    group_id: str
    state: str
    protocol: str
    members: tuple[GroupMemberDescription, ...]
