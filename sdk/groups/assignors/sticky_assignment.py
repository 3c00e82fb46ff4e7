"""Assign partitions evenly while moving few of them, for the sticky assignors.

Source: Apache Kafka, `AbstractStickyAssignor`; KIP-54, KIP-341, KIP-429.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import NamedTuple

from kafkawire.sdk.groups.assignor import (
    Assignment,
    PartitionCounts,
    ReplicaRacks,
    Subscriptions,
    subscribed_topics,
)
from kafkawire.sdk.groups.assignors.constrained_assignment_builder import ConstrainedAssignmentBuilder
from kafkawire.sdk.groups.assignors.general_assignment_builder import GeneralAssignmentBuilder
from kafkawire.sdk.groups.assignors.ownership import Claim, resolve_claims
from kafkawire.sdk.groups.assignors.racks import Racks
from kafkawire.sdk.routing.partitions import TopicPartition

__all__ = ["StickyAssignment", "assign_sticky"]


class StickyAssignment(NamedTuple):
    """An assignment and the partitions that it moves.

    Attributes:
        assignment: the partitions assigned to each member, keyed by member id.
        moved: partitions that another member must revoke first.
    """

    assignment: Assignment
    moved: Set[TopicPartition]


def assign_sticky(
    subscriptions: Subscriptions,
    partition_counts: PartitionCounts,
    replica_racks: ReplicaRacks | None,
    claims: Mapping[str, Claim],
) -> StickyAssignment:
    """Assign the partitions of all subscribed topics.

    Args:
        subscriptions: the subscriptions, keyed by member id.
        partition_counts: the number of partitions of each topic; topics missing here are skipped.
        replica_racks: racks of the replicas, `[topic][partition]`; None if unknown.
        claims: the partitions that members say they own, keyed by member id in the order of the subscriptions.
    """
    counts = subscribed_topics(subscriptions, partition_counts)
    racks = Racks.of(subscriptions, counts, replica_racks)
    if not racks.matter:
        racks = Racks({}, {})
    ownership = resolve_claims(claims, counts)
    if _are_equal(subscriptions):
        constrained = ConstrainedAssignmentBuilder(counts, ownership, racks)
        constrained.build()
        return StickyAssignment(constrained.assignment, constrained.moved)
    general = GeneralAssignmentBuilder(subscriptions, counts, ownership, racks)
    general.build()
    return StickyAssignment(general.assignment, _moved(general.assignment, claims))


def _are_equal(subscriptions: Subscriptions) -> bool:
    """Return whether all members subscribe to the same topics.

    As in Kafka, leading members with an empty subscription are ignored in this check, but still share the topics that
    the others subscribe to.
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
