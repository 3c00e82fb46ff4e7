"""A limit on the number of offsets in a micro-batch.

The limit is distributed over the partitions in proportion to the offsets they have available. As in Spark's connector,
a partition with data gets at least one offset; otherwise, it might never advance while other partitions are much
larger.

Source: `KafkaMicroBatchStream.rateLimit` in Apache Spark.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

__all__ = ["Ranges", "limited_by_offsets"]

Key = TypeVar("Key")

#: The available offsets: for each partition with data, where to begin and where the data ends.
Ranges = Mapping[str, tuple[int, int]]


def limited_by_offsets(ranges: Mapping[Key, tuple[int, int]], limit: int) -> dict[Key, int]:
    """Return where each partition ends in a micro-batch with a limited number of offsets.

    Args:
        ranges: for each partition, under any key, where to begin and where the data ends.
        limit: the approximate number of offsets across all partitions.
    """
    total = sum(end - start for start, end in ranges.values())
    if total <= limit:
        return {key: end for key, (_, end) in ranges.items()}
    return {key: min(end, start + max(limit * (end - start) // total, 1)) for key, (start, end) in ranges.items()}
