"""Choosing brokers to host the replicas of new partitions.

Leaders and followers are spread evenly; with racks, a partition's replicas are spread over as many racks as possible.

Source: `AdminUtils.assignReplicasToBrokers`, `AdminZkClient.validateReplicaAssignment`,
`ZkAdminManager.createPartitions` in Apache Kafka 3.9, whose error texts are kept; KIP-36.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from kafkawire.reference_broker.cluster.controller.refusals import Refused
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode

__all__ = [
    "CandidateBroker",
    "Start",
    "assign_new_partitions",
    "assign_replicas",
    "check_chosen_brokers",
    "check_increase",
    "check_manual_assignment",
]


class CandidateBroker(NamedTuple):
    """A broker that can host replicas.

    Attributes:
        broker_id: the broker's id.
        rack: the broker's rack, or None if not configured.
    """

    broker_id: int
    rack: str | None = None


class Start(NamedTuple):
    """Where an assignment starts; both values are random for a new topic, so that topics start at different brokers.

    Attributes:
        broker: the position of the broker with the first leader.
        shift: the distance from a leader to its first follower.
    """

    broker: int
    shift: int


def assign_replicas(
    brokers: Sequence[CandidateBroker],
    partition_count: int,
    replication_factor: int,
    start: Start,
    first_partition: int = 0,
) -> dict[int, tuple[int, ...]]:
    """Return the replicas of new partitions.

    Args:
        brokers: the brokers, ascending by id.
        partition_count: the number of partitions.
        replication_factor: the number of replicas of each partition.
        start: where the assignment starts.
        first_partition: the number of the first new partition.

    Raises:
        Refused: a number is too small or too large, or only some brokers have a rack.
    """
    if partition_count <= 0:
        raise Refused(ErrorCode.INVALID_PARTITIONS, "Number of partitions must be larger than 0.")
    if replication_factor <= 0:
        raise Refused(ErrorCode.INVALID_REPLICATION_FACTOR, "Replication factor must be larger than 0.")
    if replication_factor > len(brokers):
        text = f"Replication factor: {replication_factor} larger than available brokers: {len(brokers)}."
        raise Refused(ErrorCode.INVALID_REPLICATION_FACTOR, text)
    racks = {broker.broker_id: broker.rack for broker in brokers if broker.rack is not None}
    if racks and len(racks) < len(brokers):
        text = "Not all brokers have rack information for replica rack aware assignment."
        raise Refused(ErrorCode.INVALID_REQUEST, text)
    ids = _alternated(racks) if racks else [broker.broker_id for broker in brokers]
    assignments: dict[int, tuple[int, ...]] = {}
    shift = start.shift
    for number in range(first_partition, first_partition + partition_count):
        if number > 0 and number % len(ids) == 0:
            shift += 1
        first = (number + start.broker) % len(ids)
        assignments[number] = _replicas(ids, racks, first, shift, replication_factor)
    return assignments


def assign_new_partitions(
    existing: Mapping[int, Sequence[int]], brokers: Sequence[CandidateBroker], partition_count: int
) -> dict[int, tuple[int, ...]]:
    """Return the replicas of partitions that are added to a topic, continuing the pattern of the existing ones.

    Args:
        existing: the replicas of the existing partitions.
        brokers: the brokers, ascending by id.
        partition_count: the topic's new total number of partitions.

    Raises:
        Refused: as for `assign_replicas`, or partition 0 is missing.
    """
    if not existing.get(0):
        raise Refused(ErrorCode.UNKNOWN_SERVER_ERROR, f"partition 0 is missing from the assignment {dict(existing)}")
    positions = [at for at, broker in enumerate(brokers) if broker.broker_id >= existing[0][0]]
    start = positions[0] if positions else 0
    return assign_replicas(
        brokers, partition_count - len(existing), len(existing[0]), Start(start, start), len(existing)
    )


def check_increase(present: int, count: int) -> None:
    """Check that a request increases the number of a topic's partitions.

    Args:
        present: the topic's number of partitions.
        count: the requested number of partitions.

    Raises:
        Refused: INVALID_PARTITIONS if the request is not an increase.
    """
    if count == present:
        raise Refused(ErrorCode.INVALID_PARTITIONS, f"Topic already has {present} partitions.")
    if count < present:
        text = f"Topic currently has {present} partitions, which is higher than the requested {count}."
        raise Refused(ErrorCode.INVALID_PARTITIONS, text)


def check_chosen_brokers(assignments: Sequence[Sequence[int]], additional: int, broker_ids: Collection[int]) -> None:
    """Check that each new partition of a topic has an assignment, and that the brokers exist.

    Args:
        assignments: the brokers of each new partition.
        additional: the number of new partitions.
        broker_ids: the existing brokers.

    Raises:
        Refused: INVALID_REPLICA_ASSIGNMENT.
    """
    unknown = dict.fromkeys(each for replicas in assignments for each in replicas if each not in broker_ids)
    if unknown:
        text = f"Unknown broker(s) in replica assignment: {', '.join(map(str, unknown))}."
        raise Refused(ErrorCode.INVALID_REPLICA_ASSIGNMENT, text)
    if len(assignments) != additional:
        text = f"Increasing the number of partitions by {additional} but {len(assignments)} assignments provided."
        raise Refused(ErrorCode.INVALID_REPLICA_ASSIGNMENT, text)


def check_manual_assignment(
    assignments: Mapping[int, Sequence[int]], broker_ids: Collection[int], replication_factor: int | None = None
) -> None:
    """Check the replicas that a client has chosen.

    Args:
        assignments: the replicas of each partition.
        broker_ids: the existing brokers. For a new topic, any brokers are accepted, as in Apache Kafka, and even none:
            such a partition never has a leader.
        replication_factor: the replication factor of the existing partitions; None for a new topic.

    Raises:
        Refused: INVALID_REPLICA_ASSIGNMENT or BROKER_NOT_AVAILABLE.
    """
    invalid = ErrorCode.INVALID_REPLICA_ASSIGNMENT
    is_new = replication_factor is None
    if is_new and len({len(replicas) for replicas in assignments.values()}) != 1:
        raise Refused(invalid, "All partitions should have the same number of replicas")
    for number, replicas in sorted(assignments.items()):
        if not replicas and not is_new:
            raise Refused(invalid, f"Cannot have replication factor of 0 for partition id {number}.")
        if len(set(replicas)) < len(replicas):
            text = f"Duplicate brokers not allowed in replica assignment: {list(replicas)} for partition id {number}."
            raise Refused(invalid, text)
        if not is_new and not set(replicas) <= set(broker_ids):
            text = f"Some brokers specified for partition id {number} are not available: {list(replicas)}."
            raise Refused(ErrorCode.BROKER_NOT_AVAILABLE, text)
        if not is_new and len(replicas) != replication_factor:
            text = f"partition 0 has {replication_factor} replicas, partition {number} {len(replicas)}."
            raise Refused(invalid, f"Inconsistent replication factor between partitions, {text}")
    # Apache Kafka only compares the sum of the numbers and may therefore accept negative ones.
    if is_new and set(assignments) != set(range(len(assignments))):
        raise Refused(invalid, "partitions should be a consecutive 0-based integer sequence")


def _replicas(
    ids: Sequence[int], racks: Mapping[int, str], first: int, shift: int, replication_factor: int
) -> tuple[int, ...]:
    """Return the replicas of a partition: the leader at position `first`, and the followers after it."""
    rack_count = len(set(racks.values()))
    chosen = [ids[first]]
    step = 0
    while len(chosen) < replication_factor:
        distance = 1 + (shift * (rack_count or 1) + step) % (len(ids) - 1)
        candidate = ids[(first + distance) % len(ids)]
        step += 1
        used = {racks[each] for each in chosen} if racks else set()
        if candidate not in chosen and (racks.get(candidate) not in used or len(used) == rack_count):
            chosen.append(candidate)
    return tuple(chosen)


def _alternated(racks: Mapping[int, str]) -> list[int]:
    """Return the brokers in an order that alternates between racks, as far as possible."""
    by_rack: dict[str, list[int]] = {rack: [] for rack in sorted(set(racks.values()))}
    for broker_id in sorted(racks):
        by_rack[racks[broker_id]].append(broker_id)
    longest = max(map(len, by_rack.values()))
    return [ids[row] for row in range(longest) for ids in by_rack.values() if row < len(ids)]
