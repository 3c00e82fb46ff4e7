"""Run `kafkawire codegen` in the process of the tests."""

from __future__ import annotations

from typer.testing import CliRunner

from kafkawire.commands.codegen import app

__all__ = ["OWN", "run"]

#: A schema of somebody's own.
OWN = """\
api: Greet
key: 900
listeners: [broker]
request:
  versions: 0-1
  flexible: 1+
  fields:
    - name: people
      type: "[]Person"
      fields:
        - {name: name, type: string, about: of the person}
        - {name: identity, type: uuid, versions: 1+}
response:
  versions: 0-1
  fields: []
"""


def run(*arguments: object, code: int = 0, stdin: str = "") -> str:
    """Run a command and return what it printed, on both streams."""
    result = CliRunner().invoke(app, list(map(str, arguments)), input=stdin)
    assert result.exit_code == code, result.output
    return result.output
