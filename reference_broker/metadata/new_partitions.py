"""What a client may ask for when a topic is to have more partitions: how many in all, and on which brokers.

Source: `ReplicationControlManager.createPartitions`, `validateManualPartitionAssignment` in Apache Kafka, whose error
texts are kept.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from kafkawire.reference_broker.work.pieces import Work
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode

__all__ = ["check_assignments", "check_increase"]


def check_increase(name: str, present: int, count: int) -> None:
    """Check that a topic gets more partitions than it has.

    Args:
        name: of the topic.
        present: how many partitions it has.
        count: how many it is to have in all.

    Raises:
        BrokerError: INVALID_PARTITIONS, these are as many, or fewer.
    """
    if count == present:
        raise BrokerError(ErrorCode.INVALID_PARTITIONS, f"Topic already has {present} partition(s).")
    if count < present:
        raise BrokerError(
            ErrorCode.INVALID_PARTITIONS,
            f"The topic {name} currently has {present} partition(s); {count} would not be an increase.",
        )


def check_assignments(assignments: Sequence[Sequence[int]], additional: int, brokers: Collection[int]) -> Work[None]:
    """Check where a client wants new partitions to be; yield after each.

    Args:
        assignments: the ids of the brokers of each new partition.
        additional: how many partitions are new.
        brokers: the ids of the brokers that there are.

    Raises:
        BrokerError: INVALID_REPLICA_ASSIGNMENT, there is not one for each, or it is not possible.
    """
    if len(assignments) != additional:
        raise BrokerError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"Attempted to add {additional} additional partition(s), but only {len(assignments)} assignment(s) were "
            "specified.",
        )
    for assignment in assignments:
        if reason := _problem(assignment, brokers):
            raise BrokerError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"The manual partition assignment includes {reason}."
            )
        yield


def _problem(assignment: Sequence[int], brokers: Collection[int]) -> str:
    """Return what is wrong with an assignment, empty if nothing is; as in Kafka, of the lowest id that is wrong."""
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
