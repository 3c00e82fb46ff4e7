"""Write straight-line Python for a layout, and run it: the engine that needs no compiler.

The text of a decoder and an encoder is made per layout, when it is first used: no loop over fields, no branch on
versions, neighbouring fields of fixed size in one `struct` call. `python_text` returns it for people to read.

The text checks everything but explains nothing: when it stumbles, the construct form reads the same bytes, or writes
the same message, again and raises the error with path and offset."""

from __future__ import annotations

from struct import Struct
from typing import Any, NoReturn

from kafkawire.sdk.errors import KafkaWireError
from kafkawire.sdk.protocol.layout import AbsentField, FieldLayout, Layout
from kafkawire.sdk.protocol.primitives import (
    APART_BYTES,
    BOOLEANS,
    FIXED,
    MALFORMED_UTF8,
    MAX_LENGTH,
    MAX_STRING_BYTES,
    Refused,
    as_buffer,
    as_sequence,
    as_tags,
    is_default,
    records_size,
)
from kafkawire.sdk.protocol.schema import DEFAULT, Message, hidden_slot

__all__ = ["Program", "python_text"]

#: Element counts whose `struct.Struct` is kept: replica lists are short, and a peer must not make the cache grow.
_KEPT_COUNTS = 64


class Program:
    """The Python engine of one layout: `decode`, `encode` and `encode_parts` as `Codec` wants them."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        namespace: dict[str, Any] = dict(_NAMESPACE)
        source = _Source(layout)
        namespace.update(source.objects)
        exec(compile(source.text, f"<twin of {layout.name} version {layout.version}>", "exec"), namespace)
        self._decode = namespace["decode"]
        self._encode = namespace["encode"]

    def decode(self, buffer: Any, offset: int = 0) -> tuple[Message, int]:
        """Read the message at `offset`."""
        data = buffer if type(buffer) is bytes else bytes(buffer)
        if not 0 <= offset <= len(data):
            raise ValueError(f"offset {offset} is outside the buffer of {len(data)} bytes")
        try:
            result: tuple[Message, int] = self._decode(data, offset, len(data), buffer)
        except Exception as error:
            self._explain_decoding(buffer, offset, error)
        return result

    def encode(self, message: Message) -> bytes:
        """Return the encoding of `message`."""
        pieces: list[Any] = []
        try:
            self._encode(message, pieces, [])
            return b"".join(pieces)
        except Exception as error:
            self._explain_encoding(message, error)

    def encode_parts(self, message: Message) -> list[Any]:
        """Return the encoding of `message`, large records apart."""
        pieces: list[Any] = []
        records: list[int] = []
        try:
            self._encode(message, pieces, records)
            return _parts(pieces, records)
        except Exception as error:
            self._explain_encoding(message, error, APART_BYTES)

    def _explain_decoding(self, buffer: Any, offset: int, error: Exception) -> NoReturn:
        from kafkawire.sdk.protocol.engines.construct import decode

        decode(self.layout, buffer, offset)
        raise RuntimeError(f"{self.layout!r}: the twin cannot read what the construct form reads") from error

    def _explain_encoding(self, message: Message, error: Exception, threshold: int | None = None) -> NoReturn:
        from kafkawire.sdk.protocol.engines.construct import encode_parts

        try:
            encode_parts(self.layout, message, threshold)
        except KafkaWireError as explained:
            raise explained from None
        raise RuntimeError(f"{self.layout!r}: the twin cannot write what the construct form writes") from error


def python_text(layout: Layout) -> str:
    """Return the Python text that decodes and encodes a layout."""
    return _Source(layout).text


# --------------------------------------------------------------------------------------- what the text calls: reading


def _varint(data: bytes, offset: int, first: int) -> tuple[int, int]:
    """Return an unsigned varint, as int32, and its end; `first` is its first byte, `offset` is behind that."""
    value = first & 0x7F
    for shift in (7, 14, 21, 28):
        byte = data[offset]
        offset += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            value &= 0xFFFFFFFF
            return (value - 2**32 if value >= 2**31 else value), offset
    raise Refused


def _length(data: bytes, offset: int, first: int) -> tuple[int, int]:
    """Return a compact length, still one too large, and its end; 2**31 where int32 arithmetic wraps."""
    value, offset = _varint(data, offset, first)
    return (2**31 if value == -(2**31) else value), offset


def _skip_tags(data: bytes, offset: int, end: int, count: int) -> tuple[tuple[tuple[int, bytes], ...], int]:
    """Return tagged fields of a structure that knows none, and their end."""
    unknown = []
    for _ in range(count):
        tag = data[offset]
        offset += 1
        if tag > 127:
            tag, offset = _varint(data, offset, tag)
        size = data[offset]
        offset += 1
        if size > 127:
            size, offset = _varint(data, offset, size)
        if not 0 <= size <= end - offset:
            raise Refused
        unknown.append((tag, data[offset : offset + size]))
        offset += size
    return tuple(unknown), offset


# --------------------------------------------------------------------------------------- what the text calls: writing


def _unsigned(value: int) -> bytes:
    """Return an unsigned varint."""
    if value > MAX_LENGTH + 1:
        raise Refused
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


class _Unsigned(dict[int, bytes]):
    """Unsigned varints by value; the short ones stay, most lengths are among them."""

    def __missing__(self, value: int) -> bytes:
        encoded = _unsigned(value)
        if value < 2**14:
            self[value] = encoded
        return encoded


class _Structs(dict[int, Struct]):
    """`struct.Struct` of so many elements of one format."""

    def __init__(self, code: str) -> None:
        self.code = code

    def __missing__(self, count: int) -> Struct:
        compiled = Struct(f">{count}{self.code}")
        if count < _KEPT_COUNTS:
            self[count] = compiled
        return compiled


def _write_tags(append: Any, known: list[tuple[int, bytes]], unknown: Any, tags: tuple[int, ...]) -> None:
    """Write tagged fields: those present of the version, and the unknown ones among them."""
    fields = known if unknown == () else sorted([*known, *as_tags(unknown, tags)])
    append(_UNSIGNED[len(fields)])
    for tag, content in fields:
        append(_unsigned(tag))
        append(_unsigned(len(content)))
        append(content)


def _records(value: Any) -> tuple[Any, int]:
    """Return a records value as a buffer, or as it is if it only has a length, and its size."""
    try:
        buffer = as_buffer(value)
    except Refused:
        return value, records_size(value)
    return buffer, len(buffer)


def _parts(pieces: list[Any], records: list[int]) -> list[Any]:
    """Join pieces but for the large records among them."""
    parts = []
    start = 0
    for index in records:
        value = pieces[index]
        if isinstance(value, bytes | memoryview):
            value = as_buffer(value)
            if len(value) < APART_BYTES:
                continue
        parts += [b"".join(pieces[start:index]), value]
        start = index + 1
    if start < len(pieces) or not parts:
        parts.append(b"".join(pieces[start:]))
    return parts


_UNSIGNED = _Unsigned()
_NAMESPACE: dict[str, Any] = {
    "BOOL": BOOLEANS,
    "DEFAULT": DEFAULT,
    "Refused": Refused,
    "UNSIGNED": _UNSIGNED,
    "as_buffer": as_buffer,
    "as_sequence": as_sequence,
    "as_records": _records,
    "encode_text": str.encode,
    "is_default": is_default,
    "length": _length,
    "new": object.__new__,
    "skip_tags": _skip_tags,
    "varint": _varint,
    "write_tags": _write_tags,
    **{f"MANY_{kind}": _Structs(fixed.format) for kind, fixed in FIXED.items() if kind != "uuid"},
}

# ---------------------------------------------------------------------------------------------------------- the emitter


class _Source:
    """The text of one layout, and the objects that it names.

    Variables of the text: `b` the bytes, `o` the offset, `end` their end, `m` the message, `a` appends a piece;
    others are numbered."""

    def __init__(self, layout: Layout) -> None:
        self.objects: dict[str, Any] = {}
        self._classes: dict[type[Message], str] = {}
        self._structs: dict[str, str] = {}
        self._lines: list[str] = []
        self._margin = ""
        self._count = 0
        self._block("def decode(b, o, end, buffer):")
        if layout.has_records:
            self._line('view = memoryview(buffer).cast("B") if end else memoryview(b)')
        self._read_structure(layout, "m")
        self._line("return m, o")
        self._dedent()
        self._line("")
        self._line("")
        self._block("def encode(m, pieces, records):")
        self._line("a = pieces.append")
        self._write_structure(layout, "m")
        self._dedent()
        structs = [f'{name} = Struct("{code}")' for code, name in self._structs.items()]
        for code, name in self._structs.items():
            compiled = Struct(code)
            self.objects[f"read_{name}"], self.objects[f"write_{name}"] = compiled.unpack_from, compiled.pack
        comments = [f"# {line}; read_… is its unpack_from, write_… its pack" for line in structs]
        comments += [f"# {name} = {cls.__qualname__}" for cls, name in self._classes.items()]
        self.text = "\n".join([*comments, "", *self._lines, ""])

    # ------------------------------------------------------------------------------------------------------- plumbing

    def _line(self, text: str) -> None:
        self._lines.append(self._margin + text if text else "")

    def _block(self, head: str) -> None:
        self._line(head)
        self._margin += "    "

    def _dedent(self) -> None:
        self._margin = self._margin[:-4]

    def _variable(self, name: str) -> str:
        self._count += 1
        return f"{name}{self._count}"

    def _struct(self, code: str) -> str:
        return self._structs.setdefault(code, f"s{len(self._structs)}")

    def _class(self, cls: type[Message]) -> str:
        name = self._classes.setdefault(cls, f"{cls.__name__}_{len(self._classes)}")
        self.objects[name] = cls
        return name

    # -------------------------------------------------------------------------------------------------------- reading

    def _read_structure(self, layout: Layout, target: str) -> None:
        self._line(f"{target} = new({self._class(layout.cls)})")
        run: list[FieldLayout] = []
        for field in layout.fields:
            if field.kind in FIXED and not field.array:
                run.append(field)
            else:
                self._read_run(run, target)
                self._read_field(field, f"{target}.{self._slot(field)}")
        self._read_run(run, target)
        for absent in layout.absent:
            self._read_default(absent, target)
        for tagged in layout.tagged:
            self._read_default(tagged, target)
        self._line(f"{target}.unknown_tags = ()")
        if layout.flexible:
            self._read_tagged(layout, target)

    def _read_default(self, field: AbsentField | FieldLayout, target: str) -> None:
        default = "DEFAULT" if field.default is DEFAULT else repr(field.default)
        self._line(f"{target}.{self._slot(field)} = {default}")

    def _read_run(self, run: list[FieldLayout], target: str) -> None:
        """Read neighbouring fields of fixed size in one go."""
        if run:
            self._read_fixed("".join(FIXED[field.kind].format for field in run), [f"{target}.{f.name}" for f in run])
            run.clear()

    def _read_fixed(self, code: str, targets: list[str]) -> None:
        name = self._struct(f">{code}")
        text = ", ".join(targets) + ("," if len(targets) == 1 else "")
        self._line(f"{text} = read_{name}(b, o); o += {Struct('>' + code).size}")

    def _read_length(self, target: str, compact: bool, code: str) -> None:
        if compact:
            self._line(f"{target} = b[o]; o += 1")
            self._line(f"if {target} > 127: {target}, o = length(b, o, {target})")
            self._line(f"{target} -= 1")
        else:
            self._read_fixed(code, [target])

    def _read_null(self, field: FieldLayout, length: str, target: str) -> None:
        """Open the branch of a value that is not null."""
        self._line(f"if {length} < 0: " + (f"{target} = None" if field.nullable else "raise Refused"))
        self._block("else:")

    def _read_field(self, field: FieldLayout, target: str) -> None:
        if not field.array:
            self._read_element(field, target)
            return
        count = self._variable("n")
        self._read_length(count, field.compact, "i")
        self._read_null(field, count, target)
        if field.kind in FIXED and field.kind != "uuid":
            size = FIXED[field.kind].size
            self._line(f"if {count} * {size} > end - o: raise Refused")
            self._line(f"{target} = MANY_{field.kind}[{count}].unpack_from(b, o); o += {count} * {size}")
        else:
            elements, element = self._variable("list"), self._variable("e")
            self._line(f"if {count} > end - o: raise Refused")
            self._line(f"{elements} = []")
            self._block(f"for _ in range({count}):")
            if field.structure is not None:
                self._read_structure(field.structure, element)
            else:
                self._read_element(field._replace(array=False, nullable=False), element)
            self._line(f"{elements}.append({element})")
            self._dedent()
            self._line(f"{target} = tuple({elements})")
        self._dedent()

    def _read_element(self, field: FieldLayout, target: str) -> None:
        if field.structure is not None:
            self._read_nullable_structure(field, field.structure, target)
        elif field.kind in FIXED:
            self._read_fixed(FIXED[field.kind].format, [target])
        else:
            size = self._variable("n")
            self._read_length(size, field.compact, "h" if field.kind == "string" else "i")
            self._read_null(field, size, target)
            self._line(f"e = o + {size}")
            if field.kind == "string":
                self._line(f"if e > end or {size} > {MAX_STRING_BYTES}: raise Refused")
                self._line(f'{target} = b[o:e].decode("utf-8", "{MALFORMED_UTF8}"); o = e')
            else:
                source = "view" if field.kind == "records" else "b"
                self._line("if e > end: raise Refused")
                self._line(f"{target} = {source}[o:e]; o = e")
            self._dedent()

    def _read_nullable_structure(self, field: FieldLayout, structure: Layout, target: str) -> None:
        made = self._variable("m")
        if not field.nullable:
            self._read_structure(structure, made)
            self._line(f"{target} = {made}")
            return
        marker = self._variable("n")
        self._line(f"{marker} = b[o]; o += 1")
        if field.tag is None:
            self._line(f"if {marker} > 127: {target} = None")
        else:
            self._line(f"if {marker} > 127: {marker}, o = varint(b, o, {marker})")
            self._line(f"if {marker} <= 0: {target} = None")
        self._block("else:")
        self._read_structure(structure, made)
        self._line(f"{target} = {made}")
        self._dedent()

    def _read_tagged(self, layout: Layout, target: str) -> None:
        count = self._variable("n")
        self._line(f"{count} = b[o]; o += 1")
        self._block(f"if {count}:")
        self._line(f"if {count} > 127: {count}, o = varint(b, o, {count})")
        if not layout.tagged:
            self._line(f"{target}.unknown_tags, o = skip_tags(b, o, end, {count})")
        else:
            unknown, tag, size = self._variable("unknown"), self._variable("tag"), self._variable("n")
            self._line(f"{unknown} = []")
            self._block(f"for _ in range({count}):")
            for name in (tag, size):
                self._line(f"{name} = b[o]; o += 1")
                self._line(f"if {name} > 127: {name}, o = varint(b, o, {name})")
            word = "if"
            for field in layout.tagged:
                self._block(f"{word} {tag} == {field.tag}:")
                self._read_field(field, f"{target}.{self._slot(field)}")
                self._dedent()
                word = "elif"
            self._block("else:")
            self._line(f"if not 0 <= {size} <= end - o: raise Refused")
            self._line(f"{unknown}.append(({tag}, b[o:o + {size}])); o += {size}")
            self._dedent()
            self._dedent()
            self._line(f"{target}.unknown_tags = tuple({unknown})")
        self._dedent()

    # -------------------------------------------------------------------------------------------------------- writing

    def _write_structure(self, layout: Layout, source: str) -> None:
        self._line(f"if {source}.__class__ is not {self._class(layout.cls)}: raise Refused")
        for absent in layout.absent:
            if not absent.ignorable:
                self._check_absent(absent, source)
        run: list[FieldLayout] = []
        for field in layout.fields:
            if field.kind in FIXED and not field.array:
                run.append(field)
            else:
                self._write_run(run, source)
                value = self._variable("v")
                self._line(f"{value} = {source}.{field.name}")
                self._write_field(field, value)
        self._write_run(run, source)
        if not layout.flexible:
            unknown = f"{source}.unknown_tags"
            self._line(f"if {unknown} != () and not is_default({unknown}, ()): raise Refused")
        elif layout.tagged:
            self._write_tagged(layout, source)
        else:
            self._line(f"if {source}.unknown_tags != (): write_tags(a, [], {source}.unknown_tags, ())")
            self._line('else: a(b"\\x00")')

    def _check_absent(self, field: AbsentField, source: str) -> None:
        value = self._variable("v")
        self._line(f"{value} = {source}.{self._slot(field)}")
        self._block(f"if {self._differs(field, value)}:")
        default = self._new_default(field.default, field.structure)
        self._line(f"if not is_default({value}, {default}): raise Refused")
        self._dedent()

    def _new_default(self, default: Any, structure: type[Message] | None) -> str:
        return f"{self._class(structure)}()" if default is DEFAULT and structure else repr(default)

    def _slot(self, field: AbsentField | FieldLayout) -> str:
        """Return the slot to look at: reading the attribute would make a structure that nobody set."""
        return hidden_slot(field.name) if field.default is DEFAULT else field.name

    def _differs(self, field: AbsentField | FieldLayout, value: str) -> str:
        """Return the quick test that spares most values a comparison."""
        if field.default is DEFAULT or field.default is None:
            return f"{value} is not {'DEFAULT' if field.default is DEFAULT else 'None'}"
        return f"{value} != {field.default!r}"

    def _write_run(self, run: list[FieldLayout], source: str) -> None:
        if run:
            values = []
            for field in run:
                value = f"{source}.{field.name}"
                if field.kind == "bool":
                    value = f"BOOL[{value}]"
                elif field.kind == "uuid":
                    value = self._variable("v")
                    self._line(f"{value} = {source}.{field.name}")
                    self._line(f"if not isinstance({value}, bytes) or len({value}) != 16: raise Refused")
                values.append(value)
            name = self._struct(">" + "".join(FIXED[field.kind].format for field in run))
            self._line(f"a(write_{name}({', '.join(values)}))")
            run.clear()

    def _write_length(self, size: str, compact: bool, code: str) -> None:
        self._line(f"a(UNSIGNED[{size} + 1])" if compact else f"a(write_{self._struct('>' + code)}({size}))")

    def _write_null(self, field: FieldLayout, value: str, null: bytes) -> None:
        """Open the branch of a value that is not null."""
        self._line(f"if {value} is None: " + (f"a({null!r})" if field.nullable else "raise Refused"))
        self._block("else:")

    def _write_field(self, field: FieldLayout, value: str) -> None:
        if not field.array:
            self._write_element(field, value)
            return
        self._write_null(field, value, b"\0" if field.compact else b"\xff" * 4)
        self._line(f"if {value}.__class__ is not tuple: {value} = as_sequence({value})")
        self._write_length(f"len({value})", field.compact, "i")
        if field.kind in FIXED and field.kind not in ("uuid", "bool"):
            self._line(f"a(MANY_{field.kind}[len({value})].pack(*{value}))")
        else:
            element = self._variable("e")
            self._block(f"for {element} in {value}:")
            self._write_element(field._replace(array=False, nullable=False), element)
            self._dedent()
        self._dedent()

    def _write_element(self, field: FieldLayout, value: str) -> None:
        if field.structure is not None:
            if field.nullable:
                self._write_null(field, value, b"\xff" if field.tag is None else b"\0")
                self._line('a(b"\\x01")')
            self._write_structure(field.structure, value)
            if field.nullable:
                self._dedent()
            return
        if field.kind in FIXED:
            if field.kind == "uuid":
                self._line(f"if not isinstance({value}, bytes) or len({value}) != 16: raise Refused")
                self._line(f"a({value})")
            else:
                checked = f"BOOL[{value}]" if field.kind == "bool" else value
                self._line(f"a(write_{self._struct('>' + FIXED[field.kind].format)}({checked}))")
            return
        self._write_null(field, value, b"\0" if field.compact else b"\xff" * (2 if field.kind == "string" else 4))
        self._write_sized(field, value)
        self._dedent()

    def _write_sized(self, field: FieldLayout, value: str) -> None:
        size = self._variable("n")
        if field.kind == "string":
            self._line(f"{value} = encode_text({value}); {size} = len({value})")
            self._line(f"if {size} > {MAX_STRING_BYTES}: raise Refused")
            self._write_length(size, field.compact, "h")
        else:
            if field.kind == "records":
                self._line(f"if {value}.__class__ is bytes: {size} = len({value})")
                self._line(f"elif {value}.__class__ is memoryview: {size} = {value}.nbytes")
                self._line(f"else: {value}, {size} = as_records({value})")
            else:
                self._line(f"if {value}.__class__ is not bytes: {value} = as_buffer({value})")
                self._line(f"{size} = len({value})")
            self._write_length(size, field.compact, "i")
            if field.kind == "records":
                self._line("records.append(len(pieces))")
        self._line(f"a({value})")

    def _write_tagged(self, layout: Layout, source: str) -> None:
        tags = self._variable("tags")
        self._line(f"{tags} = []")
        for field in layout.tagged:
            value, outer = self._variable("v"), self._variable("a")
            self._line(f"{value} = {source}.{self._slot(field)}")
            self._block(f"if {self._differs(field, value)}:")
            default = self._new_default(field.default, field.structure.cls if field.structure else None)
            self._block(f"if not is_default({value}, {default}):")
            content = self._variable("pieces")
            self._line(f"{outer} = a; {content} = []; a = {content}.append")
            self._write_field(field, value)
            self._line(f'a = {outer}; {tags}.append(({field.tag}, b"".join({content})))')
            self._dedent()
            self._dedent()
        known = tuple(field.tag for field in layout.tagged)
        self._line(f"if {tags} or {source}.unknown_tags != (): write_tags(a, {tags}, {source}.unknown_tags, {known!r})")
        self._line('else: a(b"\\x00")')
