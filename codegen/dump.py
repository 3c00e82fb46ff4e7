"""Write specs as YAML, in the layout of the schemas.

This is the inverse of `load.py`: loading a written file gives equal specs, and writing a loaded file gives the same
text. Importing a new release therefore changes only the lines that the release changed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator

from kafkawire.codegen.configs import Configs, ConfigSpec, HereSpec
from kafkawire.codegen.spec import (
    NO_DEFAULT,
    ApiFile,
    Default,
    FieldSpec,
    MessageSpec,
    RecordFile,
    SchemaFile,
    SingleFile,
    StructSpec,
)
from kafkawire.codegen.tables import Constant, Enumeration, ErrorSpec
from kafkawire.codegen.versions import ALL, Versions

__all__ = ["dump", "dump_configs", "dump_enumerations", "dump_errors"]

#: A field of up to this many characters is written on one line; a longer one is split.
_LINE_CHARACTERS = 120

#: Text that needs no quotes in any position.
_PLAIN = re.compile(r"[A-Za-z_][^:#{}\[\],&*!|>'\"%@`\\]*")
#: Words that YAML 1.1 or 1.2 does not read as text; numbers and dates are excluded by `_PLAIN`.
_RESERVED = {"null", "true", "false", "yes", "no", "on", "off", "y", "n"}
_ESCAPES = {'"': '\\"', "\\": "\\\\"}

Pairs = list[tuple[str, str]]


def dump(file: SchemaFile, depth: int) -> str:
    """Return the text of a schema file.

    Args:
        file: its content.
        depth: how many folders below the root of the schemas the file is, for the link to `schema.json`.
    """
    lines = [f"# yaml-language-server: $schema={'../' * depth}schema.json"]
    match file:
        case ApiFile():
            lines += [f"api: {_text(file.name)}", f"key: {file.request.key}"]
            lines.append(f"listeners: [{', '.join(file.request.listeners)}]")
            lines += _about(file.about)
            for key, version in (
                ("request_header", file.request_header),
                ("first_request_header", file.first_request_header),
                ("response_header", file.response_header),
            ):
                if version is not None:
                    lines.append(f"{key}: {version}")
            lines += ["", "request:", *_indent(_body(file.request)), "", "response:", *_indent(_body(file.response))]
        case RecordFile():
            lines += [f"record: {_text(file.name)}", f"type: {file.key.key}", f"topic: {_text(file.topic)}"]
            lines += [
                *_about(file.about),
                "",
                "key:",
                *_indent(_body(file.key)),
                "",
                "value:",
                *_indent(_body(file.value)),
            ]
        case SingleFile():
            for number, message in enumerate(file.messages):
                lines += ["---"] if number else []
                lines += [f"message: {_text(message.name)}", f"kind: {message.kind}"]
                lines += [] if message.key is None else [f"type: {message.key}"]
                lines += _body(message)
    return "\n".join(lines) + "\n"


def dump_errors(errors: Iterable[ErrorSpec]) -> str:
    """Return the text of `errors.yaml`."""
    lines = [
        "# yaml-language-server: $schema=schema.json",
        "# Error codes: number, name, and what a client may do about them.",
        "#   retriable: the same request may succeed later; invalid_metadata: refresh the metadata first;",
        "#   fatal: the client that received it cannot continue.",
        "errors:",
    ]
    for error in errors:
        flags = [(name, "true") for name in ("retriable", "invalid_metadata", "fatal") if getattr(error, name)]
        about = [("about", _text(error.about))] if error.about else []
        lines += _indent(_item([("code", str(error.code)), ("name", _text(error.name)), *flags, *about], margin=2))
    return "\n".join(lines) + "\n"


def dump_enumerations(enumerations: Iterable[Enumeration], constants: Iterable[Constant]) -> str:
    """Return the text of `enumerations.yaml`."""
    lines = [
        "# yaml-language-server: $schema=schema.json",
        "# Names for the numbers in fields of messages, and for single values with a meaning.",
        "#   source: what Kafka calls it, if it has a name.",
        "enumerations:",
    ]
    for item in enumerations:
        lines += [f"  - name: {_text(item.name)}", f"    about: {_text(item.about)}"]
        lines += [f"    source: {_text(item.source)}"] if item.source else []
        lines += ["    values:", *(f"      {_text(name)}: {number}" for name, number in item.values.items())]
    lines.append("constants:")
    for constant in constants:
        value = _text(constant.value) if isinstance(constant.value, str) else str(constant.value)
        source = [("source", _text(constant.source))] if constant.source else []
        about = ("about", _text(constant.about))
        lines += _indent(_item([("name", _text(constant.name)), ("value", value), *source, about], margin=2))
    return "\n".join(lines) + "\n"


def dump_configs(configs: Configs) -> str:
    """Return the text of `configs.yaml`."""
    lines = [
        "# yaml-language-server: $schema=schema.json",
        "# Configurations of topics, brokers, groups and client metrics subscriptions.",
        "#   default, min, max, also, one_of, rule: values that Kafka accepts; in lists, one_of applies to each entry;",
        "#   update: whether and where a running broker accepts a value; broker: source of a topic or group's value;",
        "#   here: it affects the reference broker, which may have a name, a default or a limit of its own;",
        "#   about: its effect, in our own words, which DescribeConfigs returns as a sentence.",
        "configs:",
    ]
    for resource, specs in configs.items():
        lines.append(f"  {resource}:" if specs else f"  {resource}: []")
        for spec in specs:
            lines += _indent(_indent(_item(_config_pairs(spec), margin=4)))
    return "\n".join(lines) + "\n"


def _config_pairs(spec: ConfigSpec) -> Pairs:
    pairs: Pairs = [("name", _text(spec.name)), ("type", spec.type)]
    pairs += _config_default(spec.default, spec.type)
    pairs += [(key, str(value)) for key in ("min", "max", "also") if (value := getattr(spec, key)) is not None]
    pairs += [("one_of", f"[{', '.join(map(_text, spec.one_of))}]")] if spec.one_of else []
    pairs += [("any_case", "true")] if spec.any_case else []
    pairs += [
        (key, _text(value)) for key in ("rule", "importance", "update", "broker") if (value := getattr(spec, key))
    ]
    pairs += [("synonyms", f"[{', '.join(map(_text, spec.synonyms))}]")] if spec.synonyms else []
    pairs += [] if spec.here is None else [("here", _here(spec.here, spec.type))]
    pairs += [("about", _text(spec.about))] if spec.about else []
    return pairs


def _here(here: HereSpec, kind: str) -> str:
    pairs: Pairs = [("option", _text(here.option))] if here.option else []
    pairs += _config_default(here.default, kind)
    pairs += [(key, str(value)) for key in ("min", "also") if (value := getattr(here, key)) is not None]
    pairs += [("reason", _text(here.reason))] if here.reason else []
    return "{" + ", ".join(f"{key}: {value}" for key, value in pairs) + "}"


def _config_default(default: str | None, kind: str) -> Pairs:
    if default is None:
        return []
    is_plain = kind in ("boolean", "int", "long", "short") or (kind == "double" and _is_python(default))
    return [("default", default if is_plain else _text(default))]


def _is_python(decimal: str) -> bool:
    return str(float(decimal)) == decimal


def _body(message: MessageSpec) -> Iterator[str]:
    yield from _about(message.about)
    yield f"versions: {message.versions}"
    if message.removed:
        pairs = (f"{_text(removal.release)}: {removal.versions}" for removal in message.removed)
        yield f"removed: {{{', '.join(pairs)}}}"
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
    yield f"- name: {_text(struct.name)}"
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
    """Yield an element of a list, on one line if it fits after the margin and no block is requested."""
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
    pairs: Pairs = [("name", _text(field.name)), ("type", _text(kind))]
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
        pairs.append(("entity", _text(field.entity)))
    if field.about:
        pairs.append(("about", _text(field.about)))
    return pairs


def _default(value: Default) -> str:
    if isinstance(value, str):
        return f'"{"".join(map(_quoted, value))}"'
    text = json.dumps(value)
    # YAML 1.1 reads 1e+16 as text, because it requires a decimal point in a number with an exponent.
    return text.replace("e", ".0e") if isinstance(value, float) and "." not in text else text


def _about(about: str) -> list[str]:
    return [f"about: {_text(about)}"] if about else []


def _text(value: str) -> str:
    """Return a scalar, in quotes if YAML would read a different value."""
    plain = (
        _PLAIN.fullmatch(value) and value.isprintable() and value.lower() not in _RESERVED and value == value.strip()
    )
    return value if plain else _quoted_text(value)


def _quoted_text(value: str) -> str:
    return f'"{"".join(map(_quoted, value))}"'


def _quoted(character: str) -> str:
    """Return a character in the form used inside quotes; unlike JSON, YAML has no surrogate pairs."""
    if character in _ESCAPES or character.isprintable():
        return _ESCAPES.get(character, character)
    number = ord(character)
    return f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"


def _indent(lines: Iterable[str]) -> Iterator[str]:
    return (f"  {line}" if line else "" for line in lines)
