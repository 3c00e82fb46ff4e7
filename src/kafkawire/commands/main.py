"""The command `kafkawire`: a table of all commands, each of which is loaded when it is called.

Finding a command requires only the standard library. `kafkawire --help` is therefore quick, the broker starts without
the dependencies of other commands, and a missing optional dependency is a one-line error in the command that needs it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from io import TextIOWrapper
from typing import Final, NamedTuple

from kafkawire.commands.streams import say, with_checked_output
from kafkawire.sdk.version import __version__

__all__ = ["COMMANDS", "INTERRUPTED", "Command", "main"]

#: The exit status of a program ended by SIGINT: 128 plus the number of the signal, as in shells.
INTERRUPTED: Final = 130

#: The options with which users set up completion; afterwards, the shell requests it with a variable.
_COMPLETION_OPTIONS: Final = ("--install-completion", "--show-completion")
_COMPLETION_VARIABLE: Final = "_KAFKAWIRE_COMPLETE"

#: Maximum number of characters of a name that is quoted in an error.
_NAME_CHARACTERS_MAX: Final = 60


class Command(NamedTuple):
    """A command.

    Attributes:
        module: the module with its `run(program, arguments)`.
        help: its help text.
        extras: the extras from pyproject.toml that its functions need, separated by commas.
        is_service: whether it keeps running if nothing reads its output.
    """

    module: str
    help: str
    extras: str = "cli"
    is_service: bool = False


COMMANDS: Final = {
    "broker": Command("kafkawire.commands.broker.broker", "Run the reference broker.", is_service=True),
    "cluster": Command(
        "kafkawire.commands.cluster.cluster",
        "Run brokers and a ZooKeeper server on this machine; kill, pause, restart them.",
        "cli,zookeeper",
        is_service=True,
    ),
    "codegen": Command(
        "kafkawire.commands.schemas.codegen", "Import, compare and document schemas; generate code; explain bytes."
    ),
    "conformance": Command(
        "kafkawire.commands.conformance.conformance", "Compare a codec or a broker with Apache Kafka."
    ),
    "demo": Command("kafkawire.commands.demo.demo", "Produce, consume, crash, restart and inspect in one run."),
    "dump": Command(
        "kafkawire.commands.inspection.dump", "Show segments, indexes and snapshots, and what is wrong with them."
    ),
    "groups": Command(
        "kafkawire.commands.groups.groups",
        "Move a group's offsets between ZooKeeper and Kafka.",
        "cli,zookeeper",
    ),
    "pipeline": Command(
        "kafkawire.commands.pipeline.pipeline", "Audit stored topics with Spark: tables and a report.", "cli,spark"
    ),
}

#: The import names of the packages in the `cli` extra. The commands `broker` and `dump` do not need them.
_CLI_PACKAGES: Final = frozenset({"jinja2", "rich", "typer", "yaml"})


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit status.

    Args:
        arguments: the arguments without the program's name; those of this process by default.

    Returns:
        0 for success; 1 if the command failed, the answer is no, or standard output cannot be written; 2 for invalid
        arguments or an extra that is not installed; 130 if interrupted; 141 if the reader of the output is gone.
    """
    if isinstance(sys.stderr, TextIOWrapper):  # a terminal without UTF-8 gets a replacement character
        sys.stderr.reconfigure(errors="replace")
    name, *rest = (sys.argv[1:] if arguments is None else arguments) or [""]
    command = COMMANDS.get(name)
    try:
        return with_checked_output(
            "kafkawire" if command is None else f"kafkawire {name}",
            lambda: _run(name, rest),
            is_service=command is not None and command.is_service,
        )
    except KeyboardInterrupt:
        return INTERRUPTED


def _run(name: str, arguments: Sequence[str]) -> int:
    if name in _COMPLETION_OPTIONS or _COMPLETION_VARIABLE in os.environ:
        return _complete([name, *arguments] if name else [])
    if name in ("", "-h", "--help"):
        print(_help())
        return 0 if name else 2
    if name == "--version":
        print(f"kafkawire {__version__}")
        return 0
    if name not in COMMANDS:
        from kafkawire.sdk.near_names import did_you_mean  # not needed for the help

        hint = did_you_mean(name, COMMANDS) or f"; expected one of {', '.join(COMMANDS)}"
        shown = name if len(name) <= _NAME_CHARACTERS_MAX else f"{name[:_NAME_CHARACTERS_MAX]}…"
        say("kafkawire", f"no such {'option' if name.startswith('-') else 'command'}: {shown}{hint}")
        return 2
    from kafkawire.sdk.errors import ConfigurationError  # not needed for the help

    try:
        status: int = import_module(COMMANDS[name].module).run(f"kafkawire {name}", arguments)
    except ConfigurationError as error:  # mainly for the engine that the environment selects
        say(f"kafkawire {name}", error)
        return 2
    except ModuleNotFoundError as error:
        return _without_extra(f"kafkawire {name}", COMMANDS[name].extras, error)
    return status


def _complete(arguments: Sequence[str]) -> int:
    try:
        from kafkawire.commands.completion import complete  # this also loads typer
    except ModuleNotFoundError as error:
        return _without_extra("kafkawire", "cli", error)
    return complete({name: command.module for name, command in COMMANDS.items()}, arguments)


def _without_extra(program: str, extras: str, error: ModuleNotFoundError) -> int:
    """Report the required extras and return the exit status; re-raise the error if it is a defect."""
    package = (error.name or "").partition(".")[0]
    if package not in _CLI_PACKAGES:
        raise error
    say(program, f"{package} is not installed (pip install 'kafkawire[{extras}]')")
    return 2


def _help() -> str:
    lines = [
        "usage: kafkawire COMMAND …",
        "",
        "Apache Kafka's wire and storage formats from one set of declarative schemas.",
        "",
        "commands:",
        *(f"  {name:<13}{command.help}" for name, command in COMMANDS.items()),
        "",
        "options:",
        "  --version              Print the version.",
        "  --install-completion   Complete command lines in this shell; needs the `cli` extra.",
        "  --show-completion      Print the completion script.",
        "  -h, --help             Print this help; `kafkawire COMMAND --help` explains a command.",
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
