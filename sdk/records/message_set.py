"""Read messages of magic 0 and 1, as written by clients before Kafka 0.11; `message_set_builder.py` builds them.

An uncompressed message is one record. A compressed one is a wrapper: its value holds a message set, and its offset is
that of the last message in the set. In magic 1, the offsets inside a wrapper are relative, and the timestamp of a
wrapper with log append time applies to all its messages. A partial message at the end of a wrapper is ignored, as in
Kafka; the wrapper's checksum proves that it was written that way.

Source: `AbstractLegacyRecordBatch`, `LegacyRecord` in Apache Kafka; KIP-31, KIP-32.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple
from zlib import crc32

from kafkawire.sdk.errors import DecodeError
from kafkawire.sdk.protocol.tables.enums import (
    NO_PARTITION_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
)
from kafkawire.sdk.protocol.tables.record_formats import (
    MESSAGE_V0_COMPRESSION_MASK,
    MESSAGE_V0_CRC_COVERS_FROM,
    MESSAGE_V0_HEADER,
    MESSAGE_V0_HEADER_BYTES,
    MESSAGE_V0_MAGIC,
    MESSAGE_V0_MESSAGE_SIZE_AT,
    MESSAGE_V0_MESSAGE_SIZE_COUNTS_FROM,
    MESSAGE_V0_MIN_BYTES,
    MESSAGE_V1_HEADER,
    MESSAGE_V1_HEADER_BYTES,
    MESSAGE_V1_MAGIC,
    MESSAGE_V1_TIMESTAMP_TYPE_MASK,
    Compression,
    TimestampType,
)
from kafkawire.sdk.protocol.values import Buffer
from kafkawire.sdk.records.buffers import bytes_of, size_of
from kafkawire.sdk.records.compression import decompress
from kafkawire.sdk.records.engines.python_record import checked_place
from kafkawire.sdk.records.fields import compressions, packed
from kafkawire.sdk.records.java_integers import int64
from kafkawire.sdk.records.limits import MAX_DECOMPRESSED_BYTES
from kafkawire.sdk.records.record import Record

if TYPE_CHECKING:
    import pyarrow

    from kafkawire.sdk.records.columns import Columns

__all__ = ["CheckedRecord", "MessageBatch"]

_MESSAGE_SIZE = packed("MessageV0", "message_size")
_CONTENT_SIZE = packed("MessageV0", "value")
#: zstd is newer than these formats.
_COMPRESSIONS = compressions("MessageV1")
#: Number of bytes that a message's size field does not include: those of the offset and of the field itself.
_UNCOUNTED = MESSAGE_V0_MESSAGE_SIZE_COUNTS_FROM


class _Message(NamedTuple):
    """One message in a buffer, `data`; `timestamp` is its own, -1 in magic 0; `value` begins at `value_at`."""

    data: memoryview
    offset: int
    magic: int
    attributes: int
    timestamp: int
    key: bytes | None
    value: memoryview | None
    value_at: int


class CheckedRecord(NamedTuple):
    """A record, the checksum of its message, and whether the checksum is correct."""

    record: Record
    crc: int
    is_valid: bool


class _MessageSet:
    """The messages inside a wrapper, read again for each iteration."""

    def __init__(self, content: bytes) -> None:
        self._content = content

    def __iter__(self) -> Iterator[_Message]:
        return _messages(self._content)


class MessageBatch:
    """An outer message: a single record, or a compressed wrapper of many.

    It has the attributes of `RecordBatch`, so code that walks over batches need not check the magic; attributes that
    the old formats lack have the values that mean "none". A copied or unpickled batch owns its bytes and has position
    0.

    Args:
        buffer: holds the message; it is not copied.
        position: where the message begins, in bytes.
        limit: the maximum size of a wrapper's decompressed content, in bytes.

    Raises:
        DecodeError: the message is cut off, or is shorter than any message can be.
        TypeError: `buffer` is not a contiguous buffer, or position or limit is not an integer.
        OverflowError: position or limit does not fit 64 bits.
    """

    #: Fields that messages of magic 0 and 1 lack.
    partition_leader_epoch = NO_PARTITION_LEADER_EPOCH
    producer_id = NO_PRODUCER_ID
    producer_epoch = NO_PRODUCER_EPOCH
    base_sequence = NO_SEQUENCE
    last_sequence = NO_SEQUENCE
    is_transactional = False
    is_control = False
    delete_horizon_ms = None

    def __init__(self, buffer: Buffer, position: int = 0, limit: int = MAX_DECOMPRESSED_BYTES) -> None:
        position, limit = size_of(position), size_of(limit)
        view = bytes_of(buffer)
        if not 0 <= position <= len(view) - MESSAGE_V0_HEADER_BYTES:
            raise DecodeError(
                "message", position, f"{len(view) - position} bytes are left, which are too few for a message"
            )
        self.last_offset, self.message_size, self.crc, self.magic, self.attributes = MESSAGE_V0_HEADER.unpack_from(
            view, position
        )
        self.position = position
        self.limit = limit
        self.size_in_bytes: int = self.message_size + _UNCOUNTED
        if not MESSAGE_V0_MIN_BYTES <= self.size_in_bytes <= len(view) - position:
            reason = f"the message has {self.size_in_bytes} bytes, but at least {MESSAGE_V0_MIN_BYTES} are needed and "
            raise DecodeError("message_size", position, f"{reason}{len(view) - position} are left")
        self._view = view[position : position + self.size_in_bytes]
        self._base_offset_and_count: tuple[int, int] | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        return MessageBatch, (bytes(self._view), 0, self.limit)

    def __repr__(self) -> str:
        return f"<MessageBatch of magic {self.magic}, last offset {self.last_offset}>"

    @property
    def data(self) -> memoryview:
        """The whole message."""
        return self._view

    @property
    def next_offset(self) -> int:
        """The offset after the batch."""
        return int64(self.last_offset + 1)

    @property
    def base_offset(self) -> int:
        """The offset of the first record; a wrapper is decompressed once to find it.

        Raises:
            DecodeError: see `records`.
        """
        return self._measured()[0] if self.compression != Compression.NONE else self.last_offset

    @property
    def records_count(self) -> int:
        """The number of records; a wrapper is decompressed once to count them.

        Raises:
            DecodeError: see `records`.
        """
        return self._measured()[1] if self.compression != Compression.NONE else 1

    @property
    def max_timestamp(self) -> int:
        """The highest timestamp, from the outer message; -1 in magic 0."""
        if self.magic == MESSAGE_V0_MAGIC or self.size_in_bytes < MESSAGE_V1_HEADER_BYTES:
            return NO_TIMESTAMP
        return int(MESSAGE_V1_HEADER.unpack_from(self._view)[-1])

    @property
    def compression(self) -> Compression:
        """The compression of the messages inside.

        Raises:
            DecodeError: the compression number is unknown.
        """
        return _compression(self.attributes, self.position)

    @property
    def timestamp_type(self) -> TimestampType | None:
        """The timestamp type, which says who set the timestamps; None in magic 0, which has no timestamps."""
        if self.magic == MESSAGE_V0_MAGIC:
            return None
        is_append_time = self.attributes & MESSAGE_V1_TIMESTAMP_TYPE_MASK
        return TimestampType.LOG_APPEND_TIME if is_append_time else TimestampType.CREATE_TIME

    def check_crc(self) -> None:
        """Compare the checksum with the content; the messages inside a wrapper are not checked again.

        Raises:
            DecodeError: they differ.
        """
        computed = crc32(self._view[MESSAGE_V0_CRC_COVERS_FROM:])
        if computed != self.crc:
            raise DecodeError(
                "crc", self.position, f"the checksum is {self.crc:#010x}, but the content has {computed:#010x}"
            )

    def records(self, topic: str = "", partition: int = -1) -> list[Record]:
        """Return all records.

        Args:
            topic: set on each record.
            partition: set on each record.

        Raises:
            DecodeError: the message, or one inside it, is malformed.
            TypeError: topic or partition has the wrong type.
            OverflowError: the partition is not an int32.
        """
        partition = checked_place(topic, partition)
        records = [
            _record(message, offset, timestamp, topic, partition, self.timestamp_type)
            for message, offset, timestamp in self._found(is_kept=True)
        ]
        self._base_offset_and_count = (records[0].offset, len(records))
        return records

    def views(self) -> Iterator[Record]:
        """Yield the records in order, as `RecordBatch.views` does, keeping only one in memory.

        Raises:
            DecodeError: as `records`, when the iteration reaches the damage.
        """
        for message, offset, timestamp in self._found(is_kept=False):
            yield _record(message, offset, timestamp, "", -1, self.timestamp_type)

    def checked_records(self) -> Iterator[CheckedRecord]:
        """Yield the records in order, each with its own checksum, keeping only one in memory.

        Raises:
            DecodeError: as `records`, when the iteration reaches the damage.
        """
        for message, offset, timestamp in self._found(is_kept=False):
            crc = MESSAGE_V0_HEADER.unpack_from(message.data)[2]
            is_valid = crc32(message.data[MESSAGE_V0_CRC_COVERS_FROM:]) == crc
            yield CheckedRecord(_record(message, offset, timestamp, "", -1, self.timestamp_type), crc, is_valid)

    def columns(self) -> Columns:
        """Return the records as columns, as `RecordBatch.columns` does."""
        from kafkawire.sdk.records.columns import columns  # loaded only when columns are wanted

        return columns([self])

    def to_arrow(self) -> pyarrow.RecordBatch:
        """Return the records as an Arrow record batch, as `RecordBatch.to_arrow` does."""
        return self.columns().to_arrow()

    def _measured(self) -> tuple[int, int]:
        """Return the base offset and the number of records in a wrapper."""
        if self._base_offset_and_count is None:
            first, count = -1, 0
            for _, offset, _ in self._found(is_kept=False):
                first = offset if count == 0 else first
                count += 1
            self._base_offset_and_count = int64(first), count
        return self._base_offset_and_count

    def _found(self, is_kept: bool) -> Iterator[tuple[_Message, int, int]]:
        """Yield the messages (those in a wrapper, or the single one) with their offsets and timestamps.

        Args:
            is_kept: see `_unwrapped`.

        Raises:
            DecodeError: a message is malformed; the error has its position in the buffer.
        """
        compression = self.compression  # its error already states the position
        try:
            outer = _message(self._view)
            if compression == Compression.NONE:
                yield outer, outer.offset, outer.timestamp
            else:
                yield from self._unwrapped(outer, compression, is_kept)
        except struct.error:
            reason = f"the message of {self.size_in_bytes} bytes ends early"
            raise DecodeError("message", self.position, reason) from None
        except DecodeError as error:
            raise DecodeError(error.path, self.position + error.offset, error.reason) from None

    def _unwrapped(
        self, outer: _Message, compression: Compression, is_kept: bool
    ) -> Iterator[tuple[_Message, int, int]]:
        """Yield the messages in a wrapper, with their offsets and timestamps.

        Args:
            outer: the wrapper.
            compression: the compression of its value.
            is_kept: whether to read each message only once, keeping all of them in memory; otherwise, each is read
                twice.
        """
        if compression not in _COMPRESSIONS:
            name = compression.name.lower()
            raise DecodeError("attributes", 0, f"messages of magic {self.magic} are never compressed with {name}")
        if outer.value is None:
            raise DecodeError("value", 0, "a wrapper must have a value")
        try:
            content = decompress(compression, outer.value, self.limit, self.magic)
        except DecodeError as error:
            raise DecodeError(error.path, outer.value_at + error.offset, error.reason) from None
        try:
            inner = list(_MessageSet(content)) if is_kept else _MessageSet(content)
            ended = deque(inner, maxlen=1)
        except DecodeError as error:  # its offset is within the content, which is not in the caller's buffer
            raise DecodeError(error.path, 0, error.reason) from None
        if not ended:
            raise DecodeError("value", 0, "a wrapper must contain at least one message")
        (last,) = ended
        base_offset = 0
        # Some clients left the wrapper's offset at 0; its messages are then assumed to begin at 0.
        if self.magic == MESSAGE_V1_MAGIC and outer.offset != 0:
            base_offset = outer.offset - last.offset
            if base_offset < 0:
                reason = (
                    f"the wrapper with offset {outer.offset} holds a message with the relative offset {last.offset}"
                )
                raise DecodeError("offset", 0, reason)
        is_append_time = self.timestamp_type == TimestampType.LOG_APPEND_TIME
        for message in inner:
            if _compression(message.attributes, 0) != Compression.NONE:
                raise DecodeError("attributes", 0, "a message inside a wrapper is itself compressed")
            timestamp = outer.timestamp if is_append_time and message.magic == MESSAGE_V1_MAGIC else message.timestamp
            yield message, base_offset + message.offset, timestamp


def _messages(data: bytes) -> Iterator[_Message]:
    """Yield the whole messages in the set inside a wrapper; the caller adds positions to errors."""
    view = memoryview(data)
    position = 0
    while len(view) - position >= _UNCOUNTED:
        (size,) = _MESSAGE_SIZE.unpack_from(view, position + MESSAGE_V0_MESSAGE_SIZE_AT)
        end = position + size + _UNCOUNTED
        if size + _UNCOUNTED < MESSAGE_V0_MIN_BYTES:
            raise DecodeError("message_size", 0, f"{size} bytes inside a wrapper are too few for a message")
        if end > len(view):
            return
        yield _message(view[position:end])
        position = end


def _message(view: memoryview) -> _Message:
    """Read the message that fills `view`; raise struct.error if it is too short."""
    offset, _, _, magic, attributes = MESSAGE_V0_HEADER.unpack_from(view)
    timestamp = NO_TIMESTAMP
    position = MESSAGE_V0_HEADER_BYTES
    if magic != MESSAGE_V0_MAGIC:
        timestamp = MESSAGE_V1_HEADER.unpack_from(view)[-1]
        position = MESSAGE_V1_HEADER_BYTES
    key, position = _content(view, position, "key")
    value, _ = _content(view, position, "value")
    value_at = position + _CONTENT_SIZE.size
    return _Message(view, offset, magic, attributes, timestamp, None if key is None else bytes(key), value, value_at)


def _content(view: memoryview, position: int, path: str) -> tuple[memoryview | None, int]:
    (size,) = _CONTENT_SIZE.unpack_from(view, position)
    position += _CONTENT_SIZE.size
    if size < 0:
        return None, position
    if size > len(view) - position:
        raise DecodeError(path, position, f"the length is {size} bytes, but {len(view) - position} are left")
    return view[position : position + size], position + size


def _record(
    message: _Message, offset: int, timestamp: int, topic: str, partition: int, timestamp_type: TimestampType | None
) -> Record:
    value = None if message.value is None else bytes(message.value)
    kind = None if message.magic == MESSAGE_V0_MAGIC else timestamp_type  # a wrapper can be newer than its messages
    return Record(int64(offset), timestamp, message.key, value, (), NO_SEQUENCE, topic, partition, kind)


def _compression(attributes: int, position: int) -> Compression:
    number = attributes & MESSAGE_V0_COMPRESSION_MASK
    try:
        return Compression(number)
    except ValueError:
        raise DecodeError("attributes", position, f"compression {number} is not known") from None
