"""Read the message definitions inside a Kafka release (2.8 to 4.3).

Kafka's jars contain the JSON files from which its own classes are generated. Facts (names, types, versions, tags,
defaults) are imported, but texts are not: this project writes its own descriptions in `schemas/`. The files are read as
YAML, a superset of JSON, because errors can then give line numbers.

Source: `common/message/*.json` in kafka-clients, and similar files in Kafka's coordinator, metadata, raft and storage
jars.
"""

from __future__ import annotations

import re
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from kafkawire.codegen.consistency import problems_of
from kafkawire.codegen.located import FILE_BYTES_MAX, Located, Problems, SchemaError, parse
from kafkawire.codegen.names import field_problem, type_problem
from kafkawire.codegen.spec import NO_DEFAULT, PRIMITIVES, Default, FieldSpec, MessageSpec, StructSpec, snake_case
from kafkawire.codegen.versions import ALL, NONE, Versions

__all__ = ["Release", "read_jars", "read_release", "release_number", "release_order"]

_FOLDERS = ("common/message/", "common/metadata/", "message/")

#: Matches quoted text, which is kept, or a comment. Either extends to the end if it is not closed, so no position is
#: tried twice.
_TEXT_OR_COMMENT = re.compile(r'("(?:\\.|[^"\\])*"?)|//[^\n]*|/\*.*?(?:\*/|\Z)', re.DOTALL)

#: Releases before 4.0 distinguish ZooKeeper brokers from KRaft brokers. Both kinds serve clients.
_LISTENERS = {"zkBroker": "broker"}

_KINDS = ("request", "response", "header", "data", "metadata", "coordinator-key", "coordinator-value")
_FLAGS = {"true": True, "false": False}


#: The jar entry that names the release, and the pattern for the name in it.
_RELEASE_ENTRY = "kafka/kafka-version.properties"
_RELEASE_LINE = re.compile(rb"^version=(?P<major>[0-9]+)\.(?P<minor>[0-9]+)\b", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Release:
    """The definitions in the jars of one release.

    Attributes:
        number: the release without the patch, such as 3.9.
        messages: the messages, keyed by name.
    """

    number: str
    messages: list[MessageSpec]


def release_order(number: str) -> tuple[int, ...]:
    """Return a key that sorts release numbers from old to new."""
    return tuple(map(int, number.split(".")))


def read_release(paths: Iterable[Path]) -> Release:
    """Read a release with its messages.

    Args:
        paths: as for `read_jars`; kafka-clients must be among them.

    Raises:
        SchemaError: as for `read_jars`; also, if no jar names its release.
    """
    paths = list(paths)
    messages = read_jars(paths)
    number = release_number(paths)
    if number is None:
        raise SchemaError(paths[0], 0, f"no jar specifies its release in {_RELEASE_ENTRY}; the kafka-clients jar does")
    return Release(number, messages)


def release_number(paths: Iterable[Path]) -> str | None:
    """Return the release that jars belong to, without the patch; None if no jar names it.

    Args:
        paths: as for `read_jars`, which has already read them.
    """
    for jar in _jars(paths):
        with zipfile.ZipFile(jar) as archive:
            if _RELEASE_ENTRY not in archive.namelist():
                continue
            if found := _RELEASE_LINE.search(archive.read(_RELEASE_ENTRY)):
                return f"{int(found['major'])}.{int(found['minor'])}"
    return None


def read_jars(paths: Iterable[Path]) -> list[MessageSpec]:
    """Return every message that Kafka's jars define, sorted by name.

    Args:
        paths: jars, or folders with jars; in folders, only Kafka's jars are read.

    Raises:
        SchemaError: a jar cannot be read, a definition is wrong, there are no definitions, or two of them disagree; the
            error names the jar, entry, line, message and field of each problem.
    """
    problems = Problems()
    found: dict[str, MessageSpec] = {}
    paths = list(paths)
    jars: list[Path] = problems.attempt(lambda: _jars(paths), [])
    for jar in jars:
        with problems.collect():
            for entry, content in _entries(jar):
                with problems.collect():
                    message = _read(Path(f"{jar}!{entry}"), content)
                    if found.setdefault(message.name, message) != message:
                        raise SchemaError(Path(f"{jar}!{entry}"), 0, f"{message.name} has two different definitions")
    problems.check()
    if not found:
        raise SchemaError(paths[0] if paths else Path(), 0, "no message definitions")
    return sorted(_with_records(found), key=lambda message: message.name)


def _with_records(found: Mapping[str, MessageSpec]) -> Iterator[MessageSpec]:
    """Yield the messages, with the keys and values of internal topics defined as in releases from 4.1 on.

    Older releases declare them as `data` and state the record type as the version of the key. OffsetCommitKey, the only
    key with two types, gets the newer one.
    """
    for name, message in found.items():
        stem = name.removesuffix("Key").removesuffix("Value")
        key = found.get(f"{stem}Key")
        if message.kind != "data" or stem == name or key is None or f"{stem}Value" not in found:
            yield message
        elif message is key:
            fields = tuple(replace(field, versions=ALL) for field in key.fields)
            yield replace(key, kind="coordinator-key", key=key.versions.last, versions=Versions(0, 0), fields=fields)
        else:
            yield replace(message, kind="coordinator-value", key=key.versions.last)


def _jars(paths: Iterable[Path]) -> list[Path]:
    found = []
    for path in paths:
        if path.is_dir():
            found += sorted(path.glob("kafka*.jar"))
        elif path.is_file():
            found.append(path)
        else:
            raise SchemaError(path, 0, "no such jar or folder")
    return found


def _entries(jar: Path) -> Iterator[tuple[str, bytes]]:
    try:
        with zipfile.ZipFile(jar) as archive:
            for name in sorted(archive.namelist()):
                if name.startswith(_FOLDERS) and name.endswith(".json"):
                    with archive.open(name) as file:
                        yield name, file.read(FILE_BYTES_MAX + 1)
    except (zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError, EOFError, OSError) as error:
        raise SchemaError(jar, 0, f"not a readable jar: {error}") from error


def _read(path: Path, content: bytes) -> MessageSpec:
    text = _TEXT_OR_COMMENT.sub(_without_comment, content.decode(errors="surrogateescape"))
    # Like Kafka's generator, read only the first value, and use the last one of a repeated key: 2.8 has an extra
    # bracket, and 3.9 a repeated key.
    source = next(parse(path, text.encode(errors="surrogateescape"), repeated_keys=True), None)
    if source is None:
        raise SchemaError(path, 0, "empty file")
    message = _message(source)
    problems = Problems()
    problems.add(*problems_of(path, message))
    problems.check()
    return message


def _without_comment(match: re.Match[str]) -> str:
    """Return a match unchanged if it is text; for a comment, return only its line breaks."""
    return match[1] or "\n" * match[0].count("\n")


def _message(source: Located) -> MessageSpec:
    name: str = source.require("name", str)
    source.place = name
    if reason := type_problem(name):  # the name becomes a file name
        raise source.error(reason, "name")
    problems = Problems()
    attempt = problems.attempt
    structs: list[Located] = attempt(lambda: source.mappings("commonStructs"), [])
    message = MessageSpec(
        name=name,
        kind=attempt(lambda: _kind(source), "data"),
        key=attempt(lambda: _number(source, "apiKey"), None),
        versions=attempt(lambda: _versions(source, "validVersions", None), NONE),
        flexible=attempt(lambda: _versions(source, "flexibleVersions", NONE), NONE),
        deprecated=attempt(lambda: _versions(source, "deprecatedVersions", NONE), NONE),
        unstable=attempt(lambda: _flag(source, "latestVersionUnstable"), False),
        listeners=attempt(lambda: _listeners(source), ()),
        structs=tuple(attempt(lambda: list(map(_struct, structs)), [])),
        fields=attempt(lambda: _fields(source, name), ()),
        line=source.line,
    )
    problems.check()
    return _without_unused(message)


def _kind(source: Located) -> str:
    kind: str = source.require("type", str)
    if kind not in _KINDS:
        raise source.error(f"type: unknown type {kind!r}; expected one of {', '.join(_KINDS)}", "type")
    return kind


def _listeners(source: Located) -> tuple[str, ...]:
    names = [str(name) for name in source.optional("listeners", (list, type(None)), None) or ()]
    return tuple(dict.fromkeys(_LISTENERS.get(name, name) for name in names))


def _struct(source: Located) -> StructSpec:
    name: str = source.require("name", str)
    return StructSpec(name, _versions(source, "versions", None), _fields(source, name), line=source.line)


def _without_unused(message: MessageSpec) -> MessageSpec:
    """Return the message without unused shared structures; Kafka 4.1 has one."""
    used = {field.type for fields in (message.fields, *(each[1] for each in message.all_structs())) for field in fields}
    return replace(message, structs=tuple(struct for struct in message.structs if struct.name in used))


def _fields(source: Located, place: str) -> tuple[FieldSpec, ...]:
    problems = Problems()
    fields = []
    for number, item in enumerate(source.mappings("fields"), start=1):
        item.place = f"{place}: field {item.get('name', number)}"
        with problems.collect():
            fields.append(_field(item))
    problems.check()
    return tuple(fields)


def _field(source: Located) -> FieldSpec:
    name = snake_case(source.require("name", str))
    text: str = source.require("type", str)
    kind, array = text.removeprefix("[]"), text.startswith("[]")
    if reason := field_problem(name) or (kind not in PRIMITIVES and type_problem(kind)):
        raise source.error(reason)
    tagged = _versions(source, "taggedVersions", NONE)
    entity: str | None = source.optional("entityType", str, None)
    return FieldSpec(
        name=name,
        type=kind,
        array=array,
        # A field that states no versions exists in those in which it is tagged.
        versions=_versions(source, "versions", tagged),
        nullable=_versions(source, "nullableVersions", NONE),
        tag=_number(source, "tag"),
        tagged=tagged,
        flexible=_versions(source, "flexibleVersions", NONE) if "flexibleVersions" in source else None,
        default=_default(source, kind, array),
        ignorable=_flag(source, "ignorable"),
        map_key=_flag(source, "mapKey"),
        zero_copy=_flag(source, "zeroCopy"),
        entity=None if entity is None else snake_case(entity),
        fields=_fields(source, source.place) if "fields" in source else None,
        line=source.line,
    )


def _versions(source: Located, key: str, default: Versions | None) -> Versions:
    if key not in source and default is not None:
        return default
    try:
        return Versions.parse(str(source.require(key, (str, int))))
    except ValueError as error:
        raise source.error(f"{key}: {error}", key) from error


def _number(source: Located, key: str) -> int | None:
    """Return a number, even if a release writes it as text; None if it is missing."""
    value = source.optional(key, (int, str, type(None)), None)
    try:
        return None if value is None else int(value)
    except ValueError as error:
        raise source.error(f"{key}: expected an integer, got {value!r}", key) from error


def _flag(source: Located, key: str) -> bool:
    """Return a flag, even if a release writes it as text; false if it is missing."""
    value = str(source.optional(key, (bool, str), False)).lower()
    if value not in _FLAGS:
        raise source.error(f"{key}: expected true or false, got {value!r}", key)
    return _FLAGS[value]


def _default(source: Located, kind: str, array: bool) -> Default:
    """Return a default as a value of the field's type. JSON's null means no default; the text "null" means None."""
    value = source.get("default")
    if value is None:
        return NO_DEFAULT
    if value == "null":
        return None
    text = str(value)
    try:
        if array or kind not in PRIMITIVES or kind in ("bytes", "records", "uuid"):
            if value == "":
                return NO_DEFAULT
        elif kind == "string":
            return text
        elif kind == "bool":
            return _FLAGS[text.lower()]
        else:
            return float(text) if kind == "float64" else int(text, 0)
    except (ValueError, KeyError):
        pass
    raise source.error(f"default {value!r} is not valid for a field of type {source['type']}", "default")
