"""Every kind of change to a table or record format gets the right verdict on its bytes.

Method: change a folder of schemas in one place; the table gives the change that `compare` must find.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from kafkawire.codegen import SCHEMAS
from kafkawire.codegen.evolution import compare
from kafkawire.codegen.state import State, load_state

FILES = {
    "lamp.yaml": "message: Lamp\nkind: data\nversions: 0\nfields: []\n",
    "errors.yaml": """\
errors:
  - {code: 1, name: LATER, retriable: true}
  - {code: 2, name: NEVER, fatal: true}
""",
    "enumerations.yaml": """\
enumerations:
  - name: Colour
    about: what it looks like
    values:
      RED: 1
      BLUE: 2
constants:
  - {name: NO_COLOUR, value: "", about: transparent}
""",
    "records/parcel.yaml": """\
record_format: Parcel
about: Something with a label.
magic: 3
fields:
  - {name: size, type: int32, measures: crc..end}
  - {name: crc, type: uint32, checksum: crc32c, covers: flags..end}
  - name: flags
    type: int16
    bits:
      kind: {at: 0-2, enum: [box, bag]}
      is_fragile: {at: 5}
  - {name: label, type: bytes?, length: varint}
  - {name: count, type: int32, default: 1}
""",
}

CASES = [
    ("errors.yaml", "about", "about", []),
    ("errors.yaml", "code: 2", "code: 3", ["ErrorCode NEVER: code 2 became 3 (breaks the wire)"]),
    ("errors.yaml", "  - {code: 2, name: NEVER, fatal: true}\n", "", ["ErrorCode NEVER: removed, code 2 (note)"]),
    ("errors.yaml", "NEVER", "HARDLY", ["ErrorCode NEVER: renamed to HARDLY (note)"]),
    ("errors.yaml", ", retriable: true", "", ["ErrorCode LATER: no longer retriable (note)"]),
    ("errors.yaml", "fatal: true", "invalid_metadata: true", ["ErrorCode NEVER: now invalid_metadata (note)",
                                                              "ErrorCode NEVER: no longer fatal (note)"]),
    ("errors.yaml", "fatal: true}\n", "fatal: true}\n  - {code: 9, name: SOON, retriable: true}\n",
     ["ErrorCode SOON: new, code 9, retriable (compatible)"]),
    ("errors.yaml", "{code: 1, name: LATER, retriable: true}\n  - {code: 2, name: NEVER, fatal: true}",
     "{code: 2, name: LATER, retriable: true}\n  - {code: 1, name: NEVER, fatal: true}",
     ["ErrorCode LATER: code 1 became 2 (breaks the wire)", "ErrorCode NEVER: code 2 became 1 (breaks the wire)"]),
    ("enumerations.yaml", "RED: 1", "RED: 3", ["Colour RED: 1 became 3 (breaks the wire)"]),
    ("enumerations.yaml", "      RED: 1\n", "", ["Colour RED: removed, 1 (note)"]),
    ("enumerations.yaml", "BLUE: 2", "BLUE: 2\n      GREEN: 3", ["Colour GREEN: new, 3 (compatible)"]),
    ("enumerations.yaml", "Colour", "Paint", ["Colour: enumeration removed (note)",
                                              "Paint: new enumeration (compatible)"]),
    ("enumerations.yaml", 'value: ""', "value: none", ["constants NO_COLOUR: '' became 'none' (breaks the wire)"]),
    ("enumerations.yaml", 'name: NO_COLOUR, value: ""', "name: COLOURS, value: 7",
     ["constants NO_COLOUR: removed, '' (note)", "constants COLOURS: new, 7 (compatible)"]),
    ("records/parcel.yaml", "magic: 3", "magic: 4", ["Parcel: magic 3 became 4 (breaks the wire)"]),
    ("records/parcel.yaml", "record_format: Parcel", "record_format: Box",
     ["Box: new record format (compatible)", "Parcel: record format removed (note)"]),
    ("records/parcel.yaml", "  - {name: label, type: bytes?, length: varint}\n", "",
     ["Parcel label: removed (breaks the wire)"]),
    ("records/parcel.yaml", "default: 1}\n", "default: 1}\n  - {name: more, type: varint}\n",
     ["Parcel more: added, varint (breaks the wire)"]),
    ("records/parcel.yaml", "type: bytes?", "type: bytes",
     ["Parcel label: type bytes? became bytes (breaks the wire)"]),
    ("records/parcel.yaml", "length: varint", "length: int16",
     ["Parcel label: length varint became int16 (breaks the wire)"]),
    ("records/parcel.yaml", "measures: crc", "measures: flags",
     ["Parcel size: measures crc became flags (breaks the wire)"]),
    ("records/parcel.yaml", "checksum: crc32c", "checksum: crc32",
     ["Parcel crc: checksum crc32c became crc32 (breaks the wire)"]),
    ("records/parcel.yaml", "covers: flags", "covers: label",
     ["Parcel crc: covers flags became label (breaks the wire)"]),
    ("records/parcel.yaml", "default: 1", "default: 2", ["Parcel count: default 1 became 2 (note)"]),
    ("records/parcel.yaml", "default: 1", "default: 1, const: 1",
     ["Parcel count: const none became 1 (breaks the wire)"]),
    ("records/parcel.yaml", "at: 5", "at: 6", ["Parcel flags.is_fragile: bits 5-5 became 6-6 (breaks the wire)"]),
    ("records/parcel.yaml", "at: 0-2", "at: 0-3", ["Parcel flags.kind: bits 0-2 became 0-3 (breaks the wire)"]),
    ("records/parcel.yaml", "      is_fragile: {at: 5}\n", "", ["Parcel flags.is_fragile: bits removed (note)"]),
    ("records/parcel.yaml", "is_fragile: {at: 5}", "is_fragile: {at: 5}\n      is_wet: {at: 6}",
     ["Parcel flags.is_wet: bits added (note)"]),
    ("records/parcel.yaml", "[box, bag]", "[box, bag, tube]", ["Parcel flags.kind: value 2 added, tube (note)"]),
    ("records/parcel.yaml", "[box, bag]", "[bag, box]",
     ["Parcel flags.kind: value 0, box, became bag (breaks the wire)",
      "Parcel flags.kind: value 1, bag, became box (breaks the wire)"]),
    ("records/parcel.yaml", "[box, bag]", "[box]",
     ["Parcel flags.kind: value 1, bag, became unused (breaks the wire)"]),
]  # fmt: skip


def state(folder: Path, changed: str = "", old: str = "", new: str = "") -> State:
    for name, text in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text.replace(old, new) if name == changed else text)
    return load_state(folder)


@pytest.mark.parametrize(("name", "old", "new", "expected"), CASES, ids=[f"{n} {a} {b}" for n, a, b, _ in CASES])
def test_change(tmp_path: Path, name: str, old: str, new: str, expected: list[str]) -> None:
    assert old == new or FILES[name].count(old) == 1
    before, after = state(tmp_path / "a"), state(tmp_path / "b", name, old, new)
    assert [str(change) for change in compare(before, after)] == expected


def test_fields_that_moved(tmp_path: Path) -> None:
    label, count = FILES["records/parcel.yaml"].splitlines(keepends=True)[-2:]
    changes = compare(state(tmp_path / "a"), state(tmp_path / "b", "records/parcel.yaml", label + count, count + label))
    assert list(map(str, changes)) == ["Parcel label: moved (breaks the wire)"]


def test_what_one_state_does_not_have_is_not_compared(tmp_path: Path) -> None:
    whole = state(tmp_path)
    messages = State(whole.files)
    assert compare(whole, messages) == compare(messages, whole) == []
    assert compare(whole, replace(whole, errors=None)) == []


def test_the_same_state_has_no_changes() -> None:
    assert compare(load_state(SCHEMAS), load_state(SCHEMAS)) == []
