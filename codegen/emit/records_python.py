"""Write the Python that reads and writes a record and the header of a batch: `record_codec.py`.

The code is straight-line: the order and width of every field are part of its text, so nothing is looked up. Arguments
and results are sorted by name, so reordering a schema's fields changes only this module.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from kafkawire.codegen.emit.record_parts import VARINT_BITS, Part, part, passed
from kafkawire.codegen.emit.source import header
from kafkawire.codegen.record_formats import RecordField, RecordFormat
from kafkawire.codegen.spec import snake_case

__all__ = ["emit_record_codec"]

#: The line length at which the formatter would break lines.
_LINE_LENGTH = 120

_HEAD = '''\
"""Read and write a record, and the header of a batch, as `schemas/records/` defines them.

Arguments and results are sorted by name.
"""

from __future__ import annotations

from kafkawire.sdk.protocol.primitives import MALFORMED_UTF8
from kafkawire.sdk.protocol.tables.record_formats import BATCH_HEADER, RECORD_HEADER_MIN_BYTES
from kafkawire.sdk.protocol.values import Buffer

__all__ = ["BatchHeader", "pack_batch_header", "read_record", "write_record"]


def _read_zigzag(data: bytes, position: int, bits: int) -> tuple[int, int]:
    """Read a number of any size; bits above the 32nd or 64th are dropped, as in Java."""
    value = 0
    for shift in range(0, bits, 7):
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            value &= (1 << bits) - 1
            return (value >> 1) ^ -(value & 1), position
    raise ValueError(f"the number has more than {-(-bits // 7)} bytes")


def _put_zigzag(target: bytearray, value: int) -> None:
    value = value << 1 if value >= 0 else ~value << 1 | 1
    while value > 0x7F:
        target.append(value & 0x7F | 0x80)
        value >>= 7
    target.append(value)'''


def emit_record_codec(formats: Mapping[str, RecordFormat], digest: str) -> str:
    """Return the module that reads and writes records and the header of a batch.

    Args:
        formats: all record formats, keyed by name.
        digest: the digest of the schemas.

    Raises:
        ValueError: a record has a field for which the engines have no code; the error names the field.
    """
    record, entry = formats["Record"], formats["RecordHeader"]
    lines = [*header("records/", digest), *_HEAD.split("\n")]
    for function in (
        _reader(entry, formats, "_"),
        _reader(record, formats),
        _writer(entry, formats, "_"),
        _writer(record, formats),
        _batch_header(formats["RecordBatch"]),
        _pack_batch_header(formats["RecordBatch"]),
    ):
        lines += ["", "", *function]
    return "\n".join(lines) + "\n"


def _words(format_: RecordFormat) -> str:
    return snake_case(format_.name).replace("_", " ")


def _indented(lines: Iterable[str], levels: int = 1) -> Iterator[str]:
    yield from (f"{'    ' * levels}{line}" for line in lines)


# --- reading ----------------------------------------------------------------------------------------------------------


def _reader(format_: RecordFormat, formats: Mapping[str, RecordFormat], prefix: str = "") -> Iterator[str]:
    name = snake_case(format_.name)
    fields = passed(format_)
    types = ", ".join(_type(field, formats) for field in fields)
    signature = [f"def {prefix}read_{name}(", "data: bytes, position: int", f") -> tuple[{types}, int]:"]
    is_short = len("".join(signature)) <= _LINE_LENGTH
    yield from ["".join(signature)] if is_short else [signature[0], f"    {signature[1]}", signature[2]]
    yield f'    """Return {", ".join(field.name for field in fields)}, and their end.'
    yield ""
    yield "    Raises:"
    yield "        IndexError: they end after the data."
    yield "        ValueError: they are malformed."
    yield '    """'
    for field in format_.fields:
        yield from _indented(_read(format_, field, formats))
    if part(format_, format_.fields[0]) is Part.LENGTH:
        reason = f"a {_words(format_)} of {{length}} bytes has {{position - start}} bytes of content"
        yield "    if position != start + length:"
        yield f'        raise ValueError(f"{reason}")'
        yield "    if position > len(data):"
        yield "        raise IndexError"
    yield f"    return {', '.join(field.name for field in fields)}, position"


def _read(format_: RecordFormat, field: RecordField, formats: Mapping[str, RecordFormat]) -> Iterator[str]:
    """Yield the lines that read a field at `position` into a variable named after it."""
    name, kind = field.name, part(format_, field)
    if kind is Part.LENGTH:
        yield from _read_number("length", "varint")
        yield "start = position"
    elif kind is Part.RESERVED:
        yield f"position += 1  # skip the {name}"
    elif kind is Part.NUMBER:
        yield from _read_number(name, field.type)
    elif kind is Part.CONTENT:
        value = f"data[position : position + {name}_size]"
        if field.type == "string":
            value += '.decode("utf-8", MALFORMED_UTF8)'
        yield from _read_number(f"{name}_size", "varint")
        if field.nullable:
            yield f"{name} = None if {name}_size < 0 else {value}"
            yield f"position += max({name}_size, 0)"
        else:
            yield f"if {name}_size < 0:"
            yield f'    raise ValueError(f"the {name} of a {_words(format_)} has {{{name}_size}} bytes")'
            yield f"{name} = {value}"
            yield f"position += {name}_size"
    else:
        element = formats[field.type]
        parts = ", ".join(f"element_{each.name}" for each in passed(element))
        yield from _read_number("count", "varint")
        yield f"{name}: {_type(field, formats)} = ()"
        yield "if count:"
        yield f"    if not 0 <= count <= (len(data) - position) // {snake_case(element.name).upper()}_MIN_BYTES:"
        yield f'        raise ValueError(f"{{count}} {name} in {{len(data) - position}} bytes")'
        yield "    elements = []"
        yield "    for _ in range(count):"
        yield f"        {parts}, position = _read_{snake_case(element.name)}(data, position)"
        yield f"        elements.append(({parts}))"
        yield f"    {name} = tuple(elements)"


def _read_number(name: str, kind: str) -> Iterator[str]:
    yield f"{name} = data[position]"
    yield f"if {name} < 0x80:"
    yield f"    {name} = ({name} >> 1) ^ -({name} & 1)"
    yield "    position += 1"
    yield "elif data[position + 1] < 0x80:"
    yield f"    {name} = {name} & 0x7F | data[position + 1] << 7"
    yield f"    {name} = ({name} >> 1) ^ -({name} & 1)"
    yield "    position += 2"
    yield "else:"
    yield f"    {name}, position = _read_zigzag(data, position, {VARINT_BITS[kind]})"


def _type(field: RecordField, formats: Mapping[str, RecordFormat]) -> str:
    if field.array:
        return f"tuple[tuple[{', '.join(_type(each, formats) for each in passed(formats[field.type]))}], ...]"
    text = field.type if field.type == "bytes" else "str" if field.type == "string" else "int"
    return f"{text} | None" if field.nullable else text


# --- writing ----------------------------------------------------------------------------------------------------------


def _writer(format_: RecordFormat, formats: Mapping[str, RecordFormat], prefix: str = "") -> Iterator[str]:
    name = snake_case(format_.name)
    has_length = part(format_, format_.fields[0]) is Part.LENGTH
    yield f"def {prefix}write_{name}("
    if not has_length:
        yield "    content: bytearray,"
    yield from _indented(f"{field.name}: {_argument(field, formats)}," for field in passed(format_))
    yield f") -> {'bytearray' if has_length else 'None'}:"
    if has_length:
        yield f'    """Return a {name} preceded by its length; texts are passed as UTF-8."""'
        yield "    content = bytearray()"
    for field in format_.fields:
        yield from _indented(_write(format_, field, formats))
    if has_length:
        yield "    target = bytearray()"
        yield "    _put_zigzag(target, len(content))"
        yield "    target += content"
        yield "    return target"


def _write(format_: RecordFormat, field: RecordField, formats: Mapping[str, RecordFormat]) -> Iterator[str]:
    """Yield the lines that append a field to `content`."""
    name, kind = field.name, part(format_, field)
    if kind is Part.RESERVED:
        yield f"content.append({(field.default or 0) & 0xFF})  # {name}"
    elif kind is Part.NUMBER:
        yield from _write_number(name)
    elif kind is Part.CONTENT:
        lines = [f"size = len({name})", *_write_number("size"), f"content += {name}"]
        if field.nullable:
            yield f"if {name} is None:"
            yield "    content.append(1)  # -1"
            yield "else:"
            lines = [*_indented(lines)]
        yield from lines
    elif kind is Part.ELEMENTS:
        parts = [f"element_{each.name}" for each in passed(formats[field.type])]
        yield f"size = len({name})"
        yield from _write_number("size")
        yield f"for {', '.join(parts)} in {name}:"
        yield f"    _write_{snake_case(field.type)}(content, {', '.join(parts)})"


def _write_number(name: str) -> Iterator[str]:
    yield f"if 0 <= {name} < 64:"
    yield f"    content.append({name} << 1)"
    yield "else:"
    yield f"    _put_zigzag(content, {name})"


def _argument(field: RecordField, formats: Mapping[str, RecordFormat]) -> str:
    if field.array:
        return f"list[tuple[{', '.join(_argument(each, formats) for each in passed(formats[field.type]))}]]"
    text = "Buffer" if field.type == "bytes" else "bytes" if field.type == "string" else "int"
    return f"{text} | None" if field.nullable else text


# --- the header of a batch --------------------------------------------------------------------------------------------


def _batch_header(format_: RecordFormat) -> Iterator[str]:
    names = [field.name for field in format_.fixed]
    yield "class BatchHeader:"
    yield f'    """{format_.about[:-1]}: its header."""'
    yield ""
    yield "    __slots__ = ("
    yield from _indented([f'"{name}",' for name in sorted(names)], 2)
    yield "    )"
    yield ""
    yield from _indented([f"{name}: int" for name in sorted(names)])
    yield ""
    yield "    def read_header(self, data: Buffer, position: int) -> None:"
    yield '        """Read the header at `position`."""'
    yield "        ("
    yield from _indented([f"self.{name}," for name in names], 3)
    yield "        ) = BATCH_HEADER.unpack_from(data, position)"


def _pack_batch_header(format_: RecordFormat) -> Iterator[str]:
    names = [field.name for field in format_.fixed]
    yield "def pack_batch_header("
    yield "    *,"
    yield from _indented([f"{name}: int," for name in sorted(names)])
    yield ") -> bytes:"
    yield '    """Return the header of a batch.'
    yield ""
    yield "    Raises:"
    yield "        struct.error: a number does not fit."
    yield '    """'
    yield "    return BATCH_HEADER.pack("
    yield from _indented([f"{name}," for name in names], 2)
    yield "    )"
