"""One record, in Python; the counterpart of the extension's `Record`.

Records and their values are immutable. Records with the same content are equal and have equal hashes, on every engine.
"""

from __future__ import annotations

from operator import index
from typing import TYPE_CHECKING, Any, Generic, NoReturn

from kafkawire.sdk.protocol.primitives import LIMITS
from kafkawire.sdk.protocol.tables.record_formats import TimestampType
from kafkawire.sdk.protocol.values import digits, quoted, shown
from kafkawire.sdk.records.type_variables import Key, Value

__all__ = [
    "TIMESTAMP_TYPES",
    "Headers",
    "Record",
    "check_record",
    "checked_field",
    "checked_place",
    "described",
    "new_record",
    "no_timestamp",
    "place_of_timestamp_type",
    "restored",
]

#: Names and values in wire order; names can repeat.
Headers = tuple[tuple[str, bytes | None], ...]

#: Maximum number of headers in the repr of a record.
_SHOWN_HEADERS = 5

#: The timestamp types in order of their numbers, followed by None.
TIMESTAMP_TYPES = (TimestampType.CREATE_TIME, TimestampType.LOG_APPEND_TIME, None)

_INT32, _INT64 = LIMITS["int32"], LIMITS["int64"]


class _Fields(Generic[Key, Value]):
    """The fields of a record while they are being set."""

    __slots__ = (
        "headers",
        "key",
        "offset",
        "partition",
        "sequence",
        "timestamp_ms",
        "timestamp_type",
        "topic",
        "value",
    )

    def __init__(
        self,
        offset: int,
        timestamp_ms: int,
        key: Key | None,
        value: Value | None,
        headers: Headers,
        sequence: int,
        topic: str,
        partition: int,
        timestamp_type: TimestampType | None,
    ) -> None:
        self.offset = offset
        self.timestamp_ms = timestamp_ms
        self.key = key
        self.value = value
        self.headers = headers
        self.sequence = sequence
        self.topic = topic
        self.partition = partition
        self.timestamp_type = timestamp_type


class Record(_Fields[Key, Value]):
    """A record of a topic, or of a batch; it is read-only and hashable.

    Key and value are bytes, or the results of a consumer's deserializers, as in `Record[str, Order]`.

    Attributes:
        offset: its offset in the partition, int64.
        timestamp_ms: milliseconds since the epoch, int64; -1 if it has none.
        key: None if it has none.
        value: None for a tombstone.
        headers: (name, value) in order; names can repeat, and a value can be None.
        sequence: the producer's sequence number, int32; -1 without idempotence.
        topic: the topic that it was read from; empty if unknown.
        partition: the partition that it was read from, int32; -1 if unknown.
        timestamp_type: who set the timestamp: CREATE_TIME (the producer) or LOG_APPEND_TIME (the broker); None where
            the format has no timestamps (magic 0).

    Raises:
        TypeError: an argument has the wrong type.
        OverflowError: a number does not fit its field.
        AttributeError: an attribute is set.
    """

    __slots__ = ()

    def __new__(
        cls,
        offset: int,
        timestamp_ms: int,
        key: bytes | None,
        value: bytes | None,
        headers: Headers = (),
        sequence: int = -1,
        topic: str = "",
        partition: int = -1,
        timestamp_type: TimestampType | None = TimestampType.CREATE_TIME,
    ) -> Record[bytes, bytes]:
        check_record(key, value, headers, topic)
        return new_record(
            checked_field("offset", offset, *_INT64),
            checked_field("timestamp_ms", timestamp_ms, *_INT64),
            key,
            value,
            headers,
            checked_field("sequence", sequence, *_INT32),
            topic,
            checked_field("partition", partition, *_INT32),
            TIMESTAMP_TYPES[place_of_timestamp_type(timestamp_type)],
        )

    def __init__(self, *arguments: object, **keywords: object) -> None:
        """Do nothing: `__new__` has set all fields."""

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"{name}: a record is read-only")

    if not TYPE_CHECKING:  # type checkers do not accept a property here

        @property
        def __class__(self):
            """The record class in use, so even with the extension, deserialized records are instances of it."""
            return _record_in_use()

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"{name}: a record is read-only")

    if not TYPE_CHECKING:  # the type checker's own error names the attribute

        @property
        def timestamp(self) -> NoReturn:
            no_timestamp()

    def __eq__(self, other: object) -> bool:
        try:
            return _content(self) == _content(other)  # type: ignore[arg-type]  # a record of any engine
        except AttributeError:
            return NotImplemented

    def __hash__(self) -> int:
        return hash(_content(self))

    def __repr__(self) -> str:
        return described(self)

    def __reduce__(self) -> tuple[object, tuple[object, ...]]:
        return restored, _content(self)


def new_record(
    offset: int,
    timestamp_ms: int,
    key: Key | None,
    value: Value | None,
    headers: Headers,
    sequence: int,
    topic: str,
    partition: int,
    timestamp_type: TimestampType | None,
) -> Record[Key, Value]:
    """Return a record without checking the types of its fields, which were just decoded or deserialized."""
    fields: Any = _Fields(offset, timestamp_ms, key, value, headers, sequence, topic, partition, timestamp_type)
    fields.__class__ = Record
    record: Record[Key, Value] = fields
    return record


def restored(*content: Any) -> Record:
    """Recreate a copied or unpickled record as a record of the engine in use."""
    if not all(isinstance(each, bytes | None) for each in content[2:4]):
        return new_record(*content)  # deserialized
    return _record_in_use()(*content)


def _record_in_use() -> type[Record]:
    """Return the record class of the engine in use."""
    from kafkawire.sdk.records.engines.selection import native  # not needed to import a record

    return Record if native is None else native.Record


def described(record: Record[Any, Any]) -> str:
    """Return a record's repr, in which long values are shortened and only the first headers are shown."""
    place = f"topic={shown(record.topic)}, partition={record.partition}, " if record.topic else ""
    headers = [f"({shown(name)}, {shown(value)})" for name, value in record.headers[:_SHOWN_HEADERS]]
    if len(record.headers) > _SHOWN_HEADERS:
        headers.append(f"… {len(record.headers) - _SHOWN_HEADERS} more")
    kind = record.timestamp_type
    by = "" if kind is TimestampType.CREATE_TIME else f", timestamp_type={kind and kind.name}"
    return (
        f"Record({place}offset={record.offset}, timestamp_ms={record.timestamp_ms}, key={shown(record.key)}, "
        f"value={shown(record.value)}, headers=({', '.join(headers)}{',' * (len(headers) == 1)}), "
        f"sequence={record.sequence}{by})"
    )


def check_record(key: object, value: object, headers: object, topic: object) -> None:
    """Refuse values that a record cannot hold.

    Raises:
        TypeError: a value has the wrong type; the error names the argument.
    """
    for name, content in (("key", key), ("value", value)):
        if content is not None and not isinstance(content, bytes):
            raise TypeError(f"{name}: expected bytes or None, got {type(content).__name__}")
    if type(topic) is not str:
        raise TypeError(f"topic: expected str, got {type(topic).__name__}")
    if type(headers) is not tuple:
        raise TypeError(f"headers: expected a tuple, got {type(headers).__name__}")
    for header in headers:
        is_pair = type(header) is tuple and len(header) == 2
        if not is_pair or type(header[0]) is not str or not isinstance(header[1], bytes | None):
            raise TypeError(f"headers: expected tuples of str and bytes or None, got {quoted(header)}")


def no_timestamp() -> NoReturn:
    """Raise an error that names the right attribute; in other clients, its name lacks the unit."""
    raise AttributeError("timestamp: a record has timestamp_ms, milliseconds since the epoch, and timestamp_type")


def checked_field(name: str, value: object, low: int, high: int) -> int:
    """Check that a number fits the record's field, and return it.

    Raises:
        TypeError: the value is not an integer.
        OverflowError: the number is outside the limits.
    """
    try:
        number = value if type(value) is int else int.__int__(index(value))  # type: ignore[arg-type]  # the call checks
    except TypeError:
        raise TypeError(f"{name}: expected an integer, got {quoted(value)} of {type(value).__name__}") from None
    if not low <= number <= high:
        raise OverflowError(f"{name}: {digits(number)} is not within {low} and {high}")
    return number


def place_of_timestamp_type(value: object) -> int:
    """Return the index of a timestamp type in `TIMESTAMP_TYPES`.

    Raises:
        TypeError: the type is neither a number nor None.
        OverflowError: the type does not exist.
    """
    if value is None:
        return len(TimestampType)
    return checked_field("timestamp_type", value, min(TimestampType), max(TimestampType))


def checked_place(topic: object, partition: object) -> int:
    """Check that a record can hold both topic and partition, and return the partition's number.

    Raises:
        TypeError: a value has the wrong type.
        OverflowError: the partition is not an int32.
    """
    check_record(None, None, (), topic)
    return checked_field("partition", partition, *_INT32)


def _content(record: Record[Any, Any]) -> tuple[object, ...]:
    return (
        record.offset, record.timestamp_ms, record.key, record.value, record.headers, record.sequence, record.topic,
        record.partition, record.timestamp_type,
    )  # fmt: skip
