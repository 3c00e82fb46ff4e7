"""Narrow a message to one version: its fields, with their order and encoding.

The emitters of readable text and the comparison of releases use this module; no other code resolves a field's ranges.

Source: KIP-482: in each structure, the ordinary fields come first, then the tagged ones by number.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from kafkawire.codegen.spec import PRIMITIVES, FieldSpec, MessageSpec

__all__ = ["Entry", "layout", "walk"]

#: The fields of each structure in a message, keyed by the structure's name.
_Structures = Mapping[str, tuple[FieldSpec, ...]]


@dataclass(frozen=True, slots=True)
class Entry:
    """A field in one version.

    Attributes:
        field: its definition for all versions.
        nullable: whether it may be null.
        tag: its number; None for an ordinary field.
        compact: whether its length is an unsigned varint; false for types without a length.
        entries: the fields of its structure; empty for a primitive.
    """

    field: FieldSpec
    nullable: bool
    tag: int | None
    compact: bool
    entries: tuple[Entry, ...]

    @property
    def type(self) -> str:
        """The type in the notation of the schemas, such as `[]FetchTopic?`."""
        return f"{'[]' if self.field.array else ''}{self.field.type}{'?' if self.nullable else ''}"

    @property
    def is_structure(self) -> bool:
        """Whether the field, or each of its elements, is a structure."""
        return self.field.type not in PRIMITIVES


def layout(message: MessageSpec, version: int) -> tuple[Entry, ...]:
    """Return the fields of `message` in wire order in `version`, which may be current or removed.

    Raises:
        ValueError: the version does not exist.
    """
    if version not in message.known:
        raise ValueError(f"{message.name} has no version {version}; it has {message.known}")
    structures = {name: fields for name, fields, _about in message.all_structs()}
    return _entries(message, structures, message.fields, version)


def walk(entries: tuple[Entry, ...], path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Entry]]:
    """Yield each entry and the entries inside it, with their paths."""
    for entry in entries:
        here = (*path, entry.field.name)
        yield here, entry
        yield from walk(entry.entries, here)


def _entries(
    message: MessageSpec, structures: _Structures, fields: tuple[FieldSpec, ...], version: int
) -> tuple[Entry, ...]:
    entries = [_entry(message, structures, field, version) for field in fields if version in field.versions]
    ordinary = [entry for entry in entries if entry.tag is None]
    tagged = [(entry.tag, entry) for entry in entries if entry.tag is not None]
    return (*ordinary, *(entry for _tag, entry in sorted(tagged, key=lambda pair: pair[0])))


def _entry(message: MessageSpec, structures: _Structures, field: FieldSpec, version: int) -> Entry:
    has_length = field.array or field.type in ("string", "bytes", "records")
    structure = () if field.type in PRIMITIVES else structures[field.type]
    return Entry(
        field=field,
        nullable=version in field.nullable,
        tag=field.tag if version in field.tagged else None,
        compact=has_length and version in message.flexible and field.flexible is None,
        entries=_entries(message, structures, structure, version),
    )
