"""Show how bytes and messages hang together: `kafkawire codegen explain` and `kafkawire codegen show`.

These two commands join the schemas with the codecs, which know nothing of each other; they are added to the commands of
`kafkawire.codegen` here. Messages of somebody's own folder of schemas are generated and loaded on the spot.
"""

from __future__ import annotations

import difflib
import json
import sys
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from types import ModuleType
from typing import Annotated, NamedTuple, cast

import typer

from kafkawire.codegen.cli import SCHEMAS
from kafkawire.codegen.cli import app as codegen
from kafkawire.codegen.emit.messages import emit_messages, module_name
from kafkawire.codegen.layout import layout as schema_layout
from kafkawire.codegen.layout import walk
from kafkawire.codegen.load import load_folder
from kafkawire.codegen.located import SchemaError
from kafkawire.codegen.spec import NO_DEFAULT, SchemaFile
from kafkawire.codegen.terminal import errors_on_one_line, print_line, print_table
from kafkawire.sdk.errors import DecodeError, KafkaWireError
from kafkawire.sdk.protocol.codec import message_class
from kafkawire.sdk.protocol.construct_form import construct_text, trace
from kafkawire.sdk.protocol.constructs import Span
from kafkawire.sdk.protocol.json_form import to_json
from kafkawire.sdk.protocol.layout import layout
from kafkawire.sdk.protocol.schema import Message
from kafkawire.sdk.protocol.twin import twin_text

__all__ = ["Row", "codegen", "explain_message", "load_message"]

#: Bytes and characters shown of one value; a record value of a megabyte must not flood the terminal.
_BYTES_SHOWN = 16
_VALUE_CHARACTERS = 60


class Row(NamedTuple):
    """One line of an explanation.

    Attributes:
        offset: where the bytes begin.
        data: the bytes.
        path: the field that they belong to, as `topics[0].partitions[3].index`.
        value: what they say, as text.
    """

    offset: int
    data: bytes
    path: str
    value: str


def load_message(name: str, schemas: Path = SCHEMAS) -> type[Message]:
    """Return the class of a message.

    Args:
        name: its name, as `FetchRequest`.
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


def explain_message(cls: type[Message], version: int, data: bytes) -> tuple[list[Row], DecodeError | None]:
    """Return what each byte of a message is.

    Args:
        cls: the message.
        version: one of its versions.
        data: its encoding; bytes behind it are shown as such.

    Returns:
        The rows, and the error if the bytes end or are wrong before the message is complete.

    Raises:
        UnsupportedVersion: the message does not exist in this version.
    """
    spans, error = trace(layout(cls, version), data)
    rows = [Row(span.offset, _cut(data, span), span.path, _value_text(span.value)) for span in spans]
    return rows + _rest(data, rows, error), error


def _cut(data: bytes, span: Span) -> bytes:
    return data[span.offset : span.offset + span.length]


def _rest(data: bytes, rows: list[Row], error: DecodeError | None) -> list[Row]:
    """Return a row for the bytes that no row has."""
    end = max((row.offset + len(row.data) for row in rows), default=0)
    return [Row(end, data[end:], "", "not read" if error else "behind the message")] if end < len(data) else []


def _value_text(value: object) -> str:
    if isinstance(value, bytes | bytearray | memoryview):
        if len(value) > _VALUE_CHARACTERS:
            return f"{len(value)} bytes"
        data = bytes(value)
        return repr(data) if data.isascii() and data.decode().isprintable() else data.hex()
    text = repr(value)
    return text if len(text) <= _VALUE_CHARACTERS else f"{text[:_VALUE_CHARACTERS]}…"


@codegen.command()
def explain(
    message: Annotated[str, typer.Argument(help="Name of a message, as FetchRequest.")],
    version: Annotated[int, typer.Argument(help="Its version.")],
    data: Annotated[
        str,
        typer.Argument(metavar="HEX", help="Hexadecimal bytes; - reads them from stdin, @FILE raw bytes from a file."),
    ],
    schemas: Annotated[
        Path, typer.Option("--schemas", help="Folder of schemas.", show_default="kafkawire's own")
    ] = SCHEMAS,
) -> None:
    """Show what each byte of a message is: offset, bytes, field, value."""
    with errors_on_one_line(KafkaWireError, ValueError):
        rows, error = explain_message(load_message(message, schemas), version, _read(data))
    print_table(("OFFSET", "BYTES", "FIELD", "VALUE"), [_cells(row) for row in rows])
    if error is not None:
        print_line(f"error: {error}", "bold red")
        raise typer.Exit(1)


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
    return str(row.offset), f"{row.data[:_BYTES_SHOWN].hex(' ')}{more}", row.path, row.value


class Form(StrEnum):
    """How `show` shows a message."""

    LAYOUT = "layout"
    CONSTRUCT = "construct"
    PYTHON = "python"
    JSON = "json"


@codegen.command()
def show(
    message: Annotated[str, typer.Argument(help="Name of a message, as FetchRequest.")],
    version: Annotated[int, typer.Argument(help="Its version.")],
    form: Annotated[
        Form,
        typer.Option(help="Fields; the declarative construct; the Python text of the codec; a message of defaults."),
    ] = Form.LAYOUT,
    schemas: Annotated[
        Path, typer.Option("--schemas", help="Folder of schemas.", show_default="kafkawire's own")
    ] = SCHEMAS,
) -> None:
    """Show what a message holds in one version."""
    with errors_on_one_line(KafkaWireError, ValueError):
        if form is Form.LAYOUT:
            print_table(("FIELD", "TYPE", "TAG", "DEFAULT", "ABOUT"), list(_layout_rows(message, version, schemas)))
            return
        cls = load_message(message, schemas)
        match form:
            case Form.CONSTRUCT:
                text = construct_text(layout(cls, version))
            case Form.PYTHON:
                text = twin_text(layout(cls, version))
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
