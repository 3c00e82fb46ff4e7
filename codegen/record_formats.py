"""Read the record formats: the byte layout of a batch, a record or an old message.

A format is a sequence of fields, like a message, with features that messages do not need: named bits, varints, lengths
and checksums over a range of fields, and a compressed region. Errors name the file, line, format and field, and are all
reported together.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from struct import calcsize

from kafkawire.codegen.located import Located, Problem, Problems, SchemaError, read_documents
from kafkawire.codegen.names import field_problem, near, type_problem
from kafkawire.codegen.spec import INTEGERS

__all__ = ["FIXED", "Bits", "RecordField", "RecordFormat", "load_record_format", "load_record_formats"]

#: The types of fixed size, with their `struct` codes.
FIXED = {"int8": "b", "int16": "h", "int32": "i", "uint32": "I", "int64": "q"}

_VARINTS = {"varint", "varlong"}
_WITH_LENGTH = {"bytes", "string"}
#: Matches one bit or a range of bits.
_PLACE = re.compile(r"(?P<low>[0-9]{1,2})(?:-(?P<high>[0-9]{1,2}))?")
_CHECKSUMS = ("crc32", "crc32c")
_FIELD = {
    "name", "type", "about", "default", "const", "measures", "checksum", "covers", "bits", "length", "count",
    "compressed_by",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Bits:
    """Named bits of a number.

    Attributes:
        name: snake_case.
        low: the lowest bit.
        high: the highest bit.
        values: the names of the values; empty for a flag.
        about: one sentence.
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
        offset: its position, in bytes from the start; None if a field of variable size precedes it.
        default: its value if none is set.
        const: the only value that it may have.
        measures: the first field whose bytes it counts; the count extends to the end.
        checksum: `crc32` or `crc32c` of the bytes from the field `covers` to the end.
        covers: see `checksum`.
        bits: its named bits.
        length: the type of the length before bytes and strings.
        count: the type of the count before a sequence, or the field that holds the count.
        compressed_by: the bits that state its compression, such as `attributes.compression`.
        about: one sentence.
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
    line: int = field(default=0, compare=False)

    @property
    def notation(self) -> str:
        """The type in the notation of the schemas, such as `[]Record` or `bytes?`."""
        return f"{'[]' if self.array else ''}{self.type}{'?' if self.nullable else ''}"


@dataclass(frozen=True, slots=True)
class RecordFormat:
    """A record format: its name, its magic byte if it has one, and its fields in order."""

    name: str
    about: str
    magic: int | None
    fields: tuple[RecordField, ...]

    def field(self, name: str) -> RecordField:
        """Return the field with this name."""
        return next(field for field in self.fields if field.name == name)

    @property
    def fixed(self) -> tuple[RecordField, ...]:
        """The fields of fixed size at the beginning."""
        return tuple(field for field in self.fields if field.offset is not None and field.type in FIXED)


def load_record_formats(folder: Path) -> dict[str, RecordFormat]:
    """Read every record format in a folder of schemas; return them keyed by name.

    Raises:
        SchemaError: files are wrong, two formats share a name, or a field's type is an unknown format.
    """
    problems = Problems()
    formats: dict[str, RecordFormat] = {}
    sources: list[tuple[Path, RecordFormat]] = []
    paths = sorted((folder / "records").glob("*.yaml"))
    for path in paths:
        with problems.collect():
            format_ = load_record_format(path)
            if formats.setdefault(format_.name, format_) is not format_:
                raise SchemaError(path, 0, f"{format_.name} is also defined in another file")
            sources.append((path, format_))
    if len(sources) == len(paths):
        problems.add(*(problem for path, format_ in sources for problem in _type_problems(path, format_, formats)))
    problems.check()
    return formats


def load_record_format(path: Path) -> RecordFormat:
    """Read one record format.

    Raises:
        SchemaError: the format is wrong.
    """
    documents = read_documents(path)
    if len(documents) != 1:
        raise SchemaError(path, 0, f"expected one document with a record format, got {len(documents)} documents")
    source = documents[0]
    name: str = source.require("record_format", str)
    source.place = name
    if reason := type_problem(name):
        raise source.error(f"record_format: {reason}", "record_format")
    problems = Problems()
    attempt = problems.attempt
    attempt(lambda: source.only({"record_format", "about", "magic", "fields"}), None)
    about = attempt(lambda: source.required_text("about"), "")
    magic = attempt(lambda: _number(source, "magic", "int8"), None)
    fields: tuple[RecordField, ...] = attempt(lambda: _fields(source, name), ())
    problems.check()
    return RecordFormat(name=name, about=about, magic=magic, fields=fields)


def _type_problems(path: Path, format_: RecordFormat, formats: Mapping[str, RecordFormat]) -> list[Problem]:
    """Return a problem for each field whose type is an unknown format."""
    return [
        Problem(
            path,
            field.line,
            f"{format_.name}: field {field.name}: unknown format {field.type}{near(field.type, formats)}",
        )
        for field in format_.fields
        if field.type[0].isupper() and field.type not in formats
    ]


def _fields(source: Located, format_: str) -> tuple[RecordField, ...]:
    problems = Problems()
    source.require("fields", list)
    fields: list[RecordField] = []
    items = source.mappings("fields")
    offset: int | None = 0
    for number, item in enumerate(items, start=1):
        item.place = f"{format_}: field {item.get('name', number)}"
        with problems.collect():
            field = _field(item, offset)
            fields.append(field)
            offset = offset + calcsize(f">{FIXED[field.type]}") if offset is not None and field.type in FIXED else None
    problems.check()
    for index, (field, item) in enumerate(zip(fields, items, strict=True)):
        problems.add(*_reference_problems(field, fields, index, item))
    problems.check()
    return tuple(fields)


def _reference_problems(field: RecordField, fields: list[RecordField], index: int, item: Located) -> list[Problem]:
    """Return the problems with a field's references to other fields."""
    known = {other.name: other for other in fields}
    before = {other.name for other in fields[:index]}
    found = []
    if field.name in before:
        found.append(item.problem("the name is used twice"))
    for key, name in (("measures", field.measures), ("covers", field.covers)):
        if name is not None and name not in known:
            found.append(item.problem(f"{key}: unknown field {name}{near(name, known)}", key))
        elif name is not None and field.offset is not None and field.type in FIXED and known[name].offset is None:
            found.append(item.problem(f"{key}: the field {name} has no fixed position", key))
    if field.array and field.count is not None and field.count not in before | FIXED.keys() | _VARINTS:
        found.append(item.problem(f"count: expected an integer type or an earlier field, got {field.count!r}", "count"))
    if field.compressed_by is not None:
        owner, _, name = field.compressed_by.partition(".")
        if owner not in before or name not in {bits.name for bits in known[owner].bits}:
            found.append(item.problem(f"compressed_by: no earlier field has bits named {field.compressed_by}"))
    return found


def _field(item: Located, offset: int | None) -> RecordField:
    problems = Problems()
    attempt = problems.attempt
    attempt(lambda: item.only(_FIELD), None)
    name: str = attempt(lambda: item.require("name", str), "")
    if "name" in item and (reason := field_problem(name)):
        problems.add(item.problem(f"name: {reason}", "name"))
    # An unreadable type is reported just once, not again by the checks that depend on it.
    kind, array, nullable = attempt(lambda: _type(item), ("", False, False))
    length: str | None = attempt(lambda: item.optional("length", str, None), None)
    if (kind and (kind in _WITH_LENGTH) != ("length" in item)) or length not in (None, *FIXED, *_VARINTS):
        known = ", ".join((*FIXED, *sorted(_VARINTS)))
        problems.add(
            item.problem(f"length: required for bytes and strings, and not allowed otherwise; one of {known}", "length")
        )
    checksum: str | None = attempt(lambda: item.optional("checksum", str, None), None)
    covers = attempt(lambda: _from(item, "covers"), None)
    if checksum not in (None, *_CHECKSUMS):
        problems.add(item.problem(f"checksum {checksum!r}: expected one of {', '.join(_CHECKSUMS)}", "checksum"))
    if ("checksum" in item) != ("covers" in item):
        problems.add(item.problem("`checksum` and `covers` must be given together"))
    field = RecordField(
        name=name,
        type=kind,
        array=array,
        nullable=nullable,
        offset=offset,
        default=attempt(lambda: _number(item, "default", kind), None),
        const=attempt(lambda: _number(item, "const", kind), None),
        measures=attempt(lambda: _from(item, "measures"), None),
        checksum=checksum,
        covers=covers,
        bits=attempt(lambda: _all_bits(item, kind) if kind else (), ()),
        length=length,
        count=attempt(lambda: item.optional("count", str, None), None),
        compressed_by=attempt(lambda: item.optional("compressed_by", str, None), None),
        about=attempt(lambda: item.text("about"), ""),
        line=item.line,
    )
    problems.check()
    return field


def _type(item: Located) -> tuple[str, bool, bool]:
    """Return the name of a type, whether it is an array, and whether it may be null."""
    text: str = item.require("type", str)
    kind = text.removeprefix("[]").removesuffix("?")
    if kind not in {*FIXED, *_VARINTS, *_WITH_LENGTH} and type_problem(kind):
        raise item.error(f"type: unknown type {text!r}{near(kind, (*FIXED, *_VARINTS, *_WITH_LENGTH))}", "type")
    return kind, text.startswith("[]"), text.endswith("?")


def _number(item: Located, key: str, kind: str) -> int | None:
    """Return a number that must fit into a type; None if it is missing."""
    value: int | None = item.optional(key, int, None)
    if value is None:
        return None
    low, high = INTEGERS.get(kind, INTEGERS["int64"])
    if not low <= value <= high:
        raise item.error(f"{key}: expected {low} to {high}, got {value}", key)
    return value


def _from(item: Located, key: str) -> str | None:
    """Return the first field of a range `first..end`; every range extends to the end."""
    text: str | None = item.optional(key, str, None)
    if text is None:
        return None
    first, separator, last = text.partition("..")
    if not separator or last != "end":
        raise item.error(f"{key}: expected FIELD..end, got {text!r}", key)
    return first


def _all_bits(item: Located, kind: str) -> tuple[Bits, ...]:
    source: Located | None = item.optional("bits", dict, None)
    if source is None:
        return ()
    if kind not in FIXED:
        raise item.error(f"bits: a {kind} cannot have named bits", "bits")
    found: list[Bits] = []
    for name, entry in source.items():
        if not isinstance(entry, Located):
            raise item.error(f"bits {name}: expected a mapping, got {entry!r}", "bits")
        entry.place = f"{item.place}: bits {name}"
        bits = _bits(name, entry, 8 * calcsize(f">{FIXED[kind]}"))
        if clash := next((other for other in found if other.mask & bits.mask), None):
            raise entry.error(f"at: {entry['at']} overlaps {clash.name}", "at")
        found.append(bits)
    return tuple(found)


def _bits(name: str, entry: Located, width: int) -> Bits:
    entry.only({"at", "enum", "about"})
    if reason := field_problem(name):
        raise entry.error(f"name: {reason}")
    match = _PLACE.fullmatch(str(entry.require("at", (str, int))))
    low, high = (int(match["low"]), int(match["high"] or match["low"])) if match else (1, 0)
    if not low <= high < width:
        raise entry.error(f"at: expected a bit or a range of bits within 0-{width - 1}, got {entry['at']!r}", "at")
    values = entry.optional("enum", list, [])
    for value in values:
        if not isinstance(value, str) or field_problem(value):
            raise entry.error(f"enum: expected a name, got {value!r}", "enum")
    if len(set(values)) < len(values) or len(values) > 1 << (high - low + 1):
        raise entry.error(
            f"enum: expected at most {1 << (high - low + 1)} different names, got {', '.join(values)}", "enum"
        )
    return Bits(name, low, high, tuple(values), entry.text("about"))
