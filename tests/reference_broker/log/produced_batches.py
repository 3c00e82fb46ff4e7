"""Batches as a producer sends them, for the tests of the log."""

from __future__ import annotations

from kafkawire.sdk.protocol.record_formats import Compression
from kafkawire.sdk.records import BatchBuilder

__all__ = ["NOW_MS", "produced"]

NOW_MS = 1_700_000_000_000


def produced(
    *values: bytes | None,
    key: bytes | None = b"k",
    timestamps: tuple[int, ...] = (),
    compression: Compression = Compression.NONE,
    **fields: int | bool,
) -> bytearray:
    """Return a batch of these values; each is a millisecond younger than the one before unless `timestamps` says so."""
    builder = BatchBuilder(2**31 - 1, compression, **fields)
    for number, value in enumerate(values):
        builder.append(timestamps[number] if timestamps else NOW_MS + number, key, value)
    return bytearray(builder.seal())
