"""snappy: xerial's framing and raw blocks are read, and declared lengths are not trusted.

Method: parse streams with the library, and read declared lengths without content and the headers of later streams that
snappy-java was observed to accept or refuse.
"""

from __future__ import annotations

import pytest
import snappy

from kafkawire.sdk.errors import DecodeError
from kafkawire.sdk.records import Compression, compress, decompress


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


def test_snappy_block_one_byte_longer_than_the_data() -> None:
    stream = bytearray(compress(Compression.SNAPPY, b"some content"))
    stream[19] += 1
    with pytest.raises(DecodeError, match=r"snappy: the block has \d+ bytes, but \d+ are left"):
        decompress(Compression.SNAPPY, stream)


def test_snappy_block_longer_than_the_data_by_its_highest_byte() -> None:
    stream = bytearray(compress(Compression.SNAPPY, b"some content"))
    stream[16] = 1
    with pytest.raises(DecodeError, match=rf"snappy: the block has {2**24 + len(stream) - 20} bytes, but \d+ are left"):
        decompress(Compression.SNAPPY, stream)


def test_blocks_count_together() -> None:
    stream = compress(Compression.SNAPPY, b"some content")
    whole = stream + stream[16:]
    assert decompress(Compression.SNAPPY, whole, 24) == b"some content" * 2
    with pytest.raises(DecodeError, match="more than the 23 bytes"):
        decompress(Compression.SNAPPY, whole, 23)


def test_a_damaged_block_says_where_it_begins() -> None:
    content = bytes(range(256)) * 300  # three blocks
    stream = bytearray(compress(Compression.SNAPPY, content))
    second = 20 + int.from_bytes(stream[16:20], "big") + 4
    stream[second] ^= 1  # declares content that is missing
    with pytest.raises(DecodeError) as caught:
        decompress(Compression.SNAPPY, stream)
    assert caught.value.offset == second


def test_a_block_that_declares_too_much_says_where_it_begins() -> None:
    stream = compress(Compression.SNAPPY, b"some content")
    block = b"\x80\x80\x40\x00a"  # declares a megabyte
    with pytest.raises(DecodeError, match="a block of 5 bytes declares 1048576 bytes of content") as caught:
        decompress(Compression.SNAPPY, stream + len(block).to_bytes(4, "big") + block)
    assert caught.value.offset == len(stream) + 4


HEADER = b"\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01"


@pytest.mark.parametrize("version", [0, 2**31, 2**32 - 1])
def test_snappy_version_of_a_further_stream(version: int) -> None:
    """The version, an int32, must be at least 1 (else INCOMPATIBLE_VERSION); the first stream's version is ignored."""
    stream = compress(Compression.SNAPPY, b"some content")
    header = HEADER[:8] + version.to_bytes(4, "big") + HEADER[12:]
    assert decompress(Compression.SNAPPY, header + stream[16:]) == b"some content"
    signed = version - 2**32 if version >= 2**31 else version
    for data in (stream + header, stream + header + stream[16:], HEADER + header + stream[16:]):
        with pytest.raises(
            DecodeError, match=f"snappy: the stream has version {signed}, but the lowest supported version is 1"
        ):
            decompress(Compression.SNAPPY, data)
    assert decompress(Compression.SNAPPY, stream + HEADER[:8] + b"\x00\x00\x00\x02" + bytes(4)) == b"some content"


def test_snappy_broken_header_at_the_end() -> None:
    """snappy-java treats the header as the end of the data if no block follows; four bytes start a block."""
    stream = compress(Compression.SNAPPY, b"some content")
    broken = HEADER[:4] + b"xxxx" + bytes(8)
    for left in range(4):
        assert decompress(Compression.SNAPPY, stream + broken + bytes(left)) == b"some content"
    for data in (stream + broken + bytes(4), stream + broken + stream[16:]):
        with pytest.raises(DecodeError, match="snappy: the stream header is damaged"):
            decompress(Compression.SNAPPY, data)
    with pytest.raises(DecodeError, match="snappy: the stream header ends early"):
        decompress(Compression.SNAPPY, stream + broken[:-1])
