"""Check a produced batch: header, checksum and every record, in one call.

The checks, their order and their error codes are Kafka's. There are two exceptions, which are refused with
INVALID_RECORD: batches that Kafka would store although no reader could use them (records whose offsets do not count
from 0, compressed records of a wrong length), and empty batches, to which Kafka never responds.

Source: `ProduceRequest.validateRecords`, `UnifiedLog.analyzeAndValidateRecords`, `LogValidator` in Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, cast

from kafkawire.sdk.errors import BrokerError, DecodeError
from kafkawire.sdk.protocol.tables.enums import NO_TIMESTAMP
from kafkawire.sdk.protocol.tables.error_codes import ErrorCode
from kafkawire.sdk.protocol.tables.record_formats import (
    BATCH_BATCH_LENGTH_COUNTS_FROM,
    BATCH_COMPRESSION_MASK,
    BATCH_CRC_COVERS_FROM,
    BATCH_HEADER,
    BATCH_HEADER_BYTES,
    BATCH_IS_CONTROL_MASK,
    BATCH_IS_TRANSACTIONAL_MASK,
    BATCH_MAGIC,
    BATCH_MAGIC_AT,
    BATCH_PRODUCER_EPOCH_AT,
    BATCH_PRODUCER_ID_AT,
    BATCH_TIMESTAMP_TYPE_MASK,
    MESSAGE_V0_MAGIC,
    MESSAGE_V0_MIN_BYTES,
    Compression,
)
from kafkawire.sdk.protocol.values import Buffer
from kafkawire.sdk.records.buffers import bytes_of
from kafkawire.sdk.records.compression import decompress
from kafkawire.sdk.records.crc import crc32c_of_bytes
from kafkawire.sdk.records.engines import python_produced
from kafkawire.sdk.records.engines import selection as engines
from kafkawire.sdk.records.engines.python_produced import Times
from kafkawire.sdk.records.fields import packed
from kafkawire.sdk.records.java_integers import INT32_MAX

__all__ = [
    "RECORD_ERRORS_MAX",
    "InvalidBatch",
    "ProduceLimits",
    "ProducedBatch",
    "check_batch",
    "transactional_producer",
]

#: Maximum number of refused records named in a response: enough to diagnose a batch of any size, but few enough to keep
#: the response smaller than the batch.
RECORD_ERRORS_MAX = 1000

_BATCH_LENGTH = packed("RecordBatch", "batch_length")
_PRODUCER_ID = packed("RecordBatch", "producer_id")
_PRODUCER_EPOCH = packed("RecordBatch", "producer_epoch")
_MIN_LENGTH = MESSAGE_V0_MIN_BYTES - BATCH_BATCH_LENGTH_COUNTS_FROM
_CODECS = frozenset(Compression)


class ProduceLimits(NamedTuple):
    """A topic's requirements for batches.

    Attributes:
        max_bytes: the size of the largest batch, in bytes.
        needs_keys: whether each record must have a key.
        is_append_time: whether the broker sets the timestamps, in which case any timestamp is allowed.
        before_max_ms: how far in the past a timestamp may be.
        after_max_ms: how far in the future a timestamp may be.
    """

    max_bytes: int
    needs_keys: bool
    is_append_time: bool
    before_max_ms: int
    after_max_ms: int


class ProducedBatch(NamedTuple):
    """The header of an accepted batch, and the highest timestamp of its records.

    Attributes:
        size_bytes: the size of the batch, not counting bytes that follow it in the request.
        base_offset, partition_leader_epoch, magic, crc, attributes, last_offset_delta, base_timestamp, max_timestamp,
            producer_id, producer_epoch, base_sequence, records_count: see `schemas/records/record_batch.yaml`.
        highest_timestamp: the highest timestamp of the records; if the header states another, it must be corrected.
    """

    size_bytes: int
    base_offset: int
    partition_leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    records_count: int
    highest_timestamp: int


class InvalidBatch(BrokerError):
    """The broker refuses a batch because of some of its records.

    Args:
        code: the error code of the partition.
        detail: the reason.
        record_errors: (index in the batch, reason) for each invalid record.
    """

    def __init__(self, code: ErrorCode, detail: str, record_errors: Sequence[tuple[int, str]] = ()) -> None:
        super().__init__(code, detail)
        self.record_errors = record_errors


def check_batch(
    records: Buffer | None,
    limits: ProduceLimits,
    now_ms: int,
    *,
    allow_zstandard: bool = True,
    engine: str | None = None,
) -> ProducedBatch:
    """Check a partition's records in a produce request.

    Args:
        records: the field of the request.
        limits: the topic's requirements.
        now_ms: the current time.
        allow_zstandard: whether the version of the request allows Zstandard.
        engine: `native` or `python`; defaults to the engine in use.

    Raises:
        InvalidBatch: some of its records are refused.
        BrokerError: the whole batch is refused.
        TypeError: `records` is not a contiguous buffer.
    """
    native = engines.native if engine is None else engines.built if engine == "native" else None
    if native is not None and allow_zstandard and records:
        max_bytes, needs_keys, is_append_time, before_max_ms, after_max_ms = limits
        found = native.check_produced(
            records, max_bytes, needs_keys, is_append_time, now_ms, before_max_ms, after_max_ms
        )
        if found is not None:
            return ProducedBatch._make(found)
    view = bytes_of(records or b"")
    size = _checked_frame(view, allow_zstandard)
    if size < BATCH_PRODUCER_EPOCH_AT:  # Kafka reads the producer id before it checks the size
        raise BrokerError(ErrorCode.UNKNOWN_SERVER_ERROR, f"a record batch of {size} bytes has no producer id")
    return _checked(view[:size], limits, now_ms, native or python_produced)


def transactional_producer(records: Buffer | None) -> tuple[int, int] | None:
    """Return the producer's id and epoch if the first batch claims to be transactional; the batch is not checked.

    Args:
        records: the field of a partition in a produce request.
    """
    if records is None or len(records) < BATCH_HEADER_BYTES or records[BATCH_MAGIC_AT] != BATCH_MAGIC:
        return None
    if not records[BATCH_CRC_COVERS_FROM + 1] & BATCH_IS_TRANSACTIONAL_MASK:
        return None
    producer_id: int = _PRODUCER_ID.unpack_from(records, BATCH_PRODUCER_ID_AT)[0]
    producer_epoch: int = _PRODUCER_EPOCH.unpack_from(records, BATCH_PRODUCER_EPOCH_AT)[0]
    return producer_id, producer_epoch


def _checked_frame(view: memoryview, allow_zstandard: bool) -> int:
    """Return the size of the only batch, after checking the bytes that follow it."""
    size = _whole_size(view)
    if size is None:
        raise BrokerError(ErrorCode.INVALID_RECORD, "a produce request must have a record batch for each partition")
    if view[BATCH_MAGIC_AT] != BATCH_MAGIC:
        raise _invalid(f"it has magic {view[BATCH_MAGIC_AT]}, but {BATCH_MAGIC} is expected")
    codec = view[BATCH_CRC_COVERS_FROM + 1] & BATCH_COMPRESSION_MASK
    if codec == Compression.ZSTD and not allow_zstandard:
        raise BrokerError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, "this version of Produce does not allow Zstandard")
    if _whole_size(view[size:]) is not None:
        raise _invalid("a produce request must have only one for each partition")
    return size


def _whole_size(view: memoryview) -> int | None:
    """Return the size of the batch or message at the start, or None if it is partial."""
    if len(view) < BATCH_BATCH_LENGTH_COUNTS_FROM:
        return None
    (length,) = _BATCH_LENGTH.unpack_from(view, BATCH_BATCH_LENGTH_COUNTS_FROM - _BATCH_LENGTH.size)
    if length < _MIN_LENGTH:
        reason = f"the record batch has {length} bytes, but none has fewer than {_MIN_LENGTH}"
        raise BrokerError(ErrorCode.CORRUPT_MESSAGE, reason)
    if len(view) <= BATCH_MAGIC_AT:
        return None
    if view[BATCH_MAGIC_AT] > BATCH_MAGIC:
        reason = f"magic {view[BATCH_MAGIC_AT]} is unknown; expected {MESSAGE_V0_MAGIC} to {BATCH_MAGIC}"
        raise BrokerError(ErrorCode.CORRUPT_MESSAGE, reason)
    size: int = length + BATCH_BATCH_LENGTH_COUNTS_FROM
    if size > INT32_MAX:  # in Kafka this sum overflows
        raise BrokerError(
            ErrorCode.UNKNOWN_SERVER_ERROR, f"the record batch has {size} bytes, but the limit is {INT32_MAX}"
        )
    return size if size <= len(view) else None


def _checked(view: memoryview, limits: ProduceLimits, now_ms: int, engine: Any) -> ProducedBatch:
    if (base_offset := int.from_bytes(view[: BATCH_BATCH_LENGTH_COUNTS_FROM - _BATCH_LENGTH.size], "big")) != 0:
        raise _invalid(f"its base offset is {base_offset}, but 0 is expected")
    if len(view) > limits.max_bytes:
        reason = f"the record batch has {len(view)} bytes, but the topic allows {limits.max_bytes}"
        raise BrokerError(ErrorCode.MESSAGE_TOO_LARGE, reason)
    if len(view) < BATCH_HEADER_BYTES:
        reason = f"the record batch has {len(view)} bytes, but its header alone has {BATCH_HEADER_BYTES}"
        raise BrokerError(ErrorCode.CORRUPT_MESSAGE, reason)
    fields = BATCH_HEADER.unpack_from(view)
    batch = ProducedBatch._make((len(view), fields[0], *fields[2:], NO_TIMESTAMP))
    if crc32c_of_bytes(view[BATCH_CRC_COVERS_FROM:]) != batch.crc:
        raise BrokerError(ErrorCode.CORRUPT_MESSAGE, "the checksum of the record batch is wrong")
    if (codec := batch.attributes & BATCH_COMPRESSION_MASK) not in _CODECS:
        raise BrokerError(ErrorCode.UNKNOWN_SERVER_ERROR, f"unknown compression type {codec}")
    _check_header(batch)
    try:
        payload = decompress(Compression(codec), view[BATCH_HEADER_BYTES:])
    except DecodeError as error:
        raise BrokerError(ErrorCode.UNKNOWN_SERVER_ERROR, f"the records cannot be decompressed: {error}") from error
    return batch._replace(highest_timestamp=_check_records(batch, payload, limits, now_ms, engine))


def _check_header(batch: ProducedBatch) -> None:
    if batch.last_offset_delta < 0:
        raise _invalid(f"its last offset delta is {batch.last_offset_delta}, but must be at least 0")
    if batch.records_count <= 0:
        raise _invalid(f"it has {batch.records_count} records, but must have at least 1")
    if batch.records_count != batch.last_offset_delta + 1:
        raise _invalid(f"it has {batch.records_count} records, but its offsets are for {batch.last_offset_delta + 1}")
    if batch.attributes & BATCH_IS_CONTROL_MASK:
        raise _invalid("clients may not write control records")
    if batch.producer_id >= 0 and batch.base_sequence < 0:
        raise _invalid(f"it has producer id {batch.producer_id}, but its sequence is {batch.base_sequence}")


def _check_records(batch: ProducedBatch, payload: Buffer, limits: ProduceLimits, now_ms: int, engine: Any) -> int:
    """Check every record and return the highest timestamp."""
    is_append_time = bool(batch.attributes & BATCH_TIMESTAMP_TYPE_MASK)
    header = (batch.base_timestamp, batch.max_timestamp if is_append_time else None, batch.records_count)
    times = None if limits.is_append_time else (now_ms, limits.before_max_ms, limits.after_max_ms)
    found = engine.scan_records(payload, header, limits.needs_keys, times, RECORD_ERRORS_MAX)
    if found is None:
        raise _invalid(f"it does not hold exactly {batch.records_count} whole records")
    highest_timestamp, is_consecutive, bad = cast(python_produced.Found, found)
    # An append time set by the client is checked like the records' own timestamps, for which -1 is valid.
    is_set_by_client = is_append_time and (limits.is_append_time or batch.max_timestamp == NO_TIMESTAMP)
    if is_set_by_client:
        bad = list(range(min(batch.records_count, RECORD_ERRORS_MAX)))
    if bad:
        without_key: set[int] = set()
        if limits.needs_keys:
            without_key.update(engine.scan_records(payload, header, True, None, RECORD_ERRORS_MAX)[-1])
        raise _refused(bad, without_key, "producers may not set it" if is_set_by_client else _bounds(times))
    if not is_consecutive:
        # Kafka fails to rewrite such records if they are compressed. If they are not, it stores them, but no reader
        # could find them.
        code = ErrorCode.UNKNOWN_SERVER_ERROR if batch.attributes & BATCH_COMPRESSION_MASK else ErrorCode.INVALID_RECORD
        raise BrokerError(code, "the record batch is invalid: the offsets of its records do not count from 0")
    return highest_timestamp


def _refused(bad: list[int], without_key: set[int], expected: str) -> InvalidBatch:
    """Return the error for records without a key and records whose timestamps are refused."""
    errors = [
        (index, "records of a compacted topic must have a key" if index in without_key else f"timestamp: {expected}")
        for index in bad
    ]
    if without_key.issuperset(bad):
        return InvalidBatch(ErrorCode.INVALID_RECORD, "One or more records have been rejected", errors)
    detail = "One or more records have been rejected due to invalid timestamp"
    return InvalidBatch(ErrorCode.INVALID_TIMESTAMP, detail, errors)


def _bounds(times: Times | None) -> str:
    if times is None:
        return "any"
    now_ms, before_max_ms, after_max_ms = times
    return f"expected {now_ms - before_max_ms} to {now_ms + after_max_ms}"


def _invalid(problem: str) -> BrokerError:
    return BrokerError(ErrorCode.INVALID_RECORD, f"the record batch is invalid: {problem}")
