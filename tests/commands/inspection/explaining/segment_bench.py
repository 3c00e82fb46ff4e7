"""Helpers for the tests of segments: records for Kafka's own topics, and batches of such records."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

from kafkawire.protocol import Message, codec, message_class
from kafkawire.records import BatchBuilder
from kafkawire.sdk.protocol.messages.coordinator.consumer_offsets.offset_commit import (
    OffsetCommitValue,
)
from kafkawire.sdk.records import Compression

__all__ = ["COMMITTED", "batch"]


def keyed(name: str, **fields: Any) -> bytes:
    cls: Any = message_class(name)
    return struct.pack(">h", cls.SCHEMA.key) + codec(cls, cls.SCHEMA.versions.last).encode(cls(**fields))


def valued(message: Message, version: int) -> bytes:
    return struct.pack(">h", version) + codec(type(message), version).encode(message)


#: Two committed offsets, the second of which is deleted, and a group between them.
COMMITTED: list[tuple[bytes, bytes | None]] = [
    (keyed("OffsetCommitKey", group="g", topic="t", partition=3), valued(OffsetCommitValue(offset=77), 3)),
    (keyed("GroupMetadataKey", group="g"), valued(message_class("GroupMetadataValue")(), 3)),
    (keyed("OffsetCommitKey", group="h", topic="u", partition=0), None),
]


def batch(
    base_offset: int, records: Sequence[tuple[bytes | None, bytes | None]], compression: Compression = Compression.NONE
) -> bytes:
    """Return a batch with these keys and values."""
    builder = BatchBuilder(base_offset=base_offset, compression=compression)
    for key, value in records:
        builder.append(1_700_000_000_000, key, value, ())
    return bytes(builder.seal())
