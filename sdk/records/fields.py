"""Look up facts in `FORMATS`: how the fields of record formats are packed, and which codecs a format supports."""

from __future__ import annotations

from struct import Struct

from kafkawire.sdk.protocol.primitives import FIXED
from kafkawire.sdk.protocol.tables.record_formats import FORMATS, Compression

__all__ = ["compressions", "packed"]


def packed(format_name: str, field_name: str) -> Struct:
    """Return the packing of a number in a record format, or of the length of a byte string.

    Args:
        format_name: a name in `FORMATS`.
        field_name: a field of fixed size, or one whose length has a fixed size.
    """
    (field,) = (field for field in FORMATS[format_name] if field.name == field_name)
    return Struct(">" + FIXED[field.length or field.type].format)


def compressions(format_name: str) -> frozenset[Compression]:
    """Return the codecs that a record format supports.

    Args:
        format_name: the name in `FORMATS` of a format with attributes.
    """
    return frozenset(
        Compression[value.upper()]
        for field in FORMATS[format_name]
        for name, _, values in field.bits
        if name == "compression"
        for value in values
    )
