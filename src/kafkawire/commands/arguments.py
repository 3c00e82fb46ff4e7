"""Read the arguments of the commands that the core has: `kafkawire broker` and `kafkawire dump`.

They need the standard library alone, so that they run without the extra `cli` and start at once. Every other command is
a Typer app, which `terminal.py` makes and runs (docs/decisions/0038-typer-for-the-extra-cli.md).
"""

from __future__ import annotations

import argparse
from typing import NamedTuple, NoReturn

from kafkawire.commands.streams import say

__all__ = ["Option", "Parser"]


class Option(NamedTuple):
    """An option of a command, for the completion of command lines.

    Attributes:
        name: as it is written.
        has_value: whether a value follows.
        help: what the help says of it.
    """

    name: str
    has_value: bool
    help: str


class Parser(argparse.ArgumentParser):
    """A parser that takes no abbreviations, and says in one line what is wrong.

    Args:
        program: what the user called, for the help and in front of errors.
        description: what the help says of it.
    """

    def __init__(self, program: str, description: str) -> None:
        super().__init__(prog=program, description=description, allow_abbrev=False)

    @property
    def options(self) -> list[Option]:
        """What the command takes beside its arguments."""
        return [
            Option(name, action.nargs != 0, (action.help or "") % vars(action))
            for action in self._actions
            for name in action.option_strings
            if name.startswith("--") and name != "--help"
        ]

    def error(self, message: str) -> NoReturn:
        """End the program with status 2."""
        say(self.prog, message)
        self.exit(2)
