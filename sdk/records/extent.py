"""Measure the batches in a buffer by their headers alone, which is enough for a consumer to plan its next fetch."""

from __future__ import annotations

from kafkawire.sdk.protocol.tables.enums import NO_PARTITION_LEADER_EPOCH
from kafkawire.sdk.protocol.values import Buffer
from kafkawire.sdk.records.engines import selection as engines
from kafkawire.sdk.records.engines.python_extent import Extent, read_extent

__all__ = ["Extent", "extent"]


def extent(buffer: Buffer, engine: str | None = None) -> Extent:
    """Return the extent of the batches in a fetched buffer.

    Brokers send the first batch whole, however large it is, and may truncate the last one: a partial batch is damage
    only if no whole one precedes it. Checksums are ignored.

    Args:
        buffer: batches of any magic.
        engine: see `walk`.
    """
    native = engines.native if engine is None else engines.built if engine == "native" else None
    if native is not None:
        size, next_offset, epoch, data_end, count, is_cut = native.read_extent(buffer)
        if size == len(buffer) or (size and is_cut):
            return Extent(size, next_offset, NO_PARTITION_LEADER_EPOCH if epoch is None else epoch, data_end, count)
    return read_extent(buffer, engine)
