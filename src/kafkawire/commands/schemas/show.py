"""`kafkawire codegen show`: show the fields of a message or record format.

`inspection/explain.py` shows the fields in given bytes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from kafkawire.codegen import SCHEMAS
from kafkawire.codegen.layout import layout as schema_layout
from kafkawire.codegen.layout import walk
from kafkawire.codegen.load import load_folder
from kafkawire.codegen.record_formats import Bits, RecordField, RecordFormat, load_record_formats
from kafkawire.codegen.spec import NO_DEFAULT
from kafkawire.commands.inspection.explain import note_removal
from kafkawire.commands.inspection.explaining.records import formats_named
from kafkawire.commands.inspection.own_schemas import folder_of, load_message
from kafkawire.commands.terminal import errors_on_one_line, print_line, print_table
from kafkawire.sdk.errors import KafkaWireError
from kafkawire.sdk.protocol.engines.construct import construct_text
from kafkawire.sdk.protocol.engines.python_text import python_text
from kafkawire.sdk.protocol.json_form import to_json
from kafkawire.sdk.protocol.layout import layout

__all__ = ["Form", "show"]


class Form(StrEnum):
    """The form in which `show` presents a message."""

    LAYOUT = "layout"
    CONSTRUCT = "construct"
    PYTHON = "python"
    JSON = "json"


def show(
    message: Annotated[
        str, typer.Argument(help="Name of a message or record format, such as FetchRequest or RecordBatch.")
    ],
    version: Annotated[
        int | None,
        typer.Argument(help="The version of the message, by default its last; for a record format, its magic."),
    ] = None,
    form: Annotated[
        Form,
        typer.Option(
            help="What to show: fields, the declarative construct, the Python codec, or a message of default values."
        ),
    ] = Form.LAYOUT,
    schemas: Annotated[
        Path, typer.Option("--schemas", help="Folder of schemas.", show_default="kafkawire's own")
    ] = SCHEMAS,
) -> None:
    """Show the fields of a message or record format in one version."""
    with errors_on_one_line(KafkaWireError, ValueError):
        known = load_record_formats(schemas if (schemas / "records").is_dir() else SCHEMAS)
        if formats := formats_named(known, message, version):
            _show_formats(formats, form)
            return
        cls = load_message(message, schemas)
        if version is None:
            version = cls.SCHEMA.known_versions.last
        if form is Form.LAYOUT:
            rows = list(_layout_rows(message, version, folder_of(message, schemas)))
            note_removal(cls, version)
            print_table(("FIELD", "TYPE", "TAG", "DEFAULT", "ABOUT"), rows)
            return
        note_removal(cls, version)
        match form:
            case Form.CONSTRUCT:
                text = construct_text(layout(cls, version))
            case Form.PYTHON:
                text = python_text(layout(cls, version))
            case _:
                text = json.dumps(to_json(cls(), version), indent=2)
    print_line(text.rstrip())


def _layout_rows(name: str, version: int, schemas: Path) -> Iterator[tuple[str, ...]]:
    files = load_folder(schemas).values()
    message = next(message for file in files for message in file.messages if message.name == name)
    for path, entry in walk(schema_layout(message, version)):
        default = entry.field.default
        yield (
            f"{'  ' * (len(path) - 1)}{path[-1]}",
            entry.type,
            "" if entry.tag is None else str(entry.tag),
            "" if default is NO_DEFAULT else json.dumps(default),
            entry.field.about,
        )


def _show_formats(formats: list[RecordFormat], form: Form) -> None:
    if form is not Form.LAYOUT:
        raise ValueError(f"a record format can only be shown as layout, not as {form.value}")
    for each in formats:
        print_line(f"{each.name}: {each.about}")
        print_table(("FIELD", "TYPE", "AT", "DEFAULT", "ABOUT"), list(_format_rows(each)))


def _format_rows(format_: RecordFormat) -> Iterator[tuple[str, ...]]:
    for field in format_.fields:
        default = field.const if field.default is None else field.default
        yield (
            field.name,
            field.notation,
            "" if field.offset is None else str(field.offset),
            "" if default is None else str(default),
            "; ".join(_notes(field, {other.name for other in format_.fields})),
        )
        for bits in field.bits:
            about = "; ".join(filter(None, (bits.about, ", ".join(bits.values))))
            yield f"  {bits.name}", "bits", _place(bits), "", about


def _place(bits: Bits) -> str:
    return str(bits.low) if bits.low == bits.high else f"{bits.low}-{bits.high}"


def _notes(field: RecordField, others: set[str]) -> Iterator[str]:
    """Yield remarks on how a field relates to other fields in its format."""
    if field.about:
        yield field.about
    if field.const is not None:
        yield f"always {field.const}"
    if field.measures is not None:
        yield f"bytes from {field.measures} to the end"
    if field.checksum is not None:
        yield f"{field.checksum} of {field.covers} to the end"
    if field.length is not None:
        yield f"preceded by its length, {field.length}"
    if field.count is not None:
        yield f"the count is in {field.count}" if field.count in others else f"preceded by their count, {field.count}"
    if field.compressed_by is not None:
        yield f"compressed as given in {field.compressed_by}"
