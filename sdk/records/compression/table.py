"""The table of codecs: Kafka's name of a compression type, and the module of the same name.

`schemas/records/record_batch.yaml` lists the codecs; each has its module in this folder, with the interface of `Codec`.
A module is imported when its codec is first used, and its library with it.

Source: `org.apache.kafka.common.compress`; KIP-390 (levels).
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Protocol, cast

from kafkawire.sdk.errors import EncodeError, LocalProtocolError
from kafkawire.sdk.protocol.tables.record_formats import BATCH_MAGIC, Compression
from kafkawire.sdk.protocol.values import Buffer, quoted
from kafkawire.sdk.records.buffers import bytes_of
from kafkawire.sdk.records.compression.errors import too_long
from kafkawire.sdk.records.limits import MAX_DECOMPRESSED_BYTES

__all__ = ["CODEC_NAMES", "Codec", "check_level", "compress", "decompress"]

_NUMBERS = frozenset(int(codec) for codec in Compression)
#: Number and name of every codec, for errors.
CODEC_NAMES = ", ".join(f"{codec.value} ({codec.name.lower()})" for codec in Compression)
#: No content is longer than this, and libraries can still be asked for one byte more.
_LIMIT_MAX = 2**62


class Codec(Protocol):
    """What a module of this folder defines for its codec.

    Decompression stops at the limit, reserves no memory because a header declares a size, and takes time in proportion
    to the bytes that go in and come out: `docs/limits.md` has the bounds.
    """

    #: Lowest and highest level (KIP-390); None for a codec without levels.
    LEVELS: tuple[int, int] | None
    #: The level that stands for the default, taken also where it is outside `LEVELS`, as in Kafka; None if none does.
    DEFAULT_LEVEL: int | None

    def compress(self, data: memoryview, level: int | None, magic: int) -> bytes:
        """Return the compressed form of `data`; a level of None is the codec's default."""
        ...

    def decompress(self, data: memoryview, limit: int, magic: int) -> bytes:
        """Return the content; raise DecodeError if it is damaged, cut, or longer than `limit`."""
        ...


def compress(codec: Compression, data: Buffer, level: int | None = None, magic: int = BATCH_MAGIC) -> bytes:
    """Return the compressed form of the records of a batch.

    Args:
        codec: how to compress them.
        data: the encoded records.
        level: see `check_level`.
        magic: of the batch; LZ4 in magic 0 has a wrong header checksum, which its readers expect.

    Raises:
        EncodeError: there is no such codec, the level is outside its range, or the data is not a contiguous buffer.
    """
    number = _number(codec)
    if number is None:
        raise EncodeError("compression", f"{quoted(codec)} is none of {CODEC_NAMES}")
    try:
        view = bytes_of(data)
    except TypeError as error:
        raise EncodeError("data", str(error)) from error
    if number == Compression.NONE:
        return bytes(view)
    check_level(Compression(number), level)
    return _codec(number).compress(view, level, magic)


def decompress(
    codec: Compression, data: Buffer, limit: int = MAX_DECOMPRESSED_BYTES, magic: int = BATCH_MAGIC
) -> bytes:
    """Return the records of a batch, decompressed.

    Args:
        codec: how they are compressed.
        data: the compressed records, no more and no less.
        limit: most bytes to give out.
        magic: of the batch.

    Raises:
        DecodeError: the data is damaged, cut, or longer than `limit`; offsets count from the beginning of `data`.
        LocalProtocolError: there is no such codec, or the limit is no number of bytes.
        TypeError: the data is not a contiguous buffer.
    """
    number = _number(codec)
    if number is None:
        raise LocalProtocolError(f"compression: {quoted(codec)} is none of {CODEC_NAMES}")
    if not isinstance(limit, int) or limit < 0:
        raise LocalProtocolError(f"limit: expected a number of bytes, at least 0, got {quoted(limit)}")
    view = bytes_of(data)
    if number != Compression.NONE:
        return _codec(number).decompress(view, min(limit, _LIMIT_MAX), magic)
    if len(view) > limit:
        raise too_long(Compression.NONE.name.lower(), limit, len(view))
    return bytes(view)


def check_level(codec: Compression, level: int | None) -> None:
    """Refuse a level that Kafka refuses (`CompressionType.levelValidator`).

    Args:
        codec: one without levels ignores it.
        level: from the lowest to the highest of the codec (`Codec.LEVELS`), or `Codec.DEFAULT_LEVEL`; None for the
            default.

    Raises:
        EncodeError: the codec has no such level.
    """
    if level is None or codec == Compression.NONE:
        return
    module = _codec(int(codec))
    if module.LEVELS is None or level == module.DEFAULT_LEVEL:
        return
    low, high = module.LEVELS
    if not isinstance(level, int) or not low <= level <= high:
        raise EncodeError("level", f"{codec.name.lower()} has levels {low} to {high}, not {quoted(level)}")


def _number(codec: object) -> int | None:
    """Return the number of a codec, which may be given as one; None if there is none."""
    if type(codec) is Compression:
        return int(codec)
    return int(codec) if isinstance(codec, int) and codec in _NUMBERS else None


@cache  # by number: hashing a member of an enumeration takes longer than all else here
def _codec(number: int) -> Codec:
    return cast(Codec, import_module(f"{__package__}.{Compression(number).name.lower()}"))
