"""Assign partitions evenly, and let members keep as many of theirs as possible.

Members revoke everything before a rebalance, so each one's user data tells the leader which partitions it owned.

Source: Apache Kafka, `StickyAssignor`; KIP-54, KIP-341.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Any

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

__all__ = ["StickyAssignor"]


class StickyAssignor:
    """See `Assignor`."""

    name = "sticky"
    cooperative = False

    def user_data(self, partitions: Iterable[TopicPartition], generation_id: int) -> bytes | None:
        """Return the last assignment and its generation; None before the first assignment."""
        if generation_id == UNKNOWN_GENERATION_ID:
            return None
        topics: dict[str, list[int]] = {}
        for topic, number in partitions:
            topics.setdefault(topic, []).append(number)
        previous = [{"topic": topic, "partitions": numbers} for topic, numbers in topics.items()]
        return bytes(_user_data().build({"previous_assignment": previous, "generation_id": generation_id}))

    def assign(
        self, subscriptions: Subscriptions, partition_counts: PartitionCounts, replica_racks: ReplicaRacks | None = None
    ) -> Assignment:
        """Assign partitions evenly while moving few of them."""
        claims = {member: _claim(subscription) for member, subscription in subscriptions.items()}
        return assign_sticky(subscriptions, partition_counts, replica_racks, claims).assignment


def _claim(subscription: MemberSubscription) -> Claim:
    """Return a member's claim, which is empty if the user data cannot be decoded."""
    from construct import ConstructError

    had: Any  # construct is untyped
    try:
        had = _user_data().parse(subscription.user_data or b"")
    except (ConstructError, UnicodeDecodeError):
        return Claim((), UNKNOWN_GENERATION_ID)
    partitions = [
        TopicPartition(topic.topic, number) for topic in had.previous_assignment for number in topic.partitions
    ]
    return Claim(partitions, UNKNOWN_GENERATION_ID if had.generation_id is None else had.generation_id)


@cache
def _user_data() -> Any:
    """Return the assignor's own user data format, which Kafka defines in code rather than in a schema.

    The format of the first release had no generation. construct is imported here because importing it takes longer than
    importing the rest of the client, and only users of this assignor should pay for that.
    """
    from construct import Int16sb, Int32sb, Optional, PascalString, PrefixedArray, Struct

    topic = Struct("topic" / PascalString(Int16sb, "utf8"), "partitions" / PrefixedArray(Int32sb, Int32sb))
    return Struct("previous_assignment" / PrefixedArray(Int32sb, topic), "generation_id" / Optional(Int32sb))
