"""Errors name the codec, the position, the limit and the declared size.

Method: create each error with and without the parts that may be unknown.
"""

from __future__ import annotations

from kafkawire.sdk.records.compression.errors import damaged, too_long


def test_damaged() -> None:
    error = damaged("gzip", 7, "ends early")
    assert (error.path, error.offset, error.reason) == ("records", 7, "gzip: ends early")


def test_too_long() -> None:
    assert too_long("lz4", 10).reason == "lz4: more than the 10 bytes that a batch may have when decompressed"
    assert too_long("lz4", 10, 99).reason.endswith("when decompressed: the data declares 99")
    assert (too_long("lz4", 10).path, too_long("lz4", 10).offset) == ("records", 0)
