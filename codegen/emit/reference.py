"""Write the protocol reference: static pages with every message, version and field, the error codes and enumerations.

Like the generated code, the pages are a tree of texts, reproducible and testable without a folder. They need no script:
layouts fold with `details`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from pathlib import Path

from kafkawire.codegen.emit.html import Content, Html, element, page, table
from kafkawire.codegen.evolution import field_changes
from kafkawire.codegen.layout import Entry, layout, walk
from kafkawire.codegen.record_formats import Bits, RecordField, RecordFormat
from kafkawire.codegen.spec import NO_DEFAULT, ApiFile, FieldSpec, MessageSpec, RecordFile, SchemaFile, SingleFile
from kafkawire.codegen.tables import Constant, Enumeration, ErrorSpec
from kafkawire.codegen.versions import Versions

__all__ = ["reference_tree"]

_STYLE = Path(__file__).with_name("reference.css")

#: Titles of the folders of schemas, in the order of the index; APIs come before them, in their own table.
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


def reference_tree(
    files: Mapping[Path, SchemaFile],
    errors: Iterable[ErrorSpec] = (),
    enumerations: Iterable[Enumeration] = (),
    constants: Iterable[Constant] = (),
    formats: Iterable[RecordFormat] = (),
) -> dict[Path, str]:
    """Return the pages of the reference, by path.

    Args:
        files: the schema files, by path relative to their folder.
        errors: the error codes.
        enumerations: numbers with names.
        constants: values with names.
        formats: the formats of the log.
    """
    tree = {
        Path("index.html"): _index(files),
        Path("errors.html"): _errors(errors),
        Path("enumerations.html"): _enumerations(enumerations, constants),
        Path("records.html"): _record_formats(formats),
        Path("reference.css"): _STYLE.read_text(encoding="utf-8"),
    }
    for path, file in files.items():
        tree[path.with_suffix(".html")] = _file_page(path, file)
    return dict(sorted(tree.items()))


def _index(files: Mapping[Path, SchemaFile]) -> str:
    apis = sorted(
        ((file.request.key or 0, path, file) for path, file in files.items() if isinstance(file, ApiFile)),
        key=lambda entry: entry[0],
    )
    rows: list[list[Content]] = [
        [
            str(key),
            element("a", file.name, href=path.with_suffix(".html").as_posix()),
            _versions(file.request),
            str(file.request.flexible & file.request.known),
            ", ".join(file.request.listeners),
            file.about,
        ]
        for key, path, file in apis
    ]
    content: list[Content] = [
        element("h1", "The protocol"),
        element("p", "Every message of Apache Kafka, in every version, field by field.", class_="lead"),
        element("h2", "APIs", id="apis"),
        table(("Key", "API", "Versions", "Flexible", "Accepted by", "What it is for"), rows, class_="number"),
    ]
    others = {path: file for path, file in files.items() if not isinstance(file, ApiFile)}
    for title, paths in _sections(others):
        links = [
            element(
                "li",
                element("a", message.name, href=f"{path.with_suffix('.html').as_posix()}#{message.name}"),
                "" if message.key is None else Html(f" {element('span', f'type {message.key}', class_='chip')}"),
            )
            for path in paths
            for message in files[path].messages
        ]
        content += [element("h2", title), element("ul", *links, class_="columns")]
    return page("The protocol", "", *content)


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
    content: list[Content] = [
        element("h1", title),
        element("p", about, class_="lead") if about else "",
        element("ul", *(element("li", fact) for fact in facts), class_="facts") if facts else "",
    ]
    for message in file.messages:
        content += _message(message)
    return page(title, "../" * (len(path.parts) - 1), *content)


def _message(message: MessageSpec) -> Iterator[Content]:
    yield element("h2", element("a", message.name, href=f"#{message.name}"), id=message.name)
    if message.about:
        yield element("p", message.about)
    facts = [f"versions {message.versions}" if message.versions else "no version is left"]
    facts += [f"{each.versions} removed in {each.release}" for each in message.removed]
    if message.flexible & message.known:
        facts.append(f"flexible in {message.flexible & message.known}")
    if message.deprecated:
        facts.append(f"deprecated: {message.deprecated}")
    if message.kind == "metadata":
        facts.append(f"record type {message.key}")
    yield element("ul", *(element("li", fact) for fact in facts), class_="facts")
    if message.fields:
        yield element("h3", "Fields")
        columns = ("Field", "Type", "Versions", "Default", "Description")
        yield table(columns, _field_rows(message, message.fields, message.known, ()))
    changes = list(_changes(message))
    if changes:
        yield element("h3", "Changes by version")
        yield element("ol", *changes, class_="changes")
    if message.known and message.fields:
        yield element("h3", "Layouts")
        yield from _layouts(message)


def _field_rows(
    message: MessageSpec, fields: tuple[FieldSpec, ...], parent: Versions, path: tuple[str, ...]
) -> Iterator[list[Content]]:
    for field in fields:
        here = (*path, field.name)
        present = field.versions & parent
        everywhere = bool(field.nullable) and present <= field.nullable
        kind = f"{'[]' if field.array else ''}{field.type}{'?' if everywhere else ''}"
        chips = []
        if field.tag is not None:
            tagged = field.tagged & parent
            chips.append(f"tag {field.tag}" if tagged == present else f"tag {field.tag} in {tagged}")
        if field.nullable and not everywhere:
            chips.append(f"may be null in {field.nullable & present}")
        if field.flexible is not None:
            chips.append("classic length")
        chips += ["ignorable"] if field.ignorable else []
        chips += ["key"] if field.map_key else []
        chips += [field.entity.replace("_", " ")] if field.entity else []
        yield [
            _indented(here),
            element("code", kind),
            str(present) if present else element("span", "removed", class_="quiet"),
            element("code", _default(field)) if field.default is not NO_DEFAULT else "",
            _words([field.about, *(element("span", chip, class_="chip") for chip in chips)]),
        ]
        if field.fields is not None:
            yield from _field_rows(message, field.fields, present, here)
        elif any(struct.name == field.type for struct in message.structs):
            yield from _field_rows(message, message.struct_fields(field.type), present, here)


def _words(parts: Iterable[Content]) -> Html:
    """Return the parts that are not empty, with spaces between them."""
    return Html(" ".join(element("span", part) if not isinstance(part, Html) else part for part in parts if part))


def _indented(path: tuple[str, ...]) -> Html:
    *above, name = path
    return element("code", element("span", "· " * len(above), class_="depth") if above else "", name)


def _default(field: FieldSpec) -> str:
    return json.dumps(field.default, ensure_ascii=False)


def _changes(message: MessageSpec) -> Iterator[Html]:
    for version in list(message.known)[1:]:
        found = [_change(field, what) for field, what in field_changes(message, version)]
        words = Html("; ".join(found)) or element("span", "the same bytes", class_="quiet")
        release = message.removed_in(version)
        gone = element("span", f"removed in {release}", class_="chip") if release else ""
        yield element("li", element("code", f"v{version}"), element("span", words), gone)


def _change(field: str, what: str) -> Html:
    return Html(f"{element('code', field)} {element('span', what)}") if field else element("span", what)


def _layouts(message: MessageSpec) -> Iterator[Html]:
    """Yield a folded table for each range of versions with the same bytes."""

    def key(version: int) -> tuple[object, ...]:
        """The common facts of the versions of one table: the bytes, and the release that removed them."""
        return message.removed_in(version), *map(_wire, walk(layout(message, version)))

    for (release, *_wires), group in groupby(message.known, key=key):
        run = list(group)
        span = Versions(run[0], run[-1])
        encoding = "flexible" if run[0] in message.flexible else "classic"
        rows = [
            [_indented(path), element("code", entry.type), _encoding(entry, run[0] in message.flexible)]
            for path, entry in walk(layout(message, run[0]))
        ]
        title = f"Version {span}" if len(run) == 1 else f"Versions {span}"
        facts = f"{encoding}, {len(rows)} fields" + (f", removed in {release}" if release else "")
        summary = element("summary", title, element("span", facts, class_="quiet"))
        yield element("details", summary, table(("Field", "Type", "Bytes"), rows), id=f"{message.name}-{run[0]}")


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


def _versions(message: MessageSpec) -> Content:
    """Return the current versions, and the release that removed the others."""
    removed = "; ".join(f"{each.versions} removed in {each.release}" for each in message.removed)
    if not message.versions:
        return element("span", removed or "removed", class_="quiet")
    return _words([str(message.versions), element("span", removed, class_="quiet") if removed else ""])


def _errors(errors: Iterable[ErrorSpec]) -> str:
    rows: list[list[Content]] = [
        [
            str(error.code),
            element("code", error.name, id=error.name),
            _words(
                element("span", name.replace("_", " "), class_="chip")
                for name in ("retriable", "invalid_metadata", "fatal")
                if getattr(error, name)
            ),
            error.about,
        ]
        for error in errors
    ]
    return page(
        "Error codes",
        "",
        element("h1", "Error codes"),
        element("p", "The values of fields named error_code, and what a client may do about them.", class_="lead"),
        table(("Code", "Name", "", "Meaning"), rows, class_="number"),
    )


def _enumerations(enumerations: Iterable[Enumeration], constants: Iterable[Constant]) -> str:
    content: list[Content] = [element("h1", "Enumerations")]
    for item in enumerations:
        content += [
            element("h2", item.name, id=item.name),
            element("p", f"{item.about[0].upper()}{item.about[1:]}."),
            table(("Number", "Name"), ([str(number), element("code", name)] for name, number in item.values.items())),
        ]
    rows = ([element("code", item.name), element("code", json.dumps(item.value)), item.about] for item in constants)
    content += [element("h2", "Constants", id="constants"), table(("Name", "Value", "Meaning"), rows)]
    return page("Enumerations", "", *content)


def _record_formats(formats: Iterable[RecordFormat]) -> str:
    content: list[Content] = [
        element("h1", "Record formats"),
        element("p", "The content of log segments and of the records fields of Produce and Fetch.", class_="lead"),
    ]
    for item in formats:
        content += [
            element("h2", element("a", item.name, href=f"#{item.name}"), id=item.name),
            element("p", item.about),
            element("ul", element("li", f"magic {item.magic}"), class_="facts") if item.magic is not None else "",
            table(("Offset", "Field", "Type", "Description"), _record_rows(item), class_="number"),
        ]
    return page("Record formats", "", *content)


def _record_rows(item: RecordFormat) -> Iterator[list[Content]]:
    for field in item.fields:
        chips = [element("span", text, class_="chip") for text in _record_chips(field)]
        offset = "" if field.offset is None else str(field.offset)
        yield [offset, element("code", field.name), element("code", field.notation), _words([field.about, *chips])]
        for bits in field.bits:
            yield ["", _indented((field.name, bits.name)), _bit_range(bits), _bit_values(bits)]


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


def _bit_values(bits: Bits) -> Html:
    values = [element("span", f"{number} {value}", class_="chip") for number, value in enumerate(bits.values)]
    return _words([bits.about, *values])
