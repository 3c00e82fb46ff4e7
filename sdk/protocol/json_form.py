"""Messages as JSON values, in the form that Apache Kafka's own converters print.

Field names are camelCase; bytes and records are base64; UUIDs are URL-safe base64 without padding. A tagged field with
its default value is omitted; every other field of the version is present. Null is allowed where any version allows it.
Numbers that JSON cannot express become the strings `NaN`, `Infinity` and `-Infinity`, which Kafka prints but does not
read. Unknown tagged fields have no JSON form.

Source: `JsonConverterGenerator` and `MessageUtil` in Apache Kafka; Jackson (base64).
"""

from __future__ import annotations

import base64
import math
import re
from collections.abc import Callable
from functools import cache
from typing import Any, TypeVar, overload

from kafkawire.sdk.errors import EncodeError, LocalProtocolError, UnsupportedVersion
from kafkawire.sdk.near_names import nearest
from kafkawire.sdk.protocol.layout import FieldLayout, Layout, layout
from kafkawire.sdk.protocol.primitives import (
    LIMITS,
    Refused,
    as_buffer,
    as_number,
    as_sequence,
    as_string,
    as_uuid,
    is_default,
    other_class,
)
from kafkawire.sdk.protocol.programs import message_class
from kafkawire.sdk.protocol.schema import Field, Message
from kafkawire.sdk.protocol.uuids import format_uuid, parse_uuid
from kafkawire.sdk.protocol.values import quoted

__all__ = ["from_json", "to_json"]

#: Groups of four characters, padded if they encode fewer than three bytes, with optional white space between them. The
#: quantifiers are possessive, so no position is tried twice.
_BASE64 = re.compile(
    r"(?:[\x00-\x20]*+(?:[A-Za-z0-9+/]{4}|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{2}==))*+[\x00-\x20]*+", re.ASCII
)
#: Text up to the padding, at which other decoders would stop reading.
_PADDED = re.compile("[^=]+={0,2}")

#: Maximum number of unknown names to compare with a missing name; more would take too long.
_COMPARED_MAX = 100

T = TypeVar("T")
M = TypeVar("M", bound=Message)

_NOT_FINITE = ("NaN", "Infinity", "-Infinity")


def to_json(message: Message, version: int) -> dict[str, Any]:
    """Return the JSON value of a message.

    Args:
        message: the message; ignorable fields that the version lacks are dropped.
        version: the version.

    Raises:
        UnsupportedVersion: the version does not exist, or it lacks a field that is set and cannot be dropped.
        EncodeError: a field has the wrong type, or is None but not nullable in any version.
    """
    return _structure_to_json(message, layout(type(message), version), "")


@overload
def from_json(message: type[M], version: int, value: dict[str, Any]) -> M: ...
@overload
def from_json(message: str, version: int, value: dict[str, Any]) -> Message: ...
def from_json(message: str | type[M], version: int, value: dict[str, Any]) -> M | Message:
    """Return the message that a JSON value describes.

    Args:
        message: a message class, or its name in Kafka.
        version: the version.
        value: the JSON value, as `json.loads` returns it. Names that no version of the message has are ignored; fields
            that only other versions have are read, for `Codec.encode` to drop or refuse.

    Raises:
        LocalProtocolError: there is no such message.
        UnsupportedVersion: the version does not exist, or it lacks a structure that the value contains.
        EncodeError: a field is missing or has the wrong type.
    """
    cls = message if isinstance(message, type) else message_class(message)
    return _structure_from_json(value, layout(cls, version), "")


@cache
def _json_name(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(word.capitalize() for word in others)


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _structure_to_json(message: Message, structure: Layout, path: str) -> dict[str, Any]:
    for absent in structure.absent:
        name = _join(path, _json_name(absent.name))
        if not absent.ignorable and not is_default(_content(message, absent.name, name), absent.new_default()):
            raise UnsupportedVersion(
                f"{name}: it is not in version {structure.version} of {structure.name}, but exists in {absent.versions}"
            )
    value = {}
    nullable = {field.name for field in structure.cls.FIELDS if field.nullable is not None}
    for field in structure.fields + structure.tagged:
        name = _json_name(field.name)
        content = _content(message, field.name, _join(path, name))
        if field.tag is not None and is_default(content, field.new_default()):
            continue
        if content is None and field.name not in nullable:
            raise EncodeError(_join(path, name), "null is not allowed in any version")
        value[name] = None if content is None else _field_to_json(content, field, _join(path, name))
    return value


def _content(message: Message, name: str, path: str) -> Any:
    try:
        return getattr(message, name)
    except AttributeError:
        raise EncodeError(path, "not set") from None


def _checked(path: str, check: Callable[..., T], *args: Any) -> T:
    """Return the result of a check on a value; if the value is refused, name the field in the error."""
    try:
        return check(*args)
    except Refused as reason:
        raise EncodeError(path, str(reason)) from None


def _field_to_json(value: Any, field: FieldLayout, path: str) -> Any:
    if field.array:
        elements = _checked(path, as_sequence, value)
        return [_element_to_json(element, field, f"{path}[{index}]") for index, element in enumerate(elements)]
    return _element_to_json(value, field, path)


def _element_to_json(value: Any, field: FieldLayout, path: str) -> Any:
    match field.kind:
        case "struct":
            assert field.structure is not None
            if type(value) is not field.structure.cls:
                raise EncodeError(path, other_class(field.structure.cls, value))
            return _structure_to_json(value, field.structure, path)
        case "bytes" | "records":
            return base64.b64encode(_checked(path, as_buffer, value)).decode("ascii")
        case "uuid":
            return format_uuid(_checked(path, as_uuid, value))
        case "string":
            return _checked(path, as_string, value).decode()
    number = _checked(path, as_number, field.kind, value)
    if field.kind == "float64" and not math.isfinite(number):
        return "NaN" if math.isnan(number) else "Infinity" if number > 0 else "-Infinity"
    return number


def _meant(name: str, value: dict[str, Any], structure: Layout) -> str:
    """Return the end of the error about a missing field: an unknown name that may be a misspelling of it, if any."""
    known = {_json_name(field.name) for field in structure.cls.FIELDS}
    others = [given for given in value if isinstance(given, str) and given not in known]
    near = nearest(name, others[:_COMPARED_MAX])
    return f"; {near[0]!r} is not one of its fields" if near else ""


def _structure_from_json(value: Any, structure: Layout, path: str) -> Message:
    if not isinstance(value, dict):
        raise EncodeError(path, f"expected an object, got {quoted(value)}")
    message = structure.cls()
    present = {field.name: field for field in structure.fields + structure.tagged}
    for field in structure.cls.FIELDS:
        name = _json_name(field.name)
        own = present.get(field.name)
        if name in value:
            inner = None if own is None else own.structure
            setattr(message, field.name, _field_from_json(value[name], field, inner, _join(path, name)))
        elif own is not None and own.tag is None:
            reason = f"the field is missing, but version {structure.version} of {structure.name} requires it"
            raise EncodeError(_join(path, name), reason + _meant(name, value, structure))
    return message


def _field_from_json(value: Any, field: Field, structure: Layout | None, path: str) -> Any:
    """Return the value of a field; `structure` is None if the version lacks its structure."""
    if value is None:
        if field.nullable is None:
            raise EncodeError(path, "null is not allowed in any version")
        return None
    if not field.array:
        return _element_from_json(value, field, structure, path)
    if not isinstance(value, list):
        raise EncodeError(path, f"expected an array, got {quoted(value)}")
    return tuple(
        _element_from_json(element, field, structure, f"{path}[{index}]") for index, element in enumerate(value)
    )


def _element_from_json(value: Any, field: Field, structure: Layout | None, path: str) -> Any:
    match field.type:
        case type():
            if structure is None:
                raise UnsupportedVersion(f"{path}: it is not in this version, but exists in {field.versions}")
            return _structure_from_json(value, structure, path)
        case "bytes" | "records" | "uuid" if isinstance(value, str):
            return _bytes_from_json(value, field.type, path)
        case "bool" if isinstance(value, bool):
            return value
        case "float64" if isinstance(value, float) or value in _NOT_FINITE:
            return float(value)
        case "string" if isinstance(value, str):
            return _checked(path, as_string, value).decode()
        case kind if kind in LIMITS and isinstance(value, int) and not isinstance(value, bool):
            return _integer_from_json(value, kind, path)
    raise EncodeError(path, f"expected {field.type}, got {quoted(value)}")


def _integer_from_json(value: int, kind: str, path: str) -> int:
    low, high = LIMITS[kind]
    if kind == "int8" and high < value <= -2 * low:
        # As in `MessageUtil.jsonNodeToByte`: 128 becomes 0, 255 becomes 127, and 256 would become 128, which wraps.
        value += low
        return value if value <= high else low
    number: int = _checked(path, as_number, kind, value)
    return number


def _bytes_from_json(text: str, kind: str, path: str) -> bytes:
    try:
        return parse_uuid(text) if kind == "uuid" else _decode_base64(text)
    except LocalProtocolError as error:
        raise EncodeError(path, str(error)) from None
    except ValueError:
        raise EncodeError(path, f"expected base64, got {quoted(text)}") from None


def _decode_base64(text: str) -> bytes:
    """Decode base64 as Jackson does; raise ValueError where Jackson fails."""
    if not _BASE64.fullmatch(text):
        raise ValueError
    return b"".join(map(base64.b64decode, _PADDED.findall(text)))
