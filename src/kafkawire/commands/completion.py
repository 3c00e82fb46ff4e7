"""Complete command lines in bash, zsh, fish and PowerShell, using Typer's support for these shells.

A shell runs `kafkawire` with the line so far in the environment, and reads the possible next words. Each command is
loaded only when its own words are completed. The core commands are not Typer apps (see `arguments.py`), so each is
represented by an app that has the same options but never runs.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any, Final

import typer
from typer.core import TyperGroup
from typer.main import get_command

from kafkawire.commands.arguments import Parser
from kafkawire.commands.terminal import new_app, run_app

__all__ = ["complete"]

_PROGRAM: Final = "kafkawire"


def complete(modules: Mapping[str, str], arguments: Sequence[str]) -> int:
    """Print the possible next words of a command line, or install completion in a shell; return the exit status.

    Args:
        modules: the modules, keyed by command name.
        arguments: `--install-completion` or `--show-completion`; empty if a shell requests words.
    """

    class Commands(TyperGroup):
        """The group of all commands, each of which is loaded on lookup."""

        def list_commands(self, ctx: Any) -> list[str]:
            return [*modules]

        def get_command(self, ctx: Any, cmd_name: str) -> Any:
            return get_command(_app(cmd_name, modules[cmd_name])) if cmd_name in modules else None

    app = typer.Typer(cls=Commands, add_completion=True, rich_markup_mode=None, pretty_exceptions_enable=False)
    app.callback()(_nothing)
    return run_app(app, _PROGRAM, arguments)


def _nothing() -> None:
    """Do nothing, in place of the program itself, which has only Typer's options."""


def _app(name: str, module: str) -> typer.Typer:
    found = import_module(module)
    app: typer.Typer = found.app if hasattr(found, "app") else _app_of(found.parser_for(f"{_PROGRAM} {name}"))
    return app


def _app_of(parser: Parser) -> typer.Typer:
    """Return an app that has a parser's options."""
    parameters = [
        inspect.Parameter(
            option.name.strip("-").replace("-", "_"),
            inspect.Parameter.KEYWORD_ONLY,
            default=typer.Option("" if option.has_value else False, option.name, help=option.help),
            annotation=str if option.has_value else bool,
        )
        for option in parser.options
    ]

    def command(**given: object) -> None: ...

    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined] # Typer reads the attribute here
    command.__annotations__ = {each.name: each.annotation for each in parameters}
    app = new_app()
    app.command()(command)
    return app
