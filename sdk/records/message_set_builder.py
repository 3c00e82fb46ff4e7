"""Build messages of magic 0 and 1, individually or in a compressed wrapper.

It serves tests, and logs that clients older than Kafka 0.11 still read.

Source: `MemoryRecordsBuilder`, `LegacyRecord` in Apache Kafka; KIP-31 (relative offsets), KIP-32 (timestamps).
"""

from __future__ import annotations

from zlib import crc32

from kafkawire.sdk.errors import EncodeError
from kafkawire.sdk.protocol.primitives import LIMITS
from kafkawire.sdk.protocol.tables.enums import (
    NO_TIMESTAMP,
)
from kafkawire.sdk.protocol.tables.record_formats import (
    MESSAGE_V0_CRC_AT,
    MESSAGE_V0_CRC_COVERS_FROM,
    MESSAGE_V0_HEADER,
    MESSAGE_V0_HEADER_BYTES,
    MESSAGE_V0_MAGIC,
    MESSAGE_V0_MESSAGE_SIZE_COUNTS_FROM,
    MESSAGE_V1_MAGIC,
    MESSAGE_V1_TIMESTAMP_TYPE_MASK,
    Compression,
    TimestampType,
)
from kafkawire.sdk.protocol.values import Buffer, digits
from kafkawire.sdk.records.compression import compress
from kafkawire.sdk.records.engines.shared_arguments import (
    checked_compression,
    checked_content,
    checked_number,
    checked_time,
    checked_timestamp_type,
    whole_number,
)
from kafkawire.sdk.records.fields import compressions, packed
from kafkawire.sdk.records.java_integers import INT32_MAX

__all__ = ["MessageSetBuilder"]

_CHECKSUM = packed("MessageV0", "crc")
_TIMESTAMP = packed("MessageV1", "timestamp")
_CONTENT_SIZE = packed("MessageV0", "value")
_NULL_SIZE = -1
#: zstd is newer than these formats.
_COMPRESSIONS = compressions("MessageV1")
_INT64_MIN, _INT64_MAX = LIMITS["int64"]


class MessageSetBuilder:
    """A growing message set of magic 0 or 1, for one thread at a time.

    Args:
        magic: 0 or 1.
        compression: a compression type that the format supports; if set, all messages go into a wrapper.
        level: the compression level (see `compress`).
        timestamp_type: who sets the timestamps in magic 1.
        log_append_time: the timestamp with LOG_APPEND_TIME, ms since the epoch; -1 for none.
        base_offset: the offset of the first record; at least 0 in a wrapper of magic 1, whose offsets are relative.

    Raises:
        EncodeError: the format does not support an argument, or a number does not fit its field.
    """

    def __init__(
        self,
        magic: int,
        compression: Compression = Compression.NONE,
        *,
        level: int | None = None,
        timestamp_type: TimestampType = TimestampType.CREATE_TIME,
        log_append_time: int = NO_TIMESTAMP,
        base_offset: int = 0,
    ) -> None:
        self.magic = whole_number("magic", magic)
        if self.magic not in (MESSAGE_V0_MAGIC, MESSAGE_V1_MAGIC):
            reason = f"expected {MESSAGE_V0_MAGIC} or {MESSAGE_V1_MAGIC} for a message set, got {digits(self.magic)}"
            raise EncodeError("magic", reason)
        self.compression = checked_compression(compression, level)
        if self.compression not in _COMPRESSIONS:
            raise EncodeError("compression", f"{self.compression.name.lower()} is not supported with magic {magic}")
        self.level = level
        self.timestamp_type = checked_timestamp_type(timestamp_type)
        self.log_append_time = checked_number("log_append_time", log_append_time, NO_TIMESTAMP, _INT64_MAX)
        self._is_relative = self.magic == MESSAGE_V1_MAGIC and self.compression != Compression.NONE
        # Readers refuse or misread a wrapper whose offsets begin below 0.
        self.base_offset = checked_number(
            "base_offset", base_offset, 0 if self._is_relative else _INT64_MIN, _INT64_MAX
        )
        self.count = 0
        self._messages = bytearray()
        self._last_offset: int | None = None
        self._max_timestamp = NO_TIMESTAMP

    def append(self, timestamp_ms: int, key: Buffer | None, value: Buffer | None) -> int:
        """Add a record after the last one and return its offset relative to the set.

        Raises:
            EncodeError: see `append_at`.
        """
        offset = self.base_offset if self._last_offset is None else self._last_offset + 1
        return self.append_at(offset, timestamp_ms, key, value)

    def append_at(self, offset: int, timestamp_ms: int, key: Buffer | None, value: Buffer | None) -> int:
        """Add a record with a given offset, which must be greater than the last one.

        Args:
            offset: in the partition, at least `base_offset`.
            timestamp_ms: ms since the epoch, -1 for none; not written in magic 0.
            key: None for none.
            value: None for a tombstone.

        Returns:
            The record's offset relative to the set.

        Raises:
            EncodeError: a number does not fit, or the offset is not higher than the last one.
        """
        offset = checked_number("offset", offset, _INT64_MIN, _INT64_MAX)
        last_offset = self.base_offset - 1 if self._last_offset is None else self._last_offset
        if offset <= last_offset:
            raise EncodeError("offset", f"{offset} does not follow {last_offset}, but offsets must increase")
        timestamp = checked_time(timestamp_ms)
        if self.timestamp_type == TimestampType.LOG_APPEND_TIME:
            timestamp = self.log_append_time
        written = offset - self.base_offset if self._is_relative else offset
        self._messages += self._message(written, Compression.NONE, timestamp, key, value)
        self._last_offset = offset
        self._max_timestamp = max(self._max_timestamp, timestamp)
        self.count += 1
        return offset - self.base_offset

    def build(self) -> bytes:
        """Return the message set, empty if it has no records.

        Raises:
            EncodeError: the wrapper is larger than a message can be.
        """
        if self._last_offset is None or self.compression == Compression.NONE:
            return bytes(self._messages)
        content = compress(self.compression, self._messages, self.level, self.magic)
        is_append_time = self.timestamp_type == TimestampType.LOG_APPEND_TIME
        timestamp = self.log_append_time if is_append_time else self._max_timestamp
        return self._message(self._last_offset, self.compression, timestamp, None, content)

    def _message(
        self, offset: int, compression: Compression, timestamp: int, key: Buffer | None, value: Buffer | None
    ) -> bytes:
        attributes = int(compression)
        if self.magic == MESSAGE_V1_MAGIC and self.timestamp_type == TimestampType.LOG_APPEND_TIME:
            attributes |= MESSAGE_V1_TIMESTAMP_TYPE_MASK
        content = b"".join((_sized(key, "key"), _sized(value, "value")))
        stamp = _TIMESTAMP.pack(timestamp) if self.magic == MESSAGE_V1_MAGIC else b""
        size = MESSAGE_V0_HEADER_BYTES - MESSAGE_V0_MESSAGE_SIZE_COUNTS_FROM + len(stamp) + len(content)
        if size > INT32_MAX:
            raise EncodeError("message", f"there are {size} bytes, but no message has more than {INT32_MAX}")
        header = MESSAGE_V0_HEADER.pack(offset, size, 0, self.magic, attributes)
        message = bytearray(header + stamp + content)
        _CHECKSUM.pack_into(message, MESSAGE_V0_CRC_AT, crc32(memoryview(message)[MESSAGE_V0_CRC_COVERS_FROM:]))
        return bytes(message)


def _sized(value: Buffer | None, path: str) -> bytes:
    """Return bytes preceded by their int32 length, which is -1 for None."""
    if value is None:
        return _CONTENT_SIZE.pack(_NULL_SIZE)
    content = checked_content(path, value)
    if len(content) > INT32_MAX:
        raise EncodeError(path, f"there are {len(content)} bytes, but at most {INT32_MAX} are allowed")
    return _CONTENT_SIZE.pack(len(content)) + content
