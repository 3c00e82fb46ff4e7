"""`kafkawire dump`: show the content of a broker's files, and any damage in them.

The command replaces Kafka's DumpLogSegments, and needs no JVM. It parses its arguments with just the standard library,
and loads the schema reader only for `--schemas`.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from kafkawire.commands.arguments import Parser
from kafkawire.commands.inspection.dumping.files import FileKind, StoredFile, files_of, stored_file
from kafkawire.commands.inspection.dumping.indexes import dump_offset_index, dump_time_index
from kafkawire.commands.inspection.dumping.limits import BATCH_BYTES_MAX
from kafkawire.commands.inspection.dumping.output import DEFAULT_KINDS, Kind, Output
from kafkawire.commands.inspection.dumping.progress import Progress
from kafkawire.commands.inspection.dumping.segments import SegmentOptions, dump_segment
from kafkawire.commands.inspection.dumping.small_files import dump_small_file, dump_transaction_index
from kafkawire.commands.streams import say
from kafkawire.sdk.near_names import did_you_mean
from kafkawire.sdk.records.internal_records import KAFKA_RECORDS, RecordTypes
from kafkawire.sdk.records.java_integers import OFFSET_MAX

__all__ = ["parser_for", "run"]

#: The prefix of the names of Kafka's internal topics.
_INTERNAL_PREFIX = "__"


def run(program: str, arguments: Sequence[str]) -> int:
    """Dump files, and return the exit status: 1 if something was damaged or could not be read.

    Args:
        program: the program's name as the user called it, for the help and errors.
        arguments: the arguments after the program's name.
    """
    parser = parser_for(program)
    given = parser.parse_args(arguments)
    types = KAFKA_RECORDS if given.schemas is None else _record_types(program, given.schemas)
    if types is None:
        return 1
    if given.topic is not None and (problem := _topic_problem(given.topic, types)):
        parser.error(f"argument --topic: {problem}")
    output = Output(
        sys.stdout.buffer.write,
        as_json=given.json,
        kinds=DEFAULT_KINDS if given.only is None else given.only,
        with_content=not given.without_content,
        from_offset=given.from_offset,
    )
    options = SegmentOptions(given.from_offset, given.topic, given.max_bytes, given.max_batch_bytes, types)
    return _dump(program, given.file, output, options)


def _dump(program: str, paths: Sequence[Path], output: Output, options: SegmentOptions) -> int:
    """Dump all files; continue after a file that cannot be read."""
    failed = False
    progress = Progress(sys.stderr)

    def fail(error: OSError) -> None:
        nonlocal failed
        failed = True
        output.flush()
        progress.end()
        say(program, error)

    files = files_of(paths, fail)
    for index, path in enumerate(files):
        file = stored_file(path)
        if _is_before(file, files[index + 1 :], options.from_offset):
            continue
        try:
            if file is None:
                output.say(Kind.NOTE, {"path": str(path), "text": "unknown file"}, f"Ignoring unknown file {path}")
            else:
                _dump_file(file, output, options, progress)
        except OSError as error:
            fail(error)
    output.flush()
    progress.end()
    return 1 if failed or output.damaged else 0


def _dump_file(file: StoredFile, output: Output, options: SegmentOptions, progress: Progress) -> None:
    size = file.path.stat().st_size
    members = {
        "path": str(file.path),
        "type": file.kind.value,
        "baseOffset": file.base_offset,
        "topic": file.topic or None,
        "size": size,
    }
    output.say(Kind.FILE, members, f"Dumping {file.path}")
    read = progress.of(file.path.name, size)
    match file.kind:
        case FileKind.LOG | FileKind.SNAPSHOT:
            dump_segment(file, output, options, read)
        case FileKind.OFFSET_INDEX:
            dump_offset_index(file, output, read)
        case FileKind.TIME_INDEX:
            dump_time_index(file, output, read)
        case FileKind.TRANSACTION_INDEX:
            dump_transaction_index(file, output)
        case _:
            dump_small_file(file, output)


def _is_before(file: StoredFile | None, later: Sequence[Path], offset: int) -> bool:
    """Return whether all offsets in a file are below a limit because a later segment begins there or earlier.

    This applies only to files in use: a file being removed or replaced is a segment from another time, and can begin at
        any offset.
    """
    if file is None or file.base_offset is None or file.base_offset >= offset or file.kind is FileKind.SNAPSHOT:
        return False
    if file.added_suffix:
        return False
    for path in later:
        if path.parent != file.path.parent:
            return False
        other = stored_file(path)
        if other is None or other.kind is not FileKind.LOG or other.base_offset is None or other.added_suffix:
            continue
        if other.base_offset > file.base_offset:
            return other.base_offset <= offset
    return False


def parser_for(program: str) -> Parser:
    """Return the parser of the arguments.

    Args:
        program: the program's name as the user called it, for the help and errors.
    """
    parser = Parser(
        program,
        "Show the content of a broker's files: segments, indexes, snapshots, checkpoints. "
        "The exit status is 1 if something is damaged or cannot be read.",
    )
    parser.add_argument("file", type=_path, nargs="+", help="a file, or a folder whose files are read at any depth")
    parser.add_argument("--json", action="store_true", help="print one JSON object per line")
    parser.add_argument(
        "--only",
        type=_kinds,
        metavar="KIND,…",
        help=f"print only lines of these kinds: {', '.join(Kind)}; `gap` is left out by default, `damage` "
        "never. `batch` alone does not open batches; `damage` alone checks everything",
    )
    parser.add_argument(
        "--from-offset", type=_offset, default=0, metavar="OFFSET", help="leave out everything before this offset"
    )
    parser.add_argument("--without-content", action="store_true", help="leave out keys, values and header values")
    parser.add_argument(
        "--topic",
        help="decode records as those of this internal topic (default: taken from the folder's name); "
        "empty to show all records as stored",
    )
    parser.add_argument(
        "--schemas", type=_path, metavar="FOLDER", help="a folder of schemas, to also decode the records of its topics"
    )
    parser.add_argument("--max-bytes", type=_size, metavar="BYTES", help="read only this many bytes of each segment")
    parser.add_argument(
        "--max-batch-bytes",
        type=_size,
        default=BATCH_BYTES_MAX,
        metavar="BYTES",
        help="do not open batches larger than this, either as stored or decompressed (default: %(default)s)",
    )
    return parser


def _path(text: str) -> Path:
    if not text:  # an empty path would mean the working folder
        raise argparse.ArgumentTypeError("the path is empty")
    return Path(text)


def _topic_problem(topic: str, types: RecordTypes) -> str:
    """Return what is wrong with a topic's name; empty if it is not an internal topic, or its record format is known."""
    if not topic.startswith(_INTERNAL_PREFIX) or topic in types.topics:
        return ""
    hint = did_you_mean(topic, types.topics) or f"; expected one of {', '.join(sorted(types.topics))}"
    return f"{topic!r:.260} is not an internal topic with a known record format{hint}"


def _record_types(program: str, schemas: Path) -> RecordTypes | None:
    """Return the record types of topics; if the schemas are wrong, report that and return None."""
    from kafkawire.codegen.located import SchemaError  # also loads the YAML reader, which only this function needs
    from kafkawire.commands.inspection.own_schemas import record_types_of

    try:
        return record_types_of(schemas)
    except SchemaError as error:
        for problem in error.problems:
            say(program, problem)
    except OSError as error:
        say(program, error)
    return None


def _kinds(text: str) -> frozenset[Kind]:
    try:
        return frozenset(map(Kind, text.split(",")))
    except ValueError:
        known = ", ".join(Kind)
        raise argparse.ArgumentTypeError(
            f"unknown kind {text!r:.60}; expected one or more of {known}, separated by commas"
        ) from None


def _number(low: int, high: int) -> Callable[[str], int]:
    def number(text: str) -> int:
        if not text.isascii() or not text.isdigit() or len(text) > len(str(high)) or not low <= int(text) <= high:
            raise argparse.ArgumentTypeError(f"expected a number from {low} to {high}, got {text!r:.40}")
        return int(text)

    return number


_offset = _number(0, OFFSET_MAX)
#: Sizes in Kafka's formats are int32.
_size = _number(1, 2**31 - 1)
