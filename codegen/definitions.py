"""Read the message definitions inside a Kafka release.

Kafka's jars carry the JSON files that its own classes are generated from. Facts are taken over (names, types,
versions, tags, defaults); texts are not: descriptions are written by this project and live in `schemas/` alone.

Source: `common/message/*.json` in kafka-clients and the like in Kafka's coordinator, metadata, raft and storage jars.
"""

from __future__ import annotations

import json
import re
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from kafkawire.codegen.spec import (
    NO_DEFAULT,
    PRIMITIVES,
    Default,
    FieldSpec,
    MessageSpec,
    StructSpec,
    snake_case,
)
from kafkawire.codegen.versions import Versions

__all__ = ["DefinitionError", "read_jars"]

_FOLDERS = ("common/message/", "common/metadata/", "message/")


class DefinitionError(Exception):
    """A definition inside a jar is not what this release of kafkawire understands."""


def read_jars(paths: Iterable[Path]) -> list[MessageSpec]:
    """Return every message that is defined in Kafka's jars.

    Args:
        paths: jars, or folders with jars; others than Kafka's are passed over.

    Raises:
        DefinitionError: a definition cannot be understood, no definition was found, or two disagree; names jar and
        entry.
    """
    found: dict[str, MessageSpec] = {}
    for jar in _jars(paths):
        for entry, text in _entries(jar):
            where = f"{jar.name}!{entry}"
            try:
                message = _message(json.loads(re.sub(r"^\s*//.*$", "", text, flags=re.MULTILINE)))
            except (ValueError, KeyError, TypeError) as error:
                raise DefinitionError(f"{where}: {type(error).__name__}: {error}") from error
            if found.setdefault(message.name, message) != message:
                raise DefinitionError(f"{where}: {message.name} is defined twice, and differently")
    if not found:
        raise DefinitionError(f"no message definitions in {', '.join(map(str, paths)) or 'nothing'}")
    return sorted(found.values(), key=lambda message: message.name)


def _jars(paths: Iterable[Path]) -> Iterator[Path]:
    for path in paths:
        if path.is_dir():
            yield from sorted(path.glob("kafka-*.jar"))
        elif path.is_file():
            yield path
        else:
            raise DefinitionError(f"{path}: no such jar or folder")


def _entries(jar: Path) -> Iterator[tuple[str, str]]:
    try:
        with zipfile.ZipFile(jar) as archive:
            for name in sorted(archive.namelist()):
                if name.startswith(_FOLDERS) and name.endswith(".json"):
                    yield name, archive.read(name).decode()
    except zipfile.BadZipFile as error:
        raise DefinitionError(f"{jar}: not a jar: {error}") from error


def _message(source: dict[str, Any]) -> MessageSpec:
    listeners = source.get("listeners") or ()
    return MessageSpec(
        name=source["name"],
        kind=source["type"],
        key=source.get("apiKey"),
        versions=Versions.parse(source["validVersions"]),
        flexible=Versions.parse(source.get("flexibleVersions", "none")),
        deprecated=Versions.parse(source.get("deprecatedVersions", "none")),
        unstable=bool(source.get("latestVersionUnstable", False)),
        listeners=tuple(listeners),
        structs=tuple(_used_structs(source)),
        fields=_fields(source.get("fields", ())),
    )


def _used_structs(source: dict[str, Any]) -> Iterator[StructSpec]:
    """Yield the shared structures, without those that a release left behind unused (4.1 has one)."""
    used = set(re.findall(r'"type": "(?:\[\])?(\w+)"', json.dumps(source)))
    for struct in source.get("commonStructs", ()):
        if struct["name"] in used:
            yield StructSpec(struct["name"], Versions.parse(struct["versions"]), _fields(struct["fields"]))


def _fields(source: Iterable[dict[str, Any]]) -> tuple[FieldSpec, ...]:
    return tuple(map(_field, source))


def _field(source: dict[str, Any]) -> FieldSpec:
    array = source["type"].startswith("[]")
    kind = source["type"].removeprefix("[]")
    tagged = Versions.parse(source.get("taggedVersions", "none"))
    # A field without versions of its own exists where it is tagged.
    versions = Versions.parse(source["versions"]) if "versions" in source else tagged
    flexible = source.get("flexibleVersions")
    entity = source.get("entityType")
    return FieldSpec(
        name=snake_case(source["name"]),
        type=kind,
        array=array,
        versions=versions,
        nullable=Versions.parse(source.get("nullableVersions", "none")),
        tag=source.get("tag"),
        tagged=tagged,
        flexible=None if flexible is None else Versions.parse(flexible),
        default=_default(source.get("default"), kind, array),
        ignorable=bool(source.get("ignorable", False)),
        map_key=bool(source.get("mapKey", False)),
        zero_copy=bool(source.get("zeroCopy", False)),
        entity=None if entity is None else snake_case(entity),
        fields=_fields(source["fields"]) if "fields" in source else None,
    )


def _default(value: Any, kind: str, array: bool) -> Default:
    """Return a default as a value of the field's type; JSON's null gives none, the text "null" gives None."""
    if value is None:
        return NO_DEFAULT
    if value == "null":
        return None
    if array or kind not in PRIMITIVES or kind in ("bytes", "records", "uuid"):
        if value == "":
            return NO_DEFAULT
        raise ValueError(f"default {value!r} for a field of type {kind}")
    if kind == "string":
        return str(value)
    if kind == "bool":
        return {"true": True, "false": False}[str(value).lower()]
    return float(value) if kind == "float64" else int(str(value), 0)
