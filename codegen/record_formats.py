"""Read the record formats: what lies at which byte of a batch, a record or an old message.

A format is a sequence of fields like a message's, with what messages do not need: bits of a number, varints, lengths
and checksums over a stretch of fields, a compressed region. Every error names the file, the line and the field.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from struct import calcsize

from kafkawire.codegen.located import Located, SchemaError, read_documents

__all__ = ["FIXED", "Bits", "RecordField", "RecordFormat", "load_record_format", "load_record_formats"]

#: Types of a fixed size, with their `struct` code.
FIXED = {"int8": "b", "int16": "h", "int32": "i", "uint32": "I", "int64": "q"}

_VARIABLE = {"varint", "varlong", "bytes", "string"}
_CHECKSUMS = ("crc32", "crc32c")
_FIELD = {"name", "type", "about", "default", "const", "measures", "checksum", "covers", "bits", "length", "count"}


@dataclass(frozen=True, slots=True)
class Bits:
    """A few bits of a number that have a name.

    Attributes:
        name: what they say.
        low: the lowest bit.
        high: the highest bit.
        values: the names of the values; empty for a flag.
        about: one sentence of ours.
    """

    name: str
    low: int
    high: int
    values: tuple[str, ...]
    about: str

    @property
    def mask(self) -> int:
        """The bits as a number."""
        return ((1 << (self.high - self.low + 1)) - 1) << self.low


@dataclass(frozen=True, slots=True)
class RecordField:
    """One field of a record format.

    Attributes:
        name: snake_case.
        type: `int8` to `int64`, `varint`, `varlong`, `bytes`, `string`, or the name of a format.
        array: whether it is a sequence.
        nullable: whether a length of -1 means null.
        offset: where it begins, in bytes from the start; None behind a field of variable size.
        default: its value when nothing was set.
        const: the only value that it may have.
        measures: the first field of the stretch whose bytes it counts, to the end.
        checksum: `crc32` or `crc32c`, of the stretch that begins with `covers`.
        covers: see `checksum`.
        bits: what its bits say.
        length: the type of the length in front of bytes and strings.
        count: the type of the count in front of a sequence, or the field that has it.
        compressed_by: the bits that say how it is compressed, as `attributes.compression`.
        about: one sentence of ours.
    """

    name: str
    type: str
    array: bool
    nullable: bool
    offset: int | None
    default: int | None
    const: int | None
    measures: str | None
    checksum: str | None
    covers: str | None
    bits: tuple[Bits, ...]
    length: str | None
    count: str | None
    compressed_by: str | None
    about: str


@dataclass(frozen=True, slots=True)
class RecordFormat:
    """A record format: its name, the magic byte if it has one, its fields in order."""

    name: str
    about: str
    magic: int | None
    fields: tuple[RecordField, ...]

    def field(self, name: str) -> RecordField:
        """Return the field of that name."""
        return next(field for field in self.fields if field.name == name)

    @property
    def fixed(self) -> tuple[RecordField, ...]:
        """The fields of fixed size that stand at the beginning."""
        return tuple(field for field in self.fields if field.offset is not None and field.type in FIXED)


def load_record_formats(folder: Path) -> dict[str, RecordFormat]:
    """Read every record format of a folder of schemas, by name.

    Raises:
        SchemaError: a file is wrong.
    """
    paths = sorted((folder / "records").glob("*.yaml"))
    formats = [load_record_format(path) for path in paths]
    return {format_.name: format_ for format_ in formats}


def load_record_format(path: Path) -> RecordFormat:
    """Read one record format.

    Raises:
        SchemaError: it is wrong; names the line and the field.
    """
    documents = list(read_documents(path))
    if len(documents) != 1:
        raise SchemaError(path, 0, f"{len(documents)} documents, a record format is one")
    source = documents[0]
    source.only({"record_format", "about", "magic", "fields"})
    fields = tuple(_fields(source))
    names = [field.name for field in fields]
    for index, (field, item) in enumerate(zip(fields, source["fields"], strict=True)):
        if field.name in names[:index]:
            raise item.error(f"field {field.name} stands twice")
        for key, other in (("measures", field.measures), ("covers", field.covers)):
            if other is not None and other not in names:
                raise item.error(f"field {field.name}: {key}: there is no field {other}", key)
        if field.compressed_by is not None:
            owner, _, bits = field.compressed_by.partition(".")
            if bits not in {entry.name for known in fields if known.name == owner for entry in known.bits}:
                raise item.error(f"field {field.name}: compressed_by: there are no bits {field.compressed_by}")
    return RecordFormat(
        name=source.require("record_format", str),
        about=source.require("about", str),
        magic=source.optional("magic", int, None),
        fields=fields,
    )


def _fields(source: Located) -> Iterator[RecordField]:
    offset: int | None = 0
    for item in source.require("fields", list):
        if not isinstance(item, Located):
            raise source.error(f"fields: {item!r} is not a mapping", "fields")
        field = _field(item, offset)
        yield field
        offset = offset + calcsize(f">{FIXED[field.type]}") if offset is not None and field.type in FIXED else None


def _field(item: Located, offset: int | None) -> RecordField:
    item.only(_FIELD | {"compressed_by"})
    name = item.require("name", str)
    text = item.require("type", str)
    kind = text.removeprefix("[]").removesuffix("?")
    if kind not in FIXED and kind not in _VARIABLE and not kind[:1].isupper():
        raise item.error(f"field {name}: {text!r} is no type", "type")
    checksum = item.optional("checksum", str, None)
    if checksum is not None and checksum not in _CHECKSUMS:
        raise item.error(f"field {name}: checksum {checksum!r}: one of {', '.join(_CHECKSUMS)} is expected", "checksum")
    return RecordField(
        name=name,
        type=kind,
        array=text.startswith("[]"),
        nullable=text.endswith("?"),
        offset=offset,
        default=item.optional("default", int, None),
        const=item.optional("const", int, None),
        measures=_stretch(item, "measures"),
        checksum=checksum,
        covers=_stretch(item, "covers"),
        bits=tuple(_bits(item, name)),
        length=item.optional("length", str, None),
        count=item.optional("count", str, None),
        compressed_by=item.optional("compressed_by", str, None),
        about=item.optional("about", str, ""),
    )


def _stretch(item: Located, key: str) -> str | None:
    """Return the first field of a stretch `first..end`; every stretch goes to the end."""
    text: str | None = item.optional(key, str, None)
    if text is None:
        return None
    first, separator, last = text.partition("..")
    if not separator or last != "end":
        raise item.error(f"field {item.get('name')}: {key}: {text!r} is not FIELD..end", key)
    return first


def _bits(item: Located, name: str) -> Iterator[Bits]:
    bits: Located | None = item.optional("bits", dict, None)
    for key, entry in (bits or {}).items():
        if not isinstance(entry, Located):
            raise item.error(f"field {name}: bits {key}: {entry!r} is not a mapping", "bits")
        entry.only({"at", "enum", "about"})
        low, _, high = str(entry.require("at", (str, int))).partition("-")
        if not low.isdigit() or not (high or low).isdigit():
            raise entry.error(f"field {name}: bits {key}: at: {entry['at']!r} is no bit and no range of bits", "at")
        values = tuple(map(str, entry.optional("enum", list, [])))
        yield Bits(key, int(low), int(high or low), values, entry.optional("about", str, ""))
