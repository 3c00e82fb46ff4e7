"""Checks for requests that add partitions to a topic: the total number, and the assigned brokers.

Source: `ReplicationControlManager.createPartitions`, `validateManualPartitionAssignment` in Apache Kafka, whose error
texts are kept.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from kafkawire.reference_broker.work.pieces import Work
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode

__all__ = ["check_assignments", "check_brokers", "check_increase"]


def check_increase(name: str, present: int, count: int) -> None:
    """Check that a request increases the number of partitions.

    Args:
        name: name of the topic.
        present: the topic's current number of partitions.
        count: the requested total.

    Raises:
        BrokerError: INVALID_PARTITIONS if the total is not an increase.
    """
    if count == present:
        raise BrokerError(ErrorCode.INVALID_PARTITIONS, f"Topic already has {present} partition(s).")
    if count < present:
        raise BrokerError(
            ErrorCode.INVALID_PARTITIONS,
            f"The topic {name} currently has {present} partition(s); {count} would not be an increase.",
        )


def check_assignments(assignments: Sequence[Sequence[int]], additional: int, brokers: Collection[int]) -> Work[None]:
    """Check the replica assignments of new partitions; yield after each.

    Args:
        assignments: the ids of the brokers of each new partition.
        additional: the number of new partitions.
        brokers: the ids of all brokers.

    Raises:
        BrokerError: INVALID_REPLICA_ASSIGNMENT if the number of assignments is wrong, or one is impossible.
    """
    if len(assignments) != additional:
        raise BrokerError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"Attempted to add {additional} additional partition(s), but only {len(assignments)} assignment(s) were "
            "specified.",
        )
    for assignment in assignments:
        check_brokers(assignment, brokers)
        yield


def check_brokers(assignment: Sequence[int], brokers: Collection[int]) -> None:
    """Check the replicas that a client has chosen for a partition.

    Args:
        assignment: the ids of the brokers.
        brokers: the ids of all brokers.

    Raises:
        BrokerError: INVALID_REPLICA_ASSIGNMENT.
    """
    if reason := _problem(assignment, brokers):
        raise BrokerError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"The manual partition assignment includes {reason}.")


def _problem(assignment: Sequence[int], brokers: Collection[int]) -> str:
    """Return the problem with an assignment, or ""; as in Kafka, the problem with the lowest broker id is returned."""
    if not assignment:
        return "an empty replica list"
    known: set[int] = set()
    for broker_id in sorted(assignment):
        if broker_id not in brokers:
            return f"broker {broker_id}, but no such broker is registered"
        if broker_id in known:
            return f"the broker {broker_id} more than once"
        known.add(broker_id)
    return ""
