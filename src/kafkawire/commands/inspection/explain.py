"""`kafkawire codegen explain`: show which bytes belong to which field.

The command combines the schemas and the codecs, which do not depend on each other. `own_schemas.py` generates and loads
the messages of a user's own folder of schemas. Frames, segments and captures have their own modules in `explaining/`.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Annotated

import typer

from kafkawire.codegen import SCHEMAS
from kafkawire.codegen.names import shown
from kafkawire.codegen.record_formats import load_record_formats
from kafkawire.commands.inspection.explaining.captures import Frame, Summary, explain_capture
from kafkawire.commands.inspection.explaining.frames import (
    Asked,
    api_named,
    asked_by,
    explain_request,
    explain_response,
)
from kafkawire.commands.inspection.explaining.record_parts import RecordPart
from kafkawire.commands.inspection.explaining.records import (
    Row,
    bounded,
    cell_text,
    explain_format,
    explain_records,
    formats_named,
)
from kafkawire.commands.inspection.explaining.segments import LogSegment, Place, explain_chosen, is_batches
from kafkawire.commands.inspection.own_schemas import apis_of, load_message
from kafkawire.commands.terminal import errors_on_one_line, print_line, print_table
from kafkawire.sdk.errors import DecodeError, KafkaWireError
from kafkawire.sdk.protocol.connection import Received
from kafkawire.sdk.protocol.engines.construct import trace
from kafkawire.sdk.protocol.engines.construct_primitives import Span
from kafkawire.sdk.protocol.frames import LENGTH_BYTES, MAX_FRAME_BYTES
from kafkawire.sdk.protocol.layout import layout
from kafkawire.sdk.protocol.observation import Unread
from kafkawire.sdk.protocol.schema import Api, Message
from kafkawire.sdk.records.stored import Damage

__all__ = [
    "HELP",
    "INPUT_BYTES_MAX",
    "Row",
    "bytes_of_text",
    "explain",
    "explain_batch",
    "explain_message",
    "note_removal",
]

#: Maximum number of bytes explained in one run: twice the size of a broker's largest frame, to leave room for bytes
#: after it.
INPUT_BYTES_MAX = 2 * MAX_FRAME_BYTES

#: The text of `--help`; a \b preserves the line breaks after it.
HELP = """Show what each byte is: offset, bytes, field, value.

\b
explain HEX                           a request, as a whole frame
explain HEX --request HEX             its response
explain HeartbeatRequest 4 HEX        a message
explain RecordBatch 2 @FILE           batches in a file
explain FILE.log --offset 1042        a record of a segment
explain FILE.log --key OffsetCommit   keys of a type
explain --pcap FILE --frame 12        a frame of a capture

`kafkawire dump` shows the content of whole segments, `kafkawire codegen show` the fields of a message.
"""

#: How many bytes of one value a terminal shows.
_BYTES_SHOWN = 16


def explain_message(
    cls: type[Message], version: int, data: bytes, deep: bool = False
) -> tuple[list[Row], DecodeError | None]:
    """Return an explanation of each byte of a message.

    Args:
        cls: the message.
        version: one of its versions.
        data: the encoded message; any bytes after it get a row of their own.
        deep: whether to explain the record batches inside it too.

    Returns:
        The rows, and the error if the bytes are wrong or end before the message is complete.

    Raises:
        UnsupportedVersion: the message does not exist in this version.
    """
    spans, error = trace(layout(cls, version), data)
    rows = bounded(_with_records(data, spans) if deep else (_row(data, span) for span in spans), data)
    return rows + _rest(data, rows, error), error


def explain_batch(segment: Path, number: int) -> list[Row]:
    """Return an explanation of each byte of one batch in a log segment.

    Args:
        segment: a `.log` file of a partition.
        number: the number of the batch in the file, from 0.

    Raises:
        DecodeError: the file is not a segment, or the batch is damaged.
        ValueError: the file has fewer batches.
    """
    with closing(LogSegment(segment)) as log:
        _, rows, error = explain_chosen(log, load_record_formats(SCHEMAS), Place(batch=number))
    if error is not None:
        raise error
    return rows


def _row(data: bytes, span: Span) -> Row:
    return Row(span.offset, data[span.offset : span.offset + span.length], span.path, cell_text(span.value))


def _rest(data: bytes, rows: list[Row], error: DecodeError | None) -> list[Row]:
    """Return a row for bytes that no other row covers."""
    end = max((row.offset + len(row.data) for row in rows if not row.region), default=0)
    return [Row(end, data[end:], "", "not read" if error else "after the message")] if end < len(data) else []


def _with_records(data: bytes, spans: list[Span]) -> Iterator[Row]:
    """Yield the rows of a message, with each value of type `records` followed by its batches."""
    formats = load_record_formats(SCHEMAS)
    for span in spans:
        yield _row(data, span)
        if isinstance(span.value, memoryview):
            start = span.offset + span.length - len(span.value)
            rows, error = explain_records(formats, bytes(span.value), span.path)
            yield from (row if row.region else row._replace(offset=row.offset + start) for row in rows)
            if error is not None:
                yield Row(start + error.offset, b"", error.path, f"error: {error.reason}")


_COLUMNS = ("OFFSET", "BYTES", "FIELD", "VALUE")

_CAPTURE, _SEGMENT, _FRAME, _MESSAGE = "a capture", "a log segment", "a frame", "a message"

#: The options that apply to each kind of input; other options are refused.
_OPTIONS = {
    _CAPTURE: ("--pcap", "--frame", "--schemas"),
    _SEGMENT: ("--file", "--batch", "--offset", "--position", "--key", "--value", "--schemas"),
    _FRAME: ("--request", "--api", "--api-version", "--schemas"),
    _MESSAGE: ("--deep", "--schemas"),
}


def explain(
    context: typer.Context,
    arguments: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[MESSAGE VERSION] [HEX]",
            help="A message or record format (such as FetchRequest or RecordBatch), its version or magic number, and "
            "its bytes; or only the bytes of a whole frame; or a log segment or snapshot. Bytes are hexadecimal, with "
            "or without 0x; @FILE reads raw bytes, - reads hexadecimal text from stdin.",
        ),
    ] = None,
    schemas: Annotated[
        Path,
        typer.Option("--schemas", help="Folder of your own schemas, read in addition to Kafka's.", show_default="none"),
    ] = SCHEMAS,
    deep: Annotated[bool, typer.Option("--deep", help="Also explain the record batches inside a message.")] = False,
    file: Annotated[Path | None, typer.Option("--file", help="The log segment to take a batch from.")] = None,
    batch: Annotated[int | None, typer.Option("--batch", help="In a segment: the number of the batch, from 0.")] = None,
    offset: Annotated[int | None, typer.Option("--offset", help="In a segment: the record with this offset.")] = None,
    position: Annotated[
        int | None,
        typer.Option("--position", min=0, help="In a segment: the data at this byte, for example after damage."),
    ] = None,
    key: Annotated[
        str | None, typer.Option("--key", help="In a segment: explain the keys of this type, such as OffsetCommitKey.")
    ] = None,
    value: Annotated[
        str | None,
        typer.Option("--value", help="In a segment: explain the values of this type, such as OffsetCommitValue."),
    ] = None,
    request: Annotated[
        str | None, typer.Option("--request", metavar="HEX", help="For a response: the request, as a whole frame.")
    ] = None,
    api: Annotated[str | None, typer.Option("--api", help="For a response: its API, by name or key.")] = None,
    api_version: Annotated[int | None, typer.Option("--api-version", help="For a response: its version.")] = None,
    pcap: Annotated[
        Path | None, typer.Option("--pcap", help="A capture (pcap or pcapng): list what clients and brokers sent.")
    ] = None,
    frame: Annotated[
        int | None, typer.Option("--frame", help="In a capture: explain the frame with this number.")
    ] = None,
) -> None:
    """Show what each byte is: offset, bytes, field, value."""
    given = arguments or []
    kind = _kind(given, file, pcap)
    _check_options(kind, context.params)
    with errors_on_one_line(KafkaWireError, ValueError):
        if pcap is not None:
            if given:
                raise typer.BadParameter(f"--pcap {pcap} cannot be combined with other input: {given[0]!r:.40}")
            is_complete = _print_capture(pcap, frame, apis_of(schemas))
        elif kind == _SEGMENT:
            path = Path(given[0]) if file is None else file
            if file is not None and given:
                _refuse_message(given[0], file, schemas)
            is_complete = _print_segment(path, Place(batch, offset, position), _record_parts(key, value, schemas))
        elif kind == _FRAME:
            apis = apis_of(schemas)
            asked = _asked(request, api, api_version, apis)
            is_complete = _print_frame(bytes_of_text(" ".join(given)), asked, apis)
        else:
            is_complete = _print_message(given, schemas, deep)
    if not is_complete:
        raise typer.Exit(1)


def _kind(given: list[str], file: Path | None, pcap: Path | None) -> str:
    """Return the kind of the input."""
    if pcap is not None:
        return _CAPTURE
    if file is not None or _is_segment(given):
        return _SEGMENT
    return _FRAME if given and not _is_name(given[0]) else _MESSAGE


def _check_options(kind: str, parameters: Mapping[str, object]) -> None:
    """Refuse options that would be ignored, and pairs of options that exclude each other.

    Args:
        kind: the kind of input.
        parameters: the command's parameters, keyed by name.

    Raises:
        BadParameter: an option does not belong to this kind of input, or excludes another option.
    """
    names = [name for name, value in parameters.items() if not (value is None or value is False or value == SCHEMAS)]
    given = [f"--{name.replace('_', '-')}" for name in names if name != "arguments"]
    for option in given:
        owners = " or ".join(each for each, options in _OPTIONS.items() if option in options)
        if option not in _OPTIONS[kind]:
            raise typer.BadParameter(f"{option} applies to {owners}, but the input is {kind}")
    if kind == _SEGMENT and "--schemas" in given and not {"--key", "--value"} & {*given}:
        raise typer.BadParameter("for a log segment, --schemas requires --key or --value")
    places = (("--batch", "--offset"), ("--batch", "--position"), ("--offset", "--position"))
    for one, other in (*places, ("--request", "--api"), ("--request", "--api-version")):
        if one in given and other in given:
            raise typer.BadParameter(f"{one} and {other} are mutually exclusive")


def _is_segment(given: list[str]) -> bool:
    return len(given) == 1 and not given[0].startswith("@") and _names_segment(given[0])


def _names_segment(name: str) -> bool:
    """Return whether a file's name is that of a segment or a snapshot of cluster metadata, which both hold batches."""
    from kafkawire.commands.inspection.dumping.files import FileKind, stored_file  # loads parts of the broker

    file = stored_file(Path(name))
    return file is not None and file.kind in (FileKind.LOG, FileKind.SNAPSHOT)


def _is_name(argument: str) -> bool:
    """Return whether an argument can be a name rather than bytes."""
    return argument.isidentifier() and re.fullmatch("(0[xX])?[0-9a-fA-F]*", argument) is None


def _print_message(given: list[str], schemas: Path, deep: bool) -> bool:
    if len(given) < 3:
        if given and not formats_named(load_record_formats(SCHEMAS), given[0]):
            load_message(given[0], schemas)
        raise ValueError("expected HEX of a whole frame, MESSAGE VERSION HEX, FILE.log, or --pcap FILE")
    name, version, *texts = given
    if not version.isdecimal():
        raise ValueError(f"the version {shown(version)} of {shown(name)} is not a number")
    if texts[0].startswith("@") and _names_segment(texts[0]):
        _refuse_message(name, Path(texts[0][1:]), schemas)
    data = bytes_of_text(" ".join(texts))
    rows, error = _explain(name, int(version), data, schemas, deep)
    return _print_rows(rows, error)


def _print_rows(rows: list[Row], error: object) -> bool:
    """Print the rows and the error, if any; return whether there is no error."""
    print_table(_COLUMNS, [_cells(row) for row in rows])
    if error:
        print_line(f"error: {error}", "bold red")
    return not error


def _explain(name: str, version: int, data: bytes, schemas: Path, deep: bool) -> tuple[list[Row], DecodeError | None]:
    formats = load_record_formats(SCHEMAS)
    if fitting := formats_named(formats, name, version):
        has_magic = fitting[0].magic is not None
        rows, error = explain_records(formats, data) if has_magic else explain_format(formats, name, data)
        return rows + _rest(data, rows, error), error
    cls = load_message(name, schemas)
    if is_batches(data):
        raise ValueError(f"these bytes are record batches, not a {name}; use {_finder(name)} to find it in them")
    note_removal(cls, version)
    return explain_message(cls, version, data, deep)


def note_removal(cls: type[Message], version: int) -> None:
    """Report on standard error, not on standard output, which release removed a version, if any did."""
    if release := cls.SCHEMA.removed_in(version):
        typer.echo(f"{cls.SCHEMA.name} version {version} was removed in release {release}", err=True)


def _finder(name: str, path: str = "FILE.log") -> str:
    """Return the command that finds keys or values of a type in a segment."""
    return f"`kafkawire codegen explain {path} {'--key' if name.endswith('Key') else '--value'} {name}`"


def _refuse_message(name: str, path: Path, schemas: Path) -> None:
    """Refuse a message as the content of a segment, since only the records in it hold messages.

    Raises:
        ValueError: the name is that of a message, or unknown.
    """
    if not formats_named(load_record_formats(SCHEMAS), name):
        load_message(name, schemas)
        raise ValueError(
            f"{path} holds record batches, not a {name}; {_finder(name, str(path))} finds it in the records"
        )


def _record_parts(key: str | None, value: str | None, schemas: Path) -> tuple[RecordPart, ...]:
    """Return the types of keys and values to read."""
    formats, names = load_record_formats(SCHEMAS), {"key": key, "value": value}
    return tuple(RecordPart(part, name, formats, schemas) for part, name in names.items() if name is not None)


def _print_segment(path: Path, place: Place, wanted: tuple[RecordPart, ...]) -> bool:
    with closing(LogSegment(path)) as segment:
        try:
            return _print_found(path, segment, place, wanted)
        finally:
            if segment.cut_to is not None:
                print_line(f"note: {path} shrank to {segment.cut_to} bytes while it was being read", "yellow")


def _print_found(path: Path, segment: LogSegment, place: Place, wanted: tuple[RecordPart, ...]) -> bool:
    if not wanted:
        try:
            title, rows, error = explain_chosen(segment, load_record_formats(SCHEMAS), place)
        except DecodeError as damage:
            hint = f"`kafkawire dump {path}` finds batches after damage; --position explains the data at a byte"
            raise ValueError(f"{damage}; {hint}") from None
        print_line(title)
        return _print_rows(rows, error)
    found, all_right = 0, True
    for each in segment.parts(wanted, place):
        if isinstance(each, Damage):
            print_line(f"error: {each}", "bold red")
            all_right = False
            continue
        found += 1
        print_line(f"{each.part} of the record with offset {each.offset}, in the batch at byte {each.position}")
        all_right = _print_rows(each.rows, each.error) and all_right
    if not found:
        others = dict.fromkeys(each for part in wanted for each in part.other_types())
        types = f"; it has types {', '.join(others)}" if others else ""
        raise ValueError(f"{path} has no record of type {' or '.join(part.name for part in wanted)}{types}")
    return all_right


def _asked(request: str | None, api: str | None, version: int | None, apis: Mapping[int, Api]) -> Asked | None:
    """Return the request to which the bytes are the response, or None if they are a request themselves.

    Raises:
        ValueError: an option is missing, or the API does not exist.
    """
    if request is not None:
        return asked_by(bytes_of_text(request), apis)
    if api is None and version is None:
        return None
    if api is None or version is None:
        raise ValueError("for a response, either --request, or both --api and --api-version are required")
    return Asked(api_named(api, apis), version)


def _print_frame(data: bytes, asked: Asked | None, apis: Mapping[int, Api]) -> bool:
    explained = explain_request(data, apis) if asked is None else explain_response(data, asked)
    print_line(explained.title)
    return _print_rows(explained.rows, explained.error)


def _print_capture(path: Path, number: int | None, apis: Mapping[int, Api]) -> bool:
    summary, count = Summary(), 0
    with path.open("rb") as stream:
        for frame in explain_capture(stream, summary, apis):
            count += frame.read is not None
            if number is None:  # without rich, which would take most of the time
                label = f"{count:>6}" if frame.read is not None else " " * 6
                typer.echo(f"{label}  {frame.time:.6f}  {frame.connection} {frame.way} {frame.text}")
            elif count == number and frame.read is not None:
                return _print_captured(frame, apis)
    if number is not None:
        raise ValueError(f"{path} has no frame {number}; its frames are numbered from 1 to {count}")
    for line in summary.lines():
        print_line(line)
    if summary.error:
        print_line(f"error: {summary.error}", "bold red")
    elif not summary.requests + summary.responses:
        print_line(f"error: no Kafka traffic was found in {path}", "bold red")
    return not summary.error and summary.requests + summary.responses > 0


def _print_captured(frame: Frame, apis: Mapping[int, Api]) -> bool:
    """Explain one frame in a capture, without its length prefix."""
    data = len(frame.data).to_bytes(LENGTH_BYTES, "big") + frame.data
    match frame.read:
        case Received() as received:
            return _print_frame(data, Asked(received.api, received.version), apis)
        case Unread() as unread:
            return _print_rows([Row(0, data, "", frame.text)], unread.reason or None)
    return _print_frame(data, None, apis)


def bytes_of_text(argument: str) -> bytes:
    """Return the bytes of an argument: hexadecimal, `@FILE` for raw bytes, `-` for stdin.

    Raises:
        ValueError: the input is not hexadecimal, or larger than `INPUT_BYTES_MAX`.
        OSError: the file cannot be read.
    """
    if argument.startswith("@"):
        with Path(argument[1:]).open("rb") as file:
            data = file.read(INPUT_BYTES_MAX + 1)
        if len(data) > INPUT_BYTES_MAX:
            raise ValueError(f"{argument[1:]} is larger than {INPUT_BYTES_MAX} bytes, the limit")
        return data
    text = sys.stdin.read(3 * INPUT_BYTES_MAX) if argument == "-" else argument
    digits = "".join(re.sub("^0[xX]", "", word) for word in re.split(r"[\s,:]+", text))
    if wrong := re.search("[^0-9a-fA-F]+", digits):
        if os.path.exists(argument):
            hint = (
                f"use @{argument} to read its bytes; `kafkawire dump {argument}` shows the content of a broker's files"
            )
            raise ValueError(f"{argument} is a path, not a hexadecimal number: {hint}")
        raise ValueError(f"these characters are not hexadecimal: {wrong[0]!r:.40}")
    if len(digits) % 2:
        raise ValueError(f"expected an even number of hexadecimal digits, got {len(digits)}")
    return bytes.fromhex(digits)


def _cells(row: Row) -> tuple[str, ...]:
    more = " …" if len(row.data) > _BYTES_SHOWN else ""
    place = f"{row.region}+{row.offset}" if row.region else str(row.offset)
    return place, f"{row.data[:_BYTES_SHOWN].hex(' ')}{more}", row.path, row.value
