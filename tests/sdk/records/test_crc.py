"""All ways of computing a checksum give the value that the standard defines.

Method: compute known values; compare every size around the steps of the fast ways, whole and in two pieces, with the
`crc32c` package.
"""

from __future__ import annotations

import random

import crc32c as package
import pytest

from kafkawire.sdk.records import crc32, crc32c
from kafkawire.sdk.records.engines import selection as engines
from tests.needs import EXTENSION

SIZES = [*range(70), *(step + delta for step in (256, 768, 4096, 12288, 70000) for delta in (-1, 0, 1, 9))]


def test_known_values() -> None:
    assert crc32c(b"123456789") == 0xE3069283
    assert crc32c(b"") == 0
    assert crc32(b"123456789") == 0xCBF43926


@pytest.mark.parametrize("name", ["crc32c", "crc32c_by_table"])
def test_extension_agrees_with_the_package(name: str) -> None:
    EXTENSION.require()
    compute = getattr(engines.built, name)
    data = random.Random(1).randbytes(max(SIZES) + 3)
    for size in SIZES:
        for start in range(3):  # unaligned too
            piece = data[start : start + size]
            assert compute(piece) == package.crc32c(piece), size
            assert compute(piece[5:], compute(piece[:5])) == package.crc32c(piece), size


def test_in_two_pieces() -> None:
    assert crc32c(b"56789", crc32c(b"1234")) == crc32c(b"123456789")


def test_any_contiguous_buffer() -> None:
    for buffer in (bytearray(b"123456789"), memoryview(b"123456789").cast("b")):
        assert crc32c(buffer) == 0xE3069283
    with pytest.raises(TypeError, match="expected bytes or another contiguous buffer, got memoryview"):
        crc32c(memoryview(b"abcd")[::2])
