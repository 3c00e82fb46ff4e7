"""The previous owners of partitions, according to the members' claims, which may be outdated and may conflict.

Source: Apache Kafka, `AbstractStickyAssignor`; KIP-792 (generations). Two of Kafka's bugs are not reproduced here:
Kafka compares the generation in user data with that in another member's subscription, which may be missing, and gives
partitions back to a former owner that no longer subscribes to them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from kafkawire.sdk.groups.assignor import PartitionCounts
from kafkawire.sdk.protocol.tables.enums import UNKNOWN_GENERATION_ID
from kafkawire.sdk.routing.partitions import TopicPartition

__all__ = ["Claim", "Ownership", "resolve_claims"]


class Claim(NamedTuple):
    """The partitions that one member says it owns.

    Attributes:
        partitions: the partitions that it says it owns.
        generation_id: the generation in which it got them, or `UNKNOWN_GENERATION_ID`.
    """

    partitions: Sequence[TopicPartition]
    generation_id: int


class Ownership(NamedTuple):
    """The owners of partitions once the claims have been resolved.

    Attributes:
        owned: the partitions that each member may keep, keyed by member id in the order of the claims.
        disputed: partitions claimed by several members in one generation; no member keeps them.
        former: partitions claimed by members in older generations, each mapped to the latest such member.
    """

    owned: dict[str, list[TopicPartition]]
    disputed: set[TopicPartition]
    former: dict[TopicPartition, str]


def resolve_claims(claims: Mapping[str, Claim], partition_counts: PartitionCounts) -> Ownership:
    """Resolve claims: the claim of the latest generation wins; if several claims share that generation, none wins.

    Args:
        claims: the claims, keyed by member id.
        partition_counts: the partition count of every subscribed topic; claims to partitions of other topics are
            ignored.
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
    newest = max((claim.generation_id for claim in claims.values()), default=UNKNOWN_GENERATION_ID)
    former: dict[TopicPartition, str] = {}
    for member, (partitions, generation_id) in claims.items():
        if generation_id < newest:
            for partition in partitions:
                if partition not in former or claims[former[partition]].generation_id < generation_id:
                    former[partition] = member
    return former
