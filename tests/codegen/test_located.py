"""YAML is read as values with their line numbers, and errors in a document state the file and line.

Method: read small documents, call each accessor on right and wrong values, and read several kinds of broken files.
"""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from kafkawire.codegen.located import (
    FILE_BYTES_MAX,
    NESTING_MAX,
    Located,
    Problem,
    Problems,
    SchemaError,
    parse,
    read_documents,
)
from tests.codegen.conftest import Write

TEXT = "name: x\nsize: 3\nflag: true\ninner:\n  deep: [1, {a: b}]\n"


@pytest.fixture
def document(write: Write) -> Located:
    return read_documents(write(TEXT))[0]


def test_values_and_lines(document: Located) -> None:
    assert document == {"name": "x", "size": 3, "flag": True, "inner": {"deep": [1, {"a": "b"}]}}
    assert (document.line, document.lines["flag"], document["inner"].line) == (1, 3, 5)


def test_several_documents(write: Write) -> None:
    first, second = read_documents(write("a: 1\n---\nb: 2\n"))
    assert (first, second, second.line) == ({"a": 1}, {"b": 2}, 3)


def test_descriptions(document: Located) -> None:
    assert document.text("name") == "x"
    assert document.text("about") == ""
    with pytest.raises(SchemaError, match="size"):
        document.text("size")


@pytest.mark.parametrize("text", ['""', '" "', '"a\\nb"', '"\\x00"'])
def test_what_is_no_description(write: Write, text: str) -> None:
    (document,) = read_documents(write(f"about: {text}\n"))
    with pytest.raises(SchemaError, match=":1: about: "):
        document.text("about")


def test_accessors(document: Located) -> None:
    assert document.require("size", int) == 3
    assert document.optional("size", (str, int), None) == 3
    assert document.optional("missing", int, 7) == 7
    document.only(["name", "size", "flag", "inner"])


@pytest.mark.parametrize(
    ("key", "kind", "message"),
    [
        ("missing", int, r":1: 'missing' is missing"),
        ("name", int, r":1: name: expected an integer, got 'x'"),
        ("flag", int, r":3: flag: expected an integer, got True"),
        ("size", (str, list), r":2: size: expected text or a list, got 3"),
    ],
)
def test_wrong_values(document: Located, key: str, kind: type, message: str) -> None:
    with pytest.raises(SchemaError, match=message):
        document.require(key, kind)


def test_unknown_key(document: Located) -> None:
    with pytest.raises(SchemaError, match=r":4: unknown key 'inner'; supported keys: flag, name, size"):
        document.only(["name", "size", "flag"])


@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [
        ("a: 1\nb: [1,\n", 3, "not YAML"),
        ("a: 1\na: 2\n", 2, "key 'a' is used twice"),
        ("a:\n  b: 1\n  b: 1\n", 3, "key 'b' is used twice"),
        ("- a\n", 1, "a schema must be a mapping"),
        ("a: 1\n---\ntext\n", 3, "a schema must be a mapping"),
        ("a: !!int x\n", 1, "tag 'tag:yaml.org,2002:int': schemas must not contain YAML tags"),
    ],
)
def test_broken_files(write: Write, text: str, line: int, reason: str) -> None:
    path = write(text)
    with pytest.raises(SchemaError, match=reason) as caught:
        list(read_documents(path))
    assert (caught.value.path, caught.value.line) == (path, line)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("no", "no"), ("yes", "yes"), ("Off", "Off"), ("null", None), ("~", None), ("", None), ("true", True),
        ("FALSE", False), ("12", 12), ("-12", -12), ("+3", 3), ("0x1f", 31), ("0o17", 15), ("017", 17),
        ("1_000", "1_000"),
        ("1:30", "1:30"), ("2024-01-01", "2024-01-01"), ("1e3", 1000.0), ("1.5", 1.5), (".5", 0.5),
        ("-.inf", -math.inf),
        ("<<", "<<"), ("=", "="), ('"12"', "12"), ("'true'", "true"), ("|\n  1", "1\n"), ("\u0661", "\u0661"),
    ],
)  # fmt: skip
def test_scalars_are_those_of_yaml_1_2(write: Write, text: str, value: object) -> None:
    (document,) = read_documents(write(f"a: {text}\n"))
    assert document["a"] == value
    assert type(document["a"]) is type(value)


@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [
        ("a: &b 1\n", 1, "anchor &b: schemas must not contain anchors or aliases"),
        ("a: 1\nb: *c\n", 2, "alias *c: schemas must not contain anchors or aliases"),
        ("a:\n  - &b [1]\n", 2, "anchor &b"),
        ("&a b: 1\n", 1, "anchor &a"),
        ("--- &a\nb: 1\n", 1, "anchor &a"),
        ("a: !x 1\n", 1, "tag '!x': schemas must not contain YAML tags"),
        ("a: !!python/name:os.system\n", 1, "schemas must not contain YAML tags"),
        ("? [a]\n: 1\n", 1, "a key must be a single word"),
        ("a: " + "9" * 41, 1, "a number has 41 characters; the limit is 40"),
        ("a: " + "[" * NESTING_MAX, 1, f"mappings and lists are nested more than {NESTING_MAX} levels deep"),
    ],
)
def test_what_schemas_do_not_need(write: Write, text: str, line: int, reason: str) -> None:
    with pytest.raises(SchemaError) as caught:
        read_documents(write(text))
    assert reason in str(caught.value)
    assert caught.value.line == line


def test_limits_are_within_reach(write: Write) -> None:
    (document,) = read_documents(write("a: " + "[" * (NESTING_MAX - 1) + "]" * (NESTING_MAX - 1) + "\n"))
    assert str(document["a"]).count("[") == NESTING_MAX - 1
    assert read_documents(write("a: 1\n#" + "x" * (FILE_BYTES_MAX - 6)))
    with pytest.raises(SchemaError, match=f"larger than {FILE_BYTES_MAX} bytes, the limit for a schema"):
        read_documents(write("a: 1\n#" + "x" * (FILE_BYTES_MAX - 5)))


def test_repeated_keys() -> None:
    content = b'{"a": 1, "b": {"c": 1, "c": 2}, "a": 3}'
    assert list(parse(Path("x.json"), content, repeated_keys=True)) == [{"a": 3, "b": {"c": 2}}]
    with pytest.raises(SchemaError, match=r"x\.json:1: key 'c' is used twice"):
        list(parse(Path("x.json"), content))


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(SchemaError, match=r"missing\.yaml: cannot be read: No such file or directory"):
        read_documents(tmp_path / "missing.yaml")


def test_problems_come_together_and_once() -> None:
    problems = Problems()
    problems.check()
    for line in (1, 2, 1):
        with problems.collect():
            raise SchemaError(Path("a.yaml"), line, "wrong", Problem(Path("b.yaml"), 0, "too"))
    assert problems.attempt(lambda: 3, 4) == 3
    assert problems.attempt(_fail, 4) == 4
    with pytest.raises(SchemaError) as caught:
        problems.check()
    assert str(caught.value) == "a.yaml:1: wrong\nb.yaml: too\na.yaml:2: wrong\nc.yaml: failed"


def _fail() -> int:
    raise SchemaError(Path("c.yaml"), 0, "failed")


def test_not_utf8(tmp_path: Path) -> None:
    (tmp_path / "latin.yaml").write_bytes(b"a: \xe4\n")
    with pytest.raises(SchemaError, match=r"latin\.yaml:1: not UTF-8: invalid continuation byte 0xe4"):
        list(read_documents(tmp_path / "latin.yaml"))
