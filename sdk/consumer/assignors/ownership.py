"""Who had which partitions before, as the members say themselves; they may be late, and they may disagree.

Source: Apache Kafka, `AbstractStickyAssignor`; KIP-792 (generations). Two of its slips are not repeated here: it
compares the generation of user data with that of another member's subscription, which may be missing, and it gives
partitions back to a former owner that does not want them any more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from kafkawire.sdk.client.partitions import TopicPartition
from kafkawire.sdk.consumer.assignors.assignor import PartitionCounts

__all__ = ["NO_GENERATION", "Claim", "Ownership", "settle"]

#: The generation of a member that was in none, or does not say.
NO_GENERATION = -1


class Claim(NamedTuple):
    """What one member says.

    Attributes:
        partitions: that it had.
        generation_id: of the group at that time, or `NO_GENERATION`.
    """

    partitions: Sequence[TopicPartition]
    generation_id: int


class Ownership(NamedTuple):
    """What the claims come to.

    Attributes:
        owned: what each member may keep, by member id in the order of the claims.
        disputed: partitions that several members of one generation claim; none of them keeps such a partition.
        former: partitions claimed by members of an older generation, with the latest of them.
    """

    owned: dict[str, list[TopicPartition]]
    disputed: set[TopicPartition]
    former: dict[TopicPartition, str]


def settle(claims: Mapping[str, Claim], partition_counts: PartitionCounts) -> Ownership:
    """Return who owns what: of two claims the one of the later generation counts, of equal ones none.

    Args:
        claims: by member id.
        partition_counts: of the topics that somebody wants; claims to other partitions are passed over.
    """
    owned: dict[str, list[TopicPartition]] = {member: [] for member in claims}
    owners: dict[TopicPartition, str] = {}
    disputed: set[TopicPartition] = set()
    for member, (partitions, generation_id) in claims.items():
        for partition in partitions:
            if partition.partition not in range(partition_counts.get(partition.topic, 0)):
                continue
            other = owners.get(partition)
            if other is not None:
                other_generation_id = claims[other].generation_id
                if generation_id == other_generation_id:
                    disputed.add(partition)
                if generation_id >= other_generation_id and partition in owned[other]:
                    owned[other].remove(partition)
                if generation_id <= other_generation_id:
                    continue
            owned[member].append(partition)
            owners[partition] = member
    return Ownership(owned, disputed, _former(claims))


def _former(claims: Mapping[str, Claim]) -> dict[TopicPartition, str]:
    newest = max((claim.generation_id for claim in claims.values()), default=NO_GENERATION)
    former: dict[TopicPartition, str] = {}
    for member, (partitions, generation_id) in claims.items():
        if generation_id < newest:
            for partition in partitions:
                if partition not in former or claims[former[partition]].generation_id < generation_id:
                    former[partition] = member
    return former
