"""Names are accepted only if they are valid in generated code.

Method: check a table of names, and compare the imports of generated modules and the attributes of message classes with
the reserved names.
"""

from __future__ import annotations

import ast
import keyword
from pathlib import Path

import pytest

import kafkawire.sdk.protocol.messages as messages
import kafkawire.sdk.protocol.tables as tables
from kafkawire.codegen.names import (
    TAKEN_CONSTANTS,
    TAKEN_FIELDS,
    TAKEN_TYPES,
    TAKEN_ZNODE_NAMES,
    constant_problem,
    field_problem,
    near,
    shown,
    type_problem,
)
from kafkawire.sdk.protocol.programs import message_class
from kafkawire.sdk.protocol.tables import enums


@pytest.mark.parametrize("name", ["a", "topic_id", "no", "match", "type", "x1", "a_1"])
def test_field(name: str) -> None:
    assert field_problem(name) == ""


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("Topic", "not snake_case"),
        ("topicId", "not snake_case"),
        ("_topic", "not snake_case"),
        ("topic__id", "not snake_case"),
        ("a\n", "not snake_case"),
        ("", "not snake_case"),
        ("é", "not snake_case"),
        ("self", "reserved"),
        ("unknown_tags", "reserved"),
        *((word, "a Python keyword") for word in keyword.kwlist if word.islower()),
    ],
)
def test_wrong_field(name: str, reason: str) -> None:
    assert reason in field_problem(name)


@pytest.mark.parametrize("name", ["Topic", "A", "MessageV0", "Versions"])
def test_type(name: str) -> None:
    assert type_problem(name) == ""


@pytest.mark.parametrize("name", ["topic", "Topic_Id", "", "None", "True", "Tópico", "A\n", *sorted(TAKEN_TYPES)])
def test_wrong_type(name: str) -> None:
    assert type_problem(name)


def test_constant() -> None:
    assert [bool(constant_problem(name)) for name in ("NO_NODE", "A1", "no_node", "1A", "A__B", "")] == (
        [False, False, True, True, True, True]
    )
    assert all(map(constant_problem, TAKEN_CONSTANTS))
    assert vars(enums).keys() >= TAKEN_CONSTANTS


def test_what_generated_modules_import_is_taken() -> None:
    imported = set()
    for package in (messages, tables):
        for path in Path(str(package.__file__)).parent.rglob("*.py"):
            if path.parent.name == "tables" and path.name.startswith(("record_", "config", "znodes")):
                continue  # no message schema uses their types
            for node in ast.parse(path.read_text()).body:
                if isinstance(node, ast.ImportFrom) and node.module != "__future__":
                    imported.update(alias.asname or alias.name for alias in node.names)
    assert [name for name in sorted(imported - {"Api"}) if not type_problem(name)] == []


def test_names_that_the_module_of_znodes_imports_are_taken() -> None:
    module = ast.parse((Path(str(tables.__file__)).parent / "znodes.py").read_text())
    imports = [node for node in module.body if isinstance(node, ast.ImportFrom) and node.module != "__future__"]
    names = {alias.name for node in imports for alias in node.names}
    assert {name for name in names if not name.islower()} == TAKEN_ZNODE_NAMES


def test_what_message_classes_have_is_taken() -> None:
    message = message_class("ListGroupsRequest")
    own = {name for name in dir(message) if not name.startswith("_")}
    assert own - {field.name for field in message.FIELDS} <= TAKEN_FIELDS | TAKEN_TYPES


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("FetchRequst", "; did you mean FetchRequest?"),
        ("fetchrequest", "; did you mean FetchRequest?"),
        ("Fetc", "; did you mean FetchRequest?"),
        ("OffsetComitKey", "; did you mean OffsetCommitKey?"),
        ("offsetcommit", "; did you mean OffsetCommitKey?"),
        ("Weather", ""),
        ("", ""),
        ("x" * 1_000_000, ""),
    ],
)
def test_near(name: str, hint: str) -> None:
    assert near(name, ["FetchRequest", "FetchResponse", "OffsetCommitKey", "OffsetCommitValue"]) == hint


@pytest.mark.parametrize(("value", "text"), [("a\nb", r"'a\nb'"), (None, "None"), ("x" * 10_000, f"'{'x' * 59}…")])
def test_shown(value: object, text: str) -> None:
    assert shown(value) == text
