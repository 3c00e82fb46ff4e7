"""The table of codecs, which maps each of Kafka's compression types to the module of the same name.

`schemas/records/record_batch.yaml` lists the codecs. Each has a module in this folder with the interface of `Codec`;
the module and its library are imported when the codec is first used.

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
#: Number and name of every codec, for error messages.
CODEC_NAMES = ", ".join(f"{codec.value} ({codec.name.lower()})" for codec in Compression)
#: Upper bound on limits; it leaves room to ask a library for one byte more.
_LIMIT_MAX = 2**62


class Codec(Protocol):
    """The interface of a codec's module.

    Decompression stops at the limit, does not trust declared sizes when reserving memory, and takes time proportional
    to its input and output; `docs/limits.md` states the bounds.
    """

    #: Lowest and highest level (KIP-390); None for a codec without levels.
    LEVELS: tuple[int, int] | None
    #: The level that selects the default; as in Kafka, it is allowed even outside `LEVELS`. None if there is none.
    DEFAULT_LEVEL: int | None

    def compress(self, data: memoryview, level: int | None, magic: int) -> bytes:
        """Return `data` in compressed form; a level of None selects the codec's default."""
        ...

    def decompress(self, data: memoryview, limit: int, magic: int) -> bytes:
        """Return the content; raise DecodeError if it is damaged, truncated, or longer than `limit`."""
        ...


def compress(codec: Compression, data: Buffer, level: int | None = None, magic: int = BATCH_MAGIC) -> bytes:
    """Return the records of a batch in compressed form.

    Args:
        codec: the compression to use.
        data: the encoded records.
        level: see `check_level`.
        magic: the batch's magic; for magic 0, readers of LZ4 expect a wrong header checksum.

    Raises:
        EncodeError: the codec does not exist, the level is outside its range, or the data is not a contiguous buffer.
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
        codec: the compression of the records.
        data: exactly the compressed records.
        limit: largest size of the result, in bytes.
        magic: the batch's magic.

    Raises:
        DecodeError: the data is damaged or truncated, or is longer than `limit`; the error's offset is relative to the
            beginning of `data`.
        LocalProtocolError: the codec does not exist, or the limit is not a number of bytes.
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
        codec: the codec; codecs without levels ignore `level`.
        level: within the codec's range (`Codec.LEVELS`), or `Codec.DEFAULT_LEVEL`; None for the default.

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
    """Return the number of a codec, given as a number or as a member of the enumeration; None if it does not exist."""
    if type(codec) is Compression:
        return int(codec)
    return int(codec) if isinstance(codec, int) and codec in _NUMBERS else None


@cache  # keyed by number: hashing an enumeration member takes longer than everything else here
def _codec(number: int) -> Codec:
    return cast(Codec, import_module(f"{__package__}.{Compression(number).name.lower()}"))
