"""Create and run the Typer app of a command, and print its output, which is styled in a terminal and plain elsewhere.

Invalid arguments end a command with one line and status 2. In a terminal, rich fits tables to the width. In a pipe or
file, a table is text in aligned columns that are never shortened, so other programs can read it.
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

#: Typer's error for invalid arguments; not every release of Typer exports it.
_UsageError = cast(
    "type[typer.BadParameter]", next(kind for kind in typer.BadParameter.__mro__ if kind.__name__ == "ClickException")
)


def new_app(text: str | None = None) -> typer.Typer:
    """Return the app of a command; an app with several subcommands prints its help if called without one.

    Args:
        text: the help text for all its subcommands; None if it has only one, whose docstring is the help.
    """
    return typer.Typer(
        help=text,
        no_args_is_help=True,
        rich_markup_mode=None,  # markup would treat `[spark]` in a help text as a style, and drop it
        add_completion=False,
        pretty_exceptions_enable=False,
    )


def run_app(app: typer.Typer, program: str, arguments: Sequence[str]) -> int:
    """Run a command of an app and return its exit status.

    Args:
        app: the app.
        program: the program's name in the user's command line, for help and errors.
        arguments: the arguments after the program's name.
    """
    try:
        status = app(args=list(arguments), prog_name=program, standalone_mode=False)
    except _UsageError as error:
        message = error.format_message()
        if message:  # an app that was called without a subcommand has printed its help
            say(program, message)
        return error.exit_code
    except OSError as error:  # an unreadable or unwritable file
        say(program, error)
        return 1
    return status if isinstance(status, int) else 0


def print_line(text: str, style: str = "") -> None:
    """Print one line; `style` applies only in a terminal."""
    Console(soft_wrap=True, highlight=False).print(Text(text), style=style)


def print_table(columns: Sequence[str], rows: Iterable[Sequence[str]], styles: Iterable[str] = ()) -> None:
    """Print rows below the names of their columns.

    Args:
        columns: the names.
        rows: the cells of each row, as text.
        styles: the style of each row in a terminal.
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
    """Return a number with its noun, such as `1 file` or `2 files`."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


@contextmanager
def errors_on_one_line(*kinds: type[Exception]) -> Iterator[None]:
    """End the program with exit status 1 and an error on stderr if a schema, a definition or a file is wrong.

    Each problem is printed on its own line.

    Args:
        kinds: exceptions other than `SchemaError` and `OSError` that the user can fix.
    """
    wrong: tuple[type[Exception], ...] = (SchemaError, OSError, *kinds)
    try:
        yield
    except wrong as error:
        problems = error.problems if isinstance(error, SchemaError) else [error]
        for problem in problems:
            say("error", problem)
        raise typer.Exit(1) from None
