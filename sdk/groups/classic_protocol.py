"""The protocol between the members of a classic group; the coordinator passes on their data as opaque bytes.

The consumer implements it with its assignors (`assignments.py`). This module also contains the leader's view of the
cluster, which shows when an assignment is outdated.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol

from kafkawire.sdk.groups.assignor import Subscriptions
from kafkawire.sdk.routing.metadata import Metadata
from kafkawire.sdk.routing.partitions import TopicPartition

__all__ = ["AssignmentProtocol", "ClusterView", "GroupSubscriptions", "Joining", "MemberInfo"]


class MemberInfo(NamedTuple):
    """A member of the group as seen by the leader.

    Attributes:
        metadata: the encoded subscription with which it joined.
        group_instance_id: the id of a static member; None for a dynamic one.
    """

    metadata: bytes
    group_instance_id: str | None


class GroupSubscriptions(NamedTuple):
    """What the leader can decode of the subscriptions of a group's members.

    Attributes:
        subscriptions: the subscription of every member, keyed by member id; a subscription is empty if none of it can
            be decoded.
        damage: a description of each damaged subscription, keyed by member id.
    """

    subscriptions: Subscriptions
    damage: Mapping[str, str]

    @property
    def topics(self) -> frozenset[str]:
        """The topics that any member wants to read."""
        return frozenset(topic for said in self.subscriptions.values() for topic in said.topics)


class Joining(NamedTuple):
    """The data that a member sends to the other members when it joins.

    Attributes:
        topics: the topics it wants to read.
        owned: the partitions that it has not given up.
        generation_id: the generation in which it got them; -1 if there was none.
        rack: the member's rack; None if unknown.
        last: its last assignment, even if it no longer owns it.
        last_generation_id: the generation of its last assignment; -1 if there was none.
    """

    topics: frozenset[str]
    owned: frozenset[TopicPartition]
    generation_id: int
    rack: str | None
    last: frozenset[TopicPartition]
    last_generation_id: int


class ClusterView(NamedTuple):
    """The topics of a group, as known to its leader.

    Attributes:
        partition_counts: the partition counts of the existing topics.
        replica_racks: racks of the replicas, `[topic][partition]`.
    """

    partition_counts: Mapping[str, int]
    replica_racks: Mapping[str, Sequence[Collection[str]]]

    @staticmethod
    def of(topics: Iterable[str], metadata: Metadata) -> ClusterView:
        """Return the view of these topics."""
        counts: dict[str, int] = {}
        racks: dict[str, Sequence[Collection[str]]] = {}
        for name in sorted(topics):
            topic = metadata.topics.get(name)
            if topic is None:
                continue
            counts[name] = len(topic.partitions)
            racks[name] = [
                frozenset(
                    rack
                    for node in topic.partitions[number].replicas
                    if node in metadata.brokers and (rack := metadata.brokers[node].rack)
                )
                for number in sorted(topic.partitions)
            ]
        return ClusterView(counts, racks)


class AssignmentProtocol(Protocol):
    """Encodes subscriptions, decodes assignments, and makes the assignments if this member leads the group.

    Attributes:
        protocol_type: the kind of group.
        cooperative: whether members keep their partitions during a rebalance.
    """

    @property
    def protocol_type(self) -> str: ...

    @property
    def cooperative(self) -> bool: ...

    def protocols(self, joining: Joining) -> list[tuple[str, bytes]]:
        """Return names and encoded subscriptions, the preferred protocol first.

        Raises:
            KafkaWireError: a subscription cannot be encoded.
        """
        ...

    def read(self, members: Mapping[str, MemberInfo]) -> GroupSubscriptions:
        """Decode the members' subscriptions; a damaged subscription does not affect the others."""
        ...

    def assign(self, protocol_name: str, subscriptions: Subscriptions, view: ClusterView) -> Mapping[str, bytes]:
        """Return the encoded assignment of each member, keyed by member id."""
        ...

    def assignment(self, data: bytes) -> frozenset[TopicPartition]:
        """Decode an assignment.

        Raises:
            DecodeError: the bytes are not an assignment.
        """
        ...
