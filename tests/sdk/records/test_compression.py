"""Every codec gives back what it was given, stops at the limit, and turns damaged data into a DecodeError.

Method: sizes around blocks; framing read byte by byte where Kafka asks for a certain one; every cut and flipped bit;
bombs, and headers that declare more than there is, with the memory measured.
"""

from __future__ import annotations

import random
import tracemalloc
import zlib
from typing import Any

import lz4.frame
import pytest
import snappy
import zstandard

from kafkawire.sdk.errors import DecodeError, EncodeError
from kafkawire.sdk.records import LEVELS, Compression, compress, decompress

CODECS = [codec for codec in Compression if codec != Compression.NONE]
SAMPLE = b"some records, some more records, and yet more records " * 20


@pytest.mark.parametrize("codec", Compression)
@pytest.mark.parametrize("size", [0, 1, 100, 32768, 32769, 65537, 300_000])
def test_round_trip(codec: Compression, size: int) -> None:
    for data in (bytes(size), random.Random(size).randbytes(size)):
        for magic in (0, 1, 2):
            compressed = compress(codec, memoryview(data), magic=magic)
            assert decompress(codec, memoryview(compressed), magic=magic) == data


@pytest.mark.parametrize("codec", LEVELS)
def test_levels(codec: Compression) -> None:
    low, high = LEVELS[codec]
    for level in (low, high):
        assert decompress(codec, compress(codec, SAMPLE, level)) == SAMPLE
    for level in (low - 1, high + 1):
        with pytest.raises(EncodeError, match=f"levels {low} to {high}, not {level}"):
            compress(codec, SAMPLE, level)
    assert compress(Compression.SNAPPY, SAMPLE, 99) == compress(Compression.SNAPPY, SAMPLE)


@pytest.mark.parametrize("codec", CODECS)
def test_limit(codec: Compression) -> None:
    compressed = compress(codec, SAMPLE)
    assert decompress(codec, compressed, len(SAMPLE)) == SAMPLE
    with pytest.raises(DecodeError, match=str(len(SAMPLE) - 1)):
        decompress(codec, compressed, len(SAMPLE) - 1)


@pytest.mark.parametrize("codec", CODECS)
def test_a_bomb_takes_little_memory(codec: Compression) -> None:
    bomb = compress(codec, bytes(64_000_000))
    tracemalloc.start()
    try:
        with pytest.raises(DecodeError):
            decompress(codec, bomb, 1_000_000)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 8_000_000 + 2 * len(bomb)


@pytest.mark.parametrize("codec", CODECS)
def test_every_cut(codec: Compression) -> None:
    compressed = compress(codec, SAMPLE)
    for end in range(len(compressed)):
        if codec == Compression.ZSTD and end == 0:
            assert decompress(codec, b"") == b""  # no frame at all is no content, as in Kafka
            continue
        if codec == Compression.SNAPPY and end in range(16, 20):
            assert decompress(codec, compressed[:end]) == b""  # an end between blocks is an end, as in Kafka
            continue
        with pytest.raises(DecodeError):
            decompress(codec, compressed[:end])


@pytest.mark.parametrize("codec", CODECS)
def test_flipped_bits_give_data_or_an_error(codec: Compression) -> None:
    compressed = compress(codec, SAMPLE)
    errors = 0
    for position in range(len(compressed)):
        for bit in range(8):
            flipped = bytearray(compressed)
            flipped[position] ^= 1 << bit
            try:
                assert len(decompress(codec, flipped, 100_000)) <= 100_000
            except DecodeError:
                errors += 1
    assert errors > len(compressed)


@pytest.mark.parametrize("codec", CODECS)
def test_random_bytes(codec: Compression) -> None:
    generator = random.Random(5)
    for size in range(1, 60):
        with pytest.raises(DecodeError):
            decompress(codec, generator.randbytes(size), 1000)


@pytest.mark.parametrize("codec", CODECS)
def test_streams_in_a_row(codec: Compression) -> None:
    both = compress(codec, SAMPLE) + compress(codec, b"more")
    expected = SAMPLE if codec == Compression.LZ4 else SAMPLE + b"more"
    assert decompress(codec, both) == expected


def test_snappy_stream() -> None:
    data = bytes(range(256)) * 300
    stream = compress(Compression.SNAPPY, data)
    assert stream[:16] == b"\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01"
    size = int.from_bytes(stream[16:20], "big")
    assert snappy.decompress(stream[20 : 20 + size]) == data[:32768]
    assert decompress(Compression.SNAPPY, snappy.compress(data)) == data


@pytest.mark.parametrize("declared", [2**20, 2**31 - 1, 2**32 - 1])
def test_snappy_does_not_believe_what_is_declared(declared: int) -> None:
    length = b"".join(bytes([declared >> shift & 0x7F | (0x80 if shift < 28 else 0)]) for shift in range(0, 35, 7))
    with pytest.raises(DecodeError, match=r"declares|more than"):
        decompress(Compression.SNAPPY, length + b"\x00a")


def test_lz4_header_checksums() -> None:
    frame = compress(Compression.LZ4, SAMPLE)
    assert lz4.frame.decompress(frame) == SAMPLE
    broken = frame[:6] + bytes([frame[6] ^ 1]) + frame[7:]
    with pytest.raises(DecodeError, match="checksum of the header"):
        decompress(Compression.LZ4, broken)
    old = compress(Compression.LZ4, SAMPLE, magic=0)
    assert (old[:6], old[7:]) == (frame[:6], frame[7:])
    assert old[6] != frame[6]
    for any_checksum in (old, frame, broken):
        assert decompress(Compression.LZ4, any_checksum, magic=0) == SAMPLE


@pytest.mark.parametrize("options", [{"block_linked": True}, {"content_checksum": True}, {"store_size": True}])
def test_lz4_frames_of_others(options: Any) -> None:
    settings = {"block_linked": False, "store_size": False, **options}
    frame = lz4.frame.compress(SAMPLE * 2000, block_size=lz4.frame.BLOCKSIZE_MAX64KB, **settings)
    if settings["block_linked"]:
        with pytest.raises(DecodeError, match="independent blocks"):
            decompress(Compression.LZ4, frame)
    else:
        assert decompress(Compression.LZ4, frame) == SAMPLE * 2000


def test_gzip_member_with_every_part_of_a_header() -> None:
    plain = compress(Compression.GZIP, SAMPLE)
    header = plain[:3] + b"\x1e" + plain[4:10] + b"\x03\x00abc" + b"name\x00" + b"comment\x00"
    checksum = (zlib.crc32(header) & 0xFFFF).to_bytes(2, "little")
    assert decompress(Compression.GZIP, header + checksum + plain[10:]) == SAMPLE
    with pytest.raises(DecodeError, match="checksum of the header"):
        decompress(Compression.GZIP, header + b"\x00\x00" + plain[10:])
    with pytest.raises(DecodeError):
        decompress(Compression.GZIP, plain[:3] + b"\x08" + plain[4:10] + b"name without an end")


def test_gzip_ignores_what_is_no_member() -> None:
    plain = compress(Compression.GZIP, SAMPLE)
    assert decompress(Compression.GZIP, plain + b"\x00" * 5) == SAMPLE
    assert decompress(Compression.GZIP, plain + b"\x00" * 50) == SAMPLE


def test_zstd_frames_of_others() -> None:
    stream = zstandard.ZstdCompressor(level=1, write_checksum=True).compressobj()
    unsized = stream.compress(SAMPLE * 5000) + stream.flush()
    assert decompress(Compression.ZSTD, unsized) == SAMPLE * 5000
    skippable = b"\x5a\x2a\x4d\x18\x03\x00\x00\x00abc"
    assert decompress(Compression.ZSTD, skippable + unsized + skippable) == SAMPLE * 5000
    single = compress(Compression.ZSTD, SAMPLE)
    assert decompress(Compression.ZSTD, single + unsized) == SAMPLE * 5001


def test_zstd_does_not_believe_what_is_declared() -> None:
    frame = b"\x28\xb5\x2f\xfd\xe0" + (2**40).to_bytes(8, "little") + b"\x09\x00\x00a"
    with pytest.raises(DecodeError, match=r"declares|more than"):
        decompress(Compression.ZSTD, frame)
    window = b"\x28\xb5\x2f\xfd\x00" + b"\xff" + b"\x09\x00\x00a"
    with pytest.raises(DecodeError, match="window"):
        decompress(Compression.ZSTD, window)
