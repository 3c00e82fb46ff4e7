"""Choose the partition for a record with a key; every Kafka client chooses the same one.

Source: Apache Kafka, `Utils.murmur2`, `BuiltInPartitioner.partitionForKey`, `RoundRobinPartitioner`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Literal

__all__ = ["ROUND_ROBIN", "Partitioner", "murmur2", "murmur2_partition"]

#: Chooses a partition: takes the key and the number of partitions, and returns a partition below that number.
Partitioner = Callable[[bytes, int], int]

#: Each record for a topic, with or without a key, goes to the partition after that of the previous record.
ROUND_ROBIN: Final[Literal["round_robin"]] = "round_robin"

_SEED = 0x9747B28C
_MULTIPLIER = 0x5BD1E995
_MASK = 0xFFFFFFFF
_POSITIVE = 0x7FFFFFFF


def murmur2_partition(key: bytes, partitions: int) -> int:
    """Return the partition that Kafka's own clients choose for a key."""
    return (murmur2(key) & _POSITIVE) % partitions


def murmur2(data: bytes) -> int:
    """Return the 32-bit murmur2 hash of `data`, unsigned."""
    whole = len(data) & ~3
    state = _SEED ^ len(data)
    for start in range(0, whole, 4):
        word = int.from_bytes(data[start : start + 4], "little") * _MULTIPLIER & _MASK
        word = (word ^ word >> 24) * _MULTIPLIER & _MASK
        state = (state * _MULTIPLIER & _MASK) ^ word
    if whole < len(data):
        state = (state ^ int.from_bytes(data[whole:], "little")) * _MULTIPLIER & _MASK
    state = (state ^ state >> 13) * _MULTIPLIER & _MASK
    return state ^ state >> 15
