"""Write the protocol reference: static pages with every message, version and field, the error codes, and enumerations.

Like the generated code, the pages are a tree of texts, which is reproducible and can be tested without a folder. They
need no scripts, since layouts collapse using `details`. This module selects the facts and words them; `templates/`
contains the HTML.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

from kafkawire.codegen.emit.pages import rendered
from kafkawire.codegen.evolution import field_changes
from kafkawire.codegen.layout import Entry, layout, walk
from kafkawire.codegen.record_formats import Bits, RecordField, RecordFormat
from kafkawire.codegen.spec import NO_DEFAULT, ApiFile, FieldSpec, MessageSpec, RecordFile, SchemaFile, SingleFile
from kafkawire.codegen.tables import Constant, Enumeration, ErrorSpec
from kafkawire.codegen.versions import Versions

__all__ = ["reference_tree"]

_STYLE = Path(__file__).with_name("reference.css")

#: Titles for the folders of schemas, in index order; APIs come before them, in a table of their own.
_FOLDERS = {
    "headers.yaml": "Headers",
    "groups": "Consumer protocol",
    "coordinator/consumer_offsets": "Records of __consumer_offsets",
    "coordinator/transaction_state": "Records of __transaction_state",
    "coordinator/share_group_state": "Records of __share_group_state",
    "cluster_metadata": "Records of __cluster_metadata",
    "remote_log_metadata": "Records of __remote_log_metadata",
    "records/control": "Control records",
    "storage": "Files on a broker's disk",
}

_SIZES = {
    "bool": "1 byte",
    "int8": "1 byte",
    "int16": "2 bytes",
    "uint16": "2 bytes",
    "int32": "4 bytes",
    "uint32": "4 bytes",
    "int64": "8 bytes",
    "float64": "8 bytes",
    "uuid": "16 bytes",
}


class _Api(NamedTuple):
    """A row of the table of APIs; `versions` is empty if no version is left."""

    key: int
    name: str
    page: str
    versions: str
    removed: str
    flexible: str
    listeners: str
    about: str


class _Section(NamedTuple):
    """The messages in a folder that do not belong to an API, each with the path of its page."""

    title: str
    messages: list[tuple[str, MessageSpec]]


class _Field(NamedTuple):
    """A field of a message; `versions` is empty if no version is left, and `default` is None if there is none."""

    depth: int
    name: str
    type: str
    versions: str
    default: str | None
    about: str
    chips: list[str]


class _Change(NamedTuple):
    """The changes since the previous version: for each, the name of a field (or nothing), and what changed."""

    version: int
    fields: list[tuple[str, str]]
    removed_in: str | None


class _LayoutField(NamedTuple):
    """A field and a description of its bytes."""

    depth: int
    name: str
    type: str
    encoding: str


class _Layout(NamedTuple):
    """The fields of consecutive versions that have the same bytes."""

    id: str
    title: str
    about: str
    fields: list[_LayoutField]


class _Message(NamedTuple):
    """What a schema file's page shows about one message."""

    name: str
    about: str
    facts: list[str]
    fields: list[_Field]
    changes: list[_Change]
    layouts: list[_Layout]


class _RecordField(NamedTuple):
    """A field of a record format or, at depth 1, named bits of the field above it."""

    offset: str
    depth: int
    name: str
    type: str
    about: str
    chips: list[str]


def reference_tree(
    files: Mapping[Path, SchemaFile],
    errors: Iterable[ErrorSpec] = (),
    enumerations: Iterable[Enumeration] = (),
    constants: Iterable[Constant] = (),
    formats: Iterable[RecordFormat] = (),
) -> dict[Path, str]:
    """Return the pages of the reference, keyed by path.

    Args:
        files: the schema files, keyed by path relative to their folder.
        errors: the error codes.
        enumerations: numbers with names.
        constants: values with names.
        formats: the record formats.
    """
    tree = {
        Path("index.html"): _index(files),
        Path("errors.html"): rendered(
            "errors.html.jinja", title="Error codes", root="", errors=[(error, _error_chips(error)) for error in errors]
        ),
        Path("enumerations.html"): rendered(
            "enumerations.html.jinja",
            title="Enumerations",
            root="",
            enumerations=enumerations,
            constants=[(constant, json.dumps(constant.value)) for constant in constants],
        ),
        Path("records.html"): rendered(
            "records.html.jinja",
            title="Record formats",
            root="",
            formats=[(item, list(_record_fields(item))) for item in formats],
        ),
        Path("reference.css"): _STYLE.read_text(encoding="utf-8"),
    }
    for path, file in files.items():
        tree[path.with_suffix(".html")] = _file_page(path, file)
    return dict(sorted(tree.items()))


def _index(files: Mapping[Path, SchemaFile]) -> str:
    apis = [_api(path, file) for path, file in files.items() if isinstance(file, ApiFile)]
    others = {path: file for path, file in files.items() if not isinstance(file, ApiFile)}
    sections = [
        _Section(title, [(_page_of(path), message) for path in paths for message in files[path].messages])
        for title, paths in _sections(others)
    ]
    apis.sort(key=lambda api: api.key)
    return rendered("index.html.jinja", title="The protocol", root="", apis=apis, sections=sections)


def _api(path: Path, file: ApiFile) -> _Api:
    request = file.request
    removed = "; ".join(f"{each.versions} removed in {each.release}" for each in request.removed)
    return _Api(
        key=request.key or 0,
        name=file.name,
        page=_page_of(path),
        versions=str(request.versions) if request.versions else "",
        removed=removed if removed or request.versions else "removed",
        flexible=str(request.flexible & request.known),
        listeners=", ".join(request.listeners),
        about=file.about,
    )


def _page_of(path: Path) -> str:
    """Return the path of a schema file's page, from the top of the site."""
    return path.with_suffix(".html").as_posix()


def _sections(files: Mapping[Path, SchemaFile]) -> Iterator[tuple[str, list[Path]]]:
    """Yield the title of each section and its files; folders without a title come last."""

    def folder(path: Path) -> str:
        return path.as_posix() if len(path.parts) == 1 else path.parent.as_posix()

    found = {name: list(paths) for name, paths in groupby(sorted(files, key=folder), key=folder)}
    for name, title in _FOLDERS.items():
        if name in found:
            yield title, found.pop(name)
    yield from found.items()


def _file_page(path: Path, file: SchemaFile) -> str:
    facts: list[str] = []
    match file:
        case ApiFile():
            title = file.name
            facts = [f"API key {file.request.key}", *(f"accepted by the {name}" for name in file.request.listeners)]
            facts += ["the newest version may still change"] if file.request.unstable else []
        case RecordFile():
            title = file.name
            facts = [f"record of {file.topic}", f"type {file.key.key}"]
        case SingleFile():
            title = ", ".join(message.name for message in file.messages)
    about = "" if isinstance(file, SingleFile) else file.about
    return rendered(
        "schema.html.jinja",
        title=title,
        root="../" * (len(path.parts) - 1),
        about=about,
        facts=facts,
        messages=[_message(message) for message in file.messages],
    )


def _message(message: MessageSpec) -> _Message:
    return _Message(
        name=message.name,
        about=message.about,
        facts=list(_facts(message)),
        fields=list(_fields(message, message.fields, message.known, depth=0)),
        changes=list(_changes(message)),
        layouts=list(_layouts(message)) if message.fields else [],
    )


def _facts(message: MessageSpec) -> Iterator[str]:
    yield f"versions {message.versions}" if message.versions else "no version is left"
    for each in message.removed:
        yield f"{each.versions} removed in {each.release}"
    if message.flexible & message.known:
        yield f"flexible in {message.flexible & message.known}"
    if message.deprecated:
        yield f"deprecated: {message.deprecated}"
    if message.kind == "metadata":
        yield f"record type {message.key}"


def _fields(message: MessageSpec, fields: tuple[FieldSpec, ...], parent: Versions, *, depth: int) -> Iterator[_Field]:
    for field in fields:
        present = field.versions & parent
        everywhere = bool(field.nullable) and present <= field.nullable
        yield _Field(
            depth=depth,
            name=field.name,
            type=f"{'[]' if field.array else ''}{field.type}{'?' if everywhere else ''}",
            versions=str(present) if present else "",
            default=None if field.default is NO_DEFAULT else json.dumps(field.default, ensure_ascii=False),
            about=field.about,
            chips=list(_chips(field, parent)),
        )
        if field.fields is not None:
            yield from _fields(message, field.fields, present, depth=depth + 1)
        elif any(struct.name == field.type for struct in message.structs):
            yield from _fields(message, message.struct_fields(field.type), present, depth=depth + 1)


def _chips(field: FieldSpec, parent: Versions) -> Iterator[str]:
    present = field.versions & parent
    if field.tag is not None:
        tagged = field.tagged & parent
        yield f"tag {field.tag}" if tagged == present else f"tag {field.tag} in {tagged}"
    if field.nullable and not present <= field.nullable:
        yield f"may be null in {field.nullable & present}"
    if field.flexible is not None:
        yield "classic length"
    if field.ignorable:
        yield "ignorable"
    if field.map_key:
        yield "key"
    if field.entity:
        yield field.entity.replace("_", " ")


def _changes(message: MessageSpec) -> Iterator[_Change]:
    for version in list(message.known)[1:]:
        yield _Change(version, list(field_changes(message, version)), message.removed_in(version))


def _layouts(message: MessageSpec) -> Iterator[_Layout]:
    """Yield a layout for each range of versions that are encoded to the same bytes."""

    def key(version: int) -> tuple[object, ...]:
        """Return what the versions of one layout have in common: their bytes, and the release that removed them."""
        return message.removed_in(version), *map(_wire, walk(layout(message, version)))

    for (release, *_wires), group in groupby(message.known, key=key):
        run = list(group)
        span = Versions(run[0], run[-1])
        flexible = run[0] in message.flexible
        fields = [
            _LayoutField(len(path) - 1, path[-1], entry.type, _encoding(entry, flexible))
            for path, entry in walk(layout(message, run[0]))
        ]
        encoding = "flexible" if flexible else "classic"
        count = "1 field" if len(fields) == 1 else f"{len(fields)} fields"
        yield _Layout(
            id=f"{message.name}-{run[0]}",
            title=f"Version {span}" if len(run) == 1 else f"Versions {span}",
            about=f"{encoding}, {count}" + (f", removed in {release}" if release else ""),
            fields=fields,
        )


def _wire(item: tuple[tuple[str, ...], Entry]) -> tuple[object, ...]:
    path, entry = item
    return path, entry.type, entry.tag, entry.compact


def _encoding(entry: Entry, flexible: bool) -> str:
    """Return a description of the encoding of a field."""
    place = "" if entry.tag is None else f"tagged field {entry.tag}: "
    if entry.field.array:
        count = "varint of count + 1, 0 for null" if entry.nullable else "varint of count + 1"
        classic = "int32 count, -1 for null" if entry.nullable else "int32 count"
        return f"{place}{count if entry.compact else classic}, then the elements"
    if entry.is_structure:
        null = ""
        if entry.nullable:
            null = "varint, 0 for null, then " if entry.tag is not None else "int8, -1 for null, then "
        return f"{place}{null}its fields{' and tagged fields' if flexible else ''}"
    if entry.field.type in _SIZES:
        return place + _SIZES[entry.field.type]
    number = "int16" if entry.field.type == "string" else "int32"
    length = "varint of length + 1" if entry.compact else f"{number} length"
    null = f", {0 if entry.compact else -1} for null" if entry.nullable else ""
    return f"{place}{length}{null}, then {'UTF-8' if entry.field.type == 'string' else 'the bytes'}"


def _error_chips(error: ErrorSpec) -> list[str]:
    return [name.replace("_", " ") for name in ("retriable", "invalid_metadata", "fatal") if getattr(error, name)]


def _record_fields(item: RecordFormat) -> Iterator[_RecordField]:
    for field in item.fields:
        offset = "" if field.offset is None else str(field.offset)
        yield _RecordField(offset, 0, field.name, field.notation, field.about, list(_record_chips(field)))
        for bits in field.bits:
            values = [f"{number} {value}" for number, value in enumerate(bits.values)]
            yield _RecordField("", 1, bits.name, _bit_range(bits), bits.about, values)


def _record_chips(field: RecordField) -> Iterator[str]:
    if field.const is not None:
        yield f"always {field.const}"
    if field.default is not None:
        yield f"default {field.default}"
    if field.measures is not None:
        yield f"counts the bytes from {field.measures} to the end"
    if field.checksum is not None:
        yield f"{field.checksum} of {field.covers} to the end"
    if field.length is not None:
        yield f"{field.length} length"
    if field.count is not None:
        yield f"count: {field.count}"
    if field.compressed_by is not None:
        yield f"compressed as {field.compressed_by} says"


def _bit_range(bits: Bits) -> str:
    return f"bit {bits.low}" if bits.low == bits.high else f"bits {bits.low} to {bits.high}"
