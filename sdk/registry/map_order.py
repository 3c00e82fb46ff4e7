"""The iteration orders of Java's and Scala's maps, to reproduce the JSON bytes that Kafka writes from them.

Each function takes the keys in insertion order. `JsonMap` in `content.py` applies the functions.

Source: OpenJDK, `Properties`; Scala 2.13, `mutable.HashMap` and `immutable.HashMap`; see decision 44.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Final

from kafkawire.sdk.protocol.java_order import java_order, string_hash

__all__ = ["MapOrder", "as_inserted", "java_hash_map", "java_properties", "scala_hash_map", "scala_map"]

#: A function that returns keys in the iteration order of a map.
MapOrder = Callable[[Collection[str]], list[str]]

#: The number of buckets in a new table; it doubles once there are keys for three quarters of them.
_BUCKETS: Final = 16

#: The maximum number of keys for which an immutable Scala map keeps the insertion order.
_SMALL_MAP_ENTRIES_MAX: Final = 4

#: The number of hash bits that select the branch at one level of Scala's trie, and the total number of hash bits.
_LEVEL_BITS: Final = 5
_HASH_BITS: Final = 32
_INT32: Final = 0xFFFFFFFF


def as_inserted(keys: Collection[str]) -> list[str]:
    """Return the keys in insertion order."""
    return list(keys)


def java_hash_map(keys: Collection[str]) -> list[str]:
    """Return keys in the order of a `java.util.HashMap`."""
    return java_order(keys, string_hash)


def java_properties(keys: Collection[str]) -> list[str]:
    """Return keys in the order of `java.util.Properties`, whose table grows one key earlier than a `HashMap`'s."""
    mask = _buckets(len(keys)) - 1
    return sorted(keys, key=lambda key: _spread(string_hash(key)) & mask)


def scala_hash_map(keys: Collection[str]) -> list[str]:
    """Return keys in the order of a `scala.collection.mutable.HashMap`, which sorts each bucket by hash."""
    mask = _buckets(len(keys)) - 1

    def place(key: str) -> tuple[int, int]:
        hashed = _spread(string_hash(key))
        return hashed & mask, _signed(hashed)

    return sorted(keys, key=place)


def scala_map(keys: Collection[str]) -> list[str]:
    """Return keys in the order of a `scala.collection.immutable.Map`."""
    if len(keys) <= _SMALL_MAP_ENTRIES_MAX:
        return list(keys)
    return _trie([(_improved(string_hash(key)), key) for key in keys], 0)


def _trie(entries: list[tuple[int, str]], shift: int) -> list[str]:
    """Return the keys of a trie node: first keys that are alone in their branch, then those of each other branch."""
    if shift >= _HASH_BITS:
        return [key for _, key in entries]  # equal hashes
    branches: dict[int, list[tuple[int, str]]] = {}
    for entry in entries:
        branches.setdefault(entry[0] >> shift & (1 << _LEVEL_BITS) - 1, []).append(entry)
    found = [branches[branch] for branch in sorted(branches)]
    alone = [branch[0][1] for branch in found if len(branch) == 1]
    return alone + [key for branch in found if len(branch) > 1 for key in _trie(branch, shift + _LEVEL_BITS)]


def _buckets(keys: int) -> int:
    buckets = _BUCKETS
    while keys * 4 >= buckets * 3:
        buckets *= 2
    return buckets


def _spread(hashed: int) -> int:
    return hashed ^ hashed >> 16


def _signed(hashed: int) -> int:
    return hashed - (1 << _HASH_BITS) if hashed >> _HASH_BITS - 1 else hashed


def _improved(hashed: int) -> int:
    """Mix the bits of a hash as Scala's immutable map does."""
    hashed = hashed + ~(hashed << 9) & _INT32
    hashed ^= hashed >> 14
    hashed = hashed + (hashed << 4) & _INT32
    return hashed ^ hashed >> 10
