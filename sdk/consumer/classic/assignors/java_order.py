"""The order in which Java iterates over a `HashMap` or `HashSet`.

Groups mix clients, and any of them may lead. Kafka's assignors break ties by hash table order; doing the same here
means that a change of leader moves no partition.

Source: Java SE, `String.hashCode`; OpenJDK, `HashMap` (spreading of hashes, growth).
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from struct import iter_unpack
from typing import TypeVar

from kafkawire.sdk.client.partitions import TopicPartition

__all__ = ["java_order", "partition_hash", "string_hash"]

Key = TypeVar("Key")

_INT32 = 0xFFFFFFFF

#: A new table has this many buckets; it doubles when more than three quarters full.
_BUCKETS = 16


def java_order(keys: Collection[Key], hash_of: Callable[[Key], int]) -> list[Key]:
    """Return keys in the order in which a table iterates over them after they were inserted in the given order.

    A bucket of eight or more keys becomes a tree, which may iterate differently; that takes keys chosen to collide.
    """
    buckets = _BUCKETS
    while len(keys) * 4 > buckets * 3:
        buckets *= 2

    def bucket(key: Key) -> int:
        hashed = hash_of(key)
        return (hashed ^ hashed >> 16) & buckets - 1

    return sorted(keys, key=bucket)


def string_hash(text: str) -> int:
    """Return the hash of a string, unsigned."""
    hashed = 0
    for (unit,) in iter_unpack(">H", text.encode("utf-16-be", "surrogatepass")):
        hashed = hashed * 31 + unit & _INT32
    return hashed


def partition_hash(partition: TopicPartition) -> int:
    """Return the hash of `org.apache.kafka.common.TopicPartition`, unsigned."""
    return (31 + partition.partition) * 31 + string_hash(partition.topic) & _INT32
