"""Write the Cython that reads and writes a record and the header of a batch: `record_codec.pxi`.

The code is straight-line: the order and width of every field are part of its text, so nothing is looked up. The
extension exchanges structures with named fields, so reordering a schema's fields changes only this text.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from kafkawire.codegen.emit.record_parts import Part, part, passed
from kafkawire.codegen.emit.source import header
from kafkawire.codegen.record_formats import RecordField, RecordFormat
from kafkawire.codegen.spec import snake_case

__all__ = ["emit_native_record_codec"]

_ABOUT = """\
# Read and write a record, and the header of a batch, as `schemas/records/` defines them; included by the record engine.
#
# In these structures, a size below 0 means null. The elements after `..._count` are in encoded form; when they are
# written, `..._bytes` is the size of that form."""

#: How the numbers in a header are loaded and stored at `p + PLACE`; see `native_numbers.pxi`.
_LOADS = {
    "int8": "<int8_t>p[{0}]",
    "int16": "<int16_t>load16(p + {0})",
    "int32": "wrap32(load32(p + {0}))",
    "uint32": "load32(p + {0})",
    "int64": "wrap64(load64(p + {0}))",
}
_STORES = {
    "int8": "p[{0}] = <uint8_t>{1}",
    "int16": "store16(p + {0}, <uint16_t>{1})",
    "int32": "store32(p + {0}, <uint32_t>{1})",
    "uint32": "store32(p + {0}, {1})",
    "int64": "store64(p + {0}, <uint64_t>{1})",
}


def emit_native_record_codec(formats: Mapping[str, RecordFormat], digest: str) -> str:
    """Return the text that the extension includes to read and write records and the header of a batch.

    Args:
        formats: all record formats, keyed by name.
        digest: the digest of the schemas.

    Raises:
        ValueError: a record has a field for which the engines have no code; the error names the field.
    """
    record, entry, batch = formats["Record"], formats["RecordHeader"], formats["RecordBatch"]
    lines = [*header("records/", digest), *_ABOUT.split("\n")]
    blocks = (
        _structure(record),
        _batch_structure(batch),
        _reader(entry),
        _reader(record),
        _measure(entry),
        _measure(record),
        _writer(entry),
        _writer(record),
        _batch_reader(batch),
        _batch_writer(batch),
    )
    lines += ["", *_structure(entry)]
    for block in blocks:
        lines += ["", "", *block]
    return "\n".join(lines) + "\n"


def _name(format_: RecordFormat) -> str:
    return snake_case(format_.name)


def _indented(lines: Iterable[str]) -> Iterator[str]:
    yield from (f"    {line}" for line in lines)


def _refused(condition: str) -> Iterator[str]:
    yield f"if {condition}:"
    yield "    return NULL"


# --- structures -------------------------------------------------------------------------------------------------------


def _structure(format_: RecordFormat) -> Iterator[str]:
    yield f"cdef struct {format_.name}Parts:"
    if part(format_, format_.fields[0]) is Part.LENGTH:
        yield "    int32_t length"
    for field in passed(format_):
        kind = part(format_, field)
        if kind is Part.NUMBER:
            yield f"    {'int64_t' if field.type == 'varlong' else 'int32_t'} {field.name}"
            continue
        yield f"    const uint8_t *{field.name}"
        yield f"    int32_t {field.name}_{'size' if kind is Part.CONTENT else 'count'}"
        if kind is Part.ELEMENTS:
            yield f"    Py_ssize_t {field.name}_bytes"


def _batch_structure(format_: RecordFormat) -> Iterator[str]:
    yield "cdef struct BatchHeader:"
    yield from _indented(f"{field.type}_t {field.name}" for field in format_.fixed)


# --- reading ----------------------------------------------------------------------------------------------------------


def _reader(format_: RecordFormat) -> Iterator[str]:
    has_length = part(format_, format_.fields[0]) is Part.LENGTH
    elements = [field for field in passed(format_) if part(format_, field) is Part.ELEMENTS]
    inline = "" if has_length else "inline "
    yield f"cdef {inline}const uint8_t *read_{_name(format_)}("
    yield f"    const uint8_t *p, const uint8_t *end, {format_.name}Parts *parts"
    yield ") noexcept nogil:"
    yield '    """Find the parts of the bytes at `p`; return their end, NULL if malformed or ending after `end`."""'
    if elements:
        yield "    cdef int32_t index"
    yield from (f"    cdef {field.type}Parts {field.name}_element" for field in elements)
    for field in format_.fields:
        yield from _indented(_read(format_, field))
    yield "    return p if p == end else NULL" if has_length else "    return p"


def _read(format_: RecordFormat, field: RecordField) -> Iterator[str]:
    """Yield the lines that read a field at `p`."""
    name, kind = f"parts.{field.name}", part(format_, field)
    if kind is Part.LENGTH:
        yield "p = get_varint(p, end, &parts.length)"
        yield from _refused("p == NULL or parts.length < 0 or parts.length > end - p")
        yield "end = p + parts.length"
    elif kind is Part.RESERVED:
        yield from _refused("p == end")
        yield f"p += 1  # skips the {field.name}"
    elif kind is Part.NUMBER:
        yield f"p = get_{field.type}(p, end, &{name})"
        yield from _refused("p == NULL")
    elif kind is Part.CONTENT:
        yield f"p = get_varint(p, end, &{name}_size)"
        yield from _refused(f"p == NULL or {'' if field.nullable else f'{name}_size < 0 or '}{name}_size > end - p")
        yield f"{name} = p"
        if field.nullable:
            yield f"if {name}_size > 0:"
            yield f"    p += {name}_size"
        else:
            yield f"p += {name}_size"
    else:
        element = snake_case(field.type)
        yield f"p = get_varint(p, end, &{name}_count)"
        most = f"(end - p) // {element.upper()}_MIN_BYTES"
        yield from _refused(f"p == NULL or {name}_count < 0 or {name}_count > {most}")
        yield f"{name} = p"
        yield f"for index in range({name}_count):"
        yield f"    p = read_{element}(p, end, &{field.name}_element)"
        yield "    if p == NULL:"
        yield "        return NULL"
        yield f"{name}_bytes = p - {name}"


# --- writing ----------------------------------------------------------------------------------------------------------


def _measure(format_: RecordFormat) -> Iterator[str]:
    has_length = part(format_, format_.fields[0]) is Part.LENGTH
    yield f"cdef inline int64_t {_name(format_)}_bytes(const {format_.name}Parts *parts) noexcept nogil:"
    what = "the part that the length measures" if has_length else "all of it"
    yield f'    """Return the number of bytes needed to write {what}."""'
    yield "    cdef int64_t size = 0"
    for field in format_.fields:
        yield from _indented(_measured(format_, field))
    yield "    return size"


def _measured(format_: RecordFormat, field: RecordField) -> Iterator[str]:
    name, kind = f"parts.{field.name}", part(format_, field)
    if kind is Part.RESERVED:
        yield "size += 1"
    elif kind is Part.NUMBER:
        yield f"size += varint_size({name})"
    elif kind is Part.CONTENT:
        yield f"size += varint_size({name}_size) + max({name}_size, 0)"
    elif kind is Part.ELEMENTS:
        yield f"size += varint_size({name}_count) + {name}_bytes"


def _writer(format_: RecordFormat) -> Iterator[str]:
    name = _name(format_)
    yield f"cdef inline uint8_t *write_{name}(uint8_t *p, {format_.name}Parts parts) noexcept nogil:"
    yield f'    """Write what `{name}_bytes` measured; return its end."""'
    for field in format_.fields:
        yield from _indented(_written(format_, field))
    yield "    return p"


def _written(format_: RecordFormat, field: RecordField) -> Iterator[str]:
    name, kind = f"parts.{field.name}", part(format_, field)
    if kind is Part.LENGTH:
        yield "p = put_varint(p, parts.length)"
    elif kind is Part.RESERVED:
        yield f"p[0] = {(field.default or 0) & 0xFF}  # {field.name}"
        yield "p += 1"
    elif kind is Part.NUMBER:
        yield f"p = put_varint(p, {name})"
    elif kind is Part.CONTENT:
        yield f"p = put_varint(p, {name}_size)"
        yield from _copied(name, f"{name}_size")
    else:
        yield f"p = put_varint(p, {name}_count)"
        yield from _copied(name, f"{name}_bytes")


def _copied(start: str, size: str) -> Iterator[str]:
    yield f"if {size} > 0:"
    yield f"    memcpy(p, {start}, <size_t>{size})"
    yield f"    p += {size}"


# --- the header of a batch --------------------------------------------------------------------------------------------


def _batch_reader(format_: RecordFormat) -> Iterator[str]:
    yield "cdef inline void read_batch_header(const uint8_t *p, BatchHeader *header) noexcept nogil:"
    for field in format_.fixed:
        yield f"    header.{field.name} = {_LOADS[field.type].format(_place(field))}"


def _batch_writer(format_: RecordFormat) -> Iterator[str]:
    yield "cdef inline void write_batch_header(uint8_t *p, const BatchHeader *header) noexcept nogil:"
    for field in format_.fixed:
        yield f"    {_STORES[field.type].format(_place(field), f'header.{field.name}')}"


def _place(field: RecordField) -> str:
    return f"BATCH_{field.name.upper()}_AT"
