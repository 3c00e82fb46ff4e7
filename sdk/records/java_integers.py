"""Sums that overflow as Java's do: readers of damaged batches must get the numbers that Apache Kafka gets.

Source: `DefaultRecordBatch.incrementSequence` in Apache Kafka.
"""

from __future__ import annotations

from kafkawire.sdk.protocol.tables.enums import NO_SEQUENCE

__all__ = ["INT32_MAX", "int64", "sequence_after"]

INT32_MAX = 2**31 - 1


def int64(value: int) -> int:
    """Return what is left of a sum or difference in 64 bits."""
    return (value + 2**63) % 2**64 - 2**63


def sequence_after(base_sequence: int, delta: int) -> int:
    """Return the sequence number `delta` records after `base_sequence`; they wrap from 2147483647 to 0.

    No valid batch has a negative delta; with one, Java's arithmetic overflows, and so does this.

    Args:
        base_sequence: of the first record; below 0 without idempotence.
        delta: what a record adds to it.
    """
    if base_sequence < 0:
        return NO_SEQUENCE
    sequence = base_sequence + delta
    return sequence if delta >= 0 and sequence <= INT32_MAX else sequence % 2**32 - 2**31
