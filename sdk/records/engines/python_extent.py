"""Measure the extent of the batches in a buffer one at a time; the extension's `read_extent` handles plain batches."""

from __future__ import annotations

from typing import NamedTuple

from kafkawire.sdk.errors import DecodeError, PartialBatch
from kafkawire.sdk.protocol.tables.enums import NO_PARTITION_LEADER_EPOCH
from kafkawire.sdk.protocol.values import Buffer
from kafkawire.sdk.records.message_set import MessageBatch
from kafkawire.sdk.records.walk import walk

__all__ = ["Extent", "read_extent"]


class Extent(NamedTuple):
    """A summary of the headers of some batches.

    Attributes:
        size_bytes: the size of all whole batches.
        next_offset: the offset after the last whole batch; None if there is none.
        leader_epoch: the leader epoch of the last whole batch, -1 if it has none.
        data_end: the offset after the last data batch; None if there is none.
        records_count: the number of records in data batches; a message set counts as one record per offset.
        damage: the reason why the following bytes are not a batch; None if nothing or only a partial batch follows.
    """

    size_bytes: int = 0
    next_offset: int | None = None
    leader_epoch: int = NO_PARTITION_LEADER_EPOCH
    data_end: int | None = None
    records_count: int = 0
    damage: DecodeError | None = None


def read_extent(buffer: Buffer, engine: str | None) -> Extent:
    """Return the extent of the batches in a fetched buffer (see `records/extent.py`)."""
    found = Extent()
    try:
        for batch in walk(buffer, check_crc=False, engine=engine):
            size, end, count = found.size_bytes + batch.size_in_bytes, batch.next_offset, found.records_count
            if isinstance(batch, MessageBatch):
                found = Extent(size, end, NO_PARTITION_LEADER_EPOCH, end, count + end - batch.base_offset)
            elif batch.is_control:
                found = Extent(size, end, batch.partition_leader_epoch, found.data_end, count)
            else:
                found = Extent(size, end, batch.partition_leader_epoch, end, count + max(batch.records_count, 0))
    except PartialBatch as partial:
        return found if found.size_bytes else found._replace(damage=partial)
    except DecodeError as damage:
        return found._replace(damage=damage)
    return found
