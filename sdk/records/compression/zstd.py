"""Zstandard: consecutive frames, some of them skippable.

Source: RFC 8878; `ZstdInputStreamNoFinalizer` of zstd-jni.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from kafkawire.sdk.errors import DecodeError
from kafkawire.sdk.records.compression.errors import damaged, too_long

if TYPE_CHECKING:
    from zstandard import ZstdDecompressor

__all__ = ["DEFAULT_LEVEL", "LEVELS", "compress", "decompress"]

LEVELS = (-(1 << 17), 22)
DEFAULT_LEVEL = 3

_NAME = "zstd"
_MAGIC = b"\x28\xb5\x2f\xfd"
_SKIPPABLE_MAGIC = b"\x2a\x4d\x18"
_DESCRIPTOR_END = len(_MAGIC) + 1
_IS_SINGLE_SEGMENT = 0x20
_BLOCK_BYTES_MAX = 128 * 1024
#: Largest window that decoders accept by default.
_WINDOW_BYTES_MAX = 1 << 27
_RAW, _REPEATED, _COMPRESSED = 0, 1, 2
#: The library's error for a complete frame whose content does not fit into the given memory; size 0 means no limit.
_TOO_SMALL = "did not decompress full frame"
#: Bytes that zstd-jni reads at a time (`ZSTD_DStreamInSize`).
_PIECE_BYTES = _BLOCK_BYTES_MAX + 3


class _Frame(NamedTuple):
    """A frame's end, the largest possible size of its content, and the declared size, if any; see `_frame`."""

    end: int
    content_bytes_max: int = 0
    declared: int | None = None
    is_skippable: bool = False


def compress(data: memoryview, level: int | None, magic: int) -> bytes:
    """Return one frame that declares its size."""
    import zstandard

    return zstandard.ZstdCompressor(level=DEFAULT_LEVEL if level is None else level).compress(data)


def decompress(data: memoryview, limit: int, magic: int) -> bytes:
    """Decompress the frames in order; data without any frame decompresses to nothing, as in Kafka.

    Raises:
        DecodeError: a frame is damaged, or the content exceeds `limit`.
    """
    return b"".join(_contents(data, limit))


def _contents(data: memoryview, limit: int) -> Iterator[bytes]:
    """Yield the content of each frame, using no more memory than its blocks can fill."""
    import zstandard

    decompressor = zstandard.ZstdDecompressor()
    start = 0
    taken = 0
    while start < len(data):
        try:
            frame = _frame(data, start)
        except DecodeError:
            if _is_remainder(data, start):
                return
            raise
        room = limit - taken
        if frame.declared is not None and frame.declared > room:
            raise too_long(_NAME, limit, taken + frame.declared)
        if not frame.is_skippable:
            content = _content(decompressor, data, start, frame, limit, room)
            taken += len(content)
            yield content
        start = frame.end


def _content(
    decompressor: ZstdDecompressor, data: memoryview, start: int, frame: _Frame, limit: int, room: int
) -> bytes:
    """Return the content of a frame, at most `room` bytes."""
    import zstandard

    encoded = data[start : frame.end]
    try:
        if frame.declared == 0:  # the library does not check such a frame when decompressing in one call
            content = decompressor.stream_reader(encoded).read(1)
            if content:
                raise damaged(_NAME, start, "the frame has content but declares a content size of 0")
        else:
            content = decompressor.decompress(encoded, max_output_size=max(min(frame.content_bytes_max, room), 1))
    except zstandard.ZstdError as error:
        if frame.content_bytes_max > room and _TOO_SMALL in str(error):
            raise too_long(_NAME, limit) from None
        raise damaged(_NAME, start, error) from None
    if len(content) > room:
        raise too_long(_NAME, limit)
    return content


def _is_remainder(data: memoryview, start: int) -> bool:
    """Return whether Java's reader treats the remaining partial frame as the end of the data.

    It does so if it has just read the end of a frame, and what remains is cut off in its header or is a truncated
    skippable frame.
    """
    if not start or (start - 1) // _PIECE_BYTES != (len(data) - 1) // _PIECE_BYTES:
        return False
    magic = bytes(data[start : start + len(_MAGIC)])
    if magic == _MAGIC:
        return len(data) < start + _DESCRIPTOR_END or len(data) < _header_end(start, data[start + len(_MAGIC)])
    return _MAGIC.startswith(magic) or (magic[0] & 0xF0 == 0x50 and _SKIPPABLE_MAGIC.startswith(magic[1:]))


def _frame(data: memoryview, start: int) -> _Frame:
    """Walk over the block headers of a frame, to detect truncation and bound the content without decompressing."""
    magic = data[start : start + 4]
    if magic[1:] == _SKIPPABLE_MAGIC and magic[0] & 0xF0 == 0x50:
        end = start + 8 + int.from_bytes(data[start + 4 : start + 8], "little")
        return _Frame(_inside(data, start, end), is_skippable=True)
    if magic != _MAGIC:
        raise damaged(_NAME, start, "the data does not start with a frame")
    descriptor = data[_inside(data, start, start + _DESCRIPTOR_END) - 1]
    position = _inside(data, start, _header_end(start, descriptor))
    window = _BLOCK_BYTES_MAX
    if not descriptor & _IS_SINGLE_SEGMENT:
        exponent, mantissa = divmod(data[start + _DESCRIPTOR_END], 8)
        window = (8 + mantissa) << (7 + exponent)
        if window > _WINDOW_BYTES_MAX:
            raise damaged(_NAME, start, f"the window has {window} bytes, but at most {_WINDOW_BYTES_MAX} are allowed")
    declared = None
    if size_bytes := _size_bytes(descriptor):
        declared = int.from_bytes(data[position - size_bytes : position], "little") + (256 if size_bytes == 2 else 0)
    position, content_bytes_max = _blocks(data, start, position, min(window, _BLOCK_BYTES_MAX))
    if declared is not None and declared > content_bytes_max:
        reason = f"the frame declares {declared} bytes of content, but its blocks hold {content_bytes_max}"
        raise damaged(_NAME, start, reason)
    end = _inside(data, start, position + (4 if descriptor & 0x04 else 0))
    return _Frame(end, content_bytes_max, declared)


def _header_end(start: int, descriptor: int) -> int:
    """Return the start of a frame's blocks, after the window, the dictionary id and the content size."""
    window_bytes = 0 if descriptor & _IS_SINGLE_SEGMENT else 1
    return start + _DESCRIPTOR_END + window_bytes + (0, 1, 2, 4)[descriptor & 0x03] + _size_bytes(descriptor)


def _size_bytes(descriptor: int) -> int:
    return (1 if descriptor & _IS_SINGLE_SEGMENT else 0, 2, 4, 8)[descriptor >> 6]


def _blocks(data: memoryview, start: int, position: int, compressed_bytes_max: int) -> tuple[int, int]:
    """Return the end of the blocks at `position`, and the largest possible size of their content."""
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
