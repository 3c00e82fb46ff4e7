"""Write the module for the data that Kafka keeps in ZooKeeper: classes for the content, constants for the nodes."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator
from typing import Final

from kafkawire.codegen.emit.source import comment, docstring_text, header, literal
from kafkawire.codegen.spec import INTEGERS
from kafkawire.codegen.versions import ALL, NONE, Versions
from kafkawire.codegen.znodes import (
    ACCESS,
    MODES,
    ORDERS,
    ContentSpec,
    RegistrySpec,
    StructureSpec,
    ZnodeFieldSpec,
    ZnodeSpec,
    ZnodeType,
)

__all__ = ["emit_znodes"]

_LINE_CHARACTERS: Final = 120

_IMPORTS: Final = """\
from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from kafkawire.sdk.registry.content import (
    ALL_VERSIONS,
    INT8,
    INT16,
    INT32,
    INT64,
    NO_CONTENT,
    NO_VERSIONS,
    SANITIZED,
    STRING,
    TEXT_INT64,
    UUID,
    Field,
    JsonArray,
    JsonContent,
    JsonMap,
    Structure,
    TextContent,
    Version,
)
from kafkawire.sdk.registry.map_order import java_hash_map, java_properties, scala_hash_map, scala_map
from kafkawire.sdk.registry.znodes import Access, Mode, Znode
"""

#: The Python type of each scalar except integers.
_PYTHON_TYPES: Final = {"string": "str", "sanitized": "str", "uuid": "bytes"}

_PARAMETER_TYPES: Final = {
    "int32": "int", "int32?": "int | None", "string": "str", "sanitized": "str", "sanitized?": "str | None",
    "sequence": "int",
}  # fmt: skip

_TEXT_TYPES: Final = {"int32": "int", "int64": "int", "string": "str"}


def emit_znodes(registry: RegistrySpec, digest: str) -> str:
    """Return the module of nodes and content types."""
    classes = [spec.name for spec in registry.structures] + [spec.name for spec in registry.contents]
    names = sorted([*(spec.name for spec in registry.znodes), "ZNODES"]) + sorted(classes)
    lines = [
        *header("registry.yaml", digest),
        '"""The data that Apache Kafka keeps in ZooKeeper: its nodes, and a named tuple for each type of content."""',
        "",
        *_IMPORTS.splitlines(),
        "",
        "__all__ = [",
        *(f"    {literal(name)}," for name in names),
        "]",
        "",
        "_NOTHING: Final[Mapping[Any, Any]] = MappingProxyType({})",
    ]
    for structure in registry.structures:
        lines += ["", "", *_class(structure, None), "", ""]
        first, *more = _structure(structure)
        lines += [f"_{structure.name}: Final = {first}", *more]
    for content in registry.contents:
        lines += ["", "", *_class(content, content), "", "", *_content(content)]
    lines.append("")
    for znode in registry.znodes:
        lines += ["", *comment(f"{_sentence(znode.about)}"), *_znode(znode)]
    lines += ["", "#: All nodes, by name.", "ZNODES: Final[dict[str, Znode[Any, *tuple[Any, ...]]]] = {"]
    lines += [*(f"    {literal(znode.name)}: {znode.name}," for znode in registry.znodes), "}"]
    return "\n".join(lines) + "\n"


def _class(spec: StructureSpec | ContentSpec, content: ContentSpec | None) -> Iterator[str]:
    """Yield the lines that define a named tuple; fields without a default come first."""
    fields = [each for each in spec.fields if each.name != "version" or content is None]
    if content is not None and content.writes.first < content.writes.last:
        fields += [each for each in spec.fields if each.name == "version"]
    described = [each for each in fields if each.about]
    yield f"class {spec.name}(NamedTuple):"
    if described:
        yield f'    """{docstring_text(spec.about)}'
        yield ""
        yield "    Attributes:"
        for each in described:
            text = f"{each.name}: {docstring_text(each.about)}."
            yield from textwrap.wrap(text, _LINE_CHARACTERS, initial_indent=" " * 8, subsequent_indent=" " * 12)
        yield '    """'
    else:
        yield f'    """{docstring_text(spec.about)}"""'
    yield ""
    for each in sorted(fields, key=lambda each: each.has_default or each.name == "version"):
        if each.name == "version" and content is not None:
            yield f"    version: int = {content.writes.last}"
        else:
            default = f" = {_default(each)}" if each.has_default else ""
            yield f"    {each.name}: {_annotation(each)}{default}"


def _annotation(each: ZnodeFieldSpec) -> str:
    name = _PYTHON_TYPES.get(each.type.name, each.type.name)
    if each.type.name in INTEGERS or each.type.name == "text_int64":
        name = "int"
    if each.type.is_array:
        name = f"tuple[{name}, ...]"
    if each.type.keys:
        name = f"Mapping[{'int' if each.type.keys == 'int32' else 'str'}, {name}]"
    is_none = (each.type.is_nullable or each.has_default) and each.default is None
    return f"{name} | None" if is_none else name


def _default(each: ZnodeFieldSpec) -> str:
    if isinstance(each.default, dict):
        return "_NOTHING"
    if isinstance(each.default, list):
        return "()"
    return literal(each.default) if isinstance(each.default, str) else repr(each.default)


def _structure(spec: StructureSpec | ContentSpec) -> Iterator[str]:
    """Yield the lines of a call, without the assignment or argument of which it is a part."""
    yield "Structure("
    yield f"    {spec.name},"
    yield from _fields(spec.fields)
    if spec.refuses_unknown:
        yield "    refuses_unknown=True,"
    yield ")"


def _content(spec: ContentSpec) -> Iterator[str]:
    yield f"_{spec.name}: Final = JsonContent("
    *lines, end = (f"    {line}" for line in _structure(spec))
    yield from [*lines, f"{end},"]
    yield f"    accepted={'None' if spec.accepts is None else _range(spec.accepts)},"
    yield f"    written={_range(spec.writes)},"
    if spec.is_default_if_empty:
        yield f"    empty={spec.name},"
    yield ")"


def _fields(fields: Iterable[ZnodeFieldSpec]) -> Iterator[str]:
    for each in fields:
        arguments = list(_arguments(each))
        line = f"    Field({', '.join(arguments)}),"
        if len(line) + 4 <= _LINE_CHARACTERS:
            yield line
        else:
            yield "    Field("
            yield from (f"        {argument}," for argument in arguments)
            yield "    ),"


def _arguments(each: ZnodeFieldSpec) -> Iterator[str]:
    yield literal(each.name)
    yield literal(each.key)
    yield _kind(each.type, each.order)
    for key, versions, usual in (
        ("versions", each.versions, ALL),
        ("required", each.required, NONE),
        ("read", each.read, ALL),
    ):
        if each.type.name in ("version", "text_version"):
            continue
        if versions != usual:
            yield f"{key}={_range(versions)}"
    if each.has_default and each.default is not None:
        yield f"default={_default(each)}"
    for name, value in (("is_nullable", each.type.is_nullable), ("is_omitted", each.is_omitted)):
        if value:
            yield f"{name}=True"
    if each.min is not None:
        yield f"min={each.min}"
    if each.one_of:
        values = ", ".join(literal(value) if isinstance(value, str) else str(value) for value in each.one_of)
        yield f"one_of=({values}{',' if len(each.one_of) == 1 else ''})"


def _kind(kind: ZnodeType, order: str) -> str:
    text = {"version": "Version()", "text_version": "Version(is_text=True)"}.get(kind.name, kind.name.upper())
    if kind.name[0].isupper():
        text = f"_{kind.name}"
    if kind.is_array:
        text = f"JsonArray({text})"
    if kind.keys:
        ordered = "" if order == ORDERS[0] else f", {order}"
        text = f"JsonMap({kind.keys.upper()}, {text}{ordered})"
    return text


def _range(versions: Versions) -> str:
    if not versions:
        return "NO_VERSIONS"
    if versions == ALL:
        return "ALL_VERSIONS"
    start = f"{versions.first}, " if versions.first else ""
    return f"range({start}{versions.last + 1})"


def _znode(spec: ZnodeSpec) -> Iterator[str]:
    if not spec.content:
        kind, content = "None", "NO_CONTENT"
    elif spec.content in _TEXT_TYPES:
        kind, content = _TEXT_TYPES[spec.content], f"TextContent({spec.content.upper()})"
    else:
        kind, content = spec.content, f"_{spec.content}"
    types = ", ".join([kind, *(_PARAMETER_TYPES[each] for each in spec.parameters.values())])
    arguments = [literal(spec.path), content, *map(literal, spec.parameters.values())]
    if spec.mode != MODES[0]:
        arguments.append(f"mode=Mode.{spec.mode.upper()}")
    if spec.access != ACCESS[1]:
        arguments.append(f"access=Access.{spec.access.upper()}")
    if spec.is_made_at_startup:
        arguments.append("is_made_at_startup=True")
    start = f"{spec.name}: Final[Znode[{types}]] = Znode("
    line = f"{start}{', '.join(arguments)})"
    if len(line) <= _LINE_CHARACTERS:
        yield line
        return
    yield start
    inner = f"    {', '.join(arguments)}"
    yield from [inner] if len(inner) <= _LINE_CHARACTERS else [f"    {argument}," for argument in arguments]
    yield ")"


def _sentence(about: str) -> str:
    return f"{about[0].upper()}{about[1:]}."
