"""gzip: every part of a member's header, several members, and the bytes after them are handled as Java does.

Method: decompress members put together by hand.
"""

from __future__ import annotations

import random
import zlib

import pytest

from kafkawire.sdk.errors import DecodeError
from kafkawire.sdk.records import Compression, compress, decompress

SAMPLE = b"some records, some more records, and yet more records " * 20


def test_gzip_member_with_every_part_of_a_header() -> None:
    plain = compress(Compression.GZIP, SAMPLE)
    header = plain[:3] + b"\x1e" + plain[4:10] + b"\x03\x00abc" + b"name\x00" + b"comment\x00"
    checksum = (zlib.crc32(header) & 0xFFFF).to_bytes(2, "little")
    assert decompress(Compression.GZIP, header + checksum + plain[10:]) == SAMPLE
    with pytest.raises(DecodeError, match="checksum of the header"):
        decompress(Compression.GZIP, header + b"\x00\x00" + plain[10:])
    long_name = plain[:3] + b"\x08" + plain[4:10] + b"n" * 1000 + b"\x00" + plain[10:]
    assert decompress(Compression.GZIP, long_name * 2) == SAMPLE * 2
    with pytest.raises(DecodeError, match=r"^records at byte 10: gzip: the data ends early$"):
        decompress(Compression.GZIP, plain[:10])
    endless = plain[:3] + b"\x08" + plain[4:10] + b"name without an end"
    with pytest.raises(DecodeError, match=r"^records at byte 0: gzip: the header ends early$"):
        decompress(Compression.GZIP, endless)
    assert decompress(Compression.GZIP, plain + endless) == SAMPLE


def test_gzip_header_with_an_extra_field_alone() -> None:
    plain = compress(Compression.GZIP, SAMPLE)
    assert decompress(Compression.GZIP, plain[:3] + b"\x04" + plain[4:10] + b"\x03\x00abc" + plain[10:]) == SAMPLE


def test_gzip_content_that_is_damaged() -> None:
    plain = compress(Compression.GZIP, SAMPLE)
    with pytest.raises(DecodeError, match=r"records at byte 10: gzip: .*invalid block type"):
        decompress(Compression.GZIP, plain[:10] + b"\xff" + plain[11:])


def test_gzip_flags_that_announce_nothing() -> None:
    """Java ignores these flags too: "probably text" and the reserved bits."""
    plain = compress(Compression.GZIP, SAMPLE)
    for flag in (0x01, 0x20, 0x40, 0x80):
        assert decompress(Compression.GZIP, plain[:3] + bytes([flag]) + plain[4:]) == SAMPLE


def test_gzip_ignores_what_is_no_member() -> None:
    plain = compress(Compression.GZIP, SAMPLE)
    assert decompress(Compression.GZIP, plain + b"\x00" * 5) == SAMPLE
    assert decompress(Compression.GZIP, plain + b"\x00" * 50) == SAMPLE


def test_gzip_members_of_every_size_follow_each_other() -> None:
    """The input passed to zlib is doubled until it suffices; a member may end just before or after each step."""
    contents = [bytes(range(256)) * 8, b"", *(random.Random(size).randbytes(size) for size in range(0, 700, 3))]
    members = [compress(Compression.GZIP, content) for content in contents]
    assert decompress(Compression.GZIP, b"".join(members)) == b"".join(contents)
    damaged = bytearray(members[0] + members[2] + members[50])
    damaged[-5] ^= 1
    with pytest.raises(DecodeError, match="checksum or length of the content"):
        decompress(Compression.GZIP, damaged)
