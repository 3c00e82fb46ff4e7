"""Properties files are read as Java reads them.

Method: read a table of lines; write properties, and read them back.
"""

from __future__ import annotations

import pytest

from kafkawire.sdk.storage.damage import DamagedContent
from kafkawire.sdk.storage.properties import Property, parse_properties, properties_content, stored_properties


@pytest.mark.parametrize(
    ("text", "entries"),
    [
        ("", []),
        ("# a comment\n! another\n\n   \t\f\n", []),
        ("a=1", [("a", "1", "=")]),
        ("  a = 1 ", [("a", "1 ", "=")]),
        ("a:1", [("a", "1", ":")]),
        ("a 1 2", [("a", "1 2", "")]),
        ("a", [("a", "", "")]),
        ("a=", [("a", "", "=")]),
        ("=1", [("", "1", "=")]),
        ("a==1", [("a", "=1", "=")]),
        ("a = b = c", [("a", "b = c", "=")]),
        (r"a\=b\ c\:d=1", [("a=b c:d", "1", "=")]),
        (r"a=\u0041\t\n\\\q", [("a", "A\t\n\\q", "=")]),
        (r"a=\\u0041", [("a", r"\u0041", "=")]),
        ("a=1\r\nb=2\rc=3\n", [("a", "1", "="), ("b", "2", "="), ("c", "3", "=")]),
        ("a=1,\\\n    2,\\\r\n3", [("a", "1,2,3", "=")]),
        ("a=1\\\n# not a comment", [("a", "1# not a comment", "=")]),
        ("a=1\\\\\nb=2", [("a", "1\\", "="), ("b", "2", "=")]),
        ("a=1\\", [("a", "1", "=")]),
        ("# a comment\\\na=1", [("a", "1", "=")]),
        ("a=1\na=2", [("a", "1", "="), ("a", "2", "=")]),
    ],
)
def test_entries(text: str, entries: list[tuple[str, str, str]]) -> None:
    assert [entry[1:] for entry in parse_properties(text)] == entries


def test_entries_say_where_they_begin() -> None:
    text = "# first\na=1\n\nb=2\\\n  more\nc=3"
    assert parse_properties(text) == [
        Property(2, "a", "1", "="),
        Property(4, "b", "2more", "="),
        Property(6, "c", "3", "="),
    ]


@pytest.mark.parametrize("text", [r"a=1\u12", r"a=\u", r"a=\\\uxyzw", r"\u00g0=1"])
def test_what_java_refuses(text: str) -> None:
    content = f"a=1\n{text}\nb=2\n"
    with pytest.raises(DamagedContent, match=r"line 2: .*four hexadecimal"):
        parse_properties(content)
    told: list[DamagedContent] = []
    assert [entry.name for entry in parse_properties(content, told.append)] == ["a", "b"]
    assert len(told) == 1


def test_what_is_written_is_read() -> None:
    given = {" a b ": " v w ", "#c": "!d", "e=f:g": "\\\n\r\t\f", "h": "", "\u00e9\u2028": "\u0085\U0001f600"}
    assert stored_properties(properties_content(given)) == given
    assert properties_content({"b": 2, "a": "x"}) == b"a=x\nb=2\n"


def test_what_a_broker_writes() -> None:
    content = b"#\n#Sat Nov 21 13:39:46 UTC 2026\nnode.id=1\r\nversion = 1\n\ncluster.id=a=b\n!x\ny: z\nempty=\n"
    assert stored_properties(content) == {"node.id": "1", "version": "1", "cluster.id": "a=b", "y": "z", "empty": ""}


@pytest.mark.parametrize(
    "value",
    ["a\nb=c", "\n", "\r\n", " x ", " ", "", "#x", "!x", "a=b:c", "\\n", "\\", "t\tf\f", "ü \u2028\u0085\x1c", "😀\0"],
)
def test_no_value_can_break_a_file(value: str) -> None:
    known = {"first": value, value or "name": "x", "last": "y"}
    content = properties_content(known)
    assert stored_properties(content) == known
    assert content.count(b"\n") == len(content.decode().splitlines()) == 3


@pytest.mark.parametrize(
    ("content", "reason", "position", "sound"),
    [
        (b"no separator\na=1\n", "no name and value in the line 'no'", None, {"a": "1"}),
        (b"a=1\n=value\n", "no name and value in the line ''", None, {"a": "1"}),
        (b"a=1\nb=\xff\n", "not UTF-8: invalid start byte 0xff", 6, {}),
        (b"a=\\u12\nb=2\n", "line 1: \\u is not followed by four hexadecimal digits", None, {"b": "2"}),
    ],
)
def test_lines_that_say_nothing(content: bytes, reason: str, position: int | None, sound: dict[str, str]) -> None:
    with pytest.raises(DamagedContent) as caught:
        stored_properties(content)
    assert (caught.value.reason, caught.value.position) == (reason, position)
    told: list[DamagedContent] = []
    assert stored_properties(content, told.append) == sound
    assert [each.reason for each in told] == [reason]
