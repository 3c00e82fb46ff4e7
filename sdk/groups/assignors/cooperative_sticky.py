"""Assign as `sticky` does, while members continue to read the partitions that they keep.

A partition that changes owner is first left unassigned: its owner sees that it has lost the partition and revokes it.
This starts another rebalance, which assigns the partition.

Source: Apache Kafka, `CooperativeStickyAssignor`; KIP-429.
"""

from __future__ import annotations

from collections.abc import Iterable

from kafkawire.sdk.groups.assignor import (
    Assignment,
    MemberSubscription,
    PartitionCounts,
    ReplicaRacks,
    Subscriptions,
)
from kafkawire.sdk.groups.assignors.ownership import Claim
from kafkawire.sdk.groups.assignors.sticky_assignment import assign_sticky
from kafkawire.sdk.protocol.tables.enums import UNKNOWN_GENERATION_ID
from kafkawire.sdk.routing.partitions import TopicPartition

__all__ = ["CooperativeStickyAssignor"]

#: The user data is the generation as an int32, for leaders that cannot read it from the subscription.
_GENERATION_BYTES = 4


class CooperativeStickyAssignor:
    """See `Assignor`."""

    name = "cooperative-sticky"
    cooperative = True

    def user_data(self, partitions: Iterable[TopicPartition], generation_id: int) -> bytes:
        """Return the generation in which the member got its partitions."""
        return generation_id.to_bytes(_GENERATION_BYTES, "big", signed=True)

    def assign(
        self, subscriptions: Subscriptions, partition_counts: PartitionCounts, replica_racks: ReplicaRacks | None = None
    ) -> Assignment:
        """Assign evenly while moving few partitions; leave out those that another member must revoke first."""
        claims = {
            member: Claim(subscription.owned_partitions, _generation_id(subscription))
            for member, subscription in subscriptions.items()
        }
        assignment, moved = assign_sticky(subscriptions, partition_counts, replica_racks, claims)
        return {
            member: [partition for partition in partitions if partition not in moved]
            for member, partitions in assignment.items()
        }


def _generation_id(subscription: MemberSubscription) -> int:
    if subscription.generation_id != UNKNOWN_GENERATION_ID or len(subscription.user_data or b"") < _GENERATION_BYTES:
        return subscription.generation_id
    return int.from_bytes((subscription.user_data or b"")[:_GENERATION_BYTES], "big", signed=True)
