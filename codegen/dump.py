"""Write specs as YAML, in the one form that the schemas have.

The opposite of `load.py`: loading what was written gives equal specs, and writing what was loaded gives the same
text, so an import of a new release changes only the lines that the release changed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator

from kafkawire.codegen.spec import (
    NO_DEFAULT,
    ApiFile,
    FieldSpec,
    MessageSpec,
    RecordFile,
    SchemaFile,
    SingleFile,
    StructSpec,
)
from kafkawire.codegen.tables import Constant, Enumeration, ErrorSpec
from kafkawire.codegen.versions import ALL, Versions

__all__ = ["dump", "dump_enumerations", "dump_errors"]

#: A field goes on one line up to this many characters, and over several beyond.
_LINE_CHARACTERS = 120

#: Text that means the same with and without quotes, wherever it stands.
_PLAIN = re.compile(r"[A-Za-z_][^:#{}\[\],&*!|>'\"%@`\\]*")
_RESERVED = {"null", "true", "false", "yes", "no", "on", "off", "~", ""}

Pairs = list[tuple[str, str]]


def dump(file: SchemaFile, depth: int) -> str:
    """Return the text of a schema file.

    Args:
        file: what it holds.
        depth: how many folders below the schemas' root it lies, for the link to `schema.json`.
    """
    lines = [f"# yaml-language-server: $schema={'../' * depth}schema.json"]
    match file:
        case ApiFile():
            lines += [f"api: {file.name}", f"key: {file.request.key}"]
            lines.append(f"listeners: [{', '.join(file.request.listeners)}]")
            lines += _about(file.about)
            if file.response_header is not None:
                lines.append(f"response_header: {file.response_header}")
            lines += ["", "request:", *_indent(_body(file.request)), "", "response:", *_indent(_body(file.response))]
        case RecordFile():
            lines += [f"record: {file.name}", f"type: {file.key.key}", f"topic: {file.topic}", *_about(file.about)]
            lines += ["", "key:", *_indent(_body(file.key)), "", "value:", *_indent(_body(file.value))]
        case SingleFile():
            for number, message in enumerate(file.messages):
                lines += ["---"] if number else []
                lines += [f"message: {message.name}", f"kind: {message.kind}"]
                lines += [] if message.key is None else [f"type: {message.key}"]
                lines += _body(message)
    return "\n".join(lines) + "\n"


def dump_errors(errors: Iterable[ErrorSpec]) -> str:
    """Return the text of `errors.yaml`."""
    lines = [
        "# yaml-language-server: $schema=schema.json",
        "# Error codes: number, name, and what a client may do about them.",
        "#   retriable: the same request may succeed later; invalid_metadata: ask for fresh metadata first;",
        "#   fatal: the client object that received it cannot go on.",
        "errors:",
    ]
    for error in errors:
        flags = [(name, "true") for name in ("retriable", "invalid_metadata", "fatal") if getattr(error, name)]
        about = [("about", _text(error.about))] if error.about else []
        lines += _indent(_item([("code", str(error.code)), ("name", error.name), *flags, *about], margin=2))
    return "\n".join(lines) + "\n"


def dump_enumerations(enumerations: Iterable[Enumeration], constants: Iterable[Constant]) -> str:
    """Return the text of `enumerations.yaml`."""
    lines = [
        "# yaml-language-server: $schema=schema.json",
        "# Numbers that fields of messages carry, and values that have a meaning of their own.",
        "#   source: what Kafka calls it, where it has a name.",
        "enumerations:",
    ]
    for item in enumerations:
        lines += [f"  - name: {item.name}", f"    about: {_text(item.about)}"]
        lines += [f"    source: {item.source}"] if item.source else []
        lines += ["    values:", *(f"      {name}: {number}" for name, number in item.values.items())]
    lines.append("constants:")
    for constant in constants:
        value = _text(constant.value) if isinstance(constant.value, str) else str(constant.value)
        source = [("source", constant.source)] if constant.source else []
        about = ("about", _text(constant.about))
        lines += _indent(_item([("name", constant.name), ("value", value), *source, about], margin=2))
    return "\n".join(lines) + "\n"


def _body(message: MessageSpec) -> Iterator[str]:
    yield from _about(message.about)
    yield f"versions: {message.versions}"
    if message.flexible:
        yield f"flexible: {message.flexible}"
    if message.deprecated:
        yield f"deprecated: {message.deprecated}"
    if message.unstable:
        yield "unstable: true"
    if message.structs:
        yield "structs:"
        for struct in message.structs:
            yield from _indent(_struct(struct))
    yield from _fields(message.fields, ALL)


def _struct(struct: StructSpec) -> Iterator[str]:
    yield f"- name: {struct.name}"
    yield from _indent(_about(struct.about))
    if struct.versions != ALL:
        yield f"  versions: {struct.versions}"
    yield from _indent(_fields(struct.fields, struct.versions))


def _fields(fields: tuple[FieldSpec, ...], parent: Versions) -> Iterator[str]:
    if not fields:
        yield "fields: []"
        return
    yield "fields:"
    for field in fields:
        yield from _indent(_field(field, parent))


def _field(field: FieldSpec, parent: Versions) -> Iterator[str]:
    yield from _item(_pairs(field, parent), block=field.fields is not None)
    if field.fields is not None:
        yield from _indent(_fields(field.fields, field.versions))


def _item(pairs: Pairs, *, block: bool = False, margin: int = 8) -> Iterator[str]:
    """Yield an element of a list: on one line where it fits behind a margin, unless a block is wanted."""
    line = "- {" + ", ".join(f"{key}: {value}" for key, value in pairs) + "}"
    if not block and len(line) <= _LINE_CHARACTERS - margin:
        yield line
        return
    (key, value), *rest = pairs
    yield f"- {key}: {value}"
    yield from (f"  {key}: {value}" for key, value in rest)


def _pairs(field: FieldSpec, parent: Versions) -> Pairs:
    optional = bool(field.nullable) and field.nullable == field.versions
    kind = f"{'[]' if field.array else ''}{field.type}{'?' if optional else ''}"
    pairs: Pairs = [("name", field.name), ("type", f'"{kind}"' if field.array else kind)]
    if field.versions != parent:
        pairs.append(("versions", str(field.versions)))
    if field.nullable and not optional:
        pairs.append(("nullable", str(field.nullable)))
    if field.tag is not None:
        pairs.append(("tag", str(field.tag)))
        if field.tagged != field.versions:
            pairs.append(("tagged", str(field.tagged)))
    if field.flexible is not None:
        pairs.append(("flexible", str(field.flexible)))
    if field.default is not NO_DEFAULT:
        pairs.append(("default", _default(field.default)))
    pairs += [(key, "true") for key in ("ignorable", "map_key", "zero_copy") if getattr(field, key)]
    if field.entity is not None:
        pairs.append(("entity", field.entity))
    if field.about:
        pairs.append(("about", _text(field.about)))
    return pairs


def _default(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False)
    # YAML takes 1e+16 for a string: its numbers with an exponent have a point.
    return text.replace("e", ".0e") if isinstance(value, float) and "." not in text else text


def _about(about: str) -> list[str]:
    return [f"about: {_text(about)}"] if about else []


def _text(value: str) -> str:
    """Return a scalar, quoted where YAML would read something else."""
    plain = _PLAIN.fullmatch(value) and value.lower() not in _RESERVED and value == value.strip()
    return value if plain else json.dumps(value, ensure_ascii=False)


def _indent(lines: Iterable[str]) -> Iterator[str]:
    return (f"  {line}" if line else "" for line in lines)
