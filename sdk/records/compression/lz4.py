"""LZ4: one frame of independent blocks. In magic 0, its header checksum must be wrong.

Source: the frame format of LZ4; `Lz4BlockInputStream` in Apache Kafka; KAFKA-3160 (the checksum in magic 0).
"""

from __future__ import annotations

import struct
from functools import cache

from kafkawire.sdk.protocol.tables.record_formats import MESSAGE_V0_MAGIC
from kafkawire.sdk.protocol.values import Buffer
from kafkawire.sdk.records.compression.errors import damaged, too_long

__all__ = ["DEFAULT_LEVEL", "LEVELS", "compress", "decompress"]

LEVELS = (1, 17)
DEFAULT_LEVEL = None

_NAME = "lz4"
_MAGIC = b"\x04\x22\x4d\x18"
_FLAGS_AT = len(_MAGIC)
_BLOCK_AT = _FLAGS_AT + 1
_CONTENT_SIZE_AT = _BLOCK_AT + 1
_HAS_BLOCK_CHECKSUMS = 0x10
_HAS_CONTENT_SIZE = 0x08
_HAS_CONTENT_CHECKSUM = 0x04
_CONTENT_SIZE_BYTES = 8
_CONTENT_CHECKSUM_BYTES = 4
_CHECKSUM_BYTES = 1
_BLOCK_CHECKSUM_BYTES = 4
#: The highest bit marks an uncompressed block.
_BLOCK_SIZE = struct.Struct("<I")
_IS_RAW = 1 << 31
_END_MARK = bytes(_BLOCK_SIZE.size)
#: One byte of LZ4 expands to at most 255 bytes; a frame has at least this many bytes besides its blocks.
_EXPANSION_MAX = 255
_FRAME_BYTES_MIN = 7
#: Levels from this one up select the slower compressor, which Kafka uses for every explicit level.
_HIGH_LEVEL_MIN = 3


def compress(data: memoryview, level: int | None, magic: int) -> bytes:
    """Return a frame in the form that Kafka's own clients write."""
    import lz4.frame

    frame: bytes = lz4.frame.compress(
        data,
        compression_level=0 if level is None else max(level, _HIGH_LEVEL_MIN),
        block_size=lz4.frame.BLOCKSIZE_MAX64KB,
        block_linked=False,
        store_size=False,
    )
    if magic == MESSAGE_V0_MAGIC:
        at = _checksum_at(memoryview(frame))
        frame = frame[:at] + _header_checksum(frame[:at]) + frame[at + _CHECKSUM_BYTES :]
    return frame


def decompress(data: memoryview, limit: int, magic: int) -> bytes:
    """Decompress a frame, ignoring its content size, its content checksum and the bytes after it, as Kafka does.

    Raises:
        DecodeError: the frame is damaged, is of a form that Kafka refuses, or has more content than `limit`.
    """
    import lz4.frame

    at = _checksum_at(data)
    flags = data[_FLAGS_AT]
    # Writers of magic 0 compute the checksum in two ways, so readers ignore it.
    if magic != MESSAGE_V0_MAGIC and data[at : at + _CHECKSUM_BYTES] != _header_checksum(data[len(_MAGIC) : at]):
        raise damaged(_NAME, at, "the checksum of the header is wrong")
    frame = _with_an_end(_without_claims(data, at, magic))
    decompressor = lz4.frame.LZ4FrameDecompressor()
    try:
        content: bytes = decompressor.decompress(frame, min(limit + 1, len(data) * _EXPANSION_MAX))
    except RuntimeError as error:
        raise damaged(_NAME, 0, error) from None
    if len(content) > limit:
        announced = int.from_bytes(data[_CONTENT_SIZE_AT:at], "little") if flags & _HAS_CONTENT_SIZE else 0
        raise too_long(_NAME, limit, announced if announced > limit else None)
    checksum_bytes = _CONTENT_CHECKSUM_BYTES if flags & _HAS_CONTENT_CHECKSUM else 0
    if not decompressor.eof or len(decompressor.unused_data or b"") < checksum_bytes:
        raise damaged(_NAME, len(data), "the data ends early")
    return content


def _without_claims(data: memoryview, checksum_at: int, magic: int) -> bytes:
    """Return the frame with a correct header checksum but without the size and the checksum of its content.

    The library would check both. It copies any input other than `bytes` anyway, so this copy costs nothing extra.
    """
    flags = data[_FLAGS_AT] & ~(_HAS_CONTENT_SIZE | _HAS_CONTENT_CHECKSUM)
    if flags == data[_FLAGS_AT] and magic != MESSAGE_V0_MAGIC:
        return bytes(data)
    return b"".join([_plain_header(flags, data[_BLOCK_AT]), data[checksum_at + _CHECKSUM_BYTES :]])


@cache  # the content size has eight bytes
def _plain_header(flags: int, block: int) -> bytes:
    header = bytes([flags, block])
    return _MAGIC + header + _header_checksum(header)


def _with_an_end(frame: bytes) -> bytes:
    """Return the frame up to its first empty block: Kafka stops there even if that block is marked as uncompressed."""
    around = _BLOCK_SIZE.size + (_BLOCK_CHECKSUM_BYTES if frame[_FLAGS_AT] & _HAS_BLOCK_CHECKSUMS else 0)
    position = _CONTENT_SIZE_AT + _CHECKSUM_BYTES
    while position <= len(frame) - _BLOCK_SIZE.size:
        (size,) = _BLOCK_SIZE.unpack_from(frame, position)
        if size == _IS_RAW:
            return frame[:position] + _END_MARK + frame[position + _BLOCK_SIZE.size :]
        if not size:
            break
        position += (size & ~_IS_RAW) + around
    return frame


def _checksum_at(data: memoryview) -> int:
    """Return the position of the header checksum; raise an error for a frame that Kafka refuses."""
    if len(data) < _FRAME_BYTES_MIN:
        raise damaged(_NAME, 0, "the data ends inside the frame header")
    if data[: len(_MAGIC)] != _MAGIC:
        raise damaged(_NAME, 0, "the data does not start with a frame")
    flags, block = data[_FLAGS_AT], data[_BLOCK_AT]
    if flags >> 6 != 1 or flags & 0x03 or not flags & 0x20:
        reason = f"flags {flags:#04x}: expected version 1 with independent blocks"
        raise damaged(_NAME, _FLAGS_AT, reason)
    if block & 0xCF != 0x40:
        reason = f"block descriptor {block:#04x}: expected only a maximum block size"
        raise damaged(_NAME, _BLOCK_AT, reason)
    at = _CONTENT_SIZE_AT + (_CONTENT_SIZE_BYTES if flags & _HAS_CONTENT_SIZE else 0)
    if at >= len(data):
        raise damaged(_NAME, 0, "the data ends inside the frame header")
    return at


def _header_checksum(data: Buffer) -> bytes:
    """Return the second byte of the XXH32 (seed 0) of fewer than 16 bytes.

    In magic 0, it also covers the frame's magic number: an old mistake that must be kept for compatibility.
    """
    prime2, prime3, prime4, prime5, mask = 0x85EBCA77, 0xC2B2AE3D, 0x27D4EB2F, 0x165667B1, 0xFFFFFFFF
    prime1 = 0x9E3779B1
    value = (prime5 + len(data)) & mask
    words = len(data) - len(data) % 4
    for start in range(0, words, 4):
        value = (value + int.from_bytes(data[start : start + 4], "little") * prime3) & mask
        value = (((value << 17) | (value >> 15)) & mask) * prime4 & mask
    for byte in data[words:]:
        value = (value + byte * prime5) & mask
        value = (((value << 11) | (value >> 21)) & mask) * prime1 & mask
    value = (value ^ (value >> 15)) * prime2 & mask
    value = (value ^ (value >> 13)) * prime3 & mask
    value ^= value >> 16
    return bytes([(value >> 8) & 0xFF])
