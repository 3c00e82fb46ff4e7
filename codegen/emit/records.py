"""Write the layout of record batches: `record_formats.py`, and the same facts for the extension."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from struct import calcsize

from kafkawire.codegen.emit.source import header
from kafkawire.codegen.record_formats import FIXED, Bits, RecordField, RecordFormat

__all__ = ["RECORD_FORMATS", "emit_record_constants", "emit_record_formats"]

#: The prefix of each format's names; a single `struct` reads the fixed part at the start of such a format.
_PREFIXES = {
    "RecordBatch": "BATCH",
    "MessageV0": "MESSAGE_V0",
    "MessageV1": "MESSAGE_V1",
    "Record": "RECORD",
    "RecordHeader": "RECORD_HEADER",
    "ControlRecordKey": "CONTROL_KEY",
    "AbortedTransaction": "ABORTED_TRANSACTION",
    "OffsetIndexEntry": "OFFSET_INDEX_ENTRY",
    "TimeIndexEntry": "TIME_INDEX_ENTRY",
}

#: The formats that go into the tables; a folder may contain others, which appear only in the reference.
RECORD_FORMATS = frozenset(_PREFIXES)

#: The formats that the extension needs; old messages are always read by Python code.
_NATIVE = ("RecordBatch", "Record", "RecordHeader")

#: The class is written out, like the constructors of messages, because creating a dataclass takes a millisecond.
_FIELD_CLASS = [
    "class FormatField:",
    '    """One field of a record format; the `construct` engine is made from these.',
    "",
    "    Attributes:",
    "        measures: the field from which, up to the end, it counts the bytes.",
    "        bits: its named bits: name, mask, and the names of the values (none for a flag).",
    '    """',
    "",
    '    __slots__ = ("array", "bits", "count", "length", "measures", "name", "nullable", "type")',
    "",
    "    def __init__(",
    "        self,",
    "        name: str,",
    "        type: str,",
    "        array: bool = False,",
    "        nullable: bool = False,",
    "        length: str | None = None,",
    "        count: str | None = None,",
    "        measures: str | None = None,",
    "        bits: tuple[tuple[str, int, tuple[str, ...]], ...] = (),",
    "    ) -> None:",
    "        self.name, self.type, self.array, self.nullable = name, type, array, nullable",
    "        self.length, self.count, self.measures, self.bits = length, count, measures, bits",
]


def emit_record_formats(formats: Mapping[str, RecordFormat], digest: str) -> str:
    """Return the module with offsets, sizes, bit masks, enumerations and fields of the record formats."""
    attributes = {bits.name: bits for bits in formats["RecordBatch"].field("attributes").bits}
    lines = [
        *header("records/", digest),
        '"""The layout of record batches (magic 2) and of messages (magic 0 and 1)."""',
        "",
        "from __future__ import annotations",
        "",
        "from enum import IntEnum",
        "from struct import Struct",
        "from typing import Final",
        "",
        "__all__ = [",
        *(f'    "{name}",' for name in _names(formats)),
        "]",
        "",
        "",
        *_enumeration("Compression", "How the records of a batch are compressed.", attributes["compression"]),
        "",
        "",
        *_enumeration("TimestampType", "Who set the timestamps of a batch.", attributes["timestamp_type"]),
        "",
        "",
        *_FIELD_CLASS,
        "",
    ]
    for name, prefix in _PREFIXES.items():
        fields = formats[name].fixed
        lines += ["", f"#: {formats[name].about}"]
        if fields:
            code = "".join(FIXED[field.type] for field in fields)
            lines.append(f'{prefix}_HEADER: Final = Struct(">{code}")')
        lines += [f"{constant}: Final = {value}" for constant, value in _constants(formats[name], prefix)]
    lines += ["", "#: The fields of every format, in order.", "FORMATS: Final[dict[str, tuple[FormatField, ...]]] = {"]
    for name in _PREFIXES:
        lines.append(f'    "{name}": (')
        lines += [f"        {line}" for field in formats[name].fields for line in _declaration(field)]
        lines.append("    ),")
    return "\n".join([*lines, "}"]) + "\n"


def emit_record_constants(formats: Mapping[str, RecordFormat], digest: str) -> str:
    """Return a Cython enumeration of the numbers that the extension needs."""
    lines = [*header("records/", digest), "cdef enum:"]
    for name in _NATIVE:
        lines += [f"    {constant} = {value}" for constant, value in _constants(formats[name], _PREFIXES[name])]
    return "\n".join(lines) + "\n"


def _names(formats: Mapping[str, RecordFormat]) -> list[str]:
    """Return the names that the module exports, sorted as the linter requires: constants first."""
    constants = ["FORMATS"]
    for name, prefix in _PREFIXES.items():
        constants += [constant for constant, _ in _constants(formats[name], prefix)]
        constants += [f"{prefix}_HEADER"] if formats[name].fixed else []
    return [*sorted(constants), "Compression", "FormatField", "TimestampType"]


def _enumeration(name: str, about: str, bits: Bits) -> list[str]:
    members = [f"    {value.upper()} = {number}" for number, value in enumerate(bits.values)]
    return [f"class {name}(IntEnum):", f'    """{about}"""', "", *members]


def _constants(format_: RecordFormat, prefix: str) -> Iterator[tuple[str, int]]:
    """Yield every number that code needs to navigate a format."""
    fields = format_.fixed
    if fields:
        last = fields[-1]
        assert last.offset is not None
        yield f"{prefix}_HEADER_BYTES", last.offset + _size(last.type)
    yield f"{prefix}_MIN_BYTES", sum(map(_smallest, format_.fields))
    if format_.magic is not None:
        yield f"{prefix}_MAGIC", format_.magic
    for field in fields:
        assert field.offset is not None
        yield f"{prefix}_{field.name.upper()}_AT", field.offset
        for what, other in (("COUNTS_FROM", field.measures), ("COVERS_FROM", field.covers)):
            if other is not None:
                yield f"{prefix}_{field.name.upper()}_{what}", format_.field(other).offset or 0
        for bits in field.bits:
            yield f"{prefix}_{bits.name.upper()}_MASK", bits.mask


def _declaration(field: RecordField) -> Iterator[str]:
    """Yield the lines that create a field, omitting arguments that equal their defaults."""
    arguments = [f'"{field.name}"', f'"{field.type}"']
    arguments += [f"{name}=True" for name in ("array", "nullable") if getattr(field, name)]
    texts = ("length", "count", "measures")
    arguments += [f'{name}="{value}"' for name in texts if (value := getattr(field, name)) is not None]
    if not field.bits:
        yield f"FormatField({', '.join(arguments)}),"
        return
    yield "FormatField("
    yield from (f"    {argument}," for argument in arguments)
    bits = [f"{(entry.name, entry.mask, entry.values)!r},".replace("'", '"') for entry in field.bits]
    yield from (
        [f"    bits=({bits[0]}),"]
        if len(bits) == 1
        else ["    bits=(", *(f"        {each}" for each in bits), "    ),"]
    )
    yield "),"


def _size(kind: str) -> int:
    """Return the minimum size of a value of a type."""
    return calcsize(f">{FIXED[kind]}") if kind in FIXED else 1


def _smallest(field: RecordField) -> int:
    """Return the minimum size of a field, which is the size of its length or count if it has one."""
    if field.array:
        return 0 if field.count is None or not _is_type(field.count) else _size(field.count)
    return _size(field.length or field.type)


def _is_type(name: str) -> bool:
    return name in FIXED or name in ("varint", "varlong")
