"""Handmade records of `__consumer_offsets` for tests."""

from __future__ import annotations

import struct


def text(value: str) -> bytes:
    """Return text in the encoding that Kafka uses."""
    return struct.pack(">h", len(value)) + value.encode()


def key(group: str, topic: str, partition: int, kind: int = 1) -> bytes:
    """Return the key of a commit's record."""
    return struct.pack(">h", kind) + text(group) + text(topic) + struct.pack(">i", partition)


def value(offset: int, timestamp_ms: int, metadata: str = "") -> bytes:
    """Return the value of a commit's record."""
    return struct.pack(">hqi", 3, offset, -1) + text(metadata) + struct.pack(">q", timestamp_ms)
