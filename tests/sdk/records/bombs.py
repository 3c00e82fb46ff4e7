"""Small batches that become large when decompressed or decoded."""

from __future__ import annotations

import struct

from kafkawire.sdk.protocol.tables.record_formats import BATCH_HEADER_BYTES
from kafkawire.sdk.records import BatchBuilder, Compression, compress, crc32c
from tests.sdk.records.conftest import varint

__all__ = ["bomb", "headers_of_a_record", "small_records", "value_of_a_record"]

_LEAST_RECORD = b"\x0c\0\0\0\x01\x01\0"


def bomb(compression: Compression, payload: bytes, count: int = 1) -> bytes:
    """Return a batch that has the given record count, and decompresses to the given payload."""
    builder = BatchBuilder()
    builder.append(0, None, b"")
    packed = compress(compression, payload, None)
    header = bytearray(builder.build()[:BATCH_HEADER_BYTES])
    struct.pack_into(">i", header, 8, BATCH_HEADER_BYTES + len(packed) - 12)
    header[22] = compression
    struct.pack_into(">i", header, 23, count - 1)
    struct.pack_into(">i", header, 57, count)
    data = bytes(header) + packed
    return data[:17] + struct.pack(">I", crc32c(data[21:])) + data[21:]


def headers_of_a_record(count: int, name: bytes = b"") -> bytes:
    """Return a record with the given number of headers, all without values."""
    body = b"\0\0\0\0\0" + varint(count) + (varint(len(name)) + name + b"\x01") * count
    return varint(len(body)) + body


def value_of_a_record(size: int) -> bytes:
    """Return a record whose value consists of the given number of zeros."""
    body = b"\0\0\0\x01" + varint(size) + bytes(size) + b"\0"
    return varint(len(body)) + body


def small_records(count: int) -> bytes:
    """Return records that contain only nulls and all have the same offset."""
    return _LEAST_RECORD * count
