"""snappy: xerial's framing and raw blocks; what is declared is not believed.

Method: streams taken apart with the library, and declared lengths without content.
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
    with pytest.raises(DecodeError, match=r"snappy: block of \d+ bytes, \d+ are left"):
        decompress(Compression.SNAPPY, stream)


def test_snappy_block_longer_than_the_data_by_its_highest_byte() -> None:
    stream = bytearray(compress(Compression.SNAPPY, b"some content"))
    stream[16] = 1
    with pytest.raises(DecodeError, match=rf"snappy: block of {2**24 + len(stream) - 20} bytes, \d+ are left"):
        decompress(Compression.SNAPPY, stream)
