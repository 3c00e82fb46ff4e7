"""Decoding takes time and memory in proportion to its input; no input makes it quadratic.

Method: decompress inputs of many small pieces, and inputs four times as long. Compare the CPU times, and compare the
peak memory with the bound in `docs/limits.md`. If a library may receive the same bytes repeatedly, count those bytes.
"""

from __future__ import annotations

import gc
import struct
import time
import tracemalloc
import zlib
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import snappy
import zstandard

from kafkawire.sdk.records import Compression, MessageSetBuilder, compress, decompress, walk
from kafkawire.sdk.records.compression import gzip

EMPTY_MEMBER = compress(Compression.GZIP, b"")
NAMED_MEMBER = EMPTY_MEMBER[:3] + b"\x08" + EMPTY_MEMBER[4:10] + b"name\x00" + EMPTY_MEMBER[10:]
XERIAL_HEADER = compress(Compression.SNAPPY, b"")
XERIAL_BLOCK = struct.pack(">i", len(snappy.compress(b"x"))) + snappy.compress(b"x")
LZ4_HEADER = compress(Compression.LZ4, b"")[:7]
LZ4_BLOCK = struct.pack("<I", 0x80000001) + b"x"
ZSTD_FRAME = zstandard.ZstdCompressor().compress(b"x")
ZSTD_SKIPPABLE = b"\x50\x2a\x4d\x18" + bytes(4)
ZSTD_EMPTY_BLOCK = bytes(3)
STREAM = zstandard.ZstdCompressor().compressobj()
ZSTD_UNSIZED = STREAM.compress(b"some content " * 9) + STREAM.flush()


def empty_stored_blocks(count: int) -> bytes:
    """Return a gzip member with this many empty deflate blocks."""
    block = b"\x00\x00\x00\xff\xff"
    return EMPTY_MEMBER[:10] + block * count + b"\x01" + block[1:] + bytes(8)


#: Functions that return an input of `count` pieces to decompress.
PIECES: dict[str, tuple[Compression, Callable[[int], bytes]]] = {
    "gzip, empty members": (Compression.GZIP, lambda count: EMPTY_MEMBER * count),
    "gzip, named members": (Compression.GZIP, lambda count: NAMED_MEMBER * count),
    "gzip, members with content": (Compression.GZIP, lambda count: compress(Compression.GZIP, b"xyz" * 40) * count),
    "gzip, empty blocks": (Compression.GZIP, empty_stored_blocks),
    "gzip, a long name": (Compression.GZIP, lambda count: NAMED_MEMBER[:10] + b"n" * count + NAMED_MEMBER[14:]),
    "snappy, headers": (Compression.SNAPPY, lambda count: XERIAL_HEADER * count),
    "snappy, blocks": (Compression.SNAPPY, lambda count: XERIAL_HEADER[:16] + XERIAL_BLOCK * count),
    "lz4, blocks": (Compression.LZ4, lambda count: LZ4_HEADER + LZ4_BLOCK * count + bytes(4)),
    "zstd, frames": (Compression.ZSTD, lambda count: ZSTD_FRAME * count),
    "zstd, frames without a size": (Compression.ZSTD, lambda count: ZSTD_UNSIZED * count),
    "zstd, skippable frames": (Compression.ZSTD, lambda count: ZSTD_SKIPPABLE * count),
    "zstd, empty blocks": (
        Compression.ZSTD,
        lambda count: ZSTD_FRAME[:4] + b"\x20\x00" + ZSTD_EMPTY_BLOCK * count + b"\x01\x00\x00",
    ),
}


def messages(count: int) -> bytes:
    """Return a wrapper with the given number of messages."""
    builder = MessageSetBuilder(1, Compression.GZIP)
    for _ in range(count):
        builder.append(1, None, b"")
    return builder.build()


def read(data: bytes) -> None:
    for batch in walk(data):
        assert batch.base_offset == 0
        batch.records()


MESSAGES = "messages in a wrapper"


def work(name: str, count: int) -> Callable[[], object]:
    """Return a function that decompresses or reads `count` pieces."""
    if name == MESSAGES:
        return partial(read, messages(count))
    codec, made = PIECES[name]
    return partial(decompress, codec, made(count))


def seconds(work: Callable[[], object]) -> float:
    """Return the lowest CPU time of a few runs, without the garbage collector, whose work grows with the process."""
    times = []
    gc.disable()
    try:
        for _ in range(2):
            start = time.process_time()
            work()
            times.append(time.process_time() - start)
    finally:
        gc.enable()
    return min(times)


@pytest.mark.thorough
@pytest.mark.parametrize("name", [*PIECES, MESSAGES])
def test_time_is_in_proportion_to_the_input(name: str) -> None:
    """Four times the input takes four times as long; quadratic work would take sixteen times as long."""
    count = 500
    while seconds(work(name, count)) < 0.02 and count < 1_000_000:
        count *= 2
    single, fourfold = work(name, count), work(name, 4 * count)
    assert any(seconds(fourfold) < 9 * seconds(single) for _ in range(5))


@pytest.mark.parametrize("name", PIECES)
def test_memory_is_bounded(name: str) -> None:
    """The bound is twice the size of the content plus a fixed number of bytes for each byte of input."""
    codec, made = PIECES[name]
    data = made(5_000)
    tracemalloc.start()
    try:
        content = decompress(codec, data)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    for_each_byte = 256 if codec == Compression.LZ4 else 16  # the LZ4 library allocates the maximum
    assert peak < 2 * len(content) + for_each_byte * len(data) + 300_000


def test_zlib_is_given_each_byte_a_few_times_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    given = 0

    class Inflater:
        def __init__(self, *arguments: Any) -> None:
            self._inflater = zlib.decompressobj(*arguments)

        def __getattr__(self, name: str) -> Any:
            return getattr(self._inflater, name)

        def decompress(self, data: memoryview, limit: int) -> bytes:
            nonlocal given
            given += len(data)
            return self._inflater.decompress(data, limit)

    class Library:
        decompressobj = Inflater

        def __getattr__(self, name: str) -> Any:
            return getattr(zlib, name)

    monkeypatch.setattr(gzip, "zlib", Library())
    for content, count in ((b"", 5_000), (b"xyz" * 40, 2_000), (bytes(range(256)) * 40, 200)):
        data = compress(Compression.GZIP, content) * count
        given = 0
        assert decompress(Compression.GZIP, data) == content * count
        assert given < 6 * len(data)


def test_zstd_makes_one_decompressor(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each decompressor takes about 100 KiB."""
    made = []
    real = zstandard.ZstdDecompressor
    monkeypatch.setattr(zstandard, "ZstdDecompressor", lambda: made.append(1) or real())
    assert decompress(Compression.ZSTD, ZSTD_FRAME * 50) == b"x" * 50
    assert len(made) == 1
