"""Kafka's primitive types as constructs; `construct_structures.py` combines them.

Each class implements the protocol guide in the plainest way. Tests compare the faster engines with these classes,
including the paths and offsets in errors. Streams must be seekable.

Source: Kafka protocol guide, "Protocol Primitive Types"; KIP-482 for the compact and tagged encodings.
"""

from __future__ import annotations

import io
import struct
from typing import Any, BinaryIO, NamedTuple

from construct import Construct, Container

from kafkawire.sdk.errors import DecodeError, EncodeError
from kafkawire.sdk.protocol.primitives import (
    FIXED,
    MALFORMED_UTF8,
    MAX_LENGTH,
    MAX_STRING_BYTES,
    Refused,
    as_buffer,
    as_number,
    as_part,
    as_string,
    reject_null,
    short,
)

__all__ = [
    "Bool",
    "Bytes",
    "CompactBytes",
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
    "NullableBytes",
    "NullableRecords",
    "NullableString",
    "Number",
    "Reading",
    "RecordSet",
    "Records",
    "Sized",
    "Span",
    "String",
    "Text",
    "UInt16",
    "UInt32",
    "UnsignedVarint",
    "Uuid",
    "Varint",
    "Writing",
    "dotted",
    "left",
    "length_prefix",
    "new_context",
    "note",
    "read_length",
    "read_varint",
    "take",
    "varint",
]


class Span(NamedTuple):
    """A range of bytes in a message and its meaning.

    Attributes:
        offset: the position of the first byte in the buffer.
        length: the number of bytes.
        path: the field, such as `topics[3].partitions[0].index`.
        value: the value, or a `Note` for bytes that encode no value: a count, a null marker, a tag.
    """

    offset: int
    length: int
    path: str
    value: Any


class Note(str):
    """The meaning of bytes that encode no value, such as `3 elements`; its `repr` has no quotes."""

    __slots__ = ()
    __repr__ = str.__str__


def new_context(**parameters: Any) -> Container:
    """Return a context like those that construct's entry points create, with parameters for the primitive types.

    Args:
        parameters: `spans`, a list that receives a `Span` for each value read; `view`, a memoryview of the stream's
            content, of which `records` values are slices; `apart`, a list that receives (position, value) for each
            `records` value that is not copied; and `threshold`, the size in bytes from which `records` are not copied.
    """
    context = Container(**parameters)
    context._params = context
    context._parsing = context._building = context._sizing = False
    return context


class Leaf(Construct):
    """A value without parts. Subclasses read and write it; this class adds the path and the offset to their errors."""

    def read(self, stream: BinaryIO, context: Container) -> Any:
        """Return the next value; raise `Refused` if there is none."""
        raise NotImplementedError

    def write(self, value: Any, stream: BinaryIO, context: Container) -> None:
        """Write a value; raise `Refused` if it does not fit."""
        raise NotImplementedError

    def _parse(self, stream: BinaryIO, context: Container, path: str) -> Any:
        start = stream.tell()
        with Reading(start, path):
            value = self.read(stream, context)
        note(context, start, stream, path, value)
        return value

    def _build(self, obj: Any, stream: BinaryIO, context: Container, path: str) -> Any:
        with Writing(path):
            self.write(obj, stream, context)
        return obj


class Number(Leaf):
    """A big-endian primitive of fixed size; for a bool, any byte other than 0 is true."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind = kind
        self.format, self.size = ">" + FIXED[kind].format, FIXED[kind].size

    def read(self, stream: BinaryIO, context: Container) -> Any:
        return struct.unpack(self.format, take(stream, self.size))[0]

    def write(self, value: Any, stream: BinaryIO, context: Container) -> None:
        stream.write(struct.pack(self.format, as_number(self.kind, value)))

    def _sizeof(  # pyright: ignore[reportIncompatibleMethodOverride]  # construct's method only raises: NoReturn
        self, context: Container, path: str
    ) -> int:
        return self.size


class Varint(Leaf):
    """An unsigned varint of at most five bytes, truncated to int32, as in Java."""

    def read(self, stream: BinaryIO, context: Container) -> int:
        return read_varint(stream)

    def write(self, value: int, stream: BinaryIO, context: Container) -> None:
        stream.write(varint(value))


class Sized(Leaf):
    """A value preceded by its length: an unsigned varint of length + 1 in the compact form, else an int of `format`.

    Args:
        compact: whether the length is an unsigned varint; null is then written as 0, otherwise as -1.
        nullable: whether a null is allowed.
    """

    format = ">i"

    def __init__(self, *, compact: bool = False, nullable: bool = False) -> None:
        super().__init__()
        self.compact, self.nullable = compact, nullable

    def read(self, stream: BinaryIO, context: Container) -> Any:
        length = read_length(stream, self.format, self.compact, self.nullable)
        return None if length is None else self.content(length, stream, context)

    def write(self, value: Any, stream: BinaryIO, context: Container) -> None:
        if value is None and not self.nullable:
            raise Refused(reject_null())
        content = None if value is None else self.encoded(value)
        stream.write(length_prefix(None if content is None else len(content), self.format, self.compact))
        stream.write(content or b"")

    def content(self, length: int, stream: BinaryIO, context: Container) -> Any:
        """Read a value that takes `length` bytes."""
        return take(stream, length)

    def encoded(self, value: Any) -> Any:
        """Return the bytes of a value."""
        return as_buffer(value)


class Text(Sized):
    """A string: an int16 or compact length followed by UTF-8; malformed bytes are replaced as in Java."""

    format = ">h"

    def content(self, length: int, stream: BinaryIO, context: Container) -> str:
        if length > MAX_STRING_BYTES:
            raise Refused(f"the string has {length} bytes, but at most {MAX_STRING_BYTES} are allowed")
        return take(stream, length).decode("utf-8", MALFORMED_UTF8)

    def encoded(self, value: Any) -> bytes:
        return as_string(value)


class RecordSet(Sized):
    """Record batches: bytes that are not copied when read, nor when written if they are large."""

    def content(self, length: int, stream: BinaryIO, context: Container) -> Any:
        start = stream.tell()
        content = take(stream, length)
        view = context._params.get("view")
        return memoryview(content) if view is None else view[start : start + length]

    def write(self, value: Any, stream: BinaryIO, context: Container) -> None:
        threshold = context._params.get("threshold")
        if value is None or threshold is None:
            super().write(value, stream, context)
            return
        part, size = as_part(value)
        stream.write(length_prefix(size, self.format, self.compact))
        if size >= threshold or not isinstance(part, bytes | memoryview):
            context._params.apart.append((stream.tell(), part))
        else:
            stream.write(part)


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


class Reading:
    """Turn a refused encoding into a DecodeError with the path and the offset."""

    def __init__(self, offset: int, path: str) -> None:
        self.offset, self.path = offset, path

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: BaseException | None, traceback: Any) -> None:
        if isinstance(error, Refused):
            raise DecodeError(dotted(self.path), self.offset, str(error)) from None


class Writing:
    """Turn a refused value into an EncodeError with its path."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: BaseException | None, traceback: Any) -> None:
        if isinstance(error, Refused):
            raise EncodeError(dotted(self.path), str(error)) from None


def note(context: Container, start: int, stream: BinaryIO, path: str, value: Any) -> None:
    """Add a span that begins at `start`, if the context collects spans."""
    spans = context._params.get("spans")
    if spans is not None:
        spans.append(Span(start, stream.tell() - start, dotted(path), value))


def dotted(path: str) -> str:
    """Return construct's path, `(parsing) -> topics[3] -> name`, as `topics[3].name`."""
    return ".".join(path.split(" -> ")[1:])


def left(stream: BinaryIO) -> int:
    """Return the number of bytes left in a stream."""
    here = stream.tell()
    end = stream.seek(0, io.SEEK_END)
    stream.seek(here)
    return max(0, end - here)


def take(stream: BinaryIO, size: int) -> bytes:
    """Read exactly `size` bytes, or raise `Refused`."""
    # Compared before reading: a declared size must not make the stream reserve memory.
    available = left(stream)
    if size > available:
        raise Refused(short(size, available))
    return stream.read(size)


def read_varint(stream: BinaryIO) -> int:
    """Read an unsigned varint as int32, or raise `Refused`."""
    value = 0
    for shift in range(0, 35, 7):
        byte = take(stream, 1)[0]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            value &= 0xFFFFFFFF
            return value - 2**32 if value >= 2**31 else value
    raise Refused("the unsigned varint has more than 5 bytes")


def varint(value: int) -> bytes:
    """Return an unsigned varint."""
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def read_length(stream: BinaryIO, format: str, compact: bool, nullable: bool) -> int | None:
    """Read a length or count; None for an allowed null."""
    if compact:
        length = read_varint(stream) - 1
        if length < -(2**31):  # int32 arithmetic wraps
            length += 2**32
    else:
        length = struct.unpack(format, take(stream, struct.calcsize(format)))[0]
    if length >= 0:
        return length
    if not nullable:
        raise Refused(reject_null(length))
    return None


def length_prefix(length: int | None, format: str, compact: bool) -> bytes:
    """Return the encoding of a length or count; None for null."""
    if length is not None and length > MAX_LENGTH:
        raise Refused(f"the length is {length}, but at most {MAX_LENGTH} is allowed")
    if compact:
        return varint(0 if length is None else length + 1)
    return struct.pack(format, -1 if length is None else length)
