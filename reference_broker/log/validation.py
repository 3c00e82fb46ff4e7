"""The checks on a produced batch before it is appended.

The checks and their error codes are Kafka's. They cost a pass over the bytes for the checksum and one over the records.

Source: `ProduceRequest.validateRecords`, `UnifiedLog.analyzeAndValidateRecords`, `LogValidator` in Apache Kafka.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from functools import cache

from kafkawire.reference_broker.log.batches import BatchHeader, parse_header
from kafkawire.reference_broker.log.config import LogConfig
from kafkawire.sdk.errors import BrokerError, DecodeError
from kafkawire.sdk.protocol.schema import Buffer
from kafkawire.sdk.protocol.tables.enums import NO_PRODUCER_ID, NO_TIMESTAMP
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.protocol.tables.record_formats import (
    BATCH_CRC_COVERS_FROM,
    BATCH_HEADER_BYTES,
    BATCH_MAGIC,
    BATCH_MAGIC_AT,
    Compression,
)
from kafkawire.sdk.records import crc32c, walk

__all__ = ["InvalidBatch", "validate"]

_INT64_BYTES = 8

_COMPRESSIONS = frozenset(Compression)

#: The offsets of batches of up to this many records are compared with a slice of one cached row.
_CACHED_OFFSETS = 65_536


class InvalidBatch(BrokerError):
    """A batch is refused because of some of its records.

    Args:
        code: the error of the partition.
        detail: what is wrong.
        record_errors: (index in the batch, what is wrong) for each invalid record.
    """

    def __init__(self, code: ErrorCode, detail: str, record_errors: Sequence[tuple[int, str]] = ()) -> None:
        super().__init__(code, detail)
        self.record_errors = record_errors


def validate(
    records: Buffer | None, config: LogConfig, now_ms: int, *, allow_zstandard: bool
) -> tuple[bytearray | memoryview, BatchHeader]:
    """Check the records of a partition in a produce request.

    Args:
        records: the records field of the request.
        config: the log's configuration.
        now_ms: the current time.
        allow_zstandard: whether the version of the request allows Zstandard.

    Returns:
        The batch in writable memory, copied only if it was read-only, and its header.

    Raises:
        BrokerError: the batch is refused.
    """
    if not records:
        raise BrokerError(ErrorCode.INVALID_RECORD, "a produce request must have a record batch for each partition")
    header = _check_format(records, allow_zstandard)
    if header.size_bytes > config.max_message_bytes:
        raise BrokerError(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"The record batch size is {header.size_bytes} bytes which exceeds the maximum configured value of "
            f"{config.max_message_bytes}",
        )
    if header.size_bytes > config.segment_bytes:
        raise BrokerError(
            ErrorCode.RECORD_LIST_TOO_LARGE,
            f"The record batch size is {header.size_bytes} bytes which exceeds the maximum configured segment size of "
            f"{config.segment_bytes}",
        )
    if crc32c(memoryview(records)[BATCH_CRC_COVERS_FROM:]) != header.crc:
        raise BrokerError(ErrorCode.CORRUPT_MESSAGE, "the checksum of the record batch is wrong")
    _check_header(header)
    _check_records(records, header, config, now_ms)
    if isinstance(records, bytes) or (isinstance(records, memoryview) and records.readonly):
        return bytearray(records), header
    return records, header


def _check_format(records: Buffer, allow_zstandard: bool) -> BatchHeader:
    if len(records) <= BATCH_MAGIC_AT:
        raise BrokerError(ErrorCode.INVALID_RECORD, f"{len(records)} bytes are too few for a record batch")
    if records[BATCH_MAGIC_AT] != BATCH_MAGIC:
        raise BrokerError(
            ErrorCode.INVALID_RECORD, f"the record batch has magic {records[BATCH_MAGIC_AT]}, expected {BATCH_MAGIC}"
        )
    if len(records) < BATCH_HEADER_BYTES:
        raise BrokerError(ErrorCode.CORRUPT_MESSAGE, f"{len(records)} bytes are too few for a record batch")
    header = parse_header(records)
    if header.size_bytes < BATCH_HEADER_BYTES or header.size_bytes > len(records):
        raise BrokerError(
            ErrorCode.CORRUPT_MESSAGE, f"a record batch of {header.size_bytes} bytes in {len(records)} bytes of records"
        )
    if header.size_bytes < len(records):
        raise BrokerError(
            ErrorCode.INVALID_RECORD, "a produce request must have only one record batch for each partition"
        )
    if header.compression == Compression.ZSTD and not allow_zstandard:
        raise BrokerError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, "this version of Produce does not allow Zstandard")
    if header.compression not in _COMPRESSIONS:
        raise BrokerError(ErrorCode.CORRUPT_MESSAGE, f"compression type {header.compression} is unknown")
    return header


def _check_header(header: BatchHeader) -> None:
    if header.base_offset != 0:
        problem = f"its base offset is {header.base_offset}, expected 0"
    elif header.records_count <= 0:
        problem = f"it has {header.records_count} records"
    elif header.records_count != header.last_offset_delta + 1:
        problem = f"it has {header.records_count} records, but offsets for {header.last_offset_delta + 1}"
    elif header.is_control:
        problem = "clients may not write control records"
    elif header.is_log_append_time:
        problem = "clients may not set the log append time"
    elif header.producer_id != NO_PRODUCER_ID and header.base_sequence < 0:
        problem = f"sequence {header.base_sequence} with producer id {header.producer_id}"
    elif header.is_transactional:
        raise BrokerError(ErrorCode.INVALID_TXN_STATE, f"producer {header.producer_id} has no open transaction")
    else:
        return
    raise BrokerError(ErrorCode.INVALID_RECORD, f"the record batch is invalid: {problem}")


def _check_records(records: Buffer, header: BatchHeader, config: LogConfig, now_ms: int) -> None:
    """Check the records: consecutive offsets, timestamps within bounds, keys if the topic is compacted."""
    try:
        columns = next(walk(records, False)).columns()
    except DecodeError as error:
        raise BrokerError(ErrorCode.CORRUPT_MESSAGE, str(error)) from error
    if columns.offsets != _consecutive_offsets(header.records_count):
        raise BrokerError(ErrorCode.INVALID_RECORD, "the record batch is invalid: its offsets are not consecutive")
    if config.is_compacted and columns.keys.validity is not None:
        without = [number for number in range(columns.count) if columns.keys.at(number) is None]
        bad = [(number, "records of a compacted topic must have a key") for number in without]
        raise InvalidBatch(ErrorCode.INVALID_RECORD, "One or more records have been rejected", bad)
    if not config.is_log_append_time:
        _check_timestamps(memoryview(columns.timestamps).cast("q"), config, now_ms)


def _check_timestamps(timestamps: Sequence[int], config: LogConfig, now_ms: int) -> None:
    latest, earliest = now_ms + config.timestamp_after_max_ms, now_ms - config.timestamp_before_max_ms
    # Checking each record costs more than all other checks together; usually the extremes suffice.
    if max(timestamps) <= latest and (earliest <= NO_TIMESTAMP or min(timestamps) >= earliest):
        return
    bad = [
        (number, f"timestamp {timestamp}, expected {earliest} to {latest}")
        for number, timestamp in enumerate(timestamps)
        if not earliest <= timestamp <= latest and timestamp != NO_TIMESTAMP
    ]
    if bad:
        raise InvalidBatch(
            ErrorCode.INVALID_TIMESTAMP, "One or more records have been rejected due to invalid timestamp", bad
        )


def _consecutive_offsets(count: int) -> bytes:
    """Return the offsets of a produced batch, encoded as in a column."""
    if count > _CACHED_OFFSETS:
        return array("q", range(count)).tobytes()
    return _cached_offsets()[: count * _INT64_BYTES]


@cache
def _cached_offsets() -> bytes:
    return array("q", range(_CACHED_OFFSETS)).tobytes()
