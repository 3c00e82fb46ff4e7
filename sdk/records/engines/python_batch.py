"""Read a record batch (magic 2) in a buffer in Python, as the extension's `RecordBatch` does.

The header is unpacked when the object is created, the records on request. The code that reads both is generated from
the schemas into `record_codec.py`.

Source: `DefaultRecordBatch`, `DefaultRecord` in Apache Kafka; `schemas/records/`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from kafkawire.sdk.errors import DecodeError
from kafkawire.sdk.protocol.tables.enums import NO_SEQUENCE
from kafkawire.sdk.protocol.tables.record_codec import BatchHeader, read_record
from kafkawire.sdk.protocol.tables.record_formats import (
    BATCH_BATCH_LENGTH_AT,
    BATCH_BATCH_LENGTH_COUNTS_FROM,
    BATCH_COMPRESSION_MASK,
    BATCH_CRC_COVERS_FROM,
    BATCH_HAS_DELETE_HORIZON_MASK,
    BATCH_HEADER_BYTES,
    BATCH_IS_CONTROL_MASK,
    BATCH_IS_TRANSACTIONAL_MASK,
    BATCH_TIMESTAMP_TYPE_MASK,
    RECORD_MIN_BYTES,
    Compression,
    TimestampType,
)
from kafkawire.sdk.protocol.values import Buffer
from kafkawire.sdk.records.buffers import bytes_of, size_of
from kafkawire.sdk.records.compression import decompress
from kafkawire.sdk.records.crc import crc32c_of_bytes
from kafkawire.sdk.records.engines.python_record import Headers, Record, checked_place, new_record
from kafkawire.sdk.records.java_integers import int64, sequence_after
from kafkawire.sdk.records.limits import MAX_DECOMPRESSED_BYTES

if TYPE_CHECKING:
    import pyarrow

    from kafkawire.sdk.records.columns import Columns

__all__ = ["Parts", "RecordBatch", "parts", "restored_batch"]

#: Numbers of smaller magnitude certainly fit into 64 bits; Python stores them in two digits, which are quick to
#: compare.
_FAR = 2**59

#: Positions and limits up to this value need no check, because no object in memory is larger.
_PLAIN_MAX = 2**48


class RecordBatch(BatchHeader):
    """One batch in a buffer; a copied or unpickled one owns its bytes and has position 0.

    Args:
        buffer: holds the batch; it is not copied.
        position: where the batch begins, in bytes.
        limit: the maximum size of its decompressed records, in bytes.

    Attributes:
        position: see above.
        size_in_bytes: the size of the whole batch.
        base_offset, batch_length, partition_leader_epoch, magic, crc, attributes, last_offset_delta, base_timestamp,
            max_timestamp, producer_id, producer_epoch, base_sequence, records_count: the header, see
            `schemas/records/record_batch.yaml`.

    Raises:
        DecodeError: the header does not fit into the buffer, or the batch is shorter than its header or truncated.
        TypeError: `buffer` is not a contiguous buffer, or position or limit is not an integer.
        OverflowError: position or limit does not fit 64 bits.
    """

    __slots__ = ("_view", "limit", "position", "size_in_bytes")

    def __init__(self, buffer: Buffer, position: int = 0, limit: int = MAX_DECOMPRESSED_BYTES) -> None:
        if not (type(position) is type(limit) is int and 0 <= position <= _PLAIN_MAX and 0 <= limit <= _PLAIN_MAX):
            position, limit = size_of(position), size_of(limit)
        view = bytes_of(buffer)
        if not 0 <= position <= len(view) - BATCH_HEADER_BYTES:
            reason = f"a batch has a header of {BATCH_HEADER_BYTES} bytes, but {len(view) - position} are left"
            raise DecodeError("batch", position, reason)
        self.read_header(view, position)
        self.position = position
        self.limit = limit
        self.size_in_bytes = self.batch_length + BATCH_BATCH_LENGTH_COUNTS_FROM
        if not BATCH_HEADER_BYTES <= self.size_in_bytes <= len(view) - position:
            raise DecodeError(
                "batch_length",
                position + BATCH_BATCH_LENGTH_AT,
                f"the batch has {self.size_in_bytes} bytes, but at least {BATCH_HEADER_BYTES} are needed and "
                f"{len(view) - position} are left",
            )
        self._view = view[position : position + self.size_in_bytes]

    def __reduce__(self) -> tuple[Any, ...]:
        return restored_batch, (bytes(self._view), self.limit)

    def __repr__(self) -> str:
        return f"<RecordBatch of {self.records_count} records, offsets {self.base_offset} to {self.last_offset}>"

    @property
    def data(self) -> memoryview:
        """The whole batch."""
        return self._view

    @property
    def last_offset(self) -> int:
        """The offset of the last record, even if compaction removed it."""
        return int64(self.base_offset + self.last_offset_delta)

    @property
    def next_offset(self) -> int:
        """The offset after the batch."""
        return int64(self.base_offset + self.last_offset_delta + 1)

    @property
    def last_sequence(self) -> int:
        """The sequence number of the last record, -1 without idempotence."""
        if self.base_sequence == NO_SEQUENCE:
            return NO_SEQUENCE
        return sequence_after(self.base_sequence, self.last_offset_delta)

    @property
    def is_transactional(self) -> bool:
        """Whether the batch belongs to a transaction."""
        return bool(self.attributes & BATCH_IS_TRANSACTIONAL_MASK)

    @property
    def is_control(self) -> bool:
        """Whether the batch holds control records, which applications never see."""
        return bool(self.attributes & BATCH_IS_CONTROL_MASK)

    @property
    def delete_horizon_ms(self) -> int | None:
        """The time from which its tombstones and markers may be removed; None if compaction has not seen the batch."""
        return self.base_timestamp if self.attributes & BATCH_HAS_DELETE_HORIZON_MASK else None

    @property
    def timestamp_type(self) -> TimestampType:
        """The timestamp type, which says who set the timestamps."""
        is_append_time = self.attributes & BATCH_TIMESTAMP_TYPE_MASK
        return TimestampType.LOG_APPEND_TIME if is_append_time else TimestampType.CREATE_TIME

    @property
    def compression(self) -> Compression:
        """The compression of the records.

        Raises:
            DecodeError: the compression number is unknown.
        """
        number = (self.attributes & BATCH_COMPRESSION_MASK) // (BATCH_COMPRESSION_MASK & -BATCH_COMPRESSION_MASK)
        try:
            return Compression(number)
        except ValueError:
            raise DecodeError("attributes", self.position, f"compression {number} is not known") from None

    def check_crc(self) -> None:
        """Compare the checksum with the content.

        Raises:
            DecodeError: they differ.
        """
        computed = crc32c_of_bytes(self._view[BATCH_CRC_COVERS_FROM:])
        if computed != self.crc:
            raise DecodeError(
                "crc", self.position, f"the checksum is {self.crc:#010x}, but the content has {computed:#010x}"
            )

    def payload(self) -> Buffer:
        """Return the encoded records, decompressed if necessary.

        Raises:
            DecodeError: the records cannot be decompressed.
        """
        content = self._view[BATCH_HEADER_BYTES:]
        compression = self.compression
        if compression == Compression.NONE:
            return content
        try:
            return decompress(compression, content, self.limit, self.magic)
        except DecodeError as error:
            offset = self.position + BATCH_HEADER_BYTES + error.offset
            raise DecodeError(error.path, offset, error.reason) from None

    def checked_payload(self) -> Buffer:
        """Check the record count, and return `payload`.

        Raises:
            DecodeError: as `payload`; or the bytes cannot hold that many records.
        """
        count = self.records_count
        payload = self.payload() if count >= 0 else b""
        if not 0 <= count <= len(payload) // RECORD_MIN_BYTES:
            raise DecodeError(
                "records_count",
                self.position,
                f"{count} records are counted in {len(payload)} bytes, but a record has at least {RECORD_MIN_BYTES}",
            )
        return payload

    def records(self, topic: str = "", partition: int = -1) -> list[Record]:
        """Return all the records.

        Args:
            topic: set on each record.
            partition: set on each record.

        Raises:
            DecodeError: the records cannot be decompressed, or are malformed.
            TypeError: topic or partition has the wrong type.
            OverflowError: the partition is not an int32.
        """
        return list(self._records(topic, checked_place(topic, partition)))

    def views(self) -> Iterator[Record]:
        """Yield the records in order, decoding each one on demand.

        Raises:
            DecodeError: as `records`, when the iteration reaches the damage.
        """
        return self._records("", -1)

    def _records(self, topic: str, partition: int) -> Iterator[Record]:
        payload = bytes(self.checked_payload())
        base_offset, base_timestamp, base_sequence = self.base_offset, self.base_timestamp, self.base_sequence
        append_time = self.max_timestamp if self.attributes & BATCH_TIMESTAMP_TYPE_MASK else None
        sequence, timestamp_type = NO_SEQUENCE, self.timestamp_type
        for headers, key, delta, timestamp_delta, value, _ in parts(payload, self.records_count, self.position):
            # Nearly all sums are far from overflowing, so they are not worth a call.
            offset = base_offset + delta
            if not -_FAR < offset < _FAR:
                offset = int64(offset)
            if append_time is not None:
                timestamp = append_time
            else:
                timestamp = base_timestamp + timestamp_delta
                if not -_FAR < timestamp < _FAR:
                    timestamp = int64(timestamp)
            if base_sequence >= 0:
                sequence = sequence_after(base_sequence, delta)
            yield new_record(offset, timestamp, key, value, headers, sequence, topic, partition, timestamp_type)

    def columns(self) -> Columns:
        """Return the records as columns.

        Raises:
            DecodeError: as `records`.
        """
        from kafkawire.sdk.records.columns import columns  # loaded only when columns are wanted

        return columns([self])

    def to_arrow(self) -> pyarrow.RecordBatch:
        """Return the records as an Arrow record batch; needs `pyarrow`.

        Raises:
            DecodeError: as `records`.
        """
        return self.columns().to_arrow()


def restored_batch(data: bytes, limit: int) -> RecordBatch:
    """Recreate a copied or unpickled batch on the engine in use."""
    from kafkawire.sdk.records.engines.selection import native

    batch_class: type[RecordBatch] = RecordBatch if native is None else native.RecordBatch
    return batch_class(data, 0, limit)


#: The result of `read_record`.
Parts = tuple[Headers, bytes | None, int, int, bytes | None, int]


def parts(data: bytes, count: int, origin: int = 0) -> Iterator[Parts]:
    """Yield the records of a batch in order; every length is checked.

    Args:
        data: the records, decompressed.
        count: the required number of records.
        origin: the batch's position, for errors.

    Raises:
        DecodeError: a record is malformed, the data ends early, or bytes follow the last record.
    """
    position = 0
    index = 0
    try:
        while index < count:
            record = read_record(data, position)
            position = record[-1]
            yield record
            index += 1
    except IndexError:
        raise DecodeError(f"records[{index}]", origin, f"ends early: the records have {len(data)} bytes") from None
    except ValueError as error:
        raise DecodeError(f"records[{index}]", origin, str(error)) from None
    if count and position != len(data):
        raise DecodeError("records", origin, f"{len(data) - position} bytes follow the last of {count} records")
