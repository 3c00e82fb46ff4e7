"""Sums that overflow as Java's do: readers of damaged batches must get the numbers that Apache Kafka gets.

Source: `DefaultRecordBatch.incrementSequence` in Apache Kafka.
"""

from __future__ import annotations

__all__ = ["INT32_MAX", "OFFSET_MAX", "int64", "sequence_after"]

INT32_MAX = 2**31 - 1

#: The highest offset of a record: the one after it is an int64 as well.
OFFSET_MAX = 2**63 - 2


def int64(value: int) -> int:
    """Return what is left of a sum or difference in 64 bits."""
    return (value + 2**63) % 2**64 - 2**63


def sequence_after(sequence: int, delta: int) -> int:
    """Return the sequence number `delta` records after another; they wrap from 2147483647 to 0.

    In no valid batch is one of them negative; for such a batch, Java's arithmetic overflows and the same number comes
    out here. Callers know which sequence numbers stand for none: to a record any below 0 does, to a batch -1 alone.

    Args:
        sequence: int32.
        delta: what to add to it, int32.
    """
    following = sequence + delta
    if delta >= 0 and following <= INT32_MAX:
        return following
    if following >= -(2**31):
        following -= 2**31
    return (following + 2**31) % 2**32 - 2**31
