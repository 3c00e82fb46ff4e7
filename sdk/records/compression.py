"""Compress and decompress the records of a batch, as Kafka's own clients and brokers do.

Decompression is bounded: it stops at a limit, and no memory is reserved because a header declares a size. The
libraries are loaded when a codec is first used.

Source: `org.apache.kafka.common.compress`; KIP-390 (levels); the xerial framing of snappy; KAFKA-3160 (LZ4 in magic
0).
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import NamedTuple

from kafkawire.sdk.errors import DecodeError, EncodeError
from kafkawire.sdk.protocol.schema import Buffer
from kafkawire.sdk.protocol.tables.record_formats import MESSAGE_V0_MAGIC, RECORD_MIN_BYTES, Compression
from kafkawire.sdk.records.limits import MAX_DECOMPRESSED_BYTES

__all__ = ["LEVELS", "Compression", "compress", "decompress"]

#: Lowest and highest level of the codecs that have levels (KIP-390).
LEVELS = {Compression.GZIP: (1, 9), Compression.LZ4: (1, 17), Compression.ZSTD: (-(1 << 17), 22)}

_PATH = "records"

# gzip, RFC 1952.
_GZIP_MAGIC = b"\x1f\x8b\x08"
_GZIP_HEADER_CRC, _GZIP_EXTRA, _GZIP_NAME, _GZIP_COMMENT = 2, 4, 8, 16
_GZIP_HEADER_BYTES = 10
_GZIP_TRAILER_BYTES = 8
#: Java's reader looks for one more member only if more bytes than these are left: a shortest member.
_GZIP_MEMBER_BYTES = _GZIP_HEADER_BYTES + _GZIP_TRAILER_BYTES

#: What xerial's snappy stream begins with: magic, version, oldest version that can read it.
_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_VERSIONS = b"\x00\x00\x00\x01\x00\x00\x00\x01"
_XERIAL_HEADER_BYTES = len(_XERIAL_MAGIC) + len(_XERIAL_VERSIONS)
_XERIAL_BLOCK_BYTES = 32 * 1024
#: Three bytes of snappy copy at most 64, so that a declared length above this many times the input is a lie.
_SNAPPY_EXPANSION_MAX = 32

_LZ4_MAGIC = b"\x04\x22\x4d\x18"
_LZ4_CONTENT_SIZE = 0x08
_LZ4_CHECKSUM_BYTES = 1
#: One byte of LZ4 stands for at most 255 bytes; a frame has at least this many bytes around its blocks.
_LZ4_EXPANSION_MAX = 255
_LZ4_FRAME_BYTES_MIN = 7
#: Levels from here on choose the slower compressor that Kafka uses for every explicit level.
_LZ4_HIGH_LEVEL_MIN = 3

_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
_ZSTD_SKIPPABLE_MAGIC = b"\x2a\x4d\x18"
_ZSTD_BLOCK_BYTES_MAX = 128 * 1024
#: Largest window that decoders take without being told otherwise.
_ZSTD_WINDOW_BYTES_MAX = 1 << 27
_ZSTD_RAW, _ZSTD_REPEATED, _ZSTD_COMPRESSED = 0, 1, 2


def compress(codec: Compression, data: Buffer, level: int | None = None, magic: int = 2) -> bytes:
    """Return the compressed form of the records of a batch.

    Args:
        codec: how.
        data: the encoded records.
        level: see `LEVELS`; None for the codec's default. Codecs without levels ignore it.
        magic: of the batch; LZ4 in magic 0 has a wrong header checksum, which its readers expect.

    Raises:
        EncodeError: the level is outside the codec's range.
    """
    if level is not None and codec in LEVELS:
        low, high = LEVELS[codec]
        if not low <= level <= high:
            raise EncodeError("level", f"{codec.name.lower()} has levels {low} to {high}, not {level}")
    if codec == Compression.GZIP:
        deflater = zlib.compressobj(-1 if level is None else level, zlib.DEFLATED, 16 + zlib.MAX_WBITS)
        return deflater.compress(data) + deflater.flush()
    if codec == Compression.SNAPPY:
        return _snappy_stream(memoryview(data).cast("B"))
    if codec == Compression.LZ4:
        return _lz4_frame(data, level, magic)
    if codec == Compression.ZSTD:
        import zstandard

        return zstandard.ZstdCompressor(level=3 if level is None else level).compress(data)
    return bytes(data)


def decompress(codec: Compression, data: Buffer, limit: int = MAX_DECOMPRESSED_BYTES, magic: int = 2) -> bytes:
    """Return the records of a batch in plain.

    Args:
        codec: how they are compressed.
        data: the compressed records, no more and no less.
        limit: most bytes to give out.
        magic: of the batch.

    Raises:
        DecodeError: the data is damaged, cut, or longer than `limit`; offsets count from the beginning of `data`.
    """
    view = memoryview(data).cast("B")
    if codec == Compression.GZIP:
        return _gunzip(view, limit)
    if codec == Compression.SNAPPY:
        return b"".join(_snappy_blocks(view, limit))
    if codec == Compression.LZ4:
        return _lz4_content(view, limit, magic)
    if codec == Compression.ZSTD:
        return b"".join(_zstd_contents(view, limit))
    return bytes(data)


def _too_long(limit: int) -> DecodeError:
    return DecodeError(_PATH, 0, f"more than the {limit} bytes that a batch may have when decompressed")


def _damaged(codec: str, offset: int, reason: object) -> DecodeError:
    return DecodeError(_PATH, offset, f"{codec}: {reason}")


# --- gzip -------------------------------------------------------------------------------------------------------------


def _gunzip(data: memoryview, limit: int) -> bytes:
    """Inflate members until no more follow. What is not a member behind the first is ignored, as Java does."""
    content = b""
    start = _gzip_member(data, 0)
    while True:
        inflater = zlib.decompressobj(-zlib.MAX_WBITS)
        try:
            part = inflater.decompress(data[start:], limit - len(content) + 1)
        except zlib.error as error:
            raise _damaged("gzip", start, error) from None
        content += part
        if len(content) > limit:
            raise _too_long(limit)
        trailer = len(data) - len(inflater.unused_data)
        if not inflater.eof or trailer + _GZIP_TRAILER_BYTES > len(data):
            raise _damaged("gzip", len(data), "ends early")
        expected = zlib.crc32(part).to_bytes(4, "little") + (len(part) & 0xFFFFFFFF).to_bytes(4, "little")
        if data[trailer : trailer + _GZIP_TRAILER_BYTES] != expected:
            raise _damaged("gzip", trailer, "checksum or length of the content is wrong")
        following = trailer + _GZIP_TRAILER_BYTES
        if len(data) - following <= _GZIP_MEMBER_BYTES:
            return content
        try:
            start = _gzip_member(data, following)
        except DecodeError:
            return content


def _gzip_member(data: memoryview, start: int) -> int:
    """Return where the compressed content of a member begins. Unknown flags mean nothing, as in Java."""
    if data[start : start + len(_GZIP_MAGIC)] != _GZIP_MAGIC:
        raise _damaged("gzip", start, "does not begin as a gzip member")
    flags = data[start + 3] if len(data) > start + 3 else 0
    position = start + _GZIP_HEADER_BYTES
    if flags & _GZIP_EXTRA:
        position += 2 + int.from_bytes(data[position : position + 2], "little")
    for flag in (_GZIP_NAME, _GZIP_COMMENT):
        if flags & flag:
            position = bytes(data).find(b"\x00", position) + 1 or len(data) + 1
    if flags & _GZIP_HEADER_CRC:
        expected = (zlib.crc32(data[start:position]) & 0xFFFF).to_bytes(2, "little")
        if data[position : position + 2] != expected:
            raise _damaged("gzip", position, "checksum of the header is wrong")
        position += 2
    if position > len(data):
        raise _damaged("gzip", start, "the header ends early")
    return position


# --- snappy -----------------------------------------------------------------------------------------------------------


def _snappy_stream(data: memoryview) -> bytes:
    import snappy

    parts = [_XERIAL_MAGIC, _XERIAL_VERSIONS]
    for start in range(0, len(data), _XERIAL_BLOCK_BYTES):
        block = snappy.compress(bytes(data[start : start + _XERIAL_BLOCK_BYTES]))
        parts += [len(block).to_bytes(4, "big"), block]
    return b"".join(parts)


def _snappy_blocks(data: memoryview, limit: int) -> Iterator[bytes]:
    """Decompress a xerial stream, several of them in a row, or one raw block as other clients write it."""
    if not data:
        raise _damaged("snappy", 0, "no data")
    if len(data) < _XERIAL_HEADER_BYTES or data[: len(_XERIAL_MAGIC)] != _XERIAL_MAGIC:
        yield _unsnap(data, 0, limit)
        return
    position = _xerial_header(data, 0)
    while position + 4 <= len(data):
        if data[position : position + 4] == _XERIAL_MAGIC[:4]:
            position = _xerial_header(data, position)
            continue
        size = int.from_bytes(data[position : position + 4], "big")
        position += 4
        if size > len(data) - position:
            raise _damaged("snappy", position - 4, f"block of {size} bytes, {len(data) - position} are left")
        block = _unsnap(data[position : position + size], position, limit)
        limit -= len(block)
        position += size
        yield block


def _xerial_header(data: memoryview, position: int) -> int:
    """Return where the blocks behind a header begin; its versions are not looked at."""
    end = position + _XERIAL_HEADER_BYTES
    if data[position : position + len(_XERIAL_MAGIC)] != _XERIAL_MAGIC or end > len(data):
        raise _damaged("snappy", position, "broken header of a stream")
    return end


def _unsnap(block: memoryview, position: int, limit: int) -> bytes:
    import snappy

    declared = 0
    for index, byte in enumerate(block[:5]):
        declared |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            break
    if declared > limit:
        raise _too_long(limit)
    if declared > len(block) * _SNAPPY_EXPANSION_MAX:
        raise _damaged("snappy", position, f"block of {len(block)} bytes declares a content of {declared}")
    try:
        content = snappy.decompress(bytes(block))
    except Exception as error:  # the package has changed its exceptions from release to release
        raise _damaged("snappy", position, error) from None
    assert isinstance(content, bytes)  # the package also has a form for text
    return content


# --- LZ4 --------------------------------------------------------------------------------------------------------------


def _lz4_frame(data: Buffer, level: int | None, magic: int) -> bytes:
    import lz4.frame

    frame: bytes = lz4.frame.compress(
        data,
        compression_level=0 if level is None else max(level, _LZ4_HIGH_LEVEL_MIN),
        block_size=lz4.frame.BLOCKSIZE_MAX64KB,
        block_linked=False,
        store_size=False,
    )
    if magic == MESSAGE_V0_MAGIC:
        at = _lz4_descriptor(memoryview(frame))
        frame = frame[:at] + _header_checksum(frame[:at]) + frame[at + _LZ4_CHECKSUM_BYTES :]
    return frame


def _lz4_content(data: memoryview, limit: int, magic: int) -> bytes:
    import lz4.frame

    at = _lz4_descriptor(data)
    checksum = _header_checksum(data[len(_LZ4_MAGIC) : at])
    frame: Buffer = data
    if magic == MESSAGE_V0_MAGIC:  # written in two ways, and read without a look at it
        frame = b"".join([data[:at], checksum, data[at + _LZ4_CHECKSUM_BYTES :]])
    elif data[at : at + _LZ4_CHECKSUM_BYTES] != checksum:
        raise _damaged("lz4", at, "checksum of the header is wrong")
    decompressor = lz4.frame.LZ4FrameDecompressor()
    try:
        content: bytes = decompressor.decompress(frame, min(limit + 1, len(data) * _LZ4_EXPANSION_MAX))
    except RuntimeError as error:
        raise _damaged("lz4", 0, error) from None
    if len(content) > limit:
        raise _too_long(limit)
    if not decompressor.eof:
        raise _damaged("lz4", len(data), "ends early")
    return content


def _lz4_descriptor(data: memoryview) -> int:
    """Return where the header checksum is; refuse the frames that Kafka refuses."""
    if len(data) < _LZ4_FRAME_BYTES_MIN:
        raise _damaged("lz4", 0, "ends in its header")
    if data[: len(_LZ4_MAGIC)] != _LZ4_MAGIC:
        raise _damaged("lz4", 0, "does not begin as a frame")
    flags, block = data[4], data[5]
    if flags >> 6 != 1 or flags & 0x03 or not flags & 0x20:
        raise _damaged("lz4", 4, f"flags {flags:#04x}: version 1 with independent blocks is expected")
    if block & 0x8F or block < 0x40:
        raise _damaged("lz4", 5, f"block descriptor {block:#04x}: a maximum size and nothing else is expected")
    at = 6 + (8 if flags & _LZ4_CONTENT_SIZE else 0)
    if at >= len(data):
        raise _damaged("lz4", 0, "ends in its header")
    return at


def _header_checksum(data: Buffer) -> bytes:
    """Return the second byte of XXH32, seed 0, of fewer than 16 bytes.

    In magic 0 the frame's magic number goes into it too, an old mistake that has to be made again.
    """
    prime2, prime3, prime4, prime5, mask = 0x85EBCA77, 0xC2B2AE3D, 0x27D4EB2F, 0x165667B1, 0xFFFFFFFF
    prime1 = 0x9E3779B1
    value = (prime5 + len(data)) & mask
    words = len(data) // 4 * 4
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


# --- Zstandard --------------------------------------------------------------------------------------------------------


class _ZstdFrame(NamedTuple):
    """Where a frame ends, how long its content can be at most (0 in a skippable frame), and what it declares or 0."""

    end: int
    content_bytes_max: int
    declared: int


def _zstd_contents(data: memoryview, limit: int) -> Iterator[bytes]:
    """Decompress the frames one after the other, each into no more memory than its blocks can fill."""
    import zstandard

    start = 0
    room = limit
    while start < len(data):
        frame = _zstd_frame(data, start)
        if frame.declared > room:
            raise _too_long(limit)
        if frame.content_bytes_max:
            size = min(frame.content_bytes_max, room)
            try:
                content = zstandard.ZstdDecompressor().decompress(
                    data[start : frame.end], max_output_size=max(size, RECORD_MIN_BYTES)
                )
            except zstandard.ZstdError as error:
                hint = f", or more than {limit} bytes" if frame.content_bytes_max > room else ""
                raise _damaged("zstd", start, f"{error}{hint}") from None
            room -= len(content)
            yield content
        start = frame.end


def _zstd_frame(data: memoryview, start: int) -> _ZstdFrame:
    """Walk over the block headers of a frame: a cut frame is found, and the content bounded, without decompressing."""
    magic = data[start : start + 4]
    if magic[1:] == _ZSTD_SKIPPABLE_MAGIC and magic[0] & 0xF0 == 0x50:
        end = start + 8 + int.from_bytes(data[start + 4 : start + 8], "little")
        return _ZstdFrame(_inside(data, start, end), 0, 0)
    if magic != _ZSTD_MAGIC:
        raise _damaged("zstd", start, "does not begin as a frame")
    descriptor = data[_inside(data, start, start + 5) - 1]
    is_single_segment = bool(descriptor & 0x20)
    position = start + 5
    window = _ZSTD_BLOCK_BYTES_MAX
    if not is_single_segment:
        exponent, mantissa = divmod(data[_inside(data, start, position + 1) - 1], 8)
        window = (8 + mantissa) << (7 + exponent)
        position += 1
        if window > _ZSTD_WINDOW_BYTES_MAX:
            raise _damaged("zstd", start, f"window of {window} bytes, {_ZSTD_WINDOW_BYTES_MAX} are allowed")
    position += (0, 1, 2, 4)[descriptor & 0x03]
    size_bytes = (1 if is_single_segment else 0, 2, 4, 8)[descriptor >> 6]
    declared = int.from_bytes(data[position : position + size_bytes], "little") + (256 if size_bytes == 2 else 0)
    position = _inside(data, start, position + size_bytes)
    content_bytes_max = 0
    is_last = False
    while not is_last:
        head = int.from_bytes(data[position : _inside(data, start, position + 3)], "little")
        is_last, kind, size = bool(head & 1), head >> 1 & 3, head >> 3
        position = _inside(data, start, position + 3 + (1 if kind == _ZSTD_REPEATED else size))
        content_bytes_max += min(window, _ZSTD_BLOCK_BYTES_MAX) if kind == _ZSTD_COMPRESSED else size
        if size > _ZSTD_BLOCK_BYTES_MAX or kind not in (_ZSTD_RAW, _ZSTD_REPEATED, _ZSTD_COMPRESSED):
            raise _damaged("zstd", position, f"block of kind {kind} and {size} bytes")
    if size_bytes and declared > content_bytes_max:
        raise _damaged("zstd", start, f"declares a content of {declared} bytes, its blocks hold {content_bytes_max}")
    end = _inside(data, start, position + (4 if descriptor & 0x04 else 0))
    return _ZstdFrame(end, content_bytes_max, declared if size_bytes else 0)


def _inside(data: memoryview, start: int, end: int) -> int:
    if end > len(data):
        raise _damaged("zstd", start, "the frame ends early")
    return end
