"""Read a folder of message schemas into specs.

The language is described in `schemas/README.md`. Every error names the file, the line and the field. Record formats
and the tables (errors, enumerations) have loaders of their own.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from kafkawire.codegen.consistency import check_message
from kafkawire.codegen.located import Located, SchemaError, read_documents
from kafkawire.codegen.spec import (
    INTEGERS,
    NO_DEFAULT,
    PRIMITIVES,
    ApiFile,
    Default,
    FieldSpec,
    MessageSpec,
    RecordFile,
    SchemaFile,
    SingleFile,
    StructSpec,
)
from kafkawire.codegen.versions import ALL, NONE, Versions

__all__ = ["load_file", "load_folder", "message_paths"]

_BODY = {"versions", "flexible", "deprecated", "unstable", "structs", "fields", "about"}
_FIELD = {
    "name", "type", "versions", "nullable", "tag", "tagged", "flexible", "default",
    "ignorable", "map_key", "zero_copy", "entity", "about", "fields",
}  # fmt: skip
#: The key that opens a document says what it holds; messages are read here, the others by loaders of their own.
_MESSAGE_KINDS = {"api", "record", "message"}
_OTHER_KINDS = {"record_format", "errors", "enumerations", "constants"}
_SINGLE_KINDS = ("header", "data", "metadata")
#: What YAML gives for a default of these types.
_DEFAULT_TYPES: dict[str, type | tuple[type, ...]] = {"bool": bool, "string": str, "float64": (int, float)}
_NAME = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")
_STRUCT = re.compile(r"[A-Z][A-Za-z0-9]*")
_TYPE = re.compile(r"(?P<array>\[\])?(?P<name>\w+)(?P<nullable>\?)?")


def message_paths(folder: Path) -> list[Path]:
    """Return the files under `folder` that hold messages, sorted; record formats and tables are left out.

    Raises:
        SchemaError: a file begins with none of the keys that name a kind of document.
    """
    return [path for path in sorted(folder.rglob("*.yaml")) if _document_kind(path) in _MESSAGE_KINDS]


def load_folder(folder: Path) -> dict[Path, SchemaFile]:
    """Read all message files under `folder`.

    Returns:
        Each file's content by its path relative to `folder`, sorted.

    Raises:
        SchemaError: a file is wrong, two messages share a name or two requests a key, or there is no file.
    """
    files = {path.relative_to(folder): load_file(path) for path in message_paths(folder)}
    if not files:
        raise SchemaError(folder, 0, "no message schemas here")
    names: dict[str, Path] = {}
    keys: dict[tuple[str, int], str] = {}
    for path, file in files.items():
        for message in file.messages:
            if message.name in names:
                raise SchemaError(folder / path, message.line, f"{message.name} stands also in {names[message.name]}")
            names[message.name] = path
            if message.key is not None and message.kind in ("request", "response", "coordinator-key"):
                other = keys.setdefault((message.kind + str(path.parent), message.key), message.name)
                if other != message.name:
                    raise SchemaError(folder / path, message.line, f"key {message.key} belongs to {other} already")
    return files


def load_file(path: Path) -> SchemaFile:
    """Read one message file.

    Raises:
        SchemaError: it is wrong; names the line and the field.
    """
    documents = list(read_documents(path))
    if not documents:
        raise SchemaError(path, 0, "empty file")
    first = documents[0]
    if "message" in first:
        return SingleFile(tuple(map(_single, documents)))
    if len(documents) > 1:
        raise documents[1].error("only files of `message` documents may hold several")
    return _api(first) if "api" in first else _record(first)


def _document_kind(path: Path) -> str:
    """Return the key that opens the first document of a file, found without parsing it whole."""
    with path.open(encoding="utf-8") as lines:
        for number, line in enumerate(lines, start=1):
            if match := re.match(r"(\w+)\s*:", line):
                if match[1] not in _MESSAGE_KINDS | _OTHER_KINDS:
                    known = ", ".join(sorted(_MESSAGE_KINDS | _OTHER_KINDS))
                    raise SchemaError(path, number, f"a schema opens with one of {known}; not with {match[1]!r}")
                return match[1]
    raise SchemaError(path, 0, "empty file")


def _api(source: Located) -> ApiFile:
    source.only({"api", "key", "listeners", "about", "response_header", "request", "response"})
    name = _type_name(source, "api")
    key = source.require("key", int)
    listeners = tuple(source.require("listeners", list))
    request = _body(source.require("request", dict), f"{name}Request", "request", key, listeners)
    response = _body(source.require("response", dict), f"{name}Response", "response", key)
    if request.versions != response.versions:
        raise source.error(f"request has versions {request.versions}, response {response.versions}", "response")
    return ApiFile(
        name=name,
        request=request,
        response=response,
        response_header=source.optional("response_header", int, None),
        about=_about(source),
    )


def _record(source: Located) -> RecordFile:
    source.only({"record", "type", "topic", "about", "key", "value"})
    name = _type_name(source, "record")
    number = source.require("type", int)
    return RecordFile(
        name=name,
        topic=source.require("topic", str),
        key=_body(source.require("key", dict), f"{name}Key", "coordinator-key", number),
        value=_body(source.require("value", dict), f"{name}Value", "coordinator-value", number),
        about=_about(source),
    )


def _single(source: Located) -> MessageSpec:
    name = _type_name(source, "message")
    kind = source.require("kind", str)
    if kind not in _SINGLE_KINDS:
        raise source.error(f"kind {kind!r}: one of {', '.join(_SINGLE_KINDS)} is expected", "kind")
    if kind == "metadata":
        source.require("type", int)
    elif "type" in source:
        raise source.error(f"type: only metadata records have one, not a {kind}", "type")
    return _body(source, name, kind, source.optional("type", int, None), extra={"message", "kind", "type"})


def _body(
    source: Located, name: str, kind: str, key: int | None, listeners: tuple[str, ...] = (), extra: Iterable[str] = ()
) -> MessageSpec:
    source.only(_BODY | set(extra))
    structs = tuple(_struct(item) for item in _mappings(source, "structs"))
    message = MessageSpec(
        name=name,
        kind=kind,
        key=key,
        versions=_versions(source, "versions", None),
        flexible=_versions(source, "flexible", NONE),
        deprecated=_versions(source, "deprecated", NONE),
        unstable=source.optional("unstable", bool, False),
        listeners=listeners,
        structs=structs,
        fields=_fields(source, ALL),
        about=_about(source),
        line=source.line,
    )
    check_message(source.path, message)
    return message


def _struct(source: Located) -> StructSpec:
    source.only({"name", "versions", "about", "fields"})
    versions = _versions(source, "versions", ALL)
    return StructSpec(
        name=_type_name(source, "name"),
        versions=versions,
        fields=_fields(source, versions),
        about=_about(source),
        line=source.line,
    )


def _fields(source: Located, parent: Versions) -> tuple[FieldSpec, ...]:
    fields = tuple(_field(item, parent) for item in _mappings(source, "fields"))
    names: dict[str, FieldSpec] = {}
    tags: dict[int, str] = {}
    for field, item in zip(fields, _mappings(source, "fields"), strict=True):
        if names.setdefault(field.name, field) is not field:
            raise item.error(f"field {field.name} stands twice")
        if field.tag is not None and tags.setdefault(field.tag, field.name) != field.name:
            raise item.error(f"field {field.name}: tag {field.tag} belongs to {tags[field.tag]} already")
    return fields


def _field(source: Located, parent: Versions) -> FieldSpec:
    source.only(_FIELD)
    name = source.require("name", str)
    if not _NAME.fullmatch(name):
        raise source.error(f"field {name!r}: a name is snake_case", "name")
    text = source.require("type", str)
    match = _TYPE.fullmatch(text)
    if match is None or not (match["name"] in PRIMITIVES or _STRUCT.fullmatch(match["name"])):
        raise source.error(f"field {name}: {text!r} is no type; {', '.join(sorted(PRIMITIVES))} or a structure", "type")
    kind, array = match["name"], bool(match["array"])
    versions = _versions(source, "versions", parent)
    if match["nullable"] and "nullable" in source:
        raise source.error(f"field {name}: nullable by `?` and by `nullable`", "nullable")
    tag = source.optional("tag", int, None)
    if "tagged" in source and tag is None:
        raise source.error(f"field {name}: `tagged` without a `tag`", "tagged")
    nested = _fields(source, versions) if "fields" in source else None
    if nested is not None and kind in PRIMITIVES:
        raise source.error(f"field {name}: a {kind} has no fields", "fields")
    nullable = versions if match["nullable"] else _versions(source, "nullable", NONE)
    field = FieldSpec(
        name=name,
        type=kind,
        array=array,
        versions=versions,
        nullable=nullable,
        tag=tag,
        tagged=NONE if tag is None else _versions(source, "tagged", versions),
        flexible=_versions(source, "flexible", None) if "flexible" in source else None,
        default=NO_DEFAULT,
        ignorable=source.optional("ignorable", bool, False),
        map_key=source.optional("map_key", bool, False),
        zero_copy=source.optional("zero_copy", bool, False),
        entity=source.optional("entity", str, None),
        about=_about(source),
        fields=nested,
        line=source.line,
    )
    return field if "default" not in source else _with_default(source, field)


def _with_default(source: Located, field: FieldSpec) -> FieldSpec:
    """Return the field with the default that its source gives, checked against its type."""
    value: Any = source["default"]
    where = f"field {field.name}: default {value!r}"
    if value is None:
        if not field.nullable:
            raise source.error(f"{where}: the field is never null", "default")
    elif field.array or field.type not in INTEGERS.keys() | _DEFAULT_TYPES:
        raise source.error(f"{where}: a field of this type can only have null as a default", "default")
    elif field.type in INTEGERS:
        low, high = INTEGERS[field.type]
        if type(value) is not int or not low <= value <= high:
            raise source.error(f"{where}: not within {low} and {high}", "default")
    elif not isinstance(value, _DEFAULT_TYPES[field.type]):
        raise source.error(f"{where}: not a {field.type}", "default")
    default: Default = float(value) if field.type == "float64" and value is not None else value
    return replace(field, default=default)


def _type_name(source: Located, key: str) -> str:
    name: str = source.require(key, str)
    if not _STRUCT.fullmatch(name):
        raise source.error(f"{key}: {name!r} is not in CamelCase", key)
    return name


def _about(source: Located) -> str:
    about: str = source.optional("about", str, "")
    if "about" in source and not about.strip():
        raise source.error("about: empty; leave it out where the name says it all", "about")
    return about


def _versions(source: Located, key: str, default: Versions | None) -> Versions:
    if key not in source and default is not None:
        return default
    value = source.require(key, (str, int))
    try:
        return Versions.parse(str(value))
    except ValueError as error:
        name = source.get("name")
        raise source.error(f"field {name}: {key}: {error}" if name else f"{key}: {error}", key) from error


def _mappings(source: Located, key: str) -> Iterator[Located]:
    for item in source.optional(key, list, []):
        if not isinstance(item, Located):
            raise source.error(f"{key}: {item!r} is not a mapping", key)
        yield item
