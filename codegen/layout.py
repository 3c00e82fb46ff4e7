"""Narrow a message to one version: which fields are there, in which order, in which form.

What emitters of readable text and the evolution check work from; a field's ranges are resolved here and nowhere else.

Source: KIP-482: within each structure first the ordinary fields, then the tagged ones by their numbers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from kafkawire.codegen.spec import PRIMITIVES, FieldSpec, MessageSpec

__all__ = ["Entry", "layout", "walk"]


@dataclass(frozen=True, slots=True)
class Entry:
    """One field as it stands in one version.

    Attributes:
        field: its definition over all versions.
        nullable: whether it may be null.
        tag: its number, None for an ordinary field.
        compact: whether its length is an unsigned varint (false also for types without a length).
        entries: what its structure holds, empty for a primitive.
    """

    field: FieldSpec
    nullable: bool
    tag: int | None
    compact: bool
    entries: tuple[Entry, ...]

    @property
    def type(self) -> str:
        """The type in the notation of the schemas, as `[]FetchTopic?`."""
        return f"{'[]' if self.field.array else ''}{self.field.type}{'?' if self.nullable else ''}"

    @property
    def is_structure(self) -> bool:
        """Whether the field, or each of its elements, is a structure."""
        return self.field.type not in PRIMITIVES


def layout(message: MessageSpec, version: int) -> tuple[Entry, ...]:
    """Return what `message` holds in `version`, in wire order.

    Raises:
        ValueError: the version does not exist.
    """
    if version not in message.versions:
        raise ValueError(f"{message.name} has no version {version}; it has {message.versions}")
    return _entries(message, message.fields, version)


def walk(entries: tuple[Entry, ...], path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Entry]]:
    """Yield each entry and those inside it, with its path."""
    for entry in entries:
        here = (*path, entry.field.name)
        yield here, entry
        yield from walk(entry.entries, here)


def _entries(message: MessageSpec, fields: tuple[FieldSpec, ...], version: int) -> tuple[Entry, ...]:
    entries = [_entry(message, field, version) for field in fields if version in field.versions]
    ordinary = [entry for entry in entries if entry.tag is None]
    tagged = [(entry.tag, entry) for entry in entries if entry.tag is not None]
    return (*ordinary, *(entry for _tag, entry in sorted(tagged, key=lambda pair: pair[0])))


def _entry(message: MessageSpec, field: FieldSpec, version: int) -> Entry:
    has_length = field.array or field.type in ("string", "bytes", "records")
    structure = () if field.type in PRIMITIVES else field.fields or message.struct_fields(field.type)
    return Entry(
        field=field,
        nullable=version in field.nullable,
        tag=field.tag if version in field.tagged else None,
        compact=has_length and version in message.flexible and field.flexible is None,
        entries=_entries(message, structure, version),
    )
