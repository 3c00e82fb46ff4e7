"""Numbers are imported from a release's tables, texts are kept, and entries missing from a table are reported.

Method: import small tables into small schemas, then Kafka's own tables, which change nothing.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from kafkawire.codegen import SCHEMAS
from kafkawire.codegen.import_tables import table_texts
from kafkawire.codegen.located import SchemaError
from kafkawire.codegen.tables import Constant, Enumeration, ErrorSpec, load_enumerations, load_errors

VECTORS = SCHEMAS.parent / "conformance" / "vectors"

CODES = [
    {"code": 3, "name": "LATER", "retriable": True, "invalid_metadata": False},
    {"code": -1, "name": "BAD", "retriable": False, "invalid_metadata": True},
]
NUMBERS: dict[str, Any] = {
    "enumerations": {
        "Colour.Type": [{"name": "blue", "id": 2}, {"name": "RED", "code": 1}, {"name": "NO", "value": False}]
    },
    "constants": {"Colours": {"HOW_MANY": 3}},
}
ERRORS = "errors:\n  - {code: 4, name: LATER, fatal: true, about: in a while}\n"
ENUMERATIONS = """\
enumerations:
  - name: Colour
    about: what it looks like
    source: Colour.Type
    values:
      RED: 7
  - name: Own
    about: not Kafka's
    values:
      ONE: 1
constants:
  - {name: COLOURS, value: 2, source: Colours.HOW_MANY, about: how many}
  - {name: OWN, value: x, about: ours}
"""


@pytest.fixture
def schemas(tmp_path: Path) -> Path:
    folder = tmp_path / "schemas"
    folder.mkdir()
    (folder / "errors.yaml").write_text(ERRORS)
    (folder / "enumerations.yaml").write_text(ENUMERATIONS)
    return folder


def tables(folder: Path, codes: Any = CODES, numbers: Any = NUMBERS) -> Path:
    (folder / "error_codes.json").write_text(json.dumps(codes))
    (folder / "api_keys.json").write_text(json.dumps(numbers))
    return folder


def imported(tables: Path, schemas: Path) -> tuple[Path, ...]:
    """Write the tables into the schemas, and return the files that changed."""
    texts = table_texts(tables, schemas)
    found = {path: schemas / path for path in texts}
    changed = tuple(path for path, file in found.items() if not file.exists() or file.read_text() != texts[path])
    for path in changed:
        found[path].write_text(texts[path])
    return changed


def test_numbers_change_and_words_stay(tmp_path: Path, schemas: Path) -> None:
    assert imported(tables(tmp_path), schemas) == (Path("errors.yaml"), Path("enumerations.yaml"))
    assert load_errors(schemas / "errors.yaml") == (
        ErrorSpec(-1, "BAD", invalid_metadata=True),
        ErrorSpec(3, "LATER", retriable=True, fatal=True, about="in a while"),
    )
    assert load_enumerations(schemas / "enumerations.yaml") == (
        (
            Enumeration("Colour", "what it looks like", {"NO": 0, "RED": 1, "BLUE": 2}, "Colour.Type"),
            Enumeration("Own", "not Kafka's", {"ONE": 1}),
        ),
        (Constant("COLOURS", 3, "how many", "Colours.HOW_MANY"), Constant("OWN", "x", "ours")),
    )
    assert imported(tables(tmp_path), schemas) == ()


def test_errors_alone(tmp_path: Path) -> None:
    (tmp_path / "new").mkdir()
    assert imported(tables(tmp_path), tmp_path / "new") == (Path("errors.yaml"),)


@pytest.mark.parametrize(
    ("codes", "numbers", "reason"),
    [
        (CODES, {**NUMBERS, "enumerations": {}}, r"api_keys\.json: 'Colour\.Type' is missing"),
        (CODES, {**NUMBERS, "constants": {"Colours": {}}}, r"api_keys\.json: 'HOW_MANY' is missing"),
        ([{"name": "LATER"}], NUMBERS, r"error_codes\.json: 'code' is missing"),
        ([1], NUMBERS, r"error_codes\.json: not a valid table"),
    ],
)
def test_tables_that_do_not_fit(tmp_path: Path, schemas: Path, codes: Any, numbers: Any, reason: str) -> None:
    with pytest.raises(SchemaError, match=f"^{tmp_path}/{reason}"):
        imported(tables(tmp_path, codes, numbers), schemas)
    assert (schemas / "errors.yaml").read_text() == ERRORS


def test_not_json(tmp_path: Path, schemas: Path) -> None:
    tables(tmp_path)
    (tmp_path / "api_keys.json").write_text("{")
    with pytest.raises(SchemaError, match=r"api_keys\.json: not a valid table"):
        imported(tmp_path, schemas)
    (tmp_path / "api_keys.json").unlink()
    with pytest.raises(SchemaError, match=r"api_keys\.json: cannot be read: No such file"):
        imported(tmp_path, schemas)


def test_the_tables_of_the_release_change_nothing(tmp_path: Path) -> None:
    shutil.copytree(SCHEMAS, tmp_path / "schemas")
    assert imported(VECTORS, tmp_path / "schemas") == ()
