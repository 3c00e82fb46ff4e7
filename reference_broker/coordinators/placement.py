"""Placement: the partition of a coordinator's topic that holds the state of a group or transactional id.

Source: `GroupCoordinatorService.partitionFor`, `Utils.abs` in Apache Kafka.
"""

from __future__ import annotations

from kafkawire.sdk.protocol.java_order import string_hash

__all__ = ["partition_of"]


def partition_of(key: str, partitions: int) -> int:
    """Return the partition that stores a key."""
    hashed = string_hash(key)
    magnitude = min(hashed, 2**32 - hashed)
    # The smallest int32 has no absolute value in Java; Kafka uses 0 instead.
    return (0 if magnitude == 2**31 else magnitude) % partitions
