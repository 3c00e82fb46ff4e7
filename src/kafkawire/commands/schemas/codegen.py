"""The commands of `kafkawire codegen`, which turn a Kafka release into schemas, and schemas into code and pages.

Every command works on kafkawire's own schemas or, with `--schemas`, on another folder. `explain` and `show`, which also
need the codecs, are in `inspection/explain.py` and `show.py`. Exit status 1 means an error or a negative answer
(generated code differs, or a change breaks wire compatibility), and 2 an invalid option or argument.
"""

from __future__ import annotations

from collections import Counter
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from kafkawire.codegen import OUT, SCHEMAS
from kafkawire.codegen.change import Change, Verdict
from kafkawire.codegen.definitions import read_jars, read_release, release_number
from kafkawire.codegen.evolution import compare
from kafkawire.codegen.generate import drift, generated_tree, reference_of, write_tree
from kafkawire.codegen.import_tables import table_texts
from kafkawire.codegen.importer import ImportResult, arrange, import_history, import_release
from kafkawire.codegen.load import load_folder
from kafkawire.codegen.names import near
from kafkawire.codegen.spec import MessageSpec
from kafkawire.codegen.state import State, comparable, load_state
from kafkawire.commands.inspection.explain import HELP, explain
from kafkawire.commands.schemas.show import show
from kafkawire.commands.streams import say
from kafkawire.commands.terminal import counted, errors_on_one_line, new_app, print_line, print_table, run_app

__all__ = ["app", "run"]

app = new_app("Import a Kafka release, generate code and documentation, compare releases, explain bytes.")
run = partial(run_app, app)


_Schemas = Annotated[Path, typer.Option("--schemas", help="Folder of schemas.", show_default="kafkawire's own")]
_Out = Annotated[
    Path | None,
    typer.Option("--out", help="Folder of the generated code.", show_default="kafkawire's own, for its own schemas"),
]


@app.command("import")
def import_command(
    jars: Annotated[list[Path], typer.Argument(help="Jars of a Kafka release, or folders that contain them.")],
    schemas: _Schemas = SCHEMAS,
    tables: Annotated[
        Path | None, typer.Option(help="Folder with the release's error_codes.json and api_keys.json.")
    ] = None,
    remove: Annotated[
        bool, typer.Option("--remove", help="Remove the files of messages that are missing from the jars.")
    ] = False,
    forget: Annotated[
        bool,
        typer.Option("--forget", help="Drop the versions that the release lacks, instead of keeping them as removed."),
    ] = False,
    history: Annotated[
        bool,
        typer.Option("--history", help="Only add the versions that this older release has and the schemas lack."),
    ] = False,
    later: Annotated[
        list[Path] | None,
        typer.Option(help="With --history: jars of a later release, to find out which one removed a version."),
    ] = None,
) -> None:
    """Update the schemas to a Kafka release. Descriptions are kept; either all files change or none."""
    if history and (tables or remove or forget):
        raise typer.BadParameter("--history cannot be combined with --tables, --remove or --forget")
    if later and not history:
        raise typer.BadParameter("--later requires --history")
    with errors_on_one_line():
        if history:
            older = read_release(jars)
            messages = older.messages
            result = import_history(older, [read_release([path]) for path in later or ()], schemas)
        else:
            messages = read_jars(jars)
            texts = table_texts(tables, schemas) if tables else {}
            release = None if forget else release_number(jars)
            result = import_release(messages, schemas, texts, remove=remove, release=release)
    _report(messages, result)


def _report(messages: list[MessageSpec], result: ImportResult) -> None:
    """Print the changes made by an import."""
    for path in result.added:
        print_line(f"added    {path}", "green")
    for path in result.changed:
        print_line(f"changed  {path}", "yellow")
    for path in result.removed:
        print_line(f"removed  {path}", "red")
    for path in result.kept:
        print_line(f"kept     {path}", "yellow")
    count = len(result.added) + len(result.changed) + len(result.removed)
    print_line(f"{counted(len(messages), 'message')} read, {counted(count, 'file')} changed")
    if result.kept:
        kept = counted(len(result.kept), "file")
        print_line(f"kept {kept} missing from these jars; use --remove to remove them", "yellow")
    if result.undescribed:
        names = ", ".join(result.undescribed)
        print_line(f"{counted(len(result.undescribed), 'message')} without a description yet: {names}", "yellow")


@app.command()
def generate(schemas: _Schemas = SCHEMAS, out: _Out = None) -> None:
    """Write the message classes and tables of the schemas."""
    folder = _folder_of_code(schemas, out)
    with errors_on_one_line():
        tree = generated_tree(schemas)
        before = write_tree(tree, folder)
    touched = len(before.missing) + len(before.changed) + len(before.surplus)
    print_line(f"{len(tree)} files, {touched} changed")


@app.command()
def check(schemas: _Schemas = SCHEMAS, out: _Out = None) -> None:
    """Compare the generated code with its schemas. Exit with 1 if they differ."""
    folder = _folder_of_code(schemas, out)
    with errors_on_one_line():
        tree = generated_tree(schemas)
        found = drift(tree, folder)
    for paths, what in ((found.missing, "missing"), (found.changed, "changed"), (found.surplus, "surplus")):
        for path in paths:
            print_line(f"{what}  {path}", "red")
    if found:
        print_line("change the schemas, not the generated code, and then run `kafkawire codegen generate`", "red")
        raise typer.Exit(1)
    print_line(f"{len(tree)} files match their schemas")


def _folder_of_code(schemas: Path, out: Path | None) -> Path:
    """Return the folder for generated code; code from other schemas must never overwrite kafkawire's own."""
    if out is None and schemas.resolve() != SCHEMAS.resolve():
        raise typer.BadParameter(f"--schemas {schemas} is not kafkawire's own folder, so --out is required")
    return OUT if out is None else out


@app.command()
def diff(
    old: Annotated[
        Path, typer.Argument(metavar="A", help="The old state: a folder of schemas, a jar, or a folder of jars.")
    ],
    new: Annotated[Path, typer.Argument(metavar="B", help="The new state.")] = SCHEMAS,
    verdict: Annotated[Verdict | None, typer.Option(help="Show only changes with this verdict.")] = None,
) -> None:
    """Show what changed between two sets of schemas. Exit with 1 if old and new programs would misread each other.

    If only one of them is a whole release (with ApiVersions), only the other's definitions are compared.
    """
    with errors_on_one_line():
        states = _state(old), _state(new)
        compared = comparable(*states)
        changes = compare(*compared)
    shown = [change for change in changes if verdict in (None, change.verdict)]
    styles = {Verdict.COMPATIBLE: "", Verdict.NOTE: "yellow", Verdict.BREAKS: "bold red"}
    rows = [_row(change) for change in shown]
    if rows:
        columns = ("WHERE", "VERSIONS", "FIELD", "CHANGE", "VERDICT")
        print_table(columns, rows, [styles[change.verdict] for change in shown])
    counts = Counter(change.verdict for change in changes)
    compatible, note, breaks = (counts[kind] for kind in Verdict)
    total = counted(len(changes), "change")
    print_line(f"{total}: {compatible} compatible, {note} with a note, {breaks} that break the wire")
    for path, before, after in zip((new, old), states, compared, strict=True):
        if left_out := len(before.names) - len(after.names):
            print_line(f"left out: {counted(left_out, 'message')} not defined in {path}")
    if counts[Verdict.BREAKS]:
        raise typer.Exit(1)


def _row(change: Change) -> tuple[str, ...]:
    return (
        change.subject,
        str(change.versions) if change.versions else "-",
        change.field or "-",
        change.what,
        change.verdict,
    )


def _state(path: Path) -> State:
    """Return the definitions in a folder of schemas, or in Kafka's jars."""
    if path.is_dir() and any(any(path.rglob(f"*.{ending}")) for ending in ("yaml", "yml")):
        return load_state(path)
    return State(arrange(read_jars([path])))


@app.command("list")
def list_command(
    name: Annotated[str, typer.Argument(help="Show only messages whose name contains this text, ignoring case.")] = "",
    kind: Annotated[
        str | None, typer.Option(help="Show only messages of this kind: request, response, header, …")
    ] = None,
    schemas: _Schemas = SCHEMAS,
) -> None:
    """List messages with their keys, versions and files."""
    with errors_on_one_line():
        files = load_folder(schemas)
    rows = [
        (
            message.name,
            message.kind,
            "-" if message.key is None else str(message.key),
            str(message.versions),
            ", ".join(f"{removal.versions} in {removal.release}" for removal in message.removed) or "-",
            str(message.flexible & message.known),
            str(path),
        )
        for path, file in files.items()
        for message in file.messages
        if name.lower() in message.name.lower() and kind in (None, message.kind)
    ]
    if not rows:
        messages = [message for file in files.values() for message in file.messages]
        kinds = sorted({message.kind for message in messages})
        hint = near(name, [message.name for message in messages]) if name else ""
        hint += near(kind, kinds) if kind is not None and kind not in kinds else ""
        say("error", f"no such message{hint}; kinds: {', '.join(kinds)}")
        raise typer.Exit(1)
    print_table(("MESSAGE", "KIND", "KEY", "VERSIONS", "REMOVED", "FLEXIBLE", "FILE"), rows)


@app.command()
def docs(
    out: Annotated[Path, typer.Option("--out", help="Folder for the pages; open its index.html first.")],
    schemas: _Schemas = SCHEMAS,
) -> None:
    """Write the protocol reference as static pages. They show every API, version and field."""
    with errors_on_one_line():
        tree = reference_of(schemas)
        for path, text in tree.items():
            (out / path).parent.mkdir(parents=True, exist_ok=True)
            (out / path).write_text(text, encoding="utf-8")
    print_line(f"{len(tree)} files; open {out / 'index.html'}")


app.command(help=HELP)(explain)
app.command()(show)
