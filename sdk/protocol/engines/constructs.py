"""Kafka's types as constructs: the words of the declarative form.

Each class reads and writes as the protocol says and nothing more, in plain words: it is the oracle of the faster
engines, and its errors carry the path and offset that theirs must equal. Streams must be able to seek.

Source: Kafka protocol guide, "Protocol Primitive Types"; KIP-482 for the compact and tagged encodings.
"""

from __future__ import annotations

import io
import operator
import struct
from collections.abc import Mapping
from typing import Any, BinaryIO, NamedTuple

from construct import Construct, Container, Struct, Subconstruct

from kafkawire.sdk.errors import DecodeError, EncodeError, UnsupportedVersion
from kafkawire.sdk.protocol.layout import absent_fields
from kafkawire.sdk.protocol.primitives import (
    BOOLEANS,
    FIXED,
    LIMITS,
    MALFORMED_UTF8,
    MAX_LENGTH,
    MAX_STRING_BYTES,
    Refused,
    as_buffer,
    as_sequence,
    as_string,
    as_tags,
    as_uuid,
    is_default,
    records_size,
    reject_null,
    short,
    too_many,
)
from kafkawire.sdk.protocol.schema import Message

__all__ = [
    "Array",
    "Bool",
    "Bytes",
    "CompactArray",
    "CompactBytes",
    "CompactNullableArray",
    "CompactNullableBytes",
    "CompactNullableRecords",
    "CompactNullableString",
    "CompactRecords",
    "CompactString",
    "Float64",
    "Int8",
    "Int16",
    "Int32",
    "Int64",
    "Leaf",
    "Note",
    "NullableArray",
    "NullableBytes",
    "NullableRecords",
    "NullableString",
    "NullableStructure",
    "Number",
    "RecordSet",
    "Records",
    "Sized",
    "Span",
    "String",
    "Structure",
    "TaggedFields",
    "TaggedNullableStructure",
    "Text",
    "UInt16",
    "UInt32",
    "UnsignedVarint",
    "Uuid",
    "Varint",
    "new_context",
]


class Span(NamedTuple):
    """Some bytes of a message and what they are.

    Attributes:
        offset: where they begin, in bytes from the start of the buffer.
        length: how many they are.
        path: the field, as `topics[3].partitions[0].index`.
        value: the value, or a `Note` for bytes that are no value of their own: a count, a null marker, a tag.
    """

    offset: int
    length: int
    path: str
    value: Any


class Note(str):
    """What bytes mean that hold no value, as `3 elements`; its `repr` has no quotes."""

    __slots__ = ()
    __repr__ = str.__str__


def new_context(**parameters: Any) -> Container:
    """Return a context as construct's own entry points make it, with parameters that the leaves look for.

    Args:
        parameters: `spans`, a list that takes a `Span` of everything read; `view`, a memoryview of the stream's
        content, of
            which `records` are cut; `apart` and `threshold`, a list that takes the `records` that are not copied, as
            (position, value), and the size in bytes from which they are not.
    """
    context = Container(**parameters)
    context._params = context
    context._root = None
    context._parsing = context._building = context._sizing = False
    return context


class Leaf(Construct):
    """A value without parts: subclasses read and write it, this class adds path and offset to their errors."""

    def read(self, stream: BinaryIO, context: Container) -> Any:
        """Return the next value; raise `Refused` if there is none."""
        raise NotImplementedError

    def write(self, value: Any, stream: BinaryIO, context: Container) -> None:
        """Write a value; raise `Refused` if it does not fit."""
        raise NotImplementedError

    def _parse(self, stream: BinaryIO, context: Container, path: str) -> Any:
        start = stream.tell()
        with _Reading(start, path):
            value = self.read(stream, context)
        _note(context, start, stream, path, value)
        return value

    def _build(self, obj: Any, stream: BinaryIO, context: Container, path: str) -> Any:
        with _Writing(path):
            self.write(obj, stream, context)
        return obj


class Number(Leaf):
    """A primitive of fixed size, big-endian; any byte but 0 is true."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind = kind
        self.format, self.size = ">" + FIXED[kind].format, FIXED[kind].size

    def read(self, stream: BinaryIO, context: Container) -> Any:
        return struct.unpack(self.format, _take(stream, self.size))[0]

    def write(self, value: Any, stream: BinaryIO, context: Container) -> None:
        stream.write(struct.pack(self.format, self._checked(value)))

    # construct's own method only raises, its type says so.
    def _sizeof(  # pyright: ignore[reportIncompatibleMethodOverride]  # see above
        self, context: Container, path: str
    ) -> int:
        return self.size

    def _checked(self, value: Any) -> Any:
        if self.kind == "uuid":
            return as_uuid(value)
        try:
            if self.kind == "bool":
                return BOOLEANS[value]
            if self.kind == "float64":
                return struct.unpack(">d", struct.pack(">d", value))[0]
            number = operator.index(value)
        except (TypeError, KeyError, struct.error, OverflowError):
            raise Refused(f"expected {self.kind}, got {type(value).__name__} {value!r:.60}") from None
        low, high = LIMITS[self.kind]
        if not low <= number <= high:
            raise Refused(f"{number} is outside {self.kind}, {low} to {high}")
        return number


class Varint(Leaf):
    """An unsigned varint of at most five bytes, read as Java reads it: wrapped to int32, the bits above dropped."""

    def read(self, stream: BinaryIO, context: Container) -> int:
        return _read_varint(stream)

    def write(self, value: int, stream: BinaryIO, context: Container) -> None:
        stream.write(_varint(value))


class Sized(Leaf):
    """A value behind its length: an unsigned varint of length + 1 in the compact form, else an int of `format`.

    Args:
        compact: whether the length is an unsigned varint; a null is then 0, else -1.
        nullable: whether a null is allowed.
    """

    format = ">i"

    def __init__(self, *, compact: bool = False, nullable: bool = False) -> None:
        super().__init__()
        self.compact, self.nullable = compact, nullable

    def read(self, stream: BinaryIO, context: Container) -> Any:
        length = _read_length(stream, self.format, self.compact, self.nullable)
        return None if length is None else self.content(length, stream, context)

    def write(self, value: Any, stream: BinaryIO, context: Container) -> None:
        if value is None and not self.nullable:
            raise Refused(reject_null())
        content = None if value is None else self.encoded(value)
        stream.write(_length_prefix(None if content is None else len(content), self.format, self.compact))
        stream.write(content or b"")

    def content(self, length: int, stream: BinaryIO, context: Container) -> Any:
        """Read a value of `length` bytes."""
        return _take(stream, length)

    def encoded(self, value: Any) -> Any:
        """Return the bytes of a value."""
        return as_buffer(value)


class Text(Sized):
    """A string: UTF-8 behind an int16 or compact length; what is malformed in it is replaced as Java does."""

    format = ">h"

    def content(self, length: int, stream: BinaryIO, context: Container) -> str:
        if length > MAX_STRING_BYTES:
            raise Refused(f"string of {length} bytes, at most {MAX_STRING_BYTES} allowed")
        return _take(stream, length).decode("utf-8", MALFORMED_UTF8)

    def encoded(self, value: Any) -> bytes:
        return as_string(value)


class RecordSet(Sized):
    """Record batches: bytes that are not copied, neither when read nor (large ones) when written."""

    def content(self, length: int, stream: BinaryIO, context: Container) -> Any:
        start = stream.tell()
        content = _take(stream, length)
        view = context._params.get("view")
        return memoryview(content) if view is None else view[start : start + length]

    def write(self, value: Any, stream: BinaryIO, context: Container) -> None:
        threshold = context._params.get("threshold")
        if value is None or threshold is None:
            super().write(value, stream, context)
            return
        try:
            buffer = as_buffer(value)
            size = len(buffer)
        except Refused:
            buffer, size = value, records_size(value)
            threshold = 0
        stream.write(_length_prefix(size, self.format, self.compact))
        if size >= threshold:
            context._params.apart.append((stream.tell(), buffer))
        else:
            stream.write(buffer)


Bool = Number("bool")
Int8 = Number("int8")
Int16 = Number("int16")
UInt16 = Number("uint16")
Int32 = Number("int32")
UInt32 = Number("uint32")
Int64 = Number("int64")
Float64 = Number("float64")
Uuid = Number("uuid")
UnsignedVarint = Varint()
String = Text()
NullableString = Text(nullable=True)
CompactString = Text(compact=True)
CompactNullableString = Text(compact=True, nullable=True)
Bytes = Sized()
NullableBytes = Sized(nullable=True)
CompactBytes = Sized(compact=True)
CompactNullableBytes = Sized(compact=True, nullable=True)
Records = RecordSet()
NullableRecords = RecordSet(nullable=True)
CompactRecords = RecordSet(compact=True)
CompactNullableRecords = RecordSet(compact=True, nullable=True)


class Array(Subconstruct):
    """Elements behind their int32 count; parsed to a tuple."""

    compact = False
    nullable = False

    def _parse(self, stream: BinaryIO, context: Container, path: str) -> Any:
        start = stream.tell()
        with _Reading(start, path):
            count = _read_length(stream, ">i", self.compact, self.nullable)
            if count is not None and count > _left(stream):
                raise Refused(too_many(count, _left(stream)))
        _note(context, start, stream, path, Note("null" if count is None else f"{count} elements"))
        if count is None:
            return None
        return tuple([self.subcon._parsereport(stream, context, f"{path}[{index}]") for index in range(count)])

    def _build(self, obj: Any, stream: BinaryIO, context: Container, path: str) -> Any:
        with _Writing(path):
            if obj is None and not self.nullable:
                raise Refused(reject_null())
            elements = None if obj is None else as_sequence(obj)
            stream.write(_length_prefix(None if elements is None else len(elements), ">i", self.compact))
        for index, element in enumerate(elements or ()):
            self.subcon._build(element, stream, context, f"{path}[{index}]")
        return obj


class NullableArray(Array):
    """An array that may be null: count -1."""

    nullable = True


class CompactArray(Array):
    """Elements behind an unsigned varint of their count + 1."""

    compact = True


class CompactNullableArray(CompactArray):
    """A compact array that may be null: 0."""

    nullable = True


class Structure(Subconstruct):
    """The fields of one version of a message class, parsed to and built from its instances.

    Args:
        cls: the message class.
        version: says which of its fields are absent; they must have their defaults, or be ignorable.
        fields: the fields on the wire, each with its name; tagged fields are the last, named `unknown_tags`.
    """

    def __init__(self, cls: type[Message], version: int, *fields: Construct) -> None:
        super().__init__(Struct(*fields))
        self.cls = cls
        self.version = version
        self.names = [str(field.name) for field in fields]
        self.absent = absent_fields(cls, version)

    def _parse(self, stream: BinaryIO, context: Container, path: str) -> Message:
        parsed = self.subcon._parsereport(stream, context, path)
        values = {name: parsed[name] for name in self.names}
        values.update(values.pop("unknown_tags", {}))
        return self.cls(**values)

    def _build(self, obj: Any, stream: BinaryIO, context: Container, path: str) -> Any:
        with _Writing(path):
            if type(obj) is not self.cls:
                raise Refused(
                    reject_null() if obj is None else f"expected {self.cls.__qualname__}, got {type(obj).__name__}"
                )
        self._check_absent(obj, path)
        values = {}
        for name in self.names:
            values[name] = obj if name == "unknown_tags" else _value(obj, name, path)
        self.subcon._build(values, stream, context, path)
        return obj

    def _check_absent(self, message: Message, path: str) -> None:
        for field in self.absent:
            if field.ignorable:
                continue
            value = _value(message, field.name, path)
            if not is_default(value, field.new_default()):
                where = f"{_dotted(path)}." if _dotted(path) else ""
                raise UnsupportedVersion(
                    f"{where}{field.name}: not in version {self.version} of {self.cls.__qualname__}, "
                    f"exists in {field.versions}"
                )
        if "unknown_tags" not in self.names:
            with _Writing(f"{path} -> unknown_tags"):
                if not is_default(_value(message, "unknown_tags", path), ()):
                    raise Refused(f"version {self.version} has no tagged fields")


class NullableStructure(Subconstruct):
    """A structure behind an int8: negative for null, anything else for present."""

    def _parse(self, stream: BinaryIO, context: Container, path: str) -> Any:
        start = stream.tell()
        with _Reading(start, path):
            present = self._read_marker(stream)
        _note(context, start, stream, path, Note("present" if present else "null"))
        return self.subcon._parsereport(stream, context, path) if present else None

    def _build(self, obj: Any, stream: BinaryIO, context: Container, path: str) -> Any:
        stream.write(self._marker(obj is not None))
        if obj is not None:
            self.subcon._build(obj, stream, context, path)
        return obj

    def _read_marker(self, stream: BinaryIO) -> bool:
        return _take(stream, 1)[0] < 128

    def _marker(self, present: bool) -> bytes:
        return b"\x01" if present else b"\xff"


class TaggedNullableStructure(NullableStructure):
    """A nullable structure as a tagged field: the marker is an unsigned varint, 0 for null."""

    def _read_marker(self, stream: BinaryIO) -> bool:
        return _read_varint(stream) > 0

    def _marker(self, present: bool) -> bytes:
        return b"\x01" if present else b"\x00"


class TaggedFields(Construct):
    """The count of tagged fields, then tag, size and content of each.

    Parses to the values of the known fields that were there and, as `unknown_tags`, the others; builds from the
    message. A known field is read by its type, whatever its size says, as Kafka does.

    Args:
        fields: the known fields by tag, each with its name.
    """

    def __init__(self, fields: Mapping[int, Construct]) -> None:
        super().__init__()
        self.fields = {tag: (str(field.name), field) for tag, field in fields.items()}

    def _parse(self, stream: BinaryIO, context: Container, path: str) -> dict[str, Any]:
        owner = path.rpartition(" -> ")[0]
        start = stream.tell()
        with _Reading(start, path):
            count = _read_varint(stream)
        _note(context, start, stream, path, Note(f"{count} tagged fields"))
        values: dict[str, Any] = {}
        unknown = []
        for _ in range(count):
            start = stream.tell()
            with _Reading(start, path):
                tag, size = _read_varint(stream), _read_varint(stream)
            if tag in self.fields:
                name, field = self.fields[tag]
                _note(context, start, stream, f"{owner} -> {name}", Note(f"tag {tag}, {size} bytes"))
                values[name] = field._parsereport(stream, context, owner)
                continue
            with _Reading(start, path):
                if size < 0:
                    raise Refused(f"tagged field of {size} bytes")
                unknown.append((tag, _take(stream, size)))
            _note(context, start, stream, path, unknown[-1])
        return {**values, "unknown_tags": tuple(unknown)}

    def _build(self, obj: Any, stream: BinaryIO, context: Container, path: str) -> Any:
        owner = path.rpartition(" -> ")[0]
        defaults = {field.name: field.default_value() for field in obj.FIELDS}
        with _Writing(path):
            present = dict(as_tags(_value(obj, "unknown_tags", owner), self.fields))
        for tag, (name, field) in self.fields.items():
            value = _value(obj, name, owner)
            if not is_default(value, defaults[name]):
                content = io.BytesIO()
                field._build(value, content, context, owner)
                present[tag] = content.getvalue()
        stream.write(_varint(len(present)))
        for tag in sorted(present):
            stream.write(_varint(tag) + _varint(len(present[tag])))
            stream.write(present[tag])
        return obj


class _Reading:
    """Turn a refused encoding into a DecodeError with path and offset."""

    def __init__(self, offset: int, path: str) -> None:
        self.offset, self.path = offset, path

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: BaseException | None, traceback: Any) -> None:
        if isinstance(error, Refused):
            raise DecodeError(_dotted(self.path), self.offset, str(error)) from None


class _Writing:
    """Turn a refused value into an EncodeError with its path."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: BaseException | None, traceback: Any) -> None:
        if isinstance(error, Refused):
            raise EncodeError(_dotted(self.path), str(error)) from None


def _note(context: Container, start: int, stream: BinaryIO, path: str, value: Any) -> None:
    spans = context._params.get("spans")
    if spans is not None:
        spans.append(Span(start, stream.tell() - start, _dotted(path), value))


def _dotted(path: str) -> str:
    """Return construct's path, `(parsing) -> topics[3] -> name`, as `topics[3].name`."""
    return ".".join(path.split(" -> ")[1:])


def _value(message: Message, name: str, path: str) -> Any:
    try:
        return getattr(message, name)
    except AttributeError:
        where = _dotted(f"{path} -> {name}")
        raise EncodeError(where, "not set") from None


def _left(stream: BinaryIO) -> int:
    here = stream.tell()
    end = stream.seek(0, io.SEEK_END)
    stream.seek(here)
    return max(0, end - here)


def _take(stream: BinaryIO, size: int) -> bytes:
    # Compared before reading: a declared size must not make the stream reserve memory.
    left = _left(stream)
    if size > left:
        raise Refused(short(size, left))
    return stream.read(size)


def _read_varint(stream: BinaryIO) -> int:
    value = 0
    for shift in range(0, 35, 7):
        byte = _take(stream, 1)[0]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            value &= 0xFFFFFFFF
            return value - 2**32 if value >= 2**31 else value
    raise Refused("unsigned varint of more than 5 bytes")


def _varint(value: int) -> bytes:
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def _read_length(stream: BinaryIO, format: str, compact: bool, nullable: bool) -> int | None:
    if compact:
        length = _read_varint(stream) - 1
        if length < -(2**31):  # int32 arithmetic wraps
            length += 2**32
    else:
        length = struct.unpack(format, _take(stream, struct.calcsize(format)))[0]
    if length >= 0:
        return length
    if not nullable:
        raise Refused(reject_null(length))
    return None


def _length_prefix(length: int | None, format: str, compact: bool) -> bytes:
    if length is not None and length > MAX_LENGTH:
        raise Refused(f"length {length}, at most {MAX_LENGTH} allowed")
    if compact:
        return _varint(0 if length is None else length + 1)
    return struct.pack(format, -1 if length is None else length)
