"""Parse the arguments of the core commands, `kafkawire broker` and `kafkawire dump`.

They need only the standard library, so they run without the `cli` extra and start quickly. Every other command is a
Typer app, which `terminal.py` creates and runs (docs/decisions/0038-typer-for-the-extra-cli.md).
"""

from __future__ import annotations

import argparse
from typing import NamedTuple, NoReturn

from kafkawire.commands.streams import say

__all__ = ["Option", "Parser"]


class Option(NamedTuple):
    """A command's option, for command-line completion.

    Attributes:
        name: the option in the form that the user types.
        has_value: whether a value follows.
        help: its help text.
    """

    name: str
    has_value: bool
    help: str


class Parser(argparse.ArgumentParser):
    """A parser that accepts no abbreviated options and reports errors on one line.

    Args:
        program: the program's name in the user's command line, for help and errors.
        description: the description in the help.
    """

    def __init__(self, program: str, description: str) -> None:
        super().__init__(prog=program, description=description, allow_abbrev=False)

    @property
    def options(self) -> list[Option]:
        """The command's options, for completion."""
        return [
            Option(name, action.nargs != 0, (action.help or "") % vars(action))
            for action in self._actions
            for name in action.option_strings
            if name.startswith("--") and name != "--help"
        ]

    def error(self, message: str) -> NoReturn:
        """Print the error and end the program with status 2."""
        say(self.prog, message)
        self.exit(2)
