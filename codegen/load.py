"""Read a folder of message schemas into specs.

`schemas/README.md` describes the language. Errors name the file, line, message and field, and are all reported
together. Record formats and the tables (errors, enumerations) have separate loaders.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from kafkawire.codegen import SCHEMAS
from kafkawire.codegen.consistency import problems_of
from kafkawire.codegen.folder import folder_problems
from kafkawire.codegen.located import Located, Problem, Problems, SchemaError, read_documents
from kafkawire.codegen.names import field_problem, near, shown, type_problem
from kafkawire.codegen.spec import (
    INTEGERS,
    NO_DEFAULT,
    PRIMITIVES,
    STRING_BYTES_MAX,
    ApiFile,
    Default,
    FieldSpec,
    MessageSpec,
    RecordFile,
    Removal,
    SchemaFile,
    SingleFile,
    StructSpec,
)
from kafkawire.codegen.versions import ALL, NONE, Versions

__all__ = ["headers_of", "load_file", "load_folder"]

T = TypeVar("T")

_BODY = {"versions", "removed", "flexible", "deprecated", "unstable", "structs", "fields", "about"}
_API = {
    "api", "key", "listeners", "about", "request_header", "first_request_header", "response_header",
    "request", "response",
}  # fmt: skip
_FIELD = {
    "name", "type", "versions", "nullable", "tag", "tagged", "flexible", "default",
    "ignorable", "map_key", "zero_copy", "entity", "about", "fields",
}  # fmt: skip
#: The first key of a document shows what it contains; this module reads only messages.
_MESSAGE_KINDS = {"api", "record", "message"}
_OTHER_KINDS = {"record_format", "errors", "enumerations", "constants", "configs", "znodes"}
#: The headers in every frame; a folder that does not define both of them uses Kafka's.
_HEADERS = {"RequestHeader", "ResponseHeader"}
_SINGLE_KINDS = ("header", "data", "metadata")
#: The Python types of a default as read from YAML.
_DEFAULT_TYPES: dict[str, tuple[type, ...]] = {"bool": (bool,), "string": (str,), "float64": (int, float)}
_RELEASE = re.compile(r"[0-9]{1,3}\.[0-9]{1,3}")
#: The rule in Kafka's `Topic.validate`.
_LEGAL_TOPIC = re.compile(r"(?!\.{1,2}$)[a-zA-Z0-9._-]{1,249}")
_TYPE = re.compile(r"(?P<array>\[\])?(?P<name>\w+)(?P<nullable>\?)?")

#: Takes the place of an unreadable message until its problems are raised.
_NOTHING = MessageSpec("", "data", None, NONE)


def load_folder(folder: Path) -> dict[Path, SchemaFile]:
    """Read all message files under `folder`.

    Returns:
        The content of each file, keyed by path relative to `folder` and sorted.

    Raises:
        SchemaError: a file is wrong, two messages share a name, two requests share a key, or there are no files; the
            error lists every problem in every file.
    """
    problems = Problems()
    files: dict[Path, SchemaFile] = {}
    documents = _message_documents(folder, problems)
    for path in documents:
        with problems.collect():
            files[path.relative_to(folder)] = _file(path, documents[path])
    if not documents and not problems:
        problems.add(Problem(folder, 0, "no message schemas in this folder" if folder.is_dir() else "no such folder"))
    with problems.collect():
        problems.add(*folder_problems(folder, files, documents, headers_of(files.values())))
    problems.check()
    return files


def load_file(path: Path) -> SchemaFile:
    """Read one message file.

    Raises:
        SchemaError: the file is wrong; the error lists every problem.
    """
    return _file(path, read_documents(path))


def headers_of(files: Iterable[SchemaFile]) -> dict[str, MessageSpec]:
    """Return the specs of `RequestHeader` and `ResponseHeader`, keyed by name: Kafka's unless the files define both."""
    own = {message.name: message for file in files for message in file.messages if message.name in _HEADERS}
    return own if own.keys() == _HEADERS else _kafka_headers()


@cache
def _kafka_headers() -> dict[str, MessageSpec]:
    return {message.name: message for message in load_file(SCHEMAS / "headers.yaml").messages}


def _message_documents(folder: Path, problems: Problems) -> dict[Path, list[Located]]:
    """Return the documents in each file that contains messages."""
    found: dict[Path, list[Located]] = {}
    for path in sorted(folder.rglob("*.yml")):
        problems.add(Problem(path, 0, "schema file names must end with .yaml; rename the file"))
    for path in sorted(folder.rglob("*.yaml")):
        with problems.collect():
            documents = read_documents(path)
            if not documents:
                raise SchemaError(path, 0, "empty file")
            kind = next(iter(documents[0]), "")
            if kind in _MESSAGE_KINDS:
                found[path] = documents
            elif kind not in _OTHER_KINDS:
                known = ", ".join(sorted(_MESSAGE_KINDS | _OTHER_KINDS))
                raise documents[0].error(f"a schema must begin with one of {known}, got {shown(kind)}")
    return found


def _file(path: Path, documents: list[Located]) -> SchemaFile:
    if not documents:
        raise SchemaError(path, 0, "empty file")
    first = documents[0]
    if "message" in first:
        problems = Problems()
        messages = _each(documents, _single, problems)
        problems.check()
        return SingleFile(messages)
    if len(documents) > 1:
        raise documents[1].error("only `message` files may contain more than one document")
    return _api(first) if "api" in first else _record(first)


def _each(items: Iterable[Located], read: Callable[[Located], T], problems: Problems) -> tuple[T, ...]:
    """Return the result of `read` for each item, adding any errors to `problems`."""
    found = []
    for item in items:
        with problems.collect():
            found.append(read(item))
    return tuple(found)


def _api(source: Located) -> ApiFile:
    problems = Problems()
    attempt = problems.attempt
    attempt(lambda: source.only(_API), None)
    name = attempt(lambda: _type_name(source, "api"), "")
    key = attempt(lambda: _int16(source, "key"), 0)
    listeners = attempt(lambda: tuple(source.require("listeners", list)), ())
    about = attempt(lambda: source.text("about"), "")
    request_header = attempt(lambda: _optional_int16(source, "request_header"), None)
    response_header = attempt(lambda: _optional_int16(source, "response_header"), None)
    first_header = attempt(lambda: _optional_int16(source, "first_request_header"), None)
    request = attempt(
        lambda: _body(source.require("request", dict), f"{name}Request", "request", key, listeners), _NOTHING
    )
    response = attempt(lambda: _body(source.require("response", dict), f"{name}Response", "response", key), _NOTHING)
    problems.check()
    if request.versions != response.versions:
        raise source.error(f"{name}: request has versions {request.versions}, response {response.versions}", "response")
    if request.removed != response.removed:
        raise source.error(f"{name}: request and response were not removed together", "response")
    return ApiFile(name, request, response, response_header, request_header, about, first_header)


def _record(source: Located) -> RecordFile:
    problems = Problems()
    attempt = problems.attempt
    attempt(lambda: source.only({"record", "type", "topic", "about", "key", "value"}), None)
    name = attempt(lambda: _type_name(source, "record"), "")
    number = attempt(lambda: _int16(source, "type"), 0)
    topic = attempt(lambda: _topic(source), "")
    about = attempt(lambda: source.text("about"), "")
    key = attempt(lambda: _body(source.require("key", dict), f"{name}Key", "coordinator-key", number), _NOTHING)
    value = attempt(lambda: _body(source.require("value", dict), f"{name}Value", "coordinator-value", number), _NOTHING)
    problems.check()
    return RecordFile(name=name, topic=topic, key=key, value=value, about=about)


def _single(source: Located) -> MessageSpec:
    problems = Problems()
    attempt = problems.attempt
    name = attempt(lambda: _type_name(source, "message"), "")
    source.place = name
    kind = attempt(lambda: source.require("kind", str), "data")
    key = attempt(lambda: _int16(source, "type", low=0) if "type" in source or kind == "metadata" else None, None)
    if kind not in _SINGLE_KINDS:
        known = ", ".join(_SINGLE_KINDS)
        problems.add(source.problem(f"kind {shown(kind)}: expected one of {known}{near(kind, _SINGLE_KINDS)}", "kind"))
    elif "type" in source and kind != "metadata":
        problems.add(source.problem(f"type: only allowed for metadata records, got a {kind}", "type"))
    message = attempt(lambda: _body(source, name, kind, key, extra={"message", "kind", "type"}), _NOTHING)
    problems.check()
    return message


def _body(
    source: Located, name: str, kind: str, key: int | None, listeners: tuple[str, ...] = (), extra: Iterable[str] = ()
) -> MessageSpec:
    """Read the part of a document that describes a message."""
    source.place = name
    problems = Problems()
    attempt = problems.attempt
    attempt(lambda: source.only(_BODY | set(extra)), None)
    structs: list[Located] = attempt(lambda: source.mappings("structs"), [])
    message = MessageSpec(
        name=name,
        kind=kind,
        key=key,
        versions=attempt(lambda: _versions(source, "versions", None), NONE),
        removed=attempt(lambda: _removed(source), ()),
        flexible=attempt(lambda: _versions(source, "flexible", NONE), NONE),
        deprecated=attempt(lambda: _versions(source, "deprecated", NONE), NONE),
        unstable=attempt(lambda: source.optional("unstable", bool, False), False),
        listeners=listeners,
        structs=_each(structs, lambda item: _struct(item, name), problems),
        fields=attempt(lambda: _fields(source, ALL, name, ""), ()),
        about=attempt(lambda: source.text("about"), ""),
        line=source.line,
    )
    problems.check()
    problems.add(*problems_of(source.path, message))
    problems.check()
    return message


def _removed(source: Located) -> tuple[Removal, ...]:
    """Read which release removed which versions, oldest first."""
    removed = source.optional("removed", dict, None)
    found = []
    for release in removed or ():
        if _RELEASE.fullmatch(release) is None:
            raise source.error(f"removed: expected a release such as 4.0, got {shown(release)}", "removed")
        found.append(Removal(release, _versions(removed, release, None)))
    return tuple(sorted(found, key=lambda removal: removal.versions.first))


def _struct(source: Located, message: str) -> StructSpec:
    source.place = message
    source.only({"name", "versions", "about", "fields"})
    name = _type_name(source, "name")
    source.place = f"{message}: structure {name}"
    versions = _versions(source, "versions", ALL)
    return StructSpec(
        name=name,
        versions=versions,
        fields=_fields(source, versions, message, f"{name}."),
        about=source.text("about"),
        line=source.line,
    )


def _fields(source: Located, parent: Versions, message: str, prefix: str) -> tuple[FieldSpec, ...]:
    """Read the fields of a message or structure; in errors, `prefix` precedes their names."""
    problems = Problems()
    source.require("fields", list)
    names: set[str] = set()
    tags: dict[int, str] = {}
    fields = []
    for number, item in enumerate(source.mappings("fields"), start=1):
        name = item.get("name", number)
        item.place = f"{message}: field {prefix}{name}"
        with problems.collect():
            fields.append(field := _field(item, parent, message, f"{prefix}{name}."))
            if field.name in names:
                problems.add(item.problem("the name is used twice"))
            if field.tag is not None and tags.setdefault(field.tag, field.name) != field.name:
                problems.add(item.problem(f"tag {field.tag} is already used by {tags[field.tag]}", "tag"))
            names.add(field.name)
    problems.check()
    return tuple(fields)


def _field(source: Located, parent: Versions, message: str, prefix: str) -> FieldSpec:
    problems = Problems()
    attempt = problems.attempt
    attempt(lambda: source.only(_FIELD), None)
    name = attempt(lambda: source.require("name", str), "")
    if "name" in source and (reason := field_problem(name)):
        problems.add(source.problem(f"name: {reason}", "name"))
    # An unreadable type is reported just once, not again by the checks that depend on it.
    kind, array, optional = attempt(lambda: _type(source), ("", False, False))
    versions = attempt(lambda: _versions(source, "versions", parent), parent)
    tag = attempt(lambda: source.optional("tag", int, None), None)
    if "tagged" in source and "tag" not in source:
        problems.add(source.problem("`tagged` requires `tag`", "tagged"))
    if optional and "nullable" in source:
        problems.add(source.problem("declared nullable both by `?` and by `nullable`", "nullable"))
    if "fields" in source and kind in PRIMITIVES:
        problems.add(source.problem(f"fields: not allowed for a field of type {kind}", "fields"))
    nested = attempt(lambda: _fields(source, versions, message, prefix) if "fields" in source else None, None)
    nullable = attempt(lambda: _versions(source, "nullable", NONE), NONE)
    tagged = attempt(lambda: _versions(source, "tagged", versions), NONE)
    field = FieldSpec(
        name=name,
        type=kind,
        array=array,
        versions=versions,
        nullable=versions if optional else nullable,
        tag=tag,
        tagged=NONE if tag is None else tagged,
        flexible=attempt(lambda: _versions(source, "flexible", None) if "flexible" in source else None, None),
        default=NO_DEFAULT,
        ignorable=attempt(lambda: source.optional("ignorable", bool, False), False),
        map_key=attempt(lambda: source.optional("map_key", bool, False), False),
        zero_copy=attempt(lambda: source.optional("zero_copy", bool, False), False),
        entity=attempt(lambda: source.optional("entity", str, None), None),
        about=attempt(lambda: source.text("about"), ""),
        fields=nested,
        line=source.line,
    )
    problems.check()
    return field if "default" not in source else _with_default(source, field)


def _type(source: Located) -> tuple[str, bool, bool]:
    """Return the name of a type, whether it is an array, and whether it may be null."""
    text = source.require("type", str)
    match = _TYPE.fullmatch(text)
    if match is None:
        raise source.error(f"type: {shown(text)} is not a valid type", "type")
    name = match["name"]
    if name not in PRIMITIVES and (reason := type_problem(name)):
        known = ", ".join(sorted(PRIMITIVES))
        raise source.error(
            f"type: {shown(name)} is neither one of {known} nor the name of a structure, because {reason}"
            f"{near(name, PRIMITIVES)}",
            "type",
        )
    return name, bool(match["array"]), bool(match["nullable"])


def _with_default(source: Located, field: FieldSpec) -> FieldSpec:
    """Return the field with the default stated in its source, after checking the default against the field's type."""
    value: Any = source["default"]

    def wrong(reason: str) -> SchemaError:
        return source.error(f"default {'null' if value is None else shown(value)}: {reason}", "default")

    if value is None:
        if not field.nullable:
            raise wrong("the field cannot be null")
    elif field.array or field.type not in INTEGERS.keys() | _DEFAULT_TYPES:
        raise wrong("the only default allowed for this type is null")
    elif field.type in INTEGERS:
        low, high = INTEGERS[field.type]
        if type(value) is not int or not low <= value <= high:
            raise wrong(f"not an integer from {low} to {high}")
    elif type(value) not in _DEFAULT_TYPES[field.type]:
        raise wrong(f"not a {field.type}")
    elif field.type == "string" and (size := len(value.encode())) > STRING_BYTES_MAX:
        raise wrong(f"{size} bytes; the limit for a string is {STRING_BYTES_MAX}")
    elif field.type == "float64" and not math.isfinite(value):
        raise wrong("not finite")
    default: Default = float(value) if field.type == "float64" and value is not None else value
    return replace(field, default=default)


def _type_name(source: Located, key: str) -> str:
    name: str = source.require(key, str)
    if reason := type_problem(name):
        raise source.error(f"{key}: {reason}", key)
    return name


def _topic(source: Located) -> str:
    """Read a topic name, which must be valid for a broker."""
    topic = source.required_text("topic")
    if not _LEGAL_TOPIC.fullmatch(topic):
        legal = "expected 1 to 249 characters from a-z, A-Z, 0-9, '.', '_' and '-'; '.' and '..' are reserved"
        raise source.error(f"topic: {shown(topic)} is not a valid topic name; {legal}", "topic")
    return topic


def _int16(source: Located, key: str, low: int = INTEGERS["int16"][0]) -> int:
    """Read an int16; `low` is the lowest allowed value: 0 for values written as unsigned varints."""
    high = INTEGERS["int16"][1]
    value: int = source.require(key, int)
    if not low <= value <= high:
        raise source.error(f"{key}: expected {low} to {high}, got {value}", key)
    return value


def _optional_int16(source: Located, key: str) -> int | None:
    return _int16(source, key) if key in source else None


def _versions(source: Located, key: str, default: Versions | None) -> Versions:
    if key not in source and default is not None:
        return default
    value = source.require(key, (str, int))
    try:
        return Versions.parse(str(value))
    except ValueError as error:
        raise source.error(f"{key}: {error}", key) from error
