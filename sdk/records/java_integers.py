"""Compute sums that overflow as Java's do, which gives the same numbers for damaged batches as Apache Kafka.

Source: `DefaultRecordBatch.incrementSequence` in Apache Kafka.
"""

from __future__ import annotations

__all__ = ["INT32_MAX", "OFFSET_MAX", "int64", "sequence_after"]

INT32_MAX = 2**31 - 1

#: The highest offset of a record: the offset after it must also be an int64.
OFFSET_MAX = 2**63 - 2


def int64(value: int) -> int:
    """Return a sum or difference wrapped to 64 bits."""
    return (value + 2**63) % 2**64 - 2**63


def sequence_after(sequence: int, delta: int) -> int:
    """Return the sequence number `delta` records after another; they wrap from 2147483647 to 0.

    Valid batches have no negative numbers; for invalid ones, the result overflows as in Java. It is up to the caller
    which sequence numbers mean "none": for a record, any number below 0; for a batch, only -1.

    Args:
        sequence: int32.
        delta: the number to add, int32.
    """
    following = sequence + delta
    if delta >= 0 and following <= INT32_MAX:
        return following
    if following >= -(2**31):
        following -= 2**31
    return (following + 2**31) % 2**32 - 2**31
