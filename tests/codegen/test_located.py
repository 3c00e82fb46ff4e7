"""Values come out of YAML with their lines, and what is wrong with a document is said with file and line.

Method: small documents; each accessor with right and wrong values; broken files of several kinds.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from kafkawire.codegen.located import Located, SchemaError, read_documents
from tests.codegen.conftest import Write

TEXT = "name: x\nsize: 3\nflag: true\ninner:\n  deep: [1, {a: b}]\n"


@pytest.fixture
def document(write: Write) -> Located:
    return next(read_documents(write(TEXT)))


def test_values_and_lines(document: Located) -> None:
    assert document == {"name": "x", "size": 3, "flag": True, "inner": {"deep": [1, {"a": "b"}]}}
    assert (document.line, document.lines["flag"], document["inner"].line) == (1, 3, 5)


def test_several_documents(write: Write) -> None:
    first, second = read_documents(write("a: 1\n---\nb: 2\n"))
    assert (first, second, second.line) == ({"a": 1}, {"b": 2}, 3)


def test_accessors(document: Located) -> None:
    assert document.require("size", int) == 3
    assert document.optional("size", (str, int), None) == 3
    assert document.optional("missing", int, 7) == 7
    document.only(["name", "size", "flag", "inner"])


@pytest.mark.parametrize(
    ("key", "kind", "message"),
    [
        ("missing", int, r":1: 'missing' is missing"),
        ("name", int, r":1: name: 'x' is not of type int"),
        ("flag", int, r":3: flag: True is not of type int"),
        ("size", (str, list), r":2: size: 3 is not of type str or list"),
    ],
)
def test_wrong_values(document: Located, key: str, kind: type, message: str) -> None:
    with pytest.raises(SchemaError, match=message):
        document.require(key, kind)


def test_unknown_key(document: Located) -> None:
    with pytest.raises(SchemaError, match=r":4: unknown key 'inner'; known here: flag, name, size"):
        document.only(["name", "size", "flag"])


@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [
        ("a: 1\nb: [1,\n", 3, "not YAML"),
        ("a: 1\na: 2\n", 2, "key 'a' stands twice"),
        ("a:\n  b: 1\n  b: 1\n", 3, "key 'b' stands twice"),
        ("- a\n", 1, "a schema file holds mappings"),
        ("a: 1\n---\ntext\n", 3, "a schema file holds mappings"),
        ("a: !!int x\n", 1, "'x'"),
    ],
)
def test_broken_files(write: Write, text: str, line: int, reason: str) -> None:
    path = write(text)
    with pytest.raises(SchemaError, match=reason) as caught:
        list(read_documents(path))
    assert (caught.value.path, caught.value.line) == (path, line)


def test_not_utf8(tmp_path: Path) -> None:
    (tmp_path / "latin.yaml").write_bytes(b"a: \xe4\n")
    with pytest.raises(SchemaError, match=r"latin\.yaml: not YAML"):
        list(read_documents(tmp_path / "latin.yaml"))
