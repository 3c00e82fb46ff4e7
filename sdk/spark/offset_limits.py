"""How many offsets of what is there a micro-batch takes: a limit, spread over the partitions by what each has.

A partition that has something gets at least one offset, as in Spark's connector: otherwise it would never go on beside
larger ones.

Source: `KafkaMicroBatchStream.rateLimit` in Apache Spark.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

__all__ = ["Ranges", "limited_by_offsets"]

Key = TypeVar("Key")

#: What is there: of each partition that has something, where to begin and where it ends.
Ranges = Mapping[str, tuple[int, int]]


def limited_by_offsets(ranges: Mapping[Key, tuple[int, int]], limit: int) -> dict[Key, int]:
    """Return where each partition ends in a micro-batch of about so many offsets.

    Args:
        ranges: of each partition, by whatever stands for it, where to begin and where it ends.
        limit: how many offsets there are to be, in all partitions together.
    """
    total = sum(end - start for start, end in ranges.values())
    if total <= limit:
        return {key: end for key, (_, end) in ranges.items()}
    return {key: min(end, start + max(limit * (end - start) // total, 1)) for key, (start, end) in ranges.items()}
