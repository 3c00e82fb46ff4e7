"""Assignors: how the leader of a classic group assigns partitions to its members."""

from __future__ import annotations

from collections.abc import Mapping

from kafkawire.sdk.consumer.assignors.assignor import (
    Assignment,
    Assignor,
    PartitionCounts,
    ReplicaRacks,
    Subscriptions,
)
from kafkawire.sdk.consumer.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafkawire.sdk.consumer.assignors.range import RangeAssignor
from kafkawire.sdk.consumer.assignors.roundrobin import RoundRobinAssignor
from kafkawire.sdk.consumer.assignors.sticky import StickyAssignor

__all__ = ["ASSIGNORS", "Assignment", "Assignor", "PartitionCounts", "ReplicaRacks", "Subscriptions"]

#: Every assignor by name. Each gives exactly the results of Apache Kafka's.
ASSIGNORS: Mapping[str, Assignor] = {
    assignor.name: assignor
    for assignor in (RangeAssignor(), RoundRobinAssignor(), StickyAssignor(), CooperativeStickyAssignor())
}
