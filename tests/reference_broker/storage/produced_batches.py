"""Batches as producers send them, and values as consumers read them, for testing the log."""

from __future__ import annotations

from collections.abc import Iterator

from kafkawire.reference_broker.storage.log.partition_log import PartitionLog
from kafkawire.sdk.protocol.schema import Buffer
from kafkawire.sdk.protocol.tables.enums import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE
from kafkawire.sdk.protocol.tables.record_formats import Compression
from kafkawire.sdk.records import BatchBuilder, read_records, walk

__all__ = ["NOW_MS", "produced", "records_in", "values_in"]

NOW_MS = 1_700_000_000_000


def produced(
    *values: bytes | None,
    key: bytes | None = b"k",
    timestamps: tuple[int, ...] = (),
    compression: Compression = Compression.NONE,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    is_transactional: bool = False,
) -> bytearray:
    """Return a batch of these values; unless given, timestamps are one millisecond apart."""
    builder = BatchBuilder(
        2**31 - 1,
        compression,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        is_transactional=is_transactional,
    )
    for number, value in enumerate(values):
        builder.append(timestamps[number] if timestamps else NOW_MS + number, key, value)
    return bytearray(builder.seal())


def values_in(records: Buffer) -> list[bytes]:
    """Return the values of all records in the batches of a buffer; none may be a tombstone."""
    values = []
    for batch in walk(records):
        for record in batch.records():
            assert record.value is not None
            values.append(bytes(record.value))
    return values


def records_in(log: PartitionLog) -> Iterator[tuple[Buffer | None, Buffer | None]]:
    """Yield the key and value of every record of a log."""
    for file, header in log.headers():
        if not header.is_control:
            for record in read_records(file.read(header.position, header.size_bytes)):
                yield record.key, record.value
