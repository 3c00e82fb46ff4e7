"""The buckets of Java's smallest hash tables, from which Kafka's iteration order can be predicted."""

from __future__ import annotations

from kafkawire.sdk.protocol.java_order import long_hash, string_hash

__all__ = ["bucket", "spread_ids", "uuid_bucket"]


def bucket(hashed: int) -> int:
    """Return the bucket of a hash."""
    return (hashed ^ hashed >> 16) & 15


def uuid_bucket(topic_id: bytes) -> int:
    """Return the bucket of a topic id."""
    halves = int.from_bytes(topic_id[:8], "big") ^ int.from_bytes(topic_id[8:], "big")
    return bucket(long_hash(halves))


def spread_ids(count: int) -> tuple[str, ...]:
    """Return member ids in separate buckets, far enough apart to leave room for other ids."""
    found: dict[int, str] = {}
    number = 0
    while len(found) < count:
        name = f"m{number}"
        found.setdefault(bucket(string_hash(name)), name)
        number += 1
    return tuple(found.values())
