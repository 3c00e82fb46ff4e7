"""Define how the record engines' generated code handles each field of a record.

The emitters for Python and Cython both use this module, so the engines agree on what a schema may contain.
"""

from __future__ import annotations

from enum import Enum, auto

from kafkawire.codegen.record_formats import FIXED, RecordField, RecordFormat

__all__ = ["VARINT_BITS", "Part", "part", "passed"]

#: The number of bits in each type of variable-size number.
VARINT_BITS = {"varint": 32, "varlong": 64}


class Part(Enum):
    """How the engines handle a field of a record."""

    #: A varint with the size of everything after it; always the first field.
    LENGTH = auto()
    #: A byte with a default: skipped when read, and written with its default.
    RESERVED = auto()
    #: A varint or varlong.
    NUMBER = auto()
    #: Bytes or a string preceded by a varint length; a negative length means null if null is allowed.
    CONTENT = auto()
    #: Elements of another format, preceded by their count as a varint.
    ELEMENTS = auto()


def part(format_: RecordFormat, field: RecordField) -> Part:
    """Return how the engines handle a field.

    Raises:
        ValueError: the engines have no code for such a field; the error names the field.
    """
    fields = format_.fields
    if field.measures is not None:
        if field.type == "varint" and field is fields[0] and fields[1:] and field.measures == fields[1].name:
            return Part.LENGTH
    elif field.array:
        if field.count == "varint":
            return Part.ELEMENTS
    elif field.type in FIXED:
        if field.type == "int8" and field.default is not None:
            return Part.RESERVED
    elif field.type in VARINT_BITS:
        return Part.NUMBER
    elif field.type in ("bytes", "string") and field.length == "varint":
        return Part.CONTENT
    kind = f"[]{field.type}" if field.array else field.type
    raise ValueError(f"{format_.name}.{field.name}: the record engines do not support such a field of type {kind}")


def passed(format_: RecordFormat) -> list[RecordField]:
    """Return the fields that the engines exchange with the generated code, sorted by name.

    Only the generated code knows their order on the wire.
    """
    fields = [field for field in format_.fields if part(format_, field) not in (Part.LENGTH, Part.RESERVED)]
    return sorted(fields, key=lambda field: field.name)
