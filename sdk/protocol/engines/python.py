"""The Python engine, which needs no compiler: it runs the straight-line code that `python_text.py` generates.

The text of a decoder and an encoder is generated for each layout on first use. If either fails, `shared_refusals.py`
finds the reason.
"""

from __future__ import annotations

from struct import Struct
from struct import error as StructError
from typing import Any

from kafkawire.sdk.protocol.engines.python_text import PythonText
from kafkawire.sdk.protocol.engines.shared_refusals import explain_decoding, explain_encoding
from kafkawire.sdk.protocol.layout import Layout
from kafkawire.sdk.protocol.primitives import (
    APART_BYTES,
    BOOLEANS,
    FIXED,
    MAX_LENGTH,
    Refused,
    as_buffer,
    as_bytes,
    as_index,
    as_part,
    as_sequence,
    as_tags,
    as_uuid,
    is_default,
    outside,
)
from kafkawire.sdk.protocol.schema import Message
from kafkawire.sdk.protocol.values import DEFAULT

__all__ = ["Program"]

#: Largest element count for which a `struct.Struct` is cached. Replica lists are short, and the limit keeps the cache
#: small whatever a peer sends.
_KEPT_COUNTS = 64


class Program:
    """The Python engine's program for one layout; see `programs.Program`."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        namespace: dict[str, Any] = dict(_NAMESPACE)
        source = PythonText(layout)
        namespace.update(source.objects)
        exec(compile(source.text, f"<text of {layout.name} version {layout.version}>", "exec"), namespace)
        self._decode = namespace["decode"]
        self._encode = namespace["encode"]

    def decode(self, buffer: Any, offset: int = 0) -> tuple[Message, int]:
        """Read the message at `offset`."""
        if type(offset) is not int:
            offset = as_index(offset)
        view = data = buffer
        if type(buffer) is not bytes:
            view = memoryview(buffer) if type(buffer) is bytearray else as_bytes(buffer)
            data = bytes(view)
        if not 0 <= offset <= len(data):
            raise ValueError(outside(offset, len(data)))
        try:
            result: tuple[Message, int] = self._decode(data, offset, len(data), view)
        except (Refused, IndexError, StructError) as error:
            explained = explain_decoding(self.layout, data, offset)
            if explained is None:
                raise RuntimeError(f"{self.layout!r}: the generated code refused bytes that are valid") from error
            raise explained from None
        return result

    def encode(self, message: Message) -> bytes:
        """Return the encoding of `message`."""
        pieces: list[Any] = []
        try:
            self._encode(message, pieces, None)
            return b"".join(pieces)
        except Exception as error:
            explain_encoding(self.layout, message, None, error)

    def encode_parts(self, message: Message) -> list[Any]:
        """Return the encoding of `message`, with large records as separate parts."""
        pieces: list[Any] = []
        records: list[int] = []
        try:
            self._encode(message, pieces, records)
            return _parts(pieces, records)
        except Exception as error:
            explain_encoding(self.layout, message, APART_BYTES, error)


# ----------------------------------------------------------------------------- functions that the text calls: reading


def _varint(data: bytes, offset: int, first: int) -> tuple[int, int]:
    """Return an unsigned varint as int32, and its end; `first` is its first byte, and `offset` follows that byte."""
    value = first & 0x7F
    for shift in (7, 14, 21, 28):
        byte = data[offset]
        offset += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            value &= 0xFFFFFFFF
            return (value - 2**32 if value >= 2**31 else value), offset
    raise Refused


def _length(data: bytes, offset: int, first: int) -> tuple[int, int]:
    """Return a compact length as encoded (the length plus one), and its end; 2**31 if int32 arithmetic wraps."""
    value, offset = _varint(data, offset, first)
    return (2**31 if value == -(2**31) else value), offset


def _skip_tags(
    data: bytes, offset: int, end: int, count: int, invalid: tuple[int, ...]
) -> tuple[tuple[tuple[int, bytes], ...], int]:
    """Return the tagged fields of a structure that knows none, and their end."""
    unknown = []
    for _ in range(count):
        tag = data[offset]
        offset += 1
        if tag > 127:
            tag, offset = _varint(data, offset, tag)
        size = data[offset]
        offset += 1
        if size > 127:
            size, offset = _varint(data, offset, size)
        if not 0 <= size <= end - offset or tag in invalid:
            raise Refused
        unknown.append((tag, data[offset : offset + size]))
        offset += size
    return tuple(unknown), offset


# ----------------------------------------------------------------------------- functions that the text calls: writing


def _unsigned(value: int) -> bytes:
    """Return an unsigned varint."""
    if value > MAX_LENGTH + 1:
        raise Refused
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


class _Unsigned(dict[int, bytes]):
    """A cache of unsigned varints, keyed by value; it keeps only short ones, since most lengths are short."""

    def __missing__(self, value: int) -> bytes:
        encoded = _unsigned(value)
        if value < 2**14:
            self[value] = encoded
        return encoded


class _Structs(dict[int, Struct]):
    """`struct.Struct` objects, keyed by number of elements; all elements have the same format."""

    def __init__(self, code: str) -> None:
        self.code = code

    def __missing__(self, count: int) -> Struct:
        compiled = Struct(f">{count}{self.code}")
        if count < _KEPT_COUNTS:
            self[count] = compiled
        return compiled


def _write_tags(
    append: Any, known: list[tuple[int, bytes]], unknown: Any, tags: tuple[int, ...], invalid: tuple[int, ...]
) -> None:
    """Write tagged fields: those of the version that are present, merged by tag with the unknown ones."""
    fields = known if unknown is _NAMESPACE["NO_TAGS"] else sorted([*known, *as_tags(unknown, tags, invalid)])
    append(_UNSIGNED[len(fields)])
    for tag, content in fields:
        append(_unsigned(tag))
        append(_unsigned(len(content)))
        append(content)


def _records(value: Any, records: list[int] | None) -> tuple[Any, int]:
    """Return a records value as a buffer (unchanged if parts are wanted and it only has a length), and its size."""
    if records is not None:
        return as_part(value)
    buffer = as_buffer(value)
    return buffer, len(buffer)


def _parts(pieces: list[Any], records: list[int]) -> list[Any]:
    """Join pieces, except large records and objects that are not buffers."""
    parts = []
    start = 0
    for index in records:
        value = pieces[index]
        if type(value) in (bytes, memoryview) and len(value) < APART_BYTES:
            continue
        parts += [b"".join(pieces[start:index]), value]
        start = index + 1
    if start < len(pieces) or not parts:
        parts.append(b"".join(pieces[start:]))
    return parts


_UNSIGNED = _Unsigned()
_NAMESPACE: dict[str, Any] = {
    "BOOL": BOOLEANS,
    "DEFAULT": DEFAULT,
    "NO_TAGS": (),
    "Refused": Refused,
    "UNSIGNED": _UNSIGNED,
    "as_buffer": as_buffer,
    "as_sequence": as_sequence,
    "as_records": _records,
    "as_uuid": as_uuid,
    "encode_text": str.encode,
    "is_default": is_default,
    "length": _length,
    "new": object.__new__,
    "skip_tags": _skip_tags,
    "varint": _varint,
    "write_tags": _write_tags,
    **{f"MANY_{kind}": _Structs(fixed.format) for kind, fixed in FIXED.items() if kind != "uuid"},
}
