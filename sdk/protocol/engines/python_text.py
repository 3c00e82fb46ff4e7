"""Generate straight-line Python that decodes and encodes one layout: no loop over fields, no branch on versions.

Neighbouring fields of fixed size share one `struct` call. The text checks everything but gives no reasons for failures.
`python.py` runs the text; `python_text` returns it for people to read.
"""

from __future__ import annotations

from struct import Struct
from typing import Any

from kafkawire.sdk.protocol.layout import AbsentField, FieldLayout, Layout
from kafkawire.sdk.protocol.primitives import FIXED, MALFORMED_UTF8, MAX_STRING_BYTES
from kafkawire.sdk.protocol.schema import Message
from kafkawire.sdk.protocol.values import DEFAULT, hidden_slot

__all__ = ["PythonText", "python_text"]


def python_text(layout: Layout) -> str:
    """Return the Python text that decodes and encodes a layout."""
    return PythonText(layout).text


class PythonText:
    """The text for one layout, and the objects that it refers to.

    Variables in the text: `b` is the bytes, `o` the offset, `end` the end of the bytes, `m` the message; `a` appends a
    piece; the other variables are numbered.
    """

    def __init__(self, layout: Layout) -> None:
        self.objects: dict[str, Any] = {}
        self._classes: dict[type[Message], str] = {}
        self._structs: dict[str, str] = {}
        self._lines: list[str] = []
        self._margin = ""
        self._count = 0
        self._block("def decode(b, o, end, view):")
        if layout.has_records:
            self._line("view = memoryview(view)")
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
        """Read neighbouring fields of fixed size together."""
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
            self._line(f"{target}.unknown_tags, o = skip_tags(b, o, end, {count}, {layout.invalid_tags!r})")
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
            invalid = f" or {tag} in {layout.invalid_tags!r}" if layout.invalid_tags else ""
            self._line(f"if not 0 <= {size} <= end - o{invalid}: raise Refused")
            self._line(f"{unknown}.append(({tag}, b[o:o + {size}])); o += {size}")
            self._dedent()
            self._dedent()
            self._line(f"{target}.unknown_tags = tuple({unknown})")
        self._dedent()

    # -------------------------------------------------------------------------------------------------------- writing

    def _write_structure(self, layout: Layout, source: str) -> None:
        self._line(f"if type({source}) is not {self._class(layout.cls)}: raise Refused")
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
            self._line(f"if {unknown} is not NO_TAGS and not is_default({unknown}, ()): raise Refused")
        elif layout.tagged:
            self._write_tagged(layout, source)
        else:
            arguments = f"a, [], {source}.unknown_tags, (), {layout.invalid_tags!r}"
            self._line(f"if {source}.unknown_tags is not NO_TAGS: write_tags({arguments})")
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
        """Return the slot to check; reading the attribute itself would create the structure if it is not set."""
        return hidden_slot(field.name) if field.default is DEFAULT else field.name

    def _differs(self, field: AbsentField | FieldLayout, value: str) -> str:
        """Return a quick test that avoids most comparisons, without running the value's own code."""
        if field.default is DEFAULT:
            return f"{value} is not DEFAULT"
        if field.default is None or isinstance(field.default, bool):
            return f"{value} is not {field.default!r}"
        return f"type({value}) is not {type(field.default).__name__} or {value} != {field.default!r}"

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
                    self._line(f"if type({value}) is not bytes or len({value}) != 16: {value} = as_uuid({value})")
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
        self._line(f"if type({value}) is not tuple: {value} = as_sequence({value})")
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
                self._line(f"if type({value}) is not bytes or len({value}) != 16: {value} = as_uuid({value})")
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
                self._line(f"if type({value}) is bytes: {size} = len({value})")
                # When joined, such a view contributes its bytes whatever its format; as a separate part, it must be a
                # view of bytes.
                self._line(f"elif records is None and type({value}) is memoryview and {value}.c_contiguous:")
                self._line(f"    {size} = {value}.nbytes")
                self._line(f"else: {value}, {size} = as_records({value}, records)")
            else:
                self._line(f"if type({value}) is not bytes: {value} = as_buffer({value})")
                self._line(f"{size} = len({value})")
            self._write_length(size, field.compact, "i")
            if field.kind == "records":
                self._line("if records is not None: records.append(len(pieces))")
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
        unknown = f"{source}.unknown_tags"
        arguments = f"a, {tags}, {unknown}, {known!r}, {layout.invalid_tags!r}"
        self._line(f"if {tags} or {unknown} is not NO_TAGS: write_tags({arguments})")
        self._line('else: a(b"\\x00")')
