"""LZ4: the frames that Kafka accepts are read, as is the wrong checksum of magic 0.

Method: read the library's frames with other options, frames changed in ways that Apache Kafka's reader was observed to
accept or refuse, and every value of the header checksum.
"""

from __future__ import annotations

import random
from typing import Any

import lz4.frame
import pytest

from kafkawire.sdk.errors import DecodeError
from kafkawire.sdk.records import Compression, compress, decompress, walk

SAMPLE = b"some records, some more records, and yet more records " * 20


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


def test_lz4_frames_cut_around_the_end_of_the_header() -> None:
    frame = compress(Compression.LZ4, SAMPLE)
    for size, reason in (
        (6, "the data ends inside the frame header"),
        (7, "the data ends early"),
        (8, "the data ends early"),
    ):
        with pytest.raises(DecodeError, match=f"lz4: {reason}"):
            decompress(Compression.LZ4, frame[:size])


@pytest.mark.parametrize("options", [{"block_linked": True}, {"content_checksum": True}, {"store_size": True}])
def test_lz4_frames_of_others(options: Any) -> None:
    settings = {"block_linked": False, "store_size": False, **options}
    frame = lz4.frame.compress(SAMPLE * 2000, block_size=lz4.frame.BLOCKSIZE_MAX64KB, **settings)
    if settings["block_linked"]:
        with pytest.raises(DecodeError, match="independent blocks"):
            decompress(Compression.LZ4, frame)
    else:
        assert decompress(Compression.LZ4, frame) == SAMPLE * 2000


def test_lz4_announced_size() -> None:
    frame = lz4.frame.compress(SAMPLE, block_linked=False, store_size=True)
    assert decompress(Compression.LZ4, frame, len(SAMPLE)) == SAMPLE
    with pytest.raises(DecodeError, match=f"more than the 99 bytes .*: the data declares {len(SAMPLE)}"):
        decompress(Compression.LZ4, frame, 99)


def with_header_checksum(frame: bytearray) -> bytes:
    """Return the frame with the checksum that its header should have."""
    at = 14 if frame[4] & 0x08 else 6
    frame[at] = xxhash_second_byte(bytes(frame[4:at]))
    return bytes(frame)


def xxhash_second_byte(header: bytes) -> int:
    """Find a header's checksum by brute force; the library accepts only one of the 256 values."""
    for checksum in range(256):
        try:
            lz4.frame.get_frame_info(b"\x04\x22\x4d\x18" + header + bytes([checksum]))
        except RuntimeError:
            continue
        return checksum
    raise AssertionError("no checksum fits")


@pytest.mark.parametrize("size", [0, 1, len(SAMPLE) - 1, 2**40, 2**64 - 1])
def test_lz4_size_of_the_content_is_not_believed(size: int) -> None:
    """Kafka's `Lz4BlockInputStream` skips the field."""
    frame = bytearray(lz4.frame.compress(SAMPLE, block_linked=False, store_size=True))
    frame[6:14] = size.to_bytes(8, "little")
    assert decompress(Compression.LZ4, with_header_checksum(frame)) == SAMPLE
    with pytest.raises(DecodeError, match="more than the 99 bytes"):
        decompress(Compression.LZ4, with_header_checksum(frame), 99)


def test_lz4_checksum_of_the_content_is_not_compared() -> None:
    """Kafka's reader skips the checksum's four bytes, which must be present."""
    frame = lz4.frame.compress(SAMPLE, block_linked=False, store_size=False, content_checksum=True)
    assert decompress(Compression.LZ4, frame[:-4] + bytes(4)) == SAMPLE
    for cut in (1, 4):
        with pytest.raises(DecodeError, match="lz4: the data ends early"):
            decompress(Compression.LZ4, frame[:-cut])


def test_a_batch_with_a_wrong_lz4_checksum_that_apache_kafka_reads(engine: str) -> None:
    data = bytes.fromhex(
        "000000000000000000000054ffffffff025b37ac8100030000000100000000000003e800000000000003e8ffffffffffffffffffffffffffff"
        "0000000204224d186440a7100000800e000000010261000e0000020102620000000000847af1e0"
    )
    (batch,) = walk(data, engine=engine)
    assert [record.value for record in batch.records()] == [b"a", b"b"]


@pytest.mark.parametrize("block_checksum", [False, True])
def test_lz4_an_empty_raw_block_ends_the_frame(block_checksum: bool) -> None:
    """Kafka checks a block's size before the flag for compression."""
    noise = random.Random(5).randbytes(40_000) + b"\x00\x00\x00\x80" + random.Random(6).randbytes(30_000)
    frame = lz4.frame.compress(
        noise,
        block_linked=False,
        store_size=False,
        block_checksum=block_checksum,
        block_size=lz4.frame.BLOCKSIZE_MAX64KB,
    )
    assert b"\x00\x00\x00\x80" in frame
    assert decompress(Compression.LZ4, frame) == noise
    assert decompress(Compression.LZ4, frame[:-4] + b"\x00\x00\x00\x80") == noise
    assert decompress(Compression.LZ4, frame[:-4] + b"\x00\x00\x00\x80" + frame[7:]) == noise
    assert decompress(Compression.LZ4, frame[:7] + b"\x00\x00\x00\x80" + frame[7:]) == b""
    flagged = bytearray(frame[:-4] + b"\x00\x00\x00\x80" + bytes(4))
    flagged[4] |= 0x04
    assert decompress(Compression.LZ4, with_header_checksum(flagged)) == noise


def test_lz4_levels_below_3_compress_as_3() -> None:
    """Kafka uses the slower compressor for every explicit level."""
    text = bytes(random.Random(1).choices(b"ab", k=1000))
    frames = [compress(Compression.LZ4, text, level) for level in (1, 2, 3)]
    library = [
        lz4.frame.compress(text, level, lz4.frame.BLOCKSIZE_MAX64KB, block_linked=False, store_size=False)
        for level in (0, 3, 4)
    ]
    assert len(set(library)) == 3
    assert frames == [library[1]] * 3
    assert compress(Compression.LZ4, text) == library[0]


def test_lz4_block_descriptors(subtests: pytest.Subtests) -> None:
    """Kafka accepts the four sizes and nothing else."""
    for block in range(256):
        with subtests.test(block=block):
            frame = compress(Compression.LZ4, SAMPLE, magic=0)
            changed = frame[:5] + bytes([block]) + frame[6:]
            if block in (0x40, 0x50, 0x60, 0x70):
                assert decompress(Compression.LZ4, changed, magic=0) == SAMPLE
            else:
                with pytest.raises(DecodeError, match=f"block descriptor {block:#04x}"):
                    decompress(Compression.LZ4, changed, magic=0)


@pytest.mark.parametrize("flag", [0x01, 0x02])
def test_lz4_flags_that_kafka_refuses(flag: int) -> None:
    frame = bytearray(compress(Compression.LZ4, SAMPLE))
    frame[4] |= flag
    with pytest.raises(DecodeError, match="lz4: flags"):
        decompress(Compression.LZ4, frame)
