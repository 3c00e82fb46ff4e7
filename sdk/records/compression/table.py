"""The table of codecs: Kafka's name of a compression type, and the module of the same name.

`schemas/records/record_batch.yaml` lists the codecs; each has its module in this folder, with the interface of `Codec`.
A module is imported when its codec is first used, and its library with it.

Source: `org.apache.kafka.common.compress`; KIP-390 (levels).
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Protocol, cast

from kafkawire.sdk.errors import EncodeError
from kafkawire.sdk.protocol.tables.record_formats import BATCH_MAGIC, Compression
from kafkawire.sdk.protocol.values import Buffer
from kafkawire.sdk.records.limits import MAX_DECOMPRESSED_BYTES

__all__ = ["Codec", "check_level", "compress", "decompress"]


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
        EncodeError: the level is outside the codec's range.
    """
    if codec == Compression.NONE:
        return bytes(data)
    check_level(codec, level)
    return _codec(int(codec)).compress(memoryview(data).cast("B"), level, magic)


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
    """
    if codec == Compression.NONE:
        return bytes(data)
    return _codec(int(codec)).decompress(memoryview(data).cast("B"), limit, magic)


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
    if not low <= level <= high:
        raise EncodeError("level", f"{codec.name.lower()} has levels {low} to {high}, not {level}")


@cache  # by number: hashing a member of an enumeration takes longer than all else here
def _codec(number: int) -> Codec:
    return cast(Codec, import_module(f"{__package__}.{Compression(number).name.lower()}"))
