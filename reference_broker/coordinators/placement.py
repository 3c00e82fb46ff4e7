"""Which partition of a coordinator's topic holds the state of a group or transactional id.

Source: `GroupCoordinatorService.partitionFor`, `Utils.abs` in Apache Kafka.
"""

from __future__ import annotations

import struct

__all__ = ["java_hash", "partition_of"]


def java_hash(text: str) -> int:
    """Return Java's `String.hashCode`, signed 32 bits over UTF-16 units."""
    result = 0
    for (unit,) in struct.iter_unpack(">H", text.encode("utf-16-be", "surrogatepass")):
        result = (31 * result + unit) & 0xFFFFFFFF
    return result - (1 << 32) if result >= 1 << 31 else result


def partition_of(key: str, partitions: int) -> int:
    """Return the partition, of so many, that stores a key."""
    code = java_hash(key)
    # Java's absolute value of the smallest int32 is itself; Kafka takes 0 instead.
    return (0 if code == -(1 << 31) else abs(code)) % partitions
