"""Find out why bytes are not a message, or why a message cannot be written, for engines that detect only the failure.

The Python engine checks all bytes but gives no reasons, so `explain_decoding` reads damaged bytes again, without
creating a message; this takes about as long as the first reading. The extension explains damaged bytes itself. For
values that do not fit, both engines call `explain_encoding`. The construct engine finds the path, offset and reason
independently; tests compare the results.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from kafkawire.sdk.errors import DecodeError, EncodeError, KafkaWireError, UnsupportedVersion
from kafkawire.sdk.protocol.primitives import (
    FIXED,
    MAX_LENGTH,
    MAX_STRING_BYTES,
    Refused,
    as_buffer,
    as_number,
    as_part,
    as_sequence,
    as_string,
    as_tags,
    invalid_tag,
    is_default,
    missing,
    other_class,
    reject_null,
    short,
    too_many,
)

if TYPE_CHECKING:
    from kafkawire.sdk.protocol.layout import FieldLayout, Layout

__all__ = ["explain_decoding", "explain_encoding"]


def explain_decoding(layout: Layout, data: bytes, offset: int) -> DecodeError | None:
    """Return the error in an encoding.

    Args:
        layout: the layout of the message.
        data: the bytes that contain it.
        offset: where the message begins.

    Returns:
        The error, or None if nothing is wrong.
    """
    try:
        _skip_structure(layout, data, offset, len(data))
    except _Damage as damage:
        return DecodeError(_joined(damage.steps), damage.offset, damage.reason)
    return None


def explain_encoding(layout: Layout, message: Any, threshold: int | None, error: BaseException | None) -> NoReturn:
    """Raise the error for a message that an engine could not write.

    Args:
        layout: the layout of the message.
        message: the message.
        threshold: None if the encoding was wanted in one piece, otherwise the size from which records become separate
            parts.
        error: the error that the engine caught; None if it merely found a value that does not fit.

    Raises:
        EncodeError: a value does not fit, or changed while it was written.
        UnsupportedVersion: a field does not exist in this version and cannot be left out.
        BaseException: an error raised by a value's own code.
    """
    if error is not None and (not isinstance(error, Exception) or isinstance(error, MemoryError)):
        raise error
    steps: list[str | int] = []
    explained: KafkaWireError
    try:
        _check_structure(layout, message, threshold is not None, steps)
    except _NotInVersion as reason:
        explained = UnsupportedVersion(f"{_joined(steps)}: {reason}")
    except Refused as reason:
        explained = EncodeError(_joined(steps), str(reason))
    else:
        explained = EncodeError("", f"{layout.name} version {layout.version}: a value changed while it was written")
        raise explained from error
    raise explained from None


def _joined(steps: list[str | int]) -> str:
    """Return the path formed by the fields and indexes that were collected on the way out."""
    path = ""
    for step in reversed(steps):
        path += f"[{step}]" if isinstance(step, int) else f".{step}" if path else step
    return path


# ------------------------------------------------------------------------------------------------------ damaged bytes


class _Damage(Exception):
    """Part of an encoding was rejected: its position, the reason, and the path, innermost step first."""

    def __init__(self, offset: int, reason: str, *steps: str | int) -> None:
        self.offset = offset
        self.reason = reason
        self.steps = list(steps)


class _Run(NamedTuple):
    """Neighbouring fields of fixed size, or a single other field.

    Attributes:
        size: the total size of the neighbours, 0 for a single other field.
        element_size: the size of an array's elements if it is fixed, otherwise 0.
        compact: whether that array has a compact count.
        fields: the neighbours, or the field.
    """

    size: int
    element_size: int
    compact: bool
    fields: tuple[FieldLayout, ...]


@cache
def _runs(layout: Layout) -> tuple[_Run, ...]:
    """Return the fields of a layout, grouping neighbours of fixed size."""
    runs: list[_Run] = []
    for field in layout.fields:
        size = FIXED[field.kind].size if field.kind in FIXED else 0
        if field.array:
            runs.append(_Run(0, size, field.compact, (field,)))
        elif size and runs and runs[-1].size:
            runs[-1] = _Run(runs[-1].size + size, 0, False, (*runs[-1].fields, field))
        else:
            runs.append(_Run(size, 0, False, (field,)))
    return tuple(runs)


def _skip_structure(layout: Layout, data: bytes, offset: int, end: int) -> int:
    for size, element_size, compact, fields in _runs(layout):
        if size:
            if size > end - offset:
                _find_short(fields, offset, end)
            offset += size
            continue
        if element_size:
            # Skip a count and its elements in one step: replicas are the bulk of a Metadata response. The code below
            # handles a null count.
            after = end + 1
            if compact:
                if offset < end and 0 < data[offset] < 128:
                    after = offset + 1 + (data[offset] - 1) * element_size
            elif end - offset > 3 and data[offset] < 128:
                after = offset + 4 + int.from_bytes(data[offset : offset + 4], "big") * element_size
            if after <= end:
                offset = after
                continue
        offset = _skip_field(fields[0], data, offset, end)
    if not layout.flexible:
        return offset
    if offset < end and data[offset] == 0:  # most structures have no tagged fields
        return offset + 1
    return _skip_tags(layout, data, offset, end)


def _find_short(fields: tuple[FieldLayout, ...], offset: int, end: int) -> NoReturn:
    """Raise the error for the field in which the bytes end."""
    for field in fields:
        size = FIXED[field.kind].size
        if size > end - offset:
            raise _Damage(offset, short(size, end - offset), field.name)
        offset += size
    raise AssertionError("the bytes hold all of them")


def _skip_field(field: FieldLayout, data: bytes, offset: int, end: int) -> int:
    try:
        if field.array:
            return _skip_array(field, data, offset, end)
        return _skip_value(field, data, offset, end, field.nullable)
    except _Damage as damage:
        damage.steps.append(field.name)
        raise


def _skip_value(field: FieldLayout, data: bytes, offset: int, end: int, nullable: bool) -> int:
    """Skip a value that is not an array."""
    if field.structure is not None:
        if nullable:
            present, offset = _skip_marker(field, data, offset, end)
            if not present:
                return offset
        return _skip_structure(field.structure, data, offset, end)
    if field.kind in FIXED:
        size = FIXED[field.kind].size
        if size > end - offset:
            raise _Damage(offset, short(size, end - offset))
        return offset + size
    start = offset
    if field.compact:
        if offset < end and 0 < data[offset] < 128 and data[offset] <= end - offset:
            return offset + data[offset]  # the usual case: a one-byte length, then one byte fewer than that
    elif field.kind == "string" and end - offset > 1 and data[offset] < 128:
        length = data[offset] << 8 | data[offset + 1]
        if length <= end - offset - 2:
            return offset + 2 + length
    length, offset = _skip_length(2 if field.kind == "string" else 4, field.compact, nullable, data, offset, end)
    if field.kind == "string" and length > MAX_STRING_BYTES:
        raise _Damage(start, f"the string has {length} bytes, but at most {MAX_STRING_BYTES} are allowed")
    if length > end - offset:
        raise _Damage(start, short(length, end - offset))
    return offset + length


def _skip_array(field: FieldLayout, data: bytes, offset: int, end: int) -> int:
    start = offset
    if not field.compact and end - offset > 3 and data[offset] < 128:
        count, offset = int.from_bytes(data[offset : offset + 4], "big"), offset + 4
    else:
        count, offset = _skip_length(4, field.compact, field.nullable, data, offset, end)
    if count > end - offset:
        raise _Damage(start, too_many(count, end - offset))
    structure = field.structure
    size = FIXED[field.kind].size if field.kind in FIXED else structure.size if structure is not None else None
    whole = 0
    if size:  # complete elements need no check
        whole = min(count, (end - offset) // size)
        offset += whole * size
    for index in range(whole, count):
        try:
            if structure is not None:
                offset = _skip_structure(structure, data, offset, end)
            else:
                offset = _skip_value(field, data, offset, end, False)
        except _Damage as damage:
            damage.steps.append(index)
            raise
    return offset


def _skip_length(width: int, compact: bool, nullable: bool, data: bytes, offset: int, end: int) -> tuple[int, int]:
    """Return a length or count, 0 for an allowed null, and its end."""
    start = offset
    if compact:
        length, offset = _read_varint(data, offset, end)
        length = length - 1 if length > -(2**31) else MAX_LENGTH  # int32 arithmetic wraps
    elif width > end - offset:
        raise _Damage(start, short(width, end - offset))
    else:
        length, offset = int.from_bytes(data[offset : offset + width], "big", signed=True), offset + width
    if length < 0:
        if not nullable:
            raise _Damage(start, reject_null(length))
        length = 0
    return length, offset


def _skip_marker(field: FieldLayout, data: bytes, offset: int, end: int) -> tuple[bool, int]:
    """Return whether a nullable structure is present, and the end of its marker."""
    if field.tag is not None:
        marker, offset = _read_varint(data, offset, end)
        return marker > 0, offset
    if offset >= end:
        raise _Damage(offset, short(1, 0))
    return data[offset] < 128, offset + 1


def _skip_tags(layout: Layout, data: bytes, offset: int, end: int) -> int:
    known = {field.tag: field for field in layout.tagged}
    start = offset
    try:
        count, offset = _read_varint(data, offset, end)
        for _ in range(count):
            start = offset
            if offset < end and data[offset] < 128:  # most have one byte
                tag, offset = data[offset], offset + 1
            else:
                tag, offset = _read_varint(data, offset, end)
            if offset < end and data[offset] < 128:
                size, offset = data[offset], offset + 1
            else:
                size, offset = _read_varint(data, offset, end)
            if tag in known:
                offset = _skip_field(known[tag], data, offset, end)
            elif tag in layout.invalid_tags:
                raise _Damage(start, invalid_tag(tag))
            elif size < 0:
                raise _Damage(start, f"the tagged field has {size} bytes")
            elif size > end - offset:
                raise _Damage(start, short(size, end - offset))
            else:
                offset += size
    except _Damage as damage:
        if not damage.steps:  # not in a known field
            damage.steps.append("unknown_tags")
            damage.offset = start
        raise
    return offset


def _read_varint(data: bytes, offset: int, end: int) -> tuple[int, int]:
    """Return an unsigned varint as int32, and its end."""
    start = offset
    value = 0
    for shift in (0, 7, 14, 21, 28):
        if offset >= end:
            raise _Damage(start, short(1, 0))
        byte = data[offset]
        offset += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            value &= 0xFFFFFFFF
            return (value - 2**32 if value >= 2**31 else value), offset
    raise _Damage(start, "the unsigned varint has more than 5 bytes")


# ------------------------------------------------------------------------------------------ values that do not fit


class _NotInVersion(Refused):
    """A field that the version lacks is set, or tagged fields are set although the version has none."""


def _check_structure(layout: Layout, message: Any, parts: bool, steps: list[str | int]) -> None:
    if type(message) is not layout.cls:
        raise Refused(other_class(layout.cls, message))
    for absent in layout.absent:
        if not absent.ignorable:
            value = _value(message, absent.name, steps)
            if not is_default(value, absent.new_default()):
                steps.append(absent.name)
                raise _NotInVersion(missing(layout.cls, layout.version, absent.versions))
    if not layout.flexible and not is_default(_value(message, "unknown_tags", steps), ()):
        steps.append("unknown_tags")
        raise _NotInVersion(f"version {layout.version} has no tagged fields")
    values = [_value(message, field.name, steps) for field in layout.fields]
    for field, value in zip(layout.fields, values, strict=True):
        _check_field(field, value, parts, steps)
    if layout.flexible:
        _check_tags(layout, message, parts, steps)


def _check_tags(layout: Layout, message: Any, parts: bool, steps: list[str | int]) -> None:
    unknown = _value(message, "unknown_tags", steps)
    try:
        known = [field.tag for field in layout.tagged if field.tag is not None]
        as_tags(unknown, known, layout.invalid_tags)
    except Refused:
        steps.append("unknown_tags")
        raise
    for field in layout.tagged:
        value = _value(message, field.name, steps)
        if not is_default(value, field.new_default()):
            _check_field(field, value, parts, steps)


def _value(message: Any, name: str, steps: list[str | int]) -> Any:
    try:
        return getattr(message, name)
    except AttributeError:
        steps.append(name)
        raise Refused("not set") from None


def _check_field(field: FieldLayout, value: Any, parts: bool, steps: list[str | int]) -> None:
    try:
        if not field.array:
            _check_value(field, value, parts, field.nullable, steps)
            return
        if value is None and field.nullable:
            return
        if value is None:
            raise Refused(reject_null())
        elements = as_sequence(value)
        if len(elements) > MAX_LENGTH:
            raise Refused(f"the length is {len(elements)}, but at most {MAX_LENGTH} is allowed")
        for index, element in enumerate(elements):
            try:
                _check_value(field, element, parts, False, steps)
            except Refused:
                steps.append(index)
                raise
    except Refused:
        steps.append(field.name)
        raise


def _check_value(field: FieldLayout, value: Any, parts: bool, nullable: bool, steps: list[str | int]) -> None:
    """Check a value that is not an array."""
    if field.kind in FIXED:
        as_number(field.kind, value)
    elif value is None:
        if not nullable:
            raise Refused(reject_null())
    elif field.structure is not None:
        _check_structure(field.structure, value, parts, steps)
    elif field.kind == "string":
        as_string(value)
    elif field.kind == "records" and parts:
        as_part(value)
    else:
        as_buffer(value)
