"""Run `kafkawire codegen` in the test process."""

from __future__ import annotations

from pathlib import Path

from typer.testing import CliRunner

from kafkawire.commands.schemas.codegen import app

__all__ = ["OWN", "run", "write_record_schemas"]

#: A user's own schema.
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

#: A user's own records: one with a type, one in a frame, and one whose value is a bare message.
_RECORDS = {
    "visit.yaml": """\
record: Visit
type: 9
topic: __visits
key:
  versions: 0
  fields:
    - {name: visitor, type: string}
value:
  versions: 0-1
  flexible: 1+
  fields:
    - {name: minutes, type: int32}
""",
    "lamps/lamp.yaml": """\
message: LampRecord
kind: metadata
type: 42
versions: 0
flexible: 0+
fields:
  - {name: lamp_id, type: int32}
""",
    "invoice.yaml": """\
message: Invoice
kind: data
versions: 0
fields:
  - {name: cents, type: int64}
""",
}


def write_record_schemas(folder: Path) -> Path:
    """Write the schemas of a user's own records: `Visit` in `__visits`, `LampRecord` in `__lamps`, and `Invoice`."""
    for name, text in _RECORDS.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def run(*arguments: object, code: int = 0, stdin: str = "") -> str:
    """Run a command and return its output from both streams."""
    result = CliRunner().invoke(app, list(map(str, arguments)), input=stdin)
    assert result.exit_code == code, result.output
    return result.output
