"""Zstandard: streamed, skippable and joined frames are read, and declared sizes are not trusted.

Method: read the library's frames with other options, hand-built headers, and ends of data that zstd-jni was observed to
accept or refuse.
"""

from __future__ import annotations

import tracemalloc

import pytest
import zstandard

from kafkawire.sdk.errors import DecodeError
from kafkawire.sdk.records import Compression, compress, decompress

SAMPLE = b"some records, some more records, and yet more records " * 20


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


def test_zstd_frames_without_a_size_name_the_limit() -> None:
    stream = zstandard.ZstdCompressor().compressobj()
    unsized = stream.compress(SAMPLE) + stream.flush()
    stream = zstandard.ZstdCompressor().compressobj()
    byte = stream.compress(b"a") + stream.flush()
    for data, limit in ((unsized, len(SAMPLE) - 1), (unsized * 2, len(SAMPLE)), (unsized, 0), (byte, 0)):
        with pytest.raises(DecodeError, match=f"zstd: more than the {limit} bytes"):
            decompress(Compression.ZSTD, data, limit)


def test_zstd_a_damaged_frame_is_not_called_too_long() -> None:
    """A damaged frame is reported as damaged, however little room is left for the content of its blocks."""
    stream = zstandard.ZstdCompressor(write_checksum=True).compressobj()
    frame = bytearray(stream.compress(SAMPLE) + stream.flush())
    assert decompress(Compression.ZSTD, bytes(frame), len(SAMPLE)) == SAMPLE
    frame[-1] ^= 1
    with pytest.raises(DecodeError, match=r"zstd: .*checksum"):
        decompress(Compression.ZSTD, bytes(frame), len(SAMPLE))


def test_zstd_takes_no_more_memory_than_the_limit_has_left() -> None:
    stream = zstandard.ZstdCompressor().compressobj()
    large = stream.compress(bytes(4_000_000)) + stream.flush()
    stream = zstandard.ZstdCompressor().compressobj()
    bomb = stream.compress(bytes(64_000_000)) + stream.flush()
    tracemalloc.start()
    try:
        with pytest.raises(DecodeError, match="more than the 5000000 bytes"):
            decompress(Compression.ZSTD, large + bomb, 5_000_000)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 7_000_000


@pytest.mark.parametrize(("code", "width"), [(1, 1), (2, 2), (3, 4)])
def test_zstd_dictionary_0_is_no_dictionary(code: int, width: int) -> None:
    frame = b"\x28\xb5\x2f\xfd" + bytes([0x20 | code]) + bytes(width) + b"\x01" + b"\x09\x00\x00a"
    assert decompress(Compression.ZSTD, frame) == b"a"


@pytest.mark.parametrize(
    ("size_and_blocks", "reason"),
    [
        (b"\x02\x09\x00\x00a", "zstd: the frame declares 2 bytes of content, but its blocks hold 1"),
        (b"\x01\x0f\x00\x00a", "zstd: block of kind 3 and 1 bytes"),
        (b"\x01\x09\x00\x10" + bytes(2**17 + 1), "zstd: block of kind 0 and 131073 bytes"),
    ],
)
def test_zstd_blocks_that_are_refused(size_and_blocks: bytes, reason: str) -> None:
    with pytest.raises(DecodeError, match=reason):
        decompress(Compression.ZSTD, b"\x28\xb5\x2f\xfd\x20" + size_and_blocks)


def test_zstd_level_without_one_is_kafka_s() -> None:
    words = b" ".join(b"%d" % (number * number % 977) for number in range(20_000))
    levels = [compress(Compression.ZSTD, words, level) for level in (2, 3, 4)]
    assert len(set(levels)) == 3
    assert compress(Compression.ZSTD, words) == levels[1]


def test_zstd_windows() -> None:
    """The largest window that decoders accept by default is 2**27 bytes."""
    frame = b"\x28\xb5\x2f\xfd\x00%b\x09\x00\x00a"
    assert decompress(Compression.ZSTD, frame % b"\x88") == b"a"
    with pytest.raises(DecodeError, match=f"the window has {9 << 24} bytes, but at most {1 << 27} are allowed"):
        decompress(Compression.ZSTD, frame % b"\x89")


#: Frames without content that zstd-jni refuses; a reader that ignores content must refuse them too.
DAMAGED_EMPTY_FRAMES = {
    "checksum": "28b52ffd0458010000" + "99e9d850",
    "reserved bit": "28b52ffd0c58010000" + "99e9d851",
    "dictionary": "28b52ffd01580501" + "0000",
    "declared, checksum": "28b52ffd2400010000" + "99e9d850",
    "declared, reserved bit": "28b52ffd2800010000",
    "declared, dictionary": "28b52ffd210500010000",
    "declared, with content": "28b52ffd2000090000" + "61",
    "declared, with content in the first of two blocks": "28b52ffd805800000000" + "08000061" + "010000",
}


@pytest.mark.parametrize("name", DAMAGED_EMPTY_FRAMES)
def test_zstd_frames_without_content_are_checked(name: str) -> None:
    empty = bytes.fromhex(DAMAGED_EMPTY_FRAMES[name])
    frame = compress(Compression.ZSTD, SAMPLE)
    for data in (empty, empty + frame, frame + empty):
        with pytest.raises(DecodeError, match="zstd: "):
            decompress(Compression.ZSTD, data)


def test_zstd_frames_without_content() -> None:
    frame = compress(Compression.ZSTD, SAMPLE)
    for empty in ("28b52ffd0458010000" + "99e9d851", "28b52ffd2400010000" + "99e9d851", "28b52ffd2000010000"):
        data = bytes.fromhex(empty)
        assert decompress(Compression.ZSTD, data + frame + data) == SAMPLE


#: The longest frame header, and a skippable frame.
LONG_HEADER = b"\x28\xb5\x2f\xfd\xc3\x58" + bytes(4) + len(SAMPLE).to_bytes(8, "little")
SKIPPABLE = b"\x5a\x2a\x4d\x18\x10\x00\x00\x00" + bytes(16)


@pytest.mark.parametrize("rest", [LONG_HEADER, SKIPPABLE])
def test_zstd_a_frame_cut_in_its_header_ends_the_data(rest: bytes) -> None:
    """zstd-jni reports the cut only if it has not just read the end of a frame."""
    frame = compress(Compression.ZSTD, SAMPLE)
    for size in range(1, len(rest)):
        assert decompress(Compression.ZSTD, frame + rest[:size]) == SAMPLE
        with pytest.raises(DecodeError, match="zstd: "):
            decompress(Compression.ZSTD, rest[:size])
    with pytest.raises(DecodeError, match="zstd: "):
        decompress(Compression.ZSTD, frame + LONG_HEADER)
    for wrong in (b"\x00", b"\x29", b"\x28\xb4", b"\x5a\x2b", b"\x60\x2a"):
        with pytest.raises(DecodeError, match="zstd: the data does not start with a frame"):
            decompress(Compression.ZSTD, frame + wrong)


@pytest.mark.parametrize("end", range(131075 - 4, 131075 + 3))
def test_zstd_a_cut_frame_in_the_next_piece_of_input_is_refused(end: int) -> None:
    """zstd-jni reads 131,075 bytes at a time; with each piece, it forgets that a frame has ended."""
    frame = compress(Compression.ZSTD, SAMPLE)
    padding = end - len(frame) - 8
    data = frame + SKIPPABLE[:4] + padding.to_bytes(4, "little") + bytes(padding)
    assert decompress(Compression.ZSTD, data) == SAMPLE
    for size in range(1, 5):
        if (end - 1) // 131075 == (end + size - 1) // 131075:
            assert decompress(Compression.ZSTD, data + LONG_HEADER[:size]) == SAMPLE
        else:
            with pytest.raises(DecodeError, match="zstd: "):
                decompress(Compression.ZSTD, data + LONG_HEADER[:size])
