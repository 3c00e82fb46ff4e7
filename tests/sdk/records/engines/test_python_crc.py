"""Without the extension, the package `crc32c` computes the checksum; `test_crc.py` compares the two.

Method: compute known values, in one piece and in two.
"""

from __future__ import annotations

from kafkawire.sdk.records.engines.python_crc import crc32c


def test_known_values() -> None:
    assert crc32c(b"123456789") == crc32c(b"56789", crc32c(b"1234")) == 0xE3069283
    assert crc32c(b"") == 0
