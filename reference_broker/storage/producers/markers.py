"""Build control batches with transaction markers, and find the markers in a log.

Source: `MemoryRecords.withEndTransactionMarker`, `EndTransactionMarker`, `ProducerAppendInfo.appendEndTxnMarker` in
Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, Protocol

from kafkawire.reference_broker.storage.batches import BatchHeader, parse_header
from kafkawire.reference_broker.storage.producers.producers import Marker
from kafkawire.sdk.protocol.messages.records.control.end_txn_marker import EndTxnMarker
from kafkawire.sdk.protocol.tables.enums import NO_SEQUENCE, ControlRecordType
from kafkawire.sdk.records import BatchBuilder, walk
from kafkawire.sdk.records.control import control_record, end_transaction_marker

__all__ = ["ReadableFile", "StoredMarker", "build_marker", "markers_in"]


class ReadableFile(Protocol):
    """A file with batches."""

    def read(self, position: int, size_bytes: int) -> bytes:
        """Return a part of the file."""
        ...


class StoredMarker(NamedTuple):
    """A marker in the log.

    Attributes:
        marker: the marker.
        offset: the offset of the marker.
        timestamp: when the marker was written.
    """

    marker: Marker
    offset: int
    timestamp: int


def build_marker(marker: Marker, now_ms: int) -> tuple[memoryview, BatchHeader]:
    """Return the control batch for a marker, which the log will stamp, and the batch's header.

    Args:
        marker: the transaction, and whether it commits.
        now_ms: the timestamp of the marker.
    """
    builder = BatchBuilder(
        producer_id=marker.producer_id,
        producer_epoch=marker.producer_epoch,
        base_sequence=NO_SEQUENCE,
        is_transactional=True,
        is_control=True,
    )
    builder.append(now_ms, *end_transaction_marker(marker.is_commit, marker.coordinator_epoch))
    data = memoryview(bytearray(builder.seal()))
    return data, parse_header(data)


def markers_in(file: ReadableFile, header: BatchHeader) -> Iterator[StoredMarker]:
    """Yield the markers in a control batch, which may hold other control records, or be empty after compaction.

    Args:
        file: holds the batch.
        header: header of the batch.
    """
    for batch in walk(file.read(header.position, header.size_bytes)):
        for record in batch.records():
            found = control_record(record)
            if isinstance(found.body, EndTxnMarker):
                is_commit = found.key.type == ControlRecordType.COMMIT
                epoch = found.body.coordinator_epoch
                marker = Marker(header.producer_id, header.producer_epoch, is_commit, epoch)
                yield StoredMarker(marker, record.offset, record.timestamp_ms)
