"""The commands of `kafkawire codegen`: from a Kafka release to schemas, from schemas to code and documentation.

Every command works on the schemas of kafkawire or, with `--schemas`, on a folder of somebody's own. `explain` and
`show`, which join the schemas with the codecs, are in `explain.py`. Exit status 1: the answer is no (drift, a break of
the wire); 2: something is wrong.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from kafkawire.codegen import OUT, SCHEMAS
from kafkawire.codegen.definitions import read_jars
from kafkawire.codegen.evolution import Change, Verdict, compare
from kafkawire.codegen.generate import drift, generated_tree, reference_of, write_tree
from kafkawire.codegen.import_tables import import_tables
from kafkawire.codegen.importer import arrange, import_release
from kafkawire.codegen.load import load_folder
from kafkawire.codegen.spec import SchemaFile
from kafkawire.commands.explain import explain, show
from kafkawire.commands.terminal import errors_on_one_line, print_line, print_table, run_app

__all__ = ["app", "run"]

app = typer.Typer(
    name="codegen",
    help="Schemas: import a Kafka release, generate code and documentation, compare, explain bytes.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def run(program: str, arguments: Sequence[str]) -> int:
    """Run a command of this module and return its exit status; see `run_app`."""
    return run_app(app, program, arguments)


_Schemas = Annotated[Path, typer.Option("--schemas", help="Folder of schemas.", show_default="kafkawire's own")]
_Out = Annotated[Path, typer.Option("--out", help="Folder of the generated code.", show_default="kafkawire's own")]


@app.command("import")
def import_command(
    jars: Annotated[list[Path], typer.Argument(help="Jars of a Kafka release, or folders with them.")],
    schemas: _Schemas = SCHEMAS,
    tables: Annotated[
        Path | None, typer.Option(help="Folder with error_codes.json and api_keys.json of the release.")
    ] = None,
) -> None:
    """Bring the schemas to the state of a Kafka release; descriptions stay as they are."""
    with errors_on_one_line():
        messages = read_jars(jars)
        schemas.mkdir(parents=True, exist_ok=True)
        result = import_release(messages, schemas)
        changed = result.changed + (import_tables(tables, schemas) if tables else ())
        undescribed = [
            message.name
            for file in load_folder(schemas).values()
            for message in file.messages
            if message.versions and not (message.about or getattr(file, "about", ""))
        ]
    for path in result.added:
        print_line(f"added    {path}", "green")
    for path in changed:
        print_line(f"changed  {path}", "yellow")
    for path in result.removed:
        print_line(f"removed  {path}", "red")
    count = len(result.added) + len(changed) + len(result.removed)
    print_line(f"{len(messages)} messages read, {count} files touched")
    if undescribed:
        print_line(f"{len(undescribed)} messages have no description yet: {', '.join(undescribed)}", "yellow")


@app.command()
def generate(schemas: _Schemas = SCHEMAS, out: _Out = OUT) -> None:
    """Write the message classes and tables that the schemas give."""
    with errors_on_one_line():
        tree = generated_tree(schemas)
        before = write_tree(tree, out)
    touched = len(before.missing) + len(before.changed) + len(before.surplus)
    print_line(f"{len(tree)} files, {touched} touched")


@app.command()
def check(schemas: _Schemas = SCHEMAS, out: _Out = OUT) -> None:
    """Compare the generated code with its schemas; exit with 1 where they differ."""
    with errors_on_one_line():
        tree = generated_tree(schemas)
        found = drift(tree, out)
    for paths, what in ((found.missing, "missing"), (found.changed, "changed"), (found.surplus, "surplus")):
        for path in paths:
            print_line(f"{what}  {path}", "red")
    if found:
        print_line("run `kafkawire codegen generate`, and change schemas only", "red")
        raise typer.Exit(1)
    print_line(f"{len(tree)} files are as their schemas say")


@app.command()
def diff(
    old: Annotated[Path, typer.Argument(metavar="A", help="Folder of schemas, jar, or folder of jars: the old state.")],
    new: Annotated[Path, typer.Argument(metavar="B", help="The new state.")] = SCHEMAS,
    verdict: Annotated[Verdict | None, typer.Option(help="Only the changes with this verdict.")] = None,
) -> None:
    """Show what changed per message and version; exit with 1 where old and new programs would misread each other."""
    with errors_on_one_line():
        changes = compare(_state(old), _state(new))
    shown = [change for change in changes if verdict in (None, change.verdict)]
    styles = {Verdict.COMPATIBLE: "", Verdict.NOTE: "yellow", Verdict.BREAKS: "bold red"}
    rows = [_row(change) for change in shown]
    if rows:
        columns = ("MESSAGE", "VERSIONS", "FIELD", "CHANGE", "VERDICT")
        print_table(columns, rows, [styles[change.verdict] for change in shown])
    counts = Counter(change.verdict for change in changes)
    compatible, note, breaks = (counts[kind] for kind in Verdict)
    print_line(f"{len(changes)} changes: {compatible} compatible, {note} with a note, {breaks} that break the wire")
    if counts[Verdict.BREAKS]:
        raise typer.Exit(1)


def _row(change: Change) -> tuple[str, ...]:
    return change.message, str(change.versions), change.field or "-", change.what, change.verdict


def _state(path: Path) -> list[SchemaFile]:
    """Return the schemas of a folder, or those that Kafka's jars define."""
    if path.is_dir() and any(path.rglob("*.yaml")):
        return list(load_folder(path).values())
    return list(arrange(read_jars([path])).values())


@app.command("list")
def list_command(
    name: Annotated[str, typer.Argument(help="Only messages whose name contains this, in any case.")] = "",
    kind: Annotated[str | None, typer.Option(help="Only messages of this kind: request, response, header, …")] = None,
    schemas: _Schemas = SCHEMAS,
) -> None:
    """List messages with key, versions and file."""
    with errors_on_one_line():
        files = load_folder(schemas)
    rows = [
        (
            message.name,
            message.kind,
            "-" if message.key is None else str(message.key),
            str(message.versions),
            str(message.flexible & message.versions),
            str(path),
        )
        for path, file in files.items()
        for message in file.messages
        if name.lower() in message.name.lower() and kind in (None, message.kind)
    ]
    if not rows:
        kinds = sorted({message.kind for file in files.values() for message in file.messages})
        typer.echo(f"error: no such message; kinds: {', '.join(kinds)}", err=True)
        raise typer.Exit(2)
    print_table(("MESSAGE", "KIND", "KEY", "VERSIONS", "FLEXIBLE", "FILE"), rows)


@app.command()
def docs(
    out: Annotated[Path, typer.Option("--out", help="Folder of the pages; index.html is where to begin.")],
    schemas: _Schemas = SCHEMAS,
) -> None:
    """Write a browsable protocol reference: every API, version and field, as static pages."""
    with errors_on_one_line():
        tree = reference_of(schemas)
        for path, text in tree.items():
            (out / path).parent.mkdir(parents=True, exist_ok=True)
            (out / path).write_text(text, encoding="utf-8")
    print_line(f"{len(tree)} files; open {out / 'index.html'}")


app.command()(explain)
app.command()(show)
