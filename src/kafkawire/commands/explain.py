"""Show which bytes are which field: `kafkawire codegen explain` and `kafkawire codegen show`.

These two commands join the schemas with the codecs, which know nothing of each other. Messages of somebody's own folder
of schemas are generated and loaded on the spot.
"""

from __future__ import annotations

import difflib
import json
import sys
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from types import ModuleType
from typing import Annotated, cast

import typer

from kafkawire.codegen import SCHEMAS
from kafkawire.codegen.emit.messages import emit_messages, module_name
from kafkawire.codegen.layout import layout as schema_layout
from kafkawire.codegen.layout import walk
from kafkawire.codegen.load import load_folder
from kafkawire.codegen.located import SchemaError
from kafkawire.codegen.record_formats import load_record_formats
from kafkawire.codegen.spec import NO_DEFAULT, SchemaFile
from kafkawire.commands.explain_records import Row, explain_format, explain_records, value_text
from kafkawire.commands.terminal import errors_on_one_line, print_line, print_table
from kafkawire.sdk.errors import DecodeError, KafkaWireError
from kafkawire.sdk.protocol.engines.construct import construct_text, trace
from kafkawire.sdk.protocol.engines.constructs import Span
from kafkawire.sdk.protocol.engines.python_text import python_text
from kafkawire.sdk.protocol.json_form import to_json
from kafkawire.sdk.protocol.layout import layout
from kafkawire.sdk.protocol.programs import message_class
from kafkawire.sdk.protocol.schema import Message
from kafkawire.sdk.records import walk_headers

__all__ = ["Form", "Row", "explain", "explain_batch", "explain_message", "load_message", "show"]

#: Bytes shown of one value in a terminal.
_BYTES_SHOWN = 16


def load_message(name: str, schemas: Path = SCHEMAS) -> type[Message]:
    """Return the class of a message.

    Args:
        name: its name, such as `FetchRequest`.
        schemas: kafkawire's own schemas, or another folder, whose classes are then made here and now.

    Raises:
        SchemaError: a schema is wrong, or has no such message.
        LocalProtocolError: kafkawire has no such message.
    """
    if schemas == SCHEMAS:
        return message_class(name)
    path, file = _find(name, schemas)
    module = ModuleType(f"{__name__}.{module_name(path)}")
    exec(compile(emit_messages(path, file, ""), str(schemas / path), "exec"), module.__dict__)
    return cast("type[Message]", getattr(module, name))


def _find(name: str, schemas: Path) -> tuple[Path, SchemaFile]:
    """Return the file of a message."""
    files = {message.name: (path, file) for path, file in load_folder(schemas).items() for message in file.messages}
    if name not in files:
        near = difflib.get_close_matches(name, files, n=1)
        raise SchemaError(schemas, 0, f"no message is named {name!r}" + (f"; is it {near[0]}?" if near else ""))
    return files[name]


def explain_message(
    cls: type[Message], version: int, data: bytes, deep: bool = False
) -> tuple[list[Row], DecodeError | None]:
    """Return what each byte of a message is.

    Args:
        cls: the message.
        version: one of its versions.
        data: its encoding; bytes after it are shown as such.
        deep: whether record batches inside it are explained, too.

    Returns:
        The rows, and the error if the bytes end or are wrong before the message is complete.

    Raises:
        UnsupportedVersion: the message does not exist in this version.
    """
    spans, error = trace(layout(cls, version), data)
    rows = [_row(data, span) for span in spans]
    rest = _rest(data, rows, error)
    return (list(_with_records(data, spans)) if deep else rows) + rest, error


def explain_batch(segment: Path, number: int) -> list[Row]:
    """Return what each byte of one batch of a log segment is.

    Args:
        segment: a `.log` file of a partition.
        number: of the batch in the file, from 0.

    Raises:
        DecodeError: the file is no segment, or the batch is damaged.
        ValueError: the file has fewer batches.
    """
    rows, error = explain_records(load_record_formats(SCHEMAS), _batch_of(segment, number))
    if error is not None:
        raise error
    return rows


def _batch_of(segment: Path, number: int) -> bytes:
    """Return the bytes of a batch, found by the headers of those before it."""
    data = segment.read_bytes()
    for index, batch in enumerate(walk_headers(data)):
        if index == number:
            return data[batch.position : batch.position + batch.size_in_bytes]
    raise ValueError(f"{segment} has no batch {number}; batches count from 0")


def _row(data: bytes, span: Span) -> Row:
    return Row(span.offset, data[span.offset : span.offset + span.length], span.path, value_text(span.value))


def _rest(data: bytes, rows: list[Row], error: DecodeError | None) -> list[Row]:
    """Return a row for the bytes that no other row covers."""
    end = max((row.offset + len(row.data) for row in rows if not row.region), default=0)
    return [Row(end, data[end:], "", "not read" if error else "behind the message")] if end < len(data) else []


def _with_records(data: bytes, spans: list[Span]) -> Iterator[Row]:
    """Yield the rows of a message, each value of type `records` followed by the batches inside it."""
    formats = load_record_formats(SCHEMAS)
    for span in spans:
        yield _row(data, span)
        if isinstance(span.value, memoryview):
            start = span.offset + span.length - len(span.value)
            rows, error = explain_records(formats, bytes(span.value), span.path)
            yield from (row if row.region else row._replace(offset=row.offset + start) for row in rows)
            if error is not None:
                yield Row(start + error.offset, b"", error.path, f"error: {error.reason}")


_OwnSchemas = Annotated[Path, typer.Option("--schemas", help="Folder of schemas.", show_default="kafkawire's own")]


def explain(
    message: Annotated[str, typer.Argument(help="Name of a message or record format, as FetchRequest or RecordBatch.")],
    version: Annotated[int, typer.Argument(help="Its version; the magic number of a record format.")],
    data: Annotated[
        str, typer.Argument(metavar="[HEX]", help="Hexadecimal bytes; - reads them from stdin, @FILE raw bytes.")
    ] = "",
    schemas: _OwnSchemas = SCHEMAS,
    deep: Annotated[bool, typer.Option("--deep", help="Explain the record batches inside a message, too.")] = False,
    file: Annotated[Path | None, typer.Option("--file", help="A log segment to take a batch from.")] = None,
    batch: Annotated[int, typer.Option("--batch", help="The number of that batch, from 0.")] = 0,
) -> None:
    """Show what each byte is: offset, bytes, field, value."""
    with errors_on_one_line(KafkaWireError, ValueError):
        if (file is None) == (data == ""):
            raise ValueError("give either HEX or --file")
        content = _read(data) if file is None else _batch_of(file, batch)
        rows, error = _explain(message, version, content, schemas, deep)
    print_table(("OFFSET", "BYTES", "FIELD", "VALUE"), [_cells(row) for row in rows])
    if error is not None:
        print_line(f"error: {error}", "bold red")
        raise typer.Exit(1)


def _explain(name: str, version: int, data: bytes, schemas: Path, deep: bool) -> tuple[list[Row], DecodeError | None]:
    formats = load_record_formats(SCHEMAS)
    if name in formats:
        magic = formats[name].magic
        if magic not in (None, version):
            raise ValueError(f"{name} has magic {magic}, not {version}")
        rows, error = explain_format(formats, name, data) if magic is None else explain_records(formats, data)
        return rows + _rest(data, rows, error), error
    cls = load_message(name, schemas)
    _note_removal(cls, version)
    return explain_message(cls, version, data, deep)


def _note_removal(cls: type[Message], version: int) -> None:
    """Say on standard error which release removed a version, if one did; the output itself stays as it is."""
    if release := cls.SCHEMA.removed_in(version):
        typer.echo(f"{cls.SCHEMA.name} version {version} was removed in release {release}", err=True)


def _read(argument: str) -> bytes:
    """Return the bytes that an argument means.

    Raises:
        ValueError: it is not hexadecimal.
    """
    if argument.startswith("@"):
        return Path(argument[1:]).read_bytes()
    text = sys.stdin.read() if argument == "-" else argument
    return bytes.fromhex("".join(text.split()))


def _cells(row: Row) -> tuple[str, ...]:
    more = " …" if len(row.data) > _BYTES_SHOWN else ""
    place = f"{row.region}+{row.offset}" if row.region else str(row.offset)
    return place, f"{row.data[:_BYTES_SHOWN].hex(' ')}{more}", row.path, row.value


class Form(StrEnum):
    """How `show` shows a message."""

    LAYOUT = "layout"
    CONSTRUCT = "construct"
    PYTHON = "python"
    JSON = "json"


def show(
    message: Annotated[str, typer.Argument(help="Name of a message, as FetchRequest.")],
    version: Annotated[int, typer.Argument(help="Its version.")],
    form: Annotated[
        Form,
        typer.Option(help="Fields; the declarative construct; the Python text of the codec; a message of defaults."),
    ] = Form.LAYOUT,
    schemas: _OwnSchemas = SCHEMAS,
) -> None:
    """Show what a message holds in one version."""
    with errors_on_one_line(KafkaWireError, ValueError):
        if form is Form.LAYOUT:
            rows = list(_layout_rows(message, version, schemas))
            _note_removal(load_message(message, schemas), version)
            print_table(("FIELD", "TYPE", "TAG", "DEFAULT", "ABOUT"), rows)
            return
        cls = load_message(message, schemas)
        _note_removal(cls, version)
        match form:
            case Form.CONSTRUCT:
                text = construct_text(layout(cls, version))
            case Form.PYTHON:
                text = python_text(layout(cls, version))
            case _:
                text = json.dumps(to_json(cls(), version), indent=2)
    print_line(text.rstrip())


def _layout_rows(name: str, version: int, schemas: Path) -> Iterator[tuple[str, ...]]:
    _path, file = _find(name, schemas)
    message = next(message for message in file.messages if message.name == name)
    for path, entry in walk(schema_layout(message, version)):
        default = entry.field.default
        yield (
            f"{'  ' * (len(path) - 1)}{path[-1]}",
            entry.type,
            "" if entry.tag is None else str(entry.tag),
            "" if default is NO_DEFAULT else json.dumps(default),
            entry.field.about,
        )
