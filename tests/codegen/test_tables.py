"""Error codes, enumerations and constants are read exactly, and mistakes are reported.

Method: read small tables with every key, and variants with one mistake each. `test_parity.py` compares the project's
tables with Kafka's.
"""

from __future__ import annotations

import pytest

from kafkawire.codegen.located import SchemaError
from kafkawire.codegen.tables import Constant, Enumeration, ErrorSpec, load_enumerations, load_errors
from tests.codegen.conftest import Write

ERRORS = """\
errors:
  - {code: 1, name: LATER, retriable: true, invalid_metadata: true, about: try again}
  - {code: -1, name: UNKNOWN, fatal: true}
"""
ENUMERATIONS = """\
enumerations:
  - name: Colour
    about: what it looks like
    values:
      RED: 1
      BLUE: -2
constants:
  - {name: NO_COLOUR, value: "", about: transparent}
  - {name: COLOURS, value: 2, about: how many}
"""
#: A second enumeration.
TWICE = "  - {{name: {}, about: the same, values: {{RED: 1}}}}\nconstants:"


def test_errors_in_order_of_their_codes(write: Write) -> None:
    assert load_errors(write(ERRORS)) == (
        ErrorSpec(-1, "UNKNOWN", fatal=True),
        ErrorSpec(1, "LATER", retriable=True, invalid_metadata=True, about="try again"),
    )


def test_enumerations(write: Write) -> None:
    assert load_enumerations(write(ENUMERATIONS)) == (
        (Enumeration("Colour", "what it looks like", {"RED": 1, "BLUE": -2}),),
        (Constant("NO_COLOUR", "", "transparent"), Constant("COLOURS", 2, "how many")),
    )


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("code: -1", "code: 1", ":3: UNKNOWN: the code 1 is used twice"),
        ("UNKNOWN", "LATER", ":3: LATER: the name is used twice"),
        ("fatal: true", "fatal: maybe", ":3: UNKNOWN: fatal: expected true or false, got 'maybe'"),
        ("fatal: true", "colour: red", ":3: unknown key 'colour'"),
        ("code: -1, ", "", ":3: UNKNOWN: 'code' is missing"),
        ("{code: -1, name: UNKNOWN, fatal: true}", "UNKNOWN", ":1: errors: expected a mapping, got 'UNKNOWN'"),
    ],
)
def test_mistakes_in_errors(write: Write, old: str, new: str, reason: str) -> None:
    with pytest.raises(SchemaError, match=reason):
        load_errors(write(ERRORS.replace(old, new)))


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("RED: 1", "RED: one", ":5: Colour: RED: expected an integer, got 'one'"),
        ("BLUE: -2", "RED: -2", ":6: key 'RED' is used twice"),
        ("    about: what it looks like\n", "", ":2: Colour: 'about' is missing"),
        ("name: Colour", "name: Import", ":2: name: 'import' is a Python keyword"),
        ("constants:", TWICE.format("Colour"), ":7: Colour: the name is used twice"),
        (
            "constants:",
            TWICE.format("COLOUR"),
            ":7: COLOUR: the module name 'colour' is already in use",
        ),
        ("NO_COLOUR", "MODULES", ":8: name: 'MODULES' is reserved"),
        ("value: 2", "value: [2]", "COLOURS: value: expected an integer or text, got "),
    ],
)
def test_mistakes_in_enumerations(write: Write, old: str, new: str, reason: str) -> None:
    with pytest.raises(SchemaError, match=reason):
        load_enumerations(write(ENUMERATIONS.replace(old, new)))
