"""The checks of a produced batch against the topic's configuration before it is appended.

Source: `UnifiedLog.append`, `DefaultRecordBatch.setMaxTimestamp` in Apache Kafka.
"""

from __future__ import annotations

from kafkawire.reference_broker.config.topic_configs import LogConfig
from kafkawire.reference_broker.storage.batches import BatchHeader, parse_header
from kafkawire.sdk.errors import BrokerError
from kafkawire.sdk.protocol.schema import Buffer
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.protocol.tables.record_formats import TimestampType
from kafkawire.sdk.records import RecordBatch, recompress, set_max_timestamp
from kafkawire.sdk.records.produced import check_batch

__all__ = ["validate"]


def validate(
    records: Buffer | None, config: LogConfig, now_ms: int, *, allow_zstandard: bool
) -> tuple[bytearray | memoryview, BatchHeader]:
    """Check the records for one partition in a produce request.

    Args:
        records: the records field of the request.
        config: the log's configuration.
        now_ms: the current time.
        allow_zstandard: whether the version of the request allows Zstandard.

    Returns:
        The batch in writable memory, copied only if it was read-only or is recompressed, and its header.

    Raises:
        InvalidBatch: some of its records are rejected.
        BrokerError: the batch is rejected.
    """
    limits = config.produce_limits
    checked = check_batch(records, limits, now_ms, allow_zstandard=allow_zstandard)
    data = _writable(records or b"", checked.size_bytes)
    header, highest_timestamp = BatchHeader(0, *checked[:-1]), checked.highest_timestamp
    if config.compression is not None and config.compression != header.compression:
        data = recompress(RecordBatch(data), config.compression, config.compression_level)
        header = parse_header(data)
        if header.size_bytes > limits.max_bytes:
            reason = f"the record batch has {header.size_bytes} bytes with the compression that the topic requires"
            raise BrokerError(ErrorCode.MESSAGE_TOO_LARGE, f"{reason}, but the topic allows {limits.max_bytes}")
    if header.size_bytes > config.segment_bytes:
        reason = (
            f"the record batch has {header.size_bytes} bytes, but the topic limits segments to {config.segment_bytes}"
        )
        raise BrokerError(ErrorCode.RECORD_LIST_TOO_LARGE, reason)
    if not config.is_log_append_time and (header.is_log_append_time or header.max_timestamp != highest_timestamp):
        set_max_timestamp(data, TimestampType.CREATE_TIME, highest_timestamp)
        header = parse_header(data)
    return data, header


def _writable(records: Buffer, size: int) -> bytearray | memoryview:
    """Return the batch without trailing bytes, copying it only if its memory is read-only."""
    if isinstance(records, bytes) or (isinstance(records, memoryview) and records.readonly):
        return bytearray(memoryview(records)[:size])
    return records if len(records) == size else memoryview(records)[:size]
