"""Every codec restores its input, stops at the limit, and raises a DecodeError for damaged data.

Method: try sizes around block borders, every cut and every flipped bit; measure the memory that bombs take; compare the
modules with the schema.
"""

from __future__ import annotations

import random
import struct
import tracemalloc
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from kafkawire.sdk.errors import DecodeError, EncodeError, LocalProtocolError
from kafkawire.sdk.records import Compression, compress, crc32c, decompress, walk

CODECS = [codec for codec in Compression if codec != Compression.NONE]
#: Codecs that allow more than one stream in a row.
JOINED = (Compression.GZIP, Compression.SNAPPY, Compression.ZSTD)
#: The levels that Kafka's `CompressionType.levelValidator` accepts.
LEVELS = {
    Compression.GZIP: (-1, *range(1, 10)),
    Compression.LZ4: range(1, 18),
    Compression.ZSTD: range(-(2**17), 23),
}
SAMPLE = b"some records, some more records, and yet more records " * 20


@pytest.mark.parametrize("codec", Compression)
@pytest.mark.parametrize("size", [0, 1, 100, 32768, 32769, 65537, 300_000])
def test_round_trip(codec: Compression, size: int) -> None:
    for data in (bytes(size), random.Random(size).randbytes(size)):
        for magic in (0, 1, 2):
            compressed = compress(codec, memoryview(data), magic=magic)
            assert decompress(codec, memoryview(compressed), magic=magic) == data


@pytest.mark.parametrize("codec", LEVELS)
def test_levels_are_kafka_s(codec: Compression) -> None:
    for level in (-(2**17) - 1, -(2**17), -2, -1, 0, 1, 2, 9, 10, 17, 18, 22, 23):
        if level in LEVELS[codec]:
            assert decompress(codec, compress(codec, SAMPLE, level)) == SAMPLE
        else:
            with pytest.raises(EncodeError, match=f"{codec.name.lower()} has levels -?[0-9]+ to [0-9]+, not {level}$"):
                compress(codec, SAMPLE, level)


def test_a_level_that_stands_for_the_default() -> None:
    assert compress(Compression.GZIP, SAMPLE, -1) == compress(Compression.GZIP, SAMPLE)


def test_levels_are_ignored_where_there_are_none() -> None:
    assert compress(Compression.SNAPPY, SAMPLE, 99) == compress(Compression.SNAPPY, SAMPLE)
    assert compress(Compression.NONE, SAMPLE, 99) == SAMPLE


@pytest.mark.parametrize("codec", CODECS)
def test_limit(codec: Compression) -> None:
    compressed = compress(codec, SAMPLE)
    assert decompress(codec, compressed, len(SAMPLE)) == SAMPLE
    limit = len(SAMPLE) - 1
    with pytest.raises(DecodeError, match=f"{codec.name.lower()}: more than the {limit} bytes that a batch may have"):
        decompress(codec, compressed, limit)
    if codec in (Compression.SNAPPY, Compression.ZSTD):  # these declare the length of their content
        with pytest.raises(DecodeError, match=f": the data declares {len(SAMPLE)}"):
            decompress(codec, compressed, limit)


def test_limit_without_compression() -> None:
    assert decompress(Compression.NONE, b"abc", 3) == b"abc"
    with pytest.raises(DecodeError, match="none: more than the 2 bytes that a batch may have"):
        decompress(Compression.NONE, b"abc", 2)


@pytest.mark.parametrize("codec", Compression)
def test_limits_that_are_none(codec: Compression) -> None:
    compressed = compress(codec, SAMPLE)
    for limit in (2**63 - 1, 2**63, 2**70):
        assert decompress(codec, compressed, limit) == SAMPLE
    wrong: Any
    for wrong in (-1, -5, None, "5", 1.5):
        with pytest.raises(LocalProtocolError, match=f"^limit: expected a number of bytes, at least 0, got {wrong!r}$"):
            decompress(codec, compressed, wrong)
    with pytest.raises(DecodeError, match="more than the 0 bytes"):
        decompress(codec, compressed, 0)


@pytest.mark.parametrize("wrong", ["gzip", 5, -1, 2**70, None, 1.0])
def test_codecs_that_are_none(wrong: Any) -> None:
    reason = r"^compression: .* is none of 0 \(none\), 1 \(gzip\), 2 \(snappy\), 3 \(lz4\), 4 \(zstd\)$"
    with pytest.raises(EncodeError, match=reason):
        compress(wrong, SAMPLE)
    with pytest.raises(LocalProtocolError, match=reason):
        decompress(wrong, SAMPLE)


def test_a_codec_may_be_a_number() -> None:
    gzip: Any = 1
    assert decompress(gzip, compress(gzip, SAMPLE)) == SAMPLE
    for wrong in (99, "x", 1.5):
        with pytest.raises(EncodeError, match=f"^level: gzip has levels 1 to 9, not {wrong!r}$"):
            compress(gzip, SAMPLE, wrong)  # type: ignore[arg-type]  # wrong on purpose


@pytest.mark.parametrize("codec", Compression)
def test_what_is_no_buffer(codec: Compression) -> None:
    wrong: Any
    for wrong in (5, "text", None, memoryview(SAMPLE)[::2]):
        with pytest.raises(EncodeError, match=r"^data: expected bytes or another contiguous buffer, got "):
            compress(codec, wrong)
        with pytest.raises(TypeError, match=r"^expected bytes or another contiguous buffer, got "):
            decompress(codec, wrong)


@pytest.mark.parametrize("codec", JOINED)
def test_limit_of_several_streams(codec: Compression) -> None:
    """The limit applies to the sum of all streams, and the error names the limit, not the remainder."""
    compressed = compress(codec, SAMPLE) * 3
    assert decompress(codec, compressed, 3 * len(SAMPLE)) == SAMPLE * 3
    for limit in (3 * len(SAMPLE) - 1, 2 * len(SAMPLE), len(SAMPLE) + 1):
        with pytest.raises(DecodeError, match=f"more than the {limit} bytes") as caught:
            decompress(codec, compressed, limit)
        if codec in (Compression.SNAPPY, Compression.ZSTD):
            assert caught.value.reason.endswith(f": the data declares {(limit // len(SAMPLE) + 1) * len(SAMPLE)}")


def test_every_codec_of_the_schema_has_a_module() -> None:
    for codec in CODECS:
        module = import_module(f"kafkawire.sdk.records.compression.{codec.name.lower()}")
        assert {"DEFAULT_LEVEL", "LEVELS", "compress", "decompress"} <= set(module.__all__)


@pytest.mark.parametrize("codec", CODECS)
def test_a_bomb_takes_little_memory(codec: Compression) -> None:
    bomb = compress(codec, bytes(64_000_000))
    tracemalloc.start()
    try:
        with pytest.raises(DecodeError, match="more than the 1000000 bytes"):
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
            assert decompress(codec, b"") == b""  # no frame means no content, as in Kafka
            continue
        if codec == Compression.SNAPPY and end in range(16, 20):
            assert decompress(codec, compressed[:end]) == b""  # input that ends between blocks is complete, as in Kafka
            continue
        with pytest.raises(DecodeError, match=rf"^records at byte \d+: {codec.name.lower()}: "):
            decompress(codec, compressed[:end])


@pytest.mark.parametrize("codec", CODECS)
def test_flipped_bits_give_data_or_an_error(codec: Compression) -> None:
    compressed = compress(codec, SAMPLE)
    reasons: list[str] = []
    for position in range(len(compressed)):
        for bit in range(8):
            flipped = bytearray(compressed)
            flipped[position] ^= 1 << bit
            try:
                assert len(decompress(codec, flipped, 100_000)) <= 100_000
            except DecodeError as error:
                reasons.append(error.reason)
    assert len(reasons) > len(compressed)
    assert not [reason for reason in reasons if reason.endswith(": ")]


@pytest.mark.parametrize("codec", CODECS)
def test_random_bytes(codec: Compression) -> None:
    generator = random.Random(5)
    for size in range(1, 60):
        with pytest.raises(DecodeError, match=rf"^records at byte \d+: {codec.name.lower()}: "):
            decompress(codec, generator.randbytes(size), 1000)


@pytest.mark.parametrize("codec", [*JOINED, Compression.LZ4])
def test_streams_in_a_row(codec: Compression) -> None:
    """Bytes after an LZ4 frame are ignored, as in Kafka."""
    both = compress(codec, SAMPLE) + compress(codec, b"more")
    assert decompress(codec, both) == SAMPLE + (b"more" if codec in JOINED else b"")


#: Two records, with the values `a` and `b`.
SAMPLE_RECORDS = bytes.fromhex("0e000000010261000e00000201026200")
ZSTD_FRAME = compress(Compression.ZSTD, SAMPLE_RECORDS)
LZ4_FRAME = compress(Compression.LZ4, SAMPLE_RECORDS)
#: Cases that Apache Kafka decides differently, keyed by their name in `docs/limits.md`: the codec, the compressed data,
#: the number of records in the header, and whether this project refuses them.
DIFFERENCES = {
    "zstd: a frame cut off after its header": (Compression.ZSTD, ZSTD_FRAME + ZSTD_FRAME[:8], 2, True),
    "snappy: blocks after the broken header of a second stream": (
        Compression.SNAPPY,
        compress(Compression.SNAPPY, SAMPLE_RECORDS) + b"\x82SNAxxxx" + bytes(8) + b"\x00\x00\x00\x01\x00",
        2,
        True,
    ),
    "LZ4: a compressed block without content": (
        Compression.LZ4,
        LZ4_FRAME[:7] + b"\x01\x00\x00\x00\x00" + LZ4_FRAME[7:],
        2,
        False,
    ),
    "damaged content in a batch without records": (Compression.ZSTD, b"junk", 0, True),
}


@pytest.mark.parametrize("name", DIFFERENCES)
def test_where_apache_kafka_decides_otherwise(engine: str, name: str) -> None:
    """There are no other differences; `docs/limits.md` gives the reason for each."""
    codec, content, count, is_refused = DIFFERENCES[name]
    data = bytearray(61 + len(content))
    struct.pack_into(">qiib", data, 0, 0, len(data) - 12, -1, 2)
    struct.pack_into(">hiqqqhii", data, 21, codec, count - 1, 1000, 1000, -1, -1, -1, count)
    data[61:] = content
    data[17:21] = crc32c(data[21:]).to_bytes(4, "big")
    (batch,) = walk(data, engine=engine)
    if is_refused:
        with pytest.raises(DecodeError, match=f"^records at byte [0-9]+: {codec.name.lower()}: "):
            batch.records()
    else:
        assert [record.value for record in batch.records()] == [b"a", b"b"]


def test_the_page_on_limits_lists_the_same_differences() -> None:
    page = (Path(__file__).parents[4] / "docs" / "limits.md").read_text("utf-8")
    section = page.partition("\n## Where Apache Kafka behaves differently\n")[2].partition("\n## ")[0]
    rows = [line.split("|")[1].strip() for line in section.splitlines() if line.startswith("| ")]
    assert rows[1:] == list(DIFFERENCES)
