"""The command `kafkawire`: every part of the product under one roof.

A part is imported when its command is called, so that `kafkawire --help` answers at once and a missing optional
dependency of one part does not hinder the others.
"""

from __future__ import annotations

from importlib import import_module
from typing import NamedTuple

import typer

from kafkawire import __version__

__all__ = ["main"]


class _Part(NamedTuple):
    """The module and name of a Typer app, and what its help says."""

    module: str
    app: str
    help: str


_PARTS = {
    "broker": _Part("kafkawire.reference_broker.cli", "app", "Run the reference broker."),
    "codegen": _Part("kafkawire.explain", "codegen", "Schemas: import, generate, compare, document, explain bytes."),
    "conformance": _Part("kafkawire.conformance.cli", "app", "Compare a codec or a broker with Apache Kafka."),
    "demo": _Part("kafkawire.demo", "app", "Produce, consume, restart and inspect, in one run."),
}

#: A part sees its arguments untouched, `--help` included.
_PASS_ON = {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}

_app = typer.Typer(
    name="kafkawire",
    help="Apache Kafka's wire and storage formats from one set of declarative schemas.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def main() -> None:
    """Run the command line of this process."""
    _app()


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"kafkawire {__version__}")
        raise typer.Exit


@_app.callback()
def _root(
    version: bool = typer.Option(False, "--version", is_eager=True, callback=_version, help="Print the version."),
) -> None:
    """Apache Kafka's wire and storage formats from one set of declarative schemas."""


def _add(name: str, part: _Part) -> None:
    @_app.command(name, help=part.help, context_settings=_PASS_ON, add_help_option=False)
    def run(context: typer.Context) -> None:
        app = getattr(import_module(part.module), part.app)
        app(args=context.args, prog_name=f"kafkawire {name}")


for _name, _entry in _PARTS.items():
    _add(_name, _entry)

if __name__ == "__main__":
    main()
