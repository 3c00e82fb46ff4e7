"""Divide like `sticky`, while members keep reading what stays theirs.

A partition that changes hands is given to nobody at first: its owner sees that it lost it and gives it up, which starts
another round, and that one hands it out.

Source: Apache Kafka, `CooperativeStickyAssignor`; KIP-429.
"""

from __future__ import annotations

from collections.abc import Iterable

from kafkawire.sdk.client.partitions import TopicPartition
from kafkawire.sdk.consumer.assignors.assignor import Assignment, PartitionCounts, ReplicaRacks, Subscriptions
from kafkawire.sdk.consumer.assignors.division import divide
from kafkawire.sdk.consumer.assignors.ownership import NO_GENERATION, Claim
from kafkawire.sdk.consumer.consumer_protocol import Subscription

__all__ = ["CooperativeStickyAssignor"]

#: User data are an int32: the generation, for leaders that do not know it from the subscription.
_GENERATION_BYTES = 4


class CooperativeStickyAssignor:
    """See `Assignor`."""

    name = "cooperative-sticky"
    cooperative = True

    def user_data(self, partitions: Iterable[TopicPartition], generation_id: int) -> bytes:
        """Return the generation of what the member has."""
        return generation_id.to_bytes(_GENERATION_BYTES, "big", signed=True)

    def assign(
        self, subscriptions: Subscriptions, partition_counts: PartitionCounts, replica_racks: ReplicaRacks | None = None
    ) -> Assignment:
        """Divide evenly, moving as little as possible; leave out what another member has to give up first."""
        claims = {
            member: Claim(subscription.owned_partitions, _generation_id(subscription))
            for member, subscription in subscriptions.items()
        }
        assignment, moved = divide(subscriptions, partition_counts, replica_racks, claims)
        return {
            member: [partition for partition in partitions if partition not in moved]
            for member, partitions in assignment.items()
        }


def _generation_id(subscription: Subscription) -> int:
    if subscription.generation_id != NO_GENERATION or len(subscription.user_data or b"") < _GENERATION_BYTES:
        return subscription.generation_id
    return int.from_bytes((subscription.user_data or b"")[:_GENERATION_BYTES], "big", signed=True)
