"""A folder of schemas is read as a whole, and all its mistakes are reported together.

Method: read the project's schemas, a small folder without tables, and a folder with a mistake in each kind of file;
compare part of a release with the whole.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from kafkawire.codegen import SCHEMAS
from kafkawire.codegen.located import SchemaError
from kafkawire.codegen.state import State, comparable, load_state

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


PART = {
    "messages/fetch.yaml": None,
    "greet.yaml": "api: Greet\nkey: 910\nlisteners: [broker]\nrequest: {versions: 0, fields: []}\n"
    "response: {versions: 0, fields: []}\n",
    "header.yaml": "message: RequestHeader\nkind: header\nversions: 1\nfields: []\n",
    "errors.yaml": "errors:\n  - {code: 0, name: FINE}\n  - {code: 3, name: NONE}\n  - {code: 4711, name: RUDE}\n",
    "enumerations.yaml": "enumerations:\n  - {name: Acks, about: a, values: {NONE: 0}}\nconstants: []\n",
}


@pytest.fixture
def part(tmp_path: Path) -> State:
    """Return a state with a few parts of the project's schemas and some additional parts."""
    for name, text in PART.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text((SCHEMAS / name).read_text() if text is None else text)
    return load_state(tmp_path)


def test_a_part_beside_a_release(part: State) -> None:
    whole = load_state(SCHEMAS)
    for one, other in (comparable(whole, part), reversed(comparable(part, whole))):
        assert other is part
        assert one.names == {"FetchRequest", "FetchResponse", "RequestHeader"}
        assert [(error.code, error.name) for error in one.errors or ()] == [
            (0, "NONE"),
            (3, "UNKNOWN_TOPIC_OR_PARTITION"),
        ]
        assert [item.name for item in one.enumerations or ()] == ["Acks"]
        assert (one.constants, one.formats) == ((), {})


def test_states_of_the_same_extent_are_compared_whole(part: State) -> None:
    whole, empty = load_state(SCHEMAS), State({})
    for pair in ((whole, whole), (part, empty), (empty, part)):
        assert comparable(*pair) == pair
