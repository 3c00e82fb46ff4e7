"""Narrow a message class to one version: the result is the flat description from which all three engines work.

A generated class lists its fields for all versions (`schema.py`). For one version, a `Layout` says which fields are on
the wire, in which order and encoding, and which are absent. All version-dependent decisions are made in this module,
none in the engines.

Source: Kafka protocol guide; KIP-482 for flexible versions; `MessageDataGenerator` in Apache Kafka.
"""

from functools import cache, cached_property
from typing import Any, NamedTuple

from kafkawire.sdk.errors import LocalProtocolError, UnsupportedVersion
from kafkawire.sdk.protocol.primitives import FIXED
from kafkawire.sdk.protocol.schema import Field, Message, Schema
from kafkawire.sdk.protocol.values import DEFAULT, digits, quoted

__all__ = ["AbsentField", "FieldLayout", "Layout", "absent_fields", "layout"]


class FieldLayout(NamedTuple):
    """One field as it is encoded in one version.

    Attributes:
        name: the attribute.
        kind: a primitive, or `struct`; the kind of the elements if `array`.
        array: whether it is an array.
        nullable: whether null is allowed.
        compact: whether lengths are unsigned varints of length + 1; otherwise they are int16 (strings) or int32.
        tag: the number of a tagged field, otherwise None.
        structure: the layout of a `struct`, otherwise None.
        default: the value if the field is absent; `DEFAULT` for a new instance of the structure.
    """

    name: str
    kind: str
    array: bool
    nullable: bool
    compact: bool
    tag: int | None
    structure: "Layout | None"
    default: Any

    def new_default(self) -> Any:
        """Return the value that the field has when it is not on the wire."""
        return self.structure.cls() if self.default is DEFAULT and self.structure else self.default


class AbsentField(NamedTuple):
    """One field that the version does not have.

    Attributes:
        name: the attribute.
        default: its value; `DEFAULT` for a new instance of the structure.
        structure: the class of a structure, otherwise None.
        ignorable: whether a value other than the default is dropped silently.
        versions: the versions that have the field, as text.
    """

    name: str
    default: Any
    structure: type[Message] | None
    ignorable: bool
    versions: str

    def new_default(self) -> Any:
        """Return the value that the field has if it was not set."""
        return self.structure() if self.default is DEFAULT and self.structure else self.default


class Layout:
    """A structure in one version.

    Attributes:
        cls: the message class.
        version: the version.
        flexible: whether tagged fields follow the fields.
        fields: the fields on the wire, in order.
        tagged: the tagged fields, keyed by tag.
        invalid_tags: the tags of fields that only other versions have; in this version, Kafka treats them neither as
            fields nor as unknown tags.
        absent: the fields that are not in this version.
    """

    def __init__(self, cls: type[Message], version: int, flexible: bool) -> None:
        self.cls = cls
        self.version = version
        self.flexible = flexible
        present = [field for field in cls.FIELDS if _present(field, version)]
        tagged = [field for field in present if field.tagged is not None and version in field.tagged]
        self.fields = tuple(self._narrow(field, None) for field in present if field not in tagged)
        self.tagged = tuple(
            self._narrow(field, field.tag) for field in sorted(tagged, key=lambda field: field.tag or 0)
        )
        own = {field.tag for field in self.tagged}
        known = {field.tag for field in cls.FIELDS if field.tag is not None} if flexible else set[int]()
        self.invalid_tags = tuple(sorted(known - own))
        self.absent = absent_fields(cls, version)
        if any(field.kind == "records" or (field.structure and field.structure.has_records) for field in self.tagged):
            # `encode_parts` keeps records out of the buffer, but a tagged field's size would have to include them.
            raise TypeError(f"{self.name}: a tagged field holds records, which is not supported")

    def __repr__(self) -> str:
        return f"<layout of {self.name} version {self.version}>"

    @property
    def name(self) -> str:
        """The name of the structure, such as `FetchRequest.FetchTopic`."""
        return self.cls.__qualname__

    @cached_property
    def size(self) -> int | None:
        """The size in bytes if it is the same for all values, otherwise None."""
        total = 0
        for field in self.fields:
            size = field.structure.size if field.structure else getattr(FIXED.get(field.kind), "size", None)
            if size is None or field.array or (field.structure and field.nullable):
                return None
            total += size
        return None if self.flexible else total

    @cached_property
    def has_records(self) -> bool:
        """Whether the structure contains `records`, which are views of the bytes they were read from."""
        return any(
            field.kind == "records" or (field.structure is not None and field.structure.has_records)
            for field in self.fields
        )

    def _narrow(self, field: Field, tag: int | None) -> FieldLayout:
        structure = _structure(field.type, self.version, self.flexible) if isinstance(field.type, type) else None
        return FieldLayout(
            name=field.name,
            kind="struct" if isinstance(field.type, type) else field.type,
            array=field.array,
            nullable=field.nullable is not None and self.version in field.nullable,
            compact=self.flexible and field.compact,
            tag=tag,
            structure=structure,
            default=field.default,
        )


def layout(cls: type[Message], version: int) -> Layout:
    """Return the layout of a message in one version.

    Args:
        cls: a message class with a schema.
        version: one of its versions, current or removed.

    Raises:
        LocalProtocolError: `cls` is not a message class, or the version is not an int.
        UnsupportedVersion: the message does not exist in this version.
    """
    if not isinstance(cls, type) or not issubclass(cls, Message):
        raise LocalProtocolError(f"{quoted(cls)} is not a message class")
    schema: Schema | None = getattr(cls, "SCHEMA", None)
    if schema is None:
        raise LocalProtocolError(f"{cls.__qualname__} is part of messages and has no versions of its own")
    if not isinstance(version, int) or isinstance(version, bool):
        raise LocalProtocolError(f"{schema.name}: version {quoted(version)} is not an int")
    if version not in (known := schema.known_versions):
        raise UnsupportedVersion(f"{schema.name} has no version {digits(version)}; the known versions are {known}")
    return _structure(cls, int(version), schema.flexible is not None and version in schema.flexible)


@cache
def _structure(cls: type[Message], version: int, flexible: bool) -> Layout:
    return Layout(cls, version, flexible)


def absent_fields(cls: type[Message], version: int) -> tuple[AbsentField, ...]:
    """Return the fields of a structure that a version does not have."""
    return tuple(
        AbsentField(
            name=field.name,
            default=field.default,
            structure=field.type if isinstance(field.type, type) and not field.array else None,
            ignorable=field.ignorable,
            versions=str(field.versions or field.tagged or field.versions),
        )
        for field in cls.FIELDS
        if not _present(field, version)
    )


def _present(field: Field, version: int) -> bool:
    return version in field.versions or (field.tagged is not None and version in field.tagged)
