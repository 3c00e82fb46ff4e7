"""The protocol's primitive types: sizes, limits, and the reasons for refusing values.

Each of the three engines reads and writes these types in its own way. This module contains everything on which they
must agree: the limits, the error texts, the replacement of malformed UTF-8, and the checks outside the fast path.

Source: Kafka protocol guide, "Protocol Primitive Types"; `ByteBufferAccessor` and `ByteUtils` in Apache Kafka.
"""

from __future__ import annotations

import codecs
import operator
import struct
from collections.abc import Iterable
from typing import Any, NamedTuple

from kafkawire.sdk.protocol.values import Buffer, digits, equal, quoted

__all__ = [
    "APART_BYTES",
    "BOOLEANS",
    "FIXED",
    "LIMITS",
    "MALFORMED_UTF8",
    "MAX_LENGTH",
    "MAX_STRING_BYTES",
    "MAX_TAG",
    "Fixed",
    "Refused",
    "as_buffer",
    "as_bytes",
    "as_index",
    "as_number",
    "as_part",
    "as_sequence",
    "as_string",
    "as_tags",
    "as_uuid",
    "cut",
    "invalid_tag",
    "is_default",
    "missing",
    "other_class",
    "outside",
    "reject_null",
    "short",
    "too_many",
]

#: Maximum length of a string in bytes of UTF-8, even in the compact form: Kafka's classic strings have an int16 length.
MAX_STRING_BYTES = 32767

#: Maximum length of an array or of bytes: lengths are int32.
MAX_LENGTH = 2**31 - 1

#: Largest tag that can be written. Kafka's writer reserves 2147483647 as its end mark.
MAX_TAG = 2**31 - 2

#: `encode_parts` does not copy a `records` value of at least this many bytes; for smaller values, a copy costs less
#: than another buffer in `writelines`.
APART_BYTES = 4096

#: Values that a bool field accepts: True, False and values equal to them.
BOOLEANS = {False: False, True: True}

#: Methods that buffers and containers have but a file region lacks.
_MARKS_OF_OTHERS = ("__buffer__", "__getitem__", "__iter__")

#: Name of the error handler that replaces malformed UTF-8 in the way that Java does.
MALFORMED_UTF8 = "kafkawire.java"


class Fixed(NamedTuple):
    """A primitive of fixed size: its `struct` format and its size in bytes."""

    format: str
    size: int


FIXED = {
    "bool": Fixed("?", 1),
    "int8": Fixed("b", 1),
    "int16": Fixed("h", 2),
    "uint16": Fixed("H", 2),
    "int32": Fixed("i", 4),
    "uint32": Fixed("I", 4),
    "int64": Fixed("q", 8),
    "float64": Fixed("d", 8),
    "uuid": Fixed("16s", 16),
}

#: Smallest and largest value of each integer type.
LIMITS = {
    "int8": (-(2**7), 2**7 - 1),
    "int16": (-(2**15), 2**15 - 1),
    "uint16": (0, 2**16 - 1),
    "int32": (-(2**31), 2**31 - 1),
    "uint32": (0, 2**32 - 1),
    "int64": (-(2**63), 2**63 - 1),
}


class Refused(Exception):
    """A value or an encoding is refused; the text is the reason. Codecs add the path and raise a public error."""


def short(size: int, left: int) -> str:
    """Return the reason for refusing a read past the end."""
    return f"{size} bytes are needed, but {left} are left"


def too_many(count: int, left: int) -> str:
    """Return the reason for refusing a count above the number of remaining bytes: an element takes one byte or more."""
    return f"the count is {count}, but {left} bytes are left"


def invalid_tag(tag: int) -> str:
    """Return the reason for refusing a tagged field that only other versions have."""
    return f"tag {tag} is not valid in this version: it belongs to a field of other versions"


def reject_null(length: int | None = None) -> str:
    """Return the reason for refusing a null that the version does not allow."""
    return "null is not allowed in this version" + ("" if length is None else f" (length {length})")


def other_class(cls: type, value: object) -> str:
    """Return the reason for refusing a value that is not an instance of a message class."""
    return reject_null() if value is None else f"expected {cls.__qualname__}, got {type(value).__name__}"


def missing(cls: type, version: int, others: str) -> str:
    """Return the reason for refusing a field that is set but exists only in other versions."""
    return f"it is not in version {version} of {cls.__qualname__}, but exists in {others}"


def is_default(value: Any, default: Any) -> bool:
    """Return whether a field has its default value and need not be written.

    Args:
        value: the value of the field.
        default: its default; for a structure, an instance.
    """
    if value is default:
        return True
    try:
        return equal(value, default)
    except Exception:  # a third-party type that does not support comparison
        return False


def cut(data: bytes, apart: list[tuple[int, Any]]) -> list[Any]:
    """Return an encoding in parts, inserting the values that were kept apart.

    Args:
        data: the encoding without these values.
        apart: pairs of a position in `data`, in ascending order, and the value to insert there.
    """
    parts = []
    start = 0
    for position, value in apart:
        if position > start:
            parts.append(data[start:position])
        parts.append(value)
        start = position
    if start < len(data) or not parts:
        parts.append(data[start:])
    return parts


def as_number(kind: str, value: Any) -> Any:
    """Return a value of fixed size (a number, a bool or a UUID) in the form that `struct` packs.

    Raises:
        Refused: the value has the wrong type, or is outside the limits of its type.
    """
    if kind == "uuid":
        return as_uuid(value)
    try:
        if kind == "bool":
            return BOOLEANS[value]
        if kind == "float64":
            return struct.unpack(">d", struct.pack(">d", value))[0]
        number = int.__index__(operator.index(value))  # a subclass may redefine comparison
    except (TypeError, KeyError, struct.error, OverflowError):
        raise Refused(f"expected {kind}, got {type(value).__name__} {quoted(value)}") from None
    low, high = LIMITS[kind]
    if not low <= number <= high:
        raise Refused(f"{digits(number)} is outside {kind}, {low} to {high}")
    return number


def as_string(value: object) -> bytes:
    """Return the UTF-8 of a string value.

    Raises:
        Refused: the value is not a str, contains half a surrogate pair, or is too long.
    """
    if not isinstance(value, str):
        raise Refused(f"expected a str, got {_kind(value)}")
    try:
        encoded = str.encode(value)  # not a subclass's method
    except UnicodeEncodeError as error:
        raise Refused(f"{quoted(value)} is not encodable as UTF-8: {error.reason}") from None
    if len(encoded) > MAX_STRING_BYTES:
        raise Refused(f"the string has {len(encoded)} bytes, but at most {MAX_STRING_BYTES} are allowed")
    return encoded


def as_uuid(value: object) -> bytes:
    """Return a UUID value.

    Raises:
        Refused: the value is not 16 bytes.
    """
    if not isinstance(value, bytes) or bytes.__len__(value) != FIXED["uuid"].size:
        got = f"{bytes.__len__(value)} bytes" if isinstance(value, bytes) else _kind(value)
        raise Refused(f"expected a UUID of 16 bytes, got {got}")
    return value


def as_buffer(value: object) -> Buffer:
    """Return a bytes value as a buffer whose `len` is its size in bytes.

    Raises:
        Refused: the value is not a contiguous buffer, or is too long.
    """
    if type(value) is bytes:
        buffer: Buffer = value
    else:
        try:
            view = memoryview(value)  # type: ignore[arg-type]  # the caller may pass any value
            # An empty view cannot be cast.
            buffer = view.cast("B") if view.nbytes else b""
        except (TypeError, BufferError, ValueError):
            raise Refused(f"expected bytes or another contiguous buffer, got {_kind(value)}") from None
    if len(buffer) > MAX_LENGTH:
        raise Refused(f"there are {len(buffer)} bytes, but at most {MAX_LENGTH} are allowed")
    return buffer


def as_bytes(buffer: Any) -> memoryview:
    """Return a view, as bytes, of a buffer to be decoded.

    The buffer is requested only once, because a second request could return a different buffer or length (PEP 688).

    Raises:
        TypeError: the argument is not a buffer.
        BufferError: the buffer is not contiguous.
    """
    view = memoryview(buffer)
    if not view.c_contiguous:
        raise BufferError("the buffer is not contiguous")
    if view.format == "B" and view.ndim == 1:
        return view
    # An empty view of several dimensions cannot be cast, nor can a view whose element format Python does not know.
    if not view.nbytes:
        return memoryview(b"")
    try:
        return view.cast("B")
    except TypeError:
        return memoryview(view.tobytes())


def as_part(value: Any) -> tuple[Any, int]:
    """Return a `records` value as a part of an encoding, and its size in bytes.

    The part is a buffer, or the value itself if it is not a buffer but has a length, like a region of a file.

    Raises:
        Refused: the value is a non-contiguous buffer, is a container (whose length does not count bytes), has no
            length, or is too long.
    """
    try:
        buffer = as_buffer(value)
    except Refused:
        cls = type(value)
        if not hasattr(cls, "__len__") or any(hasattr(cls, name) for name in _MARKS_OF_OTHERS):
            raise
    else:
        return buffer, len(buffer)
    size = len(value)
    if size > MAX_LENGTH:
        raise Refused(f"there are {size} bytes, but at most {MAX_LENGTH} are allowed")
    return value, size


def as_index(offset: Any) -> int:
    """Return an offset in a buffer as a plain int.

    Raises:
        TypeError: the offset is not an integer.
    """
    return int.__index__(operator.index(offset))


def outside(offset: int, size: int) -> str:
    """Return the reason for refusing an offset that is not in a buffer of `size` bytes."""
    return f"offset {digits(offset)} is outside the buffer of {size} bytes"


def as_sequence(value: Any) -> tuple[Any, ...]:
    """Return an array value as a tuple, which cannot change while it is written.

    Raises:
        Refused: the value is not a sequence, or is text or bytes, which happen to be sequences.
    """
    if type(value) is tuple or type(value) is list:
        return tuple(value)
    cls = type(value)
    if isinstance(value, str | bytes | bytearray | memoryview | dict) or not (
        hasattr(cls, "__len__") and hasattr(cls, "__getitem__")
    ):
        raise Refused(f"expected a sequence, got {_kind(value)}")
    try:
        elements = iter(value)
    except TypeError:  # an array without dimensions
        raise Refused(f"expected a sequence, got {_kind(value)}") from None
    # Not tuple(value), which would reserve memory for the length that the value claims to have.
    return tuple(element for element in elements)


def as_tags(value: Any, known: Iterable[int], invalid: Iterable[int] = ()) -> list[tuple[int, Buffer]]:
    """Return the unknown tagged fields of a message.

    Args:
        value: the value of `unknown_tags`.
        known: tags that the version defines.
        invalid: tags that only other versions define.

    Raises:
        Refused: the value does not consist of pairs of a tag and bytes in ascending order, or has a tag that is known,
            invalid or too large.
    """
    tags: list[tuple[int, Buffer]] = []
    known, invalid = frozenset(known), frozenset(invalid)
    for pair in as_sequence(value):
        parts = tuple(pair) if isinstance(pair, tuple | list) else ()
        if len(parts) != 2 or not isinstance(parts[0], int):
            raise Refused(f"expected pairs of a tag and bytes, got {_kind(pair)}")
        tag, content = int.__index__(parts[0]), parts[1]
        if tag in known:
            raise Refused(f"tag {tag} belongs to a field of this version")
        if tag in invalid:
            raise Refused(invalid_tag(tag))
        if not 0 <= tag <= MAX_TAG:
            raise Refused(f"tag {digits(tag)} is outside 0 to {MAX_TAG}")
        if tags and tag <= tags[-1][0]:
            raise Refused(f"tag {tag} follows tag {tags[-1][0]}, but ascending order is needed")
        tags.append((tag, as_buffer(content)))
    return tags


def _kind(value: object) -> str:
    return "None" if value is None else f"{type(value).__name__} {quoted(value)}"


def _replace_malformed(error: UnicodeError) -> tuple[str, int]:
    """Replace malformed UTF-8 as `java.lang.String` does.

    This differs from Python's replacement in one case: an encoded surrogate (ED A0..BF, and its continuation byte) is
    replaced as a whole, while Python replaces each byte.
    """
    if not isinstance(error, UnicodeDecodeError):
        raise error
    text, start, end = error.object, error.start, error.end
    if text[start] == 0xED and start + 1 < len(text) and 0xA0 <= text[start + 1] <= 0xBF:
        end = start + 2
        if end < len(text) and 0x80 <= text[end] <= 0xBF:
            end += 1
    return "\N{REPLACEMENT CHARACTER}", end


codecs.register_error(MALFORMED_UTF8, _replace_malformed)
