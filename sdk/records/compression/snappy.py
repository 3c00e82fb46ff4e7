"""snappy in xerial's framing, which Kafka writes, or as one raw block, which other clients write.

Source: `SnappyInputStream` in snappy-java; snappy's format description.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

from kafkawire.sdk.records.compression.errors import damaged, too_long

__all__ = ["DEFAULT_LEVEL", "LEVELS", "compress", "decompress"]

LEVELS = None
DEFAULT_LEVEL = None

_NAME = "snappy"
#: The header of xerial's stream: magic, version, oldest version that can read it.
_MAGIC = b"\x82SNAPPY\x00"
_VERSIONS = b"\x00\x00\x00\x01\x00\x00\x00\x01"
_HEADER_BYTES = len(_MAGIC) + len(_VERSIONS)
_VERSION_BYTES = 4
#: Lowest version that Java's reader accepts in a later stream; in the first stream, it does not check the version.
_VERSION_MIN = 1
_SIZE_BYTES = 4
_BLOCK_BYTES = 32 * 1024
#: Maximum number of bytes in a declared length, which holds seven bits in each byte.
_DECLARED_BYTES_MAX = 5
#: Three bytes of snappy copy at most 64 bytes, so a declared length above this multiple of the input must be wrong.
_EXPANSION_MAX = 32


def compress(data: memoryview, level: int | None, magic: int) -> bytes:
    """Compress into a xerial stream; snappy has no levels."""
    import snappy

    parts = [_MAGIC, _VERSIONS]
    for start in range(0, len(data), _BLOCK_BYTES):
        block = snappy.compress(bytes(data[start : start + _BLOCK_BYTES]))
        parts += [len(block).to_bytes(_SIZE_BYTES, "big"), block]
    return b"".join(parts)


def decompress(data: memoryview, limit: int, magic: int) -> bytes:
    """Decompress one or more consecutive xerial streams, or one raw block.

    Raises:
        DecodeError: the data is damaged, or the content exceeds `limit`.
    """
    if not data:
        raise damaged(_NAME, 0, "the data is empty")
    if len(data) < _HEADER_BYTES or data[: len(_MAGIC)] != _MAGIC:
        return _content(data, 0, 0, limit)
    return b"".join(_contents(data, limit))


def _contents(data: memoryview, limit: int) -> Iterator[bytes]:
    """Yield the content of each block."""
    taken = 0
    position = _HEADER_BYTES
    while position + _SIZE_BYTES <= len(data):
        if data[position : position + _SIZE_BYTES] == _MAGIC[:_SIZE_BYTES]:
            position = _after_header(data, position)
            continue
        size = int.from_bytes(data[position : position + _SIZE_BYTES], "big")
        position += _SIZE_BYTES
        if size > len(data) - position:
            reason = f"the block has {size} bytes, but {len(data) - position} are left"
            raise damaged(_NAME, position - _SIZE_BYTES, reason)
        content = _content(data[position : position + size], position, taken, limit)
        taken += len(content)
        position += size
        yield content


def _after_header(data: memoryview, position: int) -> int:
    """Return the position of the first block after the header of a later stream.

    A header with the wrong magic number is skipped at the end of the data. If more blocks follow, it is refused,
    because the position at which Java's reader would continue depends on how many bytes its caller requested.
    """
    end = position + _HEADER_BYTES
    if end > len(data):
        raise damaged(_NAME, position, "the stream header ends early")
    if data[position : position + len(_MAGIC)] != _MAGIC:
        if end + _SIZE_BYTES <= len(data):
            raise damaged(_NAME, position, "the stream header is damaged")
        return end
    version_at = position + len(_MAGIC)
    version = int.from_bytes(data[version_at : version_at + _VERSION_BYTES], "big", signed=True)
    if version < _VERSION_MIN:
        reason = f"the stream has version {version}, but the lowest supported version is {_VERSION_MIN}"
        raise damaged(_NAME, version_at, reason)
    return end


def _content(block: memoryview, position: int, taken: int, limit: int) -> bytes:
    """Return the content of a block; `taken` is the size of all content before it."""
    import snappy

    declared = 0
    for index, byte in enumerate(block[:_DECLARED_BYTES_MAX]):
        declared |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            break
    if taken + declared > limit:
        raise too_long(_NAME, limit, taken + declared)
    if declared > len(block) * _EXPANSION_MAX:
        raise damaged(_NAME, position, f"a block of {len(block)} bytes declares {declared} bytes of content")
    try:
        content = cast("bytes", snappy.decompress(bytes(block)))  # the package also accepts text
    except Exception as error:  # the package's exceptions differ between releases
        raise damaged(_NAME, position, error) from None
    return content
