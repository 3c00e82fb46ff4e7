"""Divide partitions evenly with few moves: what the sticky assignors share.

Source: Apache Kafka, `AbstractStickyAssignor`; KIP-54, KIP-341, KIP-429.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import NamedTuple

from kafkawire.sdk.client.partitions import TopicPartition
from kafkawire.sdk.consumer.assignors.assignor import (
    Assignment,
    PartitionCounts,
    ReplicaRacks,
    Subscriptions,
    readable,
)
from kafkawire.sdk.consumer.assignors.equal_division import EqualDivision
from kafkawire.sdk.consumer.assignors.general_division import GeneralDivision
from kafkawire.sdk.consumer.assignors.ownership import Claim, settle
from kafkawire.sdk.consumer.assignors.racks import Racks

__all__ = ["Division", "divide"]


class Division(NamedTuple):
    """Who gets what.

    Attributes:
        assignment: what each member gets, by member id.
        moved: partitions that another member has to give up first.
    """

    assignment: Assignment
    moved: Set[TopicPartition]


def divide(
    subscriptions: Subscriptions,
    partition_counts: PartitionCounts,
    replica_racks: ReplicaRacks | None,
    claims: Mapping[str, Claim],
) -> Division:
    """Divide the partitions.

    Args:
        subscriptions: of all members.
        partition_counts: of the topics that exist.
        replica_racks: where the replicas are, None if not known.
        claims: what the members had, by member id in the order of the subscriptions.
    """
    counts = readable(subscriptions, partition_counts)
    racks = Racks.of(subscriptions, counts, replica_racks)
    if not racks.matter:
        racks = Racks({}, {})
    ownership = settle(claims, counts)
    if _are_equal(subscriptions):
        equal = EqualDivision(counts, ownership, racks)
        equal.divide()
        return Division(equal.assignment, equal.moved)
    general = GeneralDivision(subscriptions, counts, ownership, racks)
    general.divide()
    return Division(general.assignment, _moved(general.assignment, claims))


def _are_equal(subscriptions: Subscriptions) -> bool:
    """Return whether all members want the same topics.

    As in Kafka, members that want nothing do not count as long as all before them want nothing either; they then share
    in what the others want.
    """
    topics: frozenset[str] = frozenset()
    for subscription in subscriptions.values():
        if not topics:
            topics = frozenset(subscription.topics)
        elif len(subscription.topics) != len(topics) or not topics.issuperset(subscription.topics):
            return False
    return True


def _moved(assignment: Assignment, claims: Mapping[str, Claim]) -> set[TopicPartition]:
    gained: set[TopicPartition] = set()
    given_up: set[TopicPartition] = set()
    for member, claim in claims.items():
        gained.update(set(assignment[member]).difference(claim.partitions))
        given_up.update(set(claim.partitions).difference(assignment[member]))
    return gained & given_up
