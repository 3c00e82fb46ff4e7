"""Java's hash codes, and the order in which Java iterates over a `HashMap` or `HashSet`.

Kafka places groups by the hash of a string. Where several choices are equally good, the iteration order of a hash table
decides which assignment or group protocol is chosen; it also determines the bytes of a snapshot.

Source: Java SE, `String.hashCode`, `Long.hashCode`; OpenJDK, `HashMap` (spreading of hashes, growth).
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from struct import iter_unpack
from typing import TypeVar

__all__ = ["java_order", "long_hash", "string_hash"]

Key = TypeVar("Key")

_INT32 = 0xFFFFFFFF

#: A new table has this many buckets; it doubles when more than three quarters full.
_BUCKETS = 16


def java_order(keys: Collection[Key], hash_of: Callable[[Key], int]) -> list[Key]:
    """Return keys in the iteration order of a hash table into which they were inserted in the given order.

    A bucket of eight or more keys becomes a tree, which may iterate differently; that happens only with keys chosen to
    collide.

    Args:
        keys: the keys, without duplicates.
        hash_of: returns the hash code of a key, unsigned.
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


def long_hash(number: int) -> int:
    """Return the hash of an int64, unsigned."""
    return (number ^ number >> 32) & _INT32
