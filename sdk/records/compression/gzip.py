"""gzip: consecutive members, each with its own checksum.

Source: RFC 1952; `java.util.zip.GZIPInputStream`.
"""

from __future__ import annotations

import zlib

from kafkawire.sdk.errors import DecodeError
from kafkawire.sdk.records.compression.errors import damaged, too_long

__all__ = ["DEFAULT_LEVEL", "LEVELS", "compress", "decompress"]

LEVELS = (1, 9)
DEFAULT_LEVEL = -1

_NAME = "gzip"
_MAGIC = b"\x1f\x8b\x08"
_HEADER_CRC, _EXTRA, _FILE_NAME, _COMMENT = 2, 4, 8, 16
_FLAGS_AT = 3
_HEADER_BYTES = 10
_TRAILER_BYTES = 8
#: Java's reader looks for another member only if more bytes remain than the shortest possible member occupies.
_MEMBER_BYTES = _HEADER_BYTES + _TRAILER_BYTES
#: Number of bytes first passed to zlib for each later member; it is doubled as long as zlib needs more. zlib copies the
#: input that it does not use, so passing all the remaining bytes each time would take quadratic time.
_FIRST_PIECE_BYTES = 64
#: The search for the end of a name or comment proceeds in pieces of this many bytes.
_TEXT_PIECE_BYTES = 256


def compress(data: memoryview, level: int | None, magic: int) -> bytes:
    """Return one member."""
    deflater = zlib.compressobj(DEFAULT_LEVEL if level is None else level, zlib.DEFLATED, 16 + zlib.MAX_WBITS)
    return deflater.compress(data) + deflater.flush()


def decompress(data: memoryview, limit: int, magic: int) -> bytes:
    """Inflate all members; bytes after the first one that are not a member are ignored, as in Java.

    Raises:
        DecodeError: a member is damaged, or the content exceeds `limit`.
    """
    content, end = _inflated(data, _content_at(data, 0), limit, limit, len(data))
    if (start := _next_content_at(data, end)) is None:
        return content
    joined = bytearray(content)
    while start is not None:
        content, end = _inflated(data, start, limit, limit - len(joined), _FIRST_PIECE_BYTES)
        joined += content
        start = _next_content_at(data, end)
    return bytes(joined)


def _inflated(data: memoryview, start: int, limit: int, room: int, piece_bytes: int) -> tuple[bytes, int]:
    """Return the content of a member, and where the member ends.

    Args:
        data: the compressed data.
        start: where the member's compressed content begins.
        limit: the limit for the content of all members.
        room: the part of the limit that is left.
        piece_bytes: size of the first piece passed to zlib.
    """
    inflater = zlib.decompressobj(-zlib.MAX_WBITS)
    parts: list[bytes] = []
    position = start
    while not inflater.eof:
        piece = data[position : position + piece_bytes]
        if not piece:
            raise damaged(_NAME, len(data), "the data ends early")
        try:
            part = inflater.decompress(piece, room + 1)
        except zlib.error as error:
            raise damaged(_NAME, start, error) from None
        room -= len(part)
        if room < 0:
            raise too_long(_NAME, limit)
        parts.append(part)
        position += len(piece)
        piece_bytes *= 2
    content = b"".join(parts)
    trailer = position - len(inflater.unused_data)
    if trailer + _TRAILER_BYTES > len(data):
        raise damaged(_NAME, len(data), "the data ends early")
    expected = zlib.crc32(content).to_bytes(4, "little") + (len(content) & 0xFFFFFFFF).to_bytes(4, "little")
    if data[trailer : trailer + _TRAILER_BYTES] != expected:
        raise damaged(_NAME, trailer, "the checksum or length of the content is wrong")
    return content, trailer + _TRAILER_BYTES


def _next_content_at(data: memoryview, position: int) -> int | None:
    """Return the start of the next member's compressed content; None if no member follows."""
    if len(data) - position <= _MEMBER_BYTES:
        return None
    try:
        return _content_at(data, position)
    except DecodeError:
        return None


def _content_at(data: memoryview, start: int) -> int:
    """Return the start of a member's compressed content. Unknown flags are ignored, as in Java."""
    if data[start : start + len(_MAGIC)] != _MAGIC:
        raise damaged(_NAME, start, "the data does not start with a gzip header")
    flags = data[start + _FLAGS_AT] if len(data) > start + _FLAGS_AT else 0
    position = start + _HEADER_BYTES
    if flags & _EXTRA:
        position += 2 + int.from_bytes(data[position : position + 2], "little")
    for flag in (_FILE_NAME, _COMMENT):
        if flags & flag:
            position = _text_end(data, position)
    if flags & _HEADER_CRC:
        expected = (zlib.crc32(data[start:position]) & 0xFFFF).to_bytes(2, "little")
        if data[position : position + 2] != expected:
            raise damaged(_NAME, position, "the checksum of the header is wrong")
        position += 2
    if position > len(data):
        raise damaged(_NAME, start, "the header ends early")
    return position


def _text_end(data: memoryview, position: int) -> int:
    """Return the end of the text at `position`, after its zero byte; if it has none, a position beyond the data."""
    for start in range(position, len(data), _TEXT_PIECE_BYTES):
        found = bytes(data[start : start + _TEXT_PIECE_BYTES]).find(0)
        if found >= 0:
            return start + found + 1
    return len(data) + 1
