"""Arrays, structures and tagged fields as constructs, built from the primitive types of `construct_primitives.py`.

Source: Kafka protocol guide, "Protocol Primitive Types"; KIP-482 for the compact and tagged encodings.
"""

from __future__ import annotations

import io
from collections.abc import Collection, Mapping
from typing import Any, BinaryIO

from construct import Construct, Container, Struct, Subconstruct

from kafkawire.sdk.errors import EncodeError, UnsupportedVersion
from kafkawire.sdk.protocol.engines.construct_primitives import (
    Note,
    Reading,
    Writing,
    dotted,
    left,
    length_prefix,
    note,
    read_length,
    read_varint,
    take,
    varint,
)
from kafkawire.sdk.protocol.layout import absent_fields
from kafkawire.sdk.protocol.primitives import (
    Refused,
    as_sequence,
    as_tags,
    invalid_tag,
    is_default,
    missing,
    other_class,
    reject_null,
    too_many,
)
from kafkawire.sdk.protocol.schema import Message

__all__ = [
    "Array",
    "CompactArray",
    "CompactNullableArray",
    "NullableArray",
    "NullableStructure",
    "Structure",
    "TaggedFields",
    "TaggedNullableStructure",
]


class Array(Subconstruct):
    """An int32 count followed by the elements; parsed to a tuple."""

    compact = False
    nullable = False

    def _parse(self, stream: BinaryIO, context: Container, path: str) -> Any:
        start = stream.tell()
        with Reading(start, path):
            count = read_length(stream, ">i", self.compact, self.nullable)
            if count is not None and count > left(stream):
                raise Refused(too_many(count, left(stream)))
        note(context, start, stream, path, Note("null" if count is None else f"{count} elements"))
        if count is None:
            return None
        return tuple([self.subcon._parsereport(stream, context, f"{path}[{index}]") for index in range(count)])

    def _build(self, obj: Any, stream: BinaryIO, context: Container, path: str) -> Any:
        with Writing(path):
            if obj is None and not self.nullable:
                raise Refused(reject_null())
            elements = None if obj is None else as_sequence(obj)
            stream.write(length_prefix(None if elements is None else len(elements), ">i", self.compact))
        for index, element in enumerate(elements or ()):
            self.subcon._build(element, stream, context, f"{path}[{index}]")
        return obj


class NullableArray(Array):
    """An array that may be null; null has the count -1."""

    nullable = True


class CompactArray(Array):
    """An unsigned varint of count + 1 followed by the elements."""

    compact = True


class CompactNullableArray(CompactArray):
    """A compact array that may be null; null is written as 0."""

    nullable = True


class Structure(Subconstruct):
    """The fields of one version of a message class; instances of the class are parsed and built.

    Args:
        cls: the message class.
        version: the version; fields that this version lacks must have their defaults or be ignorable.
        fields: the fields on the wire, each with its name; tagged fields come last, named `unknown_tags`.
    """

    def __init__(self, cls: type[Message], version: int, *fields: Construct) -> None:
        super().__init__(Struct(*fields))
        self.cls = cls
        self.version = version
        self.names = [str(field.name) for field in fields]
        self.absent = absent_fields(cls, version)

    def _parse(self, stream: BinaryIO, context: Container, path: str) -> Message:
        parsed = self.subcon._parsereport(stream, context, path)
        values = {name: parsed[name] for name in self.names}
        values.update(values.pop("unknown_tags", {}))
        return self.cls(**values)

    def _build(self, obj: Any, stream: BinaryIO, context: Container, path: str) -> Any:
        with Writing(path):
            if type(obj) is not self.cls:
                raise Refused(other_class(self.cls, obj))
        self._check_absent(obj, path)
        values = {}
        for name in self.names:
            values[name] = obj if name == "unknown_tags" else _value(obj, name, path)
        self.subcon._build(values, stream, context, path)
        return obj

    def _check_absent(self, message: Message, path: str) -> None:
        for field in self.absent:
            if field.ignorable:
                continue
            value = _value(message, field.name, path)
            if not is_default(value, field.new_default()):
                where = dotted(f"{path} -> {field.name}")
                raise UnsupportedVersion(f"{where}: {missing(self.cls, self.version, field.versions)}")
        if "unknown_tags" not in self.names and not is_default(_value(message, "unknown_tags", path), ()):
            where = dotted(f"{path} -> unknown_tags")
            raise UnsupportedVersion(f"{where}: version {self.version} has no tagged fields")


class NullableStructure(Subconstruct):
    """An int8 marker, then the structure; a negative marker means null, and any other that the structure is present."""

    def _parse(self, stream: BinaryIO, context: Container, path: str) -> Any:
        start = stream.tell()
        with Reading(start, path):
            present = self._read_marker(stream)
        note(context, start, stream, path, Note("present" if present else "null"))
        return self.subcon._parsereport(stream, context, path) if present else None

    def _build(self, obj: Any, stream: BinaryIO, context: Container, path: str) -> Any:
        stream.write(self._marker(obj is not None))
        if obj is not None:
            self.subcon._build(obj, stream, context, path)
        return obj

    def _read_marker(self, stream: BinaryIO) -> bool:
        return take(stream, 1)[0] < 128

    def _marker(self, present: bool) -> bytes:
        return b"\x01" if present else b"\xff"


class TaggedNullableStructure(NullableStructure):
    """A nullable structure as a tagged field: the marker is an unsigned varint, 0 for null."""

    def _read_marker(self, stream: BinaryIO) -> bool:
        return read_varint(stream) > 0

    def _marker(self, present: bool) -> bytes:
        return b"\x01" if present else b"\x00"


class TaggedFields(Construct):
    """The number of tagged fields, followed by the tag, size and content of each.

    Parsing yields the values of the known fields, and all others as `unknown_tags`; building takes the message. As in
    Kafka, a known field is read according to its type, and its size is ignored.

    Args:
        fields: the known fields, each with its name, keyed by tag.
        invalid: the tags of fields that exist only in other versions; they are refused.
    """

    def __init__(self, fields: Mapping[int, Construct], invalid: Collection[int] = ()) -> None:
        super().__init__()
        self.fields = {tag: (str(field.name), field) for tag, field in fields.items()}
        self.invalid = invalid

    def _parse(self, stream: BinaryIO, context: Container, path: str) -> dict[str, Any]:
        owner = path.rpartition(" -> ")[0]
        start = stream.tell()
        with Reading(start, path):
            count = read_varint(stream)
        note(context, start, stream, path, Note(f"{count} tagged fields"))
        values: dict[str, Any] = {}
        unknown = []
        for _ in range(count):
            start = stream.tell()
            with Reading(start, path):
                tag, size = read_varint(stream), read_varint(stream)
            if tag in self.fields:
                name, field = self.fields[tag]
                note(context, start, stream, f"{owner} -> {name}", Note(f"tag {tag}, {size} bytes"))
                values[name] = field._parsereport(stream, context, owner)
                continue
            with Reading(start, path):
                if tag in self.invalid:
                    raise Refused(invalid_tag(tag))
                if size < 0:
                    raise Refused(f"the tagged field has {size} bytes")
                unknown.append((tag, take(stream, size)))
            note(context, start, stream, path, unknown[-1])
        return {**values, "unknown_tags": tuple(unknown)}

    def _build(self, obj: Any, stream: BinaryIO, context: Container, path: str) -> Any:
        owner = path.rpartition(" -> ")[0]
        defaults = {field.name: field.default_value() for field in obj.FIELDS}
        with Writing(path):
            present = dict(as_tags(_value(obj, "unknown_tags", owner), self.fields, self.invalid))
        for tag, (name, field) in self.fields.items():
            value = _value(obj, name, owner)
            if not is_default(value, defaults[name]):
                content = io.BytesIO()
                field._build(value, content, context, owner)
                present[tag] = content.getvalue()
        stream.write(varint(len(present)))
        for tag in sorted(present):
            stream.write(varint(tag) + varint(len(present[tag])))
            stream.write(present[tag])
        return obj


def _value(message: Message, name: str, path: str) -> Any:
    try:
        return getattr(message, name)
    except AttributeError:
        where = dotted(f"{path} -> {name}")
        raise EncodeError(where, "not set") from None
