"""How single fields of the record formats are packed, and which codecs a format knows: facts of `FORMATS`."""

from __future__ import annotations

from struct import Struct

from kafkawire.sdk.protocol.primitives import FIXED
from kafkawire.sdk.protocol.tables.record_formats import FORMATS, Compression

__all__ = ["compressions", "packed"]


def packed(format_name: str, field_name: str) -> Struct:
    """Return how a number of a record format is packed, or how the length of a byte string is.

    Args:
        format_name: as in `FORMATS`.
        field_name: of a field of a fixed size, or with a length of a fixed size.
    """
    (field,) = (field for field in FORMATS[format_name] if field.name == field_name)
    return Struct(">" + FIXED[field.length or field.type].format)


def compressions(format_name: str) -> frozenset[Compression]:
    """Return the codecs that a record format knows.

    Args:
        format_name: of a format with attributes, as in `FORMATS`.
    """
    return frozenset(
        Compression[value.upper()]
        for field in FORMATS[format_name]
        for name, _, values in field.bits
        if name == "compression"
        for value in values
    )
