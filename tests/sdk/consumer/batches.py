"""Batches for the tests of reading, encoded as brokers store them."""

from __future__ import annotations

from kafkawire.sdk.protocol.tables.enums import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE
from kafkawire.sdk.records import BatchBuilder, stamp
from kafkawire.sdk.records.control import end_transaction_marker

__all__ = ["made", "marker"]


def made(base_offset: int, *values: bytes, producer: int = NO_PRODUCER_ID, epoch: int = 0) -> bytes:
    """Return one batch, which belongs to a transaction if a producer is given."""
    in_transaction = producer != NO_PRODUCER_ID
    builder = BatchBuilder(
        producer_id=producer,
        producer_epoch=0 if in_transaction else NO_PRODUCER_EPOCH,
        base_sequence=0 if in_transaction else NO_SEQUENCE,
        is_transactional=in_transaction,
    )
    for value in values:
        builder.append(5, None, value)
    return _stamped(builder, base_offset, epoch)


def marker(offset: int, producer: int, *, is_commit: bool, epoch: int = 0) -> bytes:
    """Return the control batch that ends a transaction."""
    builder = BatchBuilder(producer_id=producer, producer_epoch=0, is_transactional=True, is_control=True)
    builder.append(5, *end_transaction_marker(is_commit, 0))
    return _stamped(builder, offset, epoch)


def _stamped(builder: BatchBuilder, base_offset: int, epoch: int) -> bytes:
    data = bytearray(builder.seal())
    stamp(data, base_offset, epoch)
    return bytes(data)
