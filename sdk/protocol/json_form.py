"""Messages as JSON values, in the form that Apache Kafka's own converters print.

Field names are camelCase; bytes and records are base64; UUIDs are URL-safe base64 without padding; a tagged field
that has its default is left out, every other field of the version is there; numbers that JSON does not have are the
strings `NaN`, `Infinity` and `-Infinity`. Unknown tagged fields have no JSON form.

Source: `JsonConverterGenerator` in Apache Kafka.
"""

from __future__ import annotations

import base64
import binascii
import math
from functools import cache
from typing import Any

from kafkawire.sdk.errors import EncodeError, LocalProtocolError, UnsupportedVersion
from kafkawire.sdk.protocol.layout import FieldLayout, Layout, layout
from kafkawire.sdk.protocol.primitives import LIMITS, as_buffer, is_default
from kafkawire.sdk.protocol.programs import message_class
from kafkawire.sdk.protocol.schema import Message
from kafkawire.sdk.protocol.uuids import format_uuid, parse_uuid

__all__ = ["from_json", "to_json"]

_NOT_FINITE = ("NaN", "Infinity", "-Infinity")


def to_json(message: Message, version: int) -> dict[str, Any]:
    """Return the JSON value of a message.

    Args:
        message: the message; fields that the version does not have are dropped when they may be.
        version: the version.

    Raises:
        UnsupportedVersion: the version does not exist, or lacks a field that is set and cannot be dropped.
        EncodeError: a required field is None.
    """
    return _structure_to_json(message, layout(type(message), version), "")


def from_json(name: str, version: int, value: dict[str, Any]) -> Message:
    """Return the message of a JSON value.

    Args:
        name: Kafka's name of the message.
        version: the version.
        value: the JSON value, as `json.loads` returns it.

    Raises:
        UnsupportedVersion: the version does not exist.
        EncodeError: a field is missing, unknown to the version, or not of its type.
    """
    return _structure_from_json(value, layout(message_class(name), version), "")


@cache
def _json_name(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(word.capitalize() for word in others)


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _structure_to_json(message: Message, structure: Layout, path: str) -> dict[str, Any]:
    for absent in structure.absent:
        if not absent.ignorable and not is_default(getattr(message, absent.name), absent.new_default()):
            raise UnsupportedVersion(
                f"{_join(path, _json_name(absent.name))}: not in version {structure.version} of {structure.name}, "
                f"exists in {absent.versions}"
            )
    value = {}
    for field in structure.fields + structure.tagged:
        content = getattr(message, field.name)
        if field.tag is not None and is_default(content, field.new_default()):
            continue
        name = _json_name(field.name)
        value[name] = _field_to_json(content, field, _join(path, name))
    return value


def _field_to_json(value: Any, field: FieldLayout, path: str) -> Any:
    if value is None:
        if not field.nullable:
            raise EncodeError(path, "null is not allowed in this version")
        return None
    if field.array:
        return [_element_to_json(element, field, f"{path}[{index}]") for index, element in enumerate(value)]
    return _element_to_json(value, field, path)


def _element_to_json(value: Any, field: FieldLayout, path: str) -> Any:
    match field.kind:
        case "struct":
            assert field.structure is not None
            return _structure_to_json(value, field.structure, path)
        case "bytes" | "records":
            return base64.b64encode(as_buffer(value)).decode("ascii")
        case "uuid":
            return _text_of_uuid(value, path)
        case "float64" if not math.isfinite(value):
            return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
        case _:
            return value


def _structure_from_json(value: Any, structure: Layout, path: str) -> Message:
    if not isinstance(value, dict):
        raise EncodeError(path, f"expected an object, got {value!r:.60}")
    message = structure.cls()
    known = set()
    for field in structure.fields + structure.tagged:
        name = _json_name(field.name)
        known.add(name)
        if name in value:
            setattr(message, field.name, _field_from_json(value[name], field, _join(path, name)))
        elif field.tag is None:
            raise EncodeError(_join(path, name), f"missing, version {structure.version} of {structure.name} has it")
    for name in value:
        if name not in known:
            raise EncodeError(_join(path, name), f"version {structure.version} of {structure.name} has no such field")
    return message


def _field_from_json(value: Any, field: FieldLayout, path: str) -> Any:
    if value is None:
        if not field.nullable:
            raise EncodeError(path, "null is not allowed in this version")
        return None
    if not field.array:
        return _element_from_json(value, field, path)
    if not isinstance(value, list):
        raise EncodeError(path, f"expected an array, got {value!r:.60}")
    return tuple(_element_from_json(element, field, f"{path}[{index}]") for index, element in enumerate(value))


def _element_from_json(value: Any, field: FieldLayout, path: str) -> Any:
    match field.kind:
        case "struct":
            assert field.structure is not None
            return _structure_from_json(value, field.structure, path)
        case "bytes" | "records" | "uuid" if isinstance(value, str):
            return _bytes_from_json(value, field.kind, path)
        case "bool" if isinstance(value, bool):
            return value
        case "float64" if isinstance(value, int | float) and not isinstance(value, bool):
            return float(value)
        case "float64" if value in _NOT_FINITE:
            return float(value)
        case "string" if isinstance(value, str):
            return value
        case kind if kind in LIMITS and isinstance(value, int) and not isinstance(value, bool):
            return value
    raise EncodeError(path, f"expected {field.kind}, got {value!r:.60}")


def _text_of_uuid(value: Any, path: str) -> str:
    try:
        return format_uuid(value)
    except LocalProtocolError as error:
        raise EncodeError(path, str(error)) from None


def _bytes_from_json(text: str, kind: str, path: str) -> bytes:
    try:
        return parse_uuid(text) if kind == "uuid" else base64.b64decode(text, validate=True)
    except LocalProtocolError as error:
        raise EncodeError(path, str(error)) from None
    except (binascii.Error, ValueError):
        raise EncodeError(path, f"expected base64, got {text!r:.60}") from None
