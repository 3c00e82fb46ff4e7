"""The construct engine: it declares a layout as constructs, which can be run, printed and used to explain bytes.

`construct_of` and `construct_text` return the same declaration as an object and as source. Tests compare the other
engines with this one, and `explain` uses it to print offsets.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from functools import cache
from typing import Any

from construct import Construct

from kafkawire.sdk.errors import DecodeError
from kafkawire.sdk.protocol.engines import construct_primitives
from kafkawire.sdk.protocol.engines.construct_primitives import Span, new_context
from kafkawire.sdk.protocol.engines.construct_structures import (
    Array,
    CompactArray,
    CompactNullableArray,
    NullableArray,
    NullableStructure,
    Structure,
    TaggedFields,
    TaggedNullableStructure,
)
from kafkawire.sdk.protocol.layout import FieldLayout, Layout
from kafkawire.sdk.protocol.primitives import APART_BYTES, as_bytes, as_index, cut, outside
from kafkawire.sdk.protocol.schema import Message

__all__ = ["Program", "construct_of", "construct_text", "decode", "encode_parts", "trace"]


@cache
def construct_of(layout: Layout) -> Structure:
    """Return the construct for a layout, which parses and builds messages."""
    fields = [field.name / _construct(field) for field in layout.fields]
    if layout.flexible:
        tagged = {field.tag: field.name / _construct(field) for field in layout.tagged if field.tag is not None}
        fields.append("unknown_tags" / TaggedFields(tagged, layout.invalid_tags))
    return Structure(layout.cls, layout.version, *fields)


def construct_text(layout: Layout) -> str:
    """Return the construct for a layout as Python source: an assignment that uses the names from the construct modules.

    Args:
        layout: the layout of a message.
    """
    return f"{layout.name}_{layout.version} = " + "\n".join(_text(layout)) + "\n"


def decode(layout: Layout, buffer: Any, offset: int, spans: list[Span] | None = None) -> tuple[Message, int]:
    """Read a message.

    Args:
        layout: the message's layout.
        buffer: any contiguous buffer.
        offset: where the message begins in it.
        spans: receives a span for each value, in the order in which values are read.

    Returns:
        The message, whose records are views of `buffer`, and the position of its end.

    Raises:
        DecodeError: the bytes are not such a message.
    """
    offset = as_index(offset)
    view = as_bytes(buffer)
    if not 0 <= offset <= len(view):
        raise ValueError(outside(offset, len(view)))
    stream = io.BytesIO(view)
    stream.seek(offset)
    context = new_context(spans=spans, view=view)
    message = construct_of(layout)._parsereport(stream, context, "(parsing)")
    return message, stream.tell()


def encode_parts(layout: Layout, message: Message, threshold: int | None = APART_BYTES) -> list[Any]:
    """Write a message.

    Args:
        layout: the message's layout.
        message: the message.
        threshold: the size in bytes from which `records` become separate parts; None for a single part.

    Returns:
        The encoding, in parts.

    Raises:
        EncodeError: a value does not fit.
        UnsupportedVersion: a field does not exist in this version and cannot be left out.
    """
    stream = io.BytesIO()
    apart: list[tuple[int, Any]] = []
    context = new_context(apart=apart, threshold=threshold)
    construct_of(layout)._build(message, stream, context, "(building)")
    return cut(stream.getvalue(), apart)


class Program:
    """The construct engine's program for one layout; see `programs.Program`."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout

    def decode(self, buffer: Any, offset: int = 0) -> tuple[Message, int]:
        """Read the message at `offset`."""
        return decode(self.layout, buffer, offset)

    def encode(self, message: Message) -> bytes:
        """Return the encoding of `message`."""
        (data,) = encode_parts(self.layout, message, threshold=None)
        return bytes(data)

    def encode_parts(self, message: Message) -> list[Any]:
        """Return the encoding of `message`, with large records as separate parts."""
        return encode_parts(self.layout, message)


def trace(layout: Layout, buffer: Any, offset: int = 0) -> tuple[list[Span], DecodeError | None]:
    """Return the spans of a message's bytes.

    Args:
        layout: the message's layout.
        buffer: any contiguous buffer.
        offset: where the message begins in it.

    Returns:
        The spans in the order of the bytes, and the error if the message could not be read to its end: the spans then
        stop before the error.
    """
    spans: list[Span] = []
    try:
        decode(layout, buffer, offset, spans)
    except DecodeError as error:
        return spans, error
    return spans, None


_WRAPPERS = {
    (False, False): ("Array", Array),
    (False, True): ("NullableArray", NullableArray),
    (True, False): ("CompactArray", CompactArray),
    (True, True): ("CompactNullableArray", CompactNullableArray),
}

_NUMBERS = {
    "bool": "Bool",
    "int8": "Int8",
    "int16": "Int16",
    "uint16": "UInt16",
    "int32": "Int32",
    "uint32": "UInt32",
    "int64": "Int64",
    "float64": "Float64",
    "uuid": "Uuid",
}


def _construct(field: FieldLayout) -> Construct:
    structure = field.structure
    element = construct_of(structure) if structure else getattr(construct_primitives, _leaf_name(field))
    if field.array:
        return _WRAPPERS[field.compact, field.nullable][1](element)
    if field.structure is not None and field.nullable:
        return NullableStructure(element) if field.tag is None else TaggedNullableStructure(element)
    return element


def _leaf_name(field: FieldLayout) -> str:
    if field.kind in _NUMBERS:
        return _NUMBERS[field.kind]
    nullable = field.nullable and not field.array
    return f"{'Compact' if field.compact else ''}{'Nullable' if nullable else ''}{field.kind.title()}"


def _text(layout: Layout) -> Iterator[str]:
    """Yield the source of a structure, line by line."""
    yield f"Structure({layout.name}, {layout.version},"
    for field in layout.fields:
        yield from _indented(_field_text(field, ","))
    invalid = f", invalid={layout.invalid_tags!r}" if layout.invalid_tags else ""
    if layout.flexible and layout.tagged:
        yield '    "unknown_tags" / TaggedFields({'
        for field in layout.tagged:
            lines = _field_text(field, ",")
            lines[0] = f"{field.tag}: {lines[0]}"
            yield from _indented(lines, "        ")
        yield f"    }}{invalid}),"
    elif layout.flexible:
        yield f'    "unknown_tags" / TaggedFields({{}}{invalid}),'
    yield ")"


def _field_text(field: FieldLayout, end: str) -> list[str]:
    lines = [_leaf_name(field)] if field.structure is None else list(_text(field.structure))
    wrapper = ""
    if field.array:
        wrapper = _WRAPPERS[field.compact, field.nullable][0]
    elif field.structure is not None and field.nullable:
        wrapper = "NullableStructure" if field.tag is None else "TaggedNullableStructure"
    if wrapper:
        lines[0] = f"{wrapper}({lines[0]}"
        lines[-1] += ")"
    lines[0] = f'"{field.name}" / {lines[0]}'
    lines[-1] += end
    return lines


def _indented(lines: list[str], margin: str = "    ") -> Iterator[str]:
    return (margin + line for line in lines)
