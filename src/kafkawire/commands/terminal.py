"""Make and run the Typer app of a command, and print: for people in a terminal, plainly for everything else.

A mistake in the arguments ends with one line and status 2. In a terminal, rich draws a table to fit the width; in a
pipe or file it is text in aligned columns, with nothing cut, so other programs can read it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import cast

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from kafkawire.codegen.located import SchemaError
from kafkawire.commands.streams import say

__all__ = ["counted", "errors_on_one_line", "new_app", "print_line", "print_table", "run_app"]

#: What Typer raises for arguments that it cannot use. The class has no name of Typer's own in every release.
_UsageError = cast(
    "type[typer.BadParameter]", next(kind for kind in typer.BadParameter.__mro__ if kind.__name__ == "ClickException")
)


def new_app(text: str | None = None) -> typer.Typer:
    """Return the app of a command; called without a command of its own it prints its help, if it has several.

    Args:
        text: what its help says of all its commands; None if it has one, whose docstring says it.
    """
    return typer.Typer(
        help=text,
        no_args_is_help=True,
        rich_markup_mode=None,  # markup would take the `[spark]` of a help text for a style, and swallow it
        add_completion=False,
        pretty_exceptions_enable=False,
    )


def run_app(app: typer.Typer, program: str, arguments: Sequence[str]) -> int:
    """Run a command of an app and return its exit status.

    Args:
        app: the app.
        program: what the user called, for the help and in front of errors.
        arguments: what followed.
    """
    try:
        status = app(args=list(arguments), prog_name=program, standalone_mode=False)
    except _UsageError as error:
        message = error.format_message()
        if message:  # an app called without a command has printed its help
            say(program, message)
        return error.exit_code
    except OSError as error:  # a file that cannot be read or written
        say(program, error)
        return 1
    return status if isinstance(status, int) else 0


def print_line(text: str, style: str = "") -> None:
    """Print one line; `style` applies in a terminal only."""
    Console(soft_wrap=True, highlight=False).print(Text(text), style=style)


def print_table(columns: Sequence[str], rows: Iterable[Sequence[str]], styles: Iterable[str] = ()) -> None:
    """Print rows under the names of their columns.

    Args:
        columns: the names.
        rows: cells as text.
        styles: one for each row, in a terminal.
    """
    rows = [tuple(row) for row in rows]
    console = Console(highlight=False)
    if not console.is_terminal:
        widths = [max(map(len, cells)) for cells in zip(columns, *rows, strict=True)]
        for row in (tuple(columns), *rows):
            print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
        return
    table = Table(box=None, header_style="bold", pad_edge=False)
    for column in columns:
        table.add_column(column, overflow="fold")
    for row, style in zip(rows, [*styles, *[""] * len(rows)], strict=False):
        table.add_row(*map(Text, row), style=style)
    console.print(table)


def counted(count: int, noun: str) -> str:
    """Return a number and what it counts, as `1 file` and `2 files`."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


@contextmanager
def errors_on_one_line(*kinds: type[Exception]) -> Iterator[None]:
    """End the program with exit status 1 if a schema, a definition or a file is wrong, and say why on stderr.

    Each problem is on one line.

    Args:
        kinds: exceptions other than `SchemaError` and `OSError` that are the user's to mend.
    """
    wrong: tuple[type[Exception], ...] = (SchemaError, OSError, *kinds)
    try:
        yield
    except wrong as error:
        problems = error.problems if isinstance(error, SchemaError) else [error]
        for problem in problems:
            say("error", problem)
        raise typer.Exit(1) from None
