"""LZ4: the frames that Kafka takes, and the checksum that is wrong in magic 0.

Method: frames of the library with other options; each header checksum, right and wrong.
"""

from __future__ import annotations

from typing import Any

import lz4.frame
import pytest

from kafkawire.sdk.errors import DecodeError
from kafkawire.sdk.records import Compression, compress, decompress

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
    with pytest.raises(DecodeError, match=f"more than the 99 bytes .*: {len(SAMPLE)} are announced"):
        decompress(Compression.LZ4, frame, 99)


def test_lz4_levels_below_3_compress_as_3() -> None:
    """Kafka takes the slower compressor for every explicit level."""
    frames = [compress(Compression.LZ4, SAMPLE * 50, level) for level in (1, 2, 3)]
    assert frames == [frames[2]] * 3


@pytest.mark.parametrize("block", range(256))
def test_lz4_block_descriptors(block: int) -> None:
    """Kafka takes the four sizes and nothing else."""
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
