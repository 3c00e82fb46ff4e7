"""Zstandard: frames one after the other, skippable ones among them.

Source: RFC 8878; `ZstdInputStreamNoFinalizer` of zstd-jni.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from kafkawire.sdk.records.compression.errors import damaged, too_long

__all__ = ["DEFAULT_LEVEL", "LEVELS", "compress", "decompress"]

LEVELS = (-(1 << 17), 22)
DEFAULT_LEVEL = 3

_NAME = "zstd"
_MAGIC = b"\x28\xb5\x2f\xfd"
_SKIPPABLE_MAGIC = b"\x2a\x4d\x18"
_BLOCK_BYTES_MAX = 128 * 1024
#: Largest window that decoders take without being told otherwise.
_WINDOW_BYTES_MAX = 1 << 27
_RAW, _REPEATED, _COMPRESSED = 0, 1, 2
#: What the library says of a whole frame whose content does not fit into the memory it was given; 0 stands for any.
_TOO_SMALL = "did not decompress full frame"


class _Frame(NamedTuple):
    """Where a frame ends, how long its content can be at most (0 in a skippable frame), and what it declares or 0."""

    end: int
    content_bytes_max: int
    declared: int


def compress(data: memoryview, level: int | None, magic: int) -> bytes:
    """Return one frame that declares its size."""
    import zstandard

    return zstandard.ZstdCompressor(level=DEFAULT_LEVEL if level is None else level).compress(data)


def decompress(data: memoryview, limit: int, magic: int) -> bytes:
    """Decompress the frames one after the other; no frame at all is no content, as in Kafka.

    Raises:
        DecodeError: a frame is damaged, or there is more content than `limit`.
    """
    return b"".join(_contents(data, limit))


def _contents(data: memoryview, limit: int) -> Iterator[bytes]:
    """Yield the content of each frame, decompressed into no more memory than its blocks can fill."""
    import zstandard

    decompressor = zstandard.ZstdDecompressor()
    start = 0
    taken = 0
    while start < len(data):
        frame = _frame(data, start)
        if taken + frame.declared > limit:
            raise too_long(_NAME, limit, taken + frame.declared)
        if frame.content_bytes_max:
            room = limit - taken
            try:
                content = decompressor.decompress(
                    data[start : frame.end], max_output_size=max(min(frame.content_bytes_max, room), 1)
                )
            except zstandard.ZstdError as error:
                if frame.content_bytes_max > room and _TOO_SMALL in str(error):
                    raise too_long(_NAME, limit) from None
                raise damaged(_NAME, start, error) from None
            taken += len(content)
            if taken > limit:
                raise too_long(_NAME, limit)
            yield content
        start = frame.end


def _frame(data: memoryview, start: int) -> _Frame:
    """Walk over the block headers of a frame: a cut frame is found, and the content bounded, without decompressing."""
    magic = data[start : start + 4]
    if magic[1:] == _SKIPPABLE_MAGIC and magic[0] & 0xF0 == 0x50:
        end = start + 8 + int.from_bytes(data[start + 4 : start + 8], "little")
        return _Frame(_inside(data, start, end), 0, 0)
    if magic != _MAGIC:
        raise damaged(_NAME, start, "does not begin as a frame")
    descriptor = data[_inside(data, start, start + 5) - 1]
    is_single_segment = bool(descriptor & 0x20)
    position = start + 5
    window = _BLOCK_BYTES_MAX
    if not is_single_segment:
        exponent, mantissa = divmod(data[_inside(data, start, position + 1) - 1], 8)
        window = (8 + mantissa) << (7 + exponent)
        position += 1
        if window > _WINDOW_BYTES_MAX:
            raise damaged(_NAME, start, f"window of {window} bytes, {_WINDOW_BYTES_MAX} are allowed")
    position += (0, 1, 2, 4)[descriptor & 0x03]
    size_bytes = (1 if is_single_segment else 0, 2, 4, 8)[descriptor >> 6]
    declared = int.from_bytes(data[position : position + size_bytes], "little") + (256 if size_bytes == 2 else 0)
    position = _inside(data, start, position + size_bytes)
    position, content_bytes_max = _blocks(data, start, position, min(window, _BLOCK_BYTES_MAX))
    if size_bytes and declared > content_bytes_max:
        raise damaged(_NAME, start, f"declares a content of {declared} bytes, its blocks hold {content_bytes_max}")
    end = _inside(data, start, position + (4 if descriptor & 0x04 else 0))
    return _Frame(end, content_bytes_max, declared if size_bytes else 0)


def _blocks(data: memoryview, start: int, position: int, compressed_bytes_max: int) -> tuple[int, int]:
    """Return where the blocks at `position` end, and how long their content can be at most."""
    content_bytes_max = 0
    is_last = False
    while not is_last:
        head = int.from_bytes(data[position : _inside(data, start, position + 3)], "little")
        is_last, kind, size = bool(head & 1), head >> 1 & 3, head >> 3
        position = _inside(data, start, position + 3 + (1 if kind == _REPEATED else size))
        content_bytes_max += compressed_bytes_max if kind == _COMPRESSED else size
        if size > _BLOCK_BYTES_MAX or kind not in (_RAW, _REPEATED, _COMPRESSED):
            raise damaged(_NAME, position, f"block of kind {kind} and {size} bytes")
    return position, content_bytes_max


def _inside(data: memoryview, start: int, end: int) -> int:
    if end > len(data):
        raise damaged(_NAME, start, "the frame ends early")
    return end
