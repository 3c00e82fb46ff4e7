"""A folder of schemas is read as a whole, and so are its mistakes.

Method: the project's schemas; a small folder without tables; one with a mistake in each kind of file.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from kafkawire.codegen import SCHEMAS
from kafkawire.codegen.located import SchemaError
from kafkawire.codegen.state import load_state

MESSAGE = "message: Lamp\nkind: data\nversions: 0\nfields: []\n"


def test_the_project() -> None:
    state = load_state(SCHEMAS)
    assert Path("messages/fetch.yaml") in state.files
    assert state.formats is not None
    assert "RecordBatch" in state.formats
    assert state.errors is not None
    assert state.errors[0].code == -1
    assert state.enumerations
    assert state.constants


def test_tables_that_are_missing(tmp_path: Path) -> None:
    (tmp_path / "lamp.yaml").write_text(MESSAGE)
    state = load_state(tmp_path)
    assert list(state.files) == [Path("lamp.yaml")]
    assert (state.formats, state.errors, state.enumerations, state.constants) == (None, None, None, None)


def test_every_mistake_once(tmp_path: Path) -> None:
    (tmp_path / "records").mkdir()
    (tmp_path / "lamp.yaml").write_text(MESSAGE.replace("data", "lamp"))
    (tmp_path / "errors.yaml").write_text("errors: 3\n")
    (tmp_path / "enumerations.yaml").write_text("enumerations: &a []\nconstants: []\n")
    (tmp_path / "records" / "batch.yaml").write_text("record_format: Batch\nfields: []\n")
    with pytest.raises(SchemaError) as caught:
        load_state(tmp_path)
    assert [(problem.path.name, problem.line) for problem in caught.value.problems] == [
        ("enumerations.yaml", 1),
        ("lamp.yaml", 2),
        ("batch.yaml", 1),
        ("errors.yaml", 1),
    ]
